"""Views of whole observations: correlation, shape and bands by nearest neighbours, and quarters.

    name       meaning
    u          (feature,) standardised features of an observation
    pool       (observation, feature) u of the training observations that count as normal
    distance   root mean square of u - v over the features, averaged over the nearest v in the pool
    s          log(.02 + distance)

A training observation is not compared with those of its own fold: its neighbours in time resemble it more than a new
observation will.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsadc.detectors.ensemble.features import (
    BANDS,
    Bands,
    Convolutions,
    Correlations,
    Standardiser,
    contributions_of,
)
from tsadc.detectors.ensemble.training import (
    Training,
    adapt_standardiser,
    cross_fitted,
    fit_standardiser,
)
from tsadc.detectors.ensemble.views import DISTANCE_OFFSET, LOG_OFFSET, Explained, ViewGroup
from tsadc.series import Floats

QUARTERS = 4
MIN_QUARTERED = 64  # rows of an observation that is divided into quarters
MIN_LARGEST, LARGEST_PER_VARIABLE = 3, 1.5  # features of a quarter that its score is the mean of
CHUNK = 256  # training observations compared at once
EXTRA_CANDIDATES = 16  # beyond the neighbours wanted, because the fast distance that preselects them is rounded


class Neighbours(ViewGroup):
    """The distance of the features of an observation to those of the nearest normal training observations."""

    def __init__(self, name: str, features: Correlations | Convolutions | Bands, variables: int, count: int) -> None:
        self.names, self.features, self.variables, self.count = (name,), features, variables, count
        self.stored = name

    def measure(self, z: Floats, entity: str) -> Floats:
        return self.features(z)

    def fit(self, features: Floats, training: Training) -> Floats:
        rows = features[:, None]
        self.standardiser = fit_standardiser(rows, training)
        every = np.stack(
            [self.standardiser(entity, own) for entity, own in zip(training.entities, features, strict=True)]
        )
        self._set_pool(every[training.kept].astype(np.float32))
        u = cross_fitted(self.standardiser, rows, training)[:, 0].astype(np.float32)
        distances = self._training_distances(u, training)
        return np.asarray(np.log(DISTANCE_OFFSET + distances)[:, None])

    def _training_distances(self, u: NDArray[np.float32], training: Training) -> Floats:
        codes = np.unique(np.array(training.entities, dtype=object), return_inverse=True)[1]
        kept = np.flatnonzero(training.kept)
        distances = np.empty(len(u))
        for first in range(0, len(u), CHUNK):
            part = slice(first, first + CHUNK)
            fast = np.square(u[part]).sum(axis=1)[:, None] + self.squares - 2 * (u[part] @ self.pool.T)
            same = (codes[part, None] == codes[kept]) & (training.folds[part, None] == training.folds[kept])
            others = ~same | same.all(axis=1, keepdims=True)  # its own fold only if there is nothing else
            distances[part] = _mean_distance(np.where(others, fast, np.inf), self.count, self.pool.shape[1])
        return distances

    def adapt(self, entity: str, features: Floats) -> None:
        adapt_standardiser(self.standardiser, entity, features[:, None])

    @property
    def baselines(self) -> dict[str, Floats]:
        return self.standardiser.entities

    def score(self, entity: str, features: Floats) -> Floats:
        return np.array([self._compare(entity, features)[0]])

    def explain(self, entity: str, z: Floats) -> list[Explained]:
        score, deviation = self._compare(entity, self.features(z))
        cells = contributions_of(deviation, self.features.owners, self.variables)
        return [Explained(score, cells[:, None])]

    def _compare(self, entity: str, features: Floats) -> tuple[float, Floats]:
        """Return the log score of an observation, and the mean deviation (feature,) from its neighbours."""
        u = self.standardiser(entity, features).astype(np.float32)
        deviation = np.abs(u - self._nearest(u)).astype(np.float64)
        distance = float(np.sqrt(np.square(deviation).mean(axis=1)).mean())
        return float(np.log(DISTANCE_OFFSET + distance)), deviation.mean(axis=0)

    def _nearest(self, u: NDArray[np.float32]) -> NDArray[np.float32]:
        fast = self.squares - 2 * (self.pool @ u)  # |u - v|^2 - |u|^2
        number = min(self.count + EXTRA_CANDIDATES, len(fast))
        candidates = np.sort(np.argpartition(fast, number - 1)[:number])
        exact = np.square(self.pool[candidates].astype(np.float64) - u).sum(axis=1)
        order = np.argsort(exact, kind="stable")
        if exact[order[0]] == 0 and len(order) > 1:  # the observation itself, if the history is scored again
            order = order[1:]
        return np.asarray(self.pool[candidates[order[: self.count]]])

    def _set_pool(self, pool: NDArray[np.float32]) -> None:
        self.pool, self.squares = pool, np.square(pool).sum(axis=1)

    def state(self) -> dict[str, NDArray[Any]]:
        own: dict[str, NDArray[Any]] = {f"{self.stored}.pool": self.pool}
        return own | self.standardiser.state(f"{self.stored}.standard") | self.features.state()

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self._set_pool(state[f"{self.stored}.pool"])
        self.standardiser = Standardiser.restore(state, f"{self.stored}.standard")


def _mean_distance(squares: Floats, count: int, features: int) -> Floats:
    """Return (row,) the mean distance to the `count` nearest, from squared distances (row, candidate); infinite ones do
    not count."""
    count = min(count, squares.shape[1])
    nearest = np.partition(squares, count - 1, axis=1)[:, :count]
    finite = np.isfinite(nearest)
    distance = np.sqrt(np.where(finite, np.maximum(nearest, 0), 0) / features)
    mean: Floats = distance.sum(axis=1) / np.maximum(finite.sum(axis=1), 1)
    return mean


class Quarters(ViewGroup):
    """Band powers of the four quarters of an observation: a spectrum that changes during it.

    Each feature is taken relative to its median over the quarters. A quarter scores as the mean of its largest |u|, and
    the observation as its most unusual quarter.
    """

    stored = "quarters"
    first_round = False

    def __init__(self, variables: int, length: int) -> None:
        self.names, self.variables, self.length = ("quarters",), variables, length
        self.bands = Bands(variables, length // QUARTERS)
        self.largest = max(MIN_LARGEST, int(LARGEST_PER_VARIABLE * variables))

    def measure(self, z: Floats, entity: str) -> Floats:
        width = self.length // QUARTERS
        quarters = np.concatenate([z[:, i * width : (i + 1) * width] for i in range(QUARTERS)])
        powers = self.bands(quarters).reshape(QUARTERS, -1)
        if np.isfinite(powers).all():
            return np.asarray(powers - np.median(powers, axis=0))
        known = np.isfinite(powers).any(axis=0)
        middle = np.zeros(powers.shape[1])
        middle[known] = np.nanmedian(powers[:, known], axis=0)
        return np.asarray(powers - middle)

    def fit(self, features: Floats, training: Training) -> Floats:
        self.standardiser = fit_standardiser(features, training)
        u = np.abs(cross_fitted(self.standardiser, features, training))
        return np.asarray(self._scores(u).max(axis=1)[:, None])

    def _scores(self, u: Floats) -> Floats:
        """Return s (..., quarter) from |u| (..., quarter, feature)."""
        return np.asarray(np.log(LOG_OFFSET + np.sort(u, axis=-1)[..., -self.largest :].mean(axis=-1)))

    def adapt(self, entity: str, features: Floats) -> None:
        adapt_standardiser(self.standardiser, entity, features)

    @property
    def baselines(self) -> dict[str, Floats]:
        return self.standardiser.entities

    def score(self, entity: str, features: Floats) -> Floats:
        return np.array([self._scores(np.abs(self.standardiser(entity, features))).max()])

    def explain(self, entity: str, z: Floats) -> list[Explained]:
        u = np.abs(self.standardiser(entity, self.measure(z, entity)))
        quarter = np.minimum(np.arange(self.length) // (self.length // QUARTERS), QUARTERS - 1)
        cells = u.reshape(QUARTERS, self.variables, BANDS).mean(axis=2).T
        return [Explained(self._scores(u)[quarter], cells[:, quarter])]

    def state(self) -> dict[str, NDArray[Any]]:
        return self.standardiser.state(self.stored)

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.standardiser = Standardiser.restore(state, self.stored)
