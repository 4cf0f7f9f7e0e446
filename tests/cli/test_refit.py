"""`tsadc refit`: a model trained again on recent data replaces the old one, or stays out."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from terminal import frame, tsadc, untouched
from tsadc.detectors.base import Detector
from tsadc.detectors.classical.robust_z import RobustZ
from tsadc.detectors.ensemble.detector import Ensemble
from tsadc.detectors.refit import duration, last_part, refit
from tsadc.detectors.store import load
from tsadc.detectors.versions import replace_model
from tsadc.errors import DataError, RefitError, TsadcNotice
from tsadc.io.memory import as_series
from tsadc.series import Clock, Series

MINUTE = 60 * 10**9


def noise(rows: int, seed: int, entity: str = "pump", spread: float = 1.0) -> Series:
    values = spread * np.random.default_rng(seed).standard_normal((rows, 3))
    return Series(values, ("a", "b", "c"), Clock(0, MINUTE, dated=True), entity)


def strict(share: float = 0.0001) -> RobustZ:
    return RobustZ(config=RobustZ.Config(length=20, threshold={"method": "tail", "share": share}))


def csv(series: Series, file: Path) -> Path:
    table = pd.DataFrame(np.asarray(series.values), columns=list(series.names))
    table.insert(0, "time", series.clock.at(np.arange(len(series))))
    table.to_csv(file, index=False)
    return file


@pytest.fixture(scope="module")
def fitted() -> RobustZ:
    return strict().fit([noise(6000, 0)])


@pytest.fixture
def model(fitted: RobustZ, tmp_path: Path) -> Path:
    fitted.save(tmp_path / "model")
    return tmp_path / "model"


def test_a_window_ends_with_the_last_row() -> None:
    late = Series(np.arange(30.0)[:, None], ("a",), Clock(10 * MINUTE, MINUTE, dated=True), "late")
    early = Series(np.arange(30.0)[:, None], ("a",), Clock(0, MINUTE, dated=True), "early")
    first, second = last_part([late, early], 15 * MINUTE)
    assert (first.values[0, 0], len(first), first.clock.start) == (15, 15, 25 * MINUTE)
    assert (second.values[0, 0], len(second)) == (25, 5)
    assert [len(part) for part in last_part([late, early], duration("90d"))] == [30, 30]
    with pytest.raises(RefitError, match="'early' has no rows in the window"):
        last_part([late, early], 5 * MINUTE)
    with pytest.raises(DataError, match="'series' has none"):
        last_part(as_series(np.zeros((9, 1)), 8), MINUTE)


@pytest.mark.parametrize("text", ["90", "soon", "-3d", "0h", "", "99999999999d"])
def test_a_window_is_a_duration(text: str) -> None:
    with pytest.raises(DataError, match="A window is a whole number of min, h, d or w"):
        duration(text)


def test_what_the_old_model_flags_is_not_learnt(fitted: RobustZ) -> None:
    """A tenth of the window is a hundred times as large. Learnt, it would widen the scale; left out, it does not."""
    window = noise(6000, 1)
    window.values[1000:1600] *= 100
    done = refit(fitted, [window])
    assert 590 <= done.removed <= 640
    before, after = (detector.scaler_.entities["pump"].scale for detector in (fitted, done.detector))
    np.testing.assert_allclose(after, before, rtol=0.1)
    assert done.new.parts[0].anomalous[1000:1600].mean() > 0.95
    assert done.objections() == []


def test_the_threshold_does_not_sink_from_refit_to_refit() -> None:
    detector: Detector = strict(share=0.05).fit([noise(6000, 0)])
    shares = []
    for seed in range(1, 9):
        detector = refit(detector, [noise(6000, seed)]).detector
        shares.append(detector.predict([noise(6000, 100)]).mean())
    assert max(shares) < 0.09
    assert abs(np.mean(shares[-3:]) - np.mean(shares[:3])) < 0.02


def test_the_comparison_is_of_the_last_days(fitted: RobustZ) -> None:
    window = noise(6000, 1)  # four days and four hours
    window.values[5000:5100] += 30
    done = refit(fitted, [window])
    assert done.days == pytest.approx(6000 / 1440 / 4)
    assert done.recent.sum() == 75
    old, new = done.flagged
    assert 5 <= old <= 7
    assert 5 <= new <= 7
    assert done.agreement > 0.97
    assert done.correlation > 0.8
    assert done.alarms_per_day[0] == pytest.approx(1 / done.days)


def test_a_model_that_flags_what_was_normal_is_refused(fitted: RobustZ, model: Path, tmp_path: Path) -> None:
    """Most of the window is silent, so that its last, ordinary day would stand out."""
    window = noise(8000, 1, spread=0.01)
    window.values[6400:] = noise(1600, 2).values
    file, page = csv(window, tmp_path / "pump.csv"), tmp_path / "page.html"
    with untouched(model):
        refusal = tsadc("refit", model, file, "--report", page).refusal
    assert refusal.startswith(f"The new model is not sound, so {model} stays as it is: it flags ")
    assert not model.with_name("model.previous").exists()
    assert "not sound" in page.read_text()
    answer = tsadc("refit", model, file, "--out", tmp_path / "other")
    assert answer.code == 0
    assert "note: The new model is not sound: it flags" in answer.err
    assert load(tmp_path / "other").threshold_ != fitted.threshold_


def test_a_window_that_is_mostly_flagged_is_refused(fitted: RobustZ) -> None:
    window = noise(6000, 1)
    window.values[2000:] += 50
    with pytest.raises(RefitError, match=r"flags 67% of the window.*`tsadc fit`"):
        refit(fitted, [window])


def test_a_short_window_is_refused(fitted: RobustZ) -> None:
    with pytest.raises(RefitError, match="only 10 observations to learn from, but at least 20"):
        refit(fitted, [noise(200, 1)])


def test_entities_are_forgotten_only_on_request() -> None:
    detector = RobustZ(length=20).fit([noise(2000, 0, "left"), noise(2000, 1, "right")])
    with pytest.raises(RefitError, match=r"The model knows right, which the data lacks.* insist with --force\."):
        refit(detector, [noise(2000, 2, "left")])
    with pytest.warns(TsadcNotice, match="The new model forgets right"):
        done = refit(detector, [noise(2000, 2, "left")], force=True)
    assert list(done.detector.scaler_.entities) == ["left"]


def test_a_variable_without_values_is_refused(fitted: RobustZ) -> None:
    window = noise(6000, 1)
    window.values[:, 1] = np.nan
    with pytest.raises(RefitError, match=r"^The window has no values of b to learn from; .* with `tsadc fit`\.$"):
        refit(fitted, [window], force=True)


def test_a_variable_that_hardly_varies_any_more_is_named() -> None:
    """The ensemble does not judge variables with at most 10 values: a valve that rests would never be judged again."""
    detector = Ensemble(length=40).fit([noise(4000, 0)])
    window = noise(4000, 1)
    window.values[:, 2] = np.round(0.5 * window.values[:, 2])
    with pytest.warns(TsadcNotice, match=r"Not judged, .*: c\."):
        done = refit(detector, [window])
    assert done.lost == ("c",)
    assert "it no longer judges c" in done.objections()


def test_less_history_than_half_is_refused_unless_forced(model: Path, tmp_path: Path) -> None:
    """The old model was trained on 300 observations; two days have 144, and three 216."""
    file, page = csv(noise(6000, 7), tmp_path / "pump.csv"), tmp_path / "page.html"
    with untouched(model):
        refusal = tsadc("refit", model, file, "--window", "2d", "--report", page).refusal
    assert refusal == (
        f"The new model is not sound, so {model} stays as it is: it has learnt from 144 observations per entity, less "
        "than half of the 300 of the old one; look at it with --report, save it elsewhere with --out, or insist with "
        "--force."
    )
    said = "144 observations (2 days); before, 300 observations (4.2 days)"
    assert said in page.read_text()
    assert "The new model was trained on these days, too" in page.read_text()
    answer = tsadc("refit", model, file, "--window", "2d", "--force")
    assert answer.code == 0
    assert "note: The new model is not sound: it has learnt from 144 observations" in answer.err
    assert f"\nHistory per entity: {said}.\n" in answer.out
    assert load(model).provenance_["data"]["observations"] == 144
    assert load(tmp_path / "model.previous").provenance_["data"]["observations"] == 300


def test_the_validation_scores_are_those_of_what_the_training_held_out(fitted: RobustZ) -> None:
    window = noise(6000, 1)
    window.values[1000:1600] *= 100
    done = refit(fitted, [window])
    cleaned = np.array(window.values)
    cleaned[done.old.parts[0].anomalous] = np.nan
    direct = strict().fit([Series(cleaned, window.names, window.clock, window.entity)])
    held = done.detector.validation_scores_
    assert len(direct.decision_scores_) < len(done.detector.decision_scores_) == 300
    assert np.isin(direct.validation_scores_, held).mean() > 0.95  # an observation in part flagged has another score
    assert len(held) == pytest.approx(60, abs=2)
    flagged = np.sort(done.detector.decision_scores_)[-30:]
    assert np.isin(held, flagged).sum() == pytest.approx(6, abs=1)


def test_the_new_model_is_compared_by_scores_of_what_it_has_not_learnt() -> None:
    """The ensemble scores its history in folds. Scored as new data, what it has learnt looks more usual than it is."""
    calm = {"length": 40, "threshold__method": "tail", "threshold__share": 0.0001}
    done = refit(Ensemble(**calm).fit([noise(4000, 0)]), [noise(4000, 1)])
    assert done.removed == 0
    direct = Ensemble(**calm).fit([noise(4000, 1)])
    _, compared = done.scores
    np.testing.assert_allclose(compared, direct.decision_scores_)
    assert np.mean(compared) > np.mean(done.new.scores)
    assert done.flagged[1] == (compared > done.detector.threshold_ + done.new.raised)[done.recent].sum()


def test_the_new_model_replaces_the_old_one_and_can_be_rolled_back(model: Path, tmp_path: Path) -> None:
    old, file, page = load(model), csv(noise(6000, 7), tmp_path / "pump.csv"), tmp_path / "page.html"
    answer = tsadc("refit", model, file, "--window", "3d", "--report", page)
    assert answer.code == 0, answer.err
    assert answer.out.startswith("Trained on 216 observations from 1970-01-02 04:00 to 1970-01-05 04:00 UTC; ")
    assert f"The model is in {model}, the one before in {model}.previous." in answer.out
    new = load(model)
    assert len(new.decision_scores_) == 216
    assert new.settings == old.settings
    assert load(tmp_path / "model.previous").threshold_ == old.threshold_
    text = page.read_text()
    assert text.startswith("<!doctype html>")
    assert "may replace the old one" in text
    assert tsadc("refit", model, "--rollback").code == 0
    assert load(model).threshold_ == old.threshold_
    assert load(tmp_path / "model.previous").threshold_ == new.threshold_
    names = sorted(path.name for path in tmp_path.iterdir() if not path.name.endswith(".lock"))
    assert names == ["model", "model.previous", "page.html", "pump.csv"]


def test_the_ensemble_is_refitted(tmp_path: Path) -> None:
    for seed in (0, 1):
        (tmp_path / str(seed)).mkdir()
        frame(rows=2400, seed=seed).to_csv(tmp_path / str(seed) / "pump.csv", index=False)
    assert tsadc("fit", tmp_path / "0" / "pump.csv", "--out", tmp_path / "model", "--length", "40").code == 0
    answer = tsadc("refit", tmp_path / "model", tmp_path / "1" / "pump.csv")
    assert answer.code == 0, answer.err
    assert len(load(tmp_path / "model").decision_scores_) == 60


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--rollback"], "There is no "),
        (["pump.csv", "--rollback"], "--rollback needs no data"),
        ([], "Recent data to learn from is missing"),
        (["absent.csv"], "There is no file absent.csv"),
        (["pump.csv", "--window", "90"], "A window is a whole number"),
        (["pump.csv", "--out", "taken"], "taken exists already"),
        (["pump.csv", "--report", "taken"], "taken is a folder"),
        (["undated.csv"], "A window of time needs dates"),
    ],
)
def test_what_cannot_be_done_is_refused_and_changes_nothing(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], complaint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    csv(noise(2000, 1), tmp_path / "pump.csv")
    pd.read_csv("pump.csv").drop(columns="time").to_csv("undated.csv", index=False)
    (tmp_path / "taken").mkdir()
    with untouched(tmp_path):
        assert complaint in tsadc("refit", model, *words).refusal


def test_a_model_behind_a_link_is_replaced_where_it_lies(fitted: RobustZ, model: Path, tmp_path: Path) -> None:
    shutil.move(model, tmp_path / "model-1")
    (tmp_path / "current").symlink_to("model-1")
    replace_model(tmp_path / "current", fitted)
    assert (tmp_path / "current").is_symlink()
    assert load(tmp_path / "current").threshold_ == fitted.threshold_
    assert (tmp_path / "model-1.previous").is_dir()
