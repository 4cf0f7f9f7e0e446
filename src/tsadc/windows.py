"""Cut series into observations, and stitch scores of observations back onto the clock.

With timestamps, observations begin at multiples of `length * interval` since 1970, so that the same rows always fall
into the same observation, regardless of which span is read. Without timestamps they are counted from the first row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tsadc.series import Booleans, Clock, Floats, Observations, Place, Series


@dataclass(frozen=True)
class Cut:
    """Observations with enough measured rows, and those left out because they have too few."""

    observations: Observations
    left_out: Observations


def first_start(clock: Clock, length: int) -> int:
    """Return the row (0 or negative) at which the observation that contains row 0 begins."""
    if not clock.dated:
        return 0
    # A tolerance of a tenth, as for the jitter of timestamps: a clock that should tick on the multiple may be early.
    return -((clock.start + clock.interval // 10) // clock.interval % length)


def cut(series: Iterable[Series], length: int, minimum: float = 0.5) -> Cut:
    """Cut the series into observations of `length` rows, and keep those with at least the share `minimum` of their rows
    measured. Observations at the ends of a series may be partial."""
    whole = tuple(series)
    places = [
        Place(number, start)
        for number, item in enumerate(whole)
        for start in range(first_start(item.clock, length), len(item), length)
    ]
    observations = Observations(whole, tuple(places), length)
    kept = [i for i in range(len(observations)) if observations.coverage(i) >= minimum]
    return Cut(observations.take(kept), observations.take(np.setdiff1d(np.arange(len(observations)), kept)))


def between(observations: Observations, shift: int, minimum: float) -> Observations:
    """Return the observations that begin `shift` rows after those of the grid of each series, with at least the share
    `minimum` of their rows measured. They overlap those of the grid."""
    length = observations.length
    places = [
        Place(number, start)
        for number, item in enumerate(observations.series)
        for start in range(first_start(item.clock, length) + shift - length, len(item), length)
    ]
    every = Observations(observations.series, tuple(places), length, observations.scale)
    return every.take([i for i in range(len(every)) if every.coverage(i) >= minimum])


def mean_of_covering(parts: Sequence[tuple[Observations, Floats]], number: int) -> Floats:
    """Return for each row of series `number` the mean score of the observations that cover it; NaN if there is none.
    Each part holds observations and their scores."""
    rows = len(parts[0][0].series[number])
    total, count = np.zeros((2, rows))
    for observations, scores in parts:
        for place, score in zip(observations.places, scores, strict=True):
            if place.series == number:
                inside = slice(max(place.start, 0), max(place.start + observations.length, 0))
                total[inside] += score
                count[inside] += 1
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def stitch(
    observations: Observations,
    pieces: Sequence[Floats | Booleans],
    number: int,
    fill: float = np.nan,
    lead: tuple[int, ...] = (),
) -> Floats:
    """Join `pieces`, one per observation with time as the last axis, to one array over the rows of series `number`.

    Rows that no observation covers get `fill`. `lead` is the shape of the axes before time if there are no pieces."""
    rows = len(observations.series[number])
    shape = (*pieces[0].shape[:-1], rows) if len(pieces) else (*lead, rows)
    out = np.full(shape, fill, dtype=pieces[0].dtype if len(pieces) else np.float32)
    for place, piece in zip(observations.places, pieces, strict=True):
        if place.series == number:
            first, last = max(place.start, 0), min(place.start + observations.length, rows)
            out[..., first:last] = piece[..., first - place.start : last - place.start]
    return out


def section(observations: Observations, number: int, chosen: Sequence[int], first: int, stop: int) -> Observations:
    """Return the observations `chosen` of series `number`, with rows [first, stop) of it as their only series."""
    whole = observations.series[number]
    clock = replace(whole.clock, start=whole.clock.start + first * whole.clock.interval)
    part = replace(whole, values=whole.values[first:stop], clock=clock)
    places = tuple(Place(0, observations.places[i].start - first) for i in chosen)
    return Observations((part,), places, observations.length, observations.scale)


def runs(flags: Booleans) -> list[tuple[int, int]]:
    """Return the maximal runs [start, stop) of True."""
    edges = np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8))
    return list(zip(np.flatnonzero(edges == 1).tolist(), np.flatnonzero(edges == -1).tolist(), strict=True))


def empty_runs(series: Series) -> Iterator[tuple[int, int]]:
    """Yield the maximal runs [start, stop) of rows without any value. Values are read in chunks."""
    begin, first = None, 0
    for values in series.chunks():
        empty = np.asarray(~np.isfinite(values).any(axis=1))
        if begin is not None and not empty[0]:
            yield begin, first
            begin = None
        for start, stop in runs(empty):
            begin = first + start if begin is None else begin
            if stop < len(empty):
                yield begin, first + stop
                begin = None
        first += len(values)
    if begin is not None:
        yield begin, first
