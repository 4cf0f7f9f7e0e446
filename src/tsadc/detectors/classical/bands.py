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

from numpy.typing import NDArray

from tsadc.detectors.classical.base import NearestDetector
from tsadc.detectors.ensemble.features import Bands, FeatureMap
from tsadc.series import Observations


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
