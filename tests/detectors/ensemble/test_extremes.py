import numpy as np
import pytest

from tsadc.detectors.ensemble.extremes import Extremes, height, tops


def test_the_score_is_the_log_of_the_tops_less_the_reach_of_the_entity():
    heights = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 100.0, 0.5, 0.5]
    known = Extremes.fit(heights, ["a"] * 8 + ["b"] * 2)
    steps = np.array([0.4, 8.9, np.nan])
    np.testing.assert_allclose(known("a", steps), np.log([0.5, 9.0, np.nan]) - np.log(4.6))
    # Two observations are no history: all ten count, their median being 3.5.
    np.testing.assert_allclose(known("b", steps), np.log([0.5, 9.0, np.nan]) - np.log(3.6))
    assert known.typical("a") == pytest.approx(4.6)
    assert known.typical("new") == pytest.approx(3.6)


def test_adapting_to_a_history():
    known = Extremes.fit([1.0] * 8, ["a"] * 8)
    known.adapt([9.9] * 8, ["new"] * 8)
    known.adapt([50.0] * 7, ["a"] * 7)
    assert known.typical("new") == pytest.approx(10.0)
    assert known.typical("a") == pytest.approx(1.1)


def test_tops_and_height():
    cells = np.array([[1.0, np.nan], [2.0, np.nan], [3.0, 5.0], [4.0, 1.0]])
    np.testing.assert_allclose(tops(cells), [3.0, 3.0])
    steps = np.arange(101.0)
    steps[50] = np.nan
    assert height(steps) == pytest.approx(np.quantile(np.delete(np.arange(101.0), 50), 0.99))


def test_state_keeps_everything():
    known = Extremes.fit([1.0, 2.0] * 4 + [7.0], ["a"] * 8 + ["b"])
    again = Extremes.restore(known.state("x"), "x")
    assert (again.reach, again.entities) == (known.reach, known.entities)
    assert list(again.entities) == ["a"]
