"""Flags everything: the F1 that any threshold has to beat."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tsadc.detectors.base import Detector, FitOptions
from tsadc.detectors.result import Evidence
from tsadc.series import Observations


class AllPositive(Detector):
    """Every observation scores 1, which is above its threshold whatever the contamination."""

    name: ClassVar[str] = "all-positive"
    view_names: ClassVar[tuple[str, ...]] = ("always",)

    def _fit(self, train: Observations, validation: Observations, options: FitOptions) -> None:
        pass

    def _place_threshold(self, threshold: float) -> float:
        return 0.5

    def _score(self, observations: Observations) -> Iterator[Evidence]:
        for i in range(len(observations)):
            measured = np.isfinite(observations.read(i))
            steps = np.where(measured.any(axis=0), 1, np.nan).astype(np.float32)
            cells = np.where(measured, 1, np.nan).astype(np.float32)
            yield Evidence(1.0, {"always": 1.0}, steps, cells, np.zeros_like(steps))

    def _state(self) -> dict[str, NDArray[Any]]:
        return {}

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        pass
