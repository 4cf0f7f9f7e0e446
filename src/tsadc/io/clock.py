"""Timestamps -> a regular clock: rows that were skipped become rows of NaN, everything else irregular is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tsadc.errors import DataError
from tsadc.series import Clock, Floats

MOST_GAP = 100  # a grid with this many times more rows than the data is a mistake in the clock, not a gap


def regular(times: pd.DatetimeIndex, values: Floats, source: str) -> tuple[Floats, Clock]:
    """Values on the grid that `times` imply (their median step), and that grid's clock."""
    if times.isna().any():
        row = int(np.flatnonzero(times.isna())[0])
        raise DataError(f"{source} has no time at row {row}; every row needs one.")
    zone = str(times.tz) if times.tz is not None else None
    ticks = times.as_unit("ns").asi8
    if len(ticks) < 2:
        return values, Clock(int(ticks[0]), 1, dated=True, timezone=zone)
    steps = np.diff(ticks)
    _check_order(times, steps, source)
    interval = int(np.median(steps))
    offsets = (ticks - ticks[0]) / interval
    rows = np.rint(offsets).astype(np.int64)
    stray = np.abs(offsets - rows) > 0.1
    if stray.any() or len(np.unique(rows)) < len(rows):
        row = int(np.flatnonzero(stray | np.concatenate([[False], np.diff(rows) == 0]))[0])
        raise DataError(
            f"{source} should be sampled regularly, every {pd.Timedelta(interval)} as most of its rows are, but row "
            f"{row} ({times[row]}) comes {pd.Timedelta(int(steps[row - 1]))} after the one before; resample it first."
        )
    if rows[-1] + 1 == len(rows):
        return values, Clock(int(ticks[0]), interval, dated=True, timezone=zone)
    if rows[-1] + 1 > MOST_GAP * len(rows):
        raise DataError(
            f"{source} spans {rows[-1] + 1} steps of {pd.Timedelta(interval)} but has {len(rows)} rows; "
            "check its clock."
        )
    filled = np.full((int(rows[-1]) + 1, values.shape[1]), np.nan, dtype=values.dtype)
    filled[rows] = values
    return filled, Clock(int(ticks[0]), interval, dated=True, timezone=zone)


def _check_order(times: pd.DatetimeIndex, steps: np.ndarray, source: str) -> None:
    if (steps < 0).any():
        row = int(np.flatnonzero(steps < 0)[0]) + 1
        raise DataError(
            f"{source} should be sorted by time, but row {row} ({times[row]}) is earlier than row {row - 1}."
        )
    if (steps == 0).any():
        row = int(np.flatnonzero(steps == 0)[0]) + 1
        raise DataError(f"{source} has the time {times[row]} twice, at rows {row - 1} and {row}; keep one of them.")
