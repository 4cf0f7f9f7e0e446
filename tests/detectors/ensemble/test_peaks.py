import numpy as np
import pytest

from tsadc.detectors.ensemble.features import usual_peak
from tsadc.detectors.ensemble.views import Peaks


def test_the_score_is_the_log_size_minus_the_baseline_of_the_entity():
    peaks = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 100.0, 0.5, 0.5]
    view = Peaks.fit(peaks, ["a"] * 8 + ["b"] * 2)
    steps = np.array([0.4, 8.9, np.nan])
    np.testing.assert_allclose(view("a", steps), np.log([0.5, 9.0, np.nan]) - np.log(4.6))
    # Two observations are too few for an own baseline: all ten count, their median is 3.5.
    np.testing.assert_allclose(view("b", steps), np.log([0.5, 9.0, np.nan]) - np.log(3.6))
    assert view.usual("a") == pytest.approx(4.6)
    assert view.usual("new") == pytest.approx(3.6)


def test_adapting_to_a_history():
    view = Peaks.fit([1.0] * 8, ["a"] * 8)
    view.adapt([9.9] * 8, ["new"] * 8)
    view.adapt([50.0] * 7, ["a"] * 7)
    assert view.usual("new") == pytest.approx(10.0)
    assert view.usual("a") == pytest.approx(1.1)


def test_the_usual_peak_is_a_quantile_of_the_measured_steps():
    steps = np.arange(101.0)
    steps[50] = np.nan
    assert usual_peak(steps) == pytest.approx(np.quantile(np.delete(np.arange(101.0), 50), 0.99))


def test_state_keeps_everything():
    view = Peaks.fit([1.0, 2.0] * 4 + [7.0], ["a"] * 8 + ["b"])
    again = Peaks.restore(view.state("x"), "x")
    assert (again.baseline, again.entities) == (view.baseline, view.entities)
    assert list(again.entities) == ["a"]
