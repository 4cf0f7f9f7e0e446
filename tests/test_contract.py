"""What `tsadc.detectors.base` promises, checked for every registered detector."""

import copy
import functools
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone

from tsadc.config import update
from tsadc.detectors import REGISTRY, find
from tsadc.detectors.base import Detector
from tsadc.detectors.residual import ResidualDetector
from tsadc.detectors.result import Result
from tsadc.detectors.settings import Common
from tsadc.detectors.store import load
from tsadc.detectors.threshold import Contamination
from tsadc.errors import ConfigError, DataError, NotFittedError, TsadcNotice
from tsadc.series import Series

LENGTH = 48
NAMES = ["flow", "speed", "level", "heat", "power"]
START = pd.Timestamp(LENGTH * 60 * 591_690, unit="s")  # where an observation begins
FRAMES = ("intervals", "timeline", "variables", "observations", "expected")

every = pytest.mark.parametrize("name", list(REGISTRY))
BLIND = ("random", "all-positive")  # whose scores do not hang on what happened
every_that_looks = pytest.mark.parametrize("name", [name for name in REGISTRY if name not in BLIND])


def waves(rows: int, seed: int, offset: float = 0.0, first: int = 0) -> pd.DataFrame:
    """Five variables that follow one another, `offset` from zero, minute by minute from `first` minutes after START."""
    rng = np.random.default_rng(seed)
    time = np.arange(rows) / 7
    values = np.stack([np.sin(time + k) * (k + 1) for k in range(len(NAMES))], axis=1)
    values += 0.1 * rng.normal(size=values.shape) + offset
    index = pd.date_range(START + pd.Timedelta(minutes=first), periods=rows, freq="min", name="time")
    return pd.DataFrame(values, index=index, columns=NAMES)


def history() -> dict[str, pd.DataFrame]:
    return {"one": waves(12 * LENGTH, 1), "two": waves(12 * LENGTH, 2, offset=40.0)}


def make(name: str, **settings: object) -> Detector:
    config = None
    if issubclass(find(name), ResidualDetector):
        config = update(find(name).Config.tiny(), {"training": {"epochs": 2}})
    return find(name)(**{"length": LENGTH, "contamination": 0.2, "config": config, **settings})


@functools.cache
def fitted(name: str) -> Detector:
    return make(name).fit(history())


def fresh(rows: int = 6 * LENGTH, seed: int = 9) -> dict[str, pd.DataFrame]:
    """Unseen rows of entity `one`, with gaps."""
    frame = waves(rows, seed)
    frame.iloc[5:9, 0] = np.nan
    frame.iloc[60:64] = np.nan
    return {"one": frame}


def assert_same(found: Result, expected: Result) -> None:
    """Every number of two results, to the bit."""
    for name in FRAMES:
        one, two = getattr(found, name), getattr(expected, name)
        assert (one is None) == (two is None)
        if one is not None:
            pd.testing.assert_frame_equal(one, two, check_exact=True)
    assert (found.threshold, found.left_out) == (expected.threshold, expected.left_out)


@every
def test_scores_are_finite_and_contributions_lie_where_something_was_measured(name):
    data = fresh()
    result = fitted(name).detect(data)
    measured = np.isfinite(data["one"].to_numpy())
    assert np.isfinite(result.observations["score"]).all()
    np.testing.assert_array_equal(np.isfinite(result.timeline["score"]), measured.any(axis=1))
    blame = result.variables.to_numpy()
    np.testing.assert_array_equal(np.isfinite(blame), measured)
    assert (blame[measured] >= 0).all()
    if result.expected is not None:
        assert np.isfinite(result.expected.to_numpy()[measured]).all()


@every_that_looks
@pytest.mark.parametrize("place", [1, 4])
def test_a_planted_anomaly_ranks_highest_and_is_found_where_it_is(name, place):
    frame = waves(6 * LENGTH, 3)
    first = place * LENGTH + 20
    frame.iloc[first : first + 4, 2] += 30.0
    result = fitted(name).detect({"one": frame})
    assert result.observations["score"].argmax() == place
    assert result.observations["anomalous"][place]
    worst = result.worst(1).iloc[0]
    assert worst["start"] < frame.index[first + 4]
    assert worst["end"] > frame.index[first]
    assert next(iter(worst["variables"])) == "level"


@every
def test_the_same_seed_gives_the_same_numbers(name):
    again = make(name).fit(history())
    assert again.threshold_ == fitted(name).threshold_
    assert again.decision_scores_.tobytes() == fitted(name).decision_scores_.tobytes()
    assert_same(again.detect(fresh()), fitted(name).detect(fresh()))


