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
from tsadc.detectors.base import Detector, Fitting
from tsadc.detectors.pooling import top_mean
from tsadc.detectors.result import Evidence
from tsadc.detectors.settings import Common
from tsadc.series import Floats, Observations

LARGEST = 30.0  # z beyond this says no more, and must not turn the directions


@dataclass(frozen=True)
class Config(Common):
    """`explained`: the share of the variance that the components are to explain; one direction is always left over."""

    explained: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 < self.explained < 1, "explained", "between 0 and 1, both excluded", self.explained)


class PrincipalComponents(Detector):
    """`top3max` of the residuals: at each step the mean of the 3 largest; the observation scores as its worst step."""

    name: ClassVar[str] = "pca"
    views: ClassVar[tuple[str, ...]] = ("reconstruction",)
    Config: ClassVar[type[Config]] = Config

    def _fit(self, train: Observations, validation: Observations, fitting: Fitting) -> None:
        variables, steps = len(train.names), 0
        total, gram = np.zeros(variables), np.zeros((variables, variables))
        for i in range(len(train)):
            z = train.read(i)
            known = _known(z[:, np.isfinite(z).any(axis=0)])
            total, gram, steps = total + known.sum(axis=1), gram + known @ known.T, steps + known.shape[1]
        self.center_ = total / steps
        variance, directions = np.linalg.eigh(gram / steps - np.outer(self.center_, self.center_))
        share = np.cumsum(variance[::-1]) / max(variance.sum(), np.finfo(float).tiny)
        count = min(int(np.searchsorted(share, self.settings.explained)) + 1, variables - 1)
        self.components_ = directions[:, ::-1][:, :count].T.copy()

    def _score(self, observations: Observations) -> Iterator[Evidence]:
        for i in range(len(observations)):
            z = observations.read(i)
            apart = _known(z) - self.center_[:, None]
            expected = (self.components_.T @ (self.components_ @ apart) + self.center_[:, None]).astype(np.float32)
            residual = np.abs(z - expected)
            steps = top_mean(residual, 3)
            score = float(np.nanmax(steps))
            yield Evidence(score, {"reconstruction": score}, steps, residual, np.zeros_like(steps), expected)

    def _state(self) -> dict[str, NDArray[Any]]:
        return {"center": self.center_, "components": self.components_}

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.center_, self.components_ = state["center"], state["components"]


def _known(z: Floats) -> Floats:
    """What was not measured is at its median."""
    return np.clip(np.nan_to_num(z, nan=0.0), -LARGEST, LARGEST).astype(np.float64)
