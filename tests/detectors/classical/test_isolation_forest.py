import numpy as np
import pytest
from sklearn.ensemble import IsolationForest

from tsadc.detectors.classical.isolation_forest import Forest, as_arrays, expected_path, forest_score
from tsadc.detectors.store import load
from tsadc.errors import ConfigError, TsadcNotice


@pytest.fixture(scope="module")
def history() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(120, 40, 3))


@pytest.fixture(scope="module")
def detector(history) -> Forest:
    return Forest(length=40).fit(history)


@pytest.mark.parametrize("count", [3, 50, 400])
def test_trees_as_arrays_score_as_scikit_learn_does(count):
    rng = np.random.default_rng(count)
    rows = rng.normal(size=(count, 6)).astype(np.float32)
    rows[: count // 3, 2] = 0.5
    grown = IsolationForest(n_estimators=30, max_samples=min(256, count), random_state=1).fit(rows)
    trees = as_arrays(grown)
    new = np.concatenate([rows[:20], 3 * rng.normal(size=(20, 6)).astype(np.float32)])
    np.testing.assert_allclose([forest_score(trees, row) for row in new], -grown.score_samples(new), rtol=1e-12)


def test_the_expected_path():
    """Of a random tree of n observations the mean path obeys a recurrence; the paper's formula is nearly that."""
    mean = [0.0, 0.0]
    for n in range(2, 300):
        mean.append(1 + sum(i / n * mean[i] + (n - i) / n * mean[n - i] for i in range(1, n)) / (n - 1))
    np.testing.assert_allclose(expected_path(np.arange(300))[[0, 1, 2]], mean[:3])
    np.testing.assert_allclose(expected_path(np.arange(300))[50:], mean[50:], rtol=0.01)


@pytest.mark.parametrize("factor", [3.0, 0.1])
def test_an_unusual_observation_ranks_first(detector, factor):
    new = np.random.default_rng(1).normal(size=(15, 40, 3))
    new[6] *= factor
    result = detector.detect(new)
    assert result.observations["score"].argmax() == 6
    assert result.observations["anomalous"][6]


def test_the_anomalous_variable_contributes_most(detector):
    new = np.random.default_rng(2).normal(size=(10, 40, 3))
    before = detector.decision_function(new)
    new[4, 10:20, 2] += 6
    result = detector.detect(new)
    assert result.observations["score"][4] > before[4] + 0.02
    assert result.variables.to_numpy().reshape(10, 40, 3)[4, 0].argmax() == 2


def test_gaps_a_constant_variable_and_a_saved_model(history, tmp_path):
    still = history.copy()
    still[:, :, 1] = 1.0
    still[2, 3:20] = np.nan
    with pytest.warns(TsadcNotice, match="Constant throughout the history"):
        detector = Forest(length=40, config=Forest.Config(trees=50)).fit(still)
    new = still[:10].copy()
    new[3, :, 0] = np.nan
    new[7, 5:] *= 4
    scores = detector.decision_function(new)
    assert np.isfinite(scores).all()
    assert scores.argmax() == 7
    detector.save(tmp_path / "model")
    assert load(tmp_path / "model").decision_function(new).tobytes() == scores.tobytes()


def test_settings_out_of_range():
    with pytest.raises(ConfigError, match="`trees` must be at least 1"):
        Forest.Config(trees=0)
