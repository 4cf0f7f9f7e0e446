"""What linear models leave unexplained of an observation. Both come from one matrix of products, summed over the
training part, so that it is read once.

    name         meaning
    design       (feature, time): every variable now and up to `lags` steps ago, and a constant
    gram         (feature, feature) sum over the training steps of design design^T, each product over the steps at which
                 both of its features were measured, as if these were all
    components   (component, variable) the directions that hold `explained` of the variance of a step
    weights      (variable, feature) ridge regression of each variable on the others; its own features weigh nothing

A step at which nothing was measured is no step. Sums over different steps need not fit together: what would be a
negative variance in some direction is then none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tsadc.series import Floats

LAGS = 3
PENALTY = 1e-3  # of the squared weights, per step
EXPLAINED = 0.9
LARGEST = 30.0  # z beyond this says no more, and must not rule what is learnt
ROUNDING = 1e-9  # of a step: a variance that is negative by less is none


class Linear:
    """Principal components of the variables, and each variable from the others."""

    def __init__(self, center: Floats, components: Floats, weights: Floats) -> None:
        self.center, self.components, self.weights = center, components, weights

    @classmethod
    def fit(cls, observations: Iterable[Floats]) -> Self:
        """From observations (variable, time) in z units, one at a time."""
        gram = moments(observations, LAGS)
        variables = (len(gram) - 1) // (LAGS + 1)
        return cls(*principal(gram, variables, EXPLAINED), regression(gram, variables, PENALTY))

    def apart(self, z: Floats) -> Floats:
        """(variable, time): what the components do not hold of each step. NaN where nothing was measured."""
        return z - projected(z, self.center, self.components)

    def unexplained(self, z: Floats) -> Floats:
        """(variable, time): what the other variables do not tell. NaN where nothing was measured."""
        return z - self.weights @ design(z, LAGS)

    def state(self) -> dict[str, NDArray[Any]]:
        return {
            "linear.center": self.center,
            "linear.components": self.components,
            "linear.weights": self.weights,
        }

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]]) -> Self:
        return cls(state["linear.center"], state["linear.components"], state["linear.weights"])


def moments(observations: Iterable[Floats], lags: int) -> Floats:
    """The gram of observations (variable, time) in z units, one at a time."""
    gram: Floats = np.zeros((1, 1))
    steps, missing = 0, np.zeros((1, 1))
    for z in observations:
        measured = np.isfinite(z)
        some = np.asarray(measured.any(axis=0))
        rows = design(z, lags)
        if not measured.all():
            rows = rows[:, some]
            seen = _shifted(measured.astype(np.float64), lags, before=1.0)[:, some]
            missing = missing + (rows.shape[1] - seen @ seen.T)
        gram, steps = gram + rows @ rows.T, steps + rows.shape[1]
    return _definite(_whole(gram, steps - missing)) if missing.any() else gram


def principal(gram: Floats, variables: int, explained: float) -> tuple[Floats, Floats]:
    """Mean of the steps and the directions; one direction is always left over."""
    steps = gram[-1, -1]
    center = gram[-1, :variables] / steps
    variance, directions = np.linalg.eigh(gram[:variables, :variables] / steps - np.outer(center, center))
    held = np.cumsum(variance[::-1]) / max(float(variance.sum()), np.finfo(float).tiny)
    count = min(int(np.searchsorted(held, explained)) + 1, variables - 1)
    return center, directions[:, ::-1][:, :count].T.copy()


def regression(gram: Floats, variables: int, penalty: float) -> Floats:
    """All weights come from one inverse P of the penalised gram. With O the features of a variable itself, the first
    being that of now, block inversion gives the weights of the others as -P[:, O] (P[O, O])^-1 e_1."""
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


def projected(z: Floats, center: Floats, components: Floats) -> Floats:
    """(variable, time): what the components hold of each step. What was not measured is at its mean."""
    apart = np.where(np.isfinite(z), _known(z) - center[:, None], 0.0)
    return np.asarray(components.T @ (components @ apart) + center[:, None])


def design(z: Floats, lags: int) -> Floats:
    """(feature, time). What was not measured, or lies before the start, is at its median: 0."""
    return _shifted(_known(z), lags, before=0.0)


def _shifted(rows: Floats, lags: int, before: float) -> Floats:
    """Rows (variable, time) now and up to `lags` steps ago, and ones; `before` stands for what precedes the start."""
    length = rows.shape[1]
    past = [np.pad(rows, ((0, 0), (lag, 0)), constant_values=before)[:, :length] for lag in range(lags + 1)]
    return np.vstack([*past, np.ones((1, length))])


def _known(z: Floats) -> Floats:
    return np.clip(np.nan_to_num(z, nan=0.0), -LARGEST, LARGEST).astype(np.float64)


def _whole(gram: Floats, both: Floats) -> Floats:
    """From sums over the steps at which both features were measured, `both` of them, to sums over all steps. Features
    that never were together are taken to be independent."""
    steps = gram[-1, -1]
    mean = gram[-1] / np.maximum(both[-1], 1)
    found: Floats = np.where(both > 0, gram * (steps / np.maximum(both, 1)), steps * np.outer(mean, mean))
    return found


def _definite(gram: Floats) -> Floats:
    """The gram without negative variances, and with the same sums of squares."""
    try:
        np.linalg.cholesky(gram + ROUNDING * gram[-1, -1] * np.eye(len(gram)))
    except np.linalg.LinAlgError:
        sizes, directions = np.linalg.eigh(gram)
        found = (directions * np.maximum(sizes, 0)) @ directions.T
        square = np.diag(found)
        scale = np.sqrt(np.diag(gram) / np.where(square > 0, square, 1))
        return np.asarray(scale[:, None] * found * scale)
    return gram
