"""The folds of a history: contiguous observations, each judged by a model that is not trained on them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsadc.config import is_whole, require
from tsadc.detectors.base import Detector
from tsadc.detectors.preparation import MIN_OBSERVATIONS
from tsadc.detectors.provenance import describe
from tsadc.errors import DataError
from tsadc.series import Clock, Observations, Series, without_rows

FOLDS = 5
LEAST_BLOCK = 4  # observations; of smaller ones the neighbours are trained on


@dataclass(frozen=True, eq=False)
class Fold:
    """The observations that a model judges, and those that it is not trained on: these, and those next to them."""

    judged: NDArray[np.int64]
    left_out: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Plan:
    """How a history is divided: its observations, their clock and the folds."""

    history: Observations
    clock: Clock
    folds: tuple[Fold, ...]

    @cached_property
    def data(self) -> dict[str, Any]:
        """Size and digest of the history."""
        return describe(self.history)

    @property
    def fold_of(self) -> NDArray[np.int64]:
        """The fold of each observation."""
        folds = np.empty(len(self.history), dtype=np.int64)
        for number, fold in enumerate(self.folds):
            folds[fold.judged] = number
        return folds

    @property
    def trained_on(self) -> tuple[int, ...]:
        """The number of observations that the model of each fold is trained on."""
        return tuple(len(self.history) - len(fold.left_out) for fold in self.folds)

    def training(self, fold: Fold) -> list[Series]:
        """Return the series with the rows of the fold missing; a series that has no others is left out."""
        missing = [np.zeros(len(series), dtype=bool) for series in self.history.series]
        for i in fold.left_out:
            place = self.history.places[i]
            missing[place.series][max(place.start, 0) : place.start + self.history.length] = True
        kept = [without_rows(*pair) for pair in zip(self.history.series, missing, strict=True)]
        return [series for series in kept if np.isfinite(series.values).any()]


def plan(detector: Detector, X: Any, folds: int = FOLDS) -> Plan:
    """Divide a history into folds: each entity into contiguous blocks of observations, one per fold.

    An entity with fewer observations than folds is not divided; such entities take turns."""
    require(is_whole(folds) and folds >= 2, "folds", "a whole number of at least 2", folds)
    history, clock, _ = clone(detector).prepare(X)
    judged: list[list[int]] = [[] for _ in range(folds)]
    left_out: list[set[int]] = [set() for _ in range(folds)]
    undivided = 0
    for series, places in zip(history.series, history.by_series(), strict=True):
        if len(places) < folds:
            judged[undivided % folds] += places
            left_out[undivided % folds] |= set(places)
            undivided += bool(places)
            continue
        # Separate observations have no neighbours; of a short history they would be most of what is left.
        around = 0 if series.observation or len(places) < LEAST_BLOCK * folds else 1
        for number, block in enumerate(np.array_split(np.arange(len(places)), folds)):
            judged[number] += [places[i] for i in block]
            left_out[number] |= set(places[max(block[0] - around, 0) : block[-1] + around + 1])
    if not all(judged):
        usable = sum(map(bool, judged))
        raise DataError(
            f"The history cannot be divided into {folds} folds: its entities have fewer than {folds} observations of "
            f"{history.length} rows each, and only {usable} {'folds have' if usable > 1 else 'fold has'} data; use "
            "fewer folds, a smaller length or more data."
        )
    parts = (
        Fold(np.array(sorted(inside)), np.array(sorted(out))) for inside, out in zip(judged, left_out, strict=True)
    )
    planned = Plan(history, clock, tuple(parts))
    fewest = min(planned.trained_on)
    if fewest < MIN_OBSERVATIONS:
        raise DataError(
            f"An audit needs at least {MIN_OBSERVATIONS} observations of {history.length} rows outside each of the "
            f"{folds} folds to train on, but the history of {len(history)} observations leaves {fewest}; use a smaller "
            "length or more data."
        )
    return planned


def clone(detector: Detector) -> Detector:
    """Return a detector of the same kind with the same settings, which is not fitted."""
    return type(detector)(config=detector.settings)
