"""A kind of plant with control loops: nonlinear, lagged couplings, operating regimes and drifting raw material.

Five PI controllers hold the set-points of a line. The controlled process and its controller are linear, so that a loop
is a filter and needs no loop over rows; couplings between loops are not linear.

    name     symbol  meaning
    drive    d       what disturbs the controlled variable
    error    e       noise and error of its sensor
    target   w       set-point
    reading  m       what the sensor shows: m = S (d + e) + T w, so the controlled variable itself is m - e
    action   u       what the actuator shows: u = C S (w - d - e)
    memory   a       the process: P = (1 - a) / (z - a)
    pole     r       the closed loop. The controller C = K (1 - a/z) / (1 - 1/z) cancels the pole of the process, so
                     that S = (1 - 1/z) / (1 - r/z), T = 1 - S and K = (1 - r) / (1 - a)

Slowly changing disturbances and errors vanish from the reading (S = 0) and are seen in the action."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy  # `scipy.signal`, slow to import, is imported when it is used

from tsadc.data.faults import Span
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
from tsadc.series import Booleans, Floats

RECOVERY = 30  # most rows at the end of a fault in which a loop returns to normal; at most a third of the fault


@dataclass(frozen=True, slots=True)
class _Loop:
    """A controller that moves `actuator` to hold a set-point, one for each regime. The time constants, in rows, are
    those of the process (`inertia`) and of the closed loop (`response`)."""

    actuator: str
    setpoints: tuple[float, float, float]
    inertia: float
    response: float

    @property
    def memory(self) -> float:
        return float(np.exp(-1 / self.inertia))

    @property
    def pole(self) -> float:
        return float(np.exp(-1 / self.response))

    @property
    def gain(self) -> float:
        return (1 - self.pole) / (1 - self.memory)


@dataclass(frozen=True, slots=True)
class _Variable:
    """One variable, in units of `swing` around `centre`. `phase` (in turns) makes it oscillate; `loop` controls it."""

    centre: float
    swing: float
    noise: float = 0.1
    inertia: float = 0.0
    wander: float = 0.1
    phase: float | None = None
    loop: _Loop | None = None


@dataclass(frozen=True, slots=True)
class _Coupling:
    """`effect` follows `shape(cause)`, `lag` rows later, times the factor `by` if there is one."""

    cause: str
    effect: str
    gain: float
    lag: int = 0
    shape: str = "linear"
    by: str = ""


_SHAPES: dict[str, Callable[[Floats], Floats]] = {
    "linear": lambda x: x,
    "square": lambda x: (x**2 - 1) / np.sqrt(2),
    "saturating": lambda x: np.tanh(1.5 * x),
    "exponential": lambda x: np.exp(0.7 * np.clip(x, -4, 3)) - 1.2,
}

# Standard deviation and memory in rows of the hidden causes of a line. Raw material drifts over days.
_CAUSES = {
    "material": (1.0, 6000),
    "supply": (0.7, 40),
    "steam": (0.6, 60),
    "coolant": (0.6, 90),
}

# Causes come before effects, and two of the first four oscillate, so that every prefix is a plant.
_VARIABLES = {
    "feed.flow": _Variable(80.0, 9.0, loop=_Loop("feed.valve", (0.0, 0.9, -0.8), inertia=4, response=2.5)),
    "feed.valve": _Variable(52.0, 8.0, noise=0.04),
    "stirrer.vibration": _Variable(0.0, 1.4, noise=0.15, wander=0.0, phase=0.0),
    "pump.vibration": _Variable(0.0, 0.9, noise=0.15, wander=0.0, phase=0.35),
    "reactor.temperature": _Variable(182.0, 3.0, loop=_Loop("steam.valve", (0.0, 0.7, 0.8), inertia=8, response=4)),
    "steam.valve": _Variable(41.0, 9.0, noise=0.04),
    "reactor.pressure": _Variable(7.5, 0.4, loop=_Loop("vent.valve", (0.0, -0.6, 0.5), inertia=3, response=2)),
    "vent.valve": _Variable(35.0, 7.0, noise=0.04),
    "separator.level": _Variable(1.8, 0.15, loop=_Loop("drain.valve", (0.0, 0.3, -0.3), inertia=6, response=3.5)),
    "drain.valve": _Variable(47.0, 8.0, noise=0.04),
    "product.temperature": _Variable(38.0, 1.5, loop=_Loop("coolant.valve", (0.0, 0.4, 0.5), inertia=6, response=4)),
    "coolant.valve": _Variable(58.0, 9.0, noise=0.04),
    "steam.flow": _Variable(5.2, 0.6, inertia=2),
    "coolant.outlet_temperature": _Variable(27.0, 2.5, inertia=5),
    "product.flow": _Variable(74.0, 8.0, inertia=3),
    "product.purity": _Variable(96.0, 0.6, inertia=8),
}

_COUPLINGS = (
    _Coupling("supply", "feed.flow", 0.9),
    _Coupling("feed.flow", "stirrer.vibration", 0.2, 1),
    _Coupling("feed.valve", "pump.vibration", 0.2),
    _Coupling("feed.flow", "reactor.temperature", -0.7, 4, "saturating"),
    _Coupling("material", "reactor.temperature", 0.4, 2),
    _Coupling("feed.flow", "reactor.temperature", 0.5, 6, by="material"),
    _Coupling("steam", "reactor.temperature", 0.6),
    _Coupling("weather", "reactor.temperature", 0.3, 5),
    _Coupling("reactor.temperature", "reactor.pressure", 0.7, 3, "exponential"),
    _Coupling("feed.flow", "reactor.pressure", 0.5, 2),
    _Coupling("material", "reactor.pressure", 0.3, 4, "square"),
    _Coupling("feed.flow", "separator.level", 0.9, 8),
    _Coupling("vent.valve", "separator.level", -0.5, 4, "saturating"),
    _Coupling("reactor.temperature", "product.temperature", 0.7, 9),
    _Coupling("drain.valve", "product.temperature", -0.5, 2, by="reactor.temperature"),
    _Coupling("coolant", "product.temperature", 0.6),
    _Coupling("weather", "product.temperature", 0.4, 3),
    _Coupling("steam.valve", "steam.flow", 1.0, 1, "saturating"),
    _Coupling("steam.valve", "steam.flow", -0.4, 1, by="steam"),
    _Coupling("reactor.temperature", "coolant.outlet_temperature", 0.6, 11),
    _Coupling("coolant.valve", "coolant.outlet_temperature", 0.8, 3, "exponential"),
    _Coupling("drain.valve", "product.flow", -0.9, 5),
    _Coupling("drain.valve", "product.flow", 0.3, 5, "square"),
    _Coupling("material", "product.purity", 0.6, 15),
    _Coupling("reactor.temperature", "product.purity", -0.6, 12, "square"),
    _Coupling("feed.flow", "product.purity", -0.5, 10, "exponential"),
)
_NOT_CONTROLLED_ON = "spike"  # controllers filter out single outliers
_WINDUP = 0.95  # per row: how much of the integral of a wrong reading remains, as controllers limit it


class Process(Design):
    """Lines of 16 variables each, with five control loops. Each line is fed by the one before."""

    default_variables: ClassVar[int] = len(_VARIABLES)

    def __init__(self, variables: int) -> None:
        self._lines = -(-variables // len(_VARIABLES))
        every = [(line, name) for line in range(1, self._lines + 1) for name in _VARIABLES]
        self.names = tuple(on_line(name, line) for line, name in every[:variables])
        self.edges = tuple(edge for line in range(1, self._lines + 1) for edge in self._edges(line))
        self.oscillating = [i for i, (_, name) in enumerate(every[:variables]) if _VARIABLES[name].phase is not None]
        self.faultable = range(variables)
        self._loops = {i: loop for i, (_, name) in enumerate(every[:variables]) if (loop := _VARIABLES[name].loop)}

    def _edges(self, line: int) -> list[Edge]:
        """Return the edges among the variables and hidden causes of a line, with both directions of its loops."""
        edges = [Edge(on_line("product.flow", line - 1), on_line("feed.flow", line), 0.6, 6)] if line > 1 else []
        for c in _COUPLINGS:
            edges.append(Edge(on_line(c.cause, line), on_line(c.effect, line), c.gain, c.lag))
            edges += [Edge(on_line(c.by, line), on_line(c.effect, line), c.gain, c.lag)] if c.by else []
        for name, variable in _VARIABLES.items():
            if variable.loop:
                sensor, actuator = on_line(name, line), on_line(variable.loop.actuator, line)
                edges += [Edge(sensor, actuator, -variable.loop.gain), Edge(actuator, sensor, 1.0, 1)]
        return [edge for edge in edges if edge.effect in self.names]

    def simulate(self, days: Floats, generator: np.random.Generator, bias: Bias | None = None) -> Floats:
        rows = len(days)
        weather = np.sin(2 * np.pi * (days + generator.normal(0, 0.03)) - 2.4)
        weather += autoregressive(rows, 0.4, 3000, generator)
        regime = _regimes(rows, generator)
        out = np.empty((rows, self._lines * len(_VARIABLES)))
        upstream: Floats | None = None
        for line in range(self._lines):
            first = line * len(_VARIABLES)
            errors = {column - first: values for column, values in (bias or {}).items()}
            upstream = _line(out[:, first : first + len(_VARIABLES)], weather, regime, upstream, errors, generator)
        return out[:, : len(self.names)]

    def settle(
        self,
        clean: Floats,
        faulty: Floats,
        spans: Sequence[Span],
        hit: Sequence[Sequence[int]],
        again: Callable[[Bias], Floats],
    ) -> Floats:
        as_injected: Booleans = np.zeros(clean.shape, dtype=bool)
        bias: dict[int, Floats] = {}
        for span, columns in zip(spans, hit, strict=True):
            for column in columns:
                loop = self._loops.get(column)
                if loop is None or span.kind == _NOT_CONTROLLED_ON:
                    as_injected[span.start : span.stop, column] = True
                    continue
                stop = span.stop - min(RECOVERY, (span.stop - span.start) // 3)
                error = faulty[span.start : stop, column] - clean[span.start : stop, column]
                errors = bias.setdefault(column, np.zeros(len(clean)))
                if span.kind == "level shift":
                    errors[span.start : stop] = error * _trapezoid(len(error))
                else:
                    # The sensor shows the injected signal whatever the controller does: m changes by S e, so e must be
                    # 1/S times the change, with a limited memory in place of the integral.
                    errors[span.start : stop] = scipy.signal.lfilter([1, -loop.pole], [1, -_WINDUP], error)
                    as_injected[span.start : stop, column] = True
        settled = again(bias) if bias else clean.copy()
        settled[as_injected] = faulty[as_injected]
        return settled

    def shown_by(self, kind: str, columns: Sequence[int]) -> tuple[int, ...]:
        """Return the columns, and the actuators that act on them. An actuator is the variable after its sensor."""
        acting = {i + 1 for i in columns if i in self._loops and i + 1 < len(self.names)}
        return tuple(sorted({*columns, *(acting if kind != _NOT_CONTROLLED_ON else ())}))


def _regimes(rows: int, generator: np.random.Generator) -> Floats:
    """Simulate the shares (time, 3) of three regimes: each lasts at least 300 rows, then the next fades in."""
    segment, count = segments(rows, 300, 900, generator)
    regimes = (generator.integers(3) + np.cumsum(generator.integers(1, 3, count))) % 3
    fade = int(generator.integers(40, 100))
    pure = np.eye(3)[regimes[segment]]
    sums = np.cumsum(np.concatenate([np.repeat(pure[:1], fade, axis=0), pure]), axis=0)
    shares: Floats = (sums[fade:] - sums[:-fade]) / fade
    return shares


def _line(
    out: Floats,
    weather: Floats,
    regime: Floats,
    upstream: Floats | None,
    bias: Bias,
    generator: np.random.Generator,
) -> Floats:
    """Write the readings of one line into `out` and return the true flow of its product."""
    rows = len(out)
    states = {"weather": weather}
    for name, (size, memory) in _CAUSES.items():
        states[name] = autoregressive(rows, size, memory, generator)
    turns = rotation(rows, 13, generator)
    readings: dict[str, Floats] = {}
    for column, (name, variable) in enumerate(_VARIABLES.items()):
        noise = variable.noise * np.exp(0.15 * generator.standard_normal()) * generator.standard_normal(rows)
        swing = variable.swing * np.exp(0.2 * generator.standard_normal())
        centre = variable.centre * (1 + 0.1 * generator.standard_normal())
        drive = autoregressive(rows, variable.wander, 6, generator)
        for coupling in _COUPLINGS:
            if coupling.effect == name:
                drive += np.exp(0.06 * generator.standard_normal()) * _effect(coupling, states)
        if name == "feed.flow" and upstream is not None:
            drive += 0.6 * delayed(upstream, 6)
        if variable.loop is not None:
            target = regime @ np.asarray(variable.loop.setpoints) + autoregressive(rows, 0.25, 300, generator)
            error = noise + bias[column] / swing if column in bias else noise
            readings[name], readings[variable.loop.actuator] = _control(variable.loop, drive, error, target)
            states[name], states[variable.loop.actuator] = readings[name] - error, readings[variable.loop.actuator]
        elif variable.phase is not None:
            states[name] = np.clip(1 + drive, 0.3, 2.0) * wave(turns + variable.phase)
            readings[name] = states[name] + noise
        elif name in readings:  # an actuator, which its loop has set
            readings[name] = readings[name] + noise
        else:
            states[name] = first_order_lag(drive, variable.inertia)
            readings[name] = states[name] + noise
        out[:, column] = centre + swing * readings[name]
    return states["product.flow"]


def _effect(coupling: _Coupling, states: dict[str, Floats]) -> Floats:
    late = _SHAPES[coupling.shape](delayed(states[coupling.cause], coupling.lag))
    factor = delayed(states[coupling.by], coupling.lag) if coupling.by else 1.0
    effect: Floats = coupling.gain * late * factor
    return effect


def _control(loop: _Loop, drive: Floats, error: Floats, target: Floats) -> tuple[Floats, Floats]:
    """Return the reading of the sensor and the action of the controller."""
    rejected = _filtered([1, -1], [1, -loop.pole], drive + error)
    followed = _filtered([0, 1 - loop.pole], [1, -loop.pole], target)
    action = _filtered([loop.gain, -loop.gain * loop.memory], [1, -loop.pole], target - drive - error)
    return rejected + followed, action


def _filtered(numerator: list[float], denominator: list[float], signal: Floats) -> Floats:
    """Filter the signal, in equilibrium at row 0."""
    out: Floats = scipy.signal.lfilter(
        numerator, denominator, signal, zi=scipy.signal.lfilter_zi(numerator, denominator) * signal[0]
    )[0]
    return out


def _trapezoid(rows: int) -> Floats:
    """Rise over a third of the rows and fall over another, so that the loop can follow and no jump shows the fault."""
    from_edge = np.minimum(np.arange(1, rows + 1), np.arange(rows, 0, -1))
    weight: Floats = np.minimum(from_edge / max(1, rows // 3), 1.0)
    return weight
