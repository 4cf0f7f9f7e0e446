"""`tsadc bench run` on a small data set of one's own."""

import json
import shutil
from importlib.metadata import version
from pathlib import Path

import pytest

from benchmark import OWN_PLAN as PLAN
from benchmark import run_plan as run
from terminal import tsadc, untouched
from tsadc.bench.job import Job
from tsadc.bench.records import exclusive, load, scores_file, write_records
from tsadc.cli import bench_run
from tsadc.data import catalogue
from tsadc.data.task import Task
from tsadc.errors import DataError


def test_it_runs_what_is_not_yet_done(plan: Path) -> None:
    first = run(plan, "--seeds", "0")
    assert first.code == 0, first.err
    told = first.out.splitlines()
    assert told[0] == "2 jobs, 0 already done"
    assert told[1].startswith("[1/2, 0:00:")
    assert "left, best so far first 1.000] mine first seed 0: AUROC 1.000, AP 1.000" in told[1]
    out = plan.parent / "out"
    before = load(out)
    assert len(before) == 2
    second = run(plan)
    assert second.out.startswith("4 jobs, 2 already done\n[1/2")
    assert [record for record in load(out) if record["seed"] == 0] == before
    assert {(one["detector"], one["seed"]) for one in load(out)} == {
        (name, seed) for name in ("robust-z", "random") for seed in (0, 1)
    }
    assert set((out / "scores").iterdir()) == {scores_file(out, record) for record in load(out)}
    assert (out / "plan.toml").read_text() == PLAN
    assert run(plan, "--again", "--only", "detector=first,seed=1").out.splitlines()[0] == "1 job, 0 already done"


def change(out: Path, detector: str = "", **values: object) -> None:
    """Change values in the records of a detector, or in all of them."""
    records = [one | values if detector in ("", one["detector"]) else one for one in load(out)]
    write_records(out / "mine.jsonl", records)


def test_a_dry_run_says_what_would_be_run_and_writes_nothing(plan: Path, done: Path) -> None:
    change(done, fit_seconds=0.2, score_seconds=0)
    with untouched(plan.parent):
        known = run(plan, "--dry-run", "--again")
        unknown = tsadc("bench", "run", plan, "--out", plan.parent / "other", "--dry-run")
    assert known.out.splitlines()[1] == "mine first seed 0: under a second"
    assert known.out.splitlines()[-1] == "Total: 4 trainings with 1 process, under a second."
    assert "mine random seed 1: time unknown" in unknown.out
    assert unknown.out.splitlines()[-1] == "Total: 4 trainings with 1 process, time unknown."
    assert run(plan, "--dry-run").out.splitlines()[-1] == "Nothing is left to run."
    change(done, "robust-z", fit_seconds=3600, score_seconds=0)
    write_records(done / "mine.jsonl", [one for one in load(done) if one["detector"] != "random"])
    some = run(plan, "--dry-run", "--again", "--processes", "2").out.splitlines()
    assert some[1] == "mine first seed 0: about 1:00:00"
    assert some[-1] == "Total: 4 trainings with 2 processes, about 1:00:00; time of 2 jobs unknown."


def test_an_estimate_counts_a_training_once_and_every_scoring(plan: Path) -> None:
    heads = '"usad"\nscoring = ["fused", "own"]\n[budget]\nepochs = 1'
    plan.write_text(PLAN.replace('"random"', heads))
    assert run(plan, "--seeds", "0", "--only", "detector=usad").code == 0
    out = plan.parent / "out"
    change(out, fit_seconds=3600, score_seconds=60 / load(out)[0]["observations"])
    told = run(plan, "--seeds", "0,1", "--only", "detector=usad,seed=1", "--dry-run").out.splitlines()
    assert told[1] == "mine usad seed 1: about 1:01:00"
    assert told[-1] == "Total: 1 training with 1 process, about 1:02:00."


def test_failures_are_counted_kept_and_retried(plan: Path) -> None:
    shutil.copy(
        plan.parent / "prepared" / "observations" / "a.npy", plan.parent / "prepared" / "observations" / "b.npy"
    )
    answer = run(plan, "--seeds", "0")
    assert answer.code == 1
    assert "mine first seed 0: failed, DataError: " in answer.out
    assert answer.err == "tsadc: 2 jobs failed; the records say why, and --retry runs them again.\n"
    again = run(plan, "--seeds", "0")
    assert (again.code, again.err) == (1, answer.err)
    assert run(plan, "--seeds", "0", "--retry").code == 1
    assert all("auroc" not in one for one in load(plan.parent / "out"))


