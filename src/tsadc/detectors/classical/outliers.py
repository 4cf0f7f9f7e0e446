"""Adapter for any outlier detector of scikit-learn or PyOD.

    class Density(Outliers):
        name = "lof"

        def _estimator(self, seed: int):
            return LocalOutlierFactor(novelty=True)

The estimator gets one row of features per observation: mean, minimum, maximum, standard deviation and change of each
variable, standardised for the entity (`Extent`, `Standardiser`).

Here a higher score is more anomalous. scikit-learn's `score_samples` is the opposite and is negated; an estimator
without `score_samples` is taken to be PyOD's, whose `decision_function` agrees with ours.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from tsadc.detectors.classical.base import Extent, UnsavableDetector, WindowDetector
from tsadc.detectors.ensemble.features import FeatureMap, Standardiser
from tsadc.series import Floats, Observations


class Outliers(UnsavableDetector, WindowDetector):
    """Detect what the wrapped estimator detects. A subclass sets `name` and writes `_estimator`.

    It can be fitted, used and benchmarked, but not saved.

    Attributes
    ----------
    estimator_
        The fitted estimator.
    """

    view_names: ClassVar[tuple[str, ...]] = ("outlier",)

    @abstractmethod
    def _estimator(self, seed: int) -> Any:
        """Return an unfitted estimator with `fit(rows)` and `score_samples(rows)` or PyOD's `decision_function(rows)`.

        `seed` is below 2**31.
        """

    def _feature_map(self, train: Observations) -> FeatureMap:
        return Extent(len(train.names))

    def _fit_features(self, features: Floats, entities: list[str]) -> None:
        self.standardiser_ = Standardiser.fit(features, entities, np.ones(len(features), dtype=bool))
        rows = np.stack([self.standardiser_(entity, row) for row, entity in zip(features, entities, strict=True)])
        seed = int(np.random.default_rng(self.settings.seed).integers(2**31))
        self.estimator_ = self._estimator(seed)
        self.estimator_.fit(rows)

    def _score_features(self, entity: str, features: Floats) -> tuple[float, Floats]:
        u = self.standardiser_(entity, features)
        normality = getattr(self.estimator_, "score_samples", None)
        score = -normality(u[None])[0] if normality is not None else self.estimator_.decision_function(u[None])[0]
        return float(score), np.abs(u)
