"""Base classes and helpers that several classical detectors share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from typing_extensions import TypeVar

from tsadc.config import require
from tsadc.detectors.base import ConfigT, Detector, FitOptions
from tsadc.detectors.classical.neighbours import Neighbours
from tsadc.detectors.ensemble.features import (
    MIN_HISTORY,
    FeatureMap,
    Owners,
    Standardiser,
    contributions_of,
    mean_and_deviation,
    sampled,
)
from tsadc.detectors.ensemble.linear import COVARIANCE_CLIP
from tsadc.detectors.pooling import sliding
from tsadc.detectors.result import Evidence
from tsadc.detectors.settings import Common
from tsadc.errors import ConfigError
from tsadc.series import Floats, Observations
from tsadc.subsample import evenly_spaced

NearestT = TypeVar("NearestT", bound="NearestDetector.Config", covariant=True, default="NearestDetector.Config")
SlidingT = TypeVar("SlidingT", bound="SlidingDetector.Config", covariant=True, default="SlidingDetector.Config")
MIN_DEVIATION = 0.01  # z units, added to a standard deviation before its log
MAX_WINDOWS = 5000  # training windows from which a model of windows is learnt, evenly spaced
MAX_WINDOW_VALUES = 2**22  # values of all of them together: this bounds memory and time
CHUNK_VALUES = 2**20  # values of the windows of an observation that are compared at once


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


class UnfittedDetector(Detector[ConfigT], ABC):
    """Base of detectors that need learn nothing beyond normalisation and threshold. A subclass writes `_score`."""

    def _fit(self, train: Observations, validation: Observations, options: FitOptions) -> None:
        pass

    def _state(self) -> dict[str, NDArray[Any]]:
        return {}

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        pass


class UnsavableDetector(Detector, ABC):
    """Base of detectors that wrap an estimator of another library: only pickle could store it, and tsadc never loads
    pickles."""

    savable: ClassVar[bool] = False

    def _state(self) -> dict[str, NDArray[Any]]:
        raise ConfigError(
            f"A {self.name} wraps an estimator of another library and cannot be saved; fit it again when needed."
        )

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        raise AssertionError("a detector that is not savable was restored")


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
        chosen = train.take(sampled(len(train), len(self.features_(train.read(0)))))
        self._fit_features(self._features_of(chosen), [chosen.entity(i) for i in range(len(chosen))])

    def _adapt(self, history: Observations) -> None:
        for places in history.by_series():
            if len(places) >= MIN_HISTORY:
                own = history.take(np.asarray(places))
                chosen = own.take(sampled(len(own), len(self.standardiser_.center)))
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


def mean_over_windows(scores: Floats, window: int) -> Floats:
    """Return for each row (..., time) the mean score of the windows (..., window) that cover it.

    A window without a score (NaN) does not count. A row that no window with a score covers gets 0.
    """
    ends = [(0, 0)] * (scores.ndim - 1) + [(window - 1, window - 1)]
    known = np.isfinite(scores)
    total = sliding(np.add, np.pad(np.where(known, scores, 0.0), ends), window)
    count = sliding(np.add, np.pad(known.astype(np.float64), ends), window)
    mean: Floats = total / np.maximum(count, 1)
    return mean


class SlidingDetector(UnfittedDetector[SlidingT], ABC):
    """Base of detectors that judge windows slid over an observation, one row at a time, and score each row.

        name        meaning
        distances   (variable, window) how unusual each variable is in each window, >= 0; NaN if it cannot be judged
        window      a window scores the root of the summed squares of its distances, scaled up for missing variables
        steps       mean score of the windows that cover the row; the observation scores as its worst row

    Every window lies inside its observation, which is judged on its own, so rows near its ends are covered by fewer
    windows. A subclass writes `_distances`, and if it learns something `_fit`, `_state` and `_restore`.
    """

    @dataclass(frozen=True)
    class Config(Common):
        """Settings of every detector by sliding windows.

        Parameters
        ----------
        window : int
            Rows of a window, at least 2. In short observations a window has at most half their rows.
        """

        window: int = 64

        def __post_init__(self) -> None:
            super().__post_init__()
            require(self.window >= 2, "window", "at least 2 rows", self.window)

        @property
        def window_rows(self) -> int:
            """Rows of a window, given the length of the observations."""
            return min(self.window, self.length // 2)

    @abstractmethod
    def _distances(self, z: Floats) -> Floats:
        """Return the distances (variable, window) of an observation (variable, time)."""

    def _score(self, observations: Observations) -> Iterator[Evidence]:
        window = self.settings.window_rows
        for i in range(len(observations)):
            z = observations.read(i)
            measured = np.isfinite(z)
            distances = self._distances(z)
            rows = mean_over_windows(window_scores(distances), window)
            steps = np.where(measured.any(axis=0), rows, np.nan).astype(np.float32)
            cells = np.where(measured, mean_over_windows(distances, window), np.nan).astype(np.float32)
            yield stepwise_evidence(self.view_names[0], steps, cells)


def window_scores(distances: Floats) -> Floats:
    """Return the root of the summed squares of distances (variable, window), scaled up for those that are missing."""
    known = np.isfinite(distances)
    count = known.sum(axis=0)
    total = np.square(np.where(known, distances, 0.0)).sum(axis=0)
    return np.where(count > 0, np.sqrt(total * len(distances) / np.maximum(count, 1)), np.nan)


class SubsequenceDetector(SlidingDetector[SlidingT]):
    """Base of detectors that know which windows of all variables to expect.

    The distance of a variable is the Euclidean distance of its values in the window from those expected, scaled up for
    missing values, so that a window scores its distance from the expected window. A subclass writes `_fit_windows`,
    `_expected`, `_state` and `_restore`.
    """

    @abstractmethod
    def _fit_windows(self, windows: Floats) -> None:
        """Learn from training windows (window, variable x time), z clipped, missing values taken to be the median."""

    @abstractmethod
    def _expected(self, windows: Floats, measured: Floats) -> Floats:
        """Return the expected windows for windows like those of `_fit_windows`; `measured` is 1 or, if missing, 0."""

    def _fit(self, train: Observations, validation: Observations, options: FitOptions) -> None:
        window = self.settings.window_rows
        each = train.length - window + 1
        most = max(min(MAX_WINDOWS, MAX_WINDOW_VALUES // (window * len(train.names))), 2)
        observation, start = np.divmod(evenly_spaced(each * len(train), most), each)
        chosen = [
            _windows(_clipped(train.read(int(i))), window)[start[observation == i]] for i in np.unique(observation)
        ]
        self._fit_windows(np.concatenate(chosen))

    def _distances(self, z: Floats) -> Floats:
        window, variables = self.settings.window_rows, len(z)
        values, clipped = _windows(z.astype(np.float64), window), _windows(_clipped(z), window)
        chunk = max(1, CHUNK_VALUES // (window * variables))
        distances = []
        for first in range(0, len(values), chunk):
            part = values[first : first + chunk]
            measured = np.isfinite(part)
            expected = self._expected(clipped[first : first + chunk], measured.astype(np.float64))
            squares = np.square(np.where(measured, part - expected, 0.0)).reshape(len(part), variables, window)
            count = measured.reshape(squares.shape).sum(axis=2)
            scaled = squares.sum(axis=2) * window / np.maximum(count, 1)
            distances.append(np.where(count > 0, np.sqrt(scaled), np.nan))
        return np.concatenate(distances).T


def _windows(z: Floats, window: int) -> Floats:
    """Return all windows (window, variable x time) of an observation (variable, time)."""
    return sliding_window_view(z, window, axis=1).swapaxes(0, 1).reshape(z.shape[1] - window + 1, -1)


def _clipped(z: Floats) -> Floats:
    """Return z with missing values at the median, 0, and wild values clipped, so that they do not dominate a model."""
    return np.clip(np.nan_to_num(z, nan=0.0), -COVARIANCE_CLIP, COVARIANCE_CLIP).astype(np.float64)
