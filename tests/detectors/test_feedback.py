"""Verdicts: what a detector learns from them, and that they can be taken back, saved and carried over."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tsadc
from tsadc.detectors import feedback
from tsadc.detectors.classical.robust_z import RobustZ
from tsadc.detectors.feedback import Exemplar, Verdict, fit_factor, question_order, respecting
from tsadc.detectors.refit import refit
from tsadc.detectors.threshold import Normal
from tsadc.errors import DataError, ModelFileError, TsadcNotice
from tsadc.series import Clock, Floats, Series

MINUTE = 60 * 10**9
LENGTH = 60


def noise(rows: int, seed: int) -> Floats:
    return np.random.default_rng(seed).normal(size=(rows, 3))


def series(values: Floats, start: int = 0) -> Series:
    return Series(values, ("a", "b", "c"), Clock(start * MINUTE, MINUTE, dated=True), "pump")


def new() -> Series:
    """Return data with a jump of `b`, a restless `a`, a jump of `c`, and nearly the same jump of `b` again."""
    values = noise(1800, 1)
    values[300:330, 1] += 8
    values[700:760, 0] *= 4
    values[1000:1010, 2] += 6
    values[1500:1560] = values[300:360] + 0.05 * noise(60, 2)
    return series(values, start=4020)


@pytest.fixture(scope="module")
def fitted() -> tsadc.Ensemble:
    return tsadc.Ensemble(length=LENGTH, kernels=16).fit([series(noise(4020, 0))])


@pytest.fixture
def detector(fitted: tsadc.Ensemble, tmp_path: Path) -> tsadc.Ensemble:
    fitted.save(tmp_path / "model")
    loaded = tsadc.load(tmp_path / "model")
    assert isinstance(loaded, tsadc.Ensemble)
    return loaded


def names(result: tsadc.Result) -> dict[int, str]:
    """Return the names of the intervals by the row of their start, rounded to hundreds."""
    (part,) = result.parts
    return {round(own.start, -2): own.id(part.series) for own in part.intervals}


def test_no_verdict_changes_nothing_and_all_can_be_taken_back(detector: tsadc.Ensemble) -> None:
    before = detector.detect(new())
    threshold, history = detector.threshold_, detector.decision_scores_.copy()
    found = names(before)
    detector.feedback(before, {found[300]: False, found[700]: True}, note="valve", by="Kim")
    assert detector.threshold_ != threshold
    assert [(own.verdict, own.note, own.by) for own in detector.verdicts_] == [
        ("false", "valve", "Kim"),
        ("true", "valve", "Kim"),
    ]
    detector.feedback(None, {found[300]: None}).feedback(None, {found[700]: None})
    after = detector.detect(new())
    assert detector.lesson_ is None
    assert detector.threshold_ == threshold
    assert np.array_equal(detector.decision_scores_, history)
    assert np.array_equal(after.scores, before.scores)
    assert list(after.observations.columns) == list(before.observations.columns)


def test_a_false_alarm_and_what_resembles_it_are_silent_and_a_true_anomaly_stays(detector: tsadc.Ensemble) -> None:
    before = detector.detect(new())
    found = names(before)
    assert sorted(found) == [300, 700, 1000, 1500]
    detector.feedback(before, {found[300]: "false", found[700]: "true"})
    after = detector.detect(new())
    assert 300 not in names(after)
    assert 1500 not in names(after)
    assert 700 in names(after)
    # The score is the sum of what the views add and of what the verdicts change.
    table = after.observations
    views = table[[name for name in table if name.endswith("_score")]]
    assert "feedback_score" in views
    np.testing.assert_allclose(views.sum(axis=1), table["score"], atol=1e-5)
    np.testing.assert_allclose(views.drop(columns="feedback_score").sum(axis=1), before.scores, atol=1e-5)
    np.testing.assert_array_equal(detector.decision_function([new()]), after.scores)
    parts = np.concatenate([part.scores for part in detector.detect_parts([new()], rows=200)])
    np.testing.assert_array_equal(parts, after.scores)


def test_a_false_alarm_over_several_observations_is_silent_as_a_whole(detector: tsadc.Ensemble) -> None:
    values = noise(1800, 1)
    values[455:560, 1] += 7  # three observations
    data = series(values, start=4020)
    result = detector.detect([data])
    worst = result.worst(1).iloc[0]
    assert result.scores[[7, 8, 9]].min() > result.threshold
    (verdict,) = detector.feedback(result, {worst["id"]: False}).verdicts_
    assert len(verdict.others) == 2
    after = detector.detect([data])
    assert after.scores[[7, 8, 9]].max() <= after.threshold
    (carried,) = feedback.carried_over([verdict], detector, after)
    assert carried.score == pytest.approx(verdict.score)
    assert len(carried.others) == 2


def test_a_file_without_other_observations_is_read(detector: tsadc.Ensemble, tmp_path: Path) -> None:
    earlier = stored()
    assert "others" not in earlier or earlier.pop("others") is not None
    (tmp_path / feedback.FILE).write_text(json.dumps({"format": 1, "verdicts": [earlier]}))
    (verdict,) = feedback.read(tmp_path)
    assert list(verdict.others) == []


def test_the_share_of_false_alarms_is_stated_again(detector: tsadc.Ensemble) -> None:
    before = detector.detect(new())
    share = before.false_alarm_share
    detector.feedback(before, dict.fromkeys(names(before).values(), "true"))
    factor = detector.lesson_.factor
    assert (factor >= 0).all()
    assert not np.allclose(factor, 1)
    after = detector.detect(new())
    assert after.false_alarm_share == pytest.approx(detector.normal_.above(detector.threshold_))
    assert after.false_alarm_share == pytest.approx(share, rel=2)
    history = detector.lesson_.before["decision_scores_"] + detector.history_views_.astype(float) @ (factor - 1)
    np.testing.assert_allclose(detector.decision_scores_, history)


def test_a_newer_verdict_replaces_an_older_one_with_a_notice(detector: tsadc.Ensemble) -> None:
    result = detector.detect(new())
    name = names(result)[300]
    detector.feedback(result, {name: "true"})
    with pytest.warns(TsadcNotice, match=f"The interval {name} was judged 'true' before; it is now 'false'"):
        detector.feedback(result, {name: "false"})
    assert [own.verdict for own in detector.verdicts_] == ["false"]


def test_wrong_names_and_words_are_refused_and_change_nothing(detector: tsadc.Ensemble) -> None:
    result = detector.detect(new())
    name = names(result)[300]
    with pytest.raises(DataError, match=f"has no interval '{name[:-1]}x'; did you mean `{name}`"):
        detector.feedback(result, {name[:-1] + "x": "true"})
    with pytest.raises(DataError, match="true, false or planned, but got 'maybe'"):
        detector.feedback(result, {name: "maybe"})
    with pytest.raises(DataError, match="has no verdict at all"):
        detector.feedback(None, {name: None})
    with pytest.raises(DataError, match="needs the result"):
        detector.feedback(None, {name: "true"})
    with pytest.raises(DataError, match="at most 10,000 characters"):
        detector.feedback(result, {name: "true"}, note="x" * 10_001)
    assert detector.verdicts_ == ()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("RESULT", [("NAME", False)]), "`verdicts` must map the id of each interval to True, False or 'planned'"),
        (("RESULT", None), "but got a NoneType."),
        (("TABLE", {"NAME": False}), "`result` must be what `detect` has returned, or None"),
        (("TABLE", {"NAME": False}), "but got a DataFrame; keep the result as a whole"),
        (("RESULT", {0: False}), "is a text such as 'ksrsghqq', but got 0, an int; take it from the column `id`"),
        (("RESULT", {"NAME": ["false"]}), "A verdict is true, false or planned, but got ['false']."),
        (("RESULT", {"NAME": 1}), "A verdict is true, false or planned, but got 1."),
        (("RESULT", {"NAME": False}, 5), "`note` must be a text, but got an int."),
        (("RESULT", {"NAME": False}, None, b"Kim"), "`by` must be a text, but got a bytes."),
        ((None, {"NAME": False}), "needs the result that has the interval"),
    ],
)
def test_arguments_of_another_type_are_refused_in_one_sentence(
    arguments: tuple[Any, ...], says: str, detector: tsadc.Ensemble
) -> None:
    result = detector.detect(new())
    name = names(result)[300]

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            return {name if key == "NAME" else key: verdict for key, verdict in value.items()}
        return {"RESULT": result, "TABLE": result.intervals}.get(value, value) if isinstance(value, str) else value

    first, verdicts, *rest = map(filled, arguments)
    with pytest.raises(DataError) as error:
        detector.feedback(first, verdicts, **dict(zip(("note", "by"), rest, strict=False)))
    assert says in str(error.value)
    assert detector.verdicts_ == ()


def test_the_id_of_an_interval_may_be_written_in_capitals(detector: tsadc.Ensemble) -> None:
    result = detector.detect(new())
    name = names(result)[300]
    detector.feedback(result, {name.upper(): False})
    assert [verdict.id for verdict in detector.verdicts_] == [name]
    with pytest.raises(DataError, match="has two verdicts about the interval"):
        detector.feedback(result, {name: True, name.upper(): False})
    assert detector.feedback(None, {name.upper(): None}).verdicts_ == ()


def test_a_saved_model_keeps_verdicts_and_scores_to_the_bit(detector: tsadc.Ensemble, tmp_path: Path) -> None:
    result = detector.detect(new())
    found = names(result)
    detector.feedback(result, {found[300]: "false", found[700]: "true", found[1000]: "planned"})
    detector.save(tmp_path / "taught")
    loaded = tsadc.load(tmp_path / "taught")
    assert loaded.verdicts_ == detector.verdicts_
    assert loaded.threshold_ == detector.threshold_
    assert np.array_equal(loaded.detect(new()).scores, detector.detect(new()).scores)
    loaded.set_threshold(method="tail", share=0.2).set_threshold(method="auto")
    assert loaded.threshold_ == detector.threshold_
    loaded.feedback(None, dict.fromkeys(found[row] for row in (300, 700, 1000)))
    assert np.array_equal(loaded.detect(new()).scores, result.scores)


def test_verdicts_survive_adapt_and_fit_forgets_them(detector: tsadc.Ensemble) -> None:
    result = detector.detect(new())
    detector.feedback(result, {names(result)[300]: "false"})
    detector.adapt([replace(series(noise(1980, 5)), entity="pump 2")])
    assert len(detector.verdicts_) == 1
    assert detector.fit([series(noise(1200, 0))]).verdicts_ == ()
    assert detector.lesson_ is None


def test_verdicts_survive_a_refit_and_are_scored_again(detector: tsadc.Ensemble) -> None:
    result = detector.detect(new())
    found = names(result)
    detector.feedback(result, {found[300]: "false", found[700]: "true", found[1000]: "planned"}, by="Kim")
    old = {own.id: own for own in detector.verdicts_}
    window = replace(
        new(), values=np.concatenate([noise(2400, 2), new().values]), clock=Clock(1620 * MINUTE, MINUTE, True)
    )
    done = refit(detector, [window])
    again = {own.id: own for own in done.detector.verdicts_}
    assert again.keys() == old.keys()
    assert {own.by for own in again.values()} == {"Kim"}
    assert again[found[300]].model == feedback.model_name(done.detector) != old[found[300]].model
    assert again[found[300]].views != old[found[300]].views
    kept = names(done.detector.detect(new()))
    assert 300 not in kept
    assert 1000 not in kept
    assert kept[700] == found[700]
    # The false alarm was learnt from, the true anomaly and the planned work were not.
    learnt = done.detector.provenance_["data"]["observations"]
    assert learnt < 70
    # Without the data, a verdict keeps the scores that it has.
    later = refit(detector, [series(noise(4020, 3), start=9000)]).detector
    assert {own.id: own.views for own in later.verdicts_} == {name: own.views for name, own in old.items()}
    assert later.lesson_ is not None


def test_planned_work_is_not_judged(detector: tsadc.Ensemble) -> None:
    result = detector.detect(new())
    name = names(result)[300]
    detector.feedback(result, {name: "planned"}, note="overhaul")
    assert detector.lesson_ is None
    after = detector.detect(new())
    assert sorted(names(after)) == [700, 1000, 1500]
    assert after.planned[["entity", "note", "variables"]].values.tolist() == [["pump", "overhaul", []]]
    rows = after.timeline["time"].between(after.planned["start"][0], after.planned["end"][0], inclusive="left")
    assert after.timeline.loc[rows, "score"].isna().all()


def test_a_detector_without_views_only_moves_its_threshold() -> None:
    detector = RobustZ(length=20, threshold__method="tail", threshold__share=0.05).fit([series(noise(4020, 0))])
    result = detector.detect(new())
    threshold = detector.threshold_
    weak = result.intervals.sort_values("score")["id"].iloc[0]
    detector.feedback(result, {weak: "false"})
    assert detector.threshold_ > threshold
    assert weak not in detector.detect(new()).intervals["id"].tolist()
    assert np.array_equal(detector.detect(new()).scores, result.scores)


def test_a_missing_sensor_teaches_nothing(detector: tsadc.Ensemble) -> None:
    data = new()
    values = data.values.copy()
    values[100:250, 2] = np.nan
    result = detector.detect([replace(data, values=values)])
    name = result.intervals.loc[result.intervals["kind"] == "missing", "id"].iloc[0]
    with pytest.warns(TsadcNotice, match=f"{name} is a sensor that stopped reporting"):
        detector.feedback(result, {name: "false"})
    assert detector.lesson_ is None
    with pytest.warns(TsadcNotice, match="it is now 'planned'"):
        detector.feedback(result, {name: "planned"})
    after = detector.detect([replace(data, values=values)])
    assert "missing" not in after.intervals["kind"].tolist()
    assert not after.parts[0].anomalous[100:250].any()


def test_the_loss_has_its_minimum_there_and_falls_back_to_today_without_separation() -> None:
    rng = np.random.default_rng(0)
    added, true = rng.normal(size=(12, 4)), np.arange(12) % 2 == 0
    added[true, 0] += 3

    def loss(factor: Floats) -> float:
        scale = np.maximum(np.abs(added.sum(axis=1) - 1.0), 0.5)
        margin = np.where(true, 1, -1) * (added @ factor - 1.0) / scale
        return float(np.logaddexp(0, -margin).sum() + feedback.STRENGTH / 2 * np.square(factor - 1).sum())

    best = fit_factor(added, true, 1.0, 0.5)
    assert best[0] > 1
    assert (best >= 0).all()
    for _ in range(200):
        assert loss(np.maximum(best + 0.05 * rng.normal(size=4), 0)) >= loss(best) - 1e-6
    np.testing.assert_allclose(fit_factor(np.zeros((3, 4)), np.ones(3, dtype=bool), 1.0, 0.5), 1)


def test_one_verdict_about_a_far_outlier_changes_no_weight_much() -> None:
    far = fit_factor(np.full((1, 10), 100.0), np.array([False]), 2.0, 0.5)
    np.testing.assert_allclose(far, far[0])
    assert 0.7 < far[0] < 1


def test_questions_are_about_the_highest_and_the_closest_in_turns_and_copies_come_last() -> None:
    views = [{"a": 9.0}, {"a": 8.9}, {"b": 5.0}, {"a": 1.0, "b": 1.0}, {"b": 0.5}]
    assert question_order([9.0, 8.9, 5.0, 2.0, 0.5], views) == [0, 4, 3, 2, 1]
    assert question_order([], []) == []
    assert question_order([1.0, 2.0], [{}, {}]) == [1, 0]


def test_a_threshold_moves_only_if_verdicts_are_worth_the_change_in_false_alarms() -> None:
    normal = Normal(np.random.default_rng(0).normal(size=2000), 0.01)
    three = normal.at(0.01)
    scores = np.array([three + 0.1, three + 0.2, three + 2.0])
    moved = respecting(three, normal, scores, np.array([False, False, True]))
    assert scores[1] <= moved < scores[2]
    assert respecting(three, normal, scores, np.array([True, True, True])) == three
    far = np.array([three + 50.0])
    assert respecting(three, normal, far, np.array([False])) == three


def test_similarity_is_one_for_a_copy_and_falls_with_the_distance() -> None:
    own = Exemplar("pump", False, np.array([3.0, 4.0]), 1.0)
    assert own.similarity(np.array([3.0, 4.0])) == 1
    assert own.similarity(np.array([3.0, 4.0 + 5 * feedback.WIDTH])) == pytest.approx(np.exp(-0.5))


def stored(**changes: object) -> dict[str, object]:
    own = Verdict("abc", "pump", 0, 60, True, "true", score=1.0, views={"a": 1.0})
    return json.loads(feedback.to_json([own]))["verdicts"][0] | changes


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[]",
        b'{"format": 1}',
        b'{"format": 1, "verdicts": [{}]}',
        json.dumps({"format": 1, "verdicts": [stored(verdict="maybe")]}).encode(),
        json.dumps({"format": 1, "verdicts": [stored(start=1.5)]}).encode(),
        json.dumps({"format": 1, "verdicts": [stored(start=100)]}).encode(),
        json.dumps({"format": 1, "verdicts": [stored(views=[1])]}).encode(),
        json.dumps({"format": 1, "verdicts": [stored(views={"a": "x"})]}).encode(),
        json.dumps({"format": 1, "verdicts": [stored(score="high")]}).encode(),
        json.dumps({"format": 1, "verdicts": [stored(score=float("nan"))]}).encode(),
        json.dumps({"format": 1, "verdicts": [stored(), stored()]}).encode(),
        json.dumps({"format": 2, "verdicts": []}).encode(),
        json.dumps({"format": True, "verdicts": []}).encode(),
    ],
)
def test_a_damaged_file_is_refused_in_one_sentence(content: bytes, detector: tsadc.Ensemble, tmp_path: Path) -> None:
    (tmp_path / "model" / feedback.FILE).write_bytes(content)
    with pytest.raises(ModelFileError, match=r"verdicts\.json .*(restore|upgrade)"):
        tsadc.load(tmp_path / "model")


def test_a_model_of_an_earlier_version_learns_no_weights(detector: tsadc.Ensemble) -> None:
    detector.history_views_ = None
    result = detector.detect(new())
    with pytest.warns(TsadcNotice, match="fitted by an earlier version"):
        detector.feedback(result, {names(result)[300]: "false"})
    assert np.array_equal(detector.lesson_.factor, np.ones(len(detector.view_names)))
    assert 300 not in names(detector.detect(new()))


def test_planned_work_needs_times(detector: tsadc.Ensemble) -> None:
    """Row numbers of one file would hide the same rows of the next."""
    undated = np.asarray(new().values)
    result = detector.detect(undated)
    name = result.worst(1)["id"].iloc[0]
    with pytest.raises(DataError, match="use data with a time column, or the verdict 'false'"):
        detector.feedback(result, {name: "planned"})
    assert detector.verdicts_ == ()


def test_without_dates_a_verdict_about_other_data_is_replaced_with_a_notice(detector: tsadc.Ensemble) -> None:
    first = np.asarray(new().values)
    second = first.copy()
    second[300:330, 1] += 4
    name, other = (detector.detect(data).intervals["id"].iloc[0] for data in (first, second))
    assert name == other  # both begin in the same row
    (verdict,) = detector.feedback(detector.detect(first), {name: True}).verdicts_
    results = [detector.detect(data) for data in (first, second)]
    assert [feedback.is_about(verdict, feedback.judged(result, [name])[0]) for result in results] == [True, False]
    detector.feedback(results[0], {name: True})  # the same again
    with pytest.warns(TsadcNotice, match=f"verdict about the interval {name} of other data is replaced, because names"):
        detector.feedback(results[1], {name: True})
