import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tsadc.errors import DataError
from tsadc.evaluate.ranking import average_precision
from tsadc.evaluate.volume import Volume, volume, volume_tsb
from tsadc.windows import runs

S = np.sqrt(0.5)
series = st.lists(st.tuples(st.booleans(), st.integers(-3, 3)), min_size=2, max_size=40).filter(
    lambda rows: len({label for label, _ in rows}) == 2
)
# Runs, so that events are longer and buffers meet now and then.
lumpy = st.lists(st.tuples(st.booleans(), st.integers(1, 9), st.integers(-3, 3)), min_size=2, max_size=12).filter(
    lambda parts: len({label for label, _, _ in parts}) == 2
)
# More rows than TSB-AD has thresholds, most of the time.
long = st.lists(st.tuples(st.booleans(), st.integers(1, 90)), min_size=2, max_size=12).filter(
    lambda parts: len({label for label, _ in parts}) == 2
)


def arrays(rows: list[tuple[bool, int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([label for label, _ in rows]), np.array([score for _, score in rows], dtype=float)


def lumps(parts: list[tuple[bool, int, int]]) -> tuple[np.ndarray, np.ndarray]:
    labels = np.concatenate([np.full(length, label) for label, length, _ in parts])
    noise = np.arange(len(labels)) * 7 % 5 / 2
    return labels, noise + np.concatenate([np.full(length, float(score)) for _, length, score in parts])


def soft_labels(labels: np.ndarray, width: int) -> np.ndarray:
    out = labels.astype(float)
    for start, stop in runs(labels):
        for i in range(len(labels)):
            distance = start - i if i < start else i - (stop - 1) if i >= stop else 0
            if 0 < distance <= width // 2:
                out[i] += np.sqrt(1 - distance / width)
    return np.minimum(out, 1)


def zones(labels: np.ndarray, width: int) -> list[tuple[int, int]]:
    """First and last row of events with their buffers; those that overlap are one."""
    out: list[tuple[int, int]] = []
    for start, stop in runs(labels):
        first, last = start - width // 2, stop - 1 + width // 2
        if out and first <= out[-1][1]:
            out[-1] = (out[-1][0], last)
        else:
            out.append((first, last))
    return [(max(first, 0), min(last, len(labels) - 1)) for first, last in out]


def slow_volume(labels: np.ndarray, scores: np.ndarray, buffer: int, thresholds: list[float] | None = None) -> Volume:
    pr, roc = [], []
    thresholds = sorted(set(scores.tolist()), reverse=True) if thresholds is None else thresholds
    for width in range(buffer + 1):
        soft, curve = soft_labels(labels, width), [(0.0, 0.0, 1.0)]
        for threshold in thresholds:
            flagged = scores >= threshold
            hits = soft[flagged].sum()
            positives = labels.sum() + soft[flagged & ~labels].sum() / 2
            share = np.mean([flagged[first : last + 1].any() for first, last in zones(labels, width)])
            recall = min(1, hits / positives) * share
            curve.append((recall, (flagged.sum() - hits) / (len(labels) - positives), hits / flagged.sum()))
        curve.append((1.0, 1.0, 0.0))
        pairs = list(pairwise(curve))
        roc.append(sum((b[1] - a[1]) * (a[0] + b[0]) / 2 for a, b in pairs))
        pr.append(sum((b[0] - a[0]) * b[2] for a, b in pairs[:-1]))
    return Volume(float(np.mean(pr)), float(np.mean(roc)))


def slow_volume_tsb(labels: np.ndarray, scores: np.ndarray, window: int) -> Volume:
    ranked = sorted(scores.tolist(), reverse=True)
    return slow_volume(labels, scores, window, [ranked[int(rank)] for rank in np.linspace(0, len(ranked) - 1, 250)])


@given(series, st.integers(0, 9))
def test_equals_the_definition(rows: list[tuple[bool, int]], buffer: int) -> None:
    labels, scores = arrays(rows)
    found, slow = volume(labels, scores, buffer), slow_volume(labels, scores, buffer)
    assert (found.pr, found.roc) == pytest.approx((slow.pr, slow.roc), abs=1e-12)


@given(lumpy, st.integers(0, 30))
def test_equals_the_definition_on_runs(parts: list[tuple[bool, int, int]], buffer: int) -> None:
    labels, scores = lumps(parts)
    found, slow = volume(labels, scores, buffer), slow_volume(labels, scores, buffer)
    assert (found.pr, found.roc) == pytest.approx((slow.pr, slow.roc), abs=1e-12)


def test_an_alarm_one_row_late_by_hand() -> None:
    """Widths 0 and 1 know no buffer. At width 2 the neighbours of the event count sqrt(1/2)."""
    labels = np.array([0, 0, 1, 0, 0], dtype=bool)
    late = np.array([0, 0, 0, 1.0, 0])
    assert volume(labels, late, 0) == Volume(pytest.approx(1 / 5), pytest.approx((1 - 1 / 4) / 2))
    recall, fallout = S / (1 + S / 2), (1 - S) / (4 - S / 2)
    end = (5 - (1 + 2 * S)) / (4 - S)  # of flagging all, where recall is 1
    pr = recall * S + (1 - recall) * (1 + 2 * S) / 5
    roc = fallout * recall / 2 + (end - fallout) * (recall + 1) / 2 + (1 - end)
    found = volume(labels, late, 2)
    assert found.pr == pytest.approx((1 / 5 + 1 / 5 + pr) / 3)
    assert found.roc == pytest.approx((3 / 8 + 3 / 8 + roc) / 3)


def test_two_buffers_that_meet_are_one_zone_by_hand() -> None:
    """The row between the events lies in both buffers and counts 1; flagged, it has found the only zone there is."""
    labels = np.array([1, 0, 1, 0, 0], dtype=bool)
    between = np.array([0, 1.0, 0, 0, 0])
    recall = 1 / 2.5  # its hit, of two rows and half of its own
    everything = (3 + S) / 5
    assert 3 * volume(labels, between, 2).pr == pytest.approx(2 * (2 / 5) + recall + (1 - recall) * everything)


@given(series, st.integers(0, 9))
def test_bounds_and_the_order_of_scores(rows: list[tuple[bool, int]], buffer: int) -> None:
    labels, scores = arrays(rows)
    found, same = volume(labels, scores, buffer), volume(labels, np.exp(scores) - 9, buffer)
    assert 0 <= found.pr <= 1 + 1e-12
    assert -1e-12 <= found.roc <= 1 + 1e-12
    assert (found.pr, found.roc) == pytest.approx((same.pr, same.roc))


@given(series, st.integers(0, 9))
def test_the_labels_themselves_are_perfect(rows: list[tuple[bool, int]], buffer: int) -> None:
    labels, _ = arrays(rows)
    found = volume(labels, labels.astype(float), buffer)
    assert (found.pr, found.roc) == pytest.approx((1, 1))


def test_one_event_without_buffer_is_average_precision_and_existence() -> None:
    """Once its first row is flagged the only event is found, so nothing but the curve is left."""
    labels = np.array([0, 0, 1, 1, 1, 0, 0, 0], dtype=bool)
    scores = np.array([3.0, 1, 9, 2, 5, 4, 0, 6])
    assert volume(labels, scores, 0).pr == pytest.approx(average_precision(labels, scores))


def test_a_constant_score_gets_the_mean_soft_share_not_more() -> None:
    labels = np.zeros(50, dtype=bool)
    labels[20:25] = True
    shares = [soft_labels(labels, width).mean() for width in range(11)]
    assert volume(labels, np.zeros(50), 10).pr == pytest.approx(np.mean(shares))
    assert np.mean(shares) < 0.5


def test_a_random_score_on_a_long_series() -> None:
    """With many long events existence comes soon, so the area is near a half, and precision near the soft share."""
    labels = np.arange(20000) % 400 < 40
    found = volume(labels, np.random.default_rng(0).random(20000), 20)
    shares = [soft_labels(labels[:400], width).mean() for width in range(21)]
    assert 0.5 < found.roc < 0.57
    assert found.pr == pytest.approx(np.mean(shares), abs=0.02)


def case() -> tuple[np.ndarray, np.ndarray]:
    rows = np.arange(120)
    labels = np.isin(rows, [3, *range(20, 31), *range(36, 40), *range(70, 95), 119])
    return labels, rows * rows % 23 + 12.0 * labels + rows % 7


def test_values_of_vus_0_0_6() -> None:
    """`RangeAUC_volume_opt` of the package vus 0.0.6, whose thresholds are all distinct scores on so few rows."""
    labels, scores = case()
    found = volume(labels, scores, 16)
    assert (found.roc, found.pr) == pytest.approx((0.938848535970203, 0.8921235253712169), abs=1e-12)


def test_against_vus_if_it_is_there() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        package = pytest.importorskip("vus.utils.metrics")
    generator = np.random.default_rng(0)
    for _ in range(5):
        labels = np.repeat(generator.random(30) < 0.3, generator.integers(1, 8, 30))
        labels[:2] = [True, False]
        scores = np.round(generator.normal(labels * 1.0), 1)
        expected = package.metricor().RangeAUC_volume_opt(labels.astype(int), scores, 12, 250)[4:]
        found = volume(labels, scores, 12)
        assert (found.roc, found.pr) == pytest.approx(expected)


def test_250_ranks_are_too_few_for_rare_anomalies() -> None:
    """What the package gives where more than 250 rows make its thresholds a choice."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        package = pytest.importorskip("vus.utils.metrics")
    labels = np.arange(20000) % 10000 < 20
    scores = np.random.default_rng(0).normal(labels * 6.0)
    coarse = package.metricor().RangeAUC_volume_opt(labels.astype(int), scores, 4, 250)[5]
    assert volume(labels, scores, 4).pr == pytest.approx(0.99, abs=0.01)
    assert coarse == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize(
    ("labels", "scores", "buffer", "sentence"),
    [
        ([True, False], [1.0], 1, "Each of the 1 rows needs one label"),
        ([True, True], [1.0, 2.0], 1, "they are all alike"),
        ([True, False], [1.0, np.nan], 1, "row 1 is nan"),
        ([True, False], [1.0, 2.0], -1, "`buffer` must be at least 0 rows, but got -1"),
    ],
)
def test_what_has_no_volume_is_refused(labels: list, scores: list, buffer: int, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        volume(np.array(labels), np.array(scores), buffer)


def assert_equal(left: Volume, right: Volume) -> None:
    assert (left.pr, left.roc) == pytest.approx((right.pr, right.roc), rel=0, abs=1e-12)


def tsb_cases(path: Path) -> dict[str, tuple[np.ndarray, np.ndarray, int, Volume]]:
    """Labels, scores, window and the values of TSB-AD's own code, by the name of the case."""
    with np.load(path) as stored:
        return {
            name: (
                stored[f"{name}/label"],
                stored[f"{name}/score"],
                int(stored[f"{name}/window"]),
                Volume(float(stored[f"{name}/vus_pr"]), float(stored[f"{name}/vus_roc"])),
            )
            for name in sorted({key.split("/")[0] for key in stored.files})
        }


def test_tsb_equals_stored_values_of_tsb_ad(golden: Path) -> None:
    cases = tsb_cases(golden / "vus.npz")
    assert sorted(cases) == ["1", "3", "5"]
    for labels, scores, window, expected in cases.values():
        assert_equal(volume_tsb(labels, scores, window), expected)


def test_tsb_equals_all_six_values_of_tsb_ad(shared_data: Path) -> None:
    path = shared_data.parent / "golden" / "vus" / "tsb_ad.npz"
    if not path.is_file():
        pytest.skip("no reference values of TSB-AD here: they belong in golden/vus/tsb_ad.npz beside TSADC_DATA")
    cases = tsb_cases(path)
    assert len(cases) == 6
    for labels, scores, window, expected in cases.values():
        assert_equal(volume_tsb(labels, scores, window), expected)


def test_the_slow_definition_equals_a_stored_value_of_tsb_ad(golden: Path) -> None:
    labels, scores, window, expected = tsb_cases(golden / "vus.npz")["1"]
    assert_equal(slow_volume_tsb(labels, scores, window), expected)


@settings(max_examples=30)
@given(long, st.integers(0, 2**32 - 1), st.integers(0, 3), st.integers(0, 9))
def test_tsb_equals_the_definition(parts: list[tuple[bool, int]], seed: int, digits: int, window: int) -> None:
    """Rounding to 0 digits makes many ties, to 3 few."""
    labels = np.concatenate([np.full(length, label) for label, length in parts])
    scores = np.round(np.random.default_rng(seed).normal(labels * 1.0), digits)
    assert_equal(volume_tsb(labels, scores, window), slow_volume_tsb(labels, scores, window))


@given(lumpy, st.integers(0, 30))
def test_tsb_uses_every_score_of_up_to_250_rows(parts: list[tuple[bool, int, int]], window: int) -> None:
    labels, scores = lumps(parts)
    assert_equal(volume_tsb(labels, scores, window), volume(labels, scores, window))


@given(long, st.integers(0, 2**32 - 1), st.integers(0, 40))
def test_tsb_is_the_same_backwards_in_time(parts: list[tuple[bool, int]], seed: int, window: int) -> None:
    labels = np.concatenate([np.full(length, label) for label, length in parts])
    scores = np.random.default_rng(seed).normal(labels * 1.0)
    assert_equal(volume_tsb(labels[::-1], scores[::-1], window), volume_tsb(labels, scores, window))


def test_tsb_skips_every_other_rank_of_499_rows_by_hand() -> None:
    """The only anomaly has the second highest score. The first thresholds flag 1 row and 3 rows, never 2."""
    labels = np.arange(499) == 1
    scores = -np.arange(499.0)
    assert_equal(volume_tsb(labels, scores, 0), Volume(1 / 3, 1 - 1.5 / 498))
    assert volume(labels, scores, 0).pr == pytest.approx(1 / 2)


@pytest.mark.parametrize("backwards", [False, True])
def test_tsb_event_at_either_end_by_hand(backwards: bool) -> None:
    """The buffer reaches only inwards, so the alarm one row off is all of it."""
    labels, scores = np.array([1, 0, 0, 0, 0], dtype=bool), np.array([0, 1.0, 0, 0, 0])
    if backwards:
        labels, scores = labels[::-1], scores[::-1]
    recall = S / (1 + S / 2)
    pr = recall * S + (1 - recall) * (1 + S) / 5
    assert volume_tsb(labels, scores, 2).pr == pytest.approx((1 / 5 + 1 / 5 + pr) / 3)


def test_tsb_of_a_constant_score() -> None:
    """All thresholds are the same, so they flag every row: precision is the share of soft labels."""
    labels = np.isin(np.arange(1000), range(20, 25))
    shares = [soft_labels(labels, width).mean() for width in range(11)]
    found = volume_tsb(labels, np.full(1000, 3.0), 10)
    assert found.pr == pytest.approx(np.mean(shares))
    assert_equal(found, volume(labels, np.full(1000, 3.0), 10))


def test_tsb_window_may_be_longer_than_the_series() -> None:
    labels, scores = np.array([0, 1, 0, 0], dtype=bool), np.array([0.0, 2, 3, 1])
    assert_equal(volume_tsb(labels, scores, 50), slow_volume_tsb(labels, scores, 50))


@pytest.mark.parametrize(
    ("labels", "scores", "window", "sentence"),
    [
        ([True, False], [1.0], 1, "Each of the 1 rows needs one label"),
        ([False, False], [1.0, 2.0], 1, "both normal and anomalous rows, but they are all alike"),
        ([True, True], [1.0, 2.0], 1, "both normal and anomalous rows, but they are all alike"),
        ([True, False], [1.0, np.nan], 1, "that of row 1 is nan"),
        ([True, False], [-np.inf, 1.0], 1, "that of row 0 is -inf"),
        ([True, False], [1.0, 2.0], -1, "`window` must be at least 0 rows, but got -1"),
    ],
)
def test_what_has_no_tsb_volume_is_refused(labels: list, scores: list, window: int, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        volume_tsb(np.array(labels), np.array(scores), window)
