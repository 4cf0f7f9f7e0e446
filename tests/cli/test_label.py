"""`tsadc label` and `tsadc review`: verdicts about what was found, and planned work."""

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from terminal import ALONE, frame, tsadc, untouched
from tsadc.cli.label import questions, sparkline
from tsadc.cli.nightly import identity
from tsadc.detectors.store import load
from tsadc.show.stored_results import read_results

FAULTS = {100: "b", 220: "c", 400: "b", 520: "d"}


def new() -> pd.DataFrame:
    data = frame(rows=640, seed=9)
    for row, name in FAULTS.items():
        data.loc[row : row + 15, name] += 6
    return data


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a history, new data, a model and what it found, dated and undated."""
    folder = tmp_path_factory.mktemp("label")
    frame(rows=1200).to_csv(folder / "press.csv", index=False)
    (folder / "new").mkdir()
    new().to_csv(folder / "new" / "press.csv", index=False)
    quick = ("--length", 40, "--set", "kernels=8")
    assert tsadc("fit", folder / "press.csv", "--out", folder / "model", *quick).code == 0
    found = tsadc("detect", folder / "new" / "press.csv", "--model", folder / "model", "--out", folder / "found")
    assert found.code == 0, found.err
    return folder


@pytest.fixture
def model(home: Path, tmp_path: Path) -> Path:
    shutil.copytree(home / "model", tmp_path / "model")
    return tmp_path / "model"


def ids(folder: Path) -> dict[int, str]:
    """Return the names of the intervals by the fault that they belong to."""
    table = pd.read_csv(folder / "intervals.csv", parse_dates=["start"])
    rows = (table["start"] - pd.Timestamp("2026-01-01")) // pd.Timedelta("1min")
    return {min(FAULTS, key=lambda fault: abs(fault - row)): name for row, name in zip(rows, table["id"], strict=True)}


def test_a_verdict_is_stored_listed_used_and_taken_back(home: Path, model: Path, tmp_path: Path) -> None:
    name = ids(home / "found")[220]
    said = tsadc(
        "label", model, "--results", home / "found", "--interval", name, "false", "--note", "test run", "--by", "Kim"
    )
    assert said.code == 0, said.err
    assert said.out.startswith("1 verdict noted; the model has 1 verdict.\nWeights that change most: ")
    assert "false alarm" in said.out
    (stored,) = json.loads((model / "verdicts.json").read_text())["verdicts"]
    assert (stored["id"], stored["verdict"], stored["note"], stored["by"]) == (name, "false", "test run", "Kim")
    assert stored["model"] == f"ensemble-{load(model).provenance_['data']['digest'][:8]}"
    title, row, zone = tsadc("label", model, "--list").out.splitlines()
    assert zone == "Times are in UTC, as which times without a time zone are read."
    assert title.split() == ["interval", "verdict", "entity", "start", "end", "by", "given", "on", "note"]
    assert row.split()[:3] == [name, "false", "press"]
    again = tmp_path / "again"
    assert tsadc("detect", home / "new" / "press.csv", "--model", model, "--out", again).code == 0
    assert name not in ids(again).values()
    table = pd.read_csv(again / "observations.csv")
    assert "feedback_score" in table
    assert table["model"].str.contains(r"\+").all()
    # What the model finds with verdicts can be judged, too.
    other = ids(again)[100]
    assert tsadc("label", model, "--results", again, "--interval", other, "true").code == 0
    taken = tsadc("label", model, "--undo", name, "--undo", other)
    assert taken.out.startswith("2 verdicts taken back; the model has 0 verdicts.")
    assert not (model / "verdicts.json").exists()
    assert load(model).threshold_ == load(home / "model").threshold_
    assert tsadc("label", model, "--list").out == f"{model} has no verdicts.\n"


def test_several_intervals_get_one_verdict_and_a_newer_one_replaces_it(home: Path, model: Path) -> None:
    names = ids(home / "found")
    both = ("--interval", names[100], "--interval", names[400])
    assert tsadc("label", model, "--results", home / "found", *both, "true").code == 0
    changed = tsadc("label", model, "--results", home / "found", "--interval", names[100], "planned")
    assert changed.code == 0
    assert f"note: The interval {names[100]} was judged 'true' before; it is now 'planned'." in changed.err
    assert [own.verdict for own in load(model).verdicts_] == ["planned", "true"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "Say which interval: --results FOUND --interval ID true"),
        (["true"], "Say which interval"),
        (["--interval", "abc"], "--interval needs a verdict: true, false or planned"),
        (["--interval", "abc", "true"], "name their folder with --results"),
        (["--interval", "abc", "maybe", "--results", "found"], "true, false or planned, but got 'maybe'"),
        (["--interval", "NAMEx", "true", "--results", "found"], "has no interval 'NAMEx'; did you mean `NAME`?"),
        (["--interval", "abc", "true", "--results", "new"], "new is no folder of results"),
        (["--interval", "abc", "true", "--results", "nothing"], "is no folder of results"),
        (["--undo", "abc"], "has no verdict about the interval 'abc'; it has no verdict at all"),
        (["--list", "--undo", "abc"], "--list changes nothing"),
        (["--answers", "none.json", "--results", "found"], "There is no file of answers none.json"),
        (["--answers", "a.json", "--interval", "abc", "true", "--results", "found"], "use one of them at a time"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    words: list[str], says: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    name = ids(home / "found")[100]
    with untouched(home):
        refusal = tsadc("label", "model", *(word.replace("NAME", name) for word in words)).refusal
    assert says.replace("NAME", name) in refusal


def answers(**changes: object) -> dict[str, object]:
    return {"format": 1, "answers": [], **changes}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "it is not JSON"),
        ("[]", "is no file of answers of this version"),
        (json.dumps(answers(format=2)), "is no file of answers of this version"),
        (json.dumps(answers(format="1")), "is no file of answers of this version"),
        (json.dumps(answers(answers={})), "is no file of answers of this version"),
        (json.dumps(answers(model=5)), "is no file of answers of this version"),
        (json.dumps(answers(answers=["abc"])), "An answer in"),
        (json.dumps(answers(answers=[{"id": 5, "verdict": "true"}])), "of texts was expected"),
        (json.dumps(answers(answers=[{"id": "a", "verdict": True}])), "of texts was expected"),
        (json.dumps(answers(answers=[{"id": "a"}])), "of texts was expected"),
        (json.dumps(answers(answers=[{"id": "a", "verdict": "true", "more": "x"}])), "of texts was expected"),
        (json.dumps(answers(answers=[{"id": "a", "verdict": "yes"}])), "true, false or planned, but got 'yes'"),
        (json.dumps(answers(answers=[{"id": "zzzzzzzz", "verdict": "true"}])), "has no interval 'zzzzzzzz'"),
        (
            json.dumps(answers(answers=[{"id": "a", "verdict": "true"}, {"id": "a", "verdict": "false"}])),
            "has two answers about the interval 'a', true and false",
        ),
    ],
)
def test_a_damaged_file_of_answers_changes_nothing(content: str, says: str, home: Path, tmp_path: Path) -> None:
    file = tmp_path / "answers.json"
    file.write_text(content)
    with untouched(home):
        assert says in tsadc("label", home / "model", "--results", home / "found", "--answers", file).refusal


def test_answers_of_a_page_are_read(home: Path, model: Path, tmp_path: Path) -> None:
    names, file = ids(home / "found"), tmp_path / "answers.json"
    rows = [{"id": names[100], "verdict": "true", "note": "seal"}, {"id": names[220], "verdict": "false"}]
    file.write_text(json.dumps(answers(answers=rows)))
    said = tsadc("label", model, "--results", home / "found", "--answers", file, "--note", "shift 2")
    assert said.out.startswith("2 verdicts noted")
    assert [(own.verdict, own.note) for own in load(model).verdicts_] == [("true", "seal"), ("false", "shift 2")]


def test_the_name_of_an_interval_may_be_written_in_capitals(home: Path, model: Path) -> None:
    name = ids(home / "found")[100]
    said = tsadc("label", model, "--results", home / "found", "--interval", f" {name.upper()}", "true")
    assert said.code == 0, said.err
    assert [verdict.id for verdict in load(model).verdicts_] == [name]
    assert tsadc("label", model, "--undo", name.upper()).out.startswith("1 verdict taken back")


def test_a_file_without_answers_changes_nothing_and_says_so(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "answers.json"
    file.write_text(json.dumps(answers()))
    with untouched(home):
        said = tsadc("label", home / "model", "--results", home / "found", "--answers", file)
    assert (said.code, said.out) == (0, f"{file} has no answers, so the model stays as it is.\n")


def test_answers_about_another_model_are_refused(home: Path, model: Path, tmp_path: Path) -> None:
    file, name = tmp_path / "answers.json", ids(home / "found")[100]
    row = {"id": name, "verdict": "true"}
    file.write_text(json.dumps(answers(model="ensemble-0badc0de", answers=[row])))
    with untouched(home):
        refusal = tsadc("label", home / "model", "--results", home / "found", "--answers", file).refusal
    assert "were found by ensemble-0badc0de, not by" in refusal
    file.write_text(json.dumps(answers(model=f"{identity(model)}+0123", answers=[row])))  # with earlier verdicts
    assert tsadc("label", model, "--results", home / "found", "--answers", file).code == 0


def test_results_of_another_model_are_refused(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "the other"
    assert tsadc("fit", home / "press.csv", "--out", other, "--length", 40, "--set", "kernels=4").code == 0
    name = ids(home / "found")[100]
    refusal = tsadc("label", other, "--results", home / "found", "--interval", name, "true").refusal
    assert "were found by ensemble-" in refusal
    assert f"tsadc detect DATA --model '{other}' --out FOLDER" in refusal
    # A folder with intervals of two models: one of them is meant.
    both = tmp_path / "both"
    shutil.copytree(home / "found", both)
    table = pd.read_csv(both / "intervals.csv", dtype=str)
    table.loc[table["id"] != name, "model"] = identity(other)
    table.to_csv(both / "intervals.csv", index=False)
    refusal = tsadc("label", other, "--results", both, "--interval", name, "true").refusal
    assert f"The interval {name} in {both} was found by {identity(home / 'model')}, not by {other}" in refusal


def test_damaged_tables_are_refused(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home / "found", tmp_path / "found")
    table = pd.read_csv(tmp_path / "found" / "intervals.csv", dtype=str)
    table.assign(variables="{").to_csv(tmp_path / "found" / "intervals.csv", index=False)
    refusal = tsadc("label", home / "model", "--results", tmp_path / "found", "--interval", "abc", "true").refusal
    assert "are damaged or edited" in refusal


def test_results_without_names_get_them_on_reading(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home / "found", tmp_path / "found")
    pd.read_csv(tmp_path / "found" / "intervals.csv", dtype=str).drop(columns="id").to_csv(
        tmp_path / "found" / "intervals.csv", index=False
    )
    names = [own.judged.id for own in read_results(tmp_path / "found").intervals]
    assert names == list(pd.read_csv(home / "found" / "intervals.csv")["id"])


def test_a_folder_and_a_result_have_the_same_view_scores(home: Path) -> None:
    from tsadc.detectors.feedback import judged
    from tsadc.io.read import read

    result = load(home / "model").detect(read([home / "new" / "press.csv"]))
    stored = {own.judged.id: own.judged for own in read_results(home / "found").intervals}
    for own in judged(result, result.intervals["id"].tolist()):
        assert stored[own.id].score == pytest.approx(own.score)
        assert stored[own.id].views == pytest.approx(own.views)
        assert (stored[own.id].start, stored[own.id].end, stored[own.id].dated) == (own.start, own.end, True)


def test_review_asks_in_the_terminal_and_keeps_the_answers(
    home: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\nwhat\nn\ns\nq\n"))
    said = tsadc("review", model, "--results", home / "found", "--by", "Kim")
    assert said.code == 0, said.err
    assert "1 of 4: press, Thu 1 Jan 2026, 0" in said.out
    assert "4 of 4: " in said.out
    assert said.out.count("A true anomaly?") == 5
    assert "2 verdicts noted" in said.out
    first, second = load(model).verdicts_
    assert (first.verdict, second.verdict, first.by) == ("true", "false", "Kim")
    scores = {own.judged.id: own.excess for own in read_results(home / "found").intervals}
    assert first.id == max(scores, key=lambda name: scores[name])
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    later = tsadc("review", model, "--results", home / "found")
    assert "1 of 2: " in later.out
    assert later.out.endswith("No answers, so the model stays as it is.\n")


def test_an_interrupted_review_keeps_the_answers_given_so_far(
    home: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = iter(["y\n", "n\n"])

    def readline() -> str:
        try:
            return next(lines)
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr("sys.stdin", SimpleNamespace(readline=readline))
    said = tsadc("review", model, "--results", home / "found")
    assert said.code == 0, said.err
    assert "2 verdicts noted" in said.out
    assert [verdict.verdict for verdict in load(model).verdicts_] == ["true", "false"]


def test_a_sparkline_marks_the_interval() -> None:
    drawn = sparkline(np.array([0.0, 0, 0, 7, 7, np.nan]), 3, 5)
    assert drawn.startswith("score ▁▁▁")
    assert drawn.split("[")[1].split("]")[0] == "█" * 2
    assert drawn.endswith("] ")


def test_a_page_asks_and_refuses_to_replace_other_files(home: Path, model: Path, tmp_path: Path) -> None:
    page, found = tmp_path / "review.html", tmp_path / "what it found"
    shutil.copytree(home / "found", found)
    said = tsadc("review", model, "--results", found, "--page", page, "--most", 2)
    assert said.out.startswith(f"{page} asks about 2 intervals.")
    assert said.out.endswith(f"tsadc label {model} --results '{found}' --answers answers.json\n")
    text = page.read_text()
    assert text.count('<article class="card"') == 2
    assert not re.search(r"https?://|@import|url\(", text)
    page.write_text("mine")
    assert "is not replaced" in tsadc("review", model, "--results", home / "found", "--page", page).refusal
    every = [word for name in ids(home / "found").values() for word in ("--interval", name)]
    assert tsadc("label", model, "--results", home / "found", *every, "true").code == 0
    refusal = tsadc("review", model, "--results", home / "found", "--page", tmp_path / "other.html").refusal
    assert "has a verdict already" in refusal


def test_planned_work_is_neither_reported_nor_learnt_from(home: Path, tmp_path: Path) -> None:
    calendar = tmp_path / "maintenance.csv"
    calendar.write_text("entity,start,end,note\npress,2026-01-01 01:30,2026-01-01 02:10,seal\n")
    words = ("--calendar", calendar, "--out", tmp_path / "found", "--report", tmp_path / "found.html")
    said = tsadc("detect", home / "new" / "press.csv", "--model", home / "model", *words)
    assert said.code == 0, said.err
    assert sorted(ids(tmp_path / "found")) == [220, 400, 520]
    page = (tmp_path / "found.html").read_text()
    assert "Planned work" in page
    assert "seal" in page
    fitted = tsadc("fit", home / "press.csv", "--out", tmp_path / "model", "--length", 40, "--calendar", calendar)
    assert "Trained on 28 observations" in fitted.out
    calendar.write_text("entity,start,end\npress,2026-01-01 01:30,\n")
    with untouched(tmp_path):
        words = ("--calendar", calendar, "--out", tmp_path / "more")
        refusal = tsadc("detect", home / "new" / "press.csv", "--model", home / "model", *words).refusal
    assert "is endless; give its end" in refusal


def test_only_planned_work_is_no_reason_for_exit_code_3(home: Path, tmp_path: Path) -> None:
    calendar = tmp_path / "all.ics"
    calendar.write_text(
        "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20260101T013000\nDURATION:PT8H\nEND:VEVENT\nEND:VCALENDAR\n"
    )
    data, model = home / "new" / "press.csv", home / "model"
    assert tsadc("detect", data, "--model", model, "--json", "--exit-code").code == 3
    assert tsadc("detect", data, "--model", model, "--json", "--exit-code", "--calendar", calendar).code == 0


def test_verdicts_survive_adapt_and_refit_by_command(home: Path, model: Path, tmp_path: Path) -> None:
    name = ids(home / "found")[220]
    assert tsadc("label", model, "--results", home / "found", "--interval", name, "false").code == 0
    frame(rows=400, seed=3).to_csv(tmp_path / "press-2.csv", index=False)
    assert tsadc("adapt", tmp_path / "press-2.csv", "--model", model, "--out", tmp_path / "adapted").code == 0
    assert [own.id for own in load(tmp_path / "adapted").verdicts_] == [name]
    recent = pd.concat([frame(rows=1200), new().assign(time=lambda data: data["time"] + pd.Timedelta("20h"))])
    recent.to_csv(tmp_path / "press.csv", index=False)
    said = tsadc("refit", model, tmp_path / "press.csv", "--force")
    assert said.code == 0, said.err
    assert [own.id for own in load(model).verdicts_] == [name]
    assert [own.id for own in load(model.with_name("model.previous")).verdicts_] == [name]


def test_a_kill_leaves_the_model_before_or_after(home: Path, model: Path) -> None:
    names = list(ids(home / "found").values())
    every = [word for name in names for word in ("--interval", name)]
    command = [sys.executable, "-m", "tsadc", "label", str(model), "--results", str(home / "found"), *every, "true"]
    for delay in (0.0, 0.6, 1.2):
        process = subprocess.Popen(command, env=ALONE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(delay)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert len(load(model).verdicts_) in (0, len(names))
    assert subprocess.run(command, env=ALONE, check=True, capture_output=True).returncode == 0
    assert len(load(model).verdicts_) == len(names)


def test_without_dates_the_same_rows_of_other_data_are_asked_about(home: Path, model: Path, tmp_path: Path) -> None:
    for size, name in ((0, "first"), (3, "second")):
        data = new()
        data.loc[100:115, "b"] += size
        data.drop(columns="time").to_csv(tmp_path / "press.csv", index=False)
        assert tsadc("detect", tmp_path / "press.csv", "--model", model, "--out", tmp_path / name).code == 0
    tables = [pd.read_csv(tmp_path / name / "intervals.csv") for name in ("first", "second")]
    name = tables[0]["id"].iloc[0]
    assert [table["start"].iloc[0] for table in tables] == [tables[0]["start"].iloc[0]] * 2
    assert tables[1]["id"].iloc[0] == name
    assert tsadc("label", model, "--results", tmp_path / "first", "--interval", name, "true").code == 0
    verdicts = load(model).verdicts_
    for folder, asked in (("first", False), ("second", True)):
        left = questions(model, read_results(tmp_path / folder), verdicts)
        assert (name in [interval.judged.id for interval in left]) == asked
