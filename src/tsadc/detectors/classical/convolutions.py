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
from tsadc.detectors.classical.base import NearestDetector
from tsadc.detectors.ensemble.features import Convolutions
from tsadc.series import Observations


class RandomConvolutions(NearestDetector["RandomConvolutions.Config"]):
    """Detect unusual shapes, at any level."""

    name: ClassVar[str] = "convolutions"
    view_names: ClassVar[tuple[str, ...]] = ("shape",)
    stored: ClassVar[str] = "shapes"
    features_: Convolutions

    @dataclass(frozen=True)
    class Config(NearestDetector.Config):
        """Settings of this detector.

        Parameters
        ----------
        kernels : int
            Random kernels per dilation.
        """

        kernels: int = 128

        def __post_init__(self) -> None:
            super().__post_init__()
            require(self.kernels >= 1, "kernels", "at least 1", self.kernels)

    def _feature_map(self, train: Observations) -> Convolutions:
        return Convolutions.fit(train.read, len(train), self.settings.kernels, self.settings.seed)

    def _state(self) -> dict[str, NDArray[Any]]:
        return self.features_.state() | super()._state()

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        super()._restore(state)
        self.features_ = Convolutions.restore(state, len(self.variables_))
