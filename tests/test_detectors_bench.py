"""The parts of `benchmarks/detectors.py`: data, records that are current, and the table. No time is judged."""

import argparse
import json
from types import ModuleType

import numpy as np
import pytest

from benchmark import script
from networks import TRAINED
from tsadc.detectors import REGISTRY

SMALL = ("--preset", "tiny", "--epochs", "1", "--observations", "12", "--variables", "4", "--length", "40")
SMALL += ("--scored", "3", "--threads", "1")


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    return script("detectors")


def given(bench: ModuleType, *words: str) -> argparse.Namespace:
    return bench._parser().parse_args([*SMALL, *words])


def record(name: str, preset: str = "default", requested_epochs: int | None = None, **measured: float) -> dict:
    sizes = {"observations": 300, "variables": 38, "length": 600, "scored": 20, "threads": 2}
    requested = {"detector": name, "preset": preset, "requested_epochs": requested_epochs, **sizes}
    content = {"parameters": 12345, "epochs": requested_epochs or 7, "fit_seconds": 61.4, "fit_cpu_seconds": 118.2}
    content |= {"network_ms": 3.21, "score_ms": 9.87, "peak_mb": 512.3, "start_mb": 401.7, **measured}
    return {**requested, "settings": "s", "code": "c", **content, "version": "9.9", "commit": "abc"}


def write(file, records) -> None:
    file.write_text("".join(json.dumps(one) + "\n" for one in records))


def test_history_and_what_is_scored_are_of_the_sizes_asked_for(bench):
    history, new = bench.plant(given(bench))
    assert [len(values) for values in history.values()] == [2 * 40] * 6
    assert {values.shape[1] for values in (*history.values(), *new.values())} == {4}
    ((entity, values),) = new.items()
    assert len(values) == 3 * 40
    assert entity in history
    assert not np.array_equal(values[:80], history[entity], equal_nan=True)
    history, _ = bench.plant(given(bench, "--observations", "7"))  # which no number of units shares evenly
    assert [len(values) for values in history.values()] == [7 * 40]


def test_a_detector_is_measured(bench):
    found = bench.measure("gae", given(bench))
    # Two layers of 8 and 4 numbers and back on windows of 12 steps, and two embeddings of 4 numbers for 4 variables.
    assert found["parameters"] == 13 * 8 + 9 * 4 + 5 * 8 + 9 * 12 + 2 * 4 * 4
    # Of 12 observations, 2 are set aside.
    assert (found["trained_on"], found["epochs"]) == (10, 1)
    assert all(found[name] > 0 for name in ("fit_seconds", "fit_cpu_seconds", "network_ms", "score_ms"))
    assert found["peak_mb"] >= found["start_mb"] > 10


def test_a_detector_without_a_network_is_measured(bench):
    found = bench.measure("robust-z", bench._parser().parse_args([*SMALL[4:]]))
    nothing = [found[name] for name in ("parameters", "epochs", "network_ms")]
    assert nothing == [None] * 3
    assert found["trained_on"] == 10
    assert all(found[name] > 0 for name in ("fit_seconds", "fit_cpu_seconds", "score_ms", "peak_mb"))
    assert "parameters" not in bench.line(found)


def test_all_are_measured_that_have_what_is_asked(bench):
    assert bench.chosen(bench._parser().parse_args([])) == list(REGISTRY)
    assert bench.chosen(bench._parser().parse_args(["--preset", "published"])) == TRAINED
    assert bench.chosen(bench._parser().parse_args(["--epochs", "2"])) == TRAINED
    assert bench.chosen(bench._parser().parse_args(["--detectors", "pca, gae"])) == ["pca", "gae"]


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize("preset", ["default", "published", "tiny"])
def test_every_detector_has_the_presets(bench, name, preset):
    config = bench.settings(name, given(bench, "--preset", preset, "--epochs", "3"))
    assert (config.length, config.training.epochs) == (40, 3)
    wanted = bench.request(name, bench._parser().parse_args(["--preset", preset]))
    assert (wanted["preset"], wanted["requested_epochs"], wanted["length"]) == (preset, None, 600)


