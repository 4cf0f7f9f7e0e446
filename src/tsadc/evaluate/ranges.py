"""Range-based precision and recall: how much of each event is covered, and how much of each alarm is right.

Tatbul et al., "Precision and Recall for Time Series", NeurIPS 2018. A range is a maximal run of rows.

name          symbol   meaning
bias          delta    weight of a row by its position in the range: flat, largest at the front, or at the back
overlap       omega    weight of the rows that the other side covers, relative to the weight of the range
cardinality   gamma    factor of a range that n runs of the other side cover: 1, or 1/n
existence     alpha    share of recall for an event that is touched at all; precision has none"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tsadc.errors import DataError
from tsadc.evaluate.inputs import flagged_rows
from tsadc.evaluate.ranking import Cut
from tsadc.series import Booleans, Floats
from tsadc.windows import runs

Bias = Literal["flat", "front", "back"]
Cardinality = Literal["one", "reciprocal"]


def range_cut(
    labels: Booleans,
    flagged: NDArray[np.generic],
    *,
    bias: Bias = "flat",
    cardinality: Cardinality = "reciprocal",
    existence: float = 0.0,
) -> Cut:
    """Return the range-based precision, recall and F1 of one series (Tatbul et al., NeurIPS 2018).

    Recall = mean over events of alpha [touched] + (1 - alpha) gamma omega; precision = mean over alarms of gamma omega.

    Parameters
    ----------
    labels : (row,)
        True for anomalous rows; both kinds must occur. An event is a maximal run of them.
    flagged : (row,)
        True for flagged rows. An alarm is a maximal run of them.
    bias
        Weight of the rows of an event in recall. Precision is always flat: a false alarm is as false at its end.
    cardinality
        "reciprocal" divides by the number of runs that cover a range, "one" does not.
    existence
        alpha, from 0 to 1.

    Returns
    -------
    Cut
        Precision is 0 if nothing is flagged.

    Examples
    --------
    >>> import numpy as np
    >>> range_cut(np.array([0, 1, 1, 0, 0, 0]), np.array([0, 1, 0, 0, 0, 1]))
    Cut(precision=0.5, recall=0.5, f1=0.5)
    """
    truth, chosen = flagged_rows(labels, flagged)
    if not 0 <= existence <= 1:
        raise DataError(f"`existence` must be from 0 to 1, but got {existence}.")
    rewards = overlaps(truth, chosen, bias, cardinality)
    recall = float(np.mean(existence * (rewards > 0) + (1 - existence) * rewards))
    precision = float(np.mean(overlaps(chosen, truth, "flat", cardinality))) if chosen.any() else 0.0
    return Cut.of(precision, recall)


def overlaps(ranges: Booleans, others: Booleans, bias: Bias, cardinality: Cardinality) -> Floats:
    """Return gamma * omega of each run of `ranges`, by sums over all rows instead of pairs of runs."""
    starts, stops = np.array(runs(ranges), dtype=np.int64).reshape(-1, 2).T
    lengths = (stops - starts).astype(np.float64)
    covered = _between(others.astype(np.float64), starts, stops)
    if bias == "flat":
        omega = covered / lengths
    else:
        places = _between(others * np.arange(len(others), dtype=np.float64), starts, stops)
        weights = places - (starts - 1) * covered if bias == "back" else stops * covered - places
        omega = weights / (lengths * (lengths + 1) / 2)
    if cardinality == "one":
        return np.asarray(omega)
    # A run of the other side either begins within the range or reaches into it from the left.
    begins = others & ~np.append(False, others[:-1])
    count = _between(begins.astype(np.float64), starts, stops) + (others & ~begins)[starts]
    return np.asarray(omega / np.maximum(count, 1))


def _between(values: Floats, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> Floats:
    added = np.append(0.0, np.cumsum(values))
    return np.asarray(added[stops] - added[starts])
