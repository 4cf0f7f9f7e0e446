"""Principal components of the variables: what a few directions cannot tell of a step is left over.

name         meaning
center       (variable,) mean of the training steps
components   (component, variable) orthonormal directions of largest variance
expected     the step, projected onto them
residual     |z - expected| of each cell
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tsadc.config import require
from tsadc.detectors.base import Detector, FitOptions
from tsadc.detectors.ensemble.linear import EXPLAINED, moments, principal, projected
from tsadc.detectors.pooling import top_mean
from tsadc.detectors.result import Evidence
from tsadc.detectors.settings import Common
from tsadc.series import Observations


@dataclass(frozen=True)
class Config(Common):
    """`explained`: the share of the variance that the components are to explain; one direction is always left over."""

    explained: float = EXPLAINED

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 < self.explained < 1, "explained", "between 0 and 1, both excluded", self.explained)


class PrincipalComponents(Detector[Config]):
    """`top3max` of the residuals: at each step the mean of the 3 largest; the observation scores as its worst step."""

    name: ClassVar[str] = "pca"
    view_names: ClassVar[tuple[str, ...]] = ("reconstruction",)
    Config: ClassVar[type[Config]] = Config

    def _fit(self, train: Observations, validation: Observations, options: FitOptions) -> None:
        gram = moments((train.read(i) for i in range(len(train))), lags=0)
        self.center_, self.components_ = principal(gram, len(train.names), self.settings.explained)

    def _score(self, observations: Observations) -> Iterator[Evidence]:
        for i in range(len(observations)):
            z = observations.read(i)
            expected = projected(z, self.center_, self.components_).astype(np.float32)
            residual = np.abs(z - expected)
            steps = top_mean(residual, 3)
            score = float(np.nanmax(steps))
            yield Evidence(score, {"reconstruction": score}, steps, residual, np.zeros_like(steps), expected)

    def _state(self) -> dict[str, NDArray[Any]]:
        return {"center": self.center_, "components": self.components_}

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.center_, self.components_ = state["center"], state["components"]
