"""Timestamps -> a regular clock: rows that were skipped become rows of NaN, everything else irregular is refused."""

from __future__ import annotations

from collections.abc import Iterator
from zoneinfo import ZoneInfoNotFoundError

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tsadc.errors import DataError
from tsadc.series import Clock, Floats

MOST_JITTER = 0.1  # of an interval
MOST_GAP = 10  # a grid with this many times more rows than the data is a mistake in the clock, not a gap
SECOND = 10**9
UNITS = (86400 * SECOND, 3600 * SECOND, 60 * SECOND, *(10**power for power in range(9, -1, -1)))


def regular(times: pd.DatetimeIndex, values: Floats, source: str) -> tuple[Floats, Clock]:
    """Values on the grid that `times` imply, and that grid's clock."""
    ticks = _ticks(times, source)
    steps = np.diff(ticks)
    _check_order(times, steps, source)
    interval, exact = _interval(ticks, steps)
    rows, stray = _rows(ticks, interval)
    if stray.any():
        row = max(1, int(np.flatnonzero(stray)[0]))
        raise DataError(
            f"{source} should be sampled regularly, every {pd.Timedelta(interval)} as most of its rows are, but row "
            f"{row} ({times[row]}) comes {pd.Timedelta(int(steps[row - 1]))} after the one before; resample it first."
        )
    start = int(ticks[0]) if exact else _even_start(ticks, rows, interval)
    clock = Clock(start, interval, dated=True, timezone=_zone(times))
    if rows[-1] + 1 == len(rows):
        return values, clock
    if rows[-1] + 1 > MOST_GAP * len(rows):
        row = int(steps.argmax()) + 1
        raise DataError(
            f"{source} has {len(rows)} rows every {pd.Timedelta(interval)}, but row {row} ({times[row]}) comes "
            f"{pd.Timedelta(int(steps[row - 1]))} after the one before; mend that time, or split the series there."
        )
    filled = np.full((int(rows[-1]) + 1, values.shape[1]), np.nan, dtype=values.dtype)
    filled[rows] = values
    return filled, clock


def _ticks(times: pd.DatetimeIndex, source: str) -> NDArray[np.int64]:
    """Nanoseconds since 1970 in UTC."""
    if times.isna().any():
        row = int(np.flatnonzero(times.isna())[0])
        raise DataError(f"{source} has no time at row {row}; every row needs one.")
    if len(times) < 2:
        raise DataError(f"{source} has a single row, but it takes two to tell how often it is sampled.")
    least, most = pd.Timestamp.min.year, pd.Timestamp.max.year
    wrong = np.flatnonzero((times.year <= least) | (times.year >= most))
    if len(wrong):
        raise DataError(
            f"{source} has the time {times[wrong[0]]} at row {wrong[0]}; the year must be {least + 1} to {most - 1}."
        )
    return np.asarray(times.as_unit("ns").asi8)


def _check_order(times: pd.DatetimeIndex, steps: NDArray[np.int64], source: str) -> None:
    if (steps < 0).any():
        row = int(np.flatnonzero(steps < 0)[0]) + 1
        raise DataError(
            f"{source} should be sorted by time, but row {row} ({times[row]}) is before row {row - 1}; sort it first."
        )
    if (steps == 0).any():
        row = int(np.flatnonzero(steps == 0)[0]) + 1
        raise DataError(f"{source} has the time {times[row]} twice, at rows {row - 1} and {row}; keep one of them.")


def _interval(ticks: NDArray[np.int64], steps: NDArray[np.int64]) -> tuple[int, bool]:
    """The step of the clock, and whether every timestamp keeps to it exactly. Where timestamps jitter or are rounded,
    it is the roundest step that suits them all: their own mean differs from file to file, and every file of a machine
    must get the same clock."""
    middle = int(np.sort(steps)[(len(steps) - 1) // 2])
    if not (steps % middle).any():
        return middle, True
    mean = float(ticks[-1] - ticks[0]) / float(np.rint(steps / middle).sum())
    for interval in _round_steps(mean):
        if not _rows(ticks, interval)[1].any():
            return interval, False
    return middle, False


def _round_steps(mean: float) -> Iterator[int]:
    """Steps close to `mean`, roundest first: whole units of time, then whole rates per second, then more digits."""
    fitting = [unit for unit in UNITS if mean > 0.5 * unit]
    whole = sum(unit >= min(0.1 * mean, SECOND) for unit in fitting)
    yield from (round(mean / unit) * unit for unit in fitting[:whole])
    if mean < SECOND:
        yield round(SECOND / round(SECOND / mean))
    yield from (round(mean / unit) * unit for unit in fitting[whole:])


def _rows(ticks: NDArray[np.int64], interval: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The row of the grid next to each timestamp, and which of them lie too far off or share it with another."""
    offsets = (ticks - ticks[0]) / interval
    offsets -= np.median(offsets - np.rint(offsets))  # the first timestamp may jitter like any other
    rows = np.rint(offsets).astype(np.int64)
    rows -= rows[0]
    stray = np.abs(offsets - np.rint(offsets)) > MOST_JITTER
    stray[1:] |= np.diff(rows) == 0
    return rows, stray


def _even_start(ticks: NDArray[np.int64], rows: NDArray[np.int64], interval: int) -> int:
    """Where a clock that jitters starts: at a multiple of its interval since 1970 if that is as close as it jitters."""
    start = int(ticks[0]) + round(float(np.median(ticks - ticks[0] - rows * interval)))
    multiple = (start + interval // 2) // interval * interval
    return multiple if abs(start - multiple) <= MOST_JITTER * interval else start


def _zone(times: pd.DatetimeIndex) -> str | None:
    """The time zone by the name under which it is found again; UTC if it has none."""
    if times.tz is None:
        return None
    try:
        return str(times[:1].tz_convert(str(times.tz)).tz)
    except (ValueError, ZoneInfoNotFoundError):
        return "UTC"
