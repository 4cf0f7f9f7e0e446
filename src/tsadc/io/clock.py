"""Timestamps -> a regular clock: rows that were skipped become rows of NaN, everything else irregular is refused."""

from __future__ import annotations

from collections.abc import Iterator
from zoneinfo import ZoneInfoNotFoundError

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tsadc.errors import DataError
from tsadc.io.reading import spell
from tsadc.series import Clock, Floats

MOST_JITTER = 0.1  # of an interval
MOST_GAP = 10  # a grid with this many times more rows than the data is a mistake in the clock, not a gap
SECOND = 10**9
HOUR = 3600 * SECOND
MOST_DISORDER = 0.2  # of the steps go back far: beyond, rows are in no order at all
MOST_JUMPS = 50  # that are looked at closely
NIGHT = (23, 0, 1, 2, 3)  # the hours that are repeated when summer ends, all over the world
UNITS = (24 * HOUR, HOUR, 60 * SECOND, *(10**power for power in range(9, -1, -1)))


def regular(times: pd.DatetimeIndex, values: Floats, source: str) -> tuple[Floats, Clock]:
    """Values on the grid that `times` imply, and that grid's clock."""
    ticks = ticks_of(times, source)
    if len(times) < 2:
        raise DataError(f"{source} has a single row, but it takes two to tell how often it is sampled.")
    steps = np.diff(ticks)
    _check_order(times, steps, source)
    interval, exact = interval_of(ticks, steps)
    rows, stray = rows_of(ticks, interval)
    if stray.any():
        row = max(1, int(np.flatnonzero(stray)[0]))
        raise DataError(
            f"{source} should be sampled regularly, every {spell(interval)} as most of its rows are, but row "
            f"{row} ({times[row]}) comes {spell(int(steps[row - 1]))} after the one before; put it on a grid, "
            f"for instance with --every {spell(_whole(interval))} (in Python every={spell(_whole(interval))!r})."
        )
    start = int(ticks[0]) if exact else even_start(ticks, rows, interval)
    clock = Clock(start, interval, dated=True, timezone=zone_of(times))
    if rows[-1] + 1 == len(rows):
        return values, clock
    if rows[-1] + 1 > MOST_GAP * len(rows):
        row = int(steps.argmax()) + 1
        raise DataError(
            f"{source} has {len(rows)} rows every {spell(interval)}, but row {row} ({times[row]}) comes "
            f"{spell(int(steps[row - 1]))} after the one before; mend that time, or split the series there."
        )
    filled = np.full((int(rows[-1]) + 1, values.shape[1]), np.nan, dtype=values.dtype)
    filled[rows] = values
    return filled, clock


def ticks_of(times: pd.DatetimeIndex, source: str, first: int = 0) -> NDArray[np.int64]:
    """Nanoseconds since 1970 in UTC; `first` is the row of the first time, for messages."""
    if times.isna().any():
        row = int(np.flatnonzero(times.isna())[0])
        raise DataError(f"{source} has no time at row {first + row}; every row needs one.")
    # In UTC and as NumPy writes them: pandas can neither shift nor print years that Python does not know.
    utc = times if times.tz is None else times.tz_convert(None)
    least, most = pd.Timestamp.min.year, pd.Timestamp.max.year
    wrong = np.flatnonzero((utc.year <= least) | (utc.year >= most))
    if len(wrong):
        row = int(wrong[0])
        raise DataError(
            f"{source} has the time {str(utc.to_numpy()[row]).replace('T', ' ')} at row {first + row}; the year must "
            f"be {least + 1} to {most - 1}."
        )
    return np.asarray(utc.as_unit("ns").asi8)


def check_hour(times: pd.DatetimeIndex, steps: NDArray[np.int64], source: str) -> None:
    """Refuse times without a zone that repeat an hour of the night: a wall clock whose summer ended. Other disorder is
    let pass, and so is the hour that is missing in spring: it looks like any gap."""
    newest_first = (steps < 0).sum() > (steps > 0).sum()
    if newest_first:
        times, steps = times[::-1], steps[::-1] * -1
    if times.tz is not None or not (steps > 0).any():
        return
    row = _repeated(times, steps)
    if row is not None:
        raise DataError(
            f"{source} repeats an hour at row {len(times) - 1 - row if newest_first else row} ({times[row]}), as local "
            "clocks do when daylight saving time ends; write times in UTC, or with their offset from it."
        )


