import numpy as np
import pytest

from tsadc.config import update
from tsadc.detectors.ensemble.detector import Config, Ensemble
from tsadc.errors import ConfigError


def test_the_ensemble_detects_without_a_network():
    rng = np.random.default_rng(0)
    history = rng.normal(size=(30, 64, 4))
    detector = Ensemble(length=64, config=Config(kernels=16)).fit(history)
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
        update(Config(), {"kernels": 0})
    with pytest.raises(ConfigError, match="`length` must be at least 8"):
        update(Config(), {"length": 3})
    assert update(Config(), {"kernels": 3}).kernels == 3
