"""A sensor that stops reporting is an event of its own, although no score shows it."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import lfilter

import tsadc
from tsadc.detectors.missing import Missing, missing_runs
from tsadc.detectors.usual import Usual
from tsadc.errors import TsadcNotice
from tsadc.io.memory import as_series
from tsadc.windows import empty_runs

LENGTH = 40


def slow_runs(values: np.ndarray, expected: np.ndarray, length: int) -> list[tuple[int, int, int]]:
    found = []
    for k in np.flatnonzero(expected):
        rows: list[int] = []
        for i, row in enumerate([*values, np.zeros(values.shape[1])]):
            if np.isfinite(row[k]):
                if len(rows) >= length:
                    found.append((rows[0], rows[-1] + 1, int(k)))
                rows = []
            elif np.isfinite(row).any():
                rows.append(i)
    return sorted(found)


@given(st.data())
def test_runs_equal_those_of_a_loop_over_rows_whatever_the_chunks(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    rows, length = data.draw(st.integers(1, 60)), data.draw(st.integers(1, 8))
    values = np.where(np.repeat(rng.random((20, 3)) < 0.5, 3, axis=0)[:rows], np.nan, 1.0)
    expected = rng.random(3) < 0.8
    [series] = as_series(values, 8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tsadc.series.CHUNK_CELLS", data.draw(st.integers(1, 100)))
        found = missing_runs(series, expected, 10**6, length)
    flat = sorted((run.start, run.stop, k) for run in found for k in run.variables)
    assert flat == slow_runs(values, expected, length)


def test_variables_that_are_missing_together_are_one_run():
    values = np.ones((30, 3))
    values[10:25, :2] = np.nan
    [series] = as_series(values, 8)
    assert missing_runs(series, np.ones(3, dtype=bool), 0, 8) == [Missing(10, 25, (0, 1))]


@given(st.data())
def test_empty_runs_equal_those_of_a_loop_over_rows_whatever_the_chunks(data):
    empty = data.draw(st.lists(st.booleans(), min_size=1, max_size=40))
    values = np.where(np.array(empty)[:, None], np.nan, np.ones((len(empty), 2)))
    values[~np.array(empty), 1] = np.nan  # a row with one value is not empty
    slow, begin = [], None
    for i, flag in enumerate([*empty, False]):
        if flag and begin is None:
            begin = i
        elif not flag and begin is not None:
            slow.append((begin, i))
            begin = None
    [series] = as_series(np.vstack([values, np.ones((8, 2))]), 8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tsadc.series.CHUNK_CELLS", data.draw(st.integers(1, 30)))
        assert list(empty_runs(series)) == slow


@pytest.fixture(scope="module")
def history() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(2400, 4)), columns=["flow", "speed", "load", "sparse"])
    frame.loc[200:500, "sparse"] = np.nan  # sometimes missing in the history, so no news later
    return frame.set_axis(pd.date_range("2024-01-01", periods=2400, freq="1min"))


@pytest.fixture(scope="module")
def detector(history) -> tsadc.Ensemble:
    return tsadc.Ensemble(length=LENGTH, kernels=8, history="clean").fit({"pump": history})


def later(history: pd.DataFrame) -> pd.DataFrame:
    return history.set_axis(history.index + pd.Timedelta("7D"))


def test_a_dead_sensor_is_an_event_of_kind_missing(history, detector):
    new = later(history)
    new.iloc[800:1200, 1] = np.nan
    new.iloc[1500:1530, 0] = np.nan  # shorter than an observation
    new.iloc[2000:, [0, 2]] = np.nan
    new.iloc[1000:1100] = np.nan  # nothing at all: a gap of the logger, within the gap of the sensor
    with pytest.warns(TsadcNotice, match="left out"):
        result = detector.detect({"pump": new})
    missing = result.intervals[result.intervals["kind"] == "missing"]
    assert missing["start"].tolist() == [new.index[800], new.index[1000], new.index[2000]]
    assert missing["end"].tolist() == [new.index[1200], new.index[1100], new.index[-1] + pd.Timedelta("1min")]
    assert missing["reason"].tolist() == [
        "speed has no value for 6 h 40 min.",
        "All variables have no value for 1 h 40 min.",
        "flow and 1 more variable have no value for 6 h 40 min.",
    ]
    every = dict.fromkeys(history.columns, 0.25)
    assert missing["variables"].tolist() == [{"speed": 1.0}, every, {"flow": 0.5, "load": 0.5}]
    assert (missing["score"] > result.threshold).all()
    assert result.timeline["anomalous"].to_numpy()[2000:].all()


def test_parts_report_a_long_run_once_and_flag_all_its_rows(history, detector):
    new = later(history)
    new.iloc[300:1900, 1] = np.nan
    whole, parts = detector.detect({"pump": new}), list(detector.detect_parts({"pump": new}, rows=200))
    assert len(parts) > 5
    columns = ["start", "end", "kind"]
    joined = [row for part in parts for row in part.intervals[columns].values.tolist()]
    assert joined == whole.intervals[columns].values.tolist()
    flags = np.concatenate([part.timeline["anomalous"] for part in parts])
    np.testing.assert_array_equal(flags, whole.timeline["anomalous"])
    assert flags[300:1900].all()


def test_a_column_that_is_absent_from_new_data_is_missing_from_the_first_row_on(history, detector, tmp_path):
    detector.save(tmp_path / "model")
    new = later(history).drop(columns="load")
    with pytest.warns(TsadcNotice, match="lacks 1 of the 4 expected variables: load"):
        found = tsadc.load(tmp_path / "model").detect({"pump": new}).intervals
    [missing] = found[found["kind"] == "missing"].to_dict("records")
    assert (missing["start"], missing["reason"]) == (new.index[0], "load has no value for 1 d 16 h.")


def test_of_a_machine_that_the_model_does_not_know_nothing_is_expected(history):
    both = tsadc.Ensemble(length=LENGTH, kernels=8).fit({"pump": history, "valve": history})
    new = later(history)
    new.iloc[500:, 1] = np.nan
    with pytest.warns(TsadcNotice, match="does not know"):
        kinds = both.detect({"fan": new}).intervals["kind"]
    assert "missing" not in set(kinds)
    assert "missing" in set(both.detect({"valve": new}).intervals["kind"])


def test_a_longer_gap_is_more_severe(history, detector):
    new = later(history)
    new.iloc[500:545, 0] = np.nan
    new.iloc[1000:1200, 1] = np.nan
    found = detector.detect({"pump": new}).intervals
    short, long = found[found["kind"] == "missing"].to_dict("records")
    normal = len(detector.normal_.kept)
    assert short["score"] == pytest.approx(detector.normal_.at((normal + 1) ** -(45 / LENGTH)))
    assert long["score"] == pytest.approx(detector.normal_.at((normal + 1) ** -3))
    assert long["severity"] > 99 > short["severity"]


def test_separate_observations_have_no_missing_events(detector, history):
    new = later(history).to_numpy()[:400].reshape(10, 40, 4).copy()
    new[:, :, 1] = np.nan
    assert not (detector.detect(new).intervals["kind"] == "missing").any()


def test_a_silent_sensor_raises_no_alarm_about_those_that_it_predicts():
    rng = np.random.default_rng(0)
    common = 0.3 * lfilter([1], [1, -0.95], rng.normal(size=9600))
    values = common[:, None] + 0.05 * rng.normal(size=(9600, 3))
    detector = tsadc.Ensemble(length=60, kernels=8).fit(values[:4800])
    new = values[4800:].copy()
    complete = int(detector.predict(new).sum())
    new[:, 2] = np.nan
    assert complete <= 2
    assert detector.predict(new).sum() <= 2


@pytest.mark.parametrize("variables", [1, 3])
@pytest.mark.filterwarnings("ignore::tsadc.errors.TsadcNotice")
def test_an_outage_of_all_sensors_is_an_event_unless_the_history_has_gaps_like_it(variables, tmp_path):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(2400, variables))
    names = [f"sensor {i}" for i in range(variables)]
    new = pd.DataFrame(values, columns=names, index=pd.date_range("2024-02-01", periods=2400, freq="1min"))
    new.iloc[300:400], new.iloc[900:1105] = np.nan, np.nan
    said = {1: "sensor 0 has no value for", 3: "All variables have no value for"}[variables]
    nights = values.copy()
    for night in range(0, 2400, 480):
        nights[night : night + 100] = np.nan
    for history, expected in ((values, [(300, "1 h 40 min"), (900, "3 h 25 min")]), (nights, [(900, "3 h 25 min")])):
        frame = pd.DataFrame(history, columns=names, index=new.index - pd.Timedelta("7D"))
        detector = tsadc.Ensemble(length=LENGTH, kernels=8).fit(frame)
        detector.save(tmp_path / f"model {len(expected)}")
        found = tsadc.load(tmp_path / f"model {len(expected)}").detect(new).intervals
        found = found[found["kind"] == "missing"]
        assert found["start"].tolist() == [new.index[row] for row, _ in expected]
        assert found["reason"].tolist() == [f"{said} {lasting}." for _, lasting in expected]


def test_a_model_of_an_earlier_version_says_that_it_reports_no_missing_sensors(history, detector, tmp_path):
    detector.save(tmp_path / "model")
    old = tsadc.load(tmp_path / "model")
    state = {name: array for name, array in old.usual_.state().items() if not name.endswith((".gap", ".present"))}
    old.usual_ = Usual.restore(state, LENGTH, 4)
    with pytest.warns(TsadcNotice, match="fitted by an earlier version and may not report sensors") as notices:
        intervals = old.detect({"pump": later(history).assign(load=np.nan)}).intervals
    assert len(notices) == 1
    assert "missing" not in set(intervals["kind"])
