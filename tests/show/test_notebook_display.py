"""How results and detectors look in a notebook, and what they can be asked there."""

import copy
import re
import sys
from xml.etree import ElementTree

import matplotlib
import matplotlib.dates
import matplotlib.pyplot
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import tsadc
from tsadc.config import update
from tsadc.detectors.classical.robust_z import RobustZ
from tsadc.errors import ConfigError, DataError, OutputError, TsadcError

matplotlib.use("Agg")
pytestmark = pytest.mark.filterwarnings("ignore:Entities that the model does not know:tsadc.errors.TsadcNotice")
HOSTILE = "<script>alert('pump')</script>"


def table(rows: int = 600, seed: int = 1, fault: bool = True) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    data = pd.DataFrame(generator.standard_normal((rows, 3)), columns=["flow", "score", "<b>heat</b>"])
    data.index = pd.date_range("2026-01-01", periods=rows, freq="1min")
    if fault:
        data.iloc[300:330, 0] += 30
    return data


@pytest.fixture(scope="module")
def detector() -> RobustZ:
    history = {HOSTILE: table(3000, 0, False), "fan": table(3000, 5, False)}
    return RobustZ(length=20, threshold__method="tail", threshold__share=0.0001).fit(history)


@pytest.fixture(scope="module")
def result(detector: RobustZ) -> tsadc.Result:
    return detector.detect({HOSTILE: table(), "fan": table(seed=2, fault=False)})


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    matplotlib.pyplot.close("all")


def test_the_text_of_a_result_is_its_headline(result, detector):
    assert re.fullmatch(
        r"<Result: 1 unusual interval in 1,200 rows of 2 entities \(\S+ % of the rows\)>",
        repr(result).replace("\u202f", " "),
    )
    calm = detector.detect({"fan": table(200, seed=3, fault=False)})
    assert repr(calm) == "<Result: Nothing unusual in 200 rows of 1 entity>"
    assert "<table" not in calm._repr_html_()


def test_the_headline_mentions_drift(detector):
    moved = table(600, seed=3, fault=False)
    moved.iloc[200:, 0] += 30
    text = repr(detector.detect({"fan": moved})).replace("\u202f", " ")
    assert re.fullmatch(
        r"<Result: 1 unusual interval in 600 rows of 1 entity \(\S+ % of the rows\); 1 entity has drifted>", text
    )
    lenient = copy.copy(detector)
    lenient.settings_ = update(detector.settings_, {"event": {"minimum": 10000}})
    assert repr(lenient.detect({"fan": moved})) == (
        "<Result: Nothing stands out from the recent past in 600 rows of 1 entity; 1 entity has drifted>"
    )


def test_the_headline_mentions_a_stuck_sensor():
    stuck = table(600, seed=3, fault=False)
    stuck["flow"] = 0.3
    detector = tsadc.Ensemble(length=20, kernels=8).fit({"fan": table(3000, 0, False)})
    assert repr(detector.detect({"fan": stuck})).endswith("; 1 entity has stuck sensors>")


def test_a_notebook_shows_headline_table_and_scores_without_scripts(result):
    text = result._repr_html_()
    assert "<script" not in text
    assert "<b>heat" not in text
    assert "&lt;script&gt;alert('pump')&lt;/script&gt;" in text
    assert text.count("<svg") == 2
    assert "2026-01-01 05:00:00" in text
    assert "<bdi>flow</bdi>" in text
    ElementTree.fromstring(text)


def test_many_intervals_and_entities_are_counted_and_not_all_shown(detector):
    data = table(2000, fault=False)
    for start in range(100, 1900, 200):
        data.iloc[start : start + 10, 1] += 30
    text = detector.detect({f"unit {k}": data for k in range(8)} | {"fan": table()})._repr_html_()
    assert text.count("<tr>") == 6
    assert "more in result.intervals" in text
    assert text.count("<svg") == 5
    assert "4 entities are not shown" in text


def test_a_fitted_detector_says_what_it_learnt(detector):
    text, made = repr(detector), "RobustZ(length=20, threshold__method='tail', threshold__share=0.0001)"
    assert text.startswith(f"{made} fitted to 300 observations of 20 rows, 3 variables, 2 entities; threshold ")
    html = detector._repr_html_()
    assert "<script" not in html
    assert "RobustZ" in html
    assert "300 observations of 20 rows" in html
    assert "Contamination" in html
    blank = clone(detector)
    assert repr(blank) == made
    assert blank._repr_html_() is None


def test_a_frame_has_the_verdict_and_the_values_of_every_row(result):
    frame = result.to_frame()
    assert list(frame) == ["entity", "time", "score", "anomalous", "flow", "score_value", "<b>heat</b>"]
    assert len(frame) == 1200
    np.testing.assert_array_equal(frame["flow"][:600], table()["flow"])
    np.testing.assert_array_equal(frame["score_value"][:600], table()["score"])
    assert frame.loc[frame["anomalous"], "flow"].mean() > 20


