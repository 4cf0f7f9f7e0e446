"""A score drawn at random: what any detector has to beat."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tsadc.detectors.base import Detector, FitOptions
from tsadc.detectors.result import Evidence
from tsadc.series import Observations


class Chance(Detector):
    """The draw is seeded by the observation's values, so that it does not depend on what else is asked for."""

    name: ClassVar[str] = "random"
    view_names: ClassVar[tuple[str, ...]] = ("chance",)

    def _fit(self, train: Observations, validation: Observations, options: FitOptions) -> None:
        pass

    def _score(self, observations: Observations) -> Iterator[Evidence]:
        own = self.settings.seed
        for i in range(len(observations)):
            values = observations.read(i)
            measured = np.isfinite(values)
            seed = [own, zlib.crc32(np.where(measured, values, np.nan).tobytes())]  # there are many NaNs, bit by bit
            drawn = np.where(measured, np.random.default_rng(seed).random(values.shape, dtype=np.float32), np.nan)
            score = float(np.random.default_rng(seed[::-1]).random(dtype=np.float32))
            steps = np.where(measured.any(axis=0), np.float32(score), np.nan).astype(np.float32)
            yield Evidence(score, {"chance": score}, steps, drawn, np.zeros_like(steps))

    def _state(self) -> dict[str, NDArray[Any]]:
        return {}

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        pass
