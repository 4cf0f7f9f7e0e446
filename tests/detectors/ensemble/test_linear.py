import numpy as np
import pytest

from tsadc.detectors.ensemble.linear import (
    COVARIANCE_CLIP,
    EXPLAINED,
    LAGS,
    PENALTY,
    Linear,
    gram_matrix,
    project,
    ridge_weights,
)


@pytest.fixture
def observations() -> list[np.ndarray]:
    """Variable 2 is the sum of the others one step ago; variable 3 is noise."""
    rng = np.random.default_rng(0)
    out = []
    for _ in range(6):
        z = rng.normal(size=(4, 50))
        z[2, 1:] = z[0, :-1] + z[1, :-1]
        out.append(z)
    out[1][0, 5] = np.nan
    out[2][3, 7] = 1e5
    return out


def with_gaps(observations: list[np.ndarray]) -> list[np.ndarray]:
    """A tenth of the cells is missing, and ten whole steps."""
    rng = np.random.default_rng(1)
    out = [np.where(rng.random(z.shape) < 0.1, np.nan, z) for z in observations]
    out[3][:, 20:30] = np.nan
    return out


def slow_design(z: np.ndarray) -> np.ndarray:
    """(time, feature); NaN where it was not measured, 0 before the start."""
    rows = np.zeros((z.shape[1], 4 * (LAGS + 1) + 1))
    for step in range(z.shape[1]):
        for lag in range(LAGS + 1):
            if step >= lag:
                rows[step, 4 * lag : 4 * lag + 4] = np.clip(z[:, step - lag], -COVARIANCE_CLIP, COVARIANCE_CLIP)
        rows[step, -1] = 1
    return rows


def slow_moments(observations: list[np.ndarray]) -> np.ndarray:
    """The mean of each product over the steps that have it, among those at which something was measured."""
    design = np.concatenate([slow_design(z)[~np.isnan(z).all(axis=0)] for z in observations])
    size = design.shape[1]
    return np.array([[np.nanmean(design[:, i] * design[:, j]) for j in range(size)] for i in range(size)])


@pytest.mark.parametrize("made", [list, with_gaps])
def test_the_regression_against_one_system_for_each_variable(observations, made):
    observations = made(observations)
    linear = Linear.fit(iter(observations))
    gram = slow_moments(observations)
    assert np.linalg.eigvalsh(gram).min() > 0
    for k in range(4):
        others = [j for j in range(len(gram)) if j == len(gram) - 1 or j % 4 != k]
        weights = np.linalg.solve(gram[np.ix_(others, others)] + PENALTY * np.eye(len(others)), gram[others, k])
        z = observations[0]
        expected = z[k] - np.nan_to_num(slow_design(z))[:, others] @ weights
        np.testing.assert_allclose(linear.ridge_residual(z)[k], expected, atol=1e-9)
    rest = linear.ridge_residual(observations[0])
    assert np.nanmean(np.abs(rest[3])) > 0.1
    if made is list:
        assert np.abs(rest[2, 1:]).mean() < 0.1


def test_missing_values_do_not_weaken_dependencies():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(20, 1, 100)).repeat(2, axis=1)
    complete = Linear.fit(z)
    z[:, 1][rng.random((20, 100)) < 0.4] = np.nan
    gaps = Linear.fit(z)
    assert complete.weights[1, 0] == pytest.approx(0.999, abs=5e-4)
    assert gaps.weights[1, 0] == pytest.approx(0.999, abs=0.03)
    assert gaps.weights[0, 1] == pytest.approx(complete.weights[0, 1], abs=0.03)
    np.testing.assert_allclose(np.abs(gaps.components), np.sqrt(0.5), atol=0.01)
    np.testing.assert_allclose(gaps.center, complete.center, atol=0.05)


def test_steps_without_any_value_are_skipped(observations):
    longer = [np.concatenate([np.full((4, 30), np.nan), z], axis=1) for z in observations[3:]]
    actual = gram_matrix(longer, lags=0)
    np.testing.assert_allclose(actual, gram_matrix(observations[3:], lags=0), rtol=1e-12)
    assert actual[-1, -1] == 150


def test_negative_eigenvalues_are_removed():
    """Three variables, any two of which are never measured with the third: a = b, b = c and a = -c."""
    x = np.random.default_rng(0).normal(size=(3, 2000))
    z = np.full((3, 6000), np.nan)
    for number, (i, j, sign) in enumerate([(0, 1, 1), (1, 2, 1), (0, 2, -1)]):
        z[i, 2000 * number : 2000 * number + 2000] = x[number]
        z[j, 2000 * number : 2000 * number + 2000] = sign * x[number]
    gram = gram_matrix([z], lags=0)
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
    gram = gram_matrix([z], lags=0)
    mean = [np.nanmean(z[0]), np.nanmean(z[1])]
    np.testing.assert_allclose(gram[0, 1], 400 * mean[0] * mean[1])
    np.testing.assert_allclose(gram[0, 0], 2 * np.nansum(z[0] ** 2))
    np.testing.assert_allclose(ridge_weights(gram, 2, 1e-9)[:, :2], 0, atol=1e-6)


def test_missing_values_are_taken_to_be_the_mean():
    components, center = np.array([[0.6, 0.8]]), np.array([2.0, -1.0])
    actual = project(np.array([[np.nan, 3.0], [4.0, 3.0]]), center, components)
    np.testing.assert_allclose(actual, [[2 + 0.6 * 4, 2 + 0.6 * 3.8], [-1 + 0.8 * 4, -1 + 0.8 * 3.8]])


def test_components_against_a_singular_value_decomposition(observations):
    observations[1][0, 5] = 0.3
    linear = Linear.fit(iter(observations))
    steps = np.concatenate([np.clip(z, -COVARIANCE_CLIP, COVARIANCE_CLIP).T for z in observations])
    center = steps.mean(axis=0)
    _, size, directions = np.linalg.svd(steps - center, full_matrices=False)
    share = np.cumsum(size**2) / np.sum(size**2)
    count = min(int(np.argmax(share >= EXPLAINED)) + 1, 3)
    assert len(linear.components) == count
    basis = directions[:count]
    z = observations[0]
    expected = z - ((z.T - center) @ basis.T @ basis + center).T
    np.testing.assert_allclose(linear.pca_residual(z), expected, atol=1e-9)


def test_missing_values_have_no_residual(observations):
    linear = Linear.fit(iter(observations))
    for residual in (linear.pca_residual(observations[1]), linear.ridge_residual(observations[1])):
        np.testing.assert_array_equal(np.isnan(residual), np.isnan(observations[1]))


def test_state_keeps_everything(observations):
    linear = Linear.fit(iter(observations))
    again = Linear.restore(linear.state())
    z = observations[3]
    assert again.pca_residual(z).tobytes() == linear.pca_residual(z).tobytes()
    assert again.ridge_residual(z).tobytes() == linear.ridge_residual(z).tobytes()
