"""Squared difference: windows in which variables change fast.

    name        meaning
    distances   root mean square change of each variable from one row to the next in a sliding window, in z units
    window      the root of the summed mean squares

One-sided, and it learns nothing beyond the normalisation: a variable that has become smooth or constant, or whose level
is unusual, is not found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tsadc.detectors.classical.base import SlidingDetector
from tsadc.detectors.pooling import sliding
from tsadc.series import Floats


class SquaredDifference(SlidingDetector["SquaredDifference.Config"]):
    """Detect rows around which the variables change fast."""

    name: ClassVar[str] = "squared-difference"
    view_names: ClassVar[tuple[str, ...]] = ("change",)

    @dataclass(frozen=True)
    class Config(SlidingDetector.Config):
        """Settings of this detector."""

        window: int = 10

    def _distances(self, z: Floats) -> Floats:
        change = np.diff(z.astype(np.float64), axis=1)
        measured = np.isfinite(change)
        window = self.settings.window_rows
        count = sliding(np.add, measured.astype(np.float64), window - 1)
        square = sliding(np.add, np.square(np.where(measured, change, 0.0)), window - 1)
        return np.where(count > 0, np.sqrt(square / np.maximum(count, 1)), np.nan)
