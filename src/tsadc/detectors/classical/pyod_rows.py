"""Outlier detectors of PyOD on rows: peers for benchmarks (Zhao, Nasrullah, Li 2019).

Each row of an observation is a sample in z units; missing values are taken to be the median, 0. An estimator is fitted
to at most 5,000 evenly spaced training rows, with PyOD's own settings. The scores of rows are pooled in one of two
ways, and each way is a detector of its own, so that no table shows the better one by its labels:

    pyod-...-max     the observation scores as its highest row
    pyod-...-mean    the mean score of its rows, which is also the score of each row

PyOD must be installed (`pip install pyod`; the `dev` extra has it). These detectors are not in the registry, so neither
the command line nor the documents list them, but a plan, or `find`, can name them:

    [[detectors]]
    name = "pyod-knn-max"

They can be fitted, used and benchmarked, but not saved.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from tsadc.detectors.base import FitOptions
from tsadc.detectors.classical.base import UnsavableDetector, stepwise_evidence, whole_evidence
from tsadc.detectors.result import Evidence
from tsadc.errors import ConfigError
from tsadc.series import Floats, Observations
from tsadc.subsample import evenly_spaced

MAX_ROWS = 5000  # training rows that an estimator is fitted to
MIN_COMPONENT = 1e-6  # a component with less than this share of the largest deviation is rounding error


class Rows(UnsavableDetector, ABC):
    """Base of detectors that fit an estimator of PyOD to rows. A subclass writes `_estimator` and pools by `_pool`.

    The estimators give no contributions. Those of a variable are its |z|.

    Attributes
    ----------
    estimator_
        The fitted estimator.
    """

    view_names: ClassVar[tuple[str, ...]] = ("outlier",)

    @abstractmethod
    def _estimator(self, rows: Floats, seed: int) -> Any:
        """Return an unfitted estimator for training rows (row, variable); `seed` is below 2**31."""

    @abstractmethod
    def _pool(self, z: Floats, scores: Floats) -> Evidence:
        """Return the evidence of z (variable, time) with scores (time,), which are NaN where nothing was measured."""

    def _fit(self, train: Observations, validation: Observations, options: FitOptions) -> None:
        observation, row = np.divmod(evenly_spaced(len(train) * train.length, MAX_ROWS), train.length)
        chosen = [train.read(int(i))[:, row[observation == i]] for i in np.unique(observation)]
        z = np.concatenate(chosen, axis=1)
        rows = _filled(z[:, np.isfinite(z).any(axis=0)])
        seed = int(np.random.default_rng(self.settings.seed).integers(2**31))
        self.estimator_ = self._estimator(rows, seed).fit(rows)

    def _score(self, observations: Observations) -> Iterator[Evidence]:
        # One call for each observation: PyOD's ECOD ranks the rows of a call among each other.
        for i in range(len(observations)):
            z = observations.read(i)
            measured = np.isfinite(z).any(axis=0)
            scores = np.full(z.shape[1], np.nan, dtype=np.float32)
            limit = float(np.finfo(np.float32).max)
            scores[measured] = np.clip(self.estimator_.decision_function(_filled(z[:, measured])), -limit, limit)
            yield self._pool(z, scores)


class Maximum(Rows):
    """Pool by the highest row."""

    def _pool(self, z: Floats, scores: Floats) -> Evidence:
        return stepwise_evidence("outlier", scores, np.abs(z))


class Mean(Rows):
    """Pool by the mean of the rows."""

    def _pool(self, z: Floats, scores: Floats) -> Evidence:
        return whole_evidence("outlier", float(np.nanmean(scores, dtype=np.float64)), z, np.abs(z))


class Neighbours(Rows):
    """Score a row by its distance from the fifth nearest training row."""

    def _estimator(self, rows: Floats, seed: int) -> Any:
        return _pyod("knn", "KNN")()


class LocalDensity(Rows):
    """Score a row by its density relative to that of its 20 nearest training rows."""

    def _estimator(self, rows: Floats, seed: int) -> Any:
        return _pyod("lof", "LOF")()


class Tails(Rows):
    """Score a row by the tail probabilities of its values, from empirical distributions."""

    def _estimator(self, rows: Floats, seed: int) -> Any:
        return _pyod("ecod", "ECOD")()


class Histograms(Rows):
    """Score a row by the densities of its values, from a histogram of each variable."""

    def _estimator(self, rows: Floats, seed: int) -> Any:
        return _pyod("hbos", "HBOS")()


class Components(Rows):
    """Score a row by its distance from the principal components, weighted by the inverse of their variance."""

    def _estimator(self, rows: Floats, seed: int) -> Any:
        # PyOD divides by the variance of each component, which is 0 for constant and redundant variables.
        deviation = rows.std(axis=0)
        standardised = (rows - rows.mean(axis=0)) / np.where(deviation > 0, deviation, 1)
        rank = int(np.linalg.matrix_rank(standardised, rtol=MIN_COMPONENT))
        return _pyod("pca", "PCA")(n_components=max(1, rank), random_state=seed)


class Isolation(Rows):
    """Score a row by how few random cuts separate it from the training rows."""

    def _estimator(self, rows: Floats, seed: int) -> Any:
        return _pyod("iforest", "IForest")(random_state=seed)


class KNNMax(Maximum, Neighbours):
    name: ClassVar[str] = "pyod-knn-max"


class KNNMean(Mean, Neighbours):
    name: ClassVar[str] = "pyod-knn-mean"


class LOFMax(Maximum, LocalDensity):
    name: ClassVar[str] = "pyod-lof-max"


class LOFMean(Mean, LocalDensity):
    name: ClassVar[str] = "pyod-lof-mean"


class ECODMax(Maximum, Tails):
    name: ClassVar[str] = "pyod-ecod-max"


class ECODMean(Mean, Tails):
    name: ClassVar[str] = "pyod-ecod-mean"


class HBOSMax(Maximum, Histograms):
    name: ClassVar[str] = "pyod-hbos-max"


class HBOSMean(Mean, Histograms):
    name: ClassVar[str] = "pyod-hbos-mean"


class PCAMax(Maximum, Components):
    name: ClassVar[str] = "pyod-pca-max"


class PCAMean(Mean, Components):
    name: ClassVar[str] = "pyod-pca-mean"


class IForestMax(Maximum, Isolation):
    name: ClassVar[str] = "pyod-iforest-max"


class IForestMean(Mean, Isolation):
    name: ClassVar[str] = "pyod-iforest-mean"


def _filled(z: Floats) -> Floats:
    """Return rows (row, variable) with missing values at the median, 0."""
    return np.nan_to_num(z, nan=0.0).T.astype(np.float64)


def _pyod(module: str, name: str) -> Any:
    """Return a class of PyOD, which is imported when it is first used: that takes seconds."""
    try:
        return getattr(importlib.import_module(f"pyod.models.{module}"), name)
    except ModuleNotFoundError as error:
        raise ConfigError(f"This detector needs PyOD, but {error.name} is not installed; pip install pyod.") from error
