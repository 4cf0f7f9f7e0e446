"""Grams, principal components and ridge regression against loops, decompositions and least squares."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsadc.detectors.ensemble.linear import (
    COVARIANCE_CLIP,
    EXPLAINED,
    PENALTY,
    Gram,
    completed,
    design_matrix,
    gram_matrix,
    precision_matrix,
    predict,
    predict_known,
    principal_components,
    project,
    ridge_weights,
)

AROUND, BEFORE = range(-2, 3), range(4)


@pytest.fixture
def observations() -> list[np.ndarray]:
    """Variable 2 is about the sum of the others one step ago; variable 3 is noise."""
    rng = np.random.default_rng(0)
    out = []
    for _ in range(6):
        z = rng.normal(size=(4, 50))
        z[2, 1:] = z[0, :-1] + z[1, :-1] + 0.3 * z[2, 1:]
        out.append(z)
    out[2][3, 7] = 1e5
    return out


def with_gaps(observations: list[np.ndarray]) -> list[np.ndarray]:
    """A tenth of the cells is missing, and ten whole steps."""
    rng = np.random.default_rng(1)
    out = [np.where(rng.random(z.shape) < 0.1, np.nan, z) for z in observations]
    out[3][:, 20:30] = np.nan
    return out


def slow_design(z: np.ndarray, lags: range) -> np.ndarray:
    """(time, feature); NaN where it was not measured, 0 beyond the ends."""
    rows = np.zeros((z.shape[1], len(z) * len(lags) + 1))
    for step in range(z.shape[1]):
        for place, lag in enumerate(lags):
            if 0 <= step - lag < z.shape[1]:
                for k in range(len(z)):
                    rows[step, len(z) * place + k] = np.clip(z[k, step - lag], -COVARIANCE_CLIP, COVARIANCE_CLIP)
        rows[step, -1] = 1
    return rows


def slow_moments(observations: list[np.ndarray], lags: range) -> np.ndarray:
    """The mean of each product over the steps that have it, among those at which something was measured."""
    design = np.concatenate([slow_design(z, lags)[~np.isnan(z).all(axis=0)] for z in observations])
    size = design.shape[1]
    return np.array([[np.nanmean(design[:, i] * design[:, j]) for j in range(size)] for i in range(size)])


@pytest.mark.parametrize("lags", [range(1), BEFORE, AROUND])
@pytest.mark.parametrize("made", [list, with_gaps])
def test_design_and_gram_against_loops(observations, made, lags):
    observations = made(observations)
    expected = np.nan_to_num(slow_design(observations[3], lags)).T
    np.testing.assert_allclose(design_matrix(observations[3], lags), expected)
    gram = gram_matrix(observations, lags)
    np.testing.assert_allclose(gram / gram[-1, -1], slow_moments(observations, lags), atol=1e-9)


@given(seed=st.integers(0, 2**16), length=st.integers(1, 20), first=st.integers(-5, 5), count=st.integers(1, 6))
def test_the_gram_of_consecutive_lags_is_that_of_the_design(seed, length, first, count):
    z, lags = np.random.default_rng(seed).normal(size=(3, length)), range(first, first + count)
    design = design_matrix(z, lags)
    np.testing.assert_allclose(Gram.of(z, lags).products, design @ design.T, atol=1e-12)


@given(seed=st.integers(0, 2**16), length=st.integers(1, 20), first=st.integers(-5, 5), count=st.integers(1, 6))
def test_predictions_by_lags_are_those_by_the_design(seed, length, first, count):
    rng, lags = np.random.default_rng(seed), range(first, first + count)
    z, weights = 20 * rng.normal(size=(3, length)), rng.normal(size=(3, 3 * count + 1)).astype(np.float32)
    expected = weights.astype(np.float64) @ design_matrix(z, lags)
    np.testing.assert_allclose(predict_known(weights, z, lags), expected, atol=1e-9)


@given(seed=st.integers(0, 2**16), cut=st.integers(1, 5), gaps=st.booleans(), reach=st.integers(0, 3))
def test_grams_are_added_and_subtracted(seed, cut, gaps, reach):
    rng, lags = np.random.default_rng(seed), range(-reach, reach + 1)
    z = rng.normal(size=(6, 3, 12))
    if gaps:
        z[rng.random(z.shape) < 0.3] = np.nan
        z[2, :, 3:9] = np.nan
    first, second = (
        sum((Gram.of(x, lags) for x in half), Gram.empty(3 * len(lags) + 1)) for half in (z[:cut], z[cut:])
    )
    both = first + second
    np.testing.assert_allclose(both.matrix(), gram_matrix(z, lags), atol=1e-9)
    np.testing.assert_allclose((both - second).matrix(), first.matrix(), atol=1e-8)
    assert both.steps == first.steps + second.steps == np.isfinite(z).any(axis=1).sum()


def least_squares(design: np.ndarray, target: np.ndarray, penalty: float) -> np.ndarray:
    """Ridge regression as least squares with one more row for each weight."""
    size = design.shape[1]
    rows = np.vstack([design, np.sqrt(penalty * len(design)) * np.eye(size)])
    return np.linalg.lstsq(rows, np.concatenate([target, np.zeros(size)]), rcond=None)[0]


@pytest.mark.parametrize("lags", [BEFORE, AROUND])
def test_ridge_weights_against_least_squares(observations, lags):
    design = np.concatenate([slow_design(z, lags) for z in observations])
    weights = ridge_weights(gram_matrix(observations, lags), 4, PENALTY, current=lags.index(0))
    for k in range(4):
        others = [j for j in range(design.shape[1]) if j == design.shape[1] - 1 or j % 4 != k]
        expected = np.zeros(design.shape[1])
        expected[others] = least_squares(design[:, others], design[:, 4 * lags.index(0) + k], PENALTY)
        np.testing.assert_allclose(weights[k], expected, atol=1e-7)
    rest = observations[0] - weights @ design_matrix(observations[0], lags)
    assert np.abs(rest[2, 3:-3]).mean() < 0.3 < 0.5 < np.abs(rest[3]).mean()


def test_ridge_weights_with_gaps_against_the_normal_equations(observations):
    gram = slow_moments(with_gaps(observations), AROUND)
    assert np.linalg.eigvalsh(gram).min() > 0
    weights = ridge_weights(gram_matrix(with_gaps(observations), AROUND), 4, PENALTY, current=2)
    for k in range(4):
        others = [j for j in range(len(gram)) if j == len(gram) - 1 or j % 4 != k]
        left = gram[np.ix_(others, others)] + PENALTY * np.eye(len(others))
        np.testing.assert_allclose(weights[k, others], np.linalg.solve(left, gram[others, 8 + k]), atol=1e-8)


def test_missing_values_do_not_weaken_dependencies():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(20, 1, 100)).repeat(2, axis=1)
    complete = ridge_weights(gram_matrix(z, BEFORE), 2, PENALTY)
    z[:, 1][rng.random((20, 100)) < 0.4] = np.nan
    gaps = ridge_weights(gram_matrix(z, BEFORE), 2, PENALTY)
    assert complete[1, 0] == pytest.approx(0.999, abs=5e-4)
    assert gaps[1, 0] == pytest.approx(0.999, abs=0.03)
    assert gaps[0, 1] == pytest.approx(complete[0, 1], abs=0.03)
    center, components = principal_components(gram_matrix(z, [0]), 2, EXPLAINED)
    np.testing.assert_allclose(np.abs(components), np.sqrt(0.5), atol=0.01)
    np.testing.assert_allclose(center, z[:, 0].mean(), atol=0.05)


def test_steps_without_any_value_are_skipped(observations):
    longer = [np.concatenate([np.full((4, 30), np.nan), z], axis=1) for z in observations[3:]]
    actual = gram_matrix(longer, [0])
    np.testing.assert_allclose(actual, gram_matrix(observations[3:], [0]), rtol=1e-12)
    assert actual[-1, -1] == 150


def test_negative_eigenvalues_are_removed():
    """Three variables, any two of which are never measured with the third: a = b, b = c and a = -c."""
    x = np.random.default_rng(0).normal(size=(3, 2000))
    z = np.full((3, 6000), np.nan)
    for number, (i, j, sign) in enumerate([(0, 1, 1), (1, 2, 1), (0, 2, -1)]):
        z[i, 2000 * number : 2000 * number + 2000] = x[number]
        z[j, 2000 * number : 2000 * number + 2000] = sign * x[number]
    gram = gram_matrix([z], [0])
    # The correlations 1, 1, -1 have the eigenvalues 2, 2, -1; without the last they are a half of the variances.
    signs = np.array([[2, 1, -1], [1, 2, 1], [-1, 1, 2]]) / 2
    np.testing.assert_allclose(gram[:3, :3] / gram[-1, -1], signs, atol=0.1)
    assert gram[-1, -1] == pytest.approx(6000)
    assert np.linalg.eigvalsh(gram).min() > -1e-6
    assert np.abs(ridge_weights(gram, 3, PENALTY)).max() < 1.1  # a = b - c


def test_variables_never_measured_together_are_independent():
    rng = np.random.default_rng(2)
    z = rng.normal(size=(2, 400)) + 2
    z[0, :200], z[1, 200:] = np.nan, np.nan
    gram = gram_matrix([z], [0])
    mean = [np.nanmean(z[0]), np.nanmean(z[1])]
    np.testing.assert_allclose(gram[0, 1], 400 * mean[0] * mean[1])
    np.testing.assert_allclose(gram[0, 0], 2 * np.nansum(z[0] ** 2))
    np.testing.assert_allclose(ridge_weights(gram, 2, 1e-9)[:, :2], 0, atol=1e-6)


def test_components_against_a_singular_value_decomposition(observations):
    center, components = principal_components(gram_matrix(observations, [0]), 4, EXPLAINED)
    steps = np.concatenate([np.clip(z, -COVARIANCE_CLIP, COVARIANCE_CLIP).T for z in observations])
    mean = steps.mean(axis=0)
    np.testing.assert_allclose(center, mean)
    _, size, directions = np.linalg.svd(steps - mean, full_matrices=False)
    share = np.cumsum(size**2) / np.sum(size**2)
    basis = directions[: min(int(np.argmax(share >= EXPLAINED)) + 1, 3)]
    z = observations[0]
    expected = ((z.T - mean) @ basis.T @ basis + mean).T
    np.testing.assert_allclose(project(z, center, components), expected, atol=1e-9)


def test_missing_values_are_taken_to_be_the_mean():
    components, center = np.array([[0.6, 0.8]]), np.array([2.0, -1.0])
    actual = project(np.array([[np.nan, 3.0], [4.0, 3.0]]), center, components)
    np.testing.assert_allclose(actual, [[2 + 0.6 * 4, 2 + 0.6 * 3.8], [-1 + 0.8 * 4, -1 + 0.8 * 3.8]])


def test_missing_values_are_completed_by_the_mean_of_a_gaussian_given_the_others():
    rng = np.random.default_rng(0)
    z = rng.multivariate_normal([1, 2, -1], [[1, 0.8, 0], [0.8, 1, 0.3], [0, 0.3, 2]], size=500).T
    gram, rows = gram_matrix([z], [0]), z[:, :6].T.copy()
    center, covariance = z.mean(axis=1), np.cov(z, bias=True) + PENALTY * np.eye(3)
    rows[1:4, 1], rows[3:, 2] = np.nan, np.nan
    actual = completed(rows, center, precision_matrix(gram, 3, PENALTY))
    for i, row in enumerate(rows):
        known = np.isfinite(row)
        weights = np.linalg.solve(covariance[np.ix_(known, known)], covariance[known])
        expected = np.where(known, row, center + (row - center)[known] @ weights)
        np.testing.assert_allclose(actual[i], expected, atol=1e-9)


def test_silent_variables_are_predicted_before_others_are_predicted_from_them():
    """The mean of a Gaussian given the variables that are known, among them one that almost balances the others."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(4, 20_000))
    z[1] = 0.5 * z[0] + 0.8 * z[1]
    z[3] = 0.1 * z[3] - z[0] - z[1]
    z /= z.std(axis=1, keepdims=True)
    weights = ridge_weights(gram_matrix([z], [0]), 4, 1e-9)
    silent = np.zeros(z.shape, dtype=bool)
    silent[[1, 2], 50:] = True
    covariance = np.cov(z)
    known, unknown = [0, 3], [1, 2]
    filled = z.copy()
    filled[unknown] = covariance[np.ix_(unknown, known)] @ np.linalg.solve(covariance[np.ix_(known, known)], z[known])
    actual = predict(weights, np.where(silent, 9.0, z), [0], silent)
    np.testing.assert_allclose(actual[:, 50:], (weights @ design_matrix(filled, [0]))[:, 50:], atol=0.05)
    np.testing.assert_array_equal(actual[:, :50], (weights @ design_matrix(z, [0]))[:, :50])
    nothing = np.zeros_like(silent)
    np.testing.assert_allclose(predict(weights, z, [0], nothing), weights @ design_matrix(z, [0]), atol=1e-12)


def test_a_square_that_rounding_made_negative_counts_as_zero():
    """As of a lag beyond a short observation, whose gram is computed by gains and losses."""
    products = np.array([[-1e-16, 4.0, 0.0], [4.0, 2.0, 0.0], [0.0, 0.0, 10.0]])
    missing = np.zeros((3, 3))
    missing[1, 1] = 1
    gram = Gram(products, missing).matrix()
    assert np.isfinite(gram).all()
    assert gram[0].tolist() == [0.0, 0.0, 0.0]
