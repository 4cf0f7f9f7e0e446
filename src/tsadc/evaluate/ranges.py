"""Precision and recall of ranges: how much of each event was covered, and how much of each alarm was right.

Tatbul et al., "Precision and Recall for Time Series", NeurIPS 2018. A range is a maximal run of rows.

name          symbol   meaning
bias          delta    weight of a row by its place in the range: equal, the first rows most, or the last ones
overlap       omega    weight of the range's rows that the other side covers, as a share of its weight
cardinality   gamma    factor of a range that n runs of the other side cover: 1, or 1/n
existence     alpha    share of recall that an event gets for being touched at all; precision has none"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tsadc.errors import DataError
from tsadc.evaluate.inputs import flagged_rows
from tsadc.evaluate.ranking import Cut, balanced
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
    """Range-based precision, recall and F1 of one series; precision is 0 where nothing is flagged. `bias` is that of
    recall: a false alarm is as false at its end, so precision is flat."""
    truth, chosen = flagged_rows(labels, flagged)
    if not 0 <= existence <= 1:
        raise DataError(f"The share for existence lies between 0 and 1, but {existence} came.")
    rewards = overlaps(truth, chosen, bias, cardinality)
    recall = float(np.mean(existence * (rewards > 0) + (1 - existence) * rewards))
    precision = float(np.mean(overlaps(chosen, truth, "flat", cardinality))) if chosen.any() else 0.0
    return balanced(precision, recall)


def overlaps(ranges: Booleans, others: Booleans, bias: Bias, cardinality: Cardinality) -> Floats:
    """gamma * omega of each run of `ranges`, by sums over all rows instead of pairs of runs."""
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
    # A run of the other side either begins within the range or reaches into it from before.
    begins = others & ~np.append(False, others[:-1])
    count = _between(begins.astype(np.float64), starts, stops) + (others & ~begins)[starts]
    return np.asarray(omega / np.maximum(count, 1))


def _between(values: Floats, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> Floats:
    added = np.append(0.0, np.cumsum(values))
    return np.asarray(added[stops] - added[starts])