@every
def test_a_saved_model_gives_the_same_numbers(name, tmp_path):
    detector = copy.deepcopy(fitted(name)).adapt({"three": waves(3 * LENGTH, 4, offset=-7.0)})
    detector.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.settings == detector.settings
    assert again.labels_.tobytes() == detector.labels_.tobytes()
    data = {**fresh(), "three": waves(2 * LENGTH, 5, offset=-7.0)}
    assert_same(again.detect(data), detector.detect(data))


@every
def test_a_copy_gives_the_same_numbers(name):
    expected = fitted(name).detect(fresh())
    assert_same(copy.deepcopy(fitted(name)).detect(fresh()), expected)
    assert_same(pickle.loads(pickle.dumps(fitted(name))).detect(fresh()), expected)


@every
def test_the_input_is_left_as_it_was(name):
    old, new = history(), fresh()
    detector = make(name).fit(old)
    detector.detect(new)
    detector.adapt(new)
    for given, expected in ((old, history()), (new, fresh())):
        for entity, frame in expected.items():
            pd.testing.assert_frame_equal(given[entity], frame, check_exact=True)
    locked = waves(4 * LENGTH, 6).to_numpy().copy()
    locked.flags.writeable = False
    detector.decision_function({"one": locked})


@every
def test_the_random_numbers_of_others_are_not_disturbed(name):
    torch.manual_seed(5)
    before, legacy = torch.get_rng_state(), np.random.get_state()  # noqa: NPY002 (the state others may rely on)
    make(name).fit(history()).detect(fresh())
    assert torch.equal(torch.get_rng_state(), before)
    after = np.random.get_state()  # noqa: NPY002
    assert after[0] == legacy[0]
    assert after[1].tobytes() == legacy[1].tobytes()
    assert after[2:] == legacy[2:]


@every
def test_nothing_works_before_fit(name, tmp_path):
    detector = make(name)
    for call in (detector.detect, detector.decision_function, detector.predict, detector.adapt):
        with pytest.raises(NotFittedError, match=rf"This {type(detector).__name__} is not fitted yet; call fit"):
            call(fresh())
    with pytest.raises(NotFittedError):
        detector.save(tmp_path / "model")
    assert not hasattr(detector, "labels_")
    assert list(tmp_path.iterdir()) == []


@every
def test_variables_are_matched_by_name(name):
    detector, frame = fitted(name), fresh()["one"]
    expected = detector.detect({"one": frame})
    assert_same(detector.detect({"one": frame[NAMES[::-1]]}), expected)
    with pytest.warns(TsadcNotice, match="left out: noise"):
        more = detector.detect({"one": frame.assign(noise=1.0)})
    assert_same(more, expected)
    for call in (detector.detect, detector.adapt):
        with pytest.raises(DataError, match="'one' lacks 1 of the 5 expected variables: heat"):
            call({"one": frame.drop(columns="heat")})
        with pytest.raises(DataError, match="'one' has 4 variables, but 5 were expected"):
            call({"one": frame.to_numpy()[:, :4]})


@every
def test_a_score_does_not_depend_on_what_else_is_asked_for(name):
    data = {"one": waves(5 * LENGTH, 7), "two": waves(4 * LENGTH, 8, offset=40.0)}
    together = fitted(name).detect(data)
    for entity, frame in data.items():
        alone = [fitted(name).detect({entity: frame.iloc[i : i + LENGTH]}) for i in range(0, len(frame), LENGTH)]
        for kind in ("timeline", "observations"):
            joined = pd.concat([getattr(one, kind) for one in alone], ignore_index=True)
            own = getattr(together, kind).query("entity == @entity").reset_index(drop=True)
            pd.testing.assert_frame_equal(joined, own, check_exact=True)
        blame = pd.concat([one.variables for one in alone])
        pd.testing.assert_frame_equal(blame, together.variables.loc[[entity]], check_exact=True)


@every
def test_a_request_may_begin_amid_an_observation(name):
    frame = waves(5 * LENGTH, 10)
    whole = fitted(name).detect({"one": frame}).observations
    for late in (10, 24, 30):
        left_out = late > LENGTH // 2
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = fitted(name).detect({"one": frame.iloc[late:]})
        assert [one.category for one in caught] == [TsadcNotice] * left_out
        assert found.left_out == int(left_out)
        rest = found.observations.iloc[0 if left_out else 1 :].reset_index(drop=True)
        pd.testing.assert_frame_equal(rest, whole.iloc[1:].reset_index(drop=True), check_exact=True)
        if not left_out:
            partial = found.observations.iloc[0]
            assert partial["coverage"] == (LENGTH - late) / LENGTH
            assert (partial["start"], partial["end"]) == (frame.index[late], frame.index[LENGTH])
            assert np.isfinite(partial["score"])


