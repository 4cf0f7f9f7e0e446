"""Cut series into observations, and stitch what was found in them back onto the clock.

With timestamps an observation begins at the first row from a multiple of `length * interval` since 1970, so that the
same rows fall into the same observation whatever span a request covers. Without timestamps they count from the first
row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tsadc.series import Booleans, Clock, Floats, Observations, Place, Series


@dataclass(frozen=True)
class Cut:
    """Observations with enough rows to be scored, and how many were left out for having too few."""

    observations: Observations
    left_out: int


def first_start(clock: Clock, length: int) -> int:
    """The row (0 or negative) at which the observation holding row 0 begins."""
    if not clock.dated:
        return 0
    # A tenth of slack, as much as readers let timestamps jitter: a clock meant to tick on the multiple may be early.
    return -((clock.start + clock.interval // 10) // clock.interval % length)


def cut(series: Iterable[Series], length: int, minimum: float = 0.5) -> Cut:
    """Every observation that has at least `minimum` of its rows; those at the ends of a series may be partial."""
    every = tuple(series)
    places = [
        Place(number, start)
        for number, one in enumerate(every)
        for start in range(first_start(one.clock, length), len(one), length)
    ]
    observations = Observations(every, tuple(places), length)
    kept = [i for i in range(len(observations)) if observations.coverage(i) >= minimum]
    return Cut(observations.take(kept), len(observations) - len(kept))


def stitch(
    observations: Observations,
    pieces: Sequence[Floats | Booleans],
    number: int,
    fill: float = np.nan,
    lead: tuple[int, ...] = (),
) -> Floats:
    """One array per row of series `number` out of `pieces`, one per observation, time axis last. Rows that no
    observation covers get `fill`; without any piece `lead` are the axes before time."""
    rows = len(observations.series[number])
    shape = (*pieces[0].shape[:-1], rows) if len(pieces) else (*lead, rows)
    out = np.full(shape, fill, dtype=pieces[0].dtype if len(pieces) else np.float32)
    for place, piece in zip(observations.places, pieces, strict=True):
        if place.series == number:
            first, last = max(place.start, 0), min(place.start + observations.length, rows)
            out[..., first:last] = piece[..., first - place.start : last - place.start]
    return out


def section(observations: Observations, number: int, chosen: Sequence[int], first: int, stop: int) -> Observations:
    """Rows [first, stop) of series `number` as a series of their own, with the observations `chosen` in it."""
    whole = observations.series[number]
    clock = replace(whole.clock, start=whole.clock.start + first * whole.clock.interval)
    part = Series(whole.values[first:stop], whole.names, clock, whole.entity)
    places = tuple(Place(0, observations.places[i].start - first) for i in chosen)
    return Observations((part,), places, observations.length, observations.scale)


def runs(flags: Booleans) -> list[tuple[int, int]]:
    """The maximal runs [start, stop) of True."""
    edges = np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8))
    return list(zip(np.flatnonzero(edges == 1).tolist(), np.flatnonzero(edges == -1).tolist(), strict=True))
