"""Base classes and helpers that several classical detectors share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeVar

from tsadc.config import require
from tsadc.detectors.base import ConfigT, Detector, FitOptions
from tsadc.detectors.ensemble.features import (
    MIN_HISTORY,
    FeatureMap,
    Owners,
    Standardiser,
    contributions_of,
    mean_and_deviation,
    subsample,
)
from tsadc.detectors.ensemble.views import Neighbours
from tsadc.detectors.result import Evidence
from tsadc.detectors.settings import Common
from tsadc.series import Floats, Observations

NearestT = TypeVar("NearestT", bound="NearestDetector.Config", covariant=True, default="NearestDetector.Config")
MIN_DEVIATION = 0.01  # z units, added to a standard deviation before its log


def stepwise_evidence(view: str, steps: Floats, contributions: Floats, expected: Floats | None = None) -> Evidence:
    """Return the evidence of an observation that scores as its worst step."""
    score = float(np.nanmax(steps))
    return Evidence(score, {view: score}, steps, contributions, np.zeros_like(steps), expected)


def whole_evidence(view: str, score: float, z: Floats, contributions: Floats) -> Evidence:
    """Return the evidence of an observation (variable, time) whose measured steps all have its score."""
    measured = np.isfinite(z)
    steps = np.where(measured.any(axis=0), np.float32(score), np.nan).astype(np.float32)
    score = float(np.float32(score))
    cells = np.where(measured, contributions, np.nan).astype(np.float32)
    return Evidence(score, {view: score}, steps, cells, np.zeros_like(steps))


class UnfittedDetector(Detector, ABC):
    """Base of detectors that learn nothing beyond the normalisation and the threshold. A subclass writes `_score`."""

    def _fit(self, train: Observations, validation: Observations, options: FitOptions) -> None:
        pass

    def _state(self) -> dict[str, NDArray[Any]]:
        return {}

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        pass


class Extent:
    """Five features of each variable: mean, minimum, maximum, standard deviation, root mean square change.

    Levels are on an arcsinh scale and spreads on a log scale, so that wild values stay finite.
    """

    def __init__(self, variables: int) -> None:
        self.owners: Owners = (np.arange(5 * variables), np.tile(np.arange(variables), 5))

    def __call__(self, z: Floats) -> Floats:
        mean, deviation = mean_and_deviation(z)
        change = mean_and_deviation(np.diff(z, axis=1))
        size = np.sqrt(np.square(change[0]) + np.square(change[1]))
        low, high = np.fmin.reduce(z, axis=1), np.fmax.reduce(z, axis=1)
        levels = np.arcsinh(np.stack([mean, low, high]).astype(np.float64))
        spreads = np.log(MIN_DEVIATION + np.stack([deviation, size]))
        return np.where(np.isfinite(z).any(axis=1), np.concatenate([levels, spreads]), np.nan).ravel()


class WindowDetector(Detector[ConfigT], ABC):
    """Base of detectors that judge an observation by features of the whole of it.

    A subclass writes `_feature_map`, `_fit_features` and `_score_features`. All measured steps of an observation have
    its score. The contribution of a variable is the mean deviation of its features, the same at every measured step.

    Attributes
    ----------
    features_ : FeatureMap
        Maps an observation (variable, time) to its features. Set by `fit`; `_restore` must set it.
    standardiser_ : Standardiser
        What is usual for the features of each entity; `adapt` updates it. `_fit_features` and `_restore` must set it.
    """

    features_: FeatureMap
    standardiser_: Standardiser

    @abstractmethod
    def _feature_map(self, train: Observations) -> FeatureMap:
        """Return the map from observations to features."""

    @abstractmethod
    def _fit_features(self, features: Floats, entities: list[str]) -> None:
        """Learn from features (observation, feature) of training observations and their entities."""

    @abstractmethod
    def _score_features(self, entity: str, features: Floats) -> tuple[float, Floats]:
        """Return the score of an observation and the deviation (feature,), >= 0, of each feature."""

    def _fit(self, train: Observations, validation: Observations, options: FitOptions) -> None:
        self.features_ = self._feature_map(train)
        chosen = subsample(train, len(self.features_(train.read(0))))
        self._fit_features(self._features_of(chosen), [chosen.entity(i) for i in range(len(chosen))])

    def _adapt(self, history: Observations) -> None:
        for places in history.by_series():
            if len(places) >= MIN_HISTORY:
                chosen = subsample(history.take(np.asarray(places)), len(self.standardiser_.center))
                self.standardiser_.adapt(history.entity(places[0]), self._features_of(chosen))

    def _features_of(self, observations: Observations) -> Floats:
        """Return the features (observation, feature)."""
        return np.stack([self.features_(observations.read(i)) for i in range(len(observations))])

    def _score(self, observations: Observations) -> Iterator[Evidence]:
        for i in range(len(observations)):
            z = observations.read(i)
            score, deviation = self._score_features(observations.entity(i), self.features_(z))
            contributions = contributions_of(deviation, self.features_.owners, len(z))
            yield whole_evidence(self.view_names[0], score, z, contributions[:, None])


class NearestDetector(WindowDetector[NearestT]):
    """Base of detectors whose score is the distance to the nearest training observations that count as normal.

    A subclass writes `_feature_map`, sets `stored`, and restores `features_`.

    Attributes
    ----------
    neighbours_ : Neighbours
        The training observations that count as normal; its docstring defines the distance.
    """

    stored: ClassVar[str]  # prefix of its arrays in a model folder

    @dataclass(frozen=True)
    class Config(Common):
        """Settings of every detector by nearest neighbours.

        Parameters
        ----------
        neighbours : int
            Number of nearest training observations that are averaged over.
        keep : float
            Share of the training observations, those nearest to the rest, that counts as normal.
        """

        neighbours: int = 5
        keep: float = 0.8

        def __post_init__(self) -> None:
            super().__post_init__()
            require(self.neighbours >= 1, "neighbours", "at least 1", self.neighbours)
            require(0 < self.keep <= 1, "keep", "above 0 and at most 1", self.keep)

    def _fit_features(self, features: Floats, entities: list[str]) -> None:
        self.neighbours_ = Neighbours.fit_trimmed(features, entities, self.settings.keep, self.settings.neighbours)
        self.standardiser_ = self.neighbours_.standardiser

    def _score_features(self, entity: str, features: Floats) -> tuple[float, Floats]:
        return self.neighbours_.distance(entity, features)

    def _state(self) -> dict[str, NDArray[Any]]:
        return self.neighbours_.state(self.stored)

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.neighbours_ = Neighbours.restore(state, self.stored, self.settings.neighbours)
        self.standardiser_ = self.neighbours_.standardiser
