"""Moving variance: windows in which variables vary strongly.

    name        meaning
    distances   standard deviation of each variable in a sliding window, in z units
    window      the root of the summed variances

One-sided, and it learns nothing beyond the normalisation: a variable that varies less than usual, or whose level is
unusual for a whole observation, is not found. A line of code that many published detectors do not beat.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tsadc.detectors.classical.base import SlidingDetector
from tsadc.detectors.pooling import sliding
from tsadc.series import Floats


class MovingVariance(SlidingDetector["MovingVariance.Config"]):
    """Detect rows around which the variables vary strongly."""

    name: ClassVar[str] = "moving-variance"
    view_names: ClassVar[tuple[str, ...]] = ("variance",)

    @dataclass(frozen=True)
    class Config(SlidingDetector.Config):
        """Settings of this detector."""

        window: int = 100

    def _distances(self, z: Floats) -> Floats:
        measured = np.isfinite(z)
        # Centred by the median, which a wild value leaves where it is, the squares lose little precision.
        known = measured.any(axis=1)
        center = np.zeros(len(z))
        center[known] = np.nanmedian(z[known], axis=1)
        centred = np.where(measured, z - center[:, None], 0.0)
        window = self.settings.window_rows
        count = sliding(np.add, measured.astype(np.float64), window)
        mean = sliding(np.add, centred, window) / np.maximum(count, 1)
        square = sliding(np.add, np.square(centred), window) / np.maximum(count, 1)
        return np.where(count > 1, np.sqrt(np.maximum(square - np.square(mean), 0)), np.nan)
