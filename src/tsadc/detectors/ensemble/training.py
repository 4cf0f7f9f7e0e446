"""The training observations of the ensemble: whose they are, which count as normal, and in which fold they are.

A view that has learnt from an observation finds it more usual than a new one. Training scores decide the weights and
the threshold, so they must not be optimistic. They are cross-fitted: the history of each entity is divided into five
contiguous blocks, its folds, and every training observation is scored by what was learnt without its own fold.
Contiguous, because an observation resembles those just before and after it. Three things are not cross-fitted: what
describes all entities together and hardly depends on one fold, such as scales; the baseline of an entity with fewer
than 5 observations, which is that of all; and the residuals of a network, which has learnt from all folds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tsadc.detectors.ensemble.features import MIN_HISTORY, Standardiser
from tsadc.series import Booleans, Floats, Observations

FOLDS = 5


@dataclass(frozen=True)
class Training:
    """Entity, fold and verdict of each training observation.

    Attributes
    ----------
    entities : tuple of str
    folds : (observation,)
        Block of the entity's history, from 0 to 4.
    kept : (observation,)
        True for the observations that count as normal.
    others : int
        Entities that the views will be adapted to, and that none of the observations is of.
    """

    entities: tuple[str, ...]
    folds: NDArray[np.int64]
    kept: Booleans
    others: int = 0

    @classmethod
    def of(cls, parts: Sequence[Observations], others: int = 0) -> Self:
        """Divide the observations of all parts, one part after the other, into folds; all count as normal."""
        entities = tuple(part.entity(i) for part in parts for i in range(len(part)))
        # Parts of one history interleave; validation data of its own follows it.
        own = [number if part.series is not parts[0].series else 0 for number, part in enumerate(parts)]
        pairs = zip(own, parts, strict=True)
        starts = np.array([(number, place.series, place.start) for number, part in pairs for place in part.places])
        folds: NDArray[np.int64] = np.zeros(len(entities), dtype=np.int64)
        for number, members in enumerate(_members(entities).values()):
            order = members[np.lexsort(starts[members].T[::-1])]
            count = len(order)
            # Entities with few observations take turns, so that all folds together have about equally many.
            place = np.arange(count) * FOLDS // count if count >= FOLDS else (np.arange(count) + number) % FOLDS
            folds[order] = place
        return cls(entities, folds, np.ones(len(entities), dtype=bool), others)

    def __len__(self) -> int:
        return len(self.entities)

    def keeping(self, kept: Booleans) -> Self:
        """Return the same observations with `kept` as those that count as normal."""
        return replace(self, kept=kept)

    def members(self) -> dict[str, NDArray[np.int64]]:
        """Return the indices of the observations of each entity."""
        return _members(self.entities)

    def known(self) -> dict[str, NDArray[np.int64]]:
        """Return the indices of the normal observations of each entity with a history long enough to judge it by. If
        fewer than that are normal, all of its history still describes it better than that of others."""
        found = {}
        for entity, indices in self.members().items():
            if len(indices) >= MIN_HISTORY:
                normal = indices[self.kept[indices]]
                found[entity] = normal if len(normal) >= MIN_HISTORY else indices
        return found

    def splits(self) -> Iterator[tuple[str, NDArray[np.int64], NDArray[np.int64]]]:
        """Yield for each fold of each known entity its observations, and the normal ones of its other folds."""
        members = self.members()
        for entity, normal in self.known().items():
            for fold in range(FOLDS):
                own = members[entity][self.folds[members[entity]] == fold]
                others = normal[self.folds[normal] != fold]
                if len(own) and len(others):
                    yield entity, own, others


def _members(entities: Sequence[str]) -> dict[str, NDArray[np.int64]]:
    names, first, codes = np.unique(np.array(entities, dtype=object), return_index=True, return_inverse=True)
    groups = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
    return {str(names[i]): groups[i] for i in np.argsort(first)}


def lowest_share(scores: Floats, share: float) -> Booleans:
    """Return True for the `share` of observations with the lowest scores, rounded up."""
    kept = np.zeros(len(scores), dtype=bool)
    kept[np.argsort(scores, kind="stable")[: int(np.ceil(share * len(scores)))]] = True
    return kept


def fit_standardiser(features: Floats, training: Training) -> Standardiser:
    """Fit to features (observation, row, feature); a training observation may have several rows of features."""
    rows = features.shape[1]
    owners = np.repeat(np.array(training.entities, dtype=object), rows).tolist()
    return Standardiser.fit(_flat(features), owners, np.repeat(training.kept, rows), MIN_HISTORY * rows)


def adapt_standardiser(standardiser: Standardiser, entity: str, features: Floats) -> None:
    """Set the centre of an entity to the median of its features (observation, row, feature)."""
    standardiser.adapt(entity, _flat(features))


def cross_fitted(standardiser: Standardiser, features: Floats, training: Training) -> Floats:
    """Return u of the features (observation, row, feature) of training observations. The centre of an entity comes from
    its other folds; the scale, which all entities share, is that of the standardiser."""
    u = np.stack([standardiser(entity, own) for entity, own in zip(training.entities, features, strict=True)])
    for entity, own, others in training.splits():
        alike = Standardiser(standardiser.center, standardiser.scale, {})
        alike.adapt(entity, _flat(features[others]))
        u[own] = alike(entity, features[own])
    return u


def _flat(features: Floats) -> Floats:
    return features.reshape(-1, features.shape[-1])
