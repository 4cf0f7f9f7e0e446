"""The simulated process plant, the data set that comes with the package.

Load, weather and operating regime drive a few hidden causes, the causes drive the sensors through a known graph, and
faults of six kinds are added. Units have the same structure and differ in offsets, gains and noise. Daily and weekly
cycles follow the clock; all other dynamics are counted in rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from scipy.signal import lfilter

from tsadc.data.faults import KINDS, inject, schedule
from tsadc.errors import ConfigError
from tsadc.series import Booleans, Clock, Floats, Labelled, Series, Split, Truth


@dataclass(frozen=True, slots=True)
class Edge:
    """`effect` follows `cause`, `lag` rows later. For an oscillating effect, the gain acts on its amplitude."""

    cause: str
    effect: str
    gain: float
    lag: int = 0


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

_HARMONIC = (0.35, 1.0)  # size and phase of the second harmonic, which shapes the waveform
_SIGNAL, _FAULTS, _MISSING = range(3)  # separate streams of random numbers, so that no setting of one affects another
_NAT = int(pd.NaT.value)


class Plant:
    """A simulated plant with known faults and a known causal graph.

    `split()` returns the unlabelled, contaminated history of every unit and the labelled rows that follow it.

    Parameters
    ----------
    config
        Size, contamination and seed; None takes the defaults.

    Examples
    --------
    >>> from tsadc.data.plant import Plant
    >>> split = Plant(Plant.Config(entities=2, rows=600)).split()
    >>> [series.values.shape for series in split.train]
    [(600, 12), (600, 12)]
    """

    @dataclass(frozen=True)
    class Config:
        """Settings of the plant.

        Attributes
        ----------
        entities, variables
            Number of units, and of sensors of each.
        rows
            Rows per unit in the history, and again in the test part.
        length
            Rows of an observation; observations are cut from row 0 on.
        contamination, test_contamination
            Share of the observations of the history and of the test part that a fault touches.
        kinds
            Number of kinds of fault in the history; the seed chooses which. The test part has all kinds.
        missing
            Share of cells that are NaN.
        interval, start
            Time between rows, and time of the first row.
        seed
            Seed of the simulation.
        """

        entities: int = 6
        variables: int = 12
        rows: int = 12_000
        length: int = 120
        contamination: float = 0.1
        test_contamination: float = 0.25
        kinds: int = len(KINDS)
        missing: float = 0.002
        interval: str = "1min"
        start: str = "2026-01-01"
        seed: int = 0

        def __post_init__(self) -> None:
            lowest = {"entities": 1, "variables": 4, "length": 30, "rows": 2 * self.length, "kinds": 1, "seed": 0}
            for name, least in lowest.items():
                if getattr(self, name) < least:
                    raise ConfigError(f"The plant needs {name} of at least {least}, but got {getattr(self, name)}.")
            if self.kinds > len(KINDS):
                raise ConfigError(f"The plant knows {len(KINDS)} kinds of fault, but kinds is {self.kinds}.")
            for name in ("contamination", "test_contamination", "missing"):
                if not 0 <= getattr(self, name) < 1:
                    raise ConfigError(f"The plant needs {name} in [0, 1), but got {getattr(self, name)}.")
            _nanoseconds("interval", self.interval)
            _nanoseconds("start", self.start)

    def __init__(self, config: Config | None = None) -> None:
        self.config = config or Plant.Config()

    @cached_property
    def _sensors(self) -> dict[str, _Sensor]:
        """The sensors by name. After the first dozen, further production lines of the same build follow."""
        every = list(_SENSORS.items())
        wanted = range(self.config.variables)
        return {_on_line(every[i % len(every)][0], i // len(every) + 1): every[i % len(every)][1] for i in wanted}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the variables."""
        return tuple(self._sensors)

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """The edges of the causal graph, including hidden causes. The feed of each line also follows the feed of the
        line before. (Oscillating sensors of a line share its rotation, which is a clock and has no edges.)"""
        edges = []
        for line in range(1, (self.config.variables - 1) // len(_SENSORS) + 2):
            if line > 1:
                edges.append(Edge(_on_line("feed.flow", line - 1), _on_line("feed.flow", line), 0.5, 4))
            edges += [Edge(_on_line(e.cause, line), _on_line(e.effect, line), e.gain, e.lag) for e in _EDGES]
        return tuple(edge for edge in edges if edge.effect in self._sensors)

    @cached_property
    def graph(self) -> Booleans:
        """The causal graph (cause, effect) of the variables: True if the first drives the second directly."""
        graph = np.zeros((len(self.names), len(self.names)), dtype=bool)
        for edge in self.edges:
            if edge.cause in self._sensors:
                graph[self.names.index(edge.cause), self.names.index(edge.effect)] = True
        return graph

    def split(self) -> Split:
        """Return the history without labels, and the test part with them."""
        train, test = self._labelled()
        return Split(train.series, test)

    def train(self) -> Labelled:
        """Return the history with its truth, which no detector sees, for experiments."""
        return self._labelled()[0]

    def test(self) -> Labelled:
        """Return the test part with its truth."""
        return self._labelled()[1]

    def _labelled(self) -> tuple[Labelled, Labelled]:
        series: tuple[list[Series], list[Series]] = ([], [])
        truth: tuple[list[Truth], list[Truth]] = ([], [])
        interval, begin = _nanoseconds("interval", self.config.interval), _nanoseconds("start", self.config.start)
        for entity in range(self.config.entities):
            for part, (_, faulty, spans) in enumerate(self._parts(entity)):
                values = faulty.astype(np.float32)
                holes = self._generator(entity, _MISSING, part).random(values.shape, dtype=np.float32)
                values[holes < self.config.missing] = np.nan
                clock = Clock(begin + part * self.config.rows * interval, interval, dated=True)
                series[part].append(Series(values, self.names, clock, _unit(entity)))
                truth[part].extend(spans)
        return Labelled(tuple(series[0]), tuple(truth[0])), Labelled(tuple(series[1]), tuple(truth[1]))

    def _parts(self, entity: int) -> Iterator[tuple[Floats, Floats, list[Truth]]]:
        """Yield, for history and test part, the clean signals (time, variable), those with faults, and the truth."""
        rows = self.config.rows
        signals = self._simulate(entity, 2 * rows)
        for part, clean in enumerate((signals[:rows], signals[rows:])):
            faulty, truth = self._add_faults(clean, entity, part)
            yield clean, faulty, truth

    def _add_faults(self, clean: Floats, entity: int, part: int) -> tuple[Floats, list[Truth]]:
        generator = self._generator(entity, _FAULTS, part)
        share = self.config.test_contamination if part else self.config.contamination
        windows = self.config.rows // self.config.length
        # Rounding the running total makes the share exact over all units, however short they are.
        touched = round(share * windows * (entity + 1)) - round(share * windows * entity)
        spans = schedule(windows, self.config.length, touched, self._kinds(part), generator)
        oscillating = [i for i, sensor in enumerate(self._sensors.values()) if sensor.phase is not None]
        faulty, hit = inject(clean, spans, oscillating, self.config.length, generator)
        truth = [
            Truth(_unit(entity), span.start, span.stop, span.kind, tuple(self.names[i] for i in columns))
            for span, columns in zip(spans, hit, strict=True)
        ]
        return faulty, truth

    def _kinds(self, part: int) -> tuple[str, ...]:
        """Return the kinds of a part; those of a smaller setting are among those of a larger one."""
        every = tuple(KINDS)
        order = np.random.default_rng(self.config.seed).permutation(len(every))
        return every if part else tuple(every[i] for i in order[: self.config.kinds])

    def _generator(self, *key: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(self.config.seed, spawn_key=key))

    def _simulate(self, entity: int, rows: int) -> Floats:
        """Simulate the clean signals (time, variable) of a unit in engineering units."""
        generator = self._generator(entity, _SIGNAL)
        load, weather, regime = self._drivers(rows, generator)
        states: dict[str, Floats] = {}
        out = np.empty((rows, len(self.names)))
        for column, (name, sensor) in enumerate(self._sensors.items()):
            line = name.split(".")[0].split("_")[-1]
            if column % len(_SENSORS) == 0:
                for plain, cause in _CAUSES.items():
                    states[f"{plain}_{line}"] = _cause(cause, load, weather, regime, generator)
                phase = _rotation(rows, generator)
            drive = sum(_follow(edge, states, generator) for edge in self.edges if edge.effect == name)
            state = _first_order_lag(np.asarray(drive), sensor.inertia) + _autoregressive(
                rows, sensor.wander, 6, generator
            )
            if sensor.phase is None:
                state += sensor.curve * (state**2 - 1)
            else:
                state = np.clip(1 + state, 0.3, 2.0) * _wave(phase + sensor.phase)
            states[name] = state
            noise = sensor.noise * np.exp(0.15 * generator.standard_normal())
            swing = sensor.swing * np.exp(0.2 * generator.standard_normal())
            centre = sensor.centre * (1 + 0.1 * generator.standard_normal())
            out[:, column] = centre + swing * (state + noise * generator.standard_normal(rows))
        return out

    def _drivers(self, rows: int, generator: np.random.Generator) -> tuple[Floats, Floats, Floats]:
        """Simulate load and weather (time,) and the one-hot regime (time, 3)."""
        day = pd.Timedelta("1D").value
        ticks = np.arange(rows) * (_nanoseconds("interval", self.config.interval) / day)
        days = ticks + _nanoseconds("start", self.config.start) / day + generator.normal(0, 0.03)
        turn = 2 * np.pi * days
        load = 0.8 * np.sin(turn - 1.9) + 0.25 * np.sin(2 * turn) + 0.3 * np.sin(turn / 7)
        load += _autoregressive(rows, 0.4, 2000, generator)
        weather = 0.9 * np.sin(turn - 2.4) + _autoregressive(rows, 0.4, 4000, generator)
        # A regime lasts at least 300 rows and is always followed by a different one.
        dwell = 300 + generator.exponential(1200, rows // 300 + 1)
        regimes = (generator.integers(3) + np.cumsum(generator.integers(1, 3, len(dwell)))) % 3
        now = regimes[np.searchsorted(np.cumsum(dwell), np.arange(rows), side="right")]
        return load, weather, np.eye(3)[now]


def _cause(cause: _Cause, load: Floats, weather: Floats, regime: Floats, generator: np.random.Generator) -> Floats:
    steady = cause.load * load + cause.weather * weather + regime @ np.asarray(cause.setpoints)
    driven: Floats = _first_order_lag(steady, cause.inertia) + _autoregressive(
        len(load), cause.wander, cause.memory, generator
    )
    return driven


def _follow(edge: Edge, states: dict[str, Floats], generator: np.random.Generator) -> Floats:
    """Return the delayed effect of one cause; every unit has a gain of its own."""
    cause = states[edge.cause]
    delayed = np.concatenate([np.full(edge.lag, cause[0]), cause[: len(cause) - edge.lag]])
    effect: Floats = edge.gain * np.exp(0.06 * generator.standard_normal()) * delayed
    return effect


def _first_order_lag(drive: Floats, inertia: float) -> Floats:
    """Apply a first-order lag with a time constant of `inertia` rows, in equilibrium at row 0."""
    if inertia == 0:
        return drive
    keep = np.exp(-1 / inertia)
    settled: Floats = lfilter([1 - keep], [1, -keep], drive, zi=[keep * drive[0]])[0]
    return settled


def _autoregressive(rows: int, size: float, memory: float, generator: np.random.Generator) -> Floats:
    """Draw a stationary AR(1) process of standard deviation `size` with a time constant of `memory` rows."""
    keep = np.exp(-1 / memory)
    shocks = size * np.sqrt(1 - keep**2) * generator.standard_normal(rows)
    wandering: Floats = lfilter([1], [1, -keep], shocks, zi=[keep * size * generator.standard_normal()])[0]
    return wandering


def _rotation(rows: int, generator: np.random.Generator) -> Floats:
    """Return the common phase of the oscillating sensors of a line, in turns: about 11 rows per turn, nearly steady."""
    speed = (1 + 0.03 * generator.standard_normal() + _autoregressive(rows, 0.01, 200, generator)) / 11
    turns: Floats = generator.random() + np.cumsum(speed)
    return turns


def _wave(turns: Floats) -> Floats:
    size, phase = _HARMONIC
    wave: Floats = np.sin(2 * np.pi * turns) + size * np.sin(4 * np.pi * turns + phase)
    return wave


def _on_line(name: str, line: int) -> str:
    """Add the line to a name: `pump.speed` of line 2 is `pump_2.speed`, the hidden cause `head` is `head_2`."""
    machine, *rest = name.split(".")
    return ".".join([f"{machine}_{line}", *rest])


def _unit(entity: int) -> str:
    return f"unit-{entity + 1}"


def _nanoseconds(setting: str, text: str) -> int:
    """Return the length of an interval, or the time of a start since 1970, in nanoseconds."""
    try:
        value = int((pd.Timedelta if setting == "interval" else pd.Timestamp)(text).value)
    except ValueError:
        value = _NAT
    if value == _NAT or (setting == "interval" and value <= 0):
        example = "1min" if setting == "interval" else "2026-01-01"
        raise ConfigError(f"The plant needs {setting} as something like {example!r}, but got {text!r}.")
    return value
