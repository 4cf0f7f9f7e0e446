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


def test_row_scores_of_separate_observations_do_not_mix():
    rng = np.random.default_rng(3)
    detector = Ensemble(length=40, config=Ensemble.Config(kernels=8)).fit(rng.normal(size=(20, 40, 2)))
    new = rng.normal(size=(3, 40, 2))
    other = new.copy()
    other[1] += 50
    before, after = (detector.detect(data).timeline["score"].to_numpy() for data in (new, other))
    np.testing.assert_array_equal(np.delete(before, slice(40, 80)), np.delete(after, slice(40, 80)))
    assert len(set(before[:40])) == 1


def test_rows_of_a_series_score_as_the_mean_of_the_observations_that_cover_them():
    rng = np.random.default_rng(4)
    detector = Ensemble(length=40, config=Ensemble.Config(kernels=8)).fit(rng.normal(size=(800, 2)))
    new = rng.normal(size=(120, 2))
    rows = detector.detect(new).timeline["score"].to_numpy()
    whole, shifted = detector.decision_function(new), detector.decision_function(new[20:100])
    np.testing.assert_allclose(rows[20:40], (whole[0] + shifted[0]) / 2, rtol=1e-5)
    np.testing.assert_allclose(rows[60:80], (whole[1] + shifted[1]) / 2, rtol=1e-5)


def test_the_scores_of_a_series_that_drifted_as_a_whole_are_lowered_in_audit_mode():
    rng = np.random.default_rng(5)
    history, new = rng.normal(size=(1200, 3)), 2 * rng.normal(size=(4000, 3))
    settings = {"length": 40, "kernels": 8}
    causal, audit = (
        Ensemble(config=Ensemble.Config(**settings, mode=mode)).fit(history) for mode in ("causal", "audit")
    )
    lowered = causal.decision_function(new) - audit.decision_function(new)
    usual = np.quantile(causal.decision_scores_, 0.25)
    np.testing.assert_allclose(lowered, np.quantile(causal.decision_function(new), 0.25) - usual, rtol=1e-6)
    causal.set_threshold(method="tail", share=0.2)
    found, above = causal.detect(new), causal.decision_function(new) > causal.threshold_
    assert found.observations["anomalous"].mean() < 0.7 < above.mean()
    [drift] = found.drift
    assert (drift.since, drift.observations, drift.above) == (0, 100, int(above.sum()))
    assert drift.variables == ()  # they vary twice as much, at the same level


def test_a_few_missing_cells_do_not_make_an_observation_unusual():
    """Variables that depend on each other, at levels far from their median: the median would not be a good guess."""
    rng = np.random.default_rng(7)

    def plant(rows: int) -> np.ndarray:
        load = 4 * np.sin(np.arange(rows) / 90)
        noise = 0.05 * rng.normal(size=(rows, 4))
        return np.stack([load, 2 * load, -load, load**2], axis=1) + noise

    detector = Ensemble(length=60, config=Ensemble.Config(kernels=16)).fit(plant(6000))
    new = plant(3000)
    whole = detector.decision_function(new)
    holes = new.copy()
    holes[rng.random(new.shape) < 0.005] = np.nan
    assert np.isnan(holes).sum() > 40
    with_holes = detector.decision_function(holes)
    spread = np.std(detector.decision_scores_)
    assert np.median(np.abs(with_holes - whole)) < 0.3 * spread
    assert (with_holes > detector.threshold_).sum() <= (whole > detector.threshold_).sum() + 1
