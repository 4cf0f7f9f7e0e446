"""A period that lies beyond the history as a whole is called drift, and raises the threshold."""

import numpy as np
import pandas as pd
import pytest

from tsadc.detectors import find
from tsadc.detectors.drift import drifting, raised_by
from tsadc.detectors.ensemble.detector import Ensemble


def slow_raised(scores: list[float], usual: float) -> list[float]:
    raised = []
    for i in range(len(scores)):
        before = ([usual] * 20 + scores)[i : i + 20]
        raised.append(max(0.0, np.quantile(before, 0.25) - usual))
    return raised


def test_the_threshold_is_raised_by_the_quarter_quantile_of_the_scores_before():
    scores = np.random.default_rng(0).normal(size=80).cumsum().tolist()
    np.testing.assert_allclose(raised_by(scores, 0.5), slow_raised(scores, 0.5))
    np.testing.assert_allclose(raised_by(scores, 0.5, first=70), slow_raised(scores, 0.5)[70:])
    assert not raised_by(scores, None).any()


def test_a_fault_stays_above_the_threshold_for_15_observations():
    assert raised_by([0.0] * 5 + [8.0] * 16, 0.0).argmax() == 5 + 15  # the 16th observation of the fault
    assert not raised_by([8.0] * 15, 0.0).any()


@pytest.mark.parametrize(
    ("above", "expected"),
    [
        ("0" * 30, None),
        ("1" * 30, 0),
        ("0" * 20 + "1" * 10, 20),
        ("0" * 20 + "1" * 7, None),  # of the last ten, only seven
        ("0" * 10 + "1110" * 8, None),  # exactly three quarters
        ("0" * 10 + "11110" * 4, 10),
        ("1" * 20 + "0" * 10, None),  # over
        ("1" * 5, None),
    ],
)
def test_drift_is_a_last_period_that_is_nearly_all_above_the_threshold(above, expected):
    assert drifting([float(digit) for digit in above], 0.5) == expected


@pytest.mark.parametrize("name", ["ensemble", "robust-z"])
def test_drift_says_since_when_and_which_variables_moved(name):
    rng = np.random.default_rng(0)
    cls = find(name)
    history = pd.DataFrame(
        rng.normal([10, 20, 30], size=(2400, 3)),
        columns=["flow", "speed", "load"],
        index=pd.date_range("2024-01-01", periods=2400, freq="1min"),
    )
    new = history.set_axis(history.index + pd.Timedelta("2D"))
    new.loc[new.index[1200:], "speed"] += 25
    config = cls.Config(kernels=8) if cls is Ensemble else None
    detector = cls(length=40, config=config).fit({"pump": history})
    whole = detector.detect({"pump": new})
    [drift] = whole.drift
    assert (drift.entity, drift.observations, drift.above) == ("pump", 30, 30)
    assert drift.since == new.index[1200]
    [moved] = drift.variables
    assert moved.name == "speed"
    assert (moved.usual, moved.now) == (pytest.approx(20, abs=0.2), pytest.approx(45, abs=0.2))
    assert not detector.detect({"pump": history}).drift
    # In parts, the last one of a series has it.
    parts = list(detector.detect_parts({"pump": new}, rows=200))
    assert len(parts) > 2
    assert [part.drift for part in parts if part.drift] == [whole.drift]
    assert drift.missing == ()
    new.loc[new.index[1200:], "load"] = np.nan
    assert detector.detect({"pump": new}).drift[0].missing == ("load",)


def test_an_adapted_entity_has_a_usual_score_like_those_of_the_history():
    rng = np.random.default_rng(1)
    detector = Ensemble(length=40, config=Ensemble.Config(kernels=8)).fit({"a": rng.normal(size=(2000, 3))})
    detector.adapt({"b": 5 + 2 * rng.normal(size=(2000, 3))})
    usual = detector.scorer_.usual
    spread = np.std(detector.decision_scores_)
    assert abs(usual["b"] - usual["a"]) < spread
    drifted = 5 + 2 * rng.normal(size=(2000, 3)) * np.array([1, 6, 1])
    assert detector.detect({"b": drifted}).raised.max() > spread


@pytest.mark.filterwarnings("ignore::tsadc.errors.TsadcNotice")
def test_a_sensor_that_never_changes_in_the_period_is_stuck():
    rng = np.random.default_rng(0)
    history = pd.DataFrame(rng.normal([10, 20, 5], [1, 1, 0], size=(2400, 3)), columns=["flow", "speed", "setpoint"])
    new = history.copy()
    new["flow"] = 10.5
    detector = Ensemble(length=40, kernels=8).fit({"pump": history})
    [drift] = detector.detect({"pump": new}).drift
    assert drift.stuck == ("flow",)  # the setpoint never changes in the history either
    assert not drift.variables
    new["flow"] = 40.0  # not stuck, but at another level
    [drift] = detector.detect({"pump": new}).drift
    assert (drift.stuck, [moved.name for moved in drift.variables]) == ((), ["flow"])
