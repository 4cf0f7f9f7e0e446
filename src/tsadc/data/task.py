"""What a detector is given and what its scores are measured against. `train`, `history` and `test` carry no labels."""

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
    """Rows [start, stop) of all series, end to end, and which variables are to blame in them; none: not said."""

    start: int
    stop: int
    blamed: Booleans


@dataclass(frozen=True, eq=False)
class Answers:
    """Of each test observation in the order of scores: the kinds of anomaly in it (none: normal) and its entity.
    `parts` are named subsets that are reported beside the whole. `rows` says of each row of all series, end to end,
    whether it is anomalous; None where only observations have labels. `events` are the true anomalies in them."""

    kinds: tuple[tuple[str, ...], ...]
    entities: tuple[str, ...]
    parts: Mapping[str, Booleans] = field(default_factory=dict)
    rows: Booleans | None = None
    events: tuple[Event, ...] = ()

    @property
    def labels(self) -> Booleans:
        return np.array([bool(kinds) for kinds in self.kinds], dtype=bool)


@dataclass(frozen=True, eq=False)
class Task:
    """One draw of a protocol. `history` is what `adapt` gets before scoring, if anything; `validation` is set aside for
    the threshold and for early stopping, None: by the detector."""

    train: Data
    test: Data
    answers: Answers
    history: Data | None = None
    validation: Data | None = None


def answers(test: Labelled, length: int, coverage: float = 0.5) -> Answers:
    """The truth about the observations that a detector cuts from the series."""
    observations = cut(test.series, length, coverage).observations
    touched = {kind: test.touched(observations, kind) for kind in sorted({truth.kind for truth in test.truth})}
    kinds = tuple(tuple(kind for kind in touched if touched[kind][i]) for i in range(len(observations)))
    entities = tuple(observations.entity(i) for i in range(len(observations)))
    rows = np.concatenate([_anomalous(one, test) for one in test.series])
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


def evenly(data: Data, length: int, count: int, coverage: float = 1.0) -> Data:
    """About `count` observations of the data, evenly spread; all where it has no more. Of series only those count that
    lie wholly in one and have at least `coverage` of their rows measured."""
    if isinstance(data, np.ndarray):
        return data[evenly_spaced(len(data), count)]
    pieces = cut(data, length, coverage).observations
    whole = [i for i, at in enumerate(pieces.places) if 0 <= at.start <= len(data[at.series]) - length]
    pieces = pieces.take(whole)
    kept: dict[int, list[Floats]] = {}
    for i in evenly_spaced(len(pieces), count):
        place = pieces.places[i]
        kept.setdefault(place.series, []).append(
            np.asarray(pieces.series[place.series].values[place.start : place.start + length])
        )
    return tuple(_joined(data[number], rows, length) for number, rows in kept.items())


def _joined(series: Series, rows: list[Floats], length: int) -> Series:
    # Rows no longer follow each other, so their dates would be wrong; the time from row to row is still right.
    return replace(series, values=np.concatenate(rows), clock=Clock(pace=series.clock.every), observation=length)
