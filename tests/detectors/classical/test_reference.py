import numpy as np
import pytest
from scipy.stats import kstest

from tsadc.detectors.classical.reference import AllPositive, Chance
from tsadc.detectors.store import load
from tsadc.evaluate.ranking import auroc


@pytest.fixture(scope="module")
def history() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(8 * 1500, 3))


@pytest.fixture(scope="module")
def detector(history) -> Chance:
    return Chance(length=8, contamination=0.1).fit(history)


def test_scores_are_uniform_and_independent_of_the_values(detector, history):
    scores = detector.decision_scores_
    assert kstest(scores, "uniform").pvalue > 0.001
    size = np.abs(history).reshape(1500, -1).max(axis=1)
    assert abs(auroc(size > np.median(size), scores) - 0.5) < 0.05


def test_the_threshold_flags_as_many_as_are_expected(detector):
    fresh = np.random.default_rng(1).normal(size=(8 * 1500, 3))
    assert detector.predict(fresh).mean() == pytest.approx(0.1, abs=0.04)


def test_another_seed_draws_other_numbers(history):
    first, second = (Chance(length=8, seed=seed).fit(history).decision_scores_ for seed in (0, 1))
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.1


def test_a_score_depends_on_every_value(detector, history):
    scores = detector.decision_function(history[:800])
    changed = history[:800].copy()
    changed[::8, 1] += 0.01
    assert not np.isin(detector.decision_function(changed), scores).any()


def test_all_steps_of_an_observation_have_its_score(detector, history):
    result = detector.detect(history[:80])
    steps = result.timeline["score"].to_numpy().reshape(10, 8)
    np.testing.assert_array_equal(steps, np.repeat(result.observations["score"].to_numpy()[:, None], 8, axis=1))
    assert result.expected is None


@pytest.mark.parametrize("contamination", [0.01, 0.4, "auto"])
def test_everything_is_flagged(contamination, tmp_path):
    history = np.random.default_rng(0).normal(size=(20, 16, 2))
    detector = AllPositive(length=16, contamination=contamination).fit(history)
    assert detector.labels_.tolist() == [1] * 20
    new = history[:3].copy()
    new[1, 4:7] = np.nan
    assert detector.predict(new).tolist() == [1, 1, 1]
    result = detector.detect(new)
    assert result.observations["score"].tolist() == [1.0, 1.0, 1.0]
    np.testing.assert_array_equal(result.timeline["score"].to_numpy(), [1] * 20 + [np.nan] * 3 + [1] * 25)
    np.testing.assert_array_equal(result.variables.to_numpy() == 1, np.isfinite(new.reshape(-1, 2)))
    detector.save(tmp_path / "model")
    assert load(tmp_path / "model").predict(new).tolist() == [1, 1, 1]
