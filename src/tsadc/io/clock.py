"""Timestamps -> a regular clock.

`regular` finds the time step of rows that are sampled regularly: skipped rows become rows of NaN, and any other
irregularity is an error. `onto_grid` averages rows at any times on a grid with a given step.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from zoneinfo import ZoneInfoNotFoundError

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tsadc.errors import DataError, TooShortError, notice
from tsadc.io.reading import how_to_resample, spell
from tsadc.series import Clock, Floats

MAX_JITTER = 0.1  # of an interval
MAX_FILLED = 10  # rows of the clock per row of data: more means a mistake in the times, not a gap
MAX_GRID_ROWS = 100  # rows of a grid per row of data: more means a mistake in the step or in the times
SECOND = 10**9
HOUR = 3600 * SECOND
MAX_BACKWARD = 0.2  # share of steps that go far back in time: beyond, rows are in no order at all
MAX_JUMPS = 50  # that are examined
NIGHT = (23, 0, 1, 2, 3)  # the hours that are repeated when daylight saving time ends, all over the world
USUAL_STEPS = (
    *(digit * 10**power for power in range(9) for digit in (1, 2, 5)),
    *(n * SECOND for n in (1, 2, 5, 10, 15, 20, 30)),
    *(n * 60 * SECOND for n in (1, 2, 5, 10, 15, 20, 30)),
    *(n * HOUR for n in (1, 2, 3, 4, 6, 8, 12, 24)),
)
UNITS = (24 * HOUR, HOUR, 60 * SECOND, *(10**power for power in range(9, -1, -1)))


def regular(times: pd.DatetimeIndex, values: Floats, source: str, texts: Sequence[str] = ()) -> tuple[Floats, Clock]:
    """Return the values on the regular clock that `times` imply, and that clock.

    Rows without any value may come at any time: loggers write such rows for events. `texts` are the names of columns of
    text; one of them may explain repeated times."""
    try:
        return _regular(times, values, source, texts)
    except DataError:
        filled = np.asarray(np.isfinite(values).any(axis=1))
        if filled.all() or filled.sum() < 2:
            raise
        with suppress(DataError):
            found = _regular(times[filled], values[filled], source, texts)
            notice(f"{source}: {int((~filled).sum())} row(s) without values were left out; their times are irregular.")
            return found
        raise


def _regular(times: pd.DatetimeIndex, values: Floats, source: str, texts: Sequence[str]) -> tuple[Floats, Clock]:
    ticks = ticks_of(times, source)
    if len(times) < 2:
        raise TooShortError(f"{source} has a single row, but at least two are needed to find its time step.")
    steps = np.diff(ticks)
    _check_order(times, steps, source, texts)
    interval, exact = interval_of(ticks, steps)
    rows, stray = rows_of(ticks, interval)
    if stray.any():
        row = max(1, int(np.flatnonzero(stray)[0]))
        raise DataError(
            f"{source} should be sampled regularly, every {spell(interval)} like most of its rows, but row {row} "
            f"({times[row]}) comes {spell(int(steps[row - 1]))} after the one before; "
            f"{how_to_resample(_rounded(interval))}{_or_long(texts)}."
        )
    start = int(ticks[0]) if exact else even_start(ticks, rows, interval)
    clock = Clock(start, interval, dated=True, timezone=zone_of(times))
    if rows[-1] + 1 == len(rows):
        return values, clock
    if rows[-1] + 1 > MAX_FILLED * len(rows):
        row = int(steps.argmax()) + 1
        raise DataError(
            f"{source} has {len(rows)} rows every {spell(interval)}, but row {row} ({times[row]}) comes "
            f"{spell(int(steps[row - 1]))} after the one before; correct that time, or split the series there"
            f"{_or_long(texts)}."
        )
    filled = np.full((int(rows[-1]) + 1, values.shape[1]), np.nan, dtype=values.dtype)
    filled[rows] = values
    return filled, clock


def onto_grid(times: pd.DatetimeIndex, values: Floats, every: int, source: str) -> tuple[Floats, Clock]:
    """Average values (time, variable) on a grid with the step `every` (nanoseconds); return them and the grid's clock.

    A cell is the mean of the values measured in [tick, tick + every), NaN if there are none: nothing is interpolated.
    Ticks are multiples of `every` since 1970 in UTC, so that all files share one grid. Rows may come in any order, and
    several at the same time."""
    ticks = ticks_of(times, source)
    steps = np.diff(ticks)
    check_repeated_hour(times, steps, source)
    if (steps < 0).any():
        notice(
            f"{source} is not sorted by time: {int((steps < 0).sum())} row(s) are earlier than the row before them; "
            "all rows were sorted."
        )
    cells = ticks // every
    first, count = int(cells.min()), int(cells.max() - cells.min()) + 1
    if count > MAX_GRID_ROWS * len(ticks):
        order = np.sort(ticks)
        widest = int(np.diff(order).argmax()) + 1
        raise DataError(
            f"{source} has {len(ticks)} rows, which would become {count} at every {spell(every)}; the widest gap ends "
            f"at {pd.Timestamp(int(order[widest]))}: correct that time, or use a longer step."
        )
    cells -= first
    out = np.full((count, values.shape[1]), np.nan)
    for k, column in enumerate(values.T):
        known = np.isfinite(column)
        total = np.bincount(cells[known], weights=column[known], minlength=count)
        amount = np.bincount(cells[known], minlength=count)
        np.divide(total, amount, out=out[:, k], where=amount > 0)
    return out, Clock(first * every, every, dated=True, timezone=zone_of(times))


def ticks_of(times: pd.DatetimeIndex, source: str, first: int = 0) -> NDArray[np.int64]:
    """Return nanoseconds since 1970 in UTC; `first` is the row of the first time, for messages."""
    if times.isna().any():
        row = int(np.flatnonzero(times.isna())[0])
        raise DataError(f"{source} has no time at row {first + row}; give every row a time.")
    # In UTC, and printed by NumPy: pandas can neither shift nor print years that Python does not support.
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


def check_repeated_hour(times: pd.DatetimeIndex, steps: NDArray[np.int64], source: str) -> None:
    """Raise an error if times without a zone repeat an hour of the night: local time when daylight saving time ended.

    Other disorder passes, and so does the hour that is missing in spring: it looks like any other gap."""
    newest_first = (steps < 0).sum() > (steps > 0).sum()
    if newest_first:
        times, steps = times[::-1], steps[::-1] * -1
    if times.tz is not None or not (steps > 0).any():
        return
    row = _repeated_hour_row(times, steps)
    if row is not None:
        raise DataError(
            f"{source} repeats an hour at row {len(times) - 1 - row if newest_first else row} ({times[row]}), as local "
            "clocks do when daylight saving time ends; write times in UTC, or with their offset from it."
        )


def _repeated_hour_row(times: pd.DatetimeIndex, steps: NDArray[np.int64]) -> int | None:
    """Return the first row of an hour that comes twice, or None."""
    # A row that came late is followed by a step as long as its delay, which says nothing about the usual step.
    late = np.append(False, steps[:-1] < 0)
    ahead = steps[(steps > 0) & ~late] if ((steps > 0) & ~late).any() else steps[steps > 0]
    usual, longest = int(np.median(ahead)), 2 * int(np.quantile(ahead, 0.999, method="higher"))
    # Hourly rows do not go back but come twice. Rows do so for other reasons too, but then at any time of the day.
    same = np.flatnonzero(steps == 0) + 1
    if len(same) and abs(HOUR - usual) <= usual // 2 and usual <= HOUR and np.isin(times[same].hour, NIGHT).all():
        return int(same[0])
    if (steps < -HOUR // 4).mean() > MAX_BACKWARD:
        return None
    # The time between the last row of summer and the first of winter appears an hour shorter in local time.
    between = steps + HOUR
    fits = (between >= 0) & (between <= min(longest, HOUR // 2))
    if usual <= HOUR:
        fits |= np.abs(between - usual) <= usual // 2
    candidates = np.flatnonzero(fits & (steps < 0)) + 1
    candidates = candidates[np.isin(times[candidates].hour, NIGHT)]
    return next((int(row) for row in candidates[:MAX_JUMPS] if _covered_twice(steps, int(row), usual, longest)), None)


def _covered_twice(steps: NDArray[np.int64], row: int, usual: int, longest: int) -> bool:
    """Return whether rows without a gap cover the hour both before and after the clock went back to `row`, so that it
    is neither a single late row nor one of many in no order."""
    back, window = -int(steps[row - 1]), 4 * HOUR // usual + 2
    least = max(0.3 * back / usual, 2 if longest > 4 * usual else 1)
    for side in (steps[max(0, row - 1 - window) : row - 1][::-1], steps[row : row + window]):
        left = np.flatnonzero(np.cumsum(side) > back)
        inside = side[: left[0] + 1] if len(left) else side
        if (inside > min(longest, HOUR)).any() or (len(left) and len(inside) < least):
            return False
    return True


def _check_order(times: pd.DatetimeIndex, steps: NDArray[np.int64], source: str, texts: Sequence[str]) -> None:
    check_repeated_hour(times, steps, source)
    if (steps < 0).any():
        row = int(np.flatnonzero(steps < 0)[0]) + 1
        raise DataError(
            f"{source} should be sorted by time, but row {row} ({times[row]}) is before row {row - 1}; "
            f"{f'{_distinguish(texts[0])}; otherwise ' if texts else ''}sort it."
        )
    if (steps == 0).any():
        row = int(np.flatnonzero(steps == 0)[0]) + 1
        raise DataError(
            f"{source} has the time {times[row]} twice, at rows {row - 1} and {row}; {_fix_repeated(steps, texts)}."
        )


def _fix_repeated(steps: NDArray[np.int64], texts: Sequence[str]) -> str:
    """Return advice for times that come several times; averaging is right only if all rows are of one entity."""
    if texts:
        return _distinguish(texts[0])
    if not (steps % (24 * HOUR)).any():
        return (
            "these are dates without a time of day, so name the column that has one with --time (in Python: "
            "Reading(time=...)), or the column with the entity of each row with --entity"
        )
    usual = int(np.median(steps[steps > 0])) if (steps > 0).any() else SECOND
    return f"remove one of them, or {how_to_resample(_rounded(usual))}"


def _distinguish(column: str) -> str:
    """Return advice for a table whose rows a column of text may distinguish."""
    name = shlex.quote(column)
    return (
        f"if {column!r} says which entity a row belongs to, add --entity {name}, and if it names the variable, "
        f"--long TIME,{name},VALUE with the names of the columns (in Python: Reading(entity=...) or Reading(long=...))"
    )


def _or_long(texts: Sequence[str]) -> str:
    """Return advice for irregular rows of a table with a column of text, which may name the variable of each row."""
    if not texts:
        return ""
    return (
        f"; if {texts[0]!r} names the variable of each row, add --long TIME,{shlex.quote(texts[0])},VALUE with the "
        "names of the columns, and --every"
    )


def interval_of(ticks: NDArray[np.int64], steps: NDArray[np.int64]) -> tuple[int, bool]:
    """Return the time step of the clock, and whether every timestamp keeps to it exactly.

    If timestamps jitter or are rounded, it is the roundest step that fits them all: their mean differs from file to
    file, and every file of a machine must get the same clock."""
    middle = int(np.sort(steps)[(len(steps) - 1) // 2])
    if not (steps % middle).any():
        return middle, True
    mean = float(ticks[-1] - ticks[0]) / float(np.rint(steps / middle).sum())
    for interval in _round_steps(mean):
        if not rows_of(ticks, interval)[1].any():
            return interval, False
    return middle, False


def _round_steps(mean: float) -> Iterator[int]:
    """Yield steps close to `mean`, roundest first: whole units of time, whole rates per second, then more digits."""
    fitting = [unit for unit in UNITS if mean > 0.5 * unit]
    whole = sum(unit >= min(0.1 * mean, SECOND) for unit in fitting)
    yield from (round(mean / unit) * unit for unit in fitting[:whole])
    if mean < SECOND:
        yield round(SECOND / round(SECOND / mean))
    yield from (round(mean / unit) * unit for unit in fitting[whole:])


def rows_of(ticks: NDArray[np.int64], interval: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the row of the clock nearest to each timestamp, and flags for timestamps that are too far from it or share
    their row with another."""
    offsets = (ticks - ticks[0]) / interval
    offsets -= np.median(offsets - np.rint(offsets))  # the first timestamp may jitter like any other
    rows = np.rint(offsets).astype(np.int64)
    rows -= rows[0]
    stray = np.abs(offsets - np.rint(offsets)) > MAX_JITTER
    stray[1:] |= np.diff(rows) == 0
    return rows, stray


def even_start(ticks: NDArray[np.int64], rows: NDArray[np.int64], interval: int) -> int:
    """Return the start of a clock with jitter: a multiple of its interval since 1970 if one lies within the jitter."""
    start = int(ticks[0]) + round(float(np.median(ticks - ticks[0] - rows * interval)))
    multiple = (start + interval // 2) // interval * interval
    return multiple if abs(start - multiple) <= MAX_JITTER * interval else start


def zone_of(times: pd.DatetimeIndex) -> str | None:
    """Return the name of the time zone, or UTC if it has no name that can be looked up; None without a zone."""
    if times.tz is None:
        return None
    try:
        return str(times[:1].tz_convert(str(times.tz)).tz)
    except (ValueError, ZoneInfoNotFoundError):
        return "UTC"


def _rounded(interval: int) -> int:
    """Return a step to suggest: the shortest usual one that is not much shorter than `interval`, such as 1min for 58 s,
    so that most cells of the grid get a row."""
    days = -(-interval // (24 * HOUR)) * 24 * HOUR
    return next((step for step in USUAL_STEPS if step >= 0.9 * interval), days)