@every
def test_a_partial_observation_at_the_end(name):
    frame = waves(3 * LENGTH, 11)
    found = fitted(name).detect({"one": frame.iloc[: 2 * LENGTH + 24]})
    assert found.observations["coverage"].tolist() == [1.0, 1.0, 0.5]
    assert np.isfinite(found.timeline["score"]).all()
    with pytest.warns(TsadcNotice, match=r"1 observation\(s\) with under half of their rows were left out"):
        less = fitted(name).detect({"one": frame.iloc[: 2 * LENGTH + 23]})
    assert (len(less.observations), less.left_out) == (2, 1)
    assert np.isnan(less.timeline["score"].iloc[2 * LENGTH :]).all()
    assert not less.timeline["anomalous"].iloc[2 * LENGTH :].any()
    with pytest.raises(DataError, match="at least half of its 48 rows are there, but 'one' has 23 rows"):
        fitted(name).detect({"one": frame.iloc[:23]})


@every
def test_an_entity_it_has_not_met(name):
    frame = waves(4 * LENGTH, 12, offset=500.0)
    detector = copy.deepcopy(fitted(name))
    with pytest.warns(TsadcNotice, match="New to the model, and so normalised by the pooled statistics: three"):
        pooled = detector.decision_function({"three": frame})
    assert detector.adapt({"three": frame}) is detector
    own = detector.decision_function({"three": frame})
    again = make(name).fit(history())
    again.scaler_.entities["three"] = again.scaler_.pooled
    assert pooled.tobytes() == again.decision_function({"three": frame}).tobytes()
    assert name == "all-positive" or own.tobytes() != pooled.tobytes()
    if name not in BLIND:
        assert own.max() < pooled.min()


@every
def test_every_way_to_hand_over_data_gives_the_same_scores(name):
    detector = copy.deepcopy(fitted(name))
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
def test_it_follows_the_pyod_convention(name):
    detector, data = fitted(name), fresh()
    result = detector.detect(data)
    scores = detector.decision_function(data)
    assert scores.dtype == np.float64
    assert scores.tobytes() == result.observations["score"].to_numpy().tobytes()
    assert result.threshold == detector.threshold_
    np.testing.assert_array_equal(detector.predict(data), scores > detector.threshold_)
    np.testing.assert_array_equal(detector.predict(data), result.observations["anomalous"])
    np.testing.assert_array_equal(detector.labels_, detector.decision_scores_ > detector.threshold_)
    assert detector.predict(data).dtype == detector.labels_.dtype == np.int64
    assert detector.decision_scores_.tobytes() == detector.decision_function(history()).tobytes()
    np.testing.assert_array_equal(detector.labels_, detector.predict(history()))


@every
def test_it_is_a_scikit_learn_estimator(name):
    detector = make(name, seed=3)
    assert set(detector.get_params()) == {"length", "contamination", "seed", "config"}
    copied = clone(detector)
    assert copied.get_params() == detector.get_params()
    assert copied.settings == detector.settings
    detector.set_params(seed=8, contamination=0.3)
    assert (detector.settings.seed, detector.settings.contamination) == (8, 0.3)
    assert not hasattr(clone(fitted(name)), "threshold_")
    assert "length=48" in repr(make(name))


@every
def test_what_is_set_after_a_fit_waits_for_the_next_one(name):
    detector = copy.deepcopy(fitted(name)).set_params(length=24, seed=77, contamination=0.4)
    assert_same(detector.detect(fresh()), fitted(name).detect(fresh()))
    detector.fit(history())
    assert detector.settings.length == 24
    assert len(detector.decision_scores_) == 2 * len(fitted(name).decision_scores_)


@every
def test_data_that_is_refused_leaves_the_model_as_it_was(name):
    detector = copy.deepcopy(fitted(name))
    with pytest.raises(DataError, match="Training needs at least 5 observations of 48 rows"):
        detector.fit(waves(2 * LENGTH, 0)[["flow", "heat"]])
    assert_same(detector.detect(fresh()), fitted(name).detect(fresh()))


@every
def test_what_is_stored_under_a_gap_does_not_matter(name):
    data = fresh()
    values = data["one"].to_numpy().copy()
    values.view(np.uint64)[np.isnan(values)] |= np.uint64(1 << 63) | np.uint64(12345)  # another NaN, bit by bit
    other = {"one": pd.DataFrame(values, index=data["one"].index, columns=NAMES)}
    assert values.tobytes() != data["one"].to_numpy().tobytes()
    assert_same(fitted(name).detect(other), fitted(name).detect(data))


@every
def test_an_observation_of_which_little_was_measured(name):
    rng = np.random.default_rng(14)
    frame = waves(4 * LENGTH, 14)
    frame.iloc[:, 1] = np.nan
    frame = frame.mask(rng.random(frame.shape) < 0.6)
    frame.iloc[LENGTH : LENGTH + 24] = np.nan
    frame.iloc[LENGTH + 24 : 2 * LENGTH, 0] = 0.5
    result = fitted(name).detect({"one": frame})
    assert len(result.observations) == 4
    assert np.isfinite(result.observations["score"]).all()
    np.testing.assert_array_equal(np.isnan(result.variables.to_numpy()), frame.isna().to_numpy())


