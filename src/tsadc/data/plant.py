"""The simulated plant, the data set that comes with the package.

A design makes the clean signals of each unit: production lines (`plant_lines`), a process with control loops
(`plant_process`), or a telemetry channel with its commands (`plant_telemetry`). Here faults of six kinds are added.
Units have the same structure and differ in offsets, gains and noise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import pandas as pd

from tsadc.data.faults import KINDS, inject, schedule
from tsadc.data.plant_design import Bias, Design, Edge
from tsadc.data.plant_lines import Lines
from tsadc.data.plant_process import Process
from tsadc.data.plant_telemetry import Telemetry
from tsadc.errors import ConfigError
from tsadc.series import Booleans, Clock, Floats, Labelled, Series, Split, Truth

PlantKind = Literal["plant", "process", "telemetry"]
DESIGNS: dict[str, type[Design]] = {"plant": Lines, "process": Process, "telemetry": Telemetry}
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
            Number of units, and of variables of each; 0 takes the variables of the kind: 12, 16 or 33.
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
        kind
            `plant`: production lines; `process`: nonlinear couplings and control loops; `telemetry`: one signal and
            many discrete commands.
        """

        entities: int = 6
        variables: int = 0
        rows: int = 12_000
        length: int = 120
        contamination: float = 0.1
        test_contamination: float = 0.25
        kinds: int = len(KINDS)
        missing: float = 0.002
        interval: str = "1min"
        start: str = "2026-01-01"
        seed: int = 0
        kind: PlantKind = "plant"

        def __post_init__(self) -> None:
            if self.kind not in DESIGNS:
                raise ConfigError(f"The plant has no kind {self.kind!r}; choose from {', '.join(DESIGNS)}.")
            if self.variables == 0:
                object.__setattr__(self, "variables", DESIGNS[self.kind].default_variables)
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
    def _design(self) -> Design:
        return DESIGNS[self.config.kind](self.config.variables)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the variables."""
        return self._design.names

    @property
    def edges(self) -> tuple[Edge, ...]:
        """The edges of the causal graph, including hidden causes."""
        return self._design.edges

    @cached_property
    def graph(self) -> Booleans:
        """The causal graph (cause, effect) of the variables: True if the first drives the second directly."""
        graph = np.zeros((len(self.names), len(self.names)), dtype=bool)
        for edge in self.edges:
            if edge.cause in self.names:
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
        signals = self._simulate(entity)
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
        design, first = self._design, part * self.config.rows
        faulty, hit = inject(clean, spans, design.oscillating, design.faultable, self.config.length, generator)

        def again(bias: Bias) -> Floats:
            whole = {column: np.pad(errors, (first, self.config.rows - first)) for column, errors in bias.items()}
            return self._simulate(entity, whole)[first : first + self.config.rows]

        truth = []
        for span, columns in zip(spans, hit, strict=True):
            names = tuple(self.names[i] for i in design.shown_by(span.kind, columns))
            truth.append(Truth(_unit(entity), span.start, span.stop, span.kind, names))
        return design.settle(clean, faulty, spans, hit, again), truth

    def _kinds(self, part: int) -> tuple[str, ...]:
        """Return the kinds of a part; those of a smaller setting are among those of a larger one."""
        every = tuple(KINDS)
        order = np.random.default_rng(self.config.seed).permutation(len(every))
        return every if part else tuple(every[i] for i in order[: self.config.kinds])

    def _generator(self, *key: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(self.config.seed, spawn_key=key))

    def _simulate(self, entity: int, bias: Bias | None = None) -> Floats:
        """Simulate the signals (time, variable) of a unit over history and test part, without faults."""
        day = pd.Timedelta("1D").value
        ticks = np.arange(2 * self.config.rows) * (_nanoseconds("interval", self.config.interval) / day)
        days = ticks + _nanoseconds("start", self.config.start) / day
        return self._design.simulate(days, self._generator(entity, _SIGNAL), bias)


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
