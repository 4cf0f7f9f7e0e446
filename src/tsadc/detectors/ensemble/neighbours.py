"""How far an observation is from the training observations nearest to it, in standardised features.

    name       meaning
    u          (feature,) standardised features of an observation
    pool       (observation, feature) u of the training observations that count as normal
    distance   root mean square of u - v over features, mean over the nearest v

Which v may be neighbours. Training observations are scored too, and the threshold comes from their scores, so the rule
must be the same for them and for new ones. A training observation resembles those just before and after it more than
a new one of the same entity will: against its own entity it would score too low, and every new one would seem strange.
So the entity's own observations are left out for both, as long as the others are enough to choose from. With a single
entity, or few others, everything may be a neighbour but the observation itself, which lies at distance 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tsadc.detectors.ensemble.standard import Standard, decode, encode
from tsadc.series import Booleans, Floats

CANDIDATES = 16  # beyond the neighbours asked for: the quick distance that picks them is rounded


class Neighbours:
    """The pool, and the standard its features are measured by."""

    def __init__(self, standard: Standard, pool: NDArray[np.float32], entities: Sequence[str], count: int) -> None:
        self.standard, self.pool, self.entities, self.count = standard, pool, tuple(entities), count
        names, members = np.unique(np.array(self.entities), return_inverse=True)
        self.codes = {str(name): code for code, name in enumerate(names)}
        self.members = members
        self.squares = np.square(pool).sum(axis=1)

    @classmethod
    def fit(cls, features: Floats, entities: Sequence[str], kept: Booleans, count: int) -> Self:
        """From the features (observation, feature) of training observations, of which `kept` count as normal."""
        standard = Standard.fit(features, entities, kept)
        chosen = [int(i) for i in np.flatnonzero(kept)]
        pool = np.stack([standard(entities[i], features[i]) for i in chosen]).astype(np.float32)
        return cls(standard, pool, [entities[i] for i in chosen], count)

    @classmethod
    def fit_trimmed(cls, features: Floats, entities: Sequence[str], keep: float, count: int) -> Self:
        """Trained on everything, then again on the share `keep` that is nearest to the rest."""
        everything = cls.fit(features, entities, np.ones(len(features), dtype=bool), count)
        far = [everything.judge(name, row)[0] for name, row in zip(entities, features, strict=True)]
        return cls.fit(features, entities, lowest(np.array(far), keep), count)

    def judge(self, entity: str, features: Floats) -> tuple[float, Floats]:
        """The distance, and how far each feature is from the nearest on average."""
        u = self.standard(entity, features).astype(np.float32)
        apart = np.abs(u - self._nearest(entity, u)).astype(np.float64)
        return float(np.sqrt(np.square(apart).mean(axis=1)).mean()), apart.mean(axis=0)

    def _nearest(self, entity: str, u: NDArray[np.float32]) -> NDArray[np.float32]:
        quick = self.squares - 2 * (self.pool @ u)  # |u - v|^2 but for |u|^2
        others = self.members != self.codes.get(entity, -1)
        if others.sum() >= 4 * self.count:
            quick = np.where(others, quick, np.inf)
        number = min(self.count + CANDIDATES, len(quick))
        candidates = np.sort(np.argpartition(quick, number - 1)[:number])
        candidates = candidates[np.isfinite(quick[candidates])]
        exact = np.square(self.pool[candidates].astype(np.float64) - u).sum(axis=1)
        order = np.argsort(exact, kind="stable")
        if exact[order[0]] == 0 and len(order) > 1:
            order = order[1:]
        return np.asarray(self.pool[candidates[order[: self.count]]])

    def state(self, prefix: str) -> dict[str, NDArray[Any]]:
        own: dict[str, NDArray[Any]] = {f"{prefix}.pool": self.pool, f"{prefix}.members": encode(self.entities)}
        return own | self.standard.state(f"{prefix}.standard")

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]], prefix: str, count: int) -> Self:
        standard = Standard.restore(state, f"{prefix}.standard")
        return cls(standard, state[f"{prefix}.pool"], decode(state[f"{prefix}.members"]), count)


def lowest(scores: Floats, share: float) -> Booleans:
    """The `share` of the observations with the lowest scores, rounded up."""
    kept = np.zeros(len(scores), dtype=bool)
    kept[np.argsort(scores, kind="stable")[: int(np.ceil(share * len(scores)))]] = True
    return kept
