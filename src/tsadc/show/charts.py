"""Draw lines, areas and heat maps as SVG.

Drawings are stretched to the available width, so they contain no text: labels are HTML beside them and stay readable
on a phone. Coordinates are integers, x from 0 to 1000 and y from 0 at the top to 2000."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tsadc.series import Booleans, Floats
from tsadc.show.axes import Tick
from tsadc.show.markup import Html, element
from tsadc.windows import runs

WIDTH, HEIGHT = 1000, 2000


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
