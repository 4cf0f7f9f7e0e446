"""Ridge regression of each variable on the others: what a linear model knows of the dependencies. No network, and on
some data better than one, so it stands beside every result.

    name       meaning
    past       every variable now and up to `lags` steps ago, and a constant: (time, feature)
    weights    (feature, variable); a variable's own features weigh nothing
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tsadc.config import require
from tsadc.detectors.base import Detector, Fitting
from tsadc.detectors.pooling import top_mean
from tsadc.detectors.result import Evidence
from tsadc.detectors.settings import Common
from tsadc.series import Floats, Observations

LARGEST = 30.0  # z beyond this says no more, and must not rule the regression


@dataclass(frozen=True)
class Config(Common):
    """`lags`: steps back in time. `penalty`: of the squared weights, per observed step."""

    lags: int = 3
    penalty: float = 1e-3

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.lags >= 0, "lags", "zero or more", self.lags)
        require(self.penalty > 0, "penalty", "positive", self.penalty)


class Ridge(Detector):
    """`top3max` of the residuals: at each step the mean of the 3 largest; the observation scores as its worst step."""

    name: ClassVar[str] = "ridge"
    views: ClassVar[tuple[str, ...]] = ("conditional",)
    Config: ClassVar[type[Config]] = Config

    def _fit(self, train: Observations, validation: Observations, fitting: Fitting) -> None:
        variables = len(train.names)
        features = variables * (self.settings.lags + 1) + 1
        gram, moment, steps = np.zeros((features, features)), np.zeros((features, variables)), 0
        for i in range(len(train)):
            values = train.read(i)
            past = self._past(values)
            gram += past.T @ past
            moment += past.T @ _known(values).T
            steps += len(past)
        gram += self.settings.penalty * steps * np.eye(features)
        self.weights_ = np.zeros((features, variables))
        for k in range(variables):
            others = np.arange(features) % variables != k
            others[-1] = True
            self.weights_[others, k] = np.linalg.solve(gram[np.ix_(others, others)], moment[others, k])

    def _score(self, observations: Observations) -> Iterator[Evidence]:
        for i in range(len(observations)):
            values = observations.read(i)
            expected = (self._past(values) @ self.weights_).T.astype(np.float32)
            residual = np.abs(values - expected)
            steps = top_mean(residual, 3)
            score = float(np.nanmax(steps))
            yield Evidence(score, {"conditional": score}, steps, residual, np.zeros_like(steps), expected)

    def _past(self, values: Floats) -> Floats:
        """values (variable, time) -> (time, feature). What was not measured, or lies before the start, is at its
        median."""
        known = _known(values)
        shifted = [np.pad(known, ((0, 0), (lag, 0)))[:, : known.shape[1]] for lag in range(self.settings.lags + 1)]
        return np.vstack([*shifted, np.ones((1, known.shape[1]))]).T

    def _state(self) -> dict[str, NDArray[Any]]:
        return {"weights": self.weights_}

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.weights_ = state["weights"]


def _known(values: Floats) -> Floats:
    return np.clip(np.nan_to_num(values, nan=0.0), -LARGEST, LARGEST).astype(np.float64)