def test_a_detector_is_run_again_only_if_something_changed(bench, tmp_path, monkeypatch, capsys):
    measured = {name: record("gae")[name] for name in bench.MEASURED}
    answers = {"gae": measured, "gdn": None}
    called = []
    monkeypatch.setattr(bench, "child", lambda name, options: called.append(name) or answers[name])
    file = tmp_path / "records.jsonl"
    words = [*SMALL, "--detectors", "gae, gdn", "--records", str(file)]
    assert bench.main(words) == 1
    assert called == ["gae", "gdn"]
    assert [one["detector"] for one in bench.load(file)] == ["gae"]
    answers["gdn"] = measured
    assert bench.main(words) == 0
    assert called[2:] == ["gdn"]
    assert bench.main([*words, "--again"]) == 0
    assert called[3:] == ["gae", "gdn"]
    assert "gae: done before" in capsys.readouterr().out
    write(file, [one | {"code": "of earlier code"} for one in bench.load(file)])
    assert bench.main([*words, "--detectors", "gae"]) == 0
    assert bench.main([*words, "--detectors", "gae", "--threads", "2"]) == 0
    assert called[5:] == ["gae", "gae"]
    assert len(bench.load(file)) == 2


def test_the_table_has_a_line_for_each_record(bench, tmp_path):
    file, page = tmp_path / "records.jsonl", tmp_path / "page.md"
    write(file, [record("gdn"), record("usad", parameters=405538), record("gae", "published", 2)])
    assert bench.main(["--table", str(page), "--records", str(file)]) == 0
    text = page.read_text()
    assert [line for line in text.splitlines() if line.startswith(("| u", "| g"))] == [
        "| usad | 405,538 | 7 | 61 | 118 | 3.2 | 9.9 | 512 (402) |",
        "| gdn | 12,345 | 7 | 61 | 118 | 3.2 | 9.9 | 512 (402) |",
        "| gae | 12,345 | 2* | 61 | 118 | 3.2 | 9.9 | 512 (402) |",
    ]
    assert "300 observations of 38 variables x 600 steps" in text
    assert "on 2 thread(s)" in text
    assert "Made with tsadc 9.9 at commit abc by" in text
    assert "2 of 2 records are stale" in text


def test_the_table_says_what_made_each_record_if_they_differ(bench):
    first, second = record("gdn"), record("pca", fit_seconds=0.31)
    second |= dict.fromkeys(("parameters", "epochs", "network_ms"))
    second["commit"] = "def"
    text = bench.markdown([second, first | {"threads": 1}])
    assert [line for line in text.splitlines() if line.startswith(("| g", "| p"))] == [
        "| gdn | 12,345 | 7 | 61 | 118 | 3.2 | 9.9 | 512 (402) | tsadc 9.9 at commit abc |",
        "| pca | - | - | 0.3 | 118 | - | 9.9 | 512 (402) | tsadc 9.9 at commit def |",
    ]
    assert "on 1 or 2 thread(s)" in text
    assert "Made with the versions in the last column" in text


@pytest.mark.parametrize("text", ["[]", "{}", "{", '{"detector": "gae"}'])
def test_a_damaged_record_is_named(bench, text, tmp_path, capsys):
    file = tmp_path / "records.jsonl"
    file.write_text(text + "\n")
    assert bench.main(["--table", str(tmp_path / "page.md"), "--records", str(file)]) == 2
    assert f"{file}, line 1, is not a record; delete the line" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--detectors", "pac"], "There is no detector 'pac'; did you mean `pca`"),
        (["--detectors", "pca", "--epochs", "2"], "pca has no network to train; leave out --epochs"),
        (["--detectors", "pca", "--preset", "tiny"], "This detector has only the preset `default`, but got 'tiny'"),
        (["--detectors", "gae", "--observations", "4"], "--observations must be at least 5, but got 4"),
        (["--detectors", "gae", "--preset", "huge"], "huge"),
        (["--table"], "There are no records in"),
    ],
)
def test_mistakes_are_told_in_a_sentence(bench, words, message, tmp_path, capsys):
    assert bench.main([*words, "--records", str(tmp_path / "none.jsonl")]) == 2
    told = capsys.readouterr().err
    assert told.startswith("detectors.py: ")
    assert message in told
    assert list(tmp_path.iterdir()) == []
