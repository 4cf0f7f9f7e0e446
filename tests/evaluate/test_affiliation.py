import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsadc.errors import DataError
from tsadc.evaluate.affiliation import affiliation
from tsadc.evaluate.ranking import Cut
from tsadc.windows import runs

pairs = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=40).filter(
    lambda rows: len({label for label, _ in rows}) == 2
)


def columns(rows: list[tuple[bool, bool]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([label for label, _ in rows]), np.array([flag for _, flag in rows])


def away(time: float, intervals: list[tuple[float, float]]) -> float:
    return min(max(start - time, time - stop, 0.0) for start, stop in intervals)


def slow_affiliation(labels: np.ndarray, flags: np.ndarray) -> tuple[float, float]:
    """Chances as shares of the zone, averaged over the middles of eighths of rows: chances are linear between
    multiples of a quarter, so this is no approximation."""
    events, size = runs(labels), len(labels)
    times = (np.arange(8 * size) + 0.5) / 8
    edges = [0.0, *((a[1] + b[0]) / 2 for a, b in pairwise(events)), float(size)]
    precisions, recalls = [], []
    for (start, stop), low, high in ((event, *zone) for event, zone in zip(events, pairwise(edges), strict=True)):
        alarms = [(max(a, low), min(b, high)) for a, b in runs(flags) if a < high and b > low]
        if not alarms:
            recalls.append(0.0)
            continue
        shares = []
        for x in (x for x in times if low < x < high and away(x, alarms) == 0):
            far = away(x, [(start, stop)])
            nearer = min(stop + far, high) - max(start - far, low) if far else 0.0
            shares.append(1 - nearer / (high - low))
        precisions.append(np.mean(shares))
        shares = []
        for y in (y for y in times if start < y < stop):
            far = away(y, alarms)
            shares.append(1 - (min(y + far, high) - max(y - far, low)) / (high - low))
        recalls.append(np.mean(shares))
    return float(np.mean(precisions)) if precisions else 0.0, float(np.mean(recalls))


@given(pairs)
def test_equals_the_definition(rows: list) -> None:
    labels, flags = columns(rows)
    found = affiliation(labels, flags)
    assert (found.precision, found.recall) == pytest.approx(slow_affiliation(labels, flags), abs=1e-12)


def test_by_hand() -> None:
    """Zone [0, 10), event [4, 6), alarm [7, 8): its times are 1 to 2 from the event, so 2 + 2 d of 10 are as near,
    1/2 on average. The event's times y are 7 - y from the alarm, and 2 (7 - y) of the zone as near: at 4 to 6 these are
    6 to 2, on average 4, but what reaches beyond 10 and below 0 is none of it: nothing does."""
    labels = np.isin(np.arange(10), [4, 5])
    flags = np.arange(10) == 7
    assert affiliation(labels, flags) == Cut(pytest.approx(0.5), pytest.approx(0.6), pytest.approx(2 * 0.3 / 1.1))


def test_an_alarm_half_in_an_event_by_hand() -> None:
    """Alarm [5, 7): half of it counts in full, the other half is 0 to 1 away, so 2 + 2 d = 3 of 10 are as near on
    average. Of the event, [5, 6) counts in full, and 2 (5 - y) is 1 on average over [4, 5)."""
    labels = np.isin(np.arange(10), [4, 5])
    flags = np.isin(np.arange(10), [5, 6])
    found = affiliation(labels, flags)
    assert (found.precision, found.recall) == pytest.approx(((1 + 0.7) / 2, (1 + 0.9) / 2))


@given(pairs)
def test_bounds_and_the_perfect_verdict(rows: list) -> None:
    labels, flags = columns(rows)
    found = affiliation(labels, flags)
    assert -1e-12 <= min(found.precision, found.recall) <= max(found.precision, found.recall) <= 1 + 1e-12
    assert affiliation(labels, labels) == Cut(pytest.approx(1), pytest.approx(1), pytest.approx(1))


@given(pairs)
def test_time_may_run_backwards(rows: list) -> None:
    labels, flags = columns(rows)
    found, turned = affiliation(labels, flags), affiliation(labels[::-1], flags[::-1])
    assert (found.precision, found.recall) == pytest.approx((turned.precision, turned.recall), abs=1e-12)


@given(pairs)
def test_flagging_everything_gets_at_least_half(rows: list) -> None:
    labels, _ = columns(rows)
    found = affiliation(labels, np.ones(len(labels), dtype=bool))
    assert found.recall == pytest.approx(1)
    assert found.precision >= 0.5 - 1e-12


def test_a_random_alarm_in_a_long_zone_gets_a_half() -> None:
    labels = np.arange(4000) == 2000
    found = [affiliation(labels, np.arange(4000) == row).precision for row in range(0, 4000, 40)]
    assert np.mean(found) == pytest.approx(0.5, abs=0.01)


def test_a_zone_without_an_alarm_costs_recall_only() -> None:
    labels = np.isin(np.arange(40), [5, 30])
    found = affiliation(labels, np.arange(40) == 5)
    assert (found.precision, found.recall) == pytest.approx((1.0, 0.5))


def test_nothing_flagged() -> None:
    assert affiliation(np.array([True, False]), np.array([False, False])) == Cut(0.0, 0.0, 0.0)


def test_values_of_vus_0_0_6() -> None:
    """`vus.affiliation.metrics.pr_from_events` of the package vus 0.0.6."""
    rows = np.arange(120)
    labels = np.isin(rows, [3, *range(20, 31), *range(36, 40), *range(70, 95), 119])
    found = affiliation(labels, rows * rows % 23 + rows % 7 + 2 * labels > 22)
    assert (found.precision, found.recall) == pytest.approx((0.5679785330948122, 0.3986455521222963), abs=1e-12)


def test_against_vus_if_it_is_there() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        package = pytest.importorskip("vus.affiliation.metrics")
    generator = np.random.default_rng(0)
    for _ in range(20):
        labels = np.repeat(generator.random(30) < 0.2, 5)
        labels[:2] = [True, False]
        flags = np.repeat(generator.random(75) < 0.2, 2)
        expected = package.pr_from_events(runs(flags), runs(labels), (0, len(labels)))
        found = affiliation(labels, flags)
        values = (expected["Affiliation_Precision"], expected["Affiliation_Recall"])
        assert (found.precision, found.recall) == pytest.approx(values)


def test_refusals() -> None:
    with pytest.raises(DataError, match="all alike"):
        affiliation(np.array([False, False]), np.array([True, False]))
    with pytest.raises(DataError, match="Each of the 3 rows"):
        affiliation(np.array([True, False]), np.array([True, False, True]))
