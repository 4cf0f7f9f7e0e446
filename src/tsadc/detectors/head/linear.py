"""What linear models leave unexplained of an observation. Both come from one matrix of products, summed over the
training part, so that it is read once.

    name         meaning
    design       (feature, time): every variable now and up to LAGS steps ago, and a constant
    gram         (feature, feature) sum over the training steps of design design^T
    components   (component, variable) the directions that hold EXPLAINED of the variance of a step
    weights      (variable, feature) ridge regression of each variable on the others; its own features weigh nothing
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


class Linear:
    """Principal components of the variables, and each variable from the others."""

    def __init__(self, center: Floats, components: Floats, weights: Floats) -> None:
        self.center, self.components, self.weights = center, components, weights

    @classmethod
    def fit(cls, observations: Iterable[Floats]) -> Self:
        """From observations (variable, time) in z units, one at a time."""
        gram: Floats = np.zeros((1, 1))
        variables = 0
        for z in observations:
            variables = len(z)
            rows = _design(z)
            gram = gram + rows @ rows.T
        return cls(*_components(gram, variables), _regression(gram, variables))

    def apart(self, z: Floats) -> Floats:
        """(variable, time): what the components do not hold of each step. NaN where nothing was measured."""
        centred = _known(z) - self.center[:, None]
        return z - (self.components.T @ (self.components @ centred) + self.center[:, None])

    def unexplained(self, z: Floats) -> Floats:
        """(variable, time): what the other variables do not tell. NaN where nothing was measured."""
        return z - self.weights @ _design(z)

    def state(self) -> dict[str, NDArray[Any]]:
        return {
            "linear.center": self.center,
            "linear.components": self.components,
            "linear.weights": self.weights,
        }

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]]) -> Self:
        return cls(state["linear.center"], state["linear.components"], state["linear.weights"])


def _components(gram: Floats, variables: int) -> tuple[Floats, Floats]:
    """Mean of the steps and the directions; one direction is always left over."""
    steps = gram[-1, -1]
    center = gram[-1, :variables] / steps
    variance, directions = np.linalg.eigh(gram[:variables, :variables] / steps - np.outer(center, center))
    held = np.cumsum(variance[::-1]) / max(float(variance.sum()), np.finfo(float).tiny)
    count = min(int(np.searchsorted(held, EXPLAINED)) + 1, variables - 1)
    return center, directions[:, ::-1][:, :count].T.copy()


def _regression(gram: Floats, variables: int) -> Floats:
    """All weights come from one inverse P of the penalised gram. With O the features of a variable itself, the first
    being that of now, block inversion gives the weights of the others as -P[:, O] (P[O, O])^-1 e_1."""
    size = len(gram)
    inverse = np.linalg.inv(gram + PENALTY * gram[-1, -1] * np.eye(size))
    weights = np.zeros((variables, size))
    for k in range(variables):
        own = np.arange(k, size - 1, variables)
        first = np.zeros(len(own))
        first[0] = 1.0
        weights[k] = -inverse[:, own] @ np.linalg.solve(inverse[np.ix_(own, own)], first)
        weights[k, own] = 0.0
    return weights


def _design(z: Floats) -> Floats:
    """What was not measured, or lies before the start, is at its median: 0."""
    known = _known(z)
    shifted = [np.pad(known, ((0, 0), (lag, 0)))[:, : known.shape[1]] for lag in range(LAGS + 1)]
    return np.vstack([*shifted, np.ones((1, known.shape[1]))])


def _known(z: Floats) -> Floats:
    return np.clip(np.nan_to_num(z, nan=0.0), -LARGEST, LARGEST).astype(np.float64)
