"""Normalisation, per entity and per variable, from unlabelled history.

Robust: `z = (x - median) / max(IQR / 1.349, 0.2 sd, floor)`. The floor keeps nearly constant variables from exploding;
it is 1 % of the variable's range over all training entities, so that it does not depend on units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tsadc.errors import DataError
from tsadc.series import Floats, Series

NORMAL_IQR = 1.349
MOST_ROWS = 100_000


@dataclass(frozen=True, slots=True)
class Statistics:
    """Centre and scale of every variable."""

    center: Floats
    scale: Floats


class Scaler:
    """Maps raw values to z units and back, each entity by its own statistics; one it has not met, by the pooled."""

    @dataclass(frozen=True)
    class Config:
        method: Literal["robust", "standard"] = "robust"
        scope: Literal["entity", "pooled"] = "entity"

    def __init__(
        self, config: Config, pooled: Statistics, floor: Floats, entities: Mapping[str, Statistics] | None = None
    ) -> None:
        self.config, self.pooled, self.floor = config, pooled, floor
        self.entities = dict(entities or {})
        self.constant = np.zeros(len(floor), dtype=bool)  # variables that never moved in the history fitted on

    @classmethod
    def fit(cls, series: Sequence[Series], config: Config) -> Scaler:
        """Statistics of each entity in `series`, and pooled over all of them."""
        rows = np.concatenate([_sample(one.values) for one in series])
        empty = ~np.isfinite(rows).any(axis=0)
        if empty.any():
            name = series[0].names[int(np.flatnonzero(empty)[0])]
            raise DataError(f"Variable {name!r} has no value at all in the history; leave it out.")
        floor = _floor(rows)
        pooled = _statistics(rows, floor, config.method)
        scaler = cls(config, pooled, floor)
        scaler.constant = np.nanmax(rows, axis=0) == np.nanmin(rows, axis=0)
        if config.scope == "entity":
            scaler.adapt(series)
        return scaler

    def adapt(self, series: Iterable[Series]) -> None:
        """Learn the statistics of further entities, or of known ones anew, from their own unlabelled history."""
        for one in series:
            rows = _sample(one.values)
            own = _statistics(rows, self.floor, self.config.method)
            unseen = ~np.isfinite(rows).any(axis=0)
            self.entities[one.entity] = Statistics(
                np.where(unseen, self.pooled.center, own.center), np.where(unseen, self.pooled.scale, own.scale)
            )

    def __call__(self, entity: str, values: Floats) -> Floats:
        """Raw values (time, variable) in z units."""
        own = self.entities.get(entity, self.pooled)
        return (values - own.center) / own.scale

    def undo(self, entity: str, z: Floats) -> Floats:
        """z units (time, variable) back to raw values."""
        own = self.entities.get(entity, self.pooled)
        return z * own.scale + own.center

    def to_mapping(self) -> dict[str, Any]:
        """As plain data; floats survive JSON to the bit."""
        return {
            "floor": self.floor.tolist(),
            "pooled": _to_mapping(self.pooled),
            "entities": {name: _to_mapping(own) for name, own in self.entities.items()},
        }

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any], config: Config) -> Scaler:
        entities = {name: _from_mapping(own) for name, own in mapping["entities"].items()}
        return cls(config, _from_mapping(mapping["pooled"]), np.asarray(mapping["floor"], dtype=np.float64), entities)


def _sample(values: Floats) -> Floats:
    """At most `MOST_ROWS` evenly spread rows: quantiles need no more, and memory stays bounded."""
    return np.asarray(values[:: max(1, -(-len(values) // MOST_ROWS))], dtype=np.float64)


def _floor(rows: Floats) -> Floats:
    spread = np.nanmax(rows, axis=0) - np.nanmin(rows, axis=0)
    magnitude = np.abs(np.nanmedian(rows, axis=0))
    # A variable that never moved has no range; 1 % of its size, or 1 around zero, is the next best unit.
    return np.where(spread > 0, 0.01 * spread, np.where(magnitude > 0, 0.01 * magnitude, 1.0))


def _statistics(rows: Floats, floor: Floats, method: str) -> Statistics:
    measured = np.isfinite(rows).any(axis=0)
    center, scale = np.zeros(rows.shape[1]), np.ones(rows.shape[1])
    known = rows[:, measured]
    deviation = np.nanstd(known, axis=0)
    if method == "robust":
        low, middle, high = np.nanquantile(known, [0.25, 0.5, 0.75], axis=0)
        center[measured] = middle
        scale[measured] = np.maximum(np.maximum((high - low) / NORMAL_IQR, 0.2 * deviation), floor[measured])
    else:
        center[measured] = np.nanmean(known, axis=0)
        scale[measured] = np.where(deviation > 0, deviation, floor[measured])
    return Statistics(center, scale)


def _to_mapping(own: Statistics) -> dict[str, list[float]]:
    return {"center": own.center.tolist(), "scale": own.scale.tolist()}


def _from_mapping(mapping: Mapping[str, Any]) -> Statistics:
    return Statistics(np.asarray(mapping["center"], dtype=np.float64), np.asarray(mapping["scale"], dtype=np.float64))
