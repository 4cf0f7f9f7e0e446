import numpy as np
import pytest

from tsadc.config import update
from tsadc.detectors.ensemble import scorer as head
from tsadc.detectors.ensemble.detector import Config, Views
from tsadc.errors import ConfigError


def test_the_head_alone_judges_values():
    rng = np.random.default_rng(0)
    history = rng.normal(size=(30, 64, 4))
    detector = Views(length=64, config=Config(views=head.Config(kernels=16))).fit(history)
    assert detector.head_.names == ()
    assert detector.views == ("deviation", "combination", "correlation", "shape", "energy", "conditional", "roughness")
    new = rng.normal(size=(4, 64, 4))
    new[2, 30, 1] = 50.0
    assert detector.decision_function(new).argmax() == 2


def test_settings_of_the_head_are_nested():
    with pytest.raises(ConfigError, match="kernels"):
        update(Config(), {"kernels": 3})
    assert update(Config(), {"views": {"kernels": 3}}).views.kernels == 3
