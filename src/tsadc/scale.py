"""Normalisation, per entity and per variable, from unlabelled history.

Robust: `z = (x - median) / max(IQR / 1.349, 0.2 sd, floor)`. The floor keeps nearly constant variables from exploding;
it is 1 % of the variable's range over all training entities, so that it does not depend on units."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tsadc.errors import DataError, TsadcNotice
from tsadc.series import Floats, Series

NORMAL_IQR = 1.349
MOST_ROWS = 100_000
VARIABLES_AT_ONCE = 64  # times MOST_ROWS is what a pass may hold
ABSURD = 1e100  # squares of it still add up


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
        extents = [_extent(one) for one in series]
        low = np.fmin.reduce([extent.low for extent in extents])
        high = np.fmax.reduce([extent.high for extent in extents])
        if np.isnan(low).any():
            name = series[0].names[int(np.flatnonzero(np.isnan(low))[0])]
            raise DataError(f"Variable {name!r} has no value at all in the history; leave it out.")
        largest = np.maximum(np.abs(low), np.abs(high))
        if (largest > ABSURD).any():
            k = int(largest.argmax())
            raise DataError(
                f"Variable {series[0].names[k]!r} reaches {largest[k]:.3g} in the history, which no sensor measures; "
                "use NaN where nothing was measured."
            )
        floor = _floor(low, high)
        counts = np.sum([extent.count for extent in extents], axis=0)
        scaler = cls(config, _statistics(series, counts, floor, config.method), floor)
        scaler.constant = low == high
        if config.scope == "entity":
            for one, extent in zip(series, extents, strict=True):
                scaler._learn(one, extent)
        return scaler

    def check_constant(self, names: Sequence[str]) -> None:
        """Refuse a history in which nothing moves; name the variables that do not."""
        if self.constant.all():
            raise DataError("Every variable of the history is constant; there is nothing to learn from.")
        if self.constant.any():
            still = [name for name, constant in zip(names, self.constant, strict=True) if constant]
            warnings.warn(
                f"Constant throughout the history: {', '.join(still)}; any change will count as unusual.",
                TsadcNotice,
                stacklevel=4,  # who called `fit`
            )

    def adapt(self, series: Iterable[Series]) -> None:
        """Learn the statistics of further entities, or of known ones anew, from their own unlabelled history."""
        for one in series:
            self._learn(one, _extent(one))

    def _learn(self, one: Series, extent: _Extent) -> None:
        own = _statistics([one], extent.count, self.floor, self.config.method)
        unseen = np.isnan(own.center)
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


@dataclass(frozen=True, slots=True)
class _Extent:
    """Smallest and largest value of every variable, NaN where nothing was ever measured, and how many there are."""

    low: Floats
    high: Floats
    count: NDArray[np.int64]


def _extent(series: Series) -> _Extent:
    low, high = np.full((2, len(series.names)), np.nan)
    count = np.zeros(len(series.names), dtype=np.int64)
    for chunk in series.chunks():
        low = np.fmin(low, np.fmin.reduce(chunk, axis=0))
        high = np.fmax(high, np.fmax.reduce(chunk, axis=0))
        count += np.isfinite(chunk).sum(axis=0)
    return _Extent(low, high, count)


def _floor(low: Floats, high: Floats) -> Floats:
    # A variable that never moved has no range; 1 % of its size, or 1 around zero, is the next best unit.
    size = np.where(high > low, high - low, np.where(low != 0, np.abs(low), 100.0))
    return np.maximum(0.01 * size, np.finfo(np.float64).tiny)


def _statistics(series: Sequence[Series], counts: NDArray[np.int64], floor: Floats, method: str) -> Statistics:
    """Of each variable, pooled over `series`, which have `counts` values of it; NaN for one that was never measured."""
    center, scale = np.full(len(floor), np.nan), np.full(len(floor), np.nan)
    for k, known in _known(series, counts):
        if not len(known):
            continue
        # The rounding of a mean can give a constant a deviation of its own, tiny and not zero.
        deviation = np.std(known) if known.min() < known.max() else 0.0
        if method == "robust":
            low, center[k], high = np.quantile(known, [0.25, 0.5, 0.75])
            scale[k] = max((high - low) / NORMAL_IQR, 0.2 * deviation, floor[k])
        else:
            center[k] = np.mean(known)
            scale[k] = deviation or floor[k]
    return Statistics(center, scale)


def _known(series: Sequence[Series], counts: NDArray[np.int64]) -> Iterator[tuple[int, Floats]]:
    """The measured values of each variable, at most `MOST_ROWS` and evenly spread: quantiles need no more, and memory
    stays bounded. What is missing goes first, or a slow variable could be missed by every row that is kept."""
    every = -(-counts // MOST_ROWS)
    # One pass over the data for as many variables as memory allows: series may be files.
    for first in range(0, len(counts), VARIABLES_AT_ONCE):
        together = range(first, min(first + VARIABLES_AT_ONCE, len(counts)))
        kept: dict[int, list[Floats]] = {k: [] for k in together}
        seen = dict.fromkeys(together, 0)
        for chunk in (chunk for one in series for chunk in one.chunks()):
            for k in together:
                column = chunk[:, k]
                column = column[np.isfinite(column)]
                kept[k].append(column[-seen[k] % max(1, every[k]) :: max(1, every[k])].astype(np.float64))
                seen[k] += len(column)
        for k in together:
            yield k, np.concatenate(kept.pop(k))


def _to_mapping(own: Statistics) -> dict[str, list[float]]:
    return {"center": own.center.tolist(), "scale": own.scale.tolist()}


def _from_mapping(mapping: Mapping[str, Any]) -> Statistics:
    return Statistics(np.asarray(mapping["center"], dtype=np.float64), np.asarray(mapping["scale"], dtype=np.float64))
