import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import auc, precision_recall_curve

from tsadc.errors import DataError
from tsadc.evaluate.ranking import (
    Cut,
    PaperMetrics,
    all_positive_f1,
    auroc,
    average_precision,
    cut,
    oracle_f1,
    paper_metrics,
)

# Whole numbers in a small range: ties are frequent.
ranked = st.lists(st.tuples(st.booleans(), st.integers(-3, 3)), min_size=2, max_size=30).filter(
    lambda rows: len({label for label, _ in rows}) == 2
)


def arrays(rows: list[tuple[bool, int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([label for label, _ in rows]), np.array([score for _, score in rows], dtype=float)


def slow_auroc(labels: np.ndarray, scores: np.ndarray) -> float:
    pairs = [(a, n) for a in scores[labels] for n in scores[~labels]]
    return sum(1.0 if a > n else 0.5 if a == n else 0.0 for a, n in pairs) / len(pairs)


def slow_average_precision(labels: np.ndarray, scores: np.ndarray) -> float:
    """Each anomaly contributes the precision of flagging everything that scores at least as high."""
    precisions = [labels[scores >= scores[i]].mean() for i in np.flatnonzero(labels)]
    return float(np.mean(precisions))


@given(ranked)
def test_auroc_counts_pairs(rows: list[tuple[bool, int]]) -> None:
    labels, scores = arrays(rows)
    assert auroc(labels, scores) == pytest.approx(slow_auroc(labels, scores))


@given(ranked)
def test_average_precision_walks_down_the_ranks(rows: list[tuple[bool, int]]) -> None:
    labels, scores = arrays(rows)
    assert average_precision(labels, scores) == pytest.approx(slow_average_precision(labels, scores))


@given(ranked)
def test_only_the_order_of_scores_matters(rows: list[tuple[bool, int]]) -> None:
    labels, scores = arrays(rows)
    assert auroc(labels, np.exp(scores)) == pytest.approx(auroc(labels, scores))
    assert auroc(labels, -scores) == pytest.approx(1 - auroc(labels, scores))
    assert average_precision(labels, 3 * scores + 1) == pytest.approx(average_precision(labels, scores))


def test_by_hand() -> None:
    labels = np.array([True, False, True, False, False])
    scores = np.array([0.9, 0.8, 0.7, 0.1, 0.0])
    assert auroc(labels, scores) == pytest.approx(5 / 6)
    assert average_precision(labels, scores) == pytest.approx((1 + 2 / 3) / 2)
    assert cut(labels, scores > 0.5) == Cut(pytest.approx(2 / 3), 1.0, pytest.approx(0.8))
    assert cut(labels, scores > 0.85) == Cut(1.0, 0.5, pytest.approx(2 / 3))


def test_a_constant_score_is_worth_the_prevalence() -> None:
    labels = np.array([True, False, False, False])
    assert auroc(labels, np.zeros(4)) == 0.5
    assert average_precision(labels, np.zeros(4)) == 0.25


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=30))
def test_cut_counts(rows: list[tuple[bool, bool]]) -> None:
    labels, flagged = (np.array(column, dtype=bool) for column in (zip(*rows, strict=True) if rows else ([], [])))
    hit = sum(label and flag for label, flag in rows)
    false = sum(flag and not label for label, flag in rows)
    missed = sum(label and not flag for label, flag in rows)
    found = cut(labels, flagged)
    assert found.precision == pytest.approx(hit / (hit + false) if hit else 0)
    assert found.recall == pytest.approx(hit / (hit + missed) if hit else 0)
    assert found.f1 == pytest.approx(2 * hit / (2 * hit + false + missed) if hit else 0)


def test_cut_takes_whole_numbers_for_flags() -> None:
    assert cut(np.array([1, 0, 1, 0]), np.array([1, 1, 0, 0])) == Cut(0.5, 0.5, 0.5)


@pytest.mark.parametrize("anomalous", [0, 1, 3, 10])
def test_all_positive_f1(anomalous: int) -> None:
    labels = np.arange(10) < anomalous
    prevalence = anomalous / 10
    assert all_positive_f1(labels) == pytest.approx(2 * prevalence / (1 + prevalence))


@pytest.mark.parametrize("measure", [auroc, average_precision])
@pytest.mark.parametrize(
    ("labels", "scores", "sentence"),
    [
        ([True, True], [1.0, 2.0], "the labels are all alike"),
        ([False, False], [1.0, 2.0], "the labels are all alike"),
        ([], [], "the labels are all alike"),
        ([True, False], [1.0], "2 labels for 1 scores"),
        ([True, False], [1.0, np.nan], "score 1 is nan"),
        ([True, False], [np.inf, 0.0], "score 0 is inf"),
    ],
)
def test_what_cannot_be_ranked_is_refused(measure, labels: list[bool], scores: list[float], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        measure(np.array(labels, dtype=bool), np.array(scores))


def test_cut_needs_a_flag_for_every_label() -> None:
    with pytest.raises(DataError, match="3 labels for 1 scores"):
        cut(np.array([True, False, True]), np.array([True]))


@given(ranked)
def test_oracle_f1_tries_every_threshold(rows: list[tuple[bool, int]]) -> None:
    labels, scores = arrays(rows)
    assert oracle_f1(labels, scores) == pytest.approx(max(cut(labels, scores >= t).f1 for t in set(scores.tolist())))
    assert oracle_f1(labels, scores) >= all_positive_f1(labels) - 1e-12


@given(
    st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=30).filter(lambda r: any(a for a, _ in r))
)
def test_paper_apr_is_the_trapezoid_under_the_curve_of_hard_verdicts(rows: list[tuple[bool, bool]]) -> None:
    labels, flagged = (np.array(column) for column in zip(*rows, strict=True))
    precision, recall, _ = precision_recall_curve(labels, flagged.astype(float))
    found, plain = paper_metrics(labels, flagged), cut(labels, flagged)
    assert found.paper_apr == pytest.approx(auc(recall, precision))
    assert (found.paper_f1, found.paper_recall) == (plain.f1, plain.recall)


def test_paper_by_hand() -> None:
    """Precision and recall 1/2 at a prevalence of 2/5: (1 + 1/2) / 4 up to there, (1/2 + 2/5) / 4 beyond."""
    labels = np.array([True, True, False, False, False])
    flagged = np.array([True, False, True, False, False])
    assert paper_metrics(labels, flagged) == PaperMetrics(0.5, 0.5, pytest.approx(1.5 / 4 + 0.9 / 4))


@pytest.mark.parametrize("flag", [True, False])
def test_paper_apr_rewards_all_and_nothing_alike(flag: bool) -> None:
    labels = np.arange(10) < 4
    assert paper_metrics(labels, np.full(10, flag)).paper_apr == pytest.approx(0.7)


def test_balanced() -> None:
    assert Cut.of(0.5, 0.25) == Cut(0.5, 0.25, pytest.approx(1 / 3))
    assert Cut.of(0.0, 0.0) == Cut(0.0, 0.0, 0.0)
