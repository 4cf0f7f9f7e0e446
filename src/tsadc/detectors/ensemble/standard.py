"""Features on one scale: how far each is from what is usual for the entity, in robust standard deviations.

name       meaning
features   (observation, feature); NaN where what they describe was not measured
kept       which training observations count as normal
u          (f - centre of the entity) / scale, clipped; 0 where f is NaN: what was not measured says nothing
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tsadc.scale import NORMAL_IQR
from tsadc.series import Booleans, Floats

LARGEST = 10.0
LEAST_SCALE = 0.01  # features are logs and angles, so this is 1 % or half a degree
LEAST_HISTORY = 8


class Standard:
    """Centres of the entities, and one scale. An entity has a centre of its own if at least 8 of its observations were
    trained on: with one each, say an ECG per patient, its own centre would erase whatever sets it apart."""

    def __init__(self, center: Floats, scale: Floats, entities: Mapping[str, Floats]) -> None:
        self.center, self.scale, self.entities = center, scale, dict(entities)

    @classmethod
    def fit(cls, features: Floats, entities: Sequence[str], kept: Booleans, least: int = LEAST_HISTORY) -> Self:
        """`least`: how many rows of features an entity needs for a centre of its own."""
        middle = _quantiles(features[kept], [0.5])[0]
        owner = np.array(entities)
        centers = {}
        for name in dict.fromkeys(entities):
            mine = owner == name
            if mine.sum() >= least:
                # An entity of which most was dropped still has a history: better all of it than that of others.
                chosen = mine & kept if (mine & kept).sum() >= least else mine
                own = _quantiles(features[chosen], [0.5])[0]
                centers[name] = np.where(np.isnan(own), middle, own)
        centred = features - np.stack([centers.get(name, middle) for name in entities])
        low, rest, high = np.nan_to_num(_quantiles(centred[kept], [0.25, 0.5, 0.75]))
        known = np.isfinite(centred[kept])
        deviation = np.where(known, centred[kept] - rest, 0)
        deviation = np.sqrt(np.square(deviation).sum(axis=0) / np.maximum(known.sum(axis=0), 1))
        scale = np.maximum.reduce([(high - low) / NORMAL_IQR, 0.2 * deviation, np.full(len(rest), LEAST_SCALE)])
        return cls(np.nan_to_num(middle) + rest, scale, {name: own + rest for name, own in centers.items()})

    def adapt(self, entity: str, features: Floats) -> None:
        """Give an entity, new or known, the centre of these features (observation, feature) of its history."""
        own = _quantiles(features, [0.5])[0]
        self.entities[entity] = np.where(np.isnan(own), self.entities.get(entity, self.center), own)

    def __call__(self, entity: str, features: Floats) -> Floats:
        """The features (feature,) of one observation of `entity`, or of several, as u."""
        u = (features - self.entities.get(entity, self.center)) / self.scale
        return np.clip(np.nan_to_num(u, nan=0.0), -LARGEST, LARGEST)

    def state(self, prefix: str) -> dict[str, NDArray[Any]]:
        own = [self.entities[name] for name in self.entities]
        return {
            f"{prefix}.center": self.center,
            f"{prefix}.scale": self.scale,
            f"{prefix}.entities": encode(list(self.entities)),
            f"{prefix}.centers": np.array(own).reshape(len(own), len(self.center)),
        }

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]], prefix: str) -> Self:
        names = decode(state[f"{prefix}.entities"])
        entities = dict(zip(names, state[f"{prefix}.centers"], strict=True))
        return cls(state[f"{prefix}.center"], state[f"{prefix}.scale"], entities)


def encode(names: Sequence[str]) -> NDArray[np.uint8]:
    """Texts as an array of numbers, which is what a model folder holds."""
    return np.frombuffer(json.dumps(list(names)).encode(), dtype=np.uint8)


def decode(array: NDArray[np.uint8]) -> list[str]:
    return [str(name) for name in json.loads(array.tobytes())]


def _quantiles(features: Floats, levels: list[float]) -> Floats:
    """(level, feature) over what is known; NaN for a feature that never is."""
    if len(features) and not np.isnan(features).any():
        return np.asarray(np.quantile(features, levels, axis=0))  # the same, many times faster
    never = np.isnan(features).all(axis=0)
    found: Floats = np.nanquantile(np.where(never, 0.0, features), levels, axis=0)
    found[:, never] = np.nan
    return found
