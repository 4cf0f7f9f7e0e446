"""Benchmark tasks: the unlabelled data that a detector gets, and the answers that its scores are measured against."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from tsadc.series import Booleans, Clock, Floats, Labelled, Series
from tsadc.subsample import evenly_spaced
from tsadc.windows import cut

Data = tuple[Series, ...] | Floats  # entities, or observations (observation, time, variable)


@dataclass(frozen=True, eq=False)
class Event:
    """A true anomaly: rows [start, stop) of all series laid end to end, and the variables to blame, if known."""

    start: int
    stop: int
    blamed: Booleans


@dataclass(frozen=True, eq=False)
class Answers:
    """The truth about the test part, for measuring only.

    Attributes
    ----------
    kinds
        For each test observation, in the order of scores, the kinds of anomaly in it; none if it is normal.
    entities
        The entity of each test observation.
    parts
        Named subsets of the observations that are reported beside the whole.
    rows
        Whether each row is anomalous, for all series laid end to end; None if only observations have labels.
    events
        The true anomalies in these rows.
    """

    kinds: tuple[tuple[str, ...], ...]
    entities: tuple[str, ...]
    parts: Mapping[str, Booleans] = field(default_factory=dict)
    rows: Booleans | None = None
    events: tuple[Event, ...] = ()

    @property
    def labels(self) -> Booleans:
        """Whether each test observation is anomalous."""
        return np.array([bool(kinds) for kinds in self.kinds], dtype=bool)


@dataclass(frozen=True, eq=False)
class Task:
    """One draw of a protocol. `train`, `test`, `history` and `validation` carry no labels.

    A detector fits `train`, adapts to `history` if there is one, and scores `test`. `validation` is for the threshold
    and early stopping; without it, the detector sets a part of `train` aside."""

    train: Data
    test: Data
    answers: Answers
    history: Data | None = None
    validation: Data | None = None


@dataclass(frozen=True, eq=False)
class RowTask:
    """One series of a benchmark that scores rows: fit on `train`, score every row of `series`.

    Attributes
    ----------
    name
        The name of the series, which is also its entity.
    series
        All rows, without labels.
    labels
        Whether each row is anomalous, for measuring only.
    train_rows
        Number of rows, from the first one on, that a detector may be fitted on. Some of them may be anomalous.
    window
        Buffer in rows for the volume under the surface (VUS).
    """

    name: str
    series: Series
    labels: Booleans
    train_rows: int
    window: int

    @property
    def train(self) -> Series:
        """The rows to fit on."""
        return replace(self.series, values=self.series.values[: self.train_rows])


@dataclass(frozen=True, eq=False)
class RowTasks:
    """One draw of a protocol that scores rows: a detector is fitted anew on each of the series.

    Attributes
    ----------
    series
        The tasks, one for each series.
    parts
        Named subsets of the series that are reported beside the whole.
    """

    series: tuple[RowTask, ...]
    parts: Mapping[str, Booleans] = field(default_factory=dict)


def answers(test: Labelled, length: int, coverage: float = 0.5) -> Answers:
    """Return the truth about the observations that a detector cuts from the series."""
    observations = cut(test.series, length, coverage).observations
    touched = {kind: test.touched(observations, kind) for kind in sorted({truth.kind for truth in test.truth})}
    kinds = tuple(tuple(kind for kind in touched if touched[kind][i]) for i in range(len(observations)))
    entities = tuple(observations.entity(i) for i in range(len(observations)))
    rows = np.concatenate([_anomalous(series, test) for series in test.series])
    return Answers(kinds, entities, rows=rows, events=tuple(_events(test)))


def _events(test: Labelled) -> Iterator[Event]:
    first = 0
    for series in test.series:
        for truth in test.truth:
            if truth.entity == series.entity:
                blamed = np.array([name in truth.variables for name in series.names], dtype=bool)
                yield Event(first + truth.start, first + truth.stop, blamed)
        first += len(series)


def _anomalous(series: Series, test: Labelled) -> Booleans:
    flags: Booleans = np.zeros(len(series), dtype=bool)
    for truth in test.truth:
        if truth.entity == series.entity:
            flags[truth.start : truth.stop] = True
    return flags


def subsample(data: Data, length: int, count: int, coverage: float = 1.0) -> Data:
    """Return at most about `count` evenly spaced observations of the data. In series, only observations that lie wholly
    in one series and have at least `coverage` of their rows measured are taken."""
    if isinstance(data, np.ndarray):
        return data[evenly_spaced(len(data), count)]
    pieces = cut(data, length, coverage).observations
    whole = [i for i, place in enumerate(pieces.places) if 0 <= place.start <= len(data[place.series]) - length]
    pieces = pieces.take(whole)
    kept: dict[int, list[Floats]] = {}
    for i in evenly_spaced(len(pieces), count):
        place = pieces.places[i]
        kept.setdefault(place.series, []).append(
            np.asarray(pieces.series[place.series].values[place.start : place.start + length])
        )
    return tuple(_joined(data[number], rows, length) for number, rows in kept.items())


def _joined(series: Series, rows: list[Floats], length: int) -> Series:
    # Rows no longer follow each other, so dates would be wrong; the interval between rows is still right.
    return replace(series, values=np.concatenate(rows), clock=Clock(pace=series.clock.every), observation=length)
