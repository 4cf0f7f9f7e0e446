"""Random convolutions and nearest neighbours: is the observation made of shapes like one that was seen in training?

name       meaning
features   how often each of many random kernels answers
score      root mean square distance to the nearest training observations that count as normal
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import NDArray

from tsadc.config import require
from tsadc.detectors.classical.nearest import NearestConfig, NearestDetector
from tsadc.detectors.ensemble.convolutions import Convolutions
from tsadc.detectors.ensemble.features import Features
from tsadc.series import Observations


@dataclass(frozen=True)
class Config(NearestConfig):
    """`kernels`: of each dilation."""

    kernels: int = 128

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.kernels >= 1, "kernels", "at least 1", self.kernels)


class RandomConvolutions(NearestDetector[Config]):
    """Unusual shapes, whatever their size."""

    name: ClassVar[str] = "convolutions"
    view_names: ClassVar[tuple[str, ...]] = ("shape",)
    Config: ClassVar[type[Config]] = Config
    stored: ClassVar[str] = "shapes"

    def _describe(self, train: Observations) -> Features:
        self.kernels_ = Convolutions.fit(train, self.settings.kernels, self.settings.seed)
        return self.kernels_

    def _state(self) -> dict[str, NDArray[Any]]:
        return self.kernels_.state() | super()._state()

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        super()._restore(state)
        self.kernels_ = Convolutions.restore(state, len(self.variables_))
        self.features_ = self.kernels_