def test_an_interruption_keeps_what_is_done(plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(bench_run, "_line", interrupt)
    answer = run(plan)
    assert answer.code == 130
    assert answer.err == "tsadc: interrupted; run the same command again to continue.\n"
    assert len(load(plan.parent / "out")) == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--seeds", "one"), "--seeds takes report, choose or whole numbers such as 0,1,2, but got 'one'."),
        (("--seeds", "1,1"), "`--seeds` must name each value once, but has 1 twice; leave one out."),
        (("--processes", "0"), "--processes must be at least 1, but got 0."),
        (("--only", "mine"), "--only takes key=value, separated by commas, but got 'mine'."),
        (("--only", "dat=mine"), "--only has no key 'dat'; did you mean `data`?"),
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


def test_what_cannot_be_drawn_is_refused_before_anything_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def few(job: Job, raw: Path) -> Task:
        if job.split["eta"] == 0.2:
            raise DataError("There are too few.")
        return catalogue.draw(job.dataset, raw, job.seed, tuple(job.split.items()))

    monkeypatch.setattr(Job, "task", few)
    plan = tmp_path / "plan.toml"
    split = "split = { eta = [0.1, 0.2], kappa = 1 }"
    plan.write_text(f'seeds = [0]\n[[data]]\nname = "plant"\n{split}\n[[detectors]]\nname = "random"\n')
    with untouched(tmp_path):
        for words in ((), ("--dry-run",)):
            answer = run(plan, *words)
            assert answer.code == 2
            assert answer.err == "tsadc: plant eta=0.2 kappa=1 cannot be drawn with seed 0: There are too few.\n"
    assert run(plan, "--only", "eta=0.1").code == 0


def test_a_folder_that_cannot_be_written_is_told_before_anything_is_run(plan: Path) -> None:
    out = plan.parent / "out"
    out.write_text("a file")
    said = f"{out} is a file, but --out needs a folder for the records; choose another name."
    assert run(plan).refusal == run(plan, "--dry-run").refusal == said
    answer = tsadc("bench", "run", plan, "--out", out / "below")
    assert answer.code == 2
    assert "cannot be written" in answer.err
    assert "[1/" not in answer.out


def test_a_folder_of_something_else_is_refused(plan: Path) -> None:
    out = plan.parent / "out"
    out.mkdir()
    (out / "model.json").write_text("{}")
    with untouched(plan.parent):
        assert run(plan).refusal == (
            f"{out} holds other files and no benchmark records; choose a new or empty folder with --out."
        )


def test_a_folder_that_another_run_writes_into_is_refused(plan: Path) -> None:
    out = plan.parent / "out"
    with exclusive(out):
        answer = run(plan)
        assert answer.code == 2
        assert answer.err == (
            f"tsadc: Another `tsadc bench run` writes into {out}; wait until it is done, or choose another --out.\n"
        )
        assert run(plan, "--dry-run").code == 0
        assert load(out) == []
    assert run(plan).code == 0


def test_a_place_of_data_that_is_none_is_told(plan: Path, tmp_path: Path) -> None:
    assert run(plan, "--raw", tmp_path / "nothing", "--seeds", "0").code == 0
    plan.write_text(PLAN + '[[data]]\nname = "ludb"\n')
    said = "but the folder with the data sets was expected; set it with --raw or TSADC_DATA."
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


def test_what_is_absent_can_be_chosen_and_is_told(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text('seeds = [0]\n[[data]]\nname = "ludb"\n[[detectors]]\nname = "random"\n')
    answer = run(plan, "--only", "data=ludb", "--raw", tmp_path)
    assert answer.code == 2
    assert "holds none of the plan's data sets" in answer.err


def test_records_hold_what_is_needed_to_repeat(plan: Path) -> None:
    plan.write_text(PLAN.replace('"random"', '"usad"\n[budget]\nepochs = 1'))
    answer = run(plan, "--seeds", "1")
    assert answer.code == 0, answer.err
    by_name = {record["detector"]: record for record in load(plan.parent / "out")}
    plain, network = by_name["robust-z"], by_name["usad"]
    source = json.loads((plan.parent / "manifest.json").read_text())["hash"]
    for record in (plain, network):
        assert (record["source"], record["seed"]) == (source[:16], 1)
        assert record["version"] == version("tsadc")
        assert min(record["fit_seconds"], record["score_seconds"], record["score_cpu_seconds"]) >= 0
        assert {"commit", "machine", "made", "settings", "code", "fit_cpu_seconds", "peak_bytes"} <= set(record)
    assert [plain[name] for name in ("parameters", "flops", "epoch_seconds")] == [None] * 3
    assert network["parameters"] > 0
    assert network["flops"] > 0
    assert network["epoch_seconds"] >= 0
    assert network["overrides"] == {"training": {"epochs": 1}}


def test_a_stale_record_is_made_again(plan: Path, done: Path) -> None:
    change(done, "random", code="of earlier code")
    again = run(plan).out.splitlines()
    assert again[0] == "4 jobs, 2 already done, 2 with stale records"
    assert len(again) == 4
    assert again[-1] == f"Records are in {done}; show them with `tsadc bench table {done}`."
    assert run(plan).out == f"4 jobs, 4 already done\nNothing is left to run.\n{again[-1]}\n"


def test_records_go_to_a_folder_that_bears_the_name_of_the_plan(
    plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert tsadc("bench", "run", plan, "--seeds", "0").code == 0
    assert len(load(tmp_path / "results" / plan.stem)) == 2
