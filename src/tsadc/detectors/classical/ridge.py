"""Ridge regression of each variable on the others: what a linear model knows of the dependencies. No network, and on
some data better than one, so it stands beside every result.

    name       meaning
    weights    (feature, variable) on the features of `head.linear`; a variable's own weigh nothing
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tsadc.config import require
from tsadc.detectors.base import Detector, FitOptions
from tsadc.detectors.ensemble.linear import LAGS, PENALTY, design, moments, regression
from tsadc.detectors.pooling import top_mean
from tsadc.detectors.result import Evidence
from tsadc.detectors.settings import Common
from tsadc.series import Observations


@dataclass(frozen=True)
class Config(Common):
    """`lags`: steps back in time. `penalty`: of the squared weights, per observed step."""

    lags: int = LAGS
    penalty: float = PENALTY

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.lags >= 0, "lags", "zero or more", self.lags)
        require(self.penalty > 0, "penalty", "positive", self.penalty)


class Ridge(Detector[Config]):
    """`top3max` of the residuals: at each step the mean of the 3 largest; the observation scores as its worst step."""

    name: ClassVar[str] = "ridge"
    view_names: ClassVar[tuple[str, ...]] = ("conditional",)
    Config: ClassVar[type[Config]] = Config

    def _fit(self, train: Observations, validation: Observations, options: FitOptions) -> None:
        gram = moments((train.read(i) for i in range(len(train))), self.settings.lags)
        self.weights_ = regression(gram, len(train.names), self.settings.penalty).T.copy()

    def _score(self, observations: Observations) -> Iterator[Evidence]:
        for i in range(len(observations)):
            values = observations.read(i)
            expected = (self.weights_.T @ design(values, self.settings.lags)).astype(np.float32)
            residual = np.abs(values - expected)
            steps = top_mean(residual, 3)
            score = float(np.nanmax(steps))
            yield Evidence(score, {"conditional": score}, steps, residual, np.zeros_like(steps), expected)

    def _state(self) -> dict[str, NDArray[Any]]:
        return {"weights": self.weights_}

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.weights_ = state["weights"]
