"""Two-sided log-energy: a variable that moves much less than usual is as strange as one that moves much more.

name       meaning
features   the log of each variable's standard deviation over the observation
u          how far that is from usual for the entity, in robust standard deviations of the training part
score      mean of |u| over the variables
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tsadc.detectors.classical.window import WindowDetector
from tsadc.detectors.ensemble.features import Energy, Features
from tsadc.detectors.ensemble.standard import Standard
from tsadc.series import Floats, Observations


class LogEnergy(WindowDetector):
    """Too loud or too quiet."""

    name: ClassVar[str] = "log-energy"
    view_names: ClassVar[tuple[str, ...]] = ("energy",)

    def _describe(self, train: Observations) -> Features:
        return Energy(len(train.names))

    def _learn(self, features: Floats, entities: list[str]) -> None:
        self.standard_ = Standard.fit(features, entities, np.ones(len(features), dtype=bool))

    @property
    def _usual(self) -> Standard:
        return self.standard_

    def _judge(self, entity: str, features: Floats) -> tuple[float, Floats]:
        deviation = np.abs(self.standard_(entity, features))
        return float(deviation.mean()), deviation

    def _state(self) -> dict[str, NDArray[Any]]:
        return self.standard_.state("energy")

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.features_ = Energy(len(self.variables_))
        self.standard_ = Standard.restore(state, "energy")
