"""Choose ticks: round values, and round times of the wall clock."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from tsadc.show.words import DAY, HOUR, MILLISECOND, MINUTE, MONTHS, SECOND, Times

_STEPS = (
    *(k * MILLISECOND for k in (1, 2, 5, 10, 20, 50, 100, 200, 500)),
    *(k * SECOND for k in (1, 2, 5, 10, 15, 30)),
    *(k * MINUTE for k in (1, 2, 5, 10, 15, 30)),
    *(k * HOUR for k in (1, 2, 3, 6, 12)),
    *(k * DAY for k in (1, 2, 7, 14)),
)
_MONDAY = 4 * DAY  # 1970-01-05, so that weeks begin on Mondays


@dataclass(frozen=True, slots=True)
class Tick:
    """A label at `place`, from 0 to 1 along the axis."""

    place: float
    label: str


def value_ticks(low: float, high: float, most: int = 4) -> list[float]:
    """Return at most `most` multiples of 1, 2 or 5 times a power of ten within [low, high]."""
    if not high > low:
        return []
    unit = 10.0 ** np.floor(np.log10((high - low) / most))
    for factor in (1, 2, 5, 10, 20, 50):
        step = factor * unit
        first, last = int(np.ceil(low / step - 1e-9)), int(np.floor(high / step + 1e-9))
        if last - first + 1 <= most:
            return [float(f"{k * step:.12g}") for k in range(first, last + 1)]
    return []


def plain(values: list[float]) -> list[str]:
    """Format ticks with just enough decimals to distinguish them."""
    if not values:
        return []
    size = max(abs(value) for value in values)
    if size >= 1e6 or 0 < size < 1e-3:
        return [f"{value:.3g}".replace("-", "\N{MINUS SIGN}") for value in values]
    step = min(np.diff(values), default=size) or 1.0
    decimals = max(0, -int(np.floor(np.log10(step) + 1e-9)))
    return [f"{value:,.{decimals}f}".replace("-", "\N{MINUS SIGN}") for value in values]


def time_ticks(times: Times, first: int, stop: int, most: int = 6) -> list[Tick]:
    """Return ticks for rows [first, stop)."""
    rows = stop - first
    if rows < 1:
        return []
    # The hour that the wall clock repeats in autumn is drawn once.
    walls = np.maximum.accumulate(times.wall(np.arange(first, stop + 1)))
    if not times.clock.dated:
        whole = [value for value in value_ticks(float(walls[0]), float(walls[-1]), most) if value == int(value)]
        return [Tick((value - walls[0]) / (walls[-1] - walls[0]), f"{int(value):,}") for value in whole]
    moments, step = _moments(int(walls[0]), int(walls[-1]), most)
    return [Tick(float(np.searchsorted(walls, moment)) / rows, _label(moment, step)) for moment in moments]


def _moments(low: int, high: int, most: int) -> tuple[list[int], int]:
    """Return round times within [low, high] and the step between them (a month counts as 30 days)."""
    for step in _STEPS:
        offset = _MONDAY if step % (7 * DAY) == 0 else 0
        first = -(-(low - offset) // step) * step + offset
        if (high - first) // step + 1 <= most:
            return list(range(first, high + 1, step)), step
    months = pd.date_range(pd.Timestamp(low).normalize(), pd.Timestamp(high), freq="MS").as_unit("ns")
    kept = months[months.asi8 >= low]
    for every in (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200):
        chosen = kept[(kept.year * 12 + kept.month - 1) % every == 0]
        if len(chosen) <= most:
            return [int(moment) for moment in chosen.asi8], every * 30 * DAY
    return [], 30 * DAY


def _label(moment: int, step: int) -> str:
    when = pd.Timestamp(moment)
    month = MONTHS[when.month - 1]
    if step >= 360 * DAY:
        return str(when.year)
    if step >= 30 * DAY:
        return f"{month} {when.year}"
    if step >= DAY or moment % DAY == 0:
        return f"{when.day} {month}"
    if step >= MINUTE:
        return f"{when:%H:%M}"
    if step >= SECOND:
        return f"{when:%H:%M:%S}"
    return f"{when:%H:%M:%S}.{when.microsecond // 1000:03d}"
