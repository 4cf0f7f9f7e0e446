from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

from tsadc.errors import DataError
from tsadc.evaluate.blame import Blame, blame, hit_rate, ndcg, random_blame

variables = st.lists(st.tuples(st.booleans(), st.integers(0, 3)), min_size=2, max_size=12).filter(
    lambda rows: any(guilty for guilty, _ in rows)
)


def columns(rows: list[tuple[bool, int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([guilty for guilty, _ in rows]), np.array([value for _, value in rows], dtype=float)


def test_by_hand() -> None:
    """Two to blame, ranked second and third of five."""
    blamed = np.array([True, False, True, False, False])
    contributions = np.array([3.0, 9.0, 2.0, 1.0, 0.0])
    assert hit_rate(blamed, contributions) == 0.5
    assert hit_rate(blamed, contributions, 1.5) == 1.0
    best = 1 + 1 / np.log2(3)
    assert ndcg(blamed, contributions) == pytest.approx((1 / np.log2(3) + 1 / np.log2(4)) / best)


@pytest.mark.parametrize(
    ("guilty", "share", "taken"), [(1, 1.5, 1), (2, 1.5, 3), (3, 1.5, 4), (10, 1.1, 11), (9, 1.5, 12)]
)
def test_the_number_looked_at_is_rounded_down_and_ends_with_the_variables(
    guilty: int, share: float, taken: int
) -> None:
    """The ones to blame are last of twelve, so each further rank looked at adds one once the innocent are through."""
    blamed = np.arange(12) >= 12 - guilty
    found = hit_rate(blamed, -np.arange(12.0), share)
    assert found == pytest.approx(max(0, taken - (12 - guilty)) / guilty)


@given(variables)
def test_ndcg_is_that_of_sklearn(rows: list[tuple[bool, int]]) -> None:
    blamed, contributions = columns(rows)
    expected = ndcg_score(blamed[None].astype(float), contributions[None])
    assert ndcg(blamed, contributions) == pytest.approx(expected)


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 2)), min_size=2, max_size=5).filter(lambda r: any(g for g, _ in r))
)
def test_equal_contributions_get_the_mean_over_their_orders(rows: list[tuple[bool, int]]) -> None:
    blamed, contributions = columns(rows)
    orders = [o for o in permutations(range(len(rows))) if np.all(np.diff(contributions[list(o)]) <= 0)]
    taken = int(blamed.sum())
    slow = np.mean([blamed[list(order)][:taken].mean() for order in orders])
    assert hit_rate(blamed, contributions) == pytest.approx(slow)


@given(variables)
def test_bounds_perfection_and_order(rows: list[tuple[bool, int]]) -> None:
    blamed, contributions = columns(rows)
    for measure in (hit_rate, ndcg):
        assert 0 <= measure(blamed, contributions) <= 1 + 1e-12
        assert measure(blamed, blamed.astype(float)) == pytest.approx(1)
        assert measure(blamed, np.exp(contributions)) == pytest.approx(measure(blamed, contributions))


def test_a_random_order_gets_what_blaming_all_alike_gets() -> None:
    blamed = np.arange(10) < 3
    generator = np.random.default_rng(0)
    drawn = [blame([(blamed, generator.random(10))]) for _ in range(1500)]
    expected = random_blame([(blamed, generator.random(10))])
    assert expected.hit_rate_100 == pytest.approx(3 / 10)
    assert expected.hit_rate_150 == pytest.approx(4 / 10)
    for name in ("hit_rate_100", "hit_rate_150", "ndcg"):
        assert np.mean([getattr(one, name) for one in drawn]) == pytest.approx(getattr(expected, name), abs=0.02)


def test_each_event_counts_once() -> None:
    right = (np.array([True, False]), np.array([1.0, 0.0]))
    wrong = (np.array([True, False]), np.array([0.0, 1.0]))
    assert blame([right, wrong, wrong]) == Blame(*(pytest.approx(v) for v in (1 / 3, 1 / 3, (1 + 2 / np.log2(3)) / 3)))


@pytest.mark.parametrize(
    ("blamed", "contributions", "sentence"),
    [
        ([True, False], [1.0], r"\(2,\) variables have \(1,\)"),
        ([False, False], [1.0, 2.0], "none is"),
        ([True, False], [1.0, np.nan], "that of variable 1 is not"),
        ([True, 3], [1.0, 2.0], "that of row 1 is 3"),
    ],
)
def test_refusals(blamed: list, contributions: list, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        ndcg(np.array(blamed), np.array(contributions))


def test_no_event_no_blame() -> None:
    with pytest.raises(DataError, match="there are none"):
        blame([])
