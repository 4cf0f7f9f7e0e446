import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from tsadc.detectors.ensemble.fusion import Fusion
from tsadc.detectors.ensemble.views import Explained


def slow_weights(scores: np.ndarray) -> np.ndarray:
    """One over the sum of the squared positive rank correlations, with mean 1."""
    weights = []
    for column in scores.T:
        redundancy = sum(max(spearmanr(column, other).statistic, 0) ** 2 for other in scores.T)
        weights.append(1 / redundancy)
    return np.array(weights) / np.mean(weights)


def slow_score(fusion: Fusion, scores: np.ndarray) -> float:
    total = 0.0
    for s, middle, weight in zip(scores, fusion.middle, fusion.weight, strict=True):
        if not np.isnan(s):
            total += weight * (s - middle) * (1.0 if s > middle else 0.25)
    return total


def test_weights_and_scores_against_a_slow_definition():
    scores = np.random.default_rng(0).normal(size=(57, 3)) * [1, 5, 0.3]
    scores[:, 2] = np.round(scores[:, 2] + scores[:, 0], 1)
    fusion = Fusion.fit(scores)
    np.testing.assert_allclose(fusion.middle, np.median(scores, axis=0))
    np.testing.assert_allclose(fusion.weight, slow_weights(scores))
    np.testing.assert_allclose(fusion(scores), [slow_score(fusion, row) for row in scores])


def test_what_is_below_the_middle_counts_a_quarter():
    fusion = Fusion(np.array([1.0, 0.0]), np.array([1.5, 0.5]))
    assert fusion(np.array([3.0, 2.0])) == 1.5 * 2 + 0.5 * 2
    assert fusion(np.array([-1.0, 2.0])) == 0.25 * 1.5 * -2 + 0.5 * 2


def test_copies_of_a_view_count_as_one():
    scores = np.random.default_rng(6).normal(size=(300, 2))
    single = Fusion.fit(scores)
    three = Fusion.fit(np.column_stack([scores[:, 0], scores, scores[:, 0]]))
    new = np.array([0.7, 0.4])
    # All weights are 1 on average, of two views or of four.
    assert three(new[[0, 0, 1, 0]]) == pytest.approx(2 * single(new), rel=0.05)


def test_views_that_disagree_are_not_redundant():
    scores = np.random.default_rng(1).normal(size=(100, 1)) * [1, -1]
    np.testing.assert_allclose(Fusion.fit(scores).weight, 1)


def test_a_view_that_is_constant_or_always_nan_changes_no_score():
    scores = np.random.default_rng(7).normal(size=(40, 4))
    scores[:, 1], scores[:, 2] = np.nan, 3.0
    fusion = Fusion.fit(scores)
    assert np.isfinite(fusion.weight).all()
    np.testing.assert_allclose(fusion(scores), [slow_score(fusion, row) for row in scores])
    assert fusion(scores[0]) == pytest.approx(fusion(np.array([scores[0, 0], np.nan, 3.0, scores[0, 3]])))


def test_steps_that_do_not_peak_together():
    fusion = Fusion(np.array([1.0, 0.0, 2.0]), np.array([1.0, 2.0, 0.5]))
    views = [
        Explained(np.array([1.0, 5.0, 1.0, np.nan]), np.ones((2, 4))),
        Explained(np.array([0.0, 0.0, 1.5, 9.0]), np.ones((2, 1))),
        Explained(4.0, np.ones((2, 1))),
    ]
    fused = fusion.fuse(views, np.array([[True, True, True, False], [True, False, True, False]]))
    assert fused.view_scores == [4.0, 3.0, 1.0]
    assert fused.score == 8.0
    # The views that score steps add up to 0, 4 and 3, of 4 at most: 8 - 1.25 * 8 * (1 - share).
    np.testing.assert_allclose(fused.steps, [-2.0, 8.0, 5.5, np.nan])
    np.testing.assert_array_equal(fused.causes[:3], [2, 0, 1])


def test_a_view_without_a_score_is_left_out():
    fusion = Fusion(np.zeros(2), np.ones(2))
    views = [Explained(np.array([np.nan, np.nan]), np.ones((1, 2))), Explained(np.array([1.0, 3.0]), np.ones((1, 2)))]
    fused = fusion.fuse(views, np.array([[True, True]]))
    assert fused.score == 3.0
    np.testing.assert_allclose(fused.steps, [0.5, 3.0], atol=1e-6)
    assert fused.view_scores == [0.0, 3.0]
    np.testing.assert_array_equal(fused.causes, [1, 1])


def test_evidence_is_divided_by_the_squares_of_the_cells():
    fusion = Fusion(np.array([0.0, 1.0]), np.array([1.0, 1.0]))
    views = [
        Explained(np.array([5.0, 2.0]), np.array([[3.0, 0.0], [4.0, np.nan]])),
        Explained(-7.0, np.array([[1.0], [1.0]])),  # nothing speaks for an anomaly
    ]
    fused = fusion.fuse(views, np.array([[True, True], [True, True]]))
    np.testing.assert_allclose(fused.contributions, [[5 * 9 / 25, 0], [5 * 16 / 25, 0]])


@st.composite
def explanations(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    views, variables, length = draw(st.integers(1, 5)), draw(st.integers(1, 4)), draw(st.integers(1, 9))
    size = draw(st.sampled_from([1e-3, 1.0, 1e6, 1e30]))
    measured = rng.random((variables, length)) < draw(st.sampled_from([0.3, 0.8, 1.0]))
    measured[0, 0] = True
    out = []
    for _ in range(views):
        score = float(rng.normal()) if rng.random() < 0.4 else rng.normal(size=length) * 3
        cells = np.abs(rng.normal(size=(variables, length if rng.random() < 0.6 else 1))) * size
        cells[rng.random(cells.shape) < 0.2] = np.nan
        out.append(Explained(score, cells))
    return Fusion(rng.normal(size=views), rng.uniform(0.2, 2, size=views)), out, measured


@given(explanations())
def test_steps_and_contributions_of_any_explanation(case):
    fusion, views, measured = case
    fused = fusion.fuse(views, measured)
    some = measured.any(axis=0)
    assert np.isnan(fused.steps).tolist() == (~some).tolist()
    assert fused.score == np.nanmax(fused.steps)
    rows = [np.broadcast_to(view.score, some.shape)[some] for view in views]
    highest = np.array([row.max() for row in rows])
    assert fused.score == np.float32(fusion(highest))
    assert fused.score == pytest.approx(sum(fused.view_scores), abs=1e-5)
    assert (fused.contributions >= 0).all()
    assert (fused.contributions[~measured] == 0).all()
    for step in np.flatnonzero(some):
        evidence = 0.0
        for view, middle, weight in zip(views, fusion.middle, fusion.weight, strict=True):
            cells = np.broadcast_to(view.cells, measured.shape)[measured[:, step], step]
            if np.nan_to_num(cells).any():
                evidence += weight * max(np.broadcast_to(view.score, some.shape)[step] - middle, 0)
        assert fused.contributions[:, step].sum() == pytest.approx(evidence)
