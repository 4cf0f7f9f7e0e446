"""Linear models of the variables, principal components and ridge regression, computed from a gram matrix.

    name         meaning
    lags         steps back at which the variables are taken: 0 is now, negative ones lie ahead
    design       (feature, time): every variable at each of the lags, and a constant
    gram         (feature, feature) sum of design design^T over the training steps. Each product is summed over the
                 steps at which both features were measured, and scaled up to all steps
    components   (component, variable) directions that explain the share `explained` of the variance of a step
    weights      (variable, feature) ridge regression of each variable on the others; its own features have weight 0

Grams can be added and subtracted, so a model without one part of the data needs no second pass over the rest. Steps at
which nothing was measured are skipped. With gaps, the sums come from different steps and the gram may have negative
eigenvalues, which are set to 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np

from tsadc.nn.runtime.blas import single_threaded_blas
from tsadc.series import Booleans, Floats

LAGS = 3  # of the detector `ridge`; the ensemble chooses its own
PENALTY = 1e-3  # on the squared weights, per step
EXPLAINED = 0.9
COVARIANCE_CLIP = 30.0  # z is clipped here, so that wild values do not dominate what is learnt
ROUNDS = 5  # of replacing cells that are not known
ROUNDING = 1e-9  # of a step: an eigenvalue that is negative by less is rounding error


@dataclass(frozen=True)
class Gram:
    """Sums of products of features.

    Attributes
    ----------
    products : (feature, feature)
        Sum of the products over the steps; a missing value counts as 0.
    missing : (feature, feature)
        Number of steps at which one of the two features was not measured; (1, 1), a zero, if there are none.
    """

    products: Floats
    missing: Floats

    @classmethod
    def empty(cls, features: int) -> Self:
        """Return the gram of no data."""
        return cls(np.zeros((features, features)), np.zeros((1, 1)))

    @classmethod
    def of(cls, z: Floats, lags: Sequence[int]) -> Self:
        """Return the gram of one observation (variable, time) in z units."""
        measured, rows = np.isfinite(z), design_matrix(z, lags)
        missing = np.zeros((1, 1))
        if not measured.all():
            some_measured = np.asarray(measured.any(axis=0))
            rows = rows[:, some_measured]
            present = _lagged(measured.astype(np.float64), lags, outside=1.0)[:, some_measured]
            missing = rows.shape[1] - present @ present.T
        elif len(lags) > 1 and all(later == earlier + 1 for earlier, later in pairwise(lags)):
            return cls(_gram_of_consecutive_lags(rows, z, lags), missing)
        return cls(rows @ rows.T, missing)

    def __add__(self, other: Gram) -> Gram:
        return Gram(self.products + other.products, self.missing + other.missing)

    def __sub__(self, other: Gram) -> Gram:
        return Gram(self.products - other.products, self.missing - other.missing)

    @property
    def steps(self) -> float:
        """Number of steps: the square of the constant."""
        return float(self.products[-1, -1])

    def matrix(self) -> Floats:
        """Return the gram matrix, scaled up for missing values."""
        if not self.missing.any():
            return self.products
        return _positive(_scaled_up(self.products, self.steps - self.missing))


def _gram_of_consecutive_lags(rows: Floats, z: Floats, lags: Sequence[int]) -> Floats:
    """Return rows @ rows.T of the design matrix of z without gaps, from the products of the first lag alone.

    With x(t) = 0 beyond the ends, the block of lags (i, j) is the sum of x(t - i) x(t - j)^T over 0 <= t < L. One step
    further, at lags (i + 1, j + 1), the sum gains the product at t = -1 and loses the one at t = L - 1.
    """
    variables, size = len(z), len(rows) - 1
    gram = np.empty((size + 1, size + 1))
    gram[-1] = gram[:, -1] = rows.sum(axis=1)
    gram[:variables, :size] = rows[:variables] @ rows[:-1].T
    gram[variables:size, :variables] = gram[:variables, variables:size].T
    last = rows[:-1, -1]
    before = np.zeros((len(lags), variables))
    ahead = [i for i, lag in enumerate(lags) if -z.shape[1] <= lag < 0]
    before[ahead] = _filled(z[:, [-1 - lags[i] for i in ahead]]).T
    gained = before.ravel()
    inner = size - variables
    # Each vector is zero for lags that do not reach beyond its end, so that of most products nothing is left.
    gaining, losing = (slice(*_extent(vector[:inner])) for vector in (gained, last))
    for first in range(0, inner, variables):
        own = slice(first, first + variables)
        block = gram[first + variables : first + 2 * variables, variables:size]
        block[:] = gram[own, :inner]
        if gained[own].any():
            block[:, gaining] += np.multiply.outer(gained[own], gained[gaining])
        if last[own].any():
            block[:, losing] -= np.multiply.outer(last[own], last[losing])
    return gram


def _extent(vector: Floats) -> tuple[int, int]:
    """Return where the values of a vector that are not zero begin and end."""
    places = np.flatnonzero(vector)
    return (int(places[0]), int(places[-1]) + 1) if len(places) else (0, 0)


def gram_matrix(observations: Iterable[Floats], lags: Sequence[int]) -> Floats:
    """Return the gram of observations (variable, time) in z units, read one at a time."""
    grams = iter(observations)
    total = Gram.of(next(grams), lags)
    for z in grams:
        total = total + Gram.of(z, lags)
    return total.matrix()


def principal_components(gram: Floats, variables: int, explained: float) -> tuple[Floats, Floats]:
    """Return the mean step and the components; at least one direction is always left unexplained."""
    steps = gram[-1, -1]
    center = gram[-1, :variables] / steps
    variance, directions = np.linalg.eigh(gram[:variables, :variables] / steps - np.outer(center, center))
    share = np.cumsum(variance[::-1]) / max(float(variance.sum()), np.finfo(float).tiny)
    count = min(int(np.searchsorted(share, explained)) + 1, variables - 1)
    return center, directions[:, ::-1][:, :count].T.copy()


def ridge_weights(gram: Floats, variables: int, penalty: float, current: int = 0) -> Floats:
    """Return the weights (variable, feature) of ridge regression of each variable on the others.

    `current` is the position of lag 0 among the lags. All weights come from one inverse P of the penalised gram. With O
    the features of a variable itself and e the unit vector of its current value among them, block inversion gives the
    weights of the other features as -P[:, O] (P[O, O])^-1 e.
    """
    size = len(gram)
    inverse = _inverse(gram + penalty * gram[-1, -1] * np.eye(size))
    own = np.arange(size - 1).reshape(-1, variables).T  # (variable, lag)
    now = np.zeros((own.shape[1], 1))
    now[current] = 1.0
    solved = np.zeros((variables, size))
    np.put_along_axis(solved, own, np.linalg.solve(inverse[own[:, :, None], own[:, None]], now)[:, :, 0], axis=1)
    weights: Floats = -solved @ inverse
    np.put_along_axis(weights, own, 0.0, axis=1)
    return weights


def _inverse(matrix: Floats) -> Floats:
    """Return the inverse of a symmetric, positive definite matrix, in half the time of `np.linalg.inv`."""
    from scipy.linalg import lapack  # takes long to import, and is needed to fit only

    with single_threaded_blas():
        factor, failed = lapack.dpotrf(matrix, lower=True)
        if failed:  # by rounding
            return np.asarray(np.linalg.inv(matrix))
        lower, _ = lapack.dpotri(factor, lower=True)
    return np.asarray(np.tril(lower) + np.tril(lower, -1).T)


def predict(weights: Floats, z: Floats, lags: Sequence[int], silent: Booleans) -> Floats:
    """Return (variable, time) what the other variables predict, given the weights of `ridge_weights`. z has no gaps.

    `silent` cells (variable, time) are not known: they are replaced by what is predicted for them, one variable after
    the other, a few times. By the full conditionals of a Gaussian, this converges to its mean given all other cells.
    """
    unknown = np.flatnonzero(silent.any(axis=1)).tolist()
    if not unknown:
        return predict_known(weights, z, lags)
    design = design_matrix(z, lags)
    for _ in range(ROUNDS):
        for k in unknown:
            own = np.where(silent[k], weights[k] @ design, z[k])
            design[k : -1 : len(z)] = design_matrix(own[None], lags)[:-1]
    return np.asarray(weights @ design)


def predict_known(weights: Floats, z: Floats, lags: Sequence[int]) -> Floats:
    """Return weights @ design_matrix(z, lags), by a product for each lag instead of the whole matrix."""
    variables, length = z.shape
    reach = max(map(abs, lags))
    padded = np.zeros((variables, length + 2 * reach))
    padded[:, reach : reach + length] = _filled(z)
    weights = weights.astype(np.float64)
    total = np.repeat(weights[:, -1:], length, axis=1)
    product = np.empty_like(total)
    for i, lag in enumerate(lags):
        own = weights[:, i * variables : (i + 1) * variables]
        total += np.matmul(own, padded[:, reach - lag : reach - lag + length], out=product)
    return total


def precision_matrix(gram: Floats, variables: int, penalty: float) -> Floats:
    """Return the inverse of the penalised covariance (variable, variable) of a step."""
    steps = gram[-1, -1]
    center = gram[-1, :variables] / steps
    covariance = gram[:variables, :variables] / steps - np.outer(center, center)
    return np.asarray(np.linalg.inv(covariance + penalty * np.eye(variables)))


def completed(rows: Floats, center: Floats, precision: Floats) -> Floats:
    """Return rows (row, variable) with missing values replaced by their mean given the others, by a Gaussian."""
    missing = ~np.isfinite(rows)
    if not missing.any():
        return rows
    centred = np.where(missing, 0.0, rows - center)
    for pattern in np.unique(missing[missing.any(axis=1)], axis=0):
        own = np.flatnonzero((missing == pattern).all(axis=1))
        known = centred[np.ix_(own, ~pattern)] @ precision[np.ix_(~pattern, pattern)]
        centred[np.ix_(own, pattern)] = -np.linalg.solve(precision[np.ix_(pattern, pattern)], known.T).T
    return np.where(missing, centred + center, rows).astype(rows.dtype)


def project(z: Floats, center: Floats, components: Floats) -> Floats:
    """Return (variable, time) each step projected onto the components. Missing values are taken to be the mean."""
    centred = _filled(z) - center[:, None]
    measured = np.isfinite(z)
    if not measured.all():
        centred[~measured] = 0.0
    return np.asarray(components.T @ (components @ centred) + center[:, None])


def design_matrix(z: Floats, lags: Sequence[int]) -> Floats:
    """Return (feature, time). Missing values, and values beyond the ends, are taken to be the median: 0."""
    return _lagged(_filled(z), lags, outside=0.0)


def _lagged(rows: Floats, lags: Sequence[int], outside: float) -> Floats:
    """Stack rows (variable, time) at the lags, and ones; `outside` fills in beyond the ends."""
    variables, length = rows.shape
    stacked = np.empty((variables * len(lags) + 1, length))
    for i, lag in enumerate(lags):
        own = stacked[i * variables : (i + 1) * variables]
        first, stop = min(max(lag, 0), length), max(length + min(lag, 0), 0)  # where the lagged row is inside
        own[:, first:stop] = rows[:, first - lag : stop - lag]
        own[:, :first] = own[:, stop:] = outside
    stacked[-1] = 1.0
    return stacked


def _filled(z: Floats) -> Floats:
    filled = np.clip(z, -COVARIANCE_CLIP, COVARIANCE_CLIP).astype(np.float64)
    filled[np.isnan(filled)] = 0.0
    return filled


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
        # A lag beyond the observation has a square of 0, which rounding may make negative.
        scale = np.sqrt(np.maximum(np.diag(gram), 0.0) / np.where(square > 0, square, 1))
        return np.asarray(scale[:, None] * positive * scale)
    return gram
