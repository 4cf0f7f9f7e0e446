"""What worked with scikit-learn's own base class works without it: each behaviour is compared with that class."""

import copy
import inspect
import re
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_html_repr, get_tags
from sklearn.utils.validation import check_is_fitted

from tsadc.config import update
from tsadc.detectors.base import Detector
from tsadc.detectors.classical.robust_z import RobustZ
from tsadc.detectors.parameters import Parameters
from tsadc.errors import ConfigError


class Own(Parameters):
    def __init__(self, width=None, alpha=0.5, config=None):
        self.width, self.alpha, self.config = width, alpha, config


class Theirs(BaseEstimator):
    def __init__(self, width=None, alpha=0.5, config=None):
        self.width, self.alpha, self.config = width, alpha, config


def observations(seed=0):
    return np.random.default_rng(seed).standard_normal((24, 16, 2))


def detector(**given):
    return RobustZ(length=16, **given)


@pytest.mark.parametrize("given", [{}, {"width": 3}, {"alpha": 0.1, "config": [1, "a"]}, {"width": None, "alpha": 0.5}])
def test_arguments_and_their_text_are_those_of_scikit_learn(given):
    own, theirs = Own(**given), Theirs(**given)
    assert list(own.get_params().items()) == list(theirs.get_params().items())
    assert own.get_params(deep=False) == theirs.get_params(deep=False)
    assert repr(own) == repr(theirs).replace("Theirs", "Own")


def test_setting_returns_the_detector_and_takes_any_of_the_arguments():
    own = Own(width=3)
    assert own.set_params() is own
    assert own.set_params(alpha=0.2, width=None) is own
    assert own.get_params() == {"alpha": 0.2, "config": None, "width": None}


@pytest.mark.parametrize("name", ["widht", "config__depth"])
def test_a_wrong_name_is_refused_as_by_scikit_learn_and_nothing_is_set(name):
    with pytest.raises((ValueError, AttributeError)):
        Theirs().set_params(**{name: 1})
    own = Own()
    with pytest.raises(ConfigError, match=rf"^Own has no parameter `{name}`; .*[.?]$") as caught:
        own.set_params(alpha=9, **{name: 1})
    assert isinstance(caught.value, ValueError)
    assert own.alpha == 0.5


def test_a_wrong_name_leads_to_the_nearest_right_one():
    with pytest.raises(ConfigError, match="did you mean `length`"):
        detector().set_params(lenght=3)


def test_a_copy_has_equal_arguments_and_nothing_learnt():
    first = detector(seed=4, config=update(RobustZ.Config(), {"contamination": 0.2}))
    first.fit(observations())
    second = clone(first)
    assert type(second) is RobustZ
    assert second.get_params() == first.get_params()
    assert not hasattr(second, "threshold_")
    third = copy.deepcopy(first)
    assert third.threshold_ == first.threshold_


def test_it_is_neither_classifier_nor_regressor_and_has_the_tags_of_any_estimator():
    assert get_tags(detector()) == get_tags(Theirs())
    assert not is_classifier(detector())
    assert not is_regressor(detector())


def test_scikit_learn_sees_whether_it_is_fitted():
    with pytest.raises(ValueError, match="not fitted"):
        check_is_fitted(detector())
    check_is_fitted(detector().fit(observations()))


def test_it_ends_a_pipeline():
    alone = detector().fit(observations()).decision_function(observations(1))
    line = make_pipeline(FunctionTransformer(np.copy), detector())
    assert line.set_params(robustz__seed=5).get_params()["robustz__seed"] == 5
    line.fit(observations())
    assert clone(line).get_params()["robustz__length"] == 16
    np.testing.assert_array_equal(line[-1].predict(observations(1)), line.predict(observations(1)))
    assert (
        line.set_params(robustz__seed=None).fit(observations()).decision_function(observations(1)).shape == alone.shape
    )
    assert "RobustZ(length=16" in repr(line)
    assert "RobustZ" in estimator_html_repr(line)
    with pytest.raises(ValueError, match="RobustZ has no parameter `wrong`"):
        line.set_params(robustz__wrong=1)


