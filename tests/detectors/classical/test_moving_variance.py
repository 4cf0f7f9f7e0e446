import numpy as np
import pytest

from tsadc.detectors.classical.moving_variance import MovingVariance


@pytest.fixture(scope="module")
def detector() -> MovingVariance:
    history = np.random.default_rng(0).normal(size=(1200, 3)) * [1.0, 5.0, 0.2]
    return MovingVariance(length=24, config=MovingVariance.Config(window=7)).fit(history)


def test_distances_against_numpy(detector):
    z = np.random.default_rng(1).normal(size=(3, 24)).astype(np.float32) + 1000
    z[0, 5:9], z[1, :17] = np.nan, np.nan
    found = detector._distances(z)
    for k in range(3):
        for i in range(18):
            values = z[k, i : i + 7].astype(np.float64)
            known = values[np.isfinite(values)]
            expected = known.std() if len(known) > 1 else np.nan
            assert found[k, i] == pytest.approx(expected, rel=1e-4, nan_ok=True)


def test_the_score_is_the_root_of_the_summed_variances(detector):
    new = np.random.default_rng(2).normal(size=(24, 3)) * [1.0, 5.0, 0.2]
    z = detector.scaler_("series", new)
    windows = np.array([np.sqrt(z[i : i + 7].var(axis=0).sum()) for i in range(18)])
    rows = [windows[max(row - 6, 0) : row + 1].mean() for row in range(24)]
    result = detector.detect(new)
    np.testing.assert_allclose(result.timeline["score"], rows, rtol=1e-5)
    assert result.observations["score"][0] == pytest.approx(max(rows), rel=1e-5)


def test_a_level_is_not_seen_but_its_change_is(detector):
    new = np.random.default_rng(3).normal(size=(10, 24, 3)) * [1.0, 5.0, 0.2]
    usual = detector.decision_function(new)
    new[4, :, 1] += 100.0
    np.testing.assert_allclose(detector.decision_function(new), usual, rtol=1e-4)
    new[7, 12:, 1] += 100.0
    assert detector.decision_function(new).argmax() == 7
