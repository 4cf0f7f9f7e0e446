"""Lines, areas and heat maps as SVG. Drawings are stretched to the width they find, so they hold no text: labels are
HTML beside them and stay readable on a phone. Coordinates are whole numbers, x to 1000 and y to 2000 from the top."""

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
    """Which rows to draw: all if there are few, otherwise the lowest and the highest of each column, so that no spike
    is lost. A column without any value keeps one row without a value: the gap stays."""
    if len(values) <= 2 * columns:
        return np.arange(len(values))
    grid = _columns(values, columns)
    missing = ~np.isfinite(grid)
    low = np.where(missing, np.inf, grid).argmin(axis=1)
    high = np.where(missing, -np.inf, grid).argmax(axis=1)
    starts = np.arange(len(grid)) * grid.shape[1]
    return np.unique(np.concatenate([starts + low, starts + high]))


def highest(values: Floats, columns: int) -> Floats:
    """The highest value of each of at most `columns` columns (column, ...); NaN where there is none."""
    if len(values) <= columns:
        return np.where(np.isfinite(values), values, np.nan)
    grid = _columns(values, columns)
    top: Floats = np.where(np.isfinite(grid), grid, -np.inf).max(axis=1)
    return np.where(np.isfinite(top), top, np.nan)


def _columns(values: Floats, columns: int) -> Floats:
    """(column, row within, ...), the last column filled up with NaN."""
    width = -(-len(values) // columns)
    padded = np.full((-(-len(values) // width) * width, *values.shape[1:]), np.nan)
    padded[: len(values)] = values
    return padded.reshape(-1, width, *values.shape[1:])


def edges(rows: int, columns: int) -> Floats:
    """Where the columns of `highest` begin and end, 0 to 1."""
    width = max(1, -(-rows // columns))
    return np.append(np.arange(0, rows, width), rows) / rows


def line(x: Floats, y: Floats, class_: str) -> Html:
    """A path through (x, y), both 0 to 1, y upwards; broken where y is missing. A lonely value becomes a dot."""
    across, down = _grid(x, y)
    pieces = []
    for start, stop in runs(np.isfinite(y)):
        points = [f"{across[i]},{down[i]}" for i in range(start, stop)]
        pieces.append("M" + "L".join(points if len(points) > 1 else points * 2))
    return element("path", d="".join(pieces), class_=class_)


def area(borders: Floats, top: Floats, base: float, class_: str) -> Html:
    """Steps of height `top` over the columns between `borders`, filled down to `base`; nothing where top <= base."""
    shown: Booleans = np.nan_to_num(top, nan=-np.inf) > base
    across, down = _grid(borders, np.append(top, base))
    floor = round((1 - base) * HEIGHT)
    pieces = []
    for start, stop in runs(shown):
        steps = "".join(f"V{down[i]}H{across[i + 1]}" for i in range(start, stop))
        pieces.append(f"M{across[start]},{floor}{steps}V{floor}")
    return element("path", d="".join(pieces), class_=class_)


def heat(levels: NDArray[np.integer], borders: Floats, deepest: int) -> list[Html]:
    """`levels` (row, column), 0 for nothing: one path per level made of horizontal bars."""
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
    """An SVG that fills its box."""
    return element(
        "svg",
        *shapes,
        viewBox=f"0 0 {WIDTH} {height}",
        preserveAspectRatio="none",
        aria_hidden="true",
        **attributes,
    )


def level_line(height: float, class_: str) -> Html:
    """A horizontal line at `height`, 0 to 1."""
    return element("path", d=f"M0,{round((1 - height) * HEIGHT)}h{WIDTH}", class_=class_)


def time_axis(ticks: Sequence[Tick]) -> Html:
    """Labels below a drawing; every second one gives way on a narrow screen."""
    return element("div", (_tick(tick, i) for i, tick in enumerate(ticks)), class_="axis", aria_hidden="true")


def place(start: float, stop: float) -> str:
    """Style of a box over [start, stop) of an axis, clipped to it."""
    left, right = min(max(start, 0.0), 1.0), min(max(stop, 0.0), 1.0)
    return f"left:{100 * left:.6g}%;width:{100 * (right - left):.4g}%"


def _tick(tick: Tick, position: int) -> Html:
    # A label at the very end would stick out of the page.
    edge = " end" if tick.place > 0.94 else " start" if tick.place < 0.04 else ""
    odd = " odd" if position % 2 else ""
    return element("span", tick.label, class_=f"tick{edge}{odd}", style=f"left:{100 * tick.place:.4g}%")


def _grid(x: Floats, y: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    height = np.nan_to_num(np.asarray(y, dtype=np.float64), nan=0.0, posinf=1.0, neginf=0.0)
    return np.rint(np.asarray(x) * WIDTH).astype(np.int64), np.rint((1 - height) * HEIGHT).astype(np.int64)