def spread_of_scores(estimator, X, y=None):
    return float(np.std(estimator.decision_function(X)))


def test_it_is_searched_and_cross_validated():
    """By an unlabelled criterion: a search needs one, and labels are not for choosing models."""
    X, folds = observations(), KFold(2)
    search = GridSearchCV(detector(), {"contamination": [0.1, 0.3]}, scoring=spread_of_scores, cv=folds, refit=True)
    search.fit(X)
    assert [found["contamination"] for found in search.cv_results_["params"]] == [0.1, 0.3]
    assert search.best_estimator_.contamination in (0.1, 0.3)
    found = cross_validate(detector(), X, scoring=spread_of_scores, cv=folds)
    expected = [spread_of_scores(detector().fit(X[train]), X[test]) for train, test in folds.split(X)]
    np.testing.assert_array_equal(found["test_score"], expected)
    within = GridSearchCV(Pipeline([("find", detector())]), {"find__seed": [1, 2]}, scoring=spread_of_scores, cv=folds)
    assert within.fit(X).best_estimator_["find"].seed in (1, 2)


def test_a_detector_has_the_arguments_of_its_constructor():
    assert list(Detector._defaults()) == sorted(set(inspect.signature(Detector).parameters) - {"settings"})


def test_reading_arguments_loads_no_scikit_learn():
    script = (
        "import sys; from tsadc.detectors.classical.robust_z import RobustZ; x = RobustZ(length=16);"
        "repr(x), x.get_params(), x.set_params(seed=1); print('sklearn' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_any_setting_can_be_given_by_name():
    made = detector(coverage=0.3, threshold__method="tail", **{"threshold.share": 0.02, "scaler.scope": "pooled"})
    expected = {"length": 16, "coverage": 0.3, "scaler": {"scope": "pooled"}}
    assert made.settings == RobustZ.Config.with_settings(threshold={"method": "tail", "share": 0.02}, **expected)
    assert made.set_params(threshold__share=0.1).settings.threshold.share == 0.1
    assert made.settings.threshold.method == "tail"
    assert made.fit(observations()).settings_.coverage == 0.3


def test_settings_by_name_go_over_config_and_are_copied():
    config = RobustZ.Config(coverage=0.7, threshold={"share": 0.3})
    made = RobustZ(config=config, coverage=0.2, threshold__method="tail")
    assert (made.settings.coverage, made.settings.threshold.share) == (0.2, 0.3)
    copied = clone(made)
    assert copied.get_params() == made.get_params()
    assert copied.settings == made.settings
    assert copied.set_params(coverage=0.4).settings.coverage == 0.4
    assert made.settings.coverage == 0.2
    assert repr(RobustZ(threshold__method="tail")) == "RobustZ(threshold__method='tail')"


def test_settings_by_name_are_searched():
    search = GridSearchCV(detector(), {"scaler__method": ["robust", "standard"]}, scoring=spread_of_scores, cv=KFold(2))
    search.fit(observations())
    assert search.best_estimator_.settings.scaler.method in ("robust", "standard")


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("threshold__mehtod", "There is no setting `threshold.mehtod`; did you mean `threshold.method`"),
        ("threshold.method.kind", "`threshold.method` is a setting and not a section"),
        ("treshold__method", "RobustZ has no parameter `treshold__method`; did you mean `threshold`"),
        ("length__x", "RobustZ has no parameter `length__x`"),
        ("", "RobustZ has no parameter ``"),
    ],
)
def test_a_setting_that_does_not_exist_is_refused(name, complaint):
    with pytest.raises(ConfigError, match=re.escape(complaint)):
        detector(**{name: 1})
    made = detector()
    with pytest.raises(ConfigError, match=re.escape(complaint)):
        made.set_params(seed=9, **{name: 1})
    assert made.get_params() == detector().get_params()


def test_a_value_out_of_range_is_refused_like_that_of_a_config():
    with pytest.raises(ConfigError, match=r"`threshold\.method` must be one of"):
        detector(threshold__method="tale").fit(observations())
