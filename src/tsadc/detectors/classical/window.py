"""What the detectors have in common that describe a whole observation by features: its steps all score alike, and a
variable's contribution is its share in the deviation, the same at every measured step.

An author writes what the features are, what is learnt from those of the training part, how they are judged, and where
the usual features of an entity are kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np

from tsadc.detectors.base import ConfigT, Detector, FitOptions
from tsadc.detectors.ensemble.features import Features, affordable, blame
from tsadc.detectors.ensemble.standard import LEAST_HISTORY, Standard
from tsadc.detectors.result import Evidence
from tsadc.series import Floats, Observations


class WindowDetector(Detector[ConfigT], ABC):
    """Judges an observation by its features."""

    features_: Features

    @abstractmethod
    def _describe(self, train: Observations) -> Features:
        """What is to be measured of an observation."""

    @abstractmethod
    def _learn(self, features: Floats, entities: list[str]) -> None:
        """From features (observation, feature) of training observations and their entities."""

    @abstractmethod
    def _judge(self, entity: str, features: Floats) -> tuple[float, Floats]:
        """Score of an observation, and the deviation (>= 0) of each feature."""

    @property
    @abstractmethod
    def _usual(self) -> Standard:
        """What the features of each entity are measured by."""

    def _fit(self, train: Observations, validation: Observations, options: FitOptions) -> None:
        self.features_ = self._describe(train)
        chosen = affordable(train, len(self.features_(train.read(0))))
        features = np.stack([self.features_(chosen.read(i)) for i in range(len(chosen))])
        self._learn(features, [chosen.entity(i) for i in range(len(chosen))])

    def _adapt(self, history: Observations) -> None:
        for mine in history.by_series():
            if len(mine) >= LEAST_HISTORY:
                chosen = affordable(history.take(np.asarray(mine)), len(self._usual.center))
                features = np.stack([self.features_(chosen.read(i)) for i in range(len(chosen))])
                self._usual.adapt(history.entity(mine[0]), features)

    def _score(self, observations: Observations) -> Iterator[Evidence]:
        for i in range(len(observations)):
            z = observations.read(i)
            score, deviation = self._judge(observations.entity(i), self.features_(z))
            share = blame(deviation, self.features_.owners, len(z))
            measured = np.isfinite(z)
            steps = np.where(measured.any(axis=0), np.float32(score), np.nan).astype(np.float32)
            contributions = np.where(measured, share[:, None], np.nan).astype(np.float32)
            score = float(np.float32(score))
            yield Evidence(score, {self.view_names[0]: score}, steps, contributions, np.zeros_like(steps))
