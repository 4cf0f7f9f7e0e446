import doctest

import numpy as np
import pytest

from tsadc.config import update
from tsadc.detectors.ensemble import detector as module
from tsadc.detectors.ensemble.detector import Ensemble
from tsadc.errors import ConfigError


def test_the_ensemble_detects_without_a_network():
    rng = np.random.default_rng(0)
    history = rng.normal(size=(30, 64, 4))
    detector = Ensemble(length=64, config=Ensemble.Config(kernels=16)).fit(history)
    assert detector.scorer_.residuals == ()
    assert detector.view_names == (
        "deviation",
        "combination",
        "correlation",
        "shape",
        "energy",
        "conditional",
        "roughness",
    )
    new = rng.normal(size=(4, 64, 4))
    new[2, 30, 1] = 50.0
    assert detector.decision_function(new).argmax() == 2


def test_settings_are_checked():
    with pytest.raises(ConfigError, match="`kernels` must be at least 1"):
        update(Ensemble.Config(), {"kernels": 0})
    with pytest.raises(ConfigError, match="`length` must be at least 8"):
        update(Ensemble.Config(), {"length": 3})
    assert update(Ensemble.Config(), {"kernels": 3}).kernels == 3


def test_the_docstring_names_every_fitted_attribute_and_its_example_runs():
    examples = doctest.testmod(module)
    assert (examples.failed, examples.attempted) == (0, 8)
    fitted = Ensemble(length=16, config=Ensemble.Config(kernels=4)).fit(np.random.default_rng(0).normal(size=(160, 2)))
    for name in (name for name in vars(fitted) if name.endswith("_")):
        assert f"\n{name} : " in Ensemble.__doc__, name
