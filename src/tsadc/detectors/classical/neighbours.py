"""The distance of an observation to its nearest training observations, for detectors by nearest neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tsadc.detectors.ensemble.features import Standardiser, decode_names, encode_names
from tsadc.detectors.ensemble.training import lowest_share
from tsadc.series import Booleans, Floats

EXTRA_CANDIDATES = 16  # beyond the neighbours wanted, because the fast distance that preselects them is rounded
ENOUGH_OTHERS = 4  # times the neighbours wanted: with so many of other entities, an entity's own are left out


class Neighbours:
    """Measures how far the features of an observation are from those of the nearest training observations.

        name       meaning
        u          (feature,) standardised features of the observation
        pool       (observation, feature) u of the training observations that count as normal
        distance   root mean square of u - v over the features, averaged over the nearest v in the pool

    The threshold comes from the scores of training observations, so they must be scored by the same rule as new ones.
    But a training observation resembles those just before and after it more than a new one will: compared with its own
    entity it would score too low. Therefore the observations of an entity are not its own neighbours, neither in
    training nor later, if those of other entities are at least 4 times as many as the neighbours wanted. With a single
    entity, or few others, every observation is a candidate except the observation itself, at distance 0.
    """

    def __init__(
        self, standardiser: Standardiser, pool: NDArray[np.float32], entities: Sequence[str], count: int
    ) -> None:
        self.standardiser, self.pool, self.entities, self.count = standardiser, pool, tuple(entities), count
        names, members = np.unique(np.array(self.entities), return_inverse=True)
        self.codes = {str(name): code for code, name in enumerate(names)}
        self.members = members
        self.squares = np.square(pool).sum(axis=1)

    @classmethod
    def fit(cls, features: Floats, entities: Sequence[str], kept: Booleans, count: int) -> Self:
        """Fit to the features (observation, feature) of training observations; those in `kept` count as normal."""
        standardiser = Standardiser.fit(features, entities, kept)
        chosen = [int(i) for i in np.flatnonzero(kept)]
        pool = np.stack([standardiser(entities[i], features[i]) for i in chosen]).astype(np.float32)
        return cls(standardiser, pool, [entities[i] for i in chosen], count)

    @classmethod
    def fit_trimmed(cls, features: Floats, entities: Sequence[str], keep: float, count: int) -> Self:
        """Fit to all observations, then again to the share `keep` that is nearest to the rest."""
        every = cls.fit(features, entities, np.ones(len(features), dtype=bool), count)
        distances = [every.distance(entity, row)[0] for entity, row in zip(entities, features, strict=True)]
        return cls.fit(features, entities, lowest_share(np.array(distances), keep), count)

    def distance(self, entity: str, features: Floats) -> tuple[float, Floats]:
        """Return the distance of an observation, and the mean deviation (feature,) from its neighbours."""
        u = self.standardiser(entity, features).astype(np.float32)
        deviation = np.abs(u - self._nearest(entity, u)).astype(np.float64)
        return float(np.sqrt(np.square(deviation).mean(axis=1)).mean()), deviation.mean(axis=0)

    def _nearest(self, entity: str, u: NDArray[np.float32]) -> NDArray[np.float32]:
        fast = self.squares - 2 * (self.pool @ u)  # |u - v|^2 - |u|^2
        others = self.members != self.codes.get(entity, -1)
        if others.sum() >= ENOUGH_OTHERS * self.count:
            fast = np.where(others, fast, np.inf)
        number = min(self.count + EXTRA_CANDIDATES, len(fast))
        candidates = np.sort(np.argpartition(fast, number - 1)[:number])
        candidates = candidates[np.isfinite(fast[candidates])]
        exact = np.square(self.pool[candidates].astype(np.float64) - u).sum(axis=1)
        order = np.argsort(exact, kind="stable")
        if exact[order[0]] == 0 and len(order) > 1:
            order = order[1:]
        return np.asarray(self.pool[candidates[order[: self.count]]])

    def state(self, prefix: str) -> dict[str, NDArray[Any]]:
        own: dict[str, NDArray[Any]] = {f"{prefix}.pool": self.pool, f"{prefix}.members": encode_names(self.entities)}
        return own | self.standardiser.state(f"{prefix}.standard")

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]], prefix: str, count: int) -> Self:
        standardiser = Standardiser.restore(state, f"{prefix}.standard")
        return cls(standardiser, state[f"{prefix}.pool"], decode_names(state[f"{prefix}.members"]), count)
