"""Principal component analysis: what a few directions do not explain of a step. As a detector: Shyu et al. 2003.

name         meaning
center       (variable,) mean of the training steps
components   (component, variable) orthonormal directions of largest variance
expected     the step, projected onto them
residual     |z - expected| of each cell
score        at each step the mean of the 3 largest residuals; the observation scores as its worst step
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tsadc.config import require
from tsadc.detectors.base import Detector, FitOptions
from tsadc.detectors.classical.base import stepwise_evidence
from tsadc.detectors.ensemble.features import TOP_VARIABLES
from tsadc.detectors.ensemble.linear import EXPLAINED, gram_matrix, principal_components, project
from tsadc.detectors.pooling import top_mean
from tsadc.detectors.result import Evidence
from tsadc.detectors.settings import Common
from tsadc.series import Observations


class PrincipalComponents(Detector["PrincipalComponents.Config"]):
    """Detect steps at which variables break the linear dependencies between them.

    Attributes
    ----------
    center_ : ndarray of shape (n_variables,)
        Mean of the training steps, in z units.
    components_ : ndarray of shape (n_components, n_variables)
        Orthonormal directions of largest variance.
    """

    name: ClassVar[str] = "pca"
    view_names: ClassVar[tuple[str, ...]] = ("reconstruction",)
    min_variables: ClassVar[int] = 2

    @dataclass(frozen=True)
    class Config(Common):
        """Settings of this detector.

        Parameters
        ----------
        explained : float
            Share of the variance that the components explain, at least; one direction is always left unexplained.
        """

        explained: float = EXPLAINED

        def __post_init__(self) -> None:
            super().__post_init__()
            require(0 < self.explained < 1, "explained", "between 0 and 1, both excluded", self.explained)

    def _fit(self, train: Observations, validation: Observations, options: FitOptions) -> None:
        gram = gram_matrix((train.read(i) for i in range(len(train))), lags=[0])
        self.center_, self.components_ = principal_components(gram, len(train.names), self.settings.explained)

    def _score(self, observations: Observations) -> Iterator[Evidence]:
        for i in range(len(observations)):
            z = observations.read(i)
            expected = project(z, self.center_, self.components_).astype(np.float32)
            residual = np.abs(z - expected)
            yield stepwise_evidence("reconstruction", top_mean(residual, TOP_VARIABLES), residual, expected)

    def _state(self) -> dict[str, NDArray[Any]]:
        return {"center": self.center_, "components": self.components_}

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.center_, self.components_ = state["center"], state["components"]
