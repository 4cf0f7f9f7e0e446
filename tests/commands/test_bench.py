"""`tsadc bench` on a small data set of one's own."""

import json
import shutil
from importlib.metadata import version
from pathlib import Path

import pytest

from benchmark import own_data
from pages import Page
from terminal import Answer, tsadc, untouched
from tsadc.bench.lock import LOCK, alone_in
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


def lasting(done: Path, row: str, seconds: float) -> None:
    """Records of the row say that their fit took so long, and scoring nothing."""
    for file in done.glob(f"mine/{row}/*.json"):
        file.write_text(json.dumps(json.loads(file.read_text()) | {"fit_seconds": seconds, "score_seconds": 0}))


def test_a_dry_run_says_what_would_be_run_and_writes_nothing(plan: Path, done: Path) -> None:
    lasting(done, "*", 0.2)
    with untouched(plan.parent):
        known = run(plan, "--dry-run", "--again")
        unknown = tsadc("bench", "run", plan, "--out", plan.parent / "other", "--dry-run")
    assert known.out.splitlines()[1] == "mine first seed 0: under a second"
    assert known.out.splitlines()[-1] == "In all 4 trainings, under a second with 1 process."
    assert "mine random seed 1: of unknown length" in unknown.out
    assert unknown.out.splitlines()[-1] == "In all 4 trainings, of unknown length with 1 process."
    assert run(plan, "--dry-run").out.splitlines()[-1] == "Nothing is left to run."
    lasting(done, "robust-z", 3600)
    for file in done.glob("mine/random/*.json"):
        file.unlink()
    some = run(plan, "--dry-run", "--again", "--jobs", "2").out.splitlines()
    assert some[1] == "mine first seed 0: about 1:00:00"
    assert some[-1] == "In all 4 trainings, about 1:00:00 with 2 processes, and 2 cells of unknown length."


def test_failures_are_counted_kept_and_retried(plan: Path) -> None:
    shutil.copy(
        plan.parent / "prepared" / "observations" / "a.npy", plan.parent / "prepared" / "observations" / "b.npy"
    )
    answer = run(plan, "--seeds", "0")
    assert answer.code == 1
    assert "mine first seed 0: failed, DataError: " in answer.out
    assert answer.err == "tsadc: 2 cells failed; the records say why, and --retry runs them again.\n"
    again = run(plan, "--seeds", "0")
    assert (again.code, again.err) == (1, answer.err)
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
        (("--seeds", "1,1"), "`--seeds` must name each value once, but has 1 twice; leave one out."),
        (("--jobs", "0"), "--jobs takes a whole number from 1, but got 0."),
        (("--only", "mine"), "--only takes key=value, separated by commas, but got 'mine'."),
        (("--only", "dat=mine"), "--only knows no 'dat'; did you mean `data`?"),
        (("--only", "detector=robustz"), "The plan has no detector 'robustz'; did you mean `robust-z`?"),
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
    out = plan.parent / "out"
    out.write_text("a file")
    said = f"{out} is a file, but --out needs a folder for the records; choose another name."
    assert run(plan).refusal == run(plan, "--dry-run").refusal == said
    answer = tsadc("bench", "run", plan, "--out", out / "below")
    assert answer.code == 2
    assert "cannot be written" in answer.err
    assert "[1/" not in answer.out


def test_a_folder_that_another_run_writes_into_is_refused(plan: Path) -> None:
    out = plan.parent / "out"
    with alone_in(out):
        answer = run(plan)
        assert answer.code == 2
        assert answer.err == (
            f"tsadc: Another `tsadc bench run` writes into {out}; wait until it is done, or choose another --out.\n"
        )
        assert run(plan, "--dry-run").code == 0
        assert load(out) == []
    assert run(plan).code == 0
    assert not (out / LOCK).exists()


def test_a_place_of_data_that_is_none_is_told(plan: Path, tmp_path: Path) -> None:
    assert run(plan, "--raw", tmp_path / "nothing", "--seeds", "0").code == 0
    plan.write_text(PLAN + '[[data]]\nname = "ludb"\n')
    said = "but the folder with the data sets was expected; name it by --raw or TSADC_DATA."
    assert run(plan, "--raw", tmp_path / "nothing").refusal == f"There is no folder {tmp_path / 'nothing'}, {said}"
    assert run(plan, "--raw", plan).refusal == f"{plan} is a file, {said}"


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
    (tmp_path / "results.md").touch()
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
        assert "is a file, but the folder that" in tsadc("bench", "table", tmp_path / "results.md").refusal
        assert "There is no file" in tsadc("bench", "table", done, "--into", tmp_path / "reslts.md").refusal


