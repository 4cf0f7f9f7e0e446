"""Band powers: an unusual spectrum, by nearest neighbours.

    name       meaning
    features   log power of each variable in 6 octave bands, under a Hann window
    score      root mean square distance to the nearest training observations that count as normal

Band powers are a usual description of EEG and vibration. For the mean distance to the nearest neighbours as a score,
see Angiulli, Pizzuti 2002.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tsadc.detectors.classical.base import NearestDetector
from tsadc.detectors.ensemble.features import FeatureMap, Owners
from tsadc.series import Floats, Observations

BANDS = 6
MIN_POWER = 1e-3  # z units squared, added before the log


class Bands:
    """Log power of each variable in octave bands, from the Nyquist frequency (band 0) down; the last band reaches down
    to frequency 0, so a shifted level is power there. Missing values are taken to be the median, 0, and the power is
    that per measured step."""

    def __init__(self, variables: int, length: int) -> None:
        self.owners: Owners = (np.arange(variables * BANDS), np.repeat(np.arange(variables), BANDS))
        self.window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(length) / length)  # Hann, periodic
        bins = np.arange(length // 2 + 1)
        octave = np.floor(np.log2(length / np.maximum(2 * bins, 1)))
        band = np.where(bins == 0, BANDS - 1, np.minimum(octave, BANDS - 1))
        twice = np.where((bins == 0) | (2 * bins == length), 1.0, 2.0)  # a real signal's negative frequencies
        self.weights = (band[:, None] == np.arange(BANDS)) * twice[:, None] / length

    def __call__(self, z: Floats) -> Floats:
        measured = np.isfinite(z)
        spectrum = np.fft.rfft(np.where(measured, z, 0).astype(np.float64) * self.window, axis=1)
        energy = (np.square(spectrum.real) + np.square(spectrum.imag)) @ self.weights
        weight = (measured @ np.square(self.window))[:, None]
        power = np.where(weight > 0, energy / np.where(weight > 0, weight, 1), np.nan)
        return np.log(MIN_POWER + power).ravel()


class BandPowers(NearestDetector):
    """Detect an unusual spectrum, including too little power."""

    name: ClassVar[str] = "bands"
    view_names: ClassVar[tuple[str, ...]] = ("power",)
    stored: ClassVar[str] = "bands"

    def _feature_map(self, train: Observations) -> FeatureMap:
        return Bands(len(train.names), train.length)

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        super()._restore(state)
        self.features_ = Bands(len(self.variables_), self.settings.length)
