"""The scoring head without a network: what can be told of an observation from its values alone. It is what every
network has to beat."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from numpy.typing import NDArray

from tsadc.detectors.base import Detector, Fitting
from tsadc.detectors.ensemble import scorer as head
from tsadc.detectors.ensemble.scorer import Head
from tsadc.detectors.result import Evidence
from tsadc.detectors.settings import Common
from tsadc.series import Observations


@dataclass(frozen=True)
class Config(Common):
    """`views`: settings of the scoring head."""

    views: head.Config = field(default_factory=head.Config)


class Views(Detector):
    """Extreme values, or variables out of step, or unusual shapes, or stretches that are too loud or too quiet."""

    name: ClassVar[str] = "views"
    views: ClassVar[tuple[str, ...]] = head.names_of(())
    Config: ClassVar[type[Config]] = Config

    def _fit(self, train: Observations, validation: Observations, fitting: Fitting) -> None:
        self.head_ = Head.fit((train, validation), self.settings.views, self.settings.seed)

    def _adapt(self, history: Observations) -> None:
        self.head_.adapt(history)

    def _score(self, observations: Observations) -> Iterator[Evidence]:
        for i in range(len(observations)):
            yield self.head_.evidence(observations.entity(i), observations.read(i))

    def _state(self) -> dict[str, NDArray[Any]]:
        return self.head_.state()

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.head_ = Head.restore(state, self.settings.views, len(self.variables_), self.settings.length)
