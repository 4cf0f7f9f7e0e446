import numpy as np
import pytest

from tsadc.detectors.classical.robust_z import RobustZ, RobustZRMSE
from tsadc.scale import NORMAL_IQR


@pytest.fixture(scope="module")
def history() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(200, 5)) * [1, 2, 30, 4, 0.5] + 100


@pytest.fixture(scope="module")
def detector(history) -> RobustZ:
    return RobustZ(length=10).fit(history)


def slow_steps(history: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, list[float]]:
    """|z| of every cell, and at each step the mean of the three largest."""
    z = np.empty_like(new)
    for k in range(new.shape[1]):
        low, middle, high = np.quantile(history[:, k], [0.25, 0.5, 0.75])
        scale = max((high - low) / NORMAL_IQR, 0.2 * history[:, k].std(), 0.01 * np.ptp(history[:, k]))
        z[:, k] = np.abs(new[:, k] - middle) / scale
    steps = []
    for row in z:
        largest = sorted((x for x in row if not np.isnan(x)), reverse=True)[:3]
        steps.append(float(np.mean(largest)) if largest else np.nan)
    return z, steps


def test_scores_against_a_slow_definition(detector, history):
    rng = np.random.default_rng(1)
    new = history[:60] + rng.normal(size=(60, 5))
    new[rng.random(new.shape) < 0.3] = np.nan
    new[12:15] = np.nan
    z, steps = slow_steps(history, new)
    result = detector.detect(new)
    np.testing.assert_allclose(result.variables.to_numpy(), z, rtol=1e-5)
    np.testing.assert_allclose(result.timeline["score"], steps, rtol=1e-5)
    worst = np.nanmax(np.reshape(steps, (6, 10)), axis=1)
    np.testing.assert_allclose(result.observations["score"], worst, rtol=1e-5)
    np.testing.assert_array_equal(result.observations["deviation_score"], result.observations["score"])


def test_it_expects_the_median_where_something_was_measured(detector, history):
    new = history[:20].copy()
    new[3, 2] = np.nan
    expected = detector.detect(new).expected.to_numpy()
    middle = np.tile(np.median(history, axis=0), (20, 1))
    np.testing.assert_allclose(expected, np.where(np.isnan(new), np.nan, middle), rtol=1e-6)


def test_high_and_low_values_score_the_same(detector, history):
    middle = np.median(history, axis=0)
    up, down = np.tile(middle, (10, 1)), np.tile(middle, (10, 1))
    up[4], down[4] = middle + 8, middle - 8
    np.testing.assert_allclose(detector.decision_function(up), detector.decision_function(down), rtol=1e-5)
    assert detector.decision_function(np.tile(middle, (10, 1)))[0] == pytest.approx(0, abs=1e-6)


def test_pooled_by_root_mean_square(history):
    new = history[:30].copy()
    new[3, 2], new[14] = np.nan, np.nan
    z, _ = slow_steps(history, new)
    expected = np.sqrt(np.nanmean(np.square(z.reshape(3, -1)), axis=1))
    result = RobustZRMSE(length=10).fit(history).detect(new)
    np.testing.assert_allclose(result.observations["score"], expected, rtol=1e-5)
    np.testing.assert_allclose(result.variables.to_numpy(), z, rtol=1e-5)
    steps = result.timeline["score"].to_numpy()
    assert np.isnan(steps).nonzero()[0].tolist() == [14]
    np.testing.assert_allclose(steps[:10], expected[0], rtol=1e-5)


def test_root_mean_square_hides_short_anomalies_but_not_long_ones(history):
    rng = np.random.default_rng(2)
    history = rng.normal(size=(4000, 5))
    spike, wide = rng.normal(size=(2, 2000, 5))
    spike[250] += 8.0
    wide[200:300] *= 1.5
    sharp, pooled = RobustZ(length=100).fit(history), RobustZRMSE(length=100).fit(history)
    assert sharp.decision_function(spike).argmax() == pooled.decision_function(wide).argmax() == 2
    contrast = [np.sort(fitted.decision_function(spike))[-1] / fitted.threshold_ for fitted in (sharp, pooled)]
    assert contrast[0] > 1.5 * contrast[1]
