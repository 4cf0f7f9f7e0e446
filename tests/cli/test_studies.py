"""The two experiments as commands: what they write, and what they refuse."""

import json
import platform
from pathlib import Path

import pytest

from pages import Page
from tsadc.bench import approximation, impurity
from tsadc.cli.studies import Pictured, approximation_to, impurity_to, study_table
from tsadc.errors import ConfigError, DataError, TsadcNotice

QUICK = ("training.epochs=1", "training.batch=64")


def test_impurity_keeps_its_record_and_says_it_as_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(impurity, "SHARES", (0.1,))
    page = tmp_path / "page.md"
    page.touch()
    with pytest.warns(TsadcNotice, match=r"Sleep is left out, as .* has no sleep_edf_night\.npz; set TSADC_DATA"):
        said = impurity_to(tmp_path / "impurity.json", tmp_path, seed=3, draws=2, into=page)
    record = json.loads((tmp_path / "impurity.json").read_text())
    assert (record["seed"], record["draws"]) == (3, 2)
    assert said == impurity.markdown(record)
    assert page.read_text().count(said) == 1
    assert study_table(tmp_path / "impurity.json") == said


@pytest.mark.parametrize(
    ("draws", "seed", "said"), [(1, 0, "--draws takes a whole number from 2, but got 1."), (2, -1, "--seed takes")]
)
def test_impurity_refuses_numbers_out_of_range(draws: int, seed: int, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=said):
        impurity_to(tmp_path / "impurity.json", tmp_path, seed=seed, draws=draws)
    assert list(tmp_path.iterdir()) == []


def test_impurity_refuses_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        impurity_to(tmp_path / "impurity.json", tmp_path / "none", seed=0, draws=2)
    assert str(caught.value).startswith(f"There is no folder {tmp_path / 'none'}, but the folder with the data sets")
    assert list(tmp_path.iterdir()) == []


def test_approximation_writes_a_page_and_a_record(tmp_path: Path) -> None:
    asked = Pictured("plant", tmp_path / "page.html", tmp_path, tmp_path / "r.json", "tiny", QUICK, 1)
    said = approximation_to(asked)
    record = json.loads((tmp_path / "r.json").read_text())
    assert (record["data"], record["seed"], record["preset"]) == ("plant", 1, "tiny")
    assert record["settings"]["training"]["epochs"] == 1
    assert record["versions"]["python"] == platform.python_version()
    assert said.startswith(approximation.markdown(record))
    page = tmp_path / "page.md"
    page.write_text("<!-- r: begin --><!-- r: end -->")
    assert study_table(tmp_path / "r.json", page) in page.read_text()
    shown = Page((tmp_path / "page.html").read_text()).text
    for words in (
        "plant, seed 1",
        "tsadc, preset tiny, 1 epoch, set training.epochs=1, training.batch=64",
        f"tsadc {record['versions']['tsadc']} at commit {record['commit']}",
        record["made"],
    ):
        assert words in shown
    assert "<svg" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("content", ["{", "[]", '{"study": "another"}', '{"study": "impurity"}'])
def test_what_is_no_record_of_a_study_is_told(tmp_path: Path, content: str) -> None:
    with pytest.raises(DataError, match="There is no record"):
        study_table(tmp_path / "none.json")
    (tmp_path / "some.json").write_text(content)
    with pytest.raises(DataError, match=r"some\.json is damaged or no record of a study"):
        study_table(tmp_path / "some.json")


def test_what_is_not_there_is_refused_before_training(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no data set 'plants' to benchmark; did you mean"):
        approximation_to(Pictured("plants", tmp_path / "page.html", tmp_path))
    with pytest.raises(DataError, match="set TSADC_DATA"):
        approximation_to(Pictured("sleep", tmp_path / "page.html", tmp_path))
    assert list(tmp_path.iterdir()) == []
