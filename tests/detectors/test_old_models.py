"""Models saved by version 0.1.0 still load and score as they did.

`golden/models` holds one folder per detector, written before `views` became `ensemble`, `head` became `scoring` and the
section `scoring` of TSAD-C became `inference`, and the scores that version gave to `waves(144, 1)`.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import tsadc
from tsadc.errors import TsadcNotice

MODELS = Path(__file__).parents[1] / "golden" / "models"
SCORES = json.loads((MODELS / "scores.json").read_text())


def waves(rows: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = np.sin(np.arange(rows)[:, None] / np.array([3.0, 5.0, 9.0])) + 0.1 * rng.standard_normal((rows, 3))
    values[rows // 2 : rows // 2 + 9, 1] += 4
    return values


@pytest.mark.filterwarnings("ignore::tsadc.errors.TsadcNotice")
@pytest.mark.parametrize("name", [folder.name for folder in sorted(MODELS.iterdir()) if folder.is_dir()])
def test_an_old_model_scores_as_it_did(name: str, tmp_path: Path) -> None:
    detector = tsadc.load(MODELS / name)
    assert detector.threshold_ == SCORES[f"{name}:threshold"]
    # The last bits of a score depend on the machine.
    np.testing.assert_allclose(detector.decision_function(waves(144, 1)), SCORES[name], rtol=1e-5)
    detector.save(tmp_path / "again")
    again = tsadc.load(tmp_path / "again")
    assert again.settings == detector.settings
    np.testing.assert_array_equal(again.decision_function(waves(144, 1)), detector.decision_function(waves(144, 1)))


def test_the_old_settings_are_those_of_the_new_names() -> None:
    with pytest.warns(TsadcNotice, match="The detector `views` is now called `ensemble`"):
        ensemble = tsadc.load(MODELS / "views")
    assert (ensemble.name, ensemble.settings.kernels, ensemble.settings.neighbours) == ("ensemble", 4, 3)
    network = tsadc.load(MODELS / "tsadc").settings
    assert (network.scoring, network.ensemble.neighbours, network.inference.masks) == ("fused", 4, 3)
    assert tsadc.load(MODELS / "tsadc-paper").settings.scoring == "own"
