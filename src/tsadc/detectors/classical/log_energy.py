"""Log energy: variables that vary more, or less, than usual.

    name       meaning
    features   log of each variable's standard deviation over the observation
    u          distance of a feature from what is usual for the entity, in robust standard deviations
    score      mean of |u| over the variables

Two-sided: a variable that varies much less than usual is as anomalous as one that varies much more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tsadc.detectors.classical.base import MIN_DEVIATION, WindowDetector
from tsadc.detectors.ensemble.features import FeatureMap, Owners, Standardiser, mean_and_deviation
from tsadc.series import Floats, Observations


class Energy:
    """The log of each variable's standard deviation over the measured steps."""

    def __init__(self, variables: int) -> None:
        self.owners: Owners = (np.arange(variables), np.arange(variables))

    def __call__(self, z: Floats) -> Floats:
        return np.where(np.isfinite(z).any(axis=1), np.log(MIN_DEVIATION + mean_and_deviation(z)[1]), np.nan)


class LogEnergy(WindowDetector):
    """Detect observations in which variables vary more or less than usual."""

    name: ClassVar[str] = "log-energy"
    view_names: ClassVar[tuple[str, ...]] = ("energy",)

    def _feature_map(self, train: Observations) -> FeatureMap:
        return Energy(len(train.names))

    def _fit_features(self, features: Floats, entities: list[str]) -> None:
        self.standardiser_ = Standardiser.fit(features, entities, np.ones(len(features), dtype=bool))

    def _score_features(self, entity: str, features: Floats) -> tuple[float, Floats]:
        deviation = np.abs(self.standardiser_(entity, features))
        return float(deviation.mean()), deviation

    def _state(self) -> dict[str, NDArray[Any]]:
        return self.standardiser_.state("energy")

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.features_ = Energy(len(self.variables_))
        self.standardiser_ = Standardiser.restore(state, "energy")
