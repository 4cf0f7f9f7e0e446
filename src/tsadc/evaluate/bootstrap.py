"""Bootstrap intervals of AUROC and AP: how far they would move with other observations or entities in the test part.

name        meaning
weights     (draw, observation): how often a draw with replacement took each observation
hits        (draw, level): anomalies among the observations that score at least as high as this level
misses      (draw, level): normal observations among them
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tsadc.series import Booleans, Floats

LEAST = 0.5  # share of the draws that must be measurable for an interval
CELLS = 2**20  # weights that are held in memory together, unless a single draw has more
Interval = tuple[float, float]
Groups = Sequence[str] | NDArray[np.str_]


@dataclass(frozen=True)
class Intervals:
    """Bootstrap intervals; None if too few draws had both normal and anomalous observations."""

    auroc: Interval | None
    average_precision: Interval | None


def intervals(
    labels: Booleans,
    scores: Floats,
    groups: Groups = (),
    *,
    level: float = 0.9,
    draws: int = 1000,
    seed: int = 0,
) -> Intervals:
    """Return percentile bootstrap intervals of AUROC and AP (Efron and Tibshirani, "An Introduction to the Bootstrap",
    1993, chapter 13).

    The bootstrap resamples groups if there are several, because observations of one entity resemble each other;
    otherwise it resamples observations.

    Parameters
    ----------
    labels : (observation,)
        True for anomalies.
    scores : (observation,)
        Scores, higher = more anomalous.
    groups : (observation,)
        The entity of each observation.
    level
        Coverage of the intervals.
    draws
        Number of bootstrap samples.
    seed
        Seed of the samples.

    Returns
    -------
    Intervals
        The lower and the upper end for each metric.

    Examples
    --------
    >>> import numpy as np
    >>> labels = np.arange(40) < 20
    >>> intervals(labels, labels.astype(float)).auroc
    (1.0, 1.0)
    """
    truth, generator = np.asarray(labels, dtype=bool), np.random.default_rng(seed)
    batches = []
    for weights in _weight_batches(len(truth), groups, draws, generator):
        anomalous = weights @ truth.astype(np.int64)
        both = weights[(anomalous > 0) & (anomalous < weights.sum(axis=1))]
        batches.append(weighted_ranking(truth, scores, both))
    values = np.concatenate(batches, axis=1)
    if values.shape[1] < LEAST * draws:
        return Intervals(None, None)
    tail = (1 - level) / 2
    low, high = np.quantile(values, [tail, 1 - tail], axis=1)
    return Intervals((float(low[0]), float(high[0])), (float(low[1]), float(high[1])))


def draw_weights(count: int, groups: Groups, draws: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Return how often each of `count` observations is taken in each draw (draw, observation)."""
    return np.concatenate(list(_weight_batches(count, groups, draws, generator)))


def _weight_batches(
    count: int, groups: Groups, draws: int, generator: np.random.Generator
) -> Iterator[NDArray[np.int64]]:
    """Yield all draws in batches of at most `CELLS` weights; the size of a batch does not change the draws."""
    names, members = np.unique(np.asarray(groups), return_inverse=True)
    if len(names) < 2:
        names, members = np.arange(count), np.arange(count)
    at_once, chance = max(1, CELLS // count), np.full(len(names), 1 / len(names))
    for first in range(0, draws, at_once):
        taken = generator.multinomial(len(names), chance, size=min(at_once, draws - first))
        yield taken[:, members]


def weighted_ranking(labels: Booleans, scores: Floats, weights: NDArray[np.int64]) -> Floats:
    """Return AUROC and AP (metric, draw) of labels and scores that are repeated as often as the weights say."""
    order = np.argsort(-scores, kind="stable")
    last = np.flatnonzero(np.append(np.diff(scores[order]) != 0, True))  # of observations with equal scores
    anomalous, drawn = labels[order], weights[:, order]
    hits = np.cumsum(drawn * anomalous, axis=1)[:, last].astype(np.float64)
    misses = np.cumsum(drawn * ~anomalous, axis=1)[:, last].astype(np.float64)
    new_hits, new_misses = (np.diff(counts, axis=1, prepend=0) for counts in (hits, misses))
    above = (new_misses * (hits - new_hits / 2)).sum(axis=1)
    precision = hits / np.maximum(hits + misses, 1)
    auroc = above / (hits[:, -1] * misses[:, -1])
    return np.stack([auroc, (new_hits * precision).sum(axis=1) / hits[:, -1]])
