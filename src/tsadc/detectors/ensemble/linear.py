"""Two linear models of the variables, principal components and ridge regression, and the residuals they leave.

    name         meaning
    design       (feature, time): every variable now and up to `lags` steps ago, and a constant
    gram         (feature, feature) sum of design design^T over the training steps. Each product is summed over the
                 steps at which both features were measured, and scaled up to all steps
    components   (component, variable) directions that explain the share `explained` of the variance of a step
    weights      (variable, feature) ridge regression of each variable on the others; its own features have weight 0

Both models are computed from the gram matrix, so that the training data is read once. Steps at which nothing was
measured are skipped. With gaps, the sums come from different steps and the gram may have negative eigenvalues, which
are set to 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tsadc.series import Floats

LAGS = 3
PENALTY = 1e-3  # on the squared weights, per step
EXPLAINED = 0.9
COVARIANCE_CLIP = 30.0  # z is clipped here, so that wild values do not dominate what is learnt
ROUNDING = 1e-9  # of a step: an eigenvalue that is negative by less is rounding error


class Linear:
    """Principal components of the variables, and ridge regression of each variable on the others."""

    def __init__(self, center: Floats, components: Floats, weights: Floats) -> None:
        self.center, self.components, self.weights = center, components, weights

    @classmethod
    def fit(cls, observations: Iterable[Floats]) -> Self:
        """Fit both models to observations (variable, time) in z units, read one at a time."""
        gram = gram_matrix(observations, LAGS)
        variables = (len(gram) - 1) // (LAGS + 1)
        return cls(*principal_components(gram, variables, EXPLAINED), ridge_weights(gram, variables, PENALTY))

    def pca_residual(self, z: Floats) -> Floats:
        """Return (variable, time) what the principal components do not explain; NaN where nothing was measured."""
        return z - project(z, self.center, self.components)

    def ridge_residual(self, z: Floats) -> Floats:
        """Return (variable, time) what the other variables do not explain; NaN where nothing was measured."""
        return z - self.weights @ design_matrix(z, LAGS)

    def state(self) -> dict[str, NDArray[Any]]:
        return {
            "linear.center": self.center,
            "linear.components": self.components,
            "linear.weights": self.weights,
        }

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]]) -> Self:
        return cls(state["linear.center"], state["linear.components"], state["linear.weights"])


def gram_matrix(observations: Iterable[Floats], lags: int) -> Floats:
    """Return the gram of observations (variable, time) in z units, read one at a time."""
    gram: Floats = np.zeros((1, 1))
    steps, missing = 0, np.zeros((1, 1))
    for z in observations:
        measured = np.isfinite(z)
        rows = design_matrix(z, lags)
        if not measured.all():
            some_measured = np.asarray(measured.any(axis=0))
            rows = rows[:, some_measured]
            present = _lagged(measured.astype(np.float64), lags, before=1.0)[:, some_measured]
            missing = missing + (rows.shape[1] - present @ present.T)
        gram, steps = gram + rows @ rows.T, steps + rows.shape[1]
    return _positive(_scaled_up(gram, steps - missing)) if missing.any() else gram


def principal_components(gram: Floats, variables: int, explained: float) -> tuple[Floats, Floats]:
    """Return the mean step and the components; at least one direction is always left unexplained."""
    steps = gram[-1, -1]
    center = gram[-1, :variables] / steps
    variance, directions = np.linalg.eigh(gram[:variables, :variables] / steps - np.outer(center, center))
    share = np.cumsum(variance[::-1]) / max(float(variance.sum()), np.finfo(float).tiny)
    count = min(int(np.searchsorted(share, explained)) + 1, variables - 1)
    return center, directions[:, ::-1][:, :count].T.copy()


def ridge_weights(gram: Floats, variables: int, penalty: float) -> Floats:
    """Return the weights (variable, feature) of ridge regression of each variable on the others.

    All weights come from one inverse P of the penalised gram. With O the features of a variable itself, the current
    value first, block inversion gives the weights of the other features as -P[:, O] (P[O, O])^-1 e_1.
    """
    size = len(gram)
    inverse = np.linalg.inv(gram + penalty * gram[-1, -1] * np.eye(size))
    weights = np.zeros((variables, size))
    for k in range(variables):
        own = np.arange(k, size - 1, variables)
        first = np.zeros(len(own))
        first[0] = 1.0
        weights[k] = -inverse[:, own] @ np.linalg.solve(inverse[np.ix_(own, own)], first)
        weights[k, own] = 0.0
    return weights


def project(z: Floats, center: Floats, components: Floats) -> Floats:
    """Return (variable, time) each step projected onto the components. Missing values are taken to be the mean."""
    centred = np.where(np.isfinite(z), _filled(z) - center[:, None], 0.0)
    return np.asarray(components.T @ (components @ centred) + center[:, None])


def design_matrix(z: Floats, lags: int) -> Floats:
    """Return (feature, time). Missing values, and values before the start, are taken to be the median: 0."""
    return _lagged(_filled(z), lags, before=0.0)


def _lagged(rows: Floats, lags: int, before: float) -> Floats:
    """Stack rows (variable, time) now and up to `lags` steps ago, and ones; `before` fills in before the start."""
    length = rows.shape[1]
    past = [np.pad(rows, ((0, 0), (lag, 0)), constant_values=before)[:, :length] for lag in range(lags + 1)]
    return np.vstack([*past, np.ones((1, length))])


def _filled(z: Floats) -> Floats:
    return np.clip(np.nan_to_num(z, nan=0.0), -COVARIANCE_CLIP, COVARIANCE_CLIP).astype(np.float64)


def _scaled_up(gram: Floats, both: Floats) -> Floats:
    """Scale sums over the `both` steps at which two features were measured to sums over all steps. Features that were
    never measured together are taken to be independent."""
    steps = gram[-1, -1]
    mean = gram[-1] / np.maximum(both[-1], 1)
    scaled: Floats = np.where(both > 0, gram * (steps / np.maximum(both, 1)), steps * np.outer(mean, mean))
    return scaled


def _positive(gram: Floats) -> Floats:
    """Remove negative eigenvalues; the sums of squares stay the same."""
    try:
        np.linalg.cholesky(gram + ROUNDING * gram[-1, -1] * np.eye(len(gram)))
    except np.linalg.LinAlgError:
        sizes, directions = np.linalg.eigh(gram)
        positive = (directions * np.maximum(sizes, 0)) @ directions.T
        square = np.diag(positive)
        scale = np.sqrt(np.diag(gram) / np.where(square > 0, square, 1))
        return np.asarray(scale[:, None] * positive * scale)
    return gram
