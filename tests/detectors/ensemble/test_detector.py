import doctest
from pathlib import Path

import numpy as np
import pytest

from terminal import frame, untouched
from terminal import tsadc as command
from tsadc.config import update
from tsadc.detectors.ensemble import detector as module
from tsadc.detectors.ensemble.detector import Ensemble
from tsadc.detectors.ensemble.scorer import VIEWS
from tsadc.detectors.tsadc.detector import TSADC
from tsadc.errors import ConfigError

RENAMED = "is now `history` (auto, dirty or clean)."


def test_the_ensemble_detects_without_a_network():
    rng = np.random.default_rng(0)
    history = rng.normal(size=(30, 64, 4))
    detector = Ensemble(length=64, config=Ensemble.Config(kernels=16)).fit(history)
    assert detector.scorer_.residuals is None
    assert detector.view_names == Ensemble().view_names == VIEWS
    new = rng.normal(size=(4, 64, 4))
    new[2, 30, 1] = 50.0
    assert detector.decision_function(new).argmax() == 2
    again = Ensemble(length=64, config=Ensemble.Config(kernels=16)).fit(history)
    assert again.decision_function(new).tobytes() == detector.decision_function(new).tobytes()


def test_settings_are_checked():
    with pytest.raises(ConfigError, match="`kernels` must be at least 1"):
        update(Ensemble.Config(), {"kernels": 0})
    with pytest.raises(ConfigError, match="`length` must be at least 8"):
        update(Ensemble.Config(), {"length": 3})
    with pytest.raises(ConfigError, match="`history` must be one of 'auto', 'dirty', 'clean'"):
        update(Ensemble.Config(), {"history": "filthy"})
    assert update(Ensemble.Config(), {"kernels": 3}).kernels == 3


@pytest.mark.parametrize(
    ("config", "settings", "path"),
    [
        (Ensemble.Config(), {"keep": 0.8}, "keep"),
        (TSADC.Config(), {"ensemble": {"keep": 0.8}}, "ensemble.keep"),
    ],
)
def test_what_became_of_keep(config, settings, path):
    with pytest.raises(ConfigError) as caught:
        update(config, settings)
    assert str(caught.value) == f"`{path}` {RENAMED}"


@pytest.mark.parametrize(
    ("detector", "setting", "text"),
    [("ensemble", "keep", "keep = 0.8\n"), ("tsadc", "ensemble.keep", "[ensemble]\nkeep = 0.8\n")],
)
def test_the_command_line_says_what_became_of_keep(detector: str, setting: str, text: str, tmp_path: Path):
    data, file = tmp_path / "data.csv", tmp_path / "settings.toml"
    frame().to_csv(data, index=False)
    file.write_text(text)
    for words in (("--set", f"{setting}=0.8"), ("--config", file)):
        with untouched(tmp_path):
            answer = command("fit", data, "--detector", detector, "--out", tmp_path / "model", *words)
        assert f"`{setting}` {RENAMED}" in answer.refusal


def test_the_docstring_names_every_fitted_attribute_and_its_example_runs():
    examples = doctest.testmod(module)
    assert (examples.failed, examples.attempted) == (0, 8)
    fitted = Ensemble(length=16, config=Ensemble.Config(kernels=4)).fit(np.random.default_rng(0).normal(size=(160, 2)))
    for name in (name for name in vars(fitted) if name.endswith("_")):
        assert f"\n{name} : " in Ensemble.__doc__, name
