import tracemalloc

import numpy as np
import pytest

from tsadc.evaluate import bootstrap
from tsadc.evaluate.bootstrap import Intervals, draw_weights, intervals, weighted_ranking
from tsadc.evaluate.ranking import auroc, average_precision


def example(count: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Scores with many ties."""
    generator = np.random.default_rng(seed)
    labels = generator.random(count) < 0.4
    return labels, np.round(generator.normal(labels * 1.0), 1)


def test_a_weight_stands_for_a_repetition() -> None:
    labels, scores = example()
    weights = np.random.default_rng(1).integers(0, 4, (20, len(labels)))
    found = weighted_ranking(labels, scores, weights)
    for i, times in enumerate(weights):
        repeated = np.repeat(np.arange(len(labels)), times)
        assert found[0, i] == pytest.approx(auroc(labels[repeated], scores[repeated]))
        assert found[1, i] == pytest.approx(average_precision(labels[repeated], scores[repeated]))


def test_a_draw_takes_as_many_as_there_are() -> None:
    weights = draw_weights(7, (), 50, np.random.default_rng(0))
    assert weights.shape == (50, 7)
    assert set(weights.sum(axis=1).tolist()) == {7}
    assert (weights > 1).any()


def test_a_group_is_drawn_whole() -> None:
    weights = draw_weights(6, ["a", "b", "a", "c", "c", "b"], 50, np.random.default_rng(0))
    np.testing.assert_array_equal(weights[:, 0], weights[:, 2])
    np.testing.assert_array_equal(weights[:, 1], weights[:, 5])
    np.testing.assert_array_equal(weights[:, 3], weights[:, 4])
    np.testing.assert_array_equal(weights[:, :2].sum(axis=1) + weights[:, 3], 3)


def test_the_interval_is_where_nine_tenths_of_the_draws_lie() -> None:
    labels, scores = example()
    found = intervals(labels, scores, draws=400, seed=5)
    weights = draw_weights(len(labels), (), 400, np.random.default_rng(5))
    slow = [auroc(labels[np.repeat(np.arange(60), w)], scores[np.repeat(np.arange(60), w)]) for w in weights]
    assert found.auroc == pytest.approx(tuple(np.quantile(slow, [0.05, 0.95])))
    low, high = found.average_precision or (1.0, 0.0)
    assert low < average_precision(labels, scores) < high
    wider = intervals(labels, scores, draws=400, seed=5, level=0.98).auroc
    assert wider is not None
    assert found.auroc is not None
    assert wider[0] < found.auroc[0] < found.auroc[1] < wider[1]


def test_groups_of_equals_give_a_wider_interval() -> None:
    """Ten copies of six observations are worth no more than the six."""
    labels, scores = np.array([True, False] * 3), np.array([3.0, 2.0, 1.0, 0.0, 5.0, 4.5])
    labels, scores, groups = (np.repeat(one, 10) for one in (labels, scores, np.array(list("abcdef"))))
    apart, together = intervals(labels, scores).auroc, intervals(labels, scores, groups).auroc
    assert apart is not None
    assert together is not None
    assert together[1] - together[0] > 1.5 * (apart[1] - apart[0])


def test_one_group_is_none_at_all() -> None:
    labels, scores = example()
    assert intervals(labels, scores, ["series"] * 60) == intervals(labels, scores)


def test_no_interval_where_most_draws_hold_one_sort() -> None:
    assert intervals(np.ones(4, dtype=bool), np.arange(4.0)) == Intervals(None, None)


@pytest.mark.parametrize("groups", [(), [f"entity-{i % 9}" for i in range(60)]])
def test_how_many_draws_are_held_changes_no_number(groups: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    labels, scores = example()
    names = np.unique(groups) if len(groups) else np.arange(60)
    members = np.searchsorted(names, groups) if len(groups) else names
    drawn = np.random.default_rng(2).multinomial(len(names), np.full(len(names), 1 / len(names)), size=150)
    at_once = weighted_ranking(labels, scores, drawn[:, members])
    monkeypatch.setattr(bootstrap, "CELLS", 7 * 60)
    found = intervals(labels, scores, groups, draws=150, seed=2)
    assert found.auroc == pytest.approx(tuple(np.quantile(at_once[0], [0.05, 0.95])), abs=1e-14)
    assert found.average_precision == pytest.approx(tuple(np.quantile(at_once[1], [0.05, 0.95])), abs=1e-14)
    np.testing.assert_array_equal(draw_weights(60, groups, 150, np.random.default_rng(2)), drawn[:, members])


def test_memory_does_not_grow_with_the_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred draws of 4000 observations are 3.2 MB of weights; ten at a time are a tenth of it."""
    labels, scores = example(4000)
    monkeypatch.setattr(bootstrap, "CELLS", 10 * 4000)
    tracemalloc.start()
    intervals(labels, scores, draws=100)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 * 4000 * 8
