"""What every measure over rows asks of its input. Rows are those of one series, in the order of time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tsadc.errors import DataError
from tsadc.series import Booleans, Floats


def truth(labels: NDArray[np.generic], rows: int) -> Booleans:
    """The labels as booleans: as many as there are rows, some of them anomalous and some not."""
    if labels.shape != (rows,):
        raise DataError(f"Each of the {rows} rows needs one label, but the labels have the shape {labels.shape}.")
    out = verdicts(labels, "label")
    if not 0 < int(out.sum()) < rows:
        raise DataError("Rows are judged between normal and anomalous ones, but the labels hold only one sort.")
    return out


def verdicts(flags: NDArray[np.generic], what: str = "flag") -> Booleans:
    """Booleans, or numbers that are 0 or 1, as booleans."""
    if flags.dtype == np.bool_:
        return flags.astype(bool)
    wrong = np.flatnonzero((flags != 0) & (flags != 1))
    if len(wrong):
        raise DataError(f"A {what} is True or False, 1 or 0, but that of row {wrong[0]} is {flags[wrong[0]]}.")
    return np.asarray(flags == 1, dtype=bool)


def flagged_rows(labels: NDArray[np.generic], flagged: NDArray[np.generic]) -> tuple[Booleans, Booleans]:
    """Labels and flags of the same rows."""
    return truth(np.asarray(labels), len(flagged)), verdicts(np.asarray(flagged))


def scored_rows(labels: NDArray[np.generic], scores: Floats) -> tuple[Booleans, Floats]:
    """Labels and scores of the same rows."""
    checked = truth(np.asarray(labels), len(scores))
    values: Floats = np.asarray(scores, dtype=np.float64)
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        raise DataError(
            f"Rows can be ranked when all scores are finite, but that of row {wrong[0]} is {values[wrong[0]]}."
        )
    return checked, values
