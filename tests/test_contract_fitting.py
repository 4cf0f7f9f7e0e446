"""What `tsadc.detectors.base` promises of settings and of `fit`, checked for every registered detector."""

import copy

import pandas as pd
import pytest
import torch
from sklearn.base import clone

from contract import LENGTH, assert_same, every, every_scoring, fitted, fresh, history, make, refitted, waves
from tsadc.detectors import find
from tsadc.detectors.base import Detector
from tsadc.detectors.settings import Common
from tsadc.errors import ConfigError, DataError, NotFittedError, TsadcNotice


@every
def test_the_same_seed_gives_the_same_numbers(name):
    again = refitted(name).detector
    assert again.threshold_ == fitted(name).threshold_
    assert again.decision_scores_.tobytes() == fitted(name).decision_scores_.tobytes()
    assert_same(refitted(name).found, fitted(name).detect(fresh()))


@every
def test_the_input_is_left_as_it_was(name):
    old, new = refitted(name).given, fresh()
    detector = copy.deepcopy(refitted(name).detector)
    detector.detect(new)
    with pytest.warns(TsadcNotice, match="The model already knows "):
        detector.adapt(new)
    for given, expected in ((old, history()), (new, fresh())):
        for entity, frame in expected.items():
            pd.testing.assert_frame_equal(given[entity], frame, check_exact=True)
    locked = waves(4 * LENGTH, 6).to_numpy().copy()
    locked.flags.writeable = False
    detector.decision_function({"one": locked})


@every
def test_the_random_numbers_of_others_are_not_disturbed(name):
    (before, legacy), (after, legacy_after) = refitted(name).before, refitted(name).after
    assert torch.equal(after, before)
    assert legacy_after[0] == legacy[0]
    assert legacy_after[1].tobytes() == legacy[1].tobytes()
    assert legacy_after[2:] == legacy[2:]


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


@every_scoring
def test_data_that_is_refused_leaves_the_model_as_it_was(name):
    detector = copy.deepcopy(fitted(name))
    with pytest.raises(DataError, match="Training needs at least 5 observations of 48 rows"):
        detector.fit(waves(2 * LENGTH, 0)[["flow", "heat"]])
    assert_same(detector.detect(fresh()), fitted(name).detect(fresh()))


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
        with pytest.raises(ConfigError, match=rf"`config` must be an? {title}\.Config, but got a \S+[.;]"):
            make(name, config=wrong).fit(history())


@every
def test_a_type_that_is_wrong_inside_the_settings(name):
    with pytest.raises(ConfigError, match="`length` must be a whole number"):
        make(name, length=None, config=find(name).Config(length=48.5)).fit(history())
    with pytest.raises(ConfigError, match="`scaler` is a section with settings of its own, but got 'standard'"):
        find(name).Config(scaler="standard")
    given = find(name).Config(scaler={"method": "standard"})
    assert make(name, length=None, config=given).settings.scaler.method == "standard"


def test_a_name_that_is_not_registered():
    with pytest.raises(ConfigError, match="There is no detector 'robustz'; did you mean `robust-z`"):
        find("robustz")


@every
def test_a_registered_name_is_the_class_of_that_name(name):
    assert issubclass(find(name), Detector)
    assert find(name).name == name
