"""The ensemble as a detector of its own: many cheap views of an observation, fused, without a network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import NDArray

from tsadc.detectors.base import Detector, FitOptions
from tsadc.detectors.ensemble.scorer import FusedScorer
from tsadc.detectors.ensemble.views import view_names_with
from tsadc.detectors.result import Evidence
from tsadc.detectors.settings import Common
from tsadc.series import Observations


@dataclass(frozen=True)
class Config(FusedScorer.Config, Common):
    """The settings of the ensemble beside those of every detector."""

    def __post_init__(self) -> None:
        Common.__post_init__(self)
        FusedScorer.Config.__post_init__(self)


class Ensemble(Detector[Config]):
    """Extreme values, broken correlations, unusual shapes, or stretches that vary more or less than usual."""

    name: ClassVar[str] = "ensemble"
    view_names: ClassVar[tuple[str, ...]] = view_names_with(())
    Config: ClassVar[type[Config]] = Config

    def _fit(self, train: Observations, validation: Observations, options: FitOptions) -> None:
        self.scorer_ = FusedScorer.fit((train, validation), self.settings, self.settings.seed)

    def _adapt(self, history: Observations) -> None:
        self.scorer_.adapt(history)

    def _score(self, observations: Observations) -> Iterator[Evidence]:
        for i in range(len(observations)):
            yield self.scorer_.evidence(observations.entity(i), observations.read(i))

    def _state(self) -> dict[str, NDArray[Any]]:
        return self.scorer_.state()

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.scorer_ = FusedScorer.restore(state, self.settings, len(self.variables_), self.settings.length)