def test_goals_are_shown_if_the_plan_says_so(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    text = 'seeds = [0]\n[[data]]\nname = "plant"\n[[detectors]]\nname = "random"\n'
    for goals in (False, True):
        plan.write_text(("goals = true\n" if goals else "") + text)
        assert run(plan).code == 0
        assert ("*goal*" in tsadc("bench", "table", tmp_path / "out").out) is goals


PUBLISHED = """
[published]
source = "Somebody"
differs = "Other data."
data = { Theirs = "mine", Others = "" }
metrics = { AUC = "auroc" }
[[published.rows]]
name = "Best"
ours = "first"
Theirs = [0.5]
Others = [0.25]
[[published.rows]]
name = "Worst"
"""
BESIDE = "| Best | first | 0.500 | 1.000 | 0.250 |"


def test_what_others_published_stands_after_the_tables(plan: Path) -> None:
    plan.write_text(PLAN + PUBLISHED)
    assert run(plan).code == 0
    shown = tsadc("bench", "table", plan.parent / "out").out.rstrip().split("\n\n")
    assert shown[-3] == "Published (Somebody) beside ours: AUC, of ours the means over seeds of auroc."
    assert shown[-2].splitlines()[0] == "| row | ours | Theirs | ours: mine | Others |"
    assert shown[-2].splitlines()[2:] == [BESIDE, "| Worst | - | - | - | - |"]
    assert shown[-1] == "Other data."
    assert "Somebody" not in tsadc("bench", "table", plan.parent / "out", "--format", "csv").out
    tsadc("bench", "report", plan.parent / "out", "--out", plan.parent / "page.html")
    assert "Other data." in Page((plan.parent / "page.html").read_text()).text


def test_records_are_chosen_among(done: Path, tmp_path: Path) -> None:
    def rows(*words: str) -> list[str]:
        shown = tsadc("bench", "table", done, "--format", "csv", *words)
        assert shown.code == 0, shown.err
        return [" ".join(line.split(",")[1:4:2]) for line in shown.out.splitlines()[1:]]

    assert rows() == ["first 0 1", "random 0 1"]
    assert rows("--only", "detector=first,seed=1") == ["first 1"]
    assert rows("--only", "detector=random", "--only", "detector=first") == ["first 0 1", "random 0 1"]
    assert rows("--only", "label=first,seed=1.0") == ["first 1"]
    page = tmp_path / "page.html"
    told = tsadc("bench", "report", done, "--out", page, "--only", "detector=robust-z").out
    assert told == f"The report of 2 records is {page}.\n"
    with untouched(tmp_path):
        answer = tsadc("bench", "table", done, "--only", "detector=robustz")
        assert answer.refusal == "The records have no detector 'robustz'; did you mean `robust-z`?"
        assert tsadc("bench", "table", done, "--only", "mine").refusal.startswith("--only takes key=value")


def test_a_changed_plan_mixes_nothing(plan: Path, done: Path) -> None:
    """Another setting under the same label is another row; another label is taken over without a run."""
    plan.write_text(PLAN.replace('label = "first"', 'label = "first"\nset.validation = 0.3'))
    assert run(plan).code == 0
    shown = tsadc("bench", "table", done, "--format", "csv").out.splitlines()
    assert [line.split(",")[1] for line in shown[1:]] == ["random", "robust-z", "robust-z validation=0.3"]
    plan.write_text(PLAN.replace("first", "one, other"))
    assert run(plan).out == "4 cells, 4 of them done before\n"
    chosen = tsadc("bench", "table", done, "--format", "csv", "--only", "detector=one, other,seed=0").out
    assert [line.split(",0,0,")[0] for line in chosen.splitlines()[1:]] == ['mine,"one, other"']


def test_point_adjustment_is_warned_of_wherever_it_is_shown(plan: Path) -> None:
    asked = 'metrics = ["point_adjusted_f1", "delay"]\n'
    plan.write_text(asked + PLAN)
    assert "Say `misleading = true`" in run(plan).refusal
    plan.write_text(f"misleading = true\n{asked}{PLAN}")
    words = "Point adjustment takes one flagged row for a whole event"
    assert words in run(plan).out
    shown = [tsadc("bench", "table", plan.parent / "out", "--format", form) for form in ("markdown", "csv", "latex")]
    assert [words in shown[0].out, words in shown[1].err, words in shown[2].err] == [True] * 3
    assert r"\textbf" not in shown[2].out
    assert "| flag everything | 0.000 |" in shown[0].out  # the delay of flagging everything


def test_what_is_absent_can_be_chosen_and_is_told(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text('seeds = [0]\n[[data]]\nname = "ludb"\n[[detectors]]\nname = "random"\n')
    answer = run(plan, "--only", "data=ludb", "--raw", tmp_path)
    assert answer.code == 2
    assert "holds none of the plan's data sets" in answer.err


def test_another_plan_chooses_cells_metrics_and_marks(plan: Path, done: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text(
        'metrics = ["ap", "recall"]\n' + PLAN.replace('label = "first"\n', "").replace("random", "ridge") + PUBLISHED
    )
    document = tmp_path / "page.md"
    document.touch()
    shown = tsadc("bench", "table", done, "--plan", other, "--into", document)
    assert shown.code == 2  # its rows are called otherwise
    other.write_text(other.read_text().replace('ours = "first"', 'ours = "robust-z"'))
    shown = tsadc("bench", "table", done, "--plan", other, "--into", document)
    assert shown.code == 0, shown.err
    assert shown.out.startswith("A note.\n\n2 of 4 cells not run: mine 2.\n\n")
    assert "\n\n| recall" in shown.out
    assert "| Best | robust-z | 0.500 | 1.000 | 0.250 |" in shown.out
    assert "random |" not in shown.out
    assert "<!-- other: begin -->" in document.read_text()
    nothing = tsadc("bench", "table", tmp_path / "nowhere", "--plan", other).out
    assert nothing.startswith("A note.\n\nNot run.\n\nPublished (Somebody) beside ours")
    assert (
        "no records of seeds"
        in tsadc("bench", "table", tmp_path / "nowhere", "--plan", other, "--format", "csv").refusal
    )
    refused = tsadc("bench", "report", tmp_path / "nowhere", "--plan", other, "--out", tmp_path / "x.html").refusal
    assert f"holds no records of the cells of {other}; run" in refused


def test_the_report_is_one_page(done: Path, tmp_path: Path) -> None:
    answer = tsadc("bench", "report", done, "--out", tmp_path / "page.html")
    assert answer.code == 0, answer.err
    assert answer.out == f"The report of 4 records is {tmp_path / 'page.html'}.\n"
    page = Page((tmp_path / "page.html").read_text())
    assert "first has the highest auroc on the only data set." in page.text
    assert "A note." in page.text
    (tmp_path / "empty").mkdir()
    assert "holds no records" in tsadc("bench", "report", tmp_path / "empty", "--out", tmp_path / "x.html").refusal


def test_the_report_of_records_in_which_nothing_varies_is_no_figure(done: Path, tmp_path: Path) -> None:
    answer = tsadc("bench", "report", done, "--out", tmp_path / "curves.svg")
    assert answer.code == 2
    assert "Nothing varies in these records" in answer.err
    assert not (tmp_path / "curves.svg").exists()


def test_records_hold_what_is_needed_to_repeat(plan: Path) -> None:
    plan.write_text(PLAN.replace('"random"', '"usad"\n[budget]\nepochs = 1'))
    answer = run(plan, "--seeds", "1")
    assert answer.code == 0, answer.err
    by_name = {record["detector"]: record for record in load(plan.parent / "out")}
    plain, network = by_name["robust-z"], by_name["usad"]
    source = json.loads((plan.parent / "manifest.json").read_text())["hash"]
    for record in (plain, network):
        assert (record["source"], record["seed"]) == (source, 1)
        assert record["settings"]["length"] == 20
        assert record["tsadc"] == record["versions"]["tsadc"] == version("tsadc")
        assert min(record["fit_seconds"], record["score_seconds"], record["score_cpu_seconds"]) >= 0
        assert {"commit", "machine", "made", "hash", "overrides", "fit_cpu_seconds", "peak_bytes"} <= set(record)
    assert [plain[name] for name in ("parameters", "flops", "epoch_seconds")] == [None] * 3
    assert network["parameters"] > 0
    assert network["flops"] > 0
    assert network["epoch_seconds"] >= 0
    assert network["settings"]["training"]["epochs"] == 1
