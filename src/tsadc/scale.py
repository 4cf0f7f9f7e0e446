"""Normalise values per entity and variable, with statistics of unlabelled history.

    robust      z = (x - median) / max(IQR / 1.349, 0.2 sd, floor)
    standard    z = (x - mean) / sd, or / floor if sd = 0

The floor keeps the z of nearly constant variables small. It is 1 % of the variable's range over all training entities,
so that it does not depend on units."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from tsadc.errors import DataError, listed, notice
from tsadc.series import Floats, Series

NORMAL_IQR = 1.349  # interquartile range of the standard normal distribution
MAX_VALUES = 100_000  # of a variable, from which its statistics are computed
QUARTILES = 5  # levels of quantiles: 0, 1/4, 1/2, 3/4 and 1
LEVELS = 257  # of distributions that are to be joined
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
        extent = joined_extent(extents)
        check_extent(extent, series[0].names)
        own = {}
        if config.scope == "entity":
            own = {item.entity: Distribution.of([item], known) for item, known in zip(series, extents, strict=True)}
        return cls.of(own, Distribution.of(series, extent), config)

    @classmethod
    def of(cls, entities: Mapping[str, Distribution], pooled: Distribution, config: Config) -> Scaler:
        """Return the scaler that the distributions of the values of each entity, and of all of them, describe."""
        floor = _floor(pooled.extent.low, pooled.extent.high)
        scaler = cls(config, pooled.statistics(floor, config.method), floor)
        scaler.constant = pooled.extent.low == pooled.extent.high
        for entity, own in entities.items():
            scaler._set(entity, own)
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
            self._set(item.entity, Distribution.of([item]))

    def _set(self, entity: str, values: Distribution) -> None:
        own = values.statistics(self.floor, self.config.method)
        unseen = np.isnan(own.center)
        self.entities[entity] = Statistics(
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
class Extent:
    """Smallest and largest value of every variable, NaN if it was never measured, and the number of values."""

    low: Floats
    high: Floats
    count: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Distribution:
    """How the values of each variable are distributed; NaN for a variable that was never measured.

    Distributions of different rows can be joined. Extents and moments are then exact. Each quantile of the joined rows
    is off by at most 1 / (levels - 1) of the rows for each time that they were joined: 0.4 % with `LEVELS`.

    Attributes
    ----------
    extent : Extent
    mean, deviation : (variable,)
        Mean and standard deviation.
    quantiles : (level, variable)
        Quantiles at evenly spaced levels from 0 to 1; their number is one more than a multiple of 4.
    """

    extent: Extent
    mean: Floats
    deviation: Floats
    quantiles: Floats

    @classmethod
    def of(cls, series: Sequence[Series], extent: Extent | None = None, levels: int = QUARTILES) -> Self:
        """Return the distribution of the values of all `series`, of at most `MAX_VALUES` of each variable."""
        known = joined_extent([_extent(item) for item in series]) if extent is None else extent
        mean, deviation = np.full((2, len(known.count)), np.nan)
        quantiles = np.full((levels, len(known.count)), np.nan)
        for k, values in _known_values(series, known.count):
            if len(values):
                mean[k] = np.mean(values)
                # The rounding of the mean can give a constant a tiny standard deviation that is not zero.
                deviation[k] = np.std(values) if values.min() < values.max() else 0.0
                quantiles[:, k] = np.quantile(values, np.linspace(0, 1, levels))
        return cls(known, mean, deviation, quantiles)

    def completed(self, others: Iterable[Distribution]) -> Distribution:
        """Return the distribution with the medians of the others' numbers for variables that it has no value of."""
        unseen = np.isnan(self.mean)
        if not unseen.any():
            return self
        known = [own.coarse() for own in others]
        mean, deviation, quantiles = self.mean.copy(), self.deviation.copy(), self.coarse().quantiles.copy()
        mean[unseen] = np.nanmedian([own.mean[unseen] for own in known], axis=0)
        deviation[unseen] = np.nanmedian([own.deviation[unseen] for own in known], axis=0)
        quantiles[:, unseen] = np.nanmedian([own.quantiles[:, unseen] for own in known], axis=0)
        return Distribution(self.extent, mean, deviation, quantiles)

    def joined(self, other: Distribution) -> Distribution:
        """Return the distribution of the values of both."""
        extent = joined_extent([self.extent, other.extent])
        pairs = [(own, own.extent.count / np.maximum(extent.count, 1)) for own in (self, other)]
        mean = sum(np.where(share > 0, own.mean * share, 0.0) for own, share in pairs)
        square = sum(
            np.where(share > 0, (np.square(own.deviation) + np.square(own.mean - mean)) * share, 0.0)
            for own, share in pairs
        )
        quantiles = np.full_like(self.quantiles, np.nan)
        for k in np.flatnonzero(extent.count):
            points = [(own.quantiles[:, k], share[k]) for own, share in pairs if share[k] > 0]
            quantiles[:, k] = _joined_quantiles(points)
        never = extent.count == 0
        return Distribution(extent, np.where(never, np.nan, mean), np.where(never, np.nan, np.sqrt(square)), quantiles)

    def coarse(self) -> Distribution:
        """Return the distribution with quartiles only."""
        every = (len(self.quantiles) - 1) // (QUARTILES - 1)
        return replace(self, quantiles=self.quantiles[::every])

    def statistics(self, floor: Floats, method: str) -> Statistics:
        """Return centre and scale by a method of the scaler."""
        if method != "robust":
            return Statistics(self.mean, np.where(self.deviation == 0, floor, self.deviation))
        low, center, high = self.quantiles[:: (len(self.quantiles) - 1) // 4][1:4]
        return Statistics(center, np.maximum.reduce([(high - low) / NORMAL_IQR, 0.2 * self.deviation, floor]))


def _extent(series: Series) -> Extent:
    low, high = np.full((2, len(series.names)), np.nan)
    count = np.zeros(len(series.names), dtype=np.int64)
    for chunk in series.chunks():
        low = np.fmin(low, np.fmin.reduce(chunk, axis=0))
        high = np.fmax(high, np.fmax.reduce(chunk, axis=0))
        count += np.isfinite(chunk).sum(axis=0)
    return Extent(low, high, count)


def joined_extent(extents: Sequence[Extent]) -> Extent:
    low = np.fmin.reduce([extent.low for extent in extents])
    high = np.fmax.reduce([extent.high for extent in extents])
    return Extent(low, high, np.sum([extent.count for extent in extents], axis=0))


def _joined_quantiles(points: Sequence[tuple[Floats, float]]) -> Floats:
    """Return evenly spaced quantiles of a mixture of distributions, each given by such quantiles and its share.

    The share of the mixture below a value is the sum of the shares below it; in between, it is linear."""
    if len(points) == 1:
        return points[0][0]
    levels = np.linspace(0, 1, len(points[0][0]))
    values = np.unique(np.concatenate([own for own, _ in points]))
    # Where several quantiles are equal, the distribution jumps: it has one share just below and another at the value.
    below, at = np.zeros((2, len(values)))
    for own, share in points:
        first, last = np.searchsorted(own, values, "left"), np.searchsorted(own, values, "right")
        inside = np.interp(values, own, levels)
        known = last > first
        below += share * np.where(known, levels[np.minimum(first, len(own) - 1)], inside)
        at += share * np.where(known, levels[np.maximum(last - 1, 0)], inside)
    return np.asarray(np.interp(levels, np.stack([below, at], axis=1).ravel(), np.repeat(values, 2)))


def check_extent(extent: Extent, names: Sequence[str]) -> None:
    """Raise a `DataError` if a variable has no value, or an impossibly large one."""
    if np.isnan(extent.low).any():
        empty = [names[k] for k in np.flatnonzero(np.isnan(extent.low)).tolist()]
        have, them = ("have", "them") if len(empty) > 1 else ("has", "it")
        raise DataError(
            f"{', '.join(empty)} {have} no values in the history; leave {them} out with --columns (in Python: "
            "Reading(columns=...))."
        )
    largest = np.maximum(np.abs(extent.low), np.abs(extent.high))
    if (largest > MAX_RAW_VALUE).any():
        k = int(largest.argmax())
        raise DataError(
            f"Variable {names[k]!r} reaches {largest[k]:.3g} in the history, which no sensor measures; "
            "use NaN where nothing was measured."
        )


def _floor(low: Floats, high: Floats) -> Floats:
    # A constant variable has no range; 1 % of its value, or 1 if it is zero, is the next best unit.
    size = np.where(high > low, high - low, np.where(low != 0, np.abs(low), 100.0))
    return np.maximum(0.01 * size, np.finfo(np.float64).tiny)


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
