import warnings
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tsadc.errors import DataError
from tsadc.evaluate.bootstrap import draw_weights
from tsadc.evaluate.compare import critical_difference, friedman, holm, mean_difference, wilcoxon

NAMES = ("a", "b", "c", "d")


def table(cases: int = 12, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal([0.0, 0.5, 2.5, 3.0], 1.0, (cases, 4))


def test_mean_ranks_by_hand() -> None:
    """Ranks (1 2 3), (1.5 1.5 3), (2 1 3)."""
    found = critical_difference(np.array([[3.0, 2, 1], [5, 5, 0], [1, 2, 0]]), ("x", "y", "z"))
    assert found.names == ("x", "y", "z")
    assert found.ranks == pytest.approx((1.5, 1.5, 3.0))


@pytest.mark.parametrize(("detectors", "quantile"), [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (10, 3.164)])
def test_the_critical_difference_is_that_of_the_table(detectors: int, quantile: float) -> None:
    """Table 5 of Demšar, 2006."""
    values = np.random.default_rng(0).random((14, detectors))
    found = critical_difference(values, [str(i) for i in range(detectors)])
    assert found.difference == pytest.approx(quantile * np.sqrt(detectors * (detectors + 1) / (6 * 14)), rel=4e-4)


def test_groups_are_the_longest_stretches_within_the_difference() -> None:
    """Over 12 cases the difference of four is 1.354: d and c, and b and a are together, c and b are not."""
    found = critical_difference(table(), NAMES)
    assert found.difference == pytest.approx(1.354, abs=1e-3)
    for group in found.groups:
        ranks = [found.ranks[found.names.index(name)] for name in group]
        assert ranks[-1] - ranks[0] <= found.difference
    together = {pair for group in found.groups for pair in combinations(group, 2)}
    for (i, one), (j, other) in combinations(enumerate(found.names), 2):
        assert ((one, other) in together) == (found.ranks[j] - found.ranks[i] <= found.difference)
    assert not any(set(a) < set(b) for a, b in product(found.groups, found.groups))


def test_all_alike_are_one_group_and_all_apart_none() -> None:
    alike = critical_difference(np.ones((6, 3)), ("x", "y", "z"))
    assert alike.groups == (("x", "y", "z"),)
    assert alike.p == 1.0
    apart = critical_difference(np.tile([3.0, 2.0, 1.0], (40, 1)), ("x", "y", "z"))
    assert apart.groups == ()
    assert apart.ranks == (1.0, 2.0, 3.0)


@pytest.mark.parametrize("digits", [0, 6])
def test_friedman_is_that_of_scipy(digits: int) -> None:
    values = np.round(table(seed=3), digits)
    assert friedman(values) == pytest.approx(stats.friedmanchisquare(*values.T).pvalue)


def test_nemenyi_is_that_of_scikit_posthocs_if_it_is_there() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        package = pytest.importorskip("scikit_posthocs")
        for seed in range(4):
            values = np.round(table(seed=seed), 1)
            found = critical_difference(values, NAMES)
            p = np.asarray(package.posthoc_nemenyi_friedman(values))
            for (i, one), (j, other) in combinations(enumerate(found.names), 2):
                apart = found.ranks[j] - found.ranks[i] > found.difference
                assert apart == (p[NAMES.index(one), NAMES.index(other)] < 0.05)


def test_wilcoxon_counts_signs() -> None:
    """All six differences have one sign: 2 of the 64 ways to set signs are as extreme."""
    first = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4])
    second = first - np.array([0.01, 0.02, 0.03, 0.04, 0.05, 0.06])
    assert wilcoxon(first, second) == pytest.approx(2 / 64)
    assert wilcoxon(first, second) == wilcoxon(second, first)
    assert wilcoxon(first, first) == 1.0


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx((0.03, 0.06, 0.06))
    assert holm([0.9, 0.5]) == (1.0, 1.0)
    assert holm([]) == ()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_rejects_step_by_step(p: list[float]) -> None:
    adjusted = holm(p)
    for level in (0.01, 0.05, 0.2):
        order = np.argsort(p, kind="stable")
        rejected = set()
        for step, i in enumerate(order):
            if p[i] * (len(p) - step) > level:
                break
            rejected.add(int(i))
        assert {i for i, value in enumerate(adjusted) if value <= level} == rejected


def test_the_mean_difference_is_drawn_by_cases() -> None:
    generator = np.random.default_rng(1)
    first, second = generator.random(15), generator.random(15)
    low, high = mean_difference(first, second, draws=300, seed=7)
    weights = draw_weights(15, (), 300, np.random.default_rng(7))
    slow = [np.repeat(first - second, times).mean() for times in weights]
    assert (low, high) == pytest.approx(tuple(np.quantile(slow, [0.05, 0.95])))


def test_groups_of_cases_are_drawn_whole() -> None:
    """Five seeds of each of three data sets that differ: three cases, not fifteen."""
    first = np.repeat([0.9, 0.5, 0.1], 5)
    groups = list("aaaaabbbbbccccc")
    alone, together = mean_difference(first, np.zeros(15)), mean_difference(first, np.zeros(15), groups)
    assert together[1] - together[0] > 1.5 * (alone[1] - alone[0])


@pytest.mark.parametrize(
    ("values", "names", "sentence"),
    [
        (np.zeros((3, 2)), ("a",), r"shape \(3, 2\) for 1 names"),
        (np.zeros((1, 2)), ("a", "b"), r"shape \(1, 2\) for 2 names"),
        (np.zeros(3), ("a", "b"), r"shape \(3,\) for 2 names"),
        (np.array([[1.0, 2.0], [1.0, np.nan]]), ("a", "b"), "b has none in case 1"),
    ],
)
def test_tables_that_cannot_be_ranked_are_refused(values: np.ndarray, names: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        critical_difference(values, names)


def test_pairs_need_equal_numbers() -> None:
    with pytest.raises(DataError, match="2 and 3 cases"):
        wilcoxon(np.zeros(2), np.zeros(3))
    with pytest.raises(DataError, match="2 and 3 cases"):
        mean_difference(np.zeros(2), np.zeros(3))
