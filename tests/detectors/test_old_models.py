"""Models saved by earlier versions still load and score as they did, unless the former ensemble scores them.

`golden/models` holds one folder per detector, written by version 0.1.0, before `views` became `ensemble`, `head` became
`scoring` and the section `scoring` of TSAD-C became `inference`, and the scores that version gave to `waves(144, 1)`.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import tsadc
from terminal import tsadc as command
from terminal import untouched
from tsadc.detectors.store import FORMAT, SETTINGS
from tsadc.errors import ModelFileError

MODELS = Path(__file__).parents[1] / "golden" / "models"
SCORES = json.loads((MODELS / "scores.json").read_text())
FUSED = ("lstm-ae", "tsadc", "views")  # the ensemble scores them
CHANGED = "is not a usable model: the ensemble, which scores it, has changed since version 0.2.0; fit it again."


def waves(rows: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = np.sin(np.arange(rows)[:, None] / np.array([3.0, 5.0, 9.0])) + 0.1 * rng.standard_normal((rows, 3))
    values[rows // 2 : rows // 2 + 9, 1] += 4
    return values


@pytest.mark.parametrize("name", ["robust-z", "tsadc-paper"])
def test_an_old_model_scores_as_it_did(name: str, tmp_path: Path) -> None:
    detector = tsadc.load(MODELS / name)
    assert detector.threshold_ == SCORES[f"{name}:threshold"]
    # The last bits of a score depend on the machine.
    np.testing.assert_allclose(detector.decision_function(waves(144, 1)), SCORES[name], rtol=1e-5)
    detector.save(tmp_path / "again")
    again = tsadc.load(tmp_path / "again")
    assert again.settings == detector.settings
    np.testing.assert_array_equal(again.decision_function(waves(144, 1)), detector.decision_function(waves(144, 1)))


def test_old_settings_get_their_present_names() -> None:
    settings = tsadc.load(MODELS / "tsadc-paper").settings
    assert (settings.scoring, settings.ensemble.kernels, settings.inference.masks) == ("own", 4, 0)


@pytest.mark.parametrize("name", FUSED)
def test_a_model_that_the_former_ensemble_scores_is_refused(name: str) -> None:
    with pytest.raises(ModelFileError) as caught:  # and without a notice
        tsadc.load(MODELS / name)
    assert str(caught.value) == f"{MODELS / name} {CHANGED}"


@pytest.mark.parametrize(
    ("detector", "settings", "refused"),
    [
        ("ensemble", {"kernels": 4, "neighbours": 3, "keep": 0.9}, True),
        ("tsadc", {"scoring": "fused", "ensemble": {"kernels": 4, "keep": 0.8}}, True),
        ("robust-z", {}, False),
    ],
)
def test_models_of_format_2(detector: str, settings: dict[str, object], refused: bool, tmp_path: Path) -> None:
    """Version 0.2.0 wrote the present names of settings."""
    shutil.copytree(MODELS / "robust-z", tmp_path / "model")
    stored = json.loads((tmp_path / "model" / SETTINGS).read_text())
    stored |= {"format": 2, "detector": detector, "settings": {**stored["settings"], **settings}}
    (tmp_path / "model" / SETTINGS).write_text(json.dumps(stored))
    if refused:
        with pytest.raises(ModelFileError, match=CHANGED):
            tsadc.load(tmp_path / "model")
    else:
        scores = tsadc.load(tmp_path / "model").decision_function(waves(144, 1))
        np.testing.assert_allclose(scores, SCORES["robust-z"], rtol=1e-5)


def test_a_network_of_format_2_with_its_own_scoring_loads(tmp_path: Path) -> None:
    tsadc.load(MODELS / "tsadc-paper").save(tmp_path / "model")
    stored = json.loads((tmp_path / "model" / SETTINGS).read_text())
    assert stored["format"] == FORMAT
    stored["format"], stored["settings"]["ensemble"] = 2, {"kernels": 4, "neighbours": 5, "keep": 0.8}
    stored["settings"]["threshold"] = {"method": "auto", "share": "auto", "per_day": 1.0}
    del stored["settings"]["event"], stored["memory"]
    (tmp_path / "model" / SETTINGS).write_text(json.dumps(stored))
    scores = tsadc.load(tmp_path / "model").decision_function(waves(144, 1))
    np.testing.assert_allclose(scores, SCORES["tsadc-paper"], rtol=1e-5)


@pytest.mark.parametrize("name", FUSED)
def test_the_command_line_says_to_fit_again(name: str, tmp_path: Path) -> None:
    new = tmp_path / "new.csv"
    np.savetxt(new, waves(144, 1), delimiter=",", header="a,b,c", comments="")
    with untouched(tmp_path):
        answer = command("detect", new, "--model", MODELS / name, "--out", tmp_path / "found")
    assert answer.refusal == f"{MODELS / name} {CHANGED}"
