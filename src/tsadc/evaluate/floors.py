"""What a measure gives to those who know nothing: random scores, and flagging everything. A value means something only
above both.

name           meaning
random         mean of the measure over random scores, or over the same number of flags thrown on random rows
all_positive   the measure of a constant score, or of flags on all rows"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tsadc.errors import DataError
from tsadc.series import Booleans, Floats


@dataclass(frozen=True)
class Floor:
    random: float
    all_positive: float


def floor_of_scores(
    measure: Callable[[Booleans, Floats], float], labels: Booleans, *, draws: int = 10, seed: int = 0
) -> Floor:
    """Of a measure of labels and scores."""
    _check(draws)
    generator = np.random.default_rng(seed)
    random = [measure(labels, generator.random(len(labels))) for _ in range(draws)]
    return Floor(float(np.mean(random)), measure(labels, np.zeros(len(labels))))


def floor_of_flags(
    measure: Callable[[Booleans, Booleans], float],
    labels: Booleans,
    flagged: Booleans,
    *,
    draws: int = 10,
    seed: int = 0,
) -> Floor:
    """Of a measure of labels and flags, at the detector's own number of flags."""
    _check(draws)
    generator = np.random.default_rng(seed)
    random = [measure(labels, generator.permutation(flagged)) for _ in range(draws)]
    return Floor(float(np.mean(random)), measure(labels, np.ones(len(labels), dtype=bool)))


def _check(draws: int) -> None:
    if draws < 1:
        raise DataError(f"A mean over random draws needs at least one, but {draws} came.")
