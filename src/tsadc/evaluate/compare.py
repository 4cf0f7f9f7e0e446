"""Whether one detector is better than another, or several differ, beyond the luck of cases.

A case is a data set or an entity. Seeds of one case are averaged first, as they are not independent. Higher is better.

name         symbol    meaning
ranks        R_j       mean over cases of a detector's rank, 1 = best, equal values share theirs
p                      p value of Friedman's test that all detectors rank alike
difference   CD        q_alpha sqrt(k (k + 1) / (6 N)): mean ranks this close do not differ significantly (Nemenyi);
                       k detectors, N cases, q_alpha the studentised range over sqrt(2)

Demšar, "Statistical Comparisons of Classifiers over Multiple Data Sets", JMLR 7, 2006."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # `scipy.stats`, slow to import, is imported when it is used

from tsadc.errors import DataError
from tsadc.evaluate.bootstrap import Interval, draw_weights
from tsadc.series import Floats


@dataclass(frozen=True)
class Ranks:
    """Names and mean ranks from the best down; `groups` are the longest runs of names within one difference."""

    names: tuple[str, ...]
    ranks: tuple[float, ...]
    difference: float
    p: float
    groups: tuple[tuple[str, ...], ...]


def critical_difference(table: Floats, names: Sequence[str], *, level: float = 0.05) -> Ranks:
    """Return the content of a critical-difference diagram (Demšar, JMLR 2006).

    Parameters
    ----------
    table : (case, detector)
        Finite values, higher = better; at least two cases and two detectors.
    names
        Names of the detectors.
    level
        Significance level alpha.

    Returns
    -------
    Ranks
        Mean ranks, the critical difference, Friedman's p and the groups that do not differ.

    Examples
    --------
    >>> import numpy as np
    >>> critical_difference(np.array([[0.9, 0.5], [0.8, 0.6], [0.7, 0.6]]), ["a", "b"]).ranks
    (1.0, 2.0)
    """
    values = _checked(table, names)
    cases, detectors = values.shape
    ranks = scipy.stats.rankdata(-values, axis=1).mean(axis=0)
    order = np.argsort(ranks, kind="stable")
    quantile = float(scipy.stats.studentized_range.ppf(1 - level, detectors, np.inf)) / np.sqrt(2)
    difference = float(quantile * np.sqrt(detectors * (detectors + 1) / (6 * cases)))
    sorted_names = tuple(names[int(j)] for j in order)
    sorted_ranks = tuple(float(ranks[j]) for j in order)
    groups = _groups(sorted_names, sorted_ranks, difference)
    return Ranks(sorted_names, sorted_ranks, difference, friedman(values), groups)


def _groups(names: Sequence[str], ranks: Sequence[float], difference: float) -> tuple[tuple[str, ...], ...]:
    spans: list[tuple[int, int]] = []
    for first in range(len(ranks)):
        last = max(j for j in range(first, len(ranks)) if ranks[j] - ranks[first] <= difference)
        if last > first and (not spans or last > spans[-1][1]):
            spans.append((first, last))
    return tuple(tuple(names[first : last + 1]) for first, last in spans)


def friedman(table: Floats) -> float:
    """Return the p value of Friedman's test that all detectors rank alike (Friedman, JASA 32, 1937).

    The chi-square approximation is corrected for ties and also used for two detectors.

    Parameters
    ----------
    table : (case, detector)
        Values, higher = better.

    Returns
    -------
    float
        From 0 to 1; 1 if all values of every case are equal.

    Examples
    --------
    >>> import numpy as np
    >>> friedman(np.ones((3, 2)))
    1.0
    """
    cases, detectors = table.shape
    ranks = scipy.stats.rankdata(-table, axis=1)
    spread = float(np.square(ranks - (detectors + 1) / 2).sum()) / (cases * (detectors - 1))
    if spread == 0:
        return 1.0
    between = cases * float(np.square(ranks.mean(axis=0) - (detectors + 1) / 2).sum())
    return float(scipy.stats.chi2.sf(between / spread, detectors - 1))


def wilcoxon(first: Floats, second: Floats) -> float:
    """Return the two-sided p value of the signed-rank test over cases (Wilcoxon, Biometrics Bulletin 1(6), 1945).

    Parameters
    ----------
    first, second : (case,)
        Finite values of two detectors; at least two cases.

    Returns
    -------
    float
        From 0 to 1; 1 if no case differs.

    Examples
    --------
    >>> import numpy as np
    >>> wilcoxon(np.array([1.0, 2.0, 3.0]), np.array([0.5, 1.0, 1.5]))
    0.25
    """
    values = _paired(first, second)
    if (values[:, 0] == values[:, 1]).all():
        return 1.0
    return float(scipy.stats.wilcoxon(values[:, 0], values[:, 1]).pvalue)


def holm(p: Sequence[float]) -> tuple[float, ...]:
    """Return p values adjusted for several tests at once (Holm, Scandinavian Journal of Statistics 6, 1979).

    Parameters
    ----------
    p
        One p value per test.

    Returns
    -------
    tuple of float
        The adjusted p values in the same order, at most 1.

    Examples
    --------
    >>> holm([0.01, 0.5])
    (0.02, 0.5)
    """
    order = np.argsort(p, kind="stable")
    steps = np.asarray(p, dtype=np.float64)[order] * np.arange(len(p), 0, -1)
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1)
    return tuple(float(value) for value in adjusted)


def mean_difference(
    first: Floats, second: Floats, groups: Sequence[str] = (), *, level: float = 0.9, draws: int = 1000, seed: int = 0
) -> Interval:
    """Return the percentile bootstrap interval of the mean of first - second.

    Parameters
    ----------
    first, second : (case,)
        Finite values of two detectors; at least two cases.
    groups : (case,)
        Groups to resample as a whole, for instance data sets; without several, cases are resampled.
    level
        Coverage of the interval.
    draws
        Number of bootstrap samples.
    seed
        Seed of the samples.

    Returns
    -------
    tuple of float
        The lower and the upper end.

    Examples
    --------
    >>> import numpy as np
    >>> mean_difference(np.array([0.75, 1.0, 0.5]), np.array([0.5, 0.75, 0.25]))
    (0.25, 0.25)
    """
    values = _paired(first, second)
    weights = draw_weights(len(values), groups, draws, np.random.default_rng(seed))
    means = weights @ (values[:, 0] - values[:, 1]) / weights.sum(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _paired(first: Floats, second: Floats) -> Floats:
    if len(first) != len(second):
        raise DataError(f"Values are compared case by case, but there are {len(first)} and {len(second)} cases.")
    return _checked(np.stack([first, second], axis=1), ("first", "second"))


def _checked(table: Floats, names: Sequence[str]) -> Floats:
    values: Floats = np.asarray(table, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] != len(names) or len(names) < 2 or len(values) < 2:
        raise DataError(
            f"A comparison needs a table of at least 2 cases by 2 named detectors, but it has the shape "
            f"{values.shape} for {len(names)} names."
        )
    if not np.isfinite(values).all():
        case, detector = np.argwhere(~np.isfinite(values))[0]
        raise DataError(f"Every case needs a value of every detector, but {names[detector]} has none in case {case}.")
    return values
