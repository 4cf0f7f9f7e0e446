"""Any outlier detector of scikit-learn or PyOD as a detector of this project. It sees one row of features per
observation, those of `Extent`, standardised for the entity.

    class Neighbours(Outliers):
        name = "lof"

        def _estimator(self, seed: int):
            return LocalOutlierFactor(novelty=True)

A higher score is more anomalous here. PyOD's `decision_function` says so too, scikit-learn's `score_samples` the
opposite: whichever there is tells which library it is.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tsadc.detectors.classical.window import WindowDetector
from tsadc.detectors.ensemble.features import Extent, Features
from tsadc.detectors.ensemble.standard import Standard
from tsadc.errors import ConfigError
from tsadc.series import Floats, Observations


class Outliers(WindowDetector):
    """An author writes `name` and `_estimator`. It can be fitted, used and compared, but not saved: what a foreign
    estimator has learnt is known to pickle alone, and no model is loaded by pickle."""

    view_names: ClassVar[tuple[str, ...]] = ("outlier",)
    savable: ClassVar[bool] = False

    @abstractmethod
    def _estimator(self, seed: int) -> Any:
        """The estimator, not fitted: `fit(rows)`, and `score_samples(rows)` or PyOD's `decision_function(rows)`."""

    def _describe(self, train: Observations) -> Features:
        return Extent(len(train.names))

    def _learn(self, features: Floats, entities: list[str]) -> None:
        self.standard_ = Standard.fit(features, entities, np.ones(len(features), dtype=bool))
        rows = np.stack([self.standard_(name, row) for row, name in zip(features, entities, strict=True)])
        seed = int(np.random.default_rng(self.settings.seed).integers(2**31))  # others take 32 bits
        self.estimator_ = self._estimator(seed)
        self.estimator_.fit(rows)

    @property
    def _usual(self) -> Standard:
        return self.standard_

    def _judge(self, entity: str, features: Floats) -> tuple[float, Floats]:
        u = self.standard_(entity, features)
        rated = getattr(self.estimator_, "score_samples", None)
        score = -rated(u[None])[0] if rated is not None else self.estimator_.decision_function(u[None])[0]
        return float(score), np.abs(u)

    def _state(self) -> dict[str, NDArray[Any]]:
        raise ConfigError(
            f"A {self.name} wraps a foreign estimator and cannot be saved; fit it again where it is needed."
        )

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        raise AssertionError("it was never saved")
