"""From cells to steps to one number, keeping what is extreme: pooling by RMSE drowns a short anomaly in quiet cells."""

from __future__ import annotations

import numpy as np

from tsadc.series import Floats


def top_mean(cells: Floats, count: int) -> Floats:
    """At each step the mean of the `count` largest measured variables; NaN where none was measured."""
    ordered = -np.sort(-cells, axis=0)[:count]  # NaN sorts last
    measured = ~np.isnan(ordered)
    total = np.where(measured, ordered, 0).sum(axis=0)
    number = measured.sum(axis=0)
    return np.where(number > 0, total / np.maximum(number, 1), np.nan).astype(np.float32)


def root_mean_square(cells: Floats) -> Floats:
    """At each step the root mean square of all measured cells of the observation; NaN where none was measured."""
    measured = np.isfinite(cells)
    pooled = np.sqrt(np.square(cells[measured], dtype=np.float64).mean()) if measured.any() else np.nan
    return np.where(measured.any(axis=0), pooled, np.nan).astype(np.float32)
