import json
from pathlib import Path

import numpy as np
import pytest

from benchmark import script
from tsadc.data.plant import Plant
from tsadc.series import Labelled, Series, Truth

MODULE = script("paper/impurity")
cells_of, impurity, markdown, sentence = MODULE.cells_of, MODULE.impurity, MODULE.markdown, MODULE.sentence
study, whole_observations = MODULE.study, MODULE.whole_observations


def test_whole_observations_lose_cells_and_stay_as_impure() -> None:
    """Every mask hides r of L steps of each variable, so whole observations make the shares exact, mask by mask."""
    anomalous, measured = whole_observations(6, 2, 3, 40)
    for row in impurity(anomalous, measured, shares=(0.1, 0.25), draws=3):
        assert row["before"] == 0.25
        expected = 0.25 * (1 - row["share"])
        assert row["formula"] == pytest.approx(expected)
        assert [row["of_all"][key] for key in ("mean", "low", "high")] == pytest.approx([expected] * 3)
        assert [row["of_shown"][key] for key in ("mean", "low", "high")] == pytest.approx([0.25] * 3)
        assert row["observations"]["mean"] == row["observations_before"] == 0.25


def test_rounding_to_whole_steps_is_told() -> None:
    anomalous, _ = whole_observations(3, 1, 2, 10)
    (row,) = impurity(anomalous, shares=(0.14,), strategies=("BoM",), draws=2)
    assert row["hidden"] == 0.1
    assert row["of_all"]["mean"] == pytest.approx(0.25 * 0.9)
    assert row["formula"] == pytest.approx(0.25 * 0.86)


def test_scattered_cells_follow_the_formula_on_average() -> None:
    """A tenth of the cells at random: of the shown ones a tenth stays anomalous, within 4 standard errors."""
    anomalous = np.random.default_rng(1).random((60, 4, 50)) < 0.1
    for row in impurity(anomalous, shares=(0.2,), draws=20):
        error = np.sqrt(0.1 * 0.9 / (0.8 * anomalous.size))
        assert row["of_shown"]["mean"] == pytest.approx(row["before"], abs=4 * error)
        assert row["of_all"]["mean"] == pytest.approx(0.8 * row["before"], abs=4 * error)
        assert row["of_all"]["low"] <= row["of_all"]["mean"] <= row["of_all"]["high"]


def test_a_single_cell_is_hidden_as_often_as_the_share_says() -> None:
    """One observation in 200 draws: RandM hides its only anomalous cell in about 30 % of them."""
    anomalous = np.zeros((1, 2, 20), dtype=bool)
    anomalous[0, 1, 7] = True
    (row,) = impurity(anomalous, shares=(0.3,), strategies=("RandM",), draws=200)
    assert row["observations"]["mean"] == pytest.approx(0.7, abs=4 * np.sqrt(0.3 * 0.7 / 200))
    assert (row["observations"]["low"], row["observations"]["high"]) == (0, 1)


def test_unmeasured_cells_count_nowhere() -> None:
    anomalous, measured = whole_observations(3, 1, 2, 10)
    measured[0] = False
    (row,) = impurity(anomalous, measured, shares=(0.2,), strategies=("RandM",), draws=2)
    assert row["before"] == pytest.approx(1 / 3)


def test_cells_to_blame_and_whole_rows() -> None:
    values = np.zeros((8, 2))
    values[0, 0] = np.nan
    labelled = Labelled((Series(values, ("a", "b"), entity="e"),), (Truth("e", 3, 6, "x", ("b",)),))
    anomalous, measured = cells_of(labelled, 4)
    assert np.argwhere(anomalous).tolist() == [[0, 1, 3], [1, 1, 0], [1, 1, 1]]
    assert np.argwhere(~measured).tolist() == [[0, 0, 0]]
    rows, _ = cells_of(labelled, 4, whole_rows=True)
    assert rows.sum() == 6
    assert (rows[:, 0] == rows[:, 1]).all()


def test_the_study_says_what_it_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    small = Plant.Config(entities=2, variables=4, rows=600, length=60)
    monkeypatch.setattr(MODULE.Plant, "Config", lambda seed: small)
    found = study(tmp_path, draws=2)
    assert list(found["parts"]) == ["plant, cells to blame", "plant, all cells of the rows"]
    text = markdown(found)
    assert text.count("| RandBM | 0.05 |") == 2
    row = found["parts"]["plant, cells to blame"][0]
    assert f"| RandM | 0.05 | {100 * row['formula']:.2f} % | {100 * row['of_all']['mean']:.2f} %" in text


def test_the_sentence_measures_the_distance_to_both() -> None:
    spread = {"low": 0.0, "high": 1.0}
    row = {
        "share": 0.5,
        "before": 0.2,
        "formula": 0.1,
        "of_all": spread | {"mean": 0.11},
        "of_shown": spread | {"mean": 0.19},
    }
    text = sentence([row])
    assert "within 10.0 %" in text
    assert "within 5.0 % of the share before masking" in text
    assert "50 % less impurity" in text


def test_the_script_writes_a_record_and_its_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULE, "SHARES", (0.1,))
    record, page = str(tmp_path / "r.json"), tmp_path / "t.md"
    MODULE.main(["--record", record, "--draws", "2", "--seed", "3", "--raw", str(tmp_path)])
    MODULE.main(["--record", record, "--table", str(page)])
    kept = json.loads((tmp_path / "r.json").read_text())
    assert (kept["seed"], kept["draws"]) == (3, 2)
    assert markdown(kept) in page.read_text()
    with pytest.raises(SystemExit):
        MODULE.main(["--record", record, "--draws", "1"])