@every
@pytest.mark.parametrize("wild", [1e12, -1e80, 1e300])
def test_a_wild_value_gives_a_finite_score(name, wild):
    frame = waves(3 * LENGTH, 15)
    frame.iloc[60, 3] = wild
    result = fitted(name).detect({"one": frame})
    assert np.isfinite(result.observations["score"]).all()
    if name not in BLIND:
        assert result.observations["score"].argmax() == 1
        assert result.variables.iloc[60].argmax() == 3


@every
def test_severity_is_the_share_of_normal_observations_that_score_lower(name):
    detector = copy.deepcopy(fitted(name))
    detector.threshold_ = float(np.min(detector.decision_scores_)) - 1e-6  # so that there is something to judge
    found = detector.detect(history()).intervals.sort_values("score")
    assert len(found)
    assert found["severity"].between(0, 1).all()
    assert found["severity"].is_monotonic_increasing
    for score, severity in zip(found["score"], found["severity"], strict=True):
        assert severity == 1 - detector.normal_.above(score)
    if name != "all-positive":
        # Of the highest fifth, which was stated to be anomalous, none is below what is kept as normal.
        above = np.array([detector.normal_.above(score) for score in detector.decision_scores_])
        assert (above[np.argsort(detector.decision_scores_)[-len(above) // 5 :]] < 0.25).all()


@every
def test_a_threshold_is_chosen_anew_from_what_was_learnt(name):
    detector = copy.deepcopy(fitted(name))
    before = detector.decision_function(history())
    detector.set_threshold(method="tail", share=0.3, contamination="auto")
    assert detector.contamination_ == Contamination.find(detector.decision_scores_, "auto", detector.settings.seed)
    np.testing.assert_array_equal(detector.decision_function(history()), before)
    np.testing.assert_array_equal(detector.predict(history()), before > detector.threshold_)
    if name != "all-positive":
        assert detector.normal_.above(detector.threshold_) == pytest.approx(0.3, abs=1e-6)
    assert fitted(name).settings.contamination == 0.2


@every
def test_settings_that_are_wrong(name):
    for wrong in (0, 0.5, -0.1, 1, float("nan"), True, "much"):
        with pytest.raises(ConfigError, match="`contamination` must be"):
            make(name, contamination=wrong).fit(history())
    for wrong in (7, 48.5, "48", -1):
        with pytest.raises(ConfigError, match="`length` must be"):
            make(name, length=wrong).fit(history())
    for wrong in (-1, 2**63, 0.5, "x"):
        with pytest.raises(ConfigError, match="`seed` must be"):
            make(name, seed=wrong).fit(history())


@every
def test_settings_of_another_class(name):
    other = Common() if name == "tsadc" else find("tsadc").Config.tiny()
    title = find(name).__name__
    for wrong in (other, {"length": 48}, "tiny", find("tsadc").Config):
        with pytest.raises(ConfigError, match=rf"`config` must be a {title}\.Config, but got a \S+\."):
            make(name, config=wrong).fit(history())


@every
def test_a_type_that_is_wrong_inside_the_settings(name):
    wrong = {"length": (48.5, "a whole number"), "scaler": ({"method": "standard"}, ".*Scaler.Config")}
    for setting, (value, expected) in wrong.items():
        config = find(name).Config(**{setting: value})
        with pytest.raises(ConfigError, match=f"`{setting}` must be {expected}"):
            make(name, length=None, config=config).fit(history())


@every
def test_no_verdict_contradicts_another_wherever_the_threshold_lies(name):
    detector, data = copy.deepcopy(fitted(name)), fresh()
    for score in detector.decision_function(data):
        for threshold in (score, np.nextafter(score, -np.inf), np.nextafter(score, np.inf), score - 1e-9):
            detector.threshold_ = float(threshold)
            result = detector.detect(data)
            rows = result.timeline["anomalous"].to_numpy().reshape(-1, LENGTH).any(axis=1)
            np.testing.assert_array_equal(rows, result.observations["anomalous"])
            np.testing.assert_array_equal(rows, detector.predict(data))
            assert (len(result.intervals) > 0) == rows.any()
            peaks = np.nanmax(result.timeline["score"].to_numpy().reshape(-1, LENGTH), axis=1)
            np.testing.assert_array_equal(peaks, result.observations["score"])


def test_a_name_that_is_not_registered():
    with pytest.raises(ConfigError, match="There is no detector 'robustz'; did you mean `robust-z`"):
        find("robustz")


@every
def test_a_registered_name_is_the_class_of_that_name(name):
    assert issubclass(find(name), Detector)
    assert find(name).name == name
