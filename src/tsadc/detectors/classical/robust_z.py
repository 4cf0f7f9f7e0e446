"""Robust z-score: how far each value is from its variable's median, in robust standard deviations.

The normalisation that every detector applies is the whole model. Many published detectors lose to it, so every
benchmark includes it, pooled in two ways.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from tsadc.detectors.classical.base import UnfittedDetector, stepwise_evidence
from tsadc.detectors.ensemble.features import TOP_VARIABLES
from tsadc.detectors.pooling import root_mean_square, top_mean
from tsadc.detectors.result import Evidence
from tsadc.series import Floats, Observations


class Deviation(UnfittedDetector):
    """Base of detectors that pool the |z| of an observation."""

    view_names: ClassVar[tuple[str, ...]] = ("deviation",)

    @staticmethod
    @abstractmethod
    def _pool(deviation: Floats) -> Floats:
        """Return scores (time,) from |z| (variable, time)."""

    def _score(self, observations: Observations) -> Iterator[Evidence]:
        for i in range(len(observations)):
            deviation = np.abs(observations.read(i))
            yield stepwise_evidence("deviation", self._pool(deviation), deviation, expected=0 * deviation)


class RobustZ(Deviation):
    """Detect extreme values.

    The score of a step is the mean of its 3 largest |z|; the observation scores as its worst step.
    """

    name: ClassVar[str] = "robust-z"

    @staticmethod
    def _pool(deviation: Floats) -> Floats:
        return top_mean(deviation, TOP_VARIABLES)


class RobustZRMSE(Deviation):
    """Detect observations that are extreme throughout.

    The score is the root mean square of all |z|, the paper's pooling; every step has the score of its observation.
    """

    name: ClassVar[str] = "robust-z-rmse"

    @staticmethod
    def _pool(deviation: Floats) -> Floats:
        return root_mean_square(deviation)
