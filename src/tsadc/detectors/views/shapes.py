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
from tsadc.detectors.head.convolutions import Convolutions
from tsadc.detectors.head.features import Features
from tsadc.detectors.head.neighbours import Neighbours
from tsadc.detectors.settings import Common
from tsadc.detectors.window import WindowDetector
from tsadc.series import Floats, Observations


@dataclass(frozen=True)
class Config(Common):
    """`kernels`: of each dilation. `neighbours`: how many of the nearest count. `keep`: the share of the training part,
    nearest to the rest of it, that counts as normal."""

    kernels: int = 128
    neighbours: int = 5
    keep: float = 0.8

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.kernels >= 1, "kernels", "at least 1", self.kernels)
        require(self.neighbours >= 1, "neighbours", "at least 1", self.neighbours)
        require(0 < self.keep <= 1, "keep", "above 0 and at most 1", self.keep)


class RandomConvolutions(WindowDetector):
    """Unusual shapes, whatever their size."""

    name: ClassVar[str] = "convolutions"
    views: ClassVar[tuple[str, ...]] = ("shape",)
    Config: ClassVar[type[Config]] = Config

    def _describe(self, train: Observations) -> Features:
        self.kernels_ = Convolutions.fit(train, self.settings.kernels, self.settings.seed)
        return self.kernels_

    def _learn(self, features: Floats, entities: list[str]) -> None:
        self.known_ = Neighbours.fit_trimmed(features, entities, self.settings.keep, self.settings.neighbours)

    def _judge(self, entity: str, features: Floats) -> tuple[float, Floats]:
        return self.known_.judge(entity, features)

    def _state(self) -> dict[str, NDArray[Any]]:
        return self.kernels_.state() | self.known_.state("shapes")

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.kernels_ = Convolutions.restore(state, len(self.variables_))
        self.features_ = self.kernels_
        self.known_ = Neighbours.restore(state, "shapes", self.settings.neighbours)
