"""A detector in a file of the user, `my_file.py:Mine`; loading a model runs no file that the caller did not name."""

import json
from pathlib import Path

import pytest

from terminal import frame, tsadc, untouched
from tsadc.detectors.own_file import choose, from_file
from tsadc.detectors.store import load
from tsadc.errors import ConfigError, ModelFileError

MINE = '''
from __future__ import annotations
from dataclasses import dataclass
from pathlib import Path
from tsadc.detectors.classical.robust_z import RobustZ
from tsadc.detectors.settings import Common

with Path(__file__).with_name("runs.txt").open("a") as file:
    file.write("run ")

class Mine(RobustZ):
    """Extreme values, by my own settings."""
    name = "mine"

    @dataclass(frozen=True)
    class Config(Common):
        """Mine."""
        gain: float = 2.0

class Nothing:
    pass
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_file.py").write_text(MINE)
    frame().to_csv(tmp_path / "pump.csv", index=False)
    return tmp_path


def runs(folder: Path) -> int:
    file = folder / "runs.txt"
    return len(file.read_text().split()) if file.exists() else 0


def test_it_is_fitted_and_detects_when_it_is_named_again(folder: Path) -> None:
    words = ("--detector", "my_file.py:Mine")
    answer = tsadc("fit", "pump.csv", "--out", "model", "--length", "40", "--set", "gain=3", *words)
    assert answer.code == 0, answer.err
    made = json.loads((folder / "model" / "config.json").read_text())
    assert (made["detector"], made["source"], made["settings"]["gain"]) == ("mine", "my_file.py:Mine", 3.0)
    assert runs(folder) == 1
    for command in (
        ("detect", "pump.csv", "--model", "model", "--out", "found"),
        ("adapt", "pump.csv", "--model", "model", "--out", "adapted"),
        ("refit", "model", "pump.csv"),
    ):
        with untouched(folder):
            refusal = tsadc(*command).refusal
        assert "its detector is 'my_file.py:Mine', a file that must be imported" in refusal
        assert tsadc(*command, *words).code == 0
    assert tsadc("info", "model").code == 0
    assert type(load("model", detector="my_file.py:Mine")).__name__ == "Mine"
    assert type(load("model", detector=from_file("my_file.py:Mine"))).__name__ == "Mine"


@pytest.mark.parametrize("change", [{"source": "evil.py:Mine"}, {"detector": "evil.py:Mine"}, {"source": ["evil.py"]}])
def test_no_file_is_run_because_a_model_says_so(folder: Path, change: dict[str, object]) -> None:
    assert tsadc("fit", "pump.csv", "--out", "model", "--length", "40", "--detector", "robust-z").code == 0
    (folder / "evil.py").write_text(MINE)
    config = folder / "model" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | change))
    with untouched(folder):
        assert "model is not a usable model" in tsadc("detect", "pump.csv", "--model", "model", "--json").refusal
    with pytest.raises(ModelFileError, match=r"must be imported|There is no detector"):
        load(folder / "model")
    assert runs(folder) == 0


def test_a_model_of_another_detector_is_refused(folder: Path) -> None:
    assert tsadc("fit", "pump.csv", "--out", "model", "--length", "40", "--detector", "robust-z").code == 0
    with pytest.raises(ModelFileError, match="model is a model of the detector 'robust-z', but 'mine' was named"):
        load("model", detector="my_file.py:Mine")


@pytest.mark.parametrize(
    ("place", "complaint"),
    [
        ("absent.py:Mine", "There is no file absent.py, in which the detector Mine was expected"),
        ("my_file.py", "is written as my_file.py:Class, but got 'my_file.py'"),
        ("my_file.py:", "is written as my_file.py:Class"),
        ("my_file.py:Nothing", "Nothing in my_file.py must be a complete Detector class"),
        ("my_file.py:Absent", "Absent in my_file.py must be a complete Detector class"),
        ("broken.py:Mine", "broken.py cannot be imported: ZeroDivisionError: division by zero."),
        ("wrong.py:Mine", "wrong.py cannot be imported: SyntaxError"),
    ],
)
def test_what_is_no_detector_is_refused_in_one_sentence(folder: Path, place: str, complaint: str) -> None:
    (folder / "broken.py").write_text("1 / 0\n")
    (folder / "wrong.py").write_text("def\n")
    with pytest.raises(ConfigError, match=r"^.+$") as caught:
        choose(place)
    assert complaint in str(caught.value)
    assert complaint in tsadc("fit", "pump.csv", "--out", "model", "--detector", place).refusal
