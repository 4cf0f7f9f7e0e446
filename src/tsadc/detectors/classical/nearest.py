"""What the detectors have in common that ask how far features are from those of the nearest training observations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import NDArray
from typing_extensions import TypeVar

from tsadc.config import require
from tsadc.detectors.classical.window import WindowDetector
from tsadc.detectors.ensemble.neighbours import Neighbours
from tsadc.detectors.ensemble.standard import Standard
from tsadc.detectors.settings import Common
from tsadc.series import Floats


@dataclass(frozen=True)
class NearestConfig(Common):
    """`neighbours`: how many of the nearest count. `keep`: the share of the training part, nearest to the rest of it,
    that counts as normal."""

    neighbours: int = 5
    keep: float = 0.8

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.neighbours >= 1, "neighbours", "at least 1", self.neighbours)
        require(0 < self.keep <= 1, "keep", "above 0 and at most 1", self.keep)


NearestT = TypeVar("NearestT", bound=NearestConfig, covariant=True, default=NearestConfig)


class NearestDetector(WindowDetector[NearestT]):
    """The score is the root mean square distance to the nearest training observations that count as normal."""

    Config: ClassVar[type[NearestConfig]] = NearestConfig
    stored: ClassVar[str]  # what its arrays in a model folder begin with

    @property
    def _usual(self) -> Standard:
        return self.known_.standard

    def _learn(self, features: Floats, entities: list[str]) -> None:
        self.known_ = Neighbours.fit_trimmed(features, entities, self.settings.keep, self.settings.neighbours)

    def _judge(self, entity: str, features: Floats) -> tuple[float, Floats]:
        return self.known_.judge(entity, features)

    def _state(self) -> dict[str, NDArray[Any]]:
        return self.known_.state(self.stored)

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.known_ = Neighbours.restore(state, self.stored, self.settings.neighbours)