def test_a_result_writes_its_report(result, tmp_path):
    file = result.report(tmp_path / "report.html", title="Pumps")
    assert file == tmp_path / "report.html"
    assert "<h1>Pumps</h1>" in file.read_text()
    with pytest.raises(OutputError):
        result.report(tmp_path)


def test_a_plot_shows_the_worst_entity_and_the_variables_that_are_blamed(result):
    axes = result.plot()
    assert [axis.get_ylabel() for axis in axes] == ["score", "flow", "score", "<b>heat</b>"]
    assert axes[0].get_title() == HOSTILE
    drawn = axes[1].lines[0].get_ydata()
    np.testing.assert_array_equal(drawn, table()["flow"])
    assert len(axes[1].patches) == 1
    low, high = result.parts[0].band
    edges = axes[1].collections[0].get_paths()[0].vertices[:, 1]
    assert edges.min() == pytest.approx(np.nanmin(low[:, 0]))
    assert edges.max() == pytest.approx(np.nanmax(high[:, 0]))


def test_a_plot_of_an_interval_is_centred_on_it(result):
    axes = result.plot(["<b>heat</b>", "flow"], interval=0)
    assert [axis.get_ylabel() for axis in axes[1:]] == ["<b>heat</b>", "flow"]
    found = result.intervals.iloc[0]
    times = matplotlib.dates.num2date(axes[0].lines[0].get_xdata(orig=False)[[0, -1]])
    first, last = (pd.Timestamp(time).tz_localize(None) for time in times)
    length = found["end"] - found["start"]
    assert first == found["start"] - max(length, pd.Timedelta("20min"))
    assert last == found["end"] + max(length, pd.Timedelta("20min")) - pd.Timedelta("1min")
    assert [axis.get_ylabel() for axis in result.plot(interval=0)][1] == "flow"
    assert result.plot("flow", entity="fan")[0].get_title() == "fan"


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ({"variables": ["flwo"]}, "There is no variable 'flwo'; did you mean `flow`"),
        ({"entity": "fann"}, "There is no entity 'fann'; did you mean `fan`"),
        ({"interval": 9}, "An interval is named by its row in `intervals`, from 0 to 0, but got 9"),
        ({"interval": 0, "entity": "fan"}, "not of 'fan'; leave out `entity`"),
    ],
)
def test_what_a_plot_cannot_show_is_refused(result, asked, complaint):
    with pytest.raises(DataError, match=re.escape(complaint)):
        result.plot(**asked)


def test_without_matplotlib_the_extra_is_named(result, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(TsadcError, match=re.escape("pip install 'tsadc[plot]'")):
        result.plot()


def test_scores_of_rows_have_the_index_of_the_frame(detector):
    data = table()
    scores = detector.decision_function(data, per="row")
    pd.testing.assert_index_equal(scores.index, data.index)
    timeline = detector.detect(data).timeline["score"]
    np.testing.assert_array_equal(scores, timeline.astype(np.float64))
    labelled = data.reset_index(names="time").set_index(pd.Index([f"row {k}" for k in range(600)]))
    np.testing.assert_array_equal(
        detector.decision_function(labelled, per="row").loc["row 310":"row 320"], scores[310:321]
    )
    sparse = data.drop(data.index[100:105])
    shorter = detector.decision_function(sparse, per="row")
    pd.testing.assert_index_equal(shorter.index, sparse.index)
    np.testing.assert_allclose(shorter.iloc[295:325], scores.iloc[300:330])
    with pytest.raises(ConfigError, match="`per` must be 'observation' or 'row', but got 'rows'"):
        detector.decision_function(data, per="rows")


def test_scores_of_rows_of_several_entities_are_found_by_entity_and_time(detector):
    scores = detector.decision_function({"a": table(), "b": table(seed=2)}, per="row")
    assert scores.index.names == ["entity", "time"]
    assert scores["a"].shape == (600,)
    assert detector.decision_function(table().to_numpy(), per="row").shape == (600,)


def test_verdicts_as_in_other_libraries(detector):
    data = table()
    scores = detector.decision_function(data)
    np.testing.assert_array_equal(detector.score_samples(data), -scores)
    chances = detector.predict_proba(data)
    assert chances.shape == (30, 2)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    assert chances.argmax(axis=0)[1] == scores.argmax()
    assert chances[15, 1] > 0.9999
    assert 0.3 < np.median(chances[:, 1]) < 0.7
    again = clone(detector)
    labels = again.fit_predict(data)
    np.testing.assert_array_equal(labels, again.labels_)
    assert labels.shape == (30,)
    assert labels[15] == 1
