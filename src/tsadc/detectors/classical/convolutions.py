"""Random convolutions: unusual shapes, by nearest neighbours.

name       meaning
features   how often the output of each random kernel exceeds its bias (ROCKET: Dempster, Petitjean, Webb 2020)
score      root mean square distance to the nearest training observations that count as normal
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import NDArray

from tsadc.config import require
from tsadc.detectors.classical.base import NearestConfig, NearestDetector
from tsadc.detectors.ensemble.features import Convolutions, FeatureMap
from tsadc.series import Observations


@dataclass(frozen=True)
class Config(NearestConfig):
    """Settings beside those of every detector by nearest neighbours.

    Parameters
    ----------
    kernels : int
        Random kernels per dilation.
    """

    kernels: int = 128

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.kernels >= 1, "kernels", "at least 1", self.kernels)


class RandomConvolutions(NearestDetector[Config]):
    """Detects unusual shapes, at any level."""

    name: ClassVar[str] = "convolutions"
    view_names: ClassVar[tuple[str, ...]] = ("shape",)
    Config: ClassVar[type[Config]] = Config
    stored: ClassVar[str] = "shapes"

    def _feature_map(self, train: Observations) -> FeatureMap:
        self.kernels_ = Convolutions.fit(train, self.settings.kernels, self.settings.seed)
        return self.kernels_

    def _state(self) -> dict[str, NDArray[Any]]:
        return self.kernels_.state() | super()._state()

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        super()._restore(state)
        self.kernels_ = Convolutions.restore(state, len(self.variables_))
        self.features_ = self.kernels_