def _repeated(times: pd.DatetimeIndex, steps: NDArray[np.int64]) -> int | None:
    """The first row of an hour that comes twice."""
    # A row that came late is followed by a step as long as it was late, which says nothing of how often rows come.
    late = np.append(False, steps[:-1] < 0)
    ahead = steps[(steps > 0) & ~late] if ((steps > 0) & ~late).any() else steps[steps > 0]
    usual, longest = int(np.median(ahead)), 2 * int(np.quantile(ahead, 0.999, method="higher"))
    # Hourly rows do not go back, they come twice, as rows do for other reasons too; but then at any time of the day.
    same = np.flatnonzero(steps == 0) + 1
    if len(same) and abs(HOUR - usual) <= usual // 2 and usual <= HOUR and np.isin(times[same].hour, NIGHT).all():
        return int(same[0])
    if (steps < -HOUR // 4).mean() > MOST_DISORDER:
        return None
    # Whatever lies between the last row of summer and the first of winter, the wall clock shows an hour less.
    between = steps + HOUR
    fits = (between >= 0) & (between <= min(longest, HOUR // 2))
    if usual <= HOUR:
        fits |= np.abs(between - usual) <= usual // 2
    found = np.flatnonzero(fits & (steps < 0)) + 1
    found = found[np.isin(times[found].hour, NIGHT)]
    return next((int(row) for row in found[:MOST_JUMPS] if _twice(steps, int(row), usual, longest)), None)


def _twice(steps: NDArray[np.int64], row: int, usual: int, longest: int) -> bool:
    """Whether rows without a break cover the hour both before and after the clock went back to `row`: so that it is
    neither a single row that came late, nor one of many in no order."""
    back, window = -int(steps[row - 1]), 4 * HOUR // usual + 2
    least = max(0.3 * back / usual, 2 if longest > 4 * usual else 1)
    for side in (steps[max(0, row - 1 - window) : row - 1][::-1], steps[row : row + window]):
        left = np.flatnonzero(np.cumsum(side) > back)
        inside = side[: left[0] + 1] if len(left) else side
        if (inside > min(longest, HOUR)).any() or (len(left) and len(inside) < least):
            return False
    return True


def _check_order(times: pd.DatetimeIndex, steps: NDArray[np.int64], source: str) -> None:
    check_hour(times, steps, source)
    if (steps < 0).any():
        row = int(np.flatnonzero(steps < 0)[0]) + 1
        raise DataError(
            f"{source} should be sorted by time, but row {row} ({times[row]}) is before row {row - 1}; sort it first."
        )
    if (steps == 0).any():
        row = int(np.flatnonzero(steps == 0)[0]) + 1
        usual = int(np.median(steps[steps > 0])) if (steps > 0).any() else SECOND
        raise DataError(
            f"{source} has the time {times[row]} twice, at rows {row - 1} and {row}; keep one of them, or average "
            f"them, for instance with --every {spell(_whole(usual))} (in Python every={spell(_whole(usual))!r})."
        )


def interval_of(ticks: NDArray[np.int64], steps: NDArray[np.int64]) -> tuple[int, bool]:
    """The step of the clock, and whether every timestamp keeps to it exactly. Where timestamps jitter or are rounded,
    it is the roundest step that suits them all: their own mean differs from file to file, and every file of a machine
    must get the same clock."""
    middle = int(np.sort(steps)[(len(steps) - 1) // 2])
    if not (steps % middle).any():
        return middle, True
    mean = float(ticks[-1] - ticks[0]) / float(np.rint(steps / middle).sum())
    for interval in _round_steps(mean):
        if not rows_of(ticks, interval)[1].any():
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


def rows_of(ticks: NDArray[np.int64], interval: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The row of the grid next to each timestamp, and which of them lie too far off or share it with another."""
    offsets = (ticks - ticks[0]) / interval
    offsets -= np.median(offsets - np.rint(offsets))  # the first timestamp may jitter like any other
    rows = np.rint(offsets).astype(np.int64)
    rows -= rows[0]
    stray = np.abs(offsets - np.rint(offsets)) > MOST_JITTER
    stray[1:] |= np.diff(rows) == 0
    return rows, stray


def even_start(ticks: NDArray[np.int64], rows: NDArray[np.int64], interval: int) -> int:
    """Where a clock that jitters starts: at a multiple of its interval since 1970 if that is as close as it jitters."""
    start = int(ticks[0]) + round(float(np.median(ticks - ticks[0] - rows * interval)))
    multiple = (start + interval // 2) // interval * interval
    return multiple if abs(start - multiple) <= MOST_JITTER * interval else start


def zone_of(times: pd.DatetimeIndex) -> str | None:
    """The time zone by the name under which it is found again; UTC if it has none."""
    if times.tz is None:
        return None
    try:
        return str(times[:1].tz_convert(str(times.tz)).tz)
    except (ValueError, ZoneInfoNotFoundError):
        return "UTC"


def _whole(interval: int) -> int:
    """A step to suggest: rounded to the largest unit it holds ten of."""
    unit = next((unit for unit in UNITS if interval >= 10 * unit), 1)
    return interval if interval % unit == 0 else round(interval / unit) * unit
