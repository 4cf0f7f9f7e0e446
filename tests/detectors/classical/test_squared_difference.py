import numpy as np
import pytest

from tsadc.detectors.classical.squared_difference import SquaredDifference


@pytest.fixture(scope="module")
def detector() -> SquaredDifference:
    history = np.random.default_rng(0).normal(size=(1200, 3)).cumsum(axis=0)
    return SquaredDifference(length=24, config=SquaredDifference.Config(window=5)).fit(history)


def test_distances_against_one_window_at_a_time(detector):
    z = np.random.default_rng(1).normal(size=(3, 24)).astype(np.float32)
    z[0, 5:9], z[1, :17] = np.nan, np.nan
    found = detector._distances(z)
    assert found.shape == (3, 20)
    for k in range(3):
        for i in range(20):
            change = np.diff(z[k, i : i + 5].astype(np.float64))
            known = change[np.isfinite(change)]
            expected = np.sqrt(np.mean(known**2)) if len(known) else np.nan
            assert found[k, i] == pytest.approx(expected, rel=1e-6, nan_ok=True)


def test_noise_on_a_slow_signal_is_found_and_blamed(detector):
    rng = np.random.default_rng(2)
    new = rng.normal(size=(240, 3)).cumsum(axis=0)
    new[150:160, 2] += 6.0 * rng.normal(size=10)
    result = detector.detect(new)
    assert result.observations["score"].argmax() == 6
    assert 145 < result.timeline["score"].argmax() < 165
    assert next(iter(result.worst(1).iloc[0]["variables"])) == "variable_2"
