"""Checks of the input of metrics over rows. The rows are those of one series in the order of time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tsadc.errors import DataError
from tsadc.series import Booleans, Floats


def as_flags(flags: NDArray[np.generic], name: str = "flag") -> Booleans:
    """Return booleans, or numbers that are 0 or 1, as booleans; raise for any other value."""
    if flags.dtype == np.bool_:
        return flags.astype(bool)
    wrong = np.flatnonzero((flags != 0) & (flags != 1))
    if len(wrong):
        raise DataError(f"A {name} must be True or False, 1 or 0, but that of row {wrong[0]} is {flags[wrong[0]]}.")
    return np.asarray(flags == 1, dtype=bool)


def flagged_rows(labels: NDArray[np.generic], flagged: NDArray[np.generic]) -> tuple[Booleans, Booleans]:
    """Return the labels and flags of the same rows as booleans."""
    return _row_labels(np.asarray(labels), len(flagged)), as_flags(np.asarray(flagged))


def scored_rows(labels: NDArray[np.generic], scores: Floats) -> tuple[Booleans, Floats]:
    """Return the labels and finite scores of the same rows."""
    checked = _row_labels(np.asarray(labels), len(scores))
    values: Floats = np.asarray(scores, dtype=np.float64)
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        raise DataError(f"All scores must be finite to rank rows, but that of row {wrong[0]} is {values[wrong[0]]}.")
    return checked, values


def _row_labels(labels: NDArray[np.generic], rows: int) -> Booleans:
    if labels.shape != (rows,):
        raise DataError(f"Each of the {rows} rows needs one label, but the labels have the shape {labels.shape}.")
    checked = as_flags(labels, "label")
    if not 0 < int(checked.sum()) < rows:
        raise DataError("The labels must contain both normal and anomalous rows, but they are all alike.")
    return checked
