import numpy as np
import pytest

from tsadc.detectors.head.linear import EXPLAINED, LAGS, LARGEST, PENALTY, Linear


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


def known(z: np.ndarray) -> np.ndarray:
    return np.clip(np.nan_to_num(z), -LARGEST, LARGEST)


def slow_design(z: np.ndarray) -> np.ndarray:
    rows = np.zeros((z.shape[1], 4 * (LAGS + 1) + 1))
    for step in range(z.shape[1]):
        for lag in range(LAGS + 1):
            if step >= lag:
                rows[step, 4 * lag : 4 * lag + 4] = known(z)[:, step - lag]
        rows[step, -1] = 1
    return rows


def test_the_regression_against_one_system_for_each_variable(observations):
    linear = Linear.fit(iter(observations))
    design = np.concatenate([slow_design(z) for z in observations])
    targets = np.concatenate([known(z).T for z in observations])
    for k in range(4):
        others = [j for j in range(design.shape[1]) if j == design.shape[1] - 1 or j % 4 != k]
        x = design[:, others]
        weights = np.linalg.solve(x.T @ x + PENALTY * len(x) * np.eye(len(others)), x.T @ targets[:, k])
        z = observations[0]
        expected = z[k] - slow_design(z)[:, others] @ weights
        np.testing.assert_allclose(linear.unexplained(z)[k], expected, atol=1e-9)
    rest = linear.unexplained(observations[0])
    assert np.abs(rest[2, 1:]).mean() < 0.1 < np.abs(rest[3]).mean()


def test_components_against_a_singular_value_decomposition(observations):
    linear = Linear.fit(iter(observations))
    steps = np.concatenate([known(z).T for z in observations])
    center = steps.mean(axis=0)
    _, size, directions = np.linalg.svd(steps - center, full_matrices=False)
    share = np.cumsum(size**2) / np.sum(size**2)
    count = min(int(np.argmax(share >= EXPLAINED)) + 1, 3)
    assert len(linear.components) == count
    basis = directions[:count]
    z = observations[0]
    expected = z - ((z.T - center) @ basis.T @ basis + center).T
    np.testing.assert_allclose(linear.apart(z), expected, atol=1e-9)


def test_what_was_not_measured_has_no_residual(observations):
    linear = Linear.fit(iter(observations))
    for residual in (linear.apart(observations[1]), linear.unexplained(observations[1])):
        np.testing.assert_array_equal(np.isnan(residual), np.isnan(observations[1]))


def test_state_keeps_everything(observations):
    linear = Linear.fit(iter(observations))
    again = Linear.restore(linear.state())
    z = observations[3]
    assert again.apart(z).tobytes() == linear.apart(z).tobytes()
    assert again.unexplained(z).tobytes() == linear.unexplained(z).tobytes()
