"""Irregular timestamps -> a regular grid.

A cell holds the mean of the values measured in [tick, tick + every); ticks are the multiples of `every` since 1970 in
UTC, so that all files and all requests share one grid. A cell in which nothing was measured is not observed: nothing is
interpolated, however fine the grid."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd

from tsadc.errors import DataError, TsadcNotice
from tsadc.io.clock import check_hour, ticks_of, zone_of
from tsadc.io.reading import spell
from tsadc.series import Clock, Floats

MOST_EMPTY = 100  # cells per row: beyond, the step or a time is a mistake


def onto_grid(times: pd.DatetimeIndex, values: Floats, every: int, source: str) -> tuple[Floats, Clock]:
    """Values (time, variable) on the grid of step `every` (nanoseconds), and its clock. Rows may come in any order, and
    several at one time."""
    ticks = ticks_of(times, source)
    steps = np.diff(ticks)
    check_hour(times, steps, source)
    if (steps < 0).any():
        warnings.warn(
            f"{source} is not sorted by time: {int((steps < 0).sum())} row(s) come before the row above them; all "
            "were put where their time belongs.",
            TsadcNotice,
            stacklevel=2,
        )
    cells = ticks // every
    first, count = int(cells.min()), int(cells.max() - cells.min()) + 1
    if count > MOST_EMPTY * len(ticks):
        order = np.sort(ticks)
        widest = int(np.diff(order).argmax()) + 1
        raise DataError(
            f"{source} would become {count} rows out of {len(ticks)} at every {spell(every)}, with the widest gap "
            f"before {pd.Timestamp(int(order[widest]))}; use a longer step, or mend that time."
        )
    cells -= first
    out = np.full((count, values.shape[1]), np.nan)
    for k, column in enumerate(values.T):
        known = np.isfinite(column)
        total = np.bincount(cells[known], weights=column[known], minlength=count)
        amount = np.bincount(cells[known], minlength=count)
        np.divide(total, amount, out=out[:, k], where=amount > 0)
    return out, Clock(first * every, every, dated=True, timezone=zone_of(times))
