"""Mahalanobis distance of each step from the centre of the training steps, in the metric of their covariance: the
minimum covariance determinant (Rousseeuw, Van Driessen 1999), which a contaminated minority cannot turn.

    name           meaning
    center         (variable,)
    precision      (variable, variable) inverse of the covariance
    steps          sqrt((z - center)' precision (z - center)) of each step
    contribution   of variable k: |precision (z - center)|_k / sqrt(precision_kk), how far it is from what the others
                   say of it, in standard deviations
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.covariance import MinCovDet

from tsadc.detectors.base import Detector, FitOptions
from tsadc.detectors.result import Evidence
from tsadc.series import Floats, Observations
from tsadc.subsample import evenly_spaced

LARGEST = 30.0  # z beyond this says no more of the covariance
BLUR = 0.1  # in z units: noise under which variables that are constant, or sums of others, keep a spread
SAMPLED = 2000  # steps, and at least 10 per variable


class Mahalanobis(Detector):
    """The observation scores as its worst step. What was not measured is at the centre."""

    name: ClassVar[str] = "mahalanobis"
    view_names: ClassVar[tuple[str, ...]] = ("combination",)

    def _fit(self, train: Observations, validation: Observations, options: FitOptions) -> None:
        rng = np.random.default_rng(self.settings.seed)
        sample = _sample(train, rng)
        sample = sample + BLUR * rng.normal(size=sample.shape)
        with warnings.catch_warnings():
            # It warns where the data hold sharp clusters; the blur keeps the covariance regular all the same.
            warnings.simplefilter("ignore")
            found = MinCovDet(random_state=int(rng.integers(2**31))).fit(sample)
        variance, directions = np.linalg.eigh(found.covariance_)
        variance = np.maximum(variance, BLUR**2)
        self.center_ = np.asarray(found.location_)
        self.precision_ = (directions / variance) @ directions.T

    def _score(self, observations: Observations) -> Iterator[Evidence]:
        for i in range(len(observations)):
            z = observations.read(i)
            measured = np.isfinite(z)
            apart = np.where(measured, z - self.center_[:, None], 0)
            pulled = self.precision_ @ apart
            distance = np.sqrt(np.maximum((apart * pulled).sum(axis=0), 0))
            steps = np.where(measured.any(axis=0), distance, np.nan).astype(np.float32)
            cells = np.abs(pulled) / np.sqrt(np.diag(self.precision_))[:, None]
            cells = np.where(measured, cells, np.nan).astype(np.float32)
            score = float(np.nanmax(steps))
            yield Evidence(score, {"combination": score}, steps, cells, np.zeros_like(steps))

    def _state(self) -> dict[str, NDArray[Any]]:
        return {"center": self.center_, "precision": self.precision_}

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.center_, self.precision_ = state["center"], state["precision"]


def _sample(train: Observations, rng: np.random.Generator) -> Floats:
    """Steps (step, variable) drawn from observations spread over the training part."""
    wanted = max(SAMPLED, 10 * len(train.names))
    each = -(-wanted // len(train))
    found = []
    for i in evenly_spaced(len(train), wanted):
        z = train.read(int(i))
        seen = np.flatnonzero(np.isfinite(z).any(axis=0))
        steps = np.sort(rng.choice(seen, min(each, len(seen)), replace=False))
        found.append(np.clip(np.nan_to_num(z[:, steps], nan=0.0), -LARGEST, LARGEST).T.astype(np.float64))
    return np.concatenate(found)
