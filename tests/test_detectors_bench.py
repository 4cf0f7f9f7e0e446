"""The parts of `benchmarks/detectors.py`: data, records that are current, and the table. No time is judged."""

import argparse
import importlib.util
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from networks import TRAINED
from tsadc.detectors import REGISTRY

ROOT = Path(__file__).parents[1]
SMALL = ("--preset", "tiny", "--epochs", "1", "--observations", "12", "--variables", "4", "--length", "40")
SMALL += ("--scored", "3", "--threads", "1")


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("detectors_benchmark", ROOT / "benchmarks" / "detectors.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def given(bench: ModuleType, *words: str) -> argparse.Namespace:
    return bench._parser().parse_args([*SMALL, *words])


def record(name: str, preset: str = "default", epochs: int | None = None, **found: float) -> dict:
    sizes = {"observations": 300, "variables": 38, "length": 600, "scored": 20, "threads": 2}
    measured = {"parameters": 12345, "threads": 2, "epochs": epochs or 7}
    measured |= {"fit wall seconds": 61.4, "fit cpu seconds": 118.2}
    measured |= {"network ms": 3.21, "score ms": 9.87, "peak MB": 512.3, "before fit MB": 401.7, **found}
    asked = {"detector": name, "preset": preset, "epochs": epochs, **sizes}
    return {"asked": asked, "found": measured, "versions": {"tsadc": "9.9"}, "commit": "abc"}


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
    assert (found["trained on"], found["epochs"], found["threads"], found["scoring"]) == (10, 1, 1, "fused")
    assert all(found[name] > 0 for name in ("fit wall seconds", "fit cpu seconds", "network ms", "score ms"))
    assert found["peak MB"] >= found["before fit MB"] > 10


def test_a_detector_without_a_network_is_measured(bench):
    found = bench.measure("robust-z", bench._parser().parse_args([*SMALL[4:]]))
    nothing = [found[name] for name in ("parameters", "epochs", "network ms", "scoring")]
    assert nothing == [None] * 4
    assert found["trained on"] == 10
    assert all(found[name] > 0 for name in ("fit wall seconds", "fit cpu seconds", "score ms", "peak MB"))
    assert "parameters" not in bench.line(found)


def test_all_are_measured_that_have_what_is_asked(bench):
    assert bench.chosen(bench._parser().parse_args([])) == list(REGISTRY)
    assert bench.chosen(bench._parser().parse_args(["--preset", "published"])) == TRAINED
    assert bench.chosen(bench._parser().parse_args(["--epochs", "2"])) == TRAINED
    assert bench.chosen(bench._parser().parse_args(["--detectors", "pca, gae"])) == ["pca", "gae"]


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize("preset", ["default", "published", "tiny"])
def test_every_detector_has_the_presets(bench, name, preset):
    wanted = bench.task(name, given(bench, "--preset", preset, "--epochs", "3"))
    assert (wanted["preset"], wanted["settings"]["length"], wanted["settings"]["training"]["epochs"]) == (preset, 40, 3)
    own = bench.task(name, bench._parser().parse_args(["--preset", preset]))
    assert own["epochs"] is None
    assert own["settings"]["length"] == 600


def test_a_record_is_current_while_the_same_is_asked_for(bench, tmp_path):
    file = tmp_path / "gae-tiny.json"
    wanted = bench.task("gae", given(bench))
    assert not bench.current(file, wanted)
    file.write_text(json.dumps({"asked": wanted}))
    assert bench.current(file, wanted)
    assert not bench.current(file, bench.task("gae", given(bench, "--epochs", "2")))
    assert not bench.current(file, bench.task("gae", given(bench, "--threads", "2")))
    file.write_text(json.dumps({"asked": {**wanted, "tsadc": "0.0"}}))
    assert not bench.current(file, wanted)
    for damaged in ("{", "[1, 2]", "3"):
        file.write_text(damaged)
        assert not bench.current(file, wanted)


def test_what_has_a_record_is_not_run_again_and_a_failure_leaves_none(bench, tmp_path, monkeypatch, capsys):
    answers = {"gae": {**record("gae")["found"]}, "gdn": None}
    asked = []
    monkeypatch.setattr(bench, "child", lambda name, given: asked.append(name) or answers[name])
    words = [*SMALL, "--detectors", "gae, gdn", "--out", str(tmp_path)]
    assert bench.main(words) == 1
    assert asked == ["gae", "gdn"]
    assert [file.name for file in tmp_path.iterdir()] == ["gae-tiny.json"]
    assert json.loads((tmp_path / "gae-tiny.json").read_text())["found"]["parameters"] == 12345
    answers["gdn"] = answers["gae"]
    assert bench.main(words) == 0
    assert asked == ["gae", "gdn", "gdn"]
    assert bench.main([*words, "--again"]) == 0
    assert asked == ["gae", "gdn", "gdn", "gae", "gdn"]
    assert "gae: done before" in capsys.readouterr().out


def test_the_table_has_a_row_for_each_record_and_stands_between_its_markers(bench, tmp_path, capsys):
    records = [record("gdn"), record("usad", parameters=405538), record("gae", "published", 2)]
    for one in records:
        (tmp_path / f"{one['asked']['detector']}-{one['asked']['preset']}.json").write_text(json.dumps(one))
    document = tmp_path / "page.md"
    document.write_text("before\n<!-- detectors: begin -->\nold\n<!-- detectors: end -->\nafter\n")
    assert bench.main(["--table", "--out", str(tmp_path), "--document", str(document)]) == 0
    page = document.read_text()
    assert "old" not in page
    assert page.startswith("before\n")
    assert page.endswith("\nafter\n")
    rows = [line for line in page.splitlines() if line.startswith(("| u", "| g"))]
    assert rows == [
        "| usad | 405,538 | 7 | 61 | 118 | 3.2 | 9.9 | 512 (402) |",
        "| gdn | 12,345 | 7 | 61 | 118 | 3.2 | 9.9 | 512 (402) |",
        "| gae | 12,345 | 2* | 61 | 118 | 3.2 | 9.9 | 512 (402) |",
    ]
    assert "300 observations of 38 variables x 600 steps" in page
    assert "on 2 thread(s)" in page
    assert "Made with tsadc 9.9 at commit abc by" in page


def test_the_table_says_of_each_record_what_made_it_where_they_differ(bench):
    first, second = record("gdn", threads=1), record("pca", **{"fit wall seconds": 0.31})
    second["commit"] = "def"
    second["found"] |= dict.fromkeys(("parameters", "epochs", "network ms"))
    page = bench.markdown([second, first])
    rows = [line for line in page.splitlines() if line.startswith(("| g", "| p"))]
    assert rows == [
        "| gdn | 12,345 | 7 | 61 | 118 | 3.2 | 9.9 | 512 (402) | tsadc 9.9 at commit abc |",
        "| pca | - | - | 0.3 | 118 | - | 9.9 | 512 (402) | tsadc 9.9 at commit def |",
    ]
    assert "on 1 or 2 thread(s)" in page
    assert "Made with what the last column says" in page


@pytest.mark.parametrize("text", ["[]", "{}", "{", '{"asked": [], "found": {}}', '{"asked": {}, "found": {}}'])
def test_a_damaged_record_is_named(bench, text, tmp_path, capsys):
    (tmp_path / "gae-tiny.json").write_text(text)
    assert bench.main(["--table", "--out", str(tmp_path), "--document", str(tmp_path / "page.md")]) == 2
    assert f"The record {tmp_path / 'gae-tiny.json'} is damaged; delete it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--detectors", "pac"], "There is no detector 'pac'; did you mean `pca`"),
        (["--detectors", "pca", "--epochs", "2"], "pca has no network to train; leave out --epochs"),
        (["--detectors", "pca", "--preset", "tiny"], "A preset must be default, as there is no other, but got 'tiny'"),
        (["--detectors", "gae", "--observations", "4"], "--observations must be at least 5, but got 4"),
        (["--detectors", "gae", "--preset", "huge"], "huge"),
        (["--table"], "There are no records in"),
    ],
)
def test_mistakes_are_told_in_a_sentence(bench, words, message, tmp_path, capsys):
    assert bench.main([*words, "--out", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert told.startswith("detectors.py: ")
    assert message in told
    assert list(tmp_path.iterdir()) == []
