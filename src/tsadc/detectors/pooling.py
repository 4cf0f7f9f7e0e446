"""Pool cell scores into step scores."""

from __future__ import annotations

import numpy as np

from tsadc.series import Floats


def top_mean(cells: Floats, count: int) -> Floats:
    """Return the mean of the `count` largest measured cells of each step; NaN where none was measured."""
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
