"""Pool cells into scores of steps, and values over sliding windows."""

from __future__ import annotations

import numpy as np

from tsadc.series import Floats

EXTREMES = (np.maximum, np.minimum, np.fmax, np.fmin)


def top_mean(cells: Floats, count: int) -> Floats:
    """Return the mean of the `count` largest measured cells of each step; NaN where none was measured."""
    if not np.isnan(cells).any():
        largest = np.sort(cells, axis=0)[-count:][::-1].copy()  # from the largest on, so that sums round as below
        return np.asarray(largest.sum(axis=0) / len(largest)).astype(np.float32)
    ordered = -np.sort(-cells, axis=0)[:count]  # NaN sorts last
    measured = ~np.isnan(ordered)
    total = np.where(measured, ordered, 0).sum(axis=0)
    number = measured.sum(axis=0)
    return np.where(number > 0, total / np.maximum(number, 1), np.nan).astype(np.float32)


def root_mean_square(cells: Floats) -> Floats:
    """Return the root mean square of all measured cells at each step; NaN where none was measured.

    A short anomaly is lost among many normal cells, so `top_mean` usually ranks better."""
    measured = np.isfinite(cells)
    pooled = np.sqrt(np.square(cells[measured], dtype=np.float64).mean()) if measured.any() else np.nan
    return np.where(measured.any(axis=0), pooled, np.nan).astype(np.float32)


def sliding(function: np.ufunc, values: Floats, window: int) -> Floats:
    """Return `function` (such as `np.add` or `np.fmax`) over every window of `window` values along the last axis.

    The largest value of a window is the larger one of two shorter windows, which may overlap, so few steps are enough
    if the windows double. A sum must not count a value twice: there, a window is the end of one block of `window`
    values and the start of the next, and two accumulations within blocks are enough (van Herk 1992). Unlike differences
    of a running sum, they do not spread rounding errors of a wild value to windows without it.
    """
    if function in EXTREMES:
        widest, width = values, 1
        while width < window:
            step = min(width, window - width)
            widest, width = function(widest[..., :-step], widest[..., step:]), width + step
        return np.array(widest) if window == 1 else widest
    length = values.shape[-1]
    count, blocks = length - window + 1, -(-length // window)
    padded = np.zeros((*values.shape[:-1], blocks * window), dtype=values.dtype)
    padded[..., :length] = values
    padded = padded.reshape(*values.shape[:-1], blocks, window)
    ends = function.accumulate(padded[..., ::-1], axis=-1)[..., ::-1].reshape(*values.shape[:-1], -1)
    starts = function.accumulate(padded, axis=-1).reshape(*values.shape[:-1], -1)
    whole = np.arange(count) % window == 0  # the window is one block
    out: Floats = np.where(
        whole, ends[..., :count], function(ends[..., :count], starts[..., window - 1 :][..., :count])
    )
    return out
