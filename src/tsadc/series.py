"""The nouns. A `Series` is one entity's measurements on a regular clock; `Observations` are the pieces of equal length
a detector looks at; `Labelled` adds the truth for evaluation. Series carry no labels, so no detector can see one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tsadc.errors import DataError

Floats = NDArray[np.floating]
Booleans = NDArray[np.bool_]
CHUNK = 2**18  # cells of a series that are looked at together in a pass over it
LARGEST = 1e30  # of what a detector is shown: a sensor's wild value must not overflow sums of float32


@dataclass(frozen=True, slots=True)
class Clock:
    """Row i lies at `start + i * interval`: nanoseconds since 1970 in UTC when `dated`, otherwise plain row numbers.
    `pace` is the nanoseconds from row to row of a recording that tells its rate but not when it began."""

    start: int = 0
    interval: int = 1
    dated: bool = False
    timezone: str | None = None
    # Not shown, as digests of data are made of what is, and the rows are the same.
    pace: int | None = field(default=None, repr=False)

    @property
    def every(self) -> int | None:
        """Nanoseconds from row to row, None where rows are merely counted."""
        return self.interval if self.dated else self.pace

    def at(self, rows: NDArray[np.integer] | Sequence[int]) -> pd.Index:
        """The times of rows, as timestamps where there are any; a row may lie outside the series."""
        ticks = self.start + np.asarray(rows, dtype=np.int64) * self.interval
        if not self.dated:
            return pd.Index(ticks)
        times = pd.DatetimeIndex(ticks.astype("datetime64[ns]"))
        return times.tz_localize("UTC").tz_convert(self.timezone) if self.timezone else times


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """One entity: `values` (time, variable), NaN where nothing was measured. They may be any object with the shape,
    type and length of an array of which slices of rows are arrays: a file too large for memory, for instance.
    `observation` is the length of those that were laid end to end, None where rows follow each other throughout."""

    values: Floats
    names: tuple[str, ...]
    clock: Clock = Clock()
    entity: str = "series"
    observation: int | None = None

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or self.values.shape[1] != len(self.names):
            raise DataError(
                f"A series needs values of shape (time, {len(self.names)} variables), but got {self.values.shape}."
            )

    def __len__(self) -> int:
        return len(self.values)

    def chunks(self) -> Iterator[Floats]:
        """The values, some rows at a time: for a pass over what may not fit into memory."""
        rows = max(1, CHUNK // max(1, len(self.names)))
        for first in range(0, len(self), rows):
            yield np.asarray(self.values[first : first + rows])


@dataclass(frozen=True, slots=True)
class Place:
    """Where an observation lies: rows [start, start + length) of `series`, which may reach over either end."""

    series: int
    start: int


@dataclass(frozen=True)
class Observations:
    """Pieces of `length` rows, read from their series when asked for. `scale` maps (entity, values) to what a network
    eats; raw values stay untouched."""

    series: tuple[Series, ...]
    places: tuple[Place, ...]
    length: int
    scale: Callable[[str, Floats], Floats] | None = field(default=None, compare=False)

    def __len__(self) -> int:
        return len(self.places)

    @property
    def names(self) -> tuple[str, ...]:
        return self.series[0].names if self.series else ()

    def take(self, indices: Sequence[int] | NDArray[np.integer]) -> Observations:
        """The observations at `indices`, in that order."""
        return Observations(self.series, tuple(self.places[int(i)] for i in indices), self.length, self.scale)

    def scaled(self, scale: Callable[[str, Floats], Floats]) -> Observations:
        return Observations(self.series, self.places, self.length, scale)

    def by_series(self) -> list[list[int]]:
        """For each series, which observations lie in it."""
        found: list[list[int]] = [[] for _ in self.series]
        for i, place in enumerate(self.places):
            found[place.series].append(i)
        return found

    def entity(self, index: int) -> str:
        return self.series[self.places[index].series].entity

    def read(self, index: int) -> Floats:
        """One observation (variable, time) as float32; NaN where not measured or outside the series."""
        place = self.places[index]
        series = self.series[place.series]
        first, last = max(place.start, 0), min(place.start + self.length, len(series))
        inside: Floats = np.asarray(series.values[first:last], dtype=np.float64)
        if self.scale is not None:
            inside = self.scale(series.entity, inside)
        inside = np.clip(inside, -LARGEST, LARGEST)
        out = np.full((len(series.names), self.length), np.nan, dtype=np.float32)
        out[:, first - place.start : last - place.start] = inside.T
        return out

    def batch(self, indices: Sequence[int] | NDArray[np.integer]) -> Floats:
        """Several observations (batch, variable, time)."""
        return np.stack([self.read(int(i)) for i in indices])

    def coverage(self, index: int) -> float:
        """Share of the observation's rows in which at least one variable was measured."""
        place = self.places[index]
        values = self.series[place.series].values
        rows = values[max(place.start, 0) : place.start + self.length]
        return float(np.isfinite(rows).any(axis=1).sum() / self.length)


@dataclass(frozen=True, slots=True)
class Truth:
    """One true anomaly: rows [start, stop) of an entity, its kind, and the variables to blame."""

    entity: str
    start: int
    stop: int
    kind: str
    variables: tuple[str, ...]


@dataclass(frozen=True)
class Labelled:
    """Series with their truth, for evaluation only."""

    series: tuple[Series, ...]
    truth: tuple[Truth, ...]

    def touched(self, observations: Observations, kind: str | None = None) -> Booleans:
        """For each observation, whether a true anomaly (of `kind`) touches any of its rows."""
        spans: dict[str, list[tuple[int, int]]] = {}
        for truth in self.truth:
            if kind is None or truth.kind == kind:
                spans.setdefault(truth.entity, []).append((truth.start, truth.stop))
        out = np.zeros(len(observations), dtype=bool)
        for i, place in enumerate(observations.places):
            stop = place.start + observations.length
            out[i] = any(a < stop and b > place.start for a, b in spans.get(observations.entity(i), ()))
        return out


@dataclass(frozen=True)
class Split:
    """Unlabelled history to train on, and labelled series to test on."""

    train: tuple[Series, ...]
    test: Labelled
