"""Log band powers and nearest neighbours: is the spectrum of every variable like one that was seen in training?

name       meaning
features   log power in 6 dyadic bands of each variable
score      root mean square distance to the nearest training observations that count as normal
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import NDArray

from tsadc.config import require
from tsadc.detectors.head.features import Bands, Features
from tsadc.detectors.head.neighbours import Neighbours
from tsadc.detectors.settings import Common
from tsadc.detectors.window import WindowDetector
from tsadc.series import Floats, Observations


@dataclass(frozen=True)
class Config(Common):
    """`neighbours`: how many of the nearest count. `keep`: the share of the training part, nearest to the rest of it,
    that counts as normal."""

    neighbours: int = 5
    keep: float = 0.8

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.neighbours >= 1, "neighbours", "at least 1", self.neighbours)
        require(0 < self.keep <= 1, "keep", "above 0 and at most 1", self.keep)


class BandPowers(WindowDetector):
    """An unusual spectrum, too quiet ones included."""

    name: ClassVar[str] = "bands"
    views: ClassVar[tuple[str, ...]] = ("power",)
    Config: ClassVar[type[Config]] = Config

    def _describe(self, train: Observations) -> Features:
        return Bands(len(train.names), train.length)

    def _learn(self, features: Floats, entities: list[str]) -> None:
        self.known_ = Neighbours.fit_trimmed(features, entities, self.settings.keep, self.settings.neighbours)

    def _judge(self, entity: str, features: Floats) -> tuple[float, Floats]:
        return self.known_.judge(entity, features)

    def _state(self) -> dict[str, NDArray[Any]]:
        return self.known_.state("bands")

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.features_ = Bands(len(self.variables_), self.settings.length)
        self.known_ = Neighbours.restore(state, "bands", self.settings.neighbours)
