"""Mahalanobis distance of each step from the centre of the training steps.

Centre and covariance are the minimum covariance determinant (Rousseeuw, Van Driessen 1999), which a contaminated
minority does not distort.

    name           meaning
    center         (variable,)
    precision      (variable, variable) inverse of the covariance
    steps          sqrt((z - center)' precision (z - center)) of each step; the observation scores as its worst step
    contribution   of variable k: |precision (z - center)|_k / sqrt(precision_kk), its distance from the value that the
                   other variables predict, in standard deviations
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.covariance import MinCovDet

from tsadc.detectors.base import Detector, FitOptions
from tsadc.detectors.classical.base import stepwise_evidence
from tsadc.detectors.ensemble.linear import COVARIANCE_CLIP
from tsadc.detectors.result import Evidence
from tsadc.series import Floats, Observations
from tsadc.subsample import evenly_spaced

BLUR = 0.1  # z units: noise added so that constant or redundant variables keep some variance
MIN_STEPS, STEPS_PER_VARIABLE = 2000, 10  # size of the sample


class Mahalanobis(Detector):
    """Detect steps whose combination of values is unusual. Missing values are taken to be at the centre.

    Attributes
    ----------
    center_ : ndarray of shape (n_variables,)
        Robust mean of the training steps, in z units.
    precision_ : ndarray of shape (n_variables, n_variables)
        Inverse of the robust covariance.
    """

    name: ClassVar[str] = "mahalanobis"
    view_names: ClassVar[tuple[str, ...]] = ("combination",)

    def _fit(self, train: Observations, validation: Observations, options: FitOptions) -> None:
        rng = np.random.default_rng(self.settings.seed)
        sample = _sample(train, rng)
        sample = sample + BLUR * rng.normal(size=sample.shape)
        with warnings.catch_warnings():
            # It warns if the data has sharp clusters; the noise keeps the covariance regular all the same.
            warnings.simplefilter("ignore")
            estimate = MinCovDet(random_state=int(rng.integers(2**31))).fit(sample)
        variance, directions = np.linalg.eigh(estimate.covariance_)
        variance = np.maximum(variance, BLUR**2)
        self.center_ = np.asarray(estimate.location_)
        self.precision_ = (directions / variance) @ directions.T

    def _score(self, observations: Observations) -> Iterator[Evidence]:
        for i in range(len(observations)):
            z = observations.read(i)
            measured = np.isfinite(z)
            centred = np.where(measured, z - self.center_[:, None], 0)
            weighted = self.precision_ @ centred
            distance = np.sqrt(np.maximum((centred * weighted).sum(axis=0), 0))
            steps = np.where(measured.any(axis=0), distance, np.nan).astype(np.float32)
            cells = np.abs(weighted) / np.sqrt(np.diag(self.precision_))[:, None]
            cells = np.where(measured, cells, np.nan).astype(np.float32)
            yield stepwise_evidence("combination", steps, cells)

    def _state(self) -> dict[str, NDArray[Any]]:
        return {"center": self.center_, "precision": self.precision_}

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.center_, self.precision_ = state["center"], state["precision"]


def _sample(train: Observations, rng: np.random.Generator) -> Floats:
    """Return random steps (step, variable) of evenly spaced training observations."""
    wanted = max(MIN_STEPS, STEPS_PER_VARIABLE * len(train.names))
    each = -(-wanted // len(train))
    sample = []
    for i in evenly_spaced(len(train), wanted):
        z = train.read(int(i))
        measured = np.flatnonzero(np.isfinite(z).any(axis=0))
        steps = np.sort(rng.choice(measured, min(each, len(measured)), replace=False))
        filled = np.clip(np.nan_to_num(z[:, steps], nan=0.0), -COVARIANCE_CLIP, COVARIANCE_CLIP)
        sample.append(filled.T.astype(np.float64))
    return np.concatenate(sample)
