import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsadc.errors import DataError
from tsadc.evaluate.ranges import range_cut
from tsadc.evaluate.ranking import Cut
from tsadc.windows import runs

WEIGHT = {
    "flat": lambda place, length: 1,
    "front": lambda place, length: length - place,
    "back": lambda place, _: place + 1,
}
pairs = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=40).filter(
    lambda rows: len({label for label, _ in rows}) == 2
)


def columns(rows: list[tuple[bool, bool]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([label for label, _ in rows]), np.array([flag for _, flag in rows])


def slow_rewards(ranges: np.ndarray, others: np.ndarray, bias: str, cardinality: str) -> list[float]:
    """Row by row and pair by pair."""
    out = []
    for start, stop in runs(ranges):
        met = [(a, b) for a, b in runs(others) if a < stop and b > start]
        weights = [WEIGHT[bias](i - start, stop - start) for i in range(start, stop)]
        covered = sum(w for i, w in zip(range(start, stop), weights, strict=True) if any(a <= i < b for a, b in met))
        out.append(covered / sum(weights) / (len(met) if cardinality == "reciprocal" and met else 1))
    return out


@given(
    pairs,
    st.sampled_from(["flat", "front", "back"]),
    st.sampled_from(["one", "reciprocal"]),
    st.sampled_from([0, 0.3, 1]),
)
def test_equals_the_definition(rows: list, bias: str, cardinality: str, existence: float) -> None:
    labels, flags = columns(rows)
    found = range_cut(labels, flags, bias=bias, cardinality=cardinality, existence=existence)
    rewards = slow_rewards(labels, flags, bias, cardinality)
    recall = np.mean([existence * (r > 0) + (1 - existence) * r for r in rewards])
    precision = np.mean(slow_rewards(flags, labels, "flat", cardinality)) if flags.any() else 0
    assert (found.precision, found.recall) == pytest.approx((precision, recall))
    assert found.f1 == pytest.approx(2 * precision * recall / (precision + recall) if precision + recall else 0)


def test_by_hand() -> None:
    """One event of four rows, met by two alarms; the first is half outside, and a third one is wrong altogether."""
    labels = np.array([0, 1, 1, 1, 1, 0, 0, 0], dtype=bool)
    flags = np.array([1, 1, 0, 0, 1, 0, 0, 1], dtype=bool)
    assert range_cut(labels, flags, cardinality="one") == Cut(0.5, 0.5, 0.5)
    assert range_cut(labels, flags) == Cut(0.5, 0.25, pytest.approx(1 / 3))
    assert range_cut(labels, flags, existence=0.5).recall == 0.5 * 1 + 0.5 * 0.25
    assert range_cut(labels, flags, cardinality="one", bias="front").recall == pytest.approx((4 + 1) / 10)
    early = np.array([0, 1, 1, 0, 0, 0, 0, 0], dtype=bool)
    assert range_cut(labels, early, bias="front").recall == pytest.approx(7 / 10)
    assert range_cut(labels, early, bias="back").recall == pytest.approx(3 / 10)


@given(pairs)
def test_flat_single_rows_are_plain_precision_and_recall(rows: list) -> None:
    labels, flags = (np.repeat(column, 2) & (np.arange(2 * len(column)) % 2 == 0) for column in columns(rows))
    found = range_cut(labels, flags)
    hits = int((labels & flags).sum())
    assert found.recall == pytest.approx(hits / labels.sum())
    assert found.precision == pytest.approx(hits / flags.sum() if flags.any() else 0)


@given(pairs)
def test_bounds_and_the_perfect_verdict(rows: list) -> None:
    labels, flags = columns(rows)
    found = range_cut(labels, flags)
    assert 0 <= min(found.precision, found.recall) <= max(found.precision, found.recall) <= 1
    assert range_cut(labels, labels) == Cut(1.0, 1.0, 1.0)


@given(pairs)
def test_flagging_everything_is_one_alarm_over_all_events(rows: list) -> None:
    labels, _ = columns(rows)
    found = range_cut(labels, np.ones(len(labels), dtype=bool))
    assert found.recall == 1
    assert found.precision == pytest.approx(labels.mean() / len(runs(labels)))


def test_nothing_flagged() -> None:
    assert range_cut(np.array([True, False]), np.array([False, False])) == Cut(0.0, 0.0, 0.0)


def test_values_of_prts_1_0_0_3() -> None:
    rows = np.arange(120)
    labels = np.isin(rows, [3, *range(20, 31), *range(36, 40), *range(70, 95), 119])
    flags = rows * rows % 23 + rows % 7 + 8 * labels > 19
    flat = range_cut(labels, flags, existence=0.2)
    assert (flat.precision, flat.recall) == pytest.approx((0.5789473684210527, 0.6300606060606061))
    assert range_cut(labels, flags, bias="front", cardinality="one").recall == pytest.approx(0.6497435897435897)
    assert range_cut(labels, flags, bias="back").recall == pytest.approx(0.5390831390831391)


def test_against_prts_if_it_is_there() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        package = pytest.importorskip("prts")
    generator = np.random.default_rng(0)
    for bias in ("flat", "front", "back"):
        for cardinality in ("one", "reciprocal"):
            labels = np.repeat(generator.random(30) < 0.3, 4)
            flags = np.repeat(generator.random(60) < 0.4, 2)
            found = range_cut(labels, flags, bias=bias, cardinality=cardinality, existence=0.25)
            one, other = labels.astype(int), flags.astype(int)
            recall = package.ts_recall(one, other, alpha=0.25, cardinality=cardinality, bias=bias)
            precision = package.ts_precision(one, other, alpha=0, cardinality=cardinality, bias="flat")
            assert (found.precision, found.recall) == pytest.approx((precision, recall))


def test_refusals() -> None:
    with pytest.raises(DataError, match=r"must be from 0 to 1, but got 1\.5"):
        range_cut(np.array([True, False]), np.array([True, False]), existence=1.5)
    with pytest.raises(DataError, match="all alike"):
        range_cut(np.array([True, True]), np.array([True, False]))
    with pytest.raises(DataError, match="Each of the 1 rows"):
        range_cut(np.array([True, False]), np.array([True]))
