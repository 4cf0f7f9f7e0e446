"""Robust z-score: how far each variable is from its own median, in robust standard deviations. No training beyond the
normalisation. Many published detectors lose to it, so it stands beside every result, pooled in two ways."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tsadc.detectors.base import Detector, FitOptions
from tsadc.detectors.pooling import root_mean_square, top_mean
from tsadc.detectors.result import Evidence
from tsadc.series import Floats, Observations


class Deviation(Detector, ABC):
    """Judges an observation by its |z|, cell by cell."""

    view_names: ClassVar[tuple[str, ...]] = ("deviation",)

    @staticmethod
    @abstractmethod
    def _pool(deviation: Floats) -> Floats:
        """|z| (variable, time) -> scores (time,)."""

    def _fit(self, train: Observations, validation: Observations, options: FitOptions) -> None:
        pass  # the normalisation that the base class learns is the whole model

    def _score(self, observations: Observations) -> Iterator[Evidence]:
        for i in range(len(observations)):
            deviation = np.abs(observations.read(i))
            steps = self._pool(deviation)
            score = float(np.nanmax(steps))
            yield Evidence(score, {"deviation": score}, steps, deviation, np.zeros_like(steps), 0 * deviation)

    def _state(self) -> dict[str, NDArray[Any]]:
        return {}

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        pass


class RobustZ(Deviation):
    """`top3max`: at each step the mean of the 3 most deviating variables; the observation scores as its worst step."""

    name: ClassVar[str] = "robust-z"

    @staticmethod
    def _pool(deviation: Floats) -> Floats:
        return top_mean(deviation, 3)


class RobustZRMSE(Deviation):
    """Root mean square over all cells, as the paper pools; every step of an observation has its score."""

    name: ClassVar[str] = "robust-z-rmse"

    @staticmethod
    def _pool(deviation: Floats) -> Floats:
        return root_mean_square(deviation)
