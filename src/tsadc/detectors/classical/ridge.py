"""Ridge regression (Hoerl, Kennard 1970) of each variable on the others, now and up to `lags` steps ago.

A linear model without a network. On some data it beats networks, so every benchmark includes it.

    name       meaning
    weights    (feature, variable), features as in `ensemble/linear.py`; a variable's own features have weight 0
    residual   |z - predicted| of each cell
    score      at each step the mean of the 3 largest residuals; the observation scores as its worst step
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
from tsadc.detectors.ensemble.linear import LAGS, PENALTY, design_matrix, gram_matrix, ridge_weights
from tsadc.detectors.pooling import top_mean
from tsadc.detectors.result import Evidence
from tsadc.detectors.settings import Common
from tsadc.series import Observations


class Ridge(Detector["Ridge.Config"]):
    """Detect values that the other variables do not predict.

    Attributes
    ----------
    weights_ : ndarray of shape (n_features, n_variables)
        Ridge regression weights.
    """

    name: ClassVar[str] = "ridge"
    view_names: ClassVar[tuple[str, ...]] = ("conditional",)
    min_variables: ClassVar[int] = 2

    @dataclass(frozen=True)
    class Config(Common):
        """Settings of this detector.

        Parameters
        ----------
        lags : int
            How many past steps of the other variables are used, besides the current one.
        penalty : float
            Penalty on the squared weights, per observed step.
        """

        lags: int = LAGS
        penalty: float = PENALTY

        def __post_init__(self) -> None:
            super().__post_init__()
            require(self.lags >= 0, "lags", "zero or more", self.lags)
            require(self.penalty > 0, "penalty", "positive", self.penalty)

    def _fit(self, train: Observations, validation: Observations, options: FitOptions) -> None:
        gram = gram_matrix((train.read(i) for i in range(len(train))), range(self.settings.lags + 1))
        self.weights_ = ridge_weights(gram, len(train.names), self.settings.penalty).T.copy()

    def _score(self, observations: Observations) -> Iterator[Evidence]:
        for i in range(len(observations)):
            z = observations.read(i)
            expected = (self.weights_.T @ design_matrix(z, range(self.settings.lags + 1))).astype(np.float32)
            residual = np.abs(z - expected)
            yield stepwise_evidence("conditional", top_mean(residual, TOP_VARIABLES), residual, expected)

    def _state(self) -> dict[str, NDArray[Any]]:
        return {"weights": self.weights_}

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.weights_ = state["weights"]
