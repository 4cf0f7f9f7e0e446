"""How far AUROC and AP would move if other observations, or other entities, had been in the test part.

name        meaning
weights     (draw, observation): how often a draw with replacement took each observation
hits        (draw, rank): anomalies among the observations that score at least as high as this rank's score
misses      the same of normal observations
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tsadc.series import Booleans, Floats

LEAST = 0.5  # share of the draws that must be measurable, or there is no interval
CELLS = 2**20  # of weights that are held at a time, if not fewer than one draw has
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
    found = drawn_rankings(labels, (scores,), groups, draws, np.random.default_rng(seed))
    if found is None:
        return Intervals(None, None)
    tail = (1 - level) / 2
    low, high = np.quantile(found[0], [tail, 1 - tail], axis=1)
    return Intervals((float(low[0]), float(high[0])), (float(low[1]), float(high[1])))


def drawn_rankings(
    labels: Booleans,
    scores: Sequence[Floats],
    groups: Sequence[str] | NDArray[np.str_],
    draws: int,
    generator: np.random.Generator,
) -> Floats | None:
    """AUROC and AP of each of several scores (score, measure, draw) on the same draws, of which those count that hold
    both sorts; None where they are too few."""
    truth = np.asarray(labels, dtype=bool)
    rankings = [_ranking(truth, one) for one in scores]
    found = []
    for weights in some_weights(len(truth), groups, draws, generator):
        anomalous = weights @ truth.astype(np.int64)
        both = weights[(anomalous > 0) & (anomalous < weights.sum(axis=1))]
        found.append([rank(both) for rank in rankings])
    every: Floats = np.concatenate(found, axis=2)
    return None if every.shape[2] < LEAST * draws else every


def draw_weights(
    count: int, groups: Sequence[str] | NDArray[np.str_], draws: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    return np.concatenate(list(some_weights(count, groups, draws, generator)))


def some_weights(
    count: int, groups: Sequence[str] | NDArray[np.str_], draws: int, generator: np.random.Generator
) -> Iterator[NDArray[np.int64]]:
    """All draws, as many at a time as `CELLS` allows; how many that are does not change them."""
    names, members = np.unique(np.asarray(groups), return_inverse=True)
    if len(names) < 2:
        names, members = np.arange(count), np.arange(count)
    at_once, chance = max(1, CELLS // count), np.full(len(names), 1 / len(names))
    for first in range(0, draws, at_once):
        taken = generator.multinomial(len(names), chance, size=min(at_once, draws - first))
        yield taken[:, members]


def weighted_ranking(labels: Booleans, scores: Floats, weights: NDArray[np.int64]) -> Floats:
    """AUROC and AP (measure, draw) of the labels and scores repeated as often as the weights say."""
    return _ranking(labels, scores)(weights)


def _ranking(labels: Booleans, scores: Floats) -> Callable[[NDArray[np.int64]], Floats]:
    order = np.argsort(-scores, kind="stable")
    last = np.flatnonzero(np.append(np.diff(scores[order]) != 0, True))  # of observations with equal scores
    anomalous = labels[order]

    def rank(weights: NDArray[np.int64]) -> Floats:
        drawn = weights[:, order]
        hits = np.cumsum(drawn * anomalous, axis=1)[:, last].astype(np.float64)
        misses = np.cumsum(drawn * ~anomalous, axis=1)[:, last].astype(np.float64)
        new_hits, new_misses = (np.diff(found, axis=1, prepend=0) for found in (hits, misses))
        above = (new_misses * (hits - new_hits / 2)).sum(axis=1)
        precision = hits / np.maximum(hits + misses, 1)
        auroc = above / (hits[:, -1] * misses[:, -1])
        return np.stack([auroc, (new_hits * precision).sum(axis=1) / hits[:, -1]])

    return rank
