"""The default kind of plant: production lines whose sensors follow hidden causes through a known graph.

Load, weather and operating regime drive a few hidden causes, and the causes drive the sensors. Daily and weekly cycles
follow the clock; all other dynamics are counted in rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tsadc.data.plant_design import (
    Bias,
    Design,
    Edge,
    autoregressive,
    delayed,
    first_order_lag,
    on_line,
    rotation,
    segments,
    wave,
)
from tsadc.series import Floats


@dataclass(frozen=True, slots=True)
class _Cause:
    """A hidden cause: a share of load and weather and a set-point per regime, which it follows with a time constant of
    `inertia` rows, plus an AR(1) process of standard deviation `wander` and a time constant of `memory` rows."""

    load: float
    weather: float
    setpoints: tuple[float, float, float]
    wander: float
    memory: float
    inertia: float


@dataclass(frozen=True, slots=True)
class _Sensor:
    """One sensor, in units of `swing` around `centre`. The AR(1) process `wander` is passed on to the sensors that it
    drives, `noise` is not; `curve` bends its response; `phase` (in turns) makes it oscillate."""

    centre: float
    swing: float
    inertia: float
    wander: float
    noise: float
    curve: float = 0.0
    phase: float | None = None


_CAUSES = {
    "demand": _Cause(0.9, 0.0, (0.0, 0.9, -0.8), wander=0.6, memory=25, inertia=6),
    "head": _Cause(0.3, 0.0, (0.0, -0.6, 0.7), wander=0.7, memory=15, inertia=3),
    "heat": _Cause(0.5, 0.2, (0.0, 0.5, 0.4), wander=0.7, memory=40, inertia=10),
    "weather": _Cause(0.0, 1.0, (0.0, 0.0, 0.0), wander=0.6, memory=60, inertia=15),
}

# Causes come before effects, and two of the first four oscillate, so that every prefix is a plant.
_SENSORS = {
    "feed.flow": _Sensor(120.0, 12.0, inertia=2, wander=0.12, noise=0.12),
    "pump.speed": _Sensor(1480.0, 60.0, inertia=1, wander=0.12, noise=0.10),
    "motor.vibration_x": _Sensor(0.0, 1.6, inertia=0, wander=0.0, noise=0.15, phase=0.0),
    "motor.vibration_y": _Sensor(0.0, 1.3, inertia=0, wander=0.0, noise=0.15, phase=0.25),
    "pump.pressure": _Sensor(6.2, 0.5, inertia=2, wander=0.10, noise=0.12, curve=0.10),
    "motor.current": _Sensor(41.0, 4.0, inertia=0, wander=0.10, noise=0.12, curve=0.05),
    "pump.pulsation": _Sensor(0.0, 0.12, inertia=0, wander=0.0, noise=0.15, phase=0.6),
    "inlet.temperature": _Sensor(18.0, 3.0, inertia=3, wander=0.10, noise=0.10),
    "outlet.temperature": _Sensor(64.0, 4.5, inertia=4, wander=0.10, noise=0.10),
    "valve.position": _Sensor(55.0, 9.0, inertia=1, wander=0.10, noise=0.12, curve=-0.08),
    "tank.level": _Sensor(2.4, 0.3, inertia=5, wander=0.10, noise=0.10),
    "supply.power": _Sensor(96.0, 9.0, inertia=0, wander=0.10, noise=0.12),
}

_EDGES = (
    Edge("demand", "feed.flow", 1.0),
    Edge("feed.flow", "pump.speed", 0.7, 1),
    Edge("head", "pump.speed", 0.7),
    Edge("pump.speed", "motor.vibration_x", 0.20),
    Edge("pump.speed", "motor.vibration_y", 0.20),
    Edge("pump.speed", "pump.pressure", 0.9, 1),
    Edge("feed.flow", "pump.pressure", -0.5, 2),
    Edge("pump.speed", "motor.current", 0.6),
    Edge("pump.pressure", "motor.current", 0.5, 1),
    Edge("pump.pressure", "pump.pulsation", 0.20),
    Edge("weather", "inlet.temperature", 1.0),
    Edge("heat", "inlet.temperature", 0.3, 3),
    Edge("heat", "outlet.temperature", 0.9),
    Edge("inlet.temperature", "outlet.temperature", 0.5, 3),
    Edge("feed.flow", "outlet.temperature", -0.4, 2),
    Edge("inlet.temperature", "valve.position", 0.7, 1),
    Edge("outlet.temperature", "valve.position", 0.4, 1),
    Edge("feed.flow", "tank.level", 0.9, 1),
    Edge("valve.position", "tank.level", -0.5, 2),
    Edge("motor.current", "supply.power", 0.6),
    Edge("outlet.temperature", "supply.power", 0.5, 1),
)


class Lines(Design):
    """Lines of a dozen sensors each. After the first dozen, further lines of the same build follow."""

    default_variables: ClassVar[int] = len(_SENSORS)

    def __init__(self, variables: int) -> None:
        every = list(_SENSORS.items())
        self._sensors = {
            on_line(every[i % len(every)][0], i // len(every) + 1): every[i % len(every)][1] for i in range(variables)
        }
        self.names = tuple(self._sensors)
        self.edges = tuple(edge for edge in _edges(variables) if edge.effect in self._sensors)
        self.oscillating = [i for i, sensor in enumerate(self._sensors.values()) if sensor.phase is not None]
        self.faultable = range(variables)

    def simulate(self, days: Floats, generator: np.random.Generator, bias: Bias | None = None) -> Floats:
        rows = len(days)
        load, weather, regime = _drivers(days, generator)
        states: dict[str, Floats] = {}
        out = np.empty((rows, len(self.names)))
        for column, (name, sensor) in enumerate(self._sensors.items()):
            line = name.split(".")[0].split("_")[-1]
            if column % len(_SENSORS) == 0:
                for plain, cause in _CAUSES.items():
                    states[f"{plain}_{line}"] = _cause(cause, load, weather, regime, generator)
                phase = rotation(rows, 11, generator)
            drive = sum(_follow(edge, states, generator) for edge in self.edges if edge.effect == name)
            state = first_order_lag(np.asarray(drive), sensor.inertia) + autoregressive(
                rows, sensor.wander, 6, generator
            )
            if sensor.phase is None:
                state += sensor.curve * (state**2 - 1)
            else:
                state = np.clip(1 + state, 0.3, 2.0) * wave(phase + sensor.phase)
            states[name] = state
            noise = sensor.noise * np.exp(0.15 * generator.standard_normal())
            swing = sensor.swing * np.exp(0.2 * generator.standard_normal())
            centre = sensor.centre * (1 + 0.1 * generator.standard_normal())
            out[:, column] = centre + swing * (state + noise * generator.standard_normal(rows))
        return out


def _edges(variables: int) -> list[Edge]:
    """Return the edges of all lines. The feed of each line also follows the feed of the line before. (Oscillating
    sensors of a line share its rotation, which is a clock and has no edges.)"""
    edges = []
    for line in range(1, (variables - 1) // len(_SENSORS) + 2):
        if line > 1:
            edges.append(Edge(on_line("feed.flow", line - 1), on_line("feed.flow", line), 0.5, 4))
        edges += [Edge(on_line(e.cause, line), on_line(e.effect, line), e.gain, e.lag) for e in _EDGES]
    return edges


def _drivers(days: Floats, generator: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Simulate load and weather (time,) and the one-hot regime (time, 3)."""
    rows = len(days)
    turn = 2 * np.pi * (days + generator.normal(0, 0.03))
    load = 0.8 * np.sin(turn - 1.9) + 0.25 * np.sin(2 * turn) + 0.3 * np.sin(turn / 7)
    load += autoregressive(rows, 0.4, 2000, generator)
    weather = 0.9 * np.sin(turn - 2.4) + autoregressive(rows, 0.4, 4000, generator)
    # A regime lasts at least 300 rows and is always followed by a different one.
    segment, count = segments(rows, 300, 1200, generator)
    regimes = (generator.integers(3) + np.cumsum(generator.integers(1, 3, count))) % 3
    return load, weather, np.eye(3)[regimes[segment]]


def _cause(cause: _Cause, load: Floats, weather: Floats, regime: Floats, generator: np.random.Generator) -> Floats:
    steady = cause.load * load + cause.weather * weather + regime @ np.asarray(cause.setpoints)
    driven: Floats = first_order_lag(steady, cause.inertia) + autoregressive(
        len(load), cause.wander, cause.memory, generator
    )
    return driven


def _follow(edge: Edge, states: dict[str, Floats], generator: np.random.Generator) -> Floats:
    """Return the delayed effect of one cause; every unit has a gain of its own."""
    late = delayed(states[edge.cause], edge.lag)
    effect: Floats = edge.gain * np.exp(0.06 * generator.standard_normal()) * late
    return effect
