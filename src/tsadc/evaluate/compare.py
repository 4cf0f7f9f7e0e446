"""Whether one detector is better than another, or several differ, beyond the luck of cases.

A case is a data set or an entity: seeds of one are averaged first, as they are no independent cases. Higher is better.

name         symbol    meaning
ranks        R_j       mean over cases of a detector's rank, 1 = best, equal values share theirs
p                      Friedman's test that all detectors rank alike
difference   CD        q_alpha sqrt(k (k + 1) / (6 N)): mean ranks this near are not told apart (Nemenyi, as in Demšar,
                       "Statistical Comparisons of Classifiers over Multiple Data Sets", JMLR 7, 2006); k detectors, N
                       cases, q_alpha the studentised range over sqrt(2)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from tsadc.errors import DataError
from tsadc.evaluate.bootstrap import Interval, draw_weights, drawn_rankings
from tsadc.series import Booleans, Floats


@dataclass(frozen=True)
class Ranks:
    """Names and mean ranks from the best down; `groups` are the longest stretches of names within one difference."""

    names: tuple[str, ...]
    ranks: tuple[float, ...]
    difference: float
    p: float
    groups: tuple[tuple[str, ...], ...]


def critical_difference(table: Floats, names: Sequence[str], *, level: float = 0.05) -> Ranks:
    """`table` (case, detector). What a critical-difference diagram shows."""
    values = _checked(table, names)
    cases, detectors = values.shape
    ranks = stats.rankdata(-values, axis=1).mean(axis=0)
    order = np.argsort(ranks, kind="stable")
    quantile = float(stats.studentized_range.ppf(1 - level, detectors, np.inf)) / np.sqrt(2)
    difference = float(quantile * np.sqrt(detectors * (detectors + 1) / (6 * cases)))
    sorted_names = tuple(names[int(j)] for j in order)
    sorted_ranks = tuple(float(ranks[j]) for j in order)
    groups = _groups(sorted_names, sorted_ranks, difference)
    return Ranks(sorted_names, sorted_ranks, difference, friedman(values), groups)


def _groups(names: Sequence[str], ranks: Sequence[float], difference: float) -> tuple[tuple[str, ...], ...]:
    found: list[tuple[int, int]] = []
    for first in range(len(ranks)):
        last = max(j for j in range(first, len(ranks)) if ranks[j] - ranks[first] <= difference)
        if last > first and (not found or last > found[-1][1]):
            found.append((first, last))
    return tuple(tuple(names[first : last + 1]) for first, last in found)


def friedman(table: Floats) -> float:
    """Chi-square approximation; two detectors have it too. 1 where all rank alike in every case."""
    cases, detectors = table.shape
    ranks = stats.rankdata(-table, axis=1)
    spread = float(np.square(ranks - (detectors + 1) / 2).sum()) / (cases * (detectors - 1))
    if spread == 0:
        return 1.0
    between = cases * float(np.square(ranks.mean(axis=0) - (detectors + 1) / 2).sum())
    return float(stats.chi2.sf(between / spread, detectors - 1))


def wilcoxon(first: Floats, second: Floats) -> float:
    """Two-sided p of the signed-rank test over cases; 1 where no case differs."""
    values = _paired(first, second)
    if (values[:, 0] == values[:, 1]).all():
        return 1.0
    return float(stats.wilcoxon(values[:, 0], values[:, 1]).pvalue)


def holm(p: Sequence[float]) -> tuple[float, ...]:
    """P values that hold together, for several tests at once (Holm, 1979)."""
    order = np.argsort(p, kind="stable")
    steps = np.asarray(p, dtype=np.float64)[order] * np.arange(len(p), 0, -1)
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1)
    return tuple(float(value) for value in adjusted)


def mean_difference(
    first: Floats, second: Floats, groups: Sequence[str] = (), *, level: float = 0.9, draws: int = 1000, seed: int = 0
) -> Interval:
    """Percentile interval of the mean of first - second when cases, or whole groups of them, are drawn anew."""
    values = _paired(first, second)
    weights = draw_weights(len(values), groups, draws, np.random.default_rng(seed))
    means = weights @ (values[:, 0] - values[:, 1]) / weights.sum(axis=1)
    return _percentiles(means, level)


def ranking_difference(
    labels: Booleans,
    first: Floats,
    second: Floats,
    groups: Sequence[str] | NDArray[np.str_] = (),
    *,
    level: float = 0.9,
    draws: int = 1000,
    seed: int = 0,
) -> tuple[Interval, Interval] | None:
    """Intervals of AUROC and of AP of `first` less that of `second`, both on the same drawn observations. None where
    too few draws hold both sorts."""
    if not len(labels) == len(first) == len(second):
        raise DataError(
            f"There are {len(labels)} labels for {len(first)} and {len(second)} scores; they must be as many."
        )
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise DataError("Scores can be ranked when all are finite, but some are not.")
    found = drawn_rankings(labels, (first, second), groups, draws, np.random.default_rng(seed))
    if found is None:
        return None
    gains = found[0] - found[1]
    return _percentiles(gains[0], level), _percentiles(gains[1], level)


def _paired(first: Floats, second: Floats) -> Floats:
    if len(first) != len(second):
        raise DataError(f"Values are compared case by case, but there are {len(first)} cases for {len(second)}.")
    return _checked(np.stack([first, second], axis=1), ("first", "second"))


def _percentiles(values: Floats, level: float) -> Interval:
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _checked(table: Floats, names: Sequence[str]) -> Floats:
    values: Floats = np.asarray(table, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] != len(names) or len(names) < 2 or len(values) < 2:
        raise DataError(
            f"Detectors are compared by a table of at least 2 cases by 2 named detectors, but it has the shape "
            f"{values.shape} for {len(names)} names."
        )
    if not np.isfinite(values).all():
        case, detector = np.argwhere(~np.isfinite(values))[0]
        raise DataError(f"Every case needs a value of every detector, but {names[detector]} has none in case {case}.")
    return values
