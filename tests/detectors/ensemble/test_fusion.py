import numpy as np
import pytest
from scipy.stats import spearmanr

from tsadc.detectors.ensemble.fusion import MAX_SKEW, Fusion


def slow_weights(scores: np.ndarray) -> np.ndarray:
    """The tenth at either end, rounded up, against the median; redundancy with the views that agree."""
    weights = []
    for column in scores.T:
        ordered, middle = sorted(column), np.median(column)
        number = -(-len(ordered) // 10)
        upper = np.mean(ordered[-number:]) - middle
        lower = middle - np.mean(ordered[:number])
        redundancy = sum(max(spearmanr(column, other).statistic, 0) ** 2 for other in scores.T)
        weights.append((upper / lower) ** 3 / redundancy)
    return np.array(weights) / np.mean(weights)


def test_weights_against_a_slow_definition():
    scores = np.random.default_rng(0).normal(size=(57, 3))
    scores[:9, 1] += 4
    scores[:, 2] = np.round(scores[:, 2] + scores[:, 0], 1)
    fusion = Fusion.fit(scores)
    np.testing.assert_allclose(fusion.middle, np.median(scores, axis=0))
    np.testing.assert_allclose(fusion.weight, slow_weights(scores))
    np.testing.assert_allclose(fusion(scores), ((scores - fusion.middle) * fusion.weight).sum(axis=1))


def test_a_view_that_detects_hidden_anomalies_outweighs_noise():
    rng = np.random.default_rng(1)
    scores = rng.normal(size=(200, 4))
    scores[:30, 2] += 4
    fusion = Fusion.fit(scores)
    assert fusion.weight.argmax() == 2
    assert fusion.weight[2] > 5 * np.delete(fusion.weight, 2).max()
    new = rng.normal(size=(400, 4))
    new[:200, 2] += 2
    flagged = fusion(new) > np.median(fusion(new))
    plain = new.sum(axis=1) > np.median(new.sum(axis=1))
    truth = np.arange(400) < 200
    assert (flagged == truth).mean() > (plain == truth).mean() + 0.05


def test_without_hidden_anomalies_the_weights_are_about_equal():
    fusion = Fusion.fit(np.random.default_rng(2).normal(size=(2000, 5)) * [0.1, 1, 1, 3, 0.5])
    assert np.abs(fusion.weight - 1).max() < 0.4


def test_a_constant_view_adds_nothing_and_the_weight_of_a_wild_one_is_bounded():
    scores = np.random.default_rng(3).normal(size=(50, 3))
    scores[:, 1] = 7.0
    scores[:10, 2] = 1e6
    fusion = Fusion.fit(scores)
    assert np.isfinite(fusion.weight).all()
    assert fusion.weight[2] / fusion.weight[1] == pytest.approx(MAX_SKEW**3, rel=0.01)
    assert fusion(np.array([fusion.middle[0], 7.0, fusion.middle[2]])) == pytest.approx(0)


def test_trust_multiplies_the_weight():
    scores = np.random.default_rng(8).normal(size=(60, 3))
    plain, trusting = Fusion.fit(scores), Fusion.fit(scores, np.array([1.0, 2.0, 1.0]))
    np.testing.assert_allclose(trusting.weight[1] / trusting.weight[[0, 2]], 2 * plain.weight[1] / plain.weight[[0, 2]])
    assert trusting.weight.mean() == pytest.approx(1)


def test_copies_of_a_view_count_as_one():
    scores = np.random.default_rng(6).normal(size=(300, 2))
    single = Fusion.fit(scores)
    three = Fusion.fit(np.column_stack([scores[:, 0], scores, scores[:, 0]]))
    new = np.array([0.7, -0.4])
    # All weights are 1 on average, of two views or of four.
    assert three(new[[0, 0, 1, 0]]) == pytest.approx(2 * single(new), rel=0.05)


def test_a_view_that_is_always_nan_changes_nothing():
    scores = np.random.default_rng(7).normal(size=(40, 3))
    scores[:, 1] = np.nan
    fusion = Fusion.fit(scores)
    assert np.isfinite(fusion.weight).all()
    expected = ((scores - fusion.middle) * fusion.weight)[:, [0, 2]].sum(axis=1)
    np.testing.assert_allclose(fusion(scores), expected)


def test_far_above_the_training_scores_a_view_counts_in_full():
    fusion = Fusion(np.zeros(2), np.array([0.01, 1.5]), np.array([2.0, 2.0]))
    assert fusion(np.array([2.0 + np.log(3), 0.0])) == pytest.approx(0.01 * (2 + np.log(3)))
    assert fusion(np.array([7.0, 0.0])) == pytest.approx(0.07 + 0.99 * (5 - np.log(3)))
    assert fusion(np.array([0.0, 7.0])) == pytest.approx(1.5 * 7)
    assert Fusion.fit(np.arange(20.0).reshape(10, 2)).top.tolist() == [18.0, 19.0]


def test_steps_that_do_not_peak_together():
    fusion = Fusion(np.array([1.0, 0.0, 2.0]), np.array([1.0, 2.0, 0.5]), np.full(3, 9.0))
    first, second = np.array([1.0, 5.0, 1.0, np.nan]), np.array([0.0, 0.0, 1.5, 9.0])
    measured = np.array([True, True, True, False])
    fused = fusion.fuse([first, second, 4.0], measured)
    assert fused.view_scores == [4.0, 3.0, 1.0]
    assert fused.score == 8.0
    # Together the steps add up to 1, 5 and 4; the worst is raised to what the highest of each view add up to.
    np.testing.assert_allclose(fused.steps, [4.0, 8.0, 7.0, np.nan])
    np.testing.assert_array_equal(fused.causes[:3], [2, 0, 1])


def test_a_step_that_is_nan_in_one_view_is_scored_by_the_others():
    fusion = Fusion(np.zeros(2), np.ones(2), np.zeros(2))
    fused = fusion.fuse([np.array([np.nan, np.nan]), np.array([1.0, 3.0])], np.array([True, True]))
    assert fused.score == 3.0
    np.testing.assert_allclose(fused.steps, [1.0, 3.0])
    assert np.isnan(fused.view_scores[0])
    np.testing.assert_array_equal(fused.causes, [1, 1])


def test_state_keeps_everything():
    fusion = Fusion.fit(np.random.default_rng(4).normal(size=(20, 3)))
    again = Fusion.restore(fusion.state())
    scores = np.random.default_rng(5).normal(size=(4, 3))
    assert again(scores).tobytes() == fusion(scores).tobytes()
