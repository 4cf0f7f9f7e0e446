"""A kind of plant like a spacecraft channel: one continuous telemetry signal, and many discrete commands.

Some commands drive the signal: modes and registers set its level and the size of its oscillation, pulses make it ring.
Others follow another command, happen rarely, or never. All dynamics are counted in rows."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy  # `scipy.signal`, slow to import, is imported when it is used
from numpy.typing import NDArray

from tsadc.data.plant_design import (
    Bias,
    Design,
    Edge,
    autoregressive,
    delayed,
    first_order_lag,
    rotation,
    segments,
    wave,
)
from tsadc.series import Floats

SIGNAL = "telemetry"
ROLES = ("mode", "pulse", "echo", "periodic", "register", "rare", "pulse", "unused")  # of the commands, in turn
DRIVING = 16  # commands; those after them have no effect on the signal
ECHO = 2  # rows from a pulse to its echo
_RINGING = 8.0, 12.0  # decay and period in rows of the response to a pulse
# Mean size of the effect of a command, and lag in rows. The sign and size of each channel are its own.
_EFFECTS = {"mode": (0.8, 1), "pulse": (0.9, 1), "periodic": (0.5, 2), "register": (0.15, 0)}


class Telemetry(Design):
    """A channel of one signal and as many commands as there are further variables."""

    default_variables: ClassVar[int] = 33

    def __init__(self, variables: int) -> None:
        self._roles = {f"command_{i + 1:02d}": ROLES[i % len(ROLES)] for i in range(variables - 1)}
        commands = list(self._roles)
        self.names = (SIGNAL, *commands)
        edges = []
        for i, (name, role) in enumerate(self._roles.items()):
            if role in _EFFECTS and i < DRIVING:
                edges.append(Edge(name, SIGNAL, *_EFFECTS[role]))
            if role == "echo":
                edges.append(Edge(commands[i - 1], name, 1.0, ECHO))
        self.edges = tuple(edges)
        self.oscillating = self.faultable = [0]

    def simulate(self, days: Floats, generator: np.random.Generator, bias: Bias | None = None) -> Floats:
        rows = len(days)
        turns = rotation(rows, generator.uniform(15, 40), generator)
        own = autoregressive(rows, 0.25, 30, generator) + autoregressive(rows, 0.4, 3000, generator)
        own += 0.08 * np.exp(0.3 * generator.standard_normal()) * generator.standard_normal(rows)
        centre, swing = generator.standard_normal(), np.exp(0.5 * generator.standard_normal())
        out = np.zeros((rows, len(self.names)))
        level, ringing, size = np.zeros(rows), np.zeros(rows), np.ones(rows)
        effects = {edge.cause: edge for edge in self.edges if edge.effect == SIGNAL}
        for column, (name, role) in enumerate(self._roles.items(), start=1):
            command = out[:, column]
            command[:] = delayed(out[:, column - 1], ECHO) if role == "echo" else _command(role, turns, generator)
            gain = generator.choice([-1.0, 1.0]) * np.exp(0.4 * generator.standard_normal())
            if name not in effects:
                continue
            effect = gain * effects[name].gain * delayed(command, effects[name].lag)
            if role == "pulse":
                ringing += effect
            elif role == "register":
                size += effect
            else:
                level += effect
        state = first_order_lag(level, 4) + _ring(ringing) + 0.7 * np.clip(size, 0.4, 2.0) * wave(turns)
        out[:, 0] = centre + swing * (state + own)
        return out


def _command(role: str, turns: Floats, generator: np.random.Generator) -> Floats:
    """Draw a command (time,). Each channel has its own rates."""
    rows, rate = len(turns), float(np.exp(0.3 * generator.standard_normal()))
    values: NDArray[Any]
    if role == "mode":
        segment, _ = segments(rows, 20, 200 / rate, generator)
        values = segment % 2
    elif role == "register":
        segment, count = segments(rows, 60, 400 / rate, generator)
        values = generator.integers(0, 5, count)[segment]
    elif role == "periodic":
        values = (turns + generator.random()) % 1 < 0.15
    elif role == "unused":
        values = np.zeros(rows)
    else:
        values = generator.random(rows) < rate * (1 / 60 if role == "pulse" else 1 / 3000)
    command: Floats = values.astype(float)
    return command


def _ring(pulses: Floats) -> Floats:
    """Return a damped oscillation after each pulse."""
    decay, period = _RINGING
    keep, turn = np.exp(-1 / decay), 2 * np.pi / period
    ringing: Floats = scipy.signal.lfilter([1.0], [1.0, -2 * keep * np.cos(turn), keep**2], pulses)
    return ringing
