"""Reference points for benchmarks: two detectors that learn nothing, which every other one has to beat."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from tsadc.detectors.classical.base import UnfittedDetector, whole_evidence
from tsadc.detectors.result import Evidence
from tsadc.series import Observations


class AllPositive(UnfittedDetector):
    """Flag everything: every observation scores 1, and the threshold is 0.5. Its F1 is the least to expect."""

    name: ClassVar[str] = "all-positive"
    view_names: ClassVar[tuple[str, ...]] = ("always",)

    def _place_threshold(self, threshold: float) -> float:
        return 0.5

    def _score(self, observations: Observations) -> Iterator[Evidence]:
        for i in range(len(observations)):
            z = observations.read(i)
            yield whole_evidence("always", 1.0, z, np.ones_like(z))


class Chance(UnfittedDetector):
    """Score at random. The seed includes the values of the observation, so that its score does not depend on which
    others are scored."""

    name: ClassVar[str] = "random"
    view_names: ClassVar[tuple[str, ...]] = ("chance",)

    def _score(self, observations: Observations) -> Iterator[Evidence]:
        for i in range(len(observations)):
            z = observations.read(i)
            # NaN has many bit patterns; one of them stands for all.
            seed = [self.settings.seed, zlib.crc32(np.where(np.isfinite(z), z, np.nan).tobytes())]
            contributions = np.random.default_rng(seed).random(z.shape, dtype=np.float32)
            score = float(np.random.default_rng(seed[::-1]).random(dtype=np.float32))
            yield whole_evidence("chance", score, z, contributions)
