"""Draw lines, areas and heat maps as SVG, and choose the ticks of their axes.

Drawings are stretched to the available width, so they contain no text: labels are HTML beside them and stay readable
on a phone. Coordinates are integers, x from 0 to 1000 and y from 0 at the top to 2000."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tsadc.series import Booleans, Floats
from tsadc.show.html import Html, element
from tsadc.show.words import DAY, HOUR, MILLISECOND, MINUTE, MONTHS, SECOND, Times
from tsadc.windows import runs

WIDTH, HEIGHT = 1000, 2000
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


def tick_labels(values: list[float]) -> list[str]:
    """Format ticks with just enough decimals to distinguish them."""
    if not values:
        return []
    size = max(abs(value) for value in values)
    if size >= 1e6 or 0 < size < 1e-3:
        return [f"{value:.3g}".replace("-", "\N{MINUS SIGN}") for value in values]
    step = min(np.diff(values), default=size) or 1.0
    decimals = max(0, -int(np.floor(np.log10(step) + 1e-9)))
    return [f"{value:,.{decimals}f}".replace("-", "\N{MINUS SIGN}") for value in values]


def padded_range(values: Sequence[float]) -> tuple[float, float]:
    """Return the range of values of a metric with a margin; 0 to 1 if there are none."""
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    margin = max(0.06 * (high - low), 0.01)
    return low - margin, high + margin


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


def envelope(values: Floats, columns: int) -> NDArray[np.int64]:
    """Choose the rows to draw: all if there are few, otherwise the minimum and the maximum of each pixel column, so
    that no spike is lost. A column without values keeps one row without a value, so that gaps stay."""
    if len(values) <= 2 * columns:
        return np.arange(len(values))
    grid = _columns(values, columns)
    missing = ~np.isfinite(grid)
    low = np.where(missing, np.inf, grid).argmin(axis=1)
    high = np.where(missing, -np.inf, grid).argmax(axis=1)
    starts = np.arange(len(grid)) * grid.shape[1]
    return np.unique(np.concatenate([starts + low, starts + high]))


def highest(values: Floats, columns: int) -> Floats:
    """Return the maximum of each of at most `columns` pixel columns (column, ...); NaN if a column has no values."""
    if len(values) <= columns:
        return np.where(np.isfinite(values), values, np.nan)
    grid = _columns(values, columns)
    top: Floats = np.where(np.isfinite(grid), grid, -np.inf).max(axis=1)
    return np.where(np.isfinite(top), top, np.nan)


def _columns(values: Floats, columns: int) -> Floats:
    """Reshape to (column, row within the column, ...), padding the last column with NaN."""
    width = -(-len(values) // columns)
    padded = np.full((-(-len(values) // width) * width, *values.shape[1:]), np.nan)
    padded[: len(values)] = values
    return padded.reshape(-1, width, *values.shape[1:])


def edges(rows: int, columns: int) -> Floats:
    """Return the borders of the columns of `highest`, from 0 to 1."""
    width = max(1, -(-rows // columns))
    return np.append(np.arange(0, rows, width), rows) / rows


def line(x: Floats, y: Floats, class_: str) -> Html:
    """Draw a line through (x, y), both from 0 to 1, y upwards. It breaks where y is NaN; a single value is a dot."""
    across, down = _grid(x, y)
    pieces = []
    for start, stop in runs(np.isfinite(y)):
        points = [f"{across[i]},{down[i]}" for i in range(start, stop)]
        pieces.append("M" + "L".join(points if len(points) > 1 else points * 2))
    return element("path", d="".join(pieces), class_=class_)


def between(x: Floats, lower: Floats, upper: Floats, class_: str) -> Html:
    """Fill the band between two lines over x, all from 0 to 1. It breaks where either is NaN."""
    across, bottom = _grid(x, np.clip(lower, 0.0, 1.0))
    _, top = _grid(x, np.clip(upper, 0.0, 1.0))
    pieces = []
    for start, stop in runs(np.isfinite(lower) & np.isfinite(upper)):
        there = [f"{across[i]},{top[i]}" for i in range(start, stop)]
        back = [f"{across[i]},{bottom[i]}" for i in reversed(range(start, stop))]
        pieces.append("M" + "L".join(there + back) + "Z")
    return element("path", d="".join(pieces), class_=class_)


def area(borders: Floats, top: Floats, base: float, class_: str) -> Html:
    """Draw steps of height `top` over the columns between `borders`, filled down to `base`, where top > base."""
    shown: Booleans = np.nan_to_num(top, nan=-np.inf) > base
    across, down = _grid(borders, np.append(top, base))
    floor = round((1 - base) * HEIGHT)
    pieces = []
    for start, stop in runs(shown):
        steps = "".join(f"V{down[i]}H{across[i + 1]}" for i in range(start, stop))
        pieces.append(f"M{across[start]},{floor}{steps}V{floor}")
    return element("path", d="".join(pieces), class_=class_)


def heat(levels: NDArray[np.integer], borders: Floats, deepest: int) -> list[Html]:
    """Draw `levels` (row, column), one path of horizontal bars per level; level 0 is not drawn."""
    across = np.rint(borders * WIDTH).astype(int)
    out = []
    for level in range(1, deepest + 1):
        bars = []
        for row, values in enumerate(levels):
            for start, stop in runs(values == level):
                bars.append(f"M{across[start]},{row}h{across[stop] - across[start]}v1h-{across[stop] - across[start]}z")
        out.append(element("path", d="".join(bars), class_=f"level-{level}"))
    return out


def drawing(*shapes: Html | Sequence[Html], height: int = HEIGHT, **attributes: object) -> Html:
    """Return an SVG that fills its box."""
    return element(
        "svg",
        *shapes,
        viewBox=f"0 0 {WIDTH} {height}",
        preserveAspectRatio="none",
        aria_hidden="true",
        **attributes,
    )


def level_line(height: float, class_: str) -> Html:
    """Draw a horizontal line at `height`, from 0 to 1."""
    return element("path", d=f"M0,{round((1 - height) * HEIGHT)}h{WIDTH}", class_=class_)


def excess_chart(excess: Floats, unit: float, columns: int) -> Html:
    """Draw by how much each row's score exceeds the threshold, maximum per pixel column.

    The threshold is drawn at half the height, a score that is lower by `unit`, such as the usual one, at a quarter;
    everything above is compressed."""
    top, unit = highest(excess, columns), max(unit, 1e-12)
    above = np.maximum(top, 0.0) / unit
    height = np.where(top > 0, 0.5 + 0.5 * above / (1 + above), np.clip(0.5 + 0.25 * top / unit, 0, 0.5))
    borders = edges(len(excess), columns)
    return drawing(
        area(borders, np.where(np.isfinite(top), 1.0, np.nan), 0.0, "scored"),
        area(borders, np.minimum(height, 0.5), 0.0, "below"),
        area(borders, height, 0.5, "above"),
        level_line(0.5, "threshold"),
    )


def time_axis(ticks: Sequence[Tick]) -> Html:
    """Return the labels below a drawing; narrow screens hide every second one."""
    return element("div", (_tick(tick, i) for i, tick in enumerate(ticks)), class_="axis", aria_hidden="true")


def place(start: float, stop: float) -> str:
    """Return the style of a box over [start, stop) of an axis, clipped to the axis."""
    left, right = min(max(start, 0.0), 1.0), min(max(stop, 0.0), 1.0)
    return f"left:{100 * left:.6g}%;width:{100 * (right - left):.4g}%"


def _tick(tick: Tick, position: int) -> Html:
    # A centred label at either end would exceed the page.
    edge = " end" if tick.place > 0.94 else " start" if tick.place < 0.04 else ""
    odd = " odd" if position % 2 else ""
    return element("span", tick.label, class_=f"tick{edge}{odd}", style=f"left:{100 * tick.place:.4g}%")


def _grid(x: Floats, y: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    height = np.nan_to_num(np.asarray(y, dtype=np.float64), nan=0.0, posinf=1.0, neginf=0.0)
    return np.rint(np.asarray(x) * WIDTH).astype(np.int64), np.rint((1 - height) * HEIGHT).astype(np.int64)
