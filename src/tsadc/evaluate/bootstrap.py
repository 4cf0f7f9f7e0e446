"""How far AUROC and AP would move if other observations, or other entities, had been in the test part.

name        meaning
weights     (draw, observation): how often a draw with replacement took each observation
hits        (draw, rank): anomalies among the observations that score at least as high as this rank's score
misses      the same of normal observations
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tsadc.series import Booleans, Floats

LEAST = 0.5  # share of the draws that must be measurable, or there is no interval
Interval = tuple[float, float]


@dataclass(frozen=True)
class Intervals:
    """Percentile bootstrap intervals; None where too few draws had both normal and anomalous observations."""

    auroc: Interval | None
    average_precision: Interval | None


def intervals(
    labels: Booleans,
    scores: Floats,
    groups: Sequence[str] | NDArray[np.str_] = (),
    *,
    level: float = 0.9,
    draws: int = 1000,
    seed: int = 0,
) -> Intervals:
    """Whole groups are drawn where there are several, as observations of one entity resemble each other; otherwise
    single observations."""
    weights = draw_weights(len(labels), groups, draws, np.random.default_rng(seed))
    anomalous = weights @ np.asarray(labels, dtype=np.int64)
    weights = weights[(anomalous > 0) & (anomalous < weights.sum(axis=1))]
    if len(weights) < LEAST * draws:
        return Intervals(None, None)
    tail = (1 - level) / 2
    low, high = np.quantile(weighted_ranking(labels, scores, weights), [tail, 1 - tail], axis=1)
    return Intervals((float(low[0]), float(high[0])), (float(low[1]), float(high[1])))


def draw_weights(
    count: int, groups: Sequence[str] | NDArray[np.str_], draws: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    names, members = np.unique(np.asarray(groups), return_inverse=True)
    if len(names) < 2:
        names, members = np.arange(count), np.arange(count)
    taken: NDArray[np.int64] = generator.multinomial(len(names), np.full(len(names), 1 / len(names)), size=draws)
    return taken[:, members]


def weighted_ranking(labels: Booleans, scores: Floats, weights: NDArray[np.int64]) -> Floats:
    """AUROC and AP (measure, draw) of the labels and scores repeated as often as the weights say."""
    order = np.argsort(-scores, kind="stable")
    last = np.flatnonzero(np.append(np.diff(scores[order]) != 0, True))  # of observations with equal scores
    drawn = weights[:, order]
    hits = np.cumsum(drawn * labels[order], axis=1)[:, last].astype(np.float64)
    misses = np.cumsum(drawn * ~labels[order], axis=1)[:, last].astype(np.float64)
    new_hits, new_misses = (np.diff(found, axis=1, prepend=0) for found in (hits, misses))
    above = (new_misses * (hits - new_hits / 2)).sum(axis=1)
    precision = hits / np.maximum(hits + misses, 1)
    auroc = above / (hits[:, -1] * misses[:, -1])
    return np.stack([auroc, (new_hits * precision).sum(axis=1) / hits[:, -1]])
