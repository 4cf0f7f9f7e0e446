"""`tsadc bench` on a small data set of one's own."""

import json
import shutil
from pathlib import Path

import pytest

from benchmark import own_data
from pages import Page
from terminal import Answer, tsadc, untouched
from tsadc.bench.records import load
from tsadc.commands import bench

PLAN = """
title = "Mine"
note = "A note."
seeds = [0, 1]
[[data]]
name = "mine"
folder = "prepared"
manifest = "manifest.json"
[[detectors]]
name = "robust-z"
label = "first"
[[detectors]]
name = "random"
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    own_data(tmp_path)
    file = tmp_path / "plan.toml"
    file.write_text(PLAN)
    return file


def run(plan: Path, *words: object) -> Answer:
    return tsadc("bench", "run", plan, "--out", plan.parent / "out", *words)


@pytest.fixture
def done(plan: Path) -> Path:
    answer = run(plan)
    assert answer.code == 0, answer.err
    return plan.parent / "out"


def test_it_runs_what_is_not_yet_done(plan: Path) -> None:
    first = run(plan, "--seeds", "0")
    assert first.code == 0, first.err
    told = first.out.splitlines()
    assert told[0] == "2 cells, 0 of them done before"
    assert told[1].startswith("[1/2, 0:00:")
    assert "left, best so far first 1.000] mine first seed 0: AUROC 1.000, AP 1.000" in told[1]
    out = plan.parent / "out"
    before = {file: file.stat().st_mtime_ns for file in out.rglob("seed-*.json")}
    assert len(before) == 2
    second = run(plan)
    assert second.out.startswith("4 cells, 2 of them done before\n[1/2")
    assert {file: file.stat().st_mtime_ns for file in before} == before
    assert {(one["detector"], one["seed"]) for one in load(out)} == {
        (name, seed) for name in ("robust-z", "random") for seed in (0, 1)
    }
    assert sorted(file.stem for file in (out / "scores").iterdir()) == sorted(one["hash"] for one in load(out))
    assert (out / "plan.toml").read_text() == PLAN
    assert (
        run(plan, "--again", "--only", "detector=first,seed=1").out.splitlines()[0] == "1 cell, 0 of them done before"
    )


def test_a_dry_run_says_what_would_be_run_and_writes_nothing(plan: Path, done: Path) -> None:
    with untouched(plan.parent):
        known = run(plan, "--dry-run", "--again")
        unknown = tsadc("bench", "run", plan, "--out", plan.parent / "other", "--dry-run")
    assert known.out.splitlines()[1].startswith("mine first seed 0: about 0:00:0")
    assert known.out.splitlines()[-1].startswith("In all about 0:00:0")
    assert "mine random seed 1: of unknown length" in unknown.out
    assert unknown.out.rstrip().endswith("with 1 process, and 4 cells of unknown length.")


def test_failures_are_counted_kept_and_retried(plan: Path) -> None:
    shutil.copy(
        plan.parent / "prepared" / "observations" / "a.npy", plan.parent / "prepared" / "observations" / "b.npy"
    )
    answer = run(plan, "--seeds", "0")
    assert answer.code == 1
    assert "mine first seed 0: failed, DataError: " in answer.out
    assert answer.err == "tsadc: 2 cells failed; the records say why, and --retry runs them again.\n"
    assert run(plan, "--seeds", "0").code == 0
    assert run(plan, "--seeds", "0", "--retry").code == 1
    assert all("auroc" not in one for one in load(plan.parent / "out"))


def test_an_interruption_keeps_what_is_done(plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "line", interrupt)
    answer = run(plan)
    assert answer.code == 130
    assert answer.err == "tsadc: interrupted; the same command goes on where it stopped.\n"
    assert len(load(plan.parent / "out")) == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--seeds", "one"), "--seeds takes report, choose or whole numbers such as 0,1,2, but got 'one'."),
        (("--only", "mine"), "--only takes key=value, separated by commas, but got 'mine'."),
        (("--only", "dat=mine"), "--only knows no 'dat'; did you mean `data`."),
        (("--only", "detector=robustz"), "The plan has no detector 'robustz'; did you mean `robust-z`."),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is(plan: Path, words: tuple[str, ...], sentence: str) -> None:
    with untouched(plan.parent):
        assert run(plan, *words).refusal == sentence


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names no data"),
        ("x = [", "is not valid TOML"),
        (PLAN.replace("robust-z", "robust-zz"), "did you mean `robust-z`"),
        (PLAN.replace("note", "notes"), "There is no setting `notes`; did you mean `note`"),
        (PLAN.replace('folder = "prepared"', 'folder = "elsewhere"'), "There is no folder"),
    ],
)
def test_a_plan_that_cannot_be_run_is_refused(plan: Path, text: str, words: str) -> None:
    plan.write_text(text)
    with untouched(plan.parent):
        assert words in run(plan).refusal


def test_a_folder_that_cannot_be_written_is_told_before_anything_is_run(plan: Path) -> None:
    (plan.parent / "out").write_text("a file")
    answer = run(plan)
    assert answer.code == 2
    assert "cannot be written" in answer.err
    assert "[1/" not in answer.out


def test_absent_data_is_told_and_not_run(plan: Path, tmp_path: Path) -> None:
    plan.write_text(PLAN + '[[data]]\nname = "ludb"\n')
    answer = run(plan, "--raw", tmp_path, "--seeds", "0")
    assert answer.code == 0
    assert answer.out.splitlines()[0] == f"ludb is not run: {tmp_path} has no ecg_ludb_100hz.npz"
    assert len(load(plan.parent / "out")) == 2


def test_a_plan_of_absent_data_alone_is_no_success(plan: Path, tmp_path: Path) -> None:
    plan.write_text('[[data]]\nname = "ludb"\n[[detectors]]\nname = "robust-z"\n')
    answer = run(plan, "--raw", tmp_path)
    assert answer.code == 2
    assert "holds none of the plan's data sets; set TSADC_DATA to the folder that does." in answer.err
    assert not (plan.parent / "out").exists()


def test_tables_come_from_the_records(done: Path, tmp_path: Path) -> None:
    shown = tsadc("bench", "table", done, "--into", tmp_path / "results.md")
    assert "| first | **1.000" in shown.out
    assert (tmp_path / "results.md").read_text() == f"<!-- out: begin -->\n\n{shown.out}\n<!-- out: end -->\n"
    assert tsadc("bench", "table", done, "--format", "csv").out.splitlines()[1].startswith("mine,first,0,0 1,0,1,0,")
    assert r"first & \textbf{1.000}" in tsadc("bench", "table", done, "--format", "latex").out
    with untouched(tmp_path):
        assert (
            "--format takes markdown, csv, latex, but got 'xml'."
            in tsadc("bench", "table", done, "--format", "xml").refusal
        )
        assert "no records of seeds for choosing" in tsadc("bench", "table", done, "--choosing").refusal
        assert "There is no folder" in tsadc("bench", "table", tmp_path / "none").refusal


def test_the_report_is_one_page(done: Path, tmp_path: Path) -> None:
    answer = tsadc("bench", "report", done, "--out", tmp_path / "page.html")
    assert answer.code == 0, answer.err
    assert answer.out == f"The report of 4 records is {tmp_path / 'page.html'}.\n"
    page = Page((tmp_path / "page.html").read_text())
    assert "first has the highest auroc on the only data set." in page.text
    assert "A note." in page.text
    (tmp_path / "empty").mkdir()
    assert "holds no records" in tsadc("bench", "report", tmp_path / "empty", "--out", tmp_path / "x.html").refusal


def test_records_hold_what_is_needed_to_repeat(done: Path) -> None:
    record = json.loads((done / "mine" / "robust-z" / "seed-1.json").read_text())
    for name in ("settings", "overrides", "seed", "source", "versions", "commit", "machine", "made", "hash", "tsadc"):
        assert name in record
    for name in (
        "fit_seconds",
        "fit_cpu_seconds",
        "score_seconds",
        "score_cpu_seconds",
        "peak_bytes",
        "parameters",
        "flops",
    ):
        assert name in record
