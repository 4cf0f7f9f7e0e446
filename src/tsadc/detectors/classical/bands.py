"""Log band powers and nearest neighbours: is the spectrum of every variable like one that was seen in training?

name       meaning
features   log power in 6 dyadic bands of each variable
score      root mean square distance to the nearest training observations that count as normal
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from numpy.typing import NDArray

from tsadc.detectors.classical.nearest import NearestDetector
from tsadc.detectors.ensemble.features import Bands, Features
from tsadc.series import Observations


class BandPowers(NearestDetector):
    """An unusual spectrum, too quiet ones included."""

    name: ClassVar[str] = "bands"
    view_names: ClassVar[tuple[str, ...]] = ("power",)
    stored: ClassVar[str] = "bands"

    def _describe(self, train: Observations) -> Features:
        return Bands(len(train.names), train.length)

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        super()._restore(state)
        self.features_ = Bands(len(self.variables_), self.settings.length)
