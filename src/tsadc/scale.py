"""Normalise values per entity and variable, with statistics of unlabelled history.

    robust      z = (x - median) / max(IQR / 1.349, 0.2 sd, floor)
    standard    z = (x - mean) / sd, or / floor if sd = 0

The floor keeps the z of nearly constant variables small. It is 1 % of the variable's range over all training entities,
so that it does not depend on units."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tsadc.errors import DataError, listed, notice
from tsadc.series import Floats, Series

NORMAL_IQR = 1.349  # interquartile range of the standard normal distribution
MAX_VALUES = 100_000  # of a variable, from which its statistics are computed
VARIABLES_PER_PASS = 64  # times MAX_VALUES is what a pass over the data holds in memory
MAX_RAW_VALUE = 1e100  # sums of squares of larger values may overflow


@dataclass(frozen=True, slots=True)
class Statistics:
    """Centre and scale of every variable, both of shape (variable,)."""

    center: Floats
    scale: Floats


class Scaler:
    """Map raw values to z units and back.

    `Scaler.fit` computes the statistics. An entity that is not in `entities` is scaled with the pooled statistics.

    Parameters
    ----------
    config : Scaler.Config
        Settings.
    pooled : Statistics
        Centre and scale of each variable over all training entities.
    floor : array of float, shape (variable,)
        Smallest scale of each variable.
    entities : mapping of str to Statistics, optional
        Centre and scale by entity.

    Attributes
    ----------
    constant : array of bool, shape (variable,)
        Variables that never changed in the history on which the scaler was fitted.

    Examples
    --------
    >>> import numpy as np
    >>> from tsadc.scale import Scaler
    >>> from tsadc.series import Series
    >>> history = Series(np.array([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]]), ("flow", "pressure"), entity="pump")
    >>> scaler = Scaler.fit([history], Scaler.Config(method="standard"))
    >>> z = scaler("pump", history.values)
    >>> z.mean(axis=0).tolist(), z.std(axis=0).round(6).tolist()
    ([0.0, 0.0], [1.0, 1.0])
    >>> scaler.undo("pump", z).round(6).tolist()
    [[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]]
    """

    @dataclass(frozen=True)
    class Config:
        """Settings of the scaler.

        Parameters
        ----------
        method : {"robust", "standard"}, default "robust"
            "robust": centre and scale are the median and the interquartile range, which anomalies in the history hardly
            change. "standard": mean and standard deviation.
        scope : {"entity", "pooled"}, default "entity"
            "entity": each entity has its own statistics. "pooled": all share those of the whole history.
        """

        method: Literal["robust", "standard"] = "robust"
        scope: Literal["entity", "pooled"] = "entity"

    def __init__(
        self, config: Config, pooled: Statistics, floor: Floats, entities: Mapping[str, Statistics] | None = None
    ) -> None:
        self.config, self.pooled, self.floor = config, pooled, floor
        self.entities = dict(entities or {})
        self.constant = np.zeros(len(floor), dtype=bool)

    @classmethod
    def fit(cls, series: Sequence[Series], config: Config) -> Scaler:
        """Compute the statistics of each entity in `series`, and pooled over all of them.

        Raises
        ------
        DataError
            If a variable has no value, or an impossibly large one.
        """
        extents = [_extent(item) for item in series]
        low = np.fmin.reduce([extent.low for extent in extents])
        high = np.fmax.reduce([extent.high for extent in extents])
        if np.isnan(low).any():
            empty = [series[0].names[k] for k in np.flatnonzero(np.isnan(low))]
            have, them = ("have", "them") if len(empty) > 1 else ("has", "it")
            raise DataError(
                f"{', '.join(empty)} {have} no values in the history; leave {them} out with --columns (in Python: "
                "Reading(columns=...))."
            )
        largest = np.maximum(np.abs(low), np.abs(high))
        if (largest > MAX_RAW_VALUE).any():
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
            for item, extent in zip(series, extents, strict=True):
                scaler._learn(item, extent)
        return scaler

    def check_constant(self, names: Sequence[str]) -> None:
        """Raise an error if all variables are constant; issue a notice that lists those that are."""
        if self.constant.all():
            raise DataError("Every variable of the history is constant; there is nothing to learn from.")
        if self.constant.any():
            constant = [name for name, is_constant in zip(names, self.constant, strict=True) if is_constant]
            them = "them" if len(constant) > 1 else "it"
            notice(
                f"Constant throughout the history: {listed(constant)}; any change will count as unusual, if the "
                f"detector judges {them}."
            )

    def adapt(self, series: Iterable[Series]) -> None:
        """Compute the statistics of further entities, or of known ones again, from their own unlabelled history."""
        for item in series:
            self._learn(item, _extent(item))

    def _learn(self, series: Series, extent: _Extent) -> None:
        own = _statistics([series], extent.count, self.floor, self.config.method)
        unseen = np.isnan(own.center)
        self.entities[series.entity] = Statistics(
            np.where(unseen, self.pooled.center, own.center), np.where(unseen, self.pooled.scale, own.scale)
        )

    def __call__(self, entity: str, values: Floats) -> Floats:
        """Return raw values (time, variable) in z units."""
        own = self.entities.get(entity, self.pooled)
        z = values - own.center
        return np.asarray(np.divide(z, own.scale, out=z))

    def undo(self, entity: str, z: Floats) -> Floats:
        """Return values in z units (time, variable) as raw values."""
        own = self.entities.get(entity, self.pooled)
        return z * own.scale + own.center

    def alone(self, entity: str) -> Scaler:
        """Return a scaler with the statistics of one entity, which later changes of this one leave as they are."""
        own = {entity: self.entities[entity]} if entity in self.entities else {}
        return Scaler(self.config, self.pooled, self.floor, own)

    def to_mapping(self) -> dict[str, Any]:
        """Return the statistics as plain data; floats survive JSON to the bit."""
        return {
            "floor": self.floor.tolist(),
            "pooled": _to_mapping(self.pooled),
            "entities": {name: _to_mapping(own) for name, own in self.entities.items()},
        }

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any], config: Config) -> Scaler:
        """Restore a scaler from what `to_mapping` returned."""
        entities = {name: _from_mapping(own) for name, own in mapping["entities"].items()}
        return cls(config, _from_mapping(mapping["pooled"]), np.asarray(mapping["floor"], dtype=np.float64), entities)


@dataclass(frozen=True, slots=True)
class _Extent:
    """Smallest and largest value of every variable, NaN if it was never measured, and the number of values."""

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
    # A constant variable has no range; 1 % of its value, or 1 if it is zero, is the next best unit.
    size = np.where(high > low, high - low, np.where(low != 0, np.abs(low), 100.0))
    return np.maximum(0.01 * size, np.finfo(np.float64).tiny)


def _statistics(series: Sequence[Series], counts: NDArray[np.int64], floor: Floats, method: str) -> Statistics:
    """Return the statistics of each variable over all `series`, which have `counts` values; NaN if never measured."""
    center, scale = np.full(len(floor), np.nan), np.full(len(floor), np.nan)
    for k, known in _known_values(series, counts):
        if not len(known):
            continue
        # The rounding of the mean can give a constant a tiny standard deviation that is not zero.
        deviation = np.std(known) if known.min() < known.max() else 0.0
        if method == "robust":
            low, center[k], high = np.quantile(known, [0.25, 0.5, 0.75])
            scale[k] = max((high - low) / NORMAL_IQR, 0.2 * deviation, floor[k])
        else:
            center[k] = np.mean(known)
            scale[k] = deviation or floor[k]
    return Statistics(center, scale)


def _known_values(series: Sequence[Series], counts: NDArray[np.int64]) -> Iterator[tuple[int, Floats]]:
    """Yield the measured values of each variable, at most `MAX_VALUES` and evenly spaced: quantiles need no more, and
    memory stays bounded. Missing values are dropped first, or a rarely measured variable could have none left."""
    every = -(-counts // MAX_VALUES)
    # Each pass over the data, which may be in files, covers as many variables as memory allows.
    for first in range(0, len(counts), VARIABLES_PER_PASS):
        together = range(first, min(first + VARIABLES_PER_PASS, len(counts)))
        kept: dict[int, list[Floats]] = {k: [] for k in together}
        seen = dict.fromkeys(together, 0)
        for chunk in (chunk for item in series for chunk in item.chunks()):
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
