"""What `tsadc.detectors.base` promises of data it is handed and of the verdicts it makes of scores, checked for every
registered detector."""

import copy

import numpy as np
import pytest

from contract import (
    BLIND,
    CROSS_FITTED,
    LENGTH,
    LEVEL_BLIND,
    NAMES,
    assert_same,
    every,
    every_scoring,
    fitted,
    fresh,
    history,
    remembering,
    waves,
)
from tsadc.detectors.threshold import Contamination, observations_per_week
from tsadc.errors import DataError, TsadcNotice
from tsadc.series import Series


@every
@pytest.mark.filterwarnings("ignore::tsadc.errors.TsadcNotice")  # drift: a missing variable may raise fused scores
def test_variables_are_matched_by_name(name):
    detector, frame = remembering(name), fresh()["one"]
    expected = detector.detect({"one": frame})
    assert_same(detector.detect({"one": frame[NAMES[::-1]]}), expected)
    with pytest.warns(TsadcNotice, match="left out: noise"):
        more = detector.detect({"one": frame.assign(noise=1.0)})
    assert_same(more, expected)
    with pytest.warns(TsadcNotice, match="'one' lacks 1 of the 5 expected variables: heat; it counts as not measured"):
        less = detector.detect({"one": frame.drop(columns="heat")})
    assert np.isfinite(less.scores).all()
    for call in (detector.detect, detector.adapt):
        with pytest.raises(DataError, match="'one' has 4 variables, but 5 are expected"):
            call({"one": frame.to_numpy()[:, :4]})


@every
def test_every_way_to_hand_over_data_gives_the_same_scores(name):
    detector = remembering(name)
    frame = waves(4 * LENGTH, 13)
    values = frame.to_numpy()
    detector.adapt({"series": waves(12 * LENGTH, 1)})
    plain, dated = frame.reset_index(drop=True), frame.reset_index()
    # By entity: a detector may know more of one it was trained on than of one it was adapted to.
    unnamed = [values, values.reshape(4, LENGTH, 5), values.tolist(), frame, plain, dated]
    named = [{"one": frame}, {"one": values}, {"one": values.reshape(4, LENGTH, 5)}, {"one": dated}]
    named += [Series(values, tuple(NAMES), entity="one")]
    for ways in (unnamed, named):
        found = [detector.decision_function(way) for way in ways]
        assert found[0].shape == (4,)
        for scores in found:
            assert scores.tobytes() == found[0].tobytes()


@every
def test_an_entity_it_has_not_met(name):
    frame = waves(4 * LENGTH, 12, offset=500.0)
    detector = copy.deepcopy(fitted(name))
    with pytest.warns(TsadcNotice, match=r"Entities that the model does not know .*: three; "):
        pooled = detector.decision_function({"three": frame})
    assert detector.adapt({"three": frame}) is detector
    own = detector.decision_function({"three": frame})
    again = copy.deepcopy(fitted(name))
    again.scaler_.entities["three"] = again.scaler_.pooled
    assert pooled.tobytes() == again.decision_function({"three": frame}).tobytes()
    assert name == "all-positive" or own.tobytes() != pooled.tobytes()
    if name not in (*BLIND, *LEVEL_BLIND):
        assert own.max() < pooled.min()


@every_scoring
def test_it_follows_the_pyod_convention(name):
    detector, data = remembering(name), fresh()
    result = detector.detect(data)
    scores = detector.decision_function(data)
    assert scores.dtype == np.float64
    assert scores.tobytes() == result.observations["score"].to_numpy().tobytes()
    assert result.threshold == detector.threshold_
    thresholds = result.observations["threshold"]
    np.testing.assert_array_equal(thresholds, detector.threshold_ + result.raised)
    np.testing.assert_array_equal(detector.predict(data), scores > thresholds)
    np.testing.assert_array_equal(detector.predict(data), result.observations["anomalous"])
    np.testing.assert_array_equal(detector.labels_, detector.decision_scores_ > detector.threshold_)
    assert detector.predict(data).dtype == detector.labels_.dtype == np.int64
    again = detector.decision_function(history())
    if name in CROSS_FITTED:
        # What was learnt from an observation makes it look more usual than a new one.
        assert np.median(detector.decision_scores_) > np.median(again)
    else:
        assert detector.decision_scores_.tobytes() == again.tobytes()
        np.testing.assert_array_equal(detector.labels_, detector.predict(history()))


@every
def test_severity_is_the_chance_of_a_normal_week_without_such_a_score(name):
    detector = copy.deepcopy(fitted(name))
    detector.threshold_ = float(np.min(detector.decision_scores_)) - 1e-6  # so that there is something to judge
    found = detector.detect(history()).intervals.sort_values("score")
    assert len(found)
    assert found["severity"].between(0, 100).all()
    per_week = observations_per_week(detector.clock_, detector.settings.length)
    for score, severity in zip(found["score"], found["severity"], strict=True):
        assert severity == pytest.approx(100 * np.exp(-per_week * detector.normal_.above(score)))
    if name != "all-positive":
        # Of the highest fifth, which was stated to be anomalous, none is below what is kept as normal.
        above = np.array([detector.normal_.above(score) for score in detector.decision_scores_])
        assert (above[np.argsort(detector.decision_scores_)[-len(above) // 5 :]] < 0.25).all()


@every
def test_a_threshold_is_chosen_anew_from_what_was_learnt(name):
    detector, before = remembering(name), fitted(name).decision_scores_
    scores = fitted(name).decision_function(history())
    detector.set_threshold(method="tail", share=0.3, contamination="auto")
    assert detector.contamination_ == Contamination.find(detector.decision_scores_, "auto", detector.settings.seed)
    np.testing.assert_array_equal(detector.decision_scores_, before)
    np.testing.assert_array_equal(detector.decision_function(history()), scores)
    np.testing.assert_array_equal(detector.labels_, before > detector.threshold_)
    if name != "all-positive":
        assert detector.normal_.above(detector.threshold_) == pytest.approx(0.3, abs=1e-6)
    assert fitted(name).settings.contamination == 0.2


@every
def test_no_verdict_contradicts_another_wherever_the_threshold_lies(name):
    detector, data = remembering(name), fresh()
    for score in detector.decision_function(data):
        for threshold in (score, np.nextafter(score, -np.inf), np.nextafter(score, np.inf), score - 1e-9):
            detector.threshold_ = float(threshold)
            result = detector.detect(data)
            rows = result.timeline["anomalous"].to_numpy().reshape(-1, LENGTH).any(axis=1)
            np.testing.assert_array_equal(rows, result.observations["anomalous"])
            np.testing.assert_array_equal(rows, detector.predict(data))
            assert (len(result.intervals) > 0) == rows.any()
            if detector.row_cuts == 1:
                peaks = np.nanmax(result.timeline["score"].to_numpy().reshape(-1, LENGTH), axis=1)
                np.testing.assert_array_equal(peaks, result.observations["score"])
