"""Plots of a result with matplotlib (extra `plot`): score and variables over time, what is usual behind them."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tsadc.config import nearest
from tsadc.detectors.result import Interval, Result, SeriesResult
from tsadc.errors import DataError, TsadcError

MOST = 4  # variables, unless they are named
ALARM = "#c4501f"


def draw(
    result: Result, variables: Sequence[str] | None = None, interval: int | None = None, entity: str | None = None
) -> Any:
    """Return the axes: the score above, one axis per variable below. The parameters are those of `Result.plot`."""
    part, found = _chosen(result, interval, entity)
    names = _names(part, found, variables)
    try:
        pyplot = importlib.import_module("matplotlib.pyplot")
    except ImportError:
        raise TsadcError("Plots require matplotlib: pip install 'tsadc[plot]'.") from None
    first, stop = _rows(part, found, result.length)
    times = part.times[first:stop]
    _, grid = pyplot.subplots(
        1 + len(names), 1, sharex=True, squeeze=False, figsize=(9, 1.6 * (1 + len(names))), layout="constrained"
    )
    axes = grid[:, 0]
    axes[0].plot(times, part.step_scores[first:stop], color="0.3", linewidth=1)
    limit = result.threshold + part.raised[first:stop]
    axes[0].plot(times, limit, color=ALARM, linestyle="--", linewidth=1)
    axes[0].set_ylabel("score")
    axes[0].set_title(part.series.entity)
    values = np.asarray(part.series.values[first:stop])
    usual = None if part.usual is None else part.usual.band(first, stop)
    for axis, name in zip(axes[1:], names, strict=True):
        column = part.series.names.index(name)
        if usual is not None:
            axis.fill_between(times, usual[0][:, column], usual[1][:, column], color="0.9", label="usual")
        axis.plot(times, values[:, column], color="0.2", linewidth=1, label="measured")
        if part.expected is not None:
            axis.plot(times, part.expected[first:stop, column], color="#d98a00", linewidth=1, label="expected")
        axis.set_ylabel(name, rotation=0, horizontalalignment="right", verticalalignment="center")
    for other in part.intervals:
        if other.start < stop and other.stop > first:
            start, end = part.series.clock.at([max(other.start, first), min(other.stop, stop)])
            for axis in axes:
                axis.axvspan(start, end, color=ALARM, alpha=0.15, linewidth=0)
    if names:
        axes[1].legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, fontsize="small", frameon=False)
    return axes


def _chosen(result: Result, interval: int | None, entity: str | None) -> tuple[SeriesResult, Interval | None]:
    entities = [part.series.entity for part in result.parts]
    if interval is not None:
        every = [(part, found) for part in result.parts for found in part.intervals]
        if interval not in range(len(every)):
            there = f"from 0 to {len(every) - 1}" if every else "none"
            raise DataError(f"An interval is named by its row in `intervals`, {there}, but got {interval!r}.")
        part, found = every[interval]
        if entity not in (None, part.series.entity):
            raise DataError(
                f"Interval {interval} is one of {part.series.entity!r}, not of {entity!r}; leave out `entity`."
            )
        return part, found
    if entity is not None:
        if entity not in entities:
            raise DataError(f"There is no entity {entity!r}{nearest(entity, entities)}")
        return result.parts[entities.index(entity)], None
    return max(result.parts, key=lambda part: max((found.score for found in part.intervals), default=-np.inf)), None


def _names(part: SeriesResult, found: Interval | None, variables: Sequence[str] | None) -> list[str]:
    known = list(part.series.names)
    if variables is not None:
        chosen = [variables] if isinstance(variables, str) else list(variables)
        for name in chosen:
            if name not in known:
                raise DataError(f"There is no variable {name!r}{nearest(name, known)}")
        return chosen
    if found is not None and found.variables:
        return list(found.variables)[:MOST]
    blamed = pd.Series(0.0, index=known)
    for each in part.intervals:
        for name, share in each.variables.items():
            blamed[name] += share
    return list(blamed.sort_values(ascending=False, kind="stable").index[:MOST])


def _rows(part: SeriesResult, found: Interval | None, length: int) -> tuple[int, int]:
    """Return the rows to draw: all, or an interval with as much before and after it, at least an observation."""
    if found is None:
        return 0, len(part.series)
    margin = max(length, found.stop - found.start)
    return max(0, found.start - margin), min(len(part.series), found.stop + margin)
