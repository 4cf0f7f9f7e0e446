"""The data types that all parts share.

A `Series` is one entity's measurements on a regular clock. `Observations` are its pieces of equal length, which a
detector scores. `Labelled` adds the truth for evaluation. A Series has no labels, so no detector can see one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tsadc.errors import DataError

Floats = NDArray[np.floating]
Booleans = NDArray[np.bool_]
CHUNK_CELLS = 2**18  # cells of a series that a pass over it reads at once
MAX_ABS_VALUE = 1e30  # of what a detector sees: an extreme value must not overflow sums of float32


@dataclass(frozen=True, slots=True)
class Clock:
    """The times of a series' rows: row i lies at ``start + i * interval``.

    Parameters
    ----------
    start : int, default 0
        Time of row 0: nanoseconds since 1970 in UTC if `dated`, otherwise a row number.
    interval : int, default 1
        Time from row to row, in the same unit as `start`.
    dated : bool, default False
        Whether the times are dates. Otherwise rows are only counted.
    timezone : str, optional
        Time zone in which times are shown, for example ``"Europe/Berlin"``. Without it they are shown in UTC.
    pace : int, optional
        Nanoseconds from row to row, for a recording whose sampling rate is known but not its start.

    Examples
    --------
    >>> from tsadc.series import Clock
    >>> minutes = Clock(start=0, interval=60 * 10**9, dated=True)
    >>> str(minutes.at([2])[0])
    '1970-01-01 00:02:00'
    """

    start: int = 0
    interval: int = 1
    dated: bool = False
    timezone: str | None = None
    # Not in the repr, of which digests of data are made: it does not change the rows.
    pace: int | None = field(default=None, repr=False)

    @property
    def every(self) -> int | None:
        """Nanoseconds from row to row, or None if rows are only counted."""
        return self.interval if self.dated else self.pace

    def tick(self, row: int) -> int:
        """Return the time of a row in the unit of `start`."""
        return self.start + row * self.interval

    def at(self, rows: NDArray[np.integer] | Sequence[int]) -> pd.Index:
        """Return the times of `rows`: timestamps, or row numbers without dates. Rows may lie outside the series."""
        ticks = self.start + np.asarray(rows, dtype=np.int64) * self.interval
        if not self.dated:
            return pd.Index(ticks)
        times = pd.DatetimeIndex(ticks.astype("datetime64[ns]"))
        return times.tz_localize("UTC").tz_convert(self.timezone) if self.timezone else times


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """The measurements of one entity (a machine, a patient, ...) on a regular clock.

    `tsadc.read` makes series from files. Detectors accept them, alone or in a sequence, wherever they accept data.

    Parameters
    ----------
    values : array of float, shape (time, variable)
        Measurements in their own units; NaN means not measured. An array-like object whose slices of rows are arrays
        works too, for example a file larger than memory.
    names : tuple of str
        Names of the variables, one per column.
    clock : Clock, optional
        The times of the rows. By default rows are only counted.
    entity : str, default "series"
        Name of the entity.
    observation : int, optional
        Number of rows of each observation, if the values are separate observations laid end to end. Otherwise all rows
        are consecutive in time.
    units : mapping of str to str, optional
        Units of the variables, as far as the file states them below its header. They are shown, not used.

    Raises
    ------
    DataError
        If `values` does not have one column per name.

    Examples
    --------
    >>> import numpy as np
    >>> import tsadc
    >>> series = tsadc.Series(np.array([[1.0, 7.0], [1.2, np.nan], [1.1, 8.0]]), ("flow", "pressure"), entity="pump")
    >>> len(series), series.names
    (3, ('flow', 'pressure'))
    """

    values: Floats
    names: tuple[str, ...]
    clock: Clock = Clock()
    entity: str = "series"
    observation: int | None = None
    units: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or self.values.shape[1] != len(self.names):
            raise DataError(
                f"A series needs values of shape (time, {len(self.names)} variables), but got {self.values.shape}; "
                "pass one name per column."
            )

    def __len__(self) -> int:
        return len(self.values)

    def chunks(self) -> Iterator[Floats]:
        """Yield the values, a number of rows at a time, for a pass over data that may not fit into memory."""
        rows = max(1, CHUNK_CELLS // max(1, len(self.names)))
        for first in range(0, len(self), rows):
            yield np.asarray(self.values[first : first + rows])


def without_rows(series: Series, rows: Booleans) -> Series:
    """Return the series with these rows (time,) not measured."""
    values = np.array(series.values, dtype=np.float64)
    values[rows] = np.nan
    return replace(series, values=values)


@dataclass(frozen=True, slots=True)
class Place:
    """The position of an observation: rows [start, start + length) of a series, possibly reaching beyond its ends."""

    series: int
    start: int


@dataclass(frozen=True)
class Observations:
    """Pieces of `length` rows, read from their series when needed. `scale` maps (entity, values) to normalised values;
    the series keep the raw ones."""

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
        """Return the observations at `indices`, in that order."""
        return Observations(self.series, tuple(self.places[int(i)] for i in indices), self.length, self.scale)

    def scaled(self, scale: Callable[[str, Floats], Floats]) -> Observations:
        """Return the same observations, normalised by `scale` when they are read."""
        return Observations(self.series, self.places, self.length, scale)

    def by_series(self) -> list[list[int]]:
        """Return the indices of the observations in each series."""
        indices: list[list[int]] = [[] for _ in self.series]
        for i, place in enumerate(self.places):
            indices[place.series].append(i)
        return indices

    def by_entity(self) -> dict[str, list[int]]:
        """Return the indices of the observations of each entity that has some."""
        indices: dict[str, list[int]] = {}
        for i, place in enumerate(self.places):
            indices.setdefault(self.series[place.series].entity, []).append(i)
        return indices

    def entity(self, index: int) -> str:
        """Return the entity of an observation."""
        return self.series[self.places[index].series].entity

    def read(self, index: int) -> Floats:
        """Return one observation (variable, time) as float32; NaN where not measured or outside the series."""
        place = self.places[index]
        series = self.series[place.series]
        first, last = max(place.start, 0), min(place.start + self.length, len(series))
        inside: Floats = np.asarray(series.values[first:last], dtype=np.float64)
        if self.scale is not None:
            inside = self.scale(series.entity, inside)
        inside = np.clip(inside, -MAX_ABS_VALUE, MAX_ABS_VALUE)
        out = np.full((len(series.names), self.length), np.nan, dtype=np.float32)
        out[:, first - place.start : last - place.start] = inside.T
        return out

    def batch(self, indices: Sequence[int] | NDArray[np.integer]) -> Floats:
        """Return several observations (batch, variable, time)."""
        return np.stack([self.read(int(i)) for i in indices])

    def coverage(self, index: int) -> float:
        """Return the share of the observation's rows in which at least one variable was measured."""
        place = self.places[index]
        values = self.series[place.series].values
        rows = values[max(place.start, 0) : max(place.start + self.length, 0)]
        return float(np.isfinite(rows).any(axis=1).sum() / self.length)


@dataclass(frozen=True, slots=True)
class Truth:
    """One true anomaly: rows [start, stop) of an entity, its kind, and the affected variables."""

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
        """Return for each observation whether a true anomaly (of `kind`) overlaps any of its rows."""
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
