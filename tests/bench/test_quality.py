"""The command `benchmarks/quality.py`, and that the documents hold what the committed records say."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from tsadc.bench import table
from tsadc.bench.protocols import PROTOCOLS
from tsadc.bench.records import Store, cell_of, load

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "benchmarks" / "results" / "quality"


@pytest.fixture(scope="module")
def quality() -> ModuleType:
    spec = importlib.util.spec_from_file_location("quality_benchmark", ROOT / "benchmarks" / "quality.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def command(tiny: None, quality: ModuleType, tmp_path: Path):
    def run(*words: str) -> int:
        return quality.main(["--out", str(tmp_path / "out"), "--cache", str(tmp_path / "cache"), *words])

    return run


CHEAP = ("--detectors", "random,robust-z", "--data", "tiny,tiny-adapted")


def test_it_runs_what_is_not_yet_done(command, tmp_path: Path, capsys) -> None:
    assert command(*CHEAP, "--seeds", "0") == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "4 cells, 0 of them done before"
    assert len(told) == 5
    assert "[1/4, about 0 min left] tiny random seed 0: AUROC 0." in told[1]
    records = {(one["data"], one["detector"], one["seed"]) for one in load(tmp_path / "out")}
    assert records == {(data, name, 0) for data in ("tiny", "tiny-adapted") for name in ("random", "robust-z")}
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "out").rglob("*.json")}
    assert command(*CHEAP) == 0
    assert capsys.readouterr().out.startswith("8 cells, 4 of them done before\n[1/4")
    assert {file: file.stat().st_mtime_ns for file in before} == before
    assert command(*CHEAP, "--dry-run", "--again") == 0
    assert capsys.readouterr().out.splitlines()[1:3] == ["tiny random seed 0", "tiny robust-z seed 0"]


def test_settings_reach_the_detector(command, tmp_path: Path) -> None:
    assert command("--data", "tiny", "--detectors", "ridge", "--seeds", "3", "--set", "lags=1") == 0
    [record] = load(tmp_path / "out")
    assert record["settings"]["lags"] == 1
    assert record["settings"]["seed"] == 3
    assert record["overrides"] == {"lags": 1}


def test_failures_are_counted_kept_and_retried(command, tmp_path: Path, capsys) -> None:
    words = ("--data", "tiny-broken", "--detectors", "random", "--seeds", "0")
    assert command(*words) == 1
    shown = capsys.readouterr()
    assert "tiny-broken random seed 0: failed, DataError: The detector scored 20" in shown.out
    assert "1 cells failed" in shown.err
    assert command(*words) == 0
    assert command(*words, "--retry") == 1


def test_an_interruption_keeps_what_is_done(command, quality, tmp_path: Path, capsys, monkeypatch) -> None:
    def interrupt(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(quality, "line", interrupt)
    assert command(*CHEAP) == 130
    assert "the same command goes on where it stopped" in capsys.readouterr().err
    assert len(load(tmp_path / "out")) == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--data", "tyni"), "There is no protocol 'tyni'; did you mean `tiny`"),
        (("--detectors", "rigde"), "There is no detector 'rigde'; did you mean `ridge`"),
        (("--detectors", "ridge", "--set", "lag=1"), "There is no setting `lag`"),
        (("--detectors", "ridge:paper"), "A preset is default, the only one here, but got 'paper'"),
        (("--seeds", "one"), "--seeds takes report, choose or whole numbers"),
        (("--table",), "There is no folder"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is(command, tmp_path, capsys, words, sentence: str) -> None:
    assert command(*words) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_seeds_are_those_of_the_protocol(quality: ModuleType) -> None:
    assert quality.seeds("ludb", "report") == tuple(range(10))
    assert quality.seeds("smd-unseen", "choose") == (100, 101)
    assert quality.seeds("ludb", "7,3") == (7, 3)


def test_absent_data_is_told_or_refused(quality: ModuleType, tmp_path: Path, capsys) -> None:
    words = ["--raw", str(tmp_path), "--out", str(tmp_path / "out"), "--detectors", "random", "--dry-run"]
    assert quality.main(words) == 0
    shown = capsys.readouterr().out
    assert f"ludb is not run: {tmp_path} has no ecg_ludb_100hz.npz" in shown
    assert "plant random seed 4" in shown
    assert quality.main([*words, "--data", "ludb"]) == 2
    assert "has no ecg_ludb_100hz.npz; set TSADC_DATA" in capsys.readouterr().err


def test_the_tables_come_from_the_records(command, tmp_path: Path, capsys) -> None:
    command(*CHEAP)
    document = tmp_path / "results.md"
    capsys.readouterr()
    assert command("--table", "--document", str(document)) == 0
    text = table.markdown(load(tmp_path / "out"))
    assert capsys.readouterr().out == text + "\n"
    assert document.read_text() == f"<!-- quality: begin -->\n\n{text}\n\n<!-- quality: end -->\n"


def test_the_document_holds_the_tables_of_the_committed_records() -> None:
    if not RECORDS.is_dir():
        pytest.skip("no records of make bench-quality are committed")
    document = (ROOT / "docs" / "results.md").read_text()
    assert table.markdown(load(RECORDS)) in document


def test_the_committed_records_are_of_the_present_settings(shared_data: Path) -> None:
    if not RECORDS.is_dir():
        pytest.skip("no records of make bench-quality are committed")
    store = Store(RECORDS)
    for file in sorted(RECORDS.glob("*/*/*.json")):
        cell = cell_of(json.loads(file.read_text()))
        assert cell.data in PROTOCOLS
        assert store.current(cell, shared_data), f"{file} was made with other settings: run make bench-quality"
