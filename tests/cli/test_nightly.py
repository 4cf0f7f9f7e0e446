"""Night after night: results that grow, answers for scripts, and days that have just begun."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from terminal import ALONE, frame, tsadc, untouched
from tsadc.atomic import exchange
from tsadc.detectors.store import load

TABLES = ("intervals", "timeline", "observations")


def long_run() -> pd.DataFrame:
    """Two days, minute by minute; `b` is far off for half an hour before noon and for an hour around midnight."""
    data = frame(rows=2880, seed=5)
    data.loc[600:629, "b"] += 6
    data.loc[1410:1469, "b"] += 6
    return data


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nights")
    frame(rows=2400).to_csv(folder / "pump.csv", index=False)
    words = ("--detector", "robust-z", "--set", "threshold.method=tail", "--set", "threshold.share=0.00001")
    assert tsadc("fit", folder / "pump.csv", "--out", folder / "model", "--length", "40", *words).code == 0
    whole = long_run()
    parts = {
        "both": whole,
        "first": whole[:1460],
        "second": whole[1460:],
        "overlapping": whole[1300:],
        "late": whole[1459:],
    }
    for name, part in parts.items():
        (folder / name).mkdir()
        part.to_csv(folder / name / "pump.csv", index=False)
    return folder


def detect(folder: Path, name: str, out: Path, *words: object, model: Path | None = None):
    return tsadc("detect", folder / name / "pump.csv", "--model", model or folder / "model", "--out", out, *words)


def content(out: Path) -> dict[str, str]:
    return {name: (out / f"{name}.csv").read_text() for name in TABLES}


def test_two_nights_give_what_both_days_give_at_once(folder: Path, tmp_path: Path) -> None:
    """The second file begins before the first ends, so that no observation is left incomplete."""
    assert detect(folder, "both", tmp_path / "at-once", "--update").code == 0
    assert detect(folder, "first", tmp_path / "nights", "--update").code == 0
    answer = detect(folder, "overlapping", tmp_path / "nights", "--update")
    assert answer.code == 0
    assert f"Updated intervals.csv, timeline.csv, observations.csv in {tmp_path / 'nights'}." in answer.out
    at_once, nights = (
        {name: pd.read_csv(tmp_path / out / f"{name}.csv") for name in TABLES} for out in ("at-once", "nights")
    )
    pd.testing.assert_frame_equal(nights["intervals"], at_once["intervals"])
    drift = ["threshold", "anomalous"]  # depend on the observations before them in the same file
    pd.testing.assert_frame_equal(
        nights["observations"].drop(columns=drift), at_once["observations"].drop(columns=drift)
    )
    assert list(nights["timeline"]["time"]) == list(at_once["timeline"]["time"])
    assert len(nights["intervals"]) == 2


def test_the_same_command_again_and_earlier_days_change_nothing(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "results"
    detect(folder, "first", out, "--update")
    before = content(out)
    detect(folder, "first", out, "--update")
    assert content(out) == before
    detect(folder, "second", out, "--update")
    before = content(out)
    for name in ("second", "first", "second"):
        detect(folder, name, out, "--update")
        assert content(out) == before


def test_an_event_that_goes_on_in_the_next_file_is_one_interval(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "results"
    detect(folder, "first", out, "--update")
    assert pd.read_csv(out / "intervals.csv")["end"].iloc[-1] == "2026-01-02T00:20:00"
    detect(folder, "second", out, "--update")
    intervals = pd.read_csv(out / "intervals.csv")
    assert len(intervals) == 2
    assert intervals["start"].iloc[-1] <= "2026-01-01T23:30:00"
    assert intervals["end"].iloc[-1] >= "2026-01-02T00:30:00"
    assert intervals["variables"].str.startswith('{"b":').all()


def two_nights(folder: Path, data: pd.DataFrame) -> None:
    """Write two days as `both`, and as `first` and `second`, which meet at midnight, where an observation ends."""
    for name, part in {"both": data, "first": data[:1440], "second": data[1440:]}.items():
        (folder / name).mkdir(exist_ok=True)
        part.to_csv(folder / name / "pump.csv", index=False)


def test_an_event_that_pauses_at_midnight_is_one_interval_as_in_one_file(folder: Path, tmp_path: Path) -> None:
    data = frame(rows=2880, seed=5)
    data.loc[1400:1429, "b"] += 6
    data.loc[1444:1469, "b"] += 12
    two_nights(tmp_path, data)
    words = ("--model", folder / "model", "--update", "--set", "event.merge=19")

    def judge(name: str, out: Path) -> None:
        assert tsadc("detect", tmp_path / name / "pump.csv", "--out", out, *words).code == 0

    out, at_once = tmp_path / "nights", tmp_path / "at-once"
    judge("both", at_once)
    judge("first", out)
    first = pd.read_csv(out / "intervals.csv")
    assert "2026-01-01T23:50:00" <= first["end"].iloc[-1] < "2026-01-02T00:00:00"
    judge("second", out)
    # The reason is that of the higher piece, and severity depends on the drift within a file.
    same = ["entity", "start", "end", "score", "kind", "model"]
    intervals = pd.read_csv(out / "intervals.csv")
    pd.testing.assert_frame_equal(intervals[same], pd.read_csv(at_once / "intervals.csv")[same])
    assert intervals["reason"].iloc[-1].startswith("b 12.")
    marked = [pd.read_csv(each / "timeline.csv")["anomalous"] for each in (out, at_once)]
    pd.testing.assert_series_equal(*marked)
    assert len(pd.read_csv(out / "pieces.csv")) == len(intervals) + 1
    before = content(out)
    for name in ("first", "second", "first"):
        judge(name, out)
        assert content(out) == before
    data.loc[1444:1469, "b"] -= 12
    two_nights(tmp_path, data)
    judge("second", out)  # corrected: the event ended before midnight, and has its own evidence again
    pd.testing.assert_frame_equal(pd.read_csv(out / "intervals.csv")[: len(first)], first)


def test_a_day_that_comes_late_gives_what_it_would_have_given_in_time(folder: Path, tmp_path: Path) -> None:
    two_nights(tmp_path, long_run())
    for out, order in (("in-time", ("first", "second")), ("late", ("second", "first"))):
        for name in order:
            assert detect(tmp_path, name, tmp_path / out, "--update", model=folder / "model").code == 0
    assert content(tmp_path / "late") == content(tmp_path / "in-time")
    assert len(pd.read_csv(tmp_path / "late" / "intervals.csv")) == 2


def test_results_of_two_models_stay_apart_and_are_named(folder: Path, tmp_path: Path) -> None:
    """The fault lasts over midnight, and the second night is judged with another threshold, then by another model."""
    two_nights(tmp_path, long_run())
    frame(rows=2400, seed=3).to_csv(tmp_path / "history.csv", index=False)
    words = ("--detector", "robust-z", "--length", "40", "--set", "threshold.method=tail")
    assert tsadc("fit", tmp_path / "history.csv", "--out", tmp_path / "other", *words).code == 0
    out, model, other = tmp_path / "results", folder / "model", tmp_path / "other"
    assert detect(tmp_path, "first", out, "--update", model=model).err == ""
    strict = ("--update", "--set", "threshold.share=0.000001")
    (note,) = detect(tmp_path, "second", out, *strict, model=model).err.splitlines()
    assert note.startswith(f"tsadc: note: The latest results in {out} are of the model robust-z-")
    assert "the new ones of the same model with " in note
    assert detect(tmp_path, "second", out, *strict, model=model).err == ""
    intervals = pd.read_csv(out / "intervals.csv").iloc[-2:]
    assert intervals["end"].iloc[0] == intervals["start"].iloc[1] == "2026-01-02T00:00:00"
    assert intervals["model"].iloc[0] == intervals["model"].iloc[1]
    assert intervals["model_threshold"].is_monotonic_increasing
    (note,) = detect(tmp_path, "second", out, "--update", model=other).err.splitlines()
    assert "; their scores cannot be compared, and the columns `model` and `model_threshold` say what " in note
    judged = pd.read_csv(out / "observations.csv").groupby("model", sort=False)["model_threshold"]
    expected = {
        line[1]: load(path).threshold_
        for path in (model, other)
        for line in (row.split() for row in tsadc("info", path).out.splitlines())
        if line[0] == "name"
    }
    assert judged.first().to_dict() == pytest.approx(expected)
    assert judged.size().tolist() == [36, 36]
    assert judged.min().tolist() == judged.max().tolist()


def test_results_of_an_earlier_version_are_updated(folder: Path, tmp_path: Path) -> None:
    """They name no model and have no pieces."""
    out = tmp_path / "results"
    detect(folder, "first", out)
    for name in ("intervals", "observations"):
        pd.read_csv(out / f"{name}.csv").drop(columns=["model", "model_threshold"]).to_csv(
            out / f"{name}.csv", index=False
        )
    answer = detect(folder, "second", out, "--update")
    assert (answer.code, answer.err) == (0, "")
    intervals = pd.read_csv(out / "intervals.csv")
    assert intervals["model"].isna().tolist() == [True, True, False]
    assert len(pd.read_csv(out / "timeline.csv")) == 2880


def test_an_incomplete_observation_does_not_replace_a_complete_one(folder: Path, tmp_path: Path) -> None:
    """The late file begins in the middle of an observation, of which the results have all rows."""
    out = tmp_path / "results"
    detect(folder, "both", out, "--update")
    before = pd.read_csv(out / "observations.csv").set_index("start")
    detect(folder, "late", out, "--update")
    after = pd.read_csv(out / "observations.csv").set_index("start")
    assert list(after.index) == list(before.index)
    assert after.loc["2026-01-02T00:00:00", "score"] == before.loc["2026-01-02T00:00:00", "score"]
    assert after["coverage"].min() == 1


def test_corrected_values_are_judged_again(folder: Path, tmp_path: Path) -> None:
    out, corrected = tmp_path / "results", tmp_path / "pump.csv"
    detect(folder, "both", out, "--update")
    assert len(pd.read_csv(out / "intervals.csv")) == 2
    data = long_run()
    data.loc[600:629, "b"] -= 6
    data[:1200].to_csv(corrected, index=False)
    assert tsadc("detect", corrected, "--model", folder / "model", "--out", out, "--update").code == 0
    intervals = pd.read_csv(out / "intervals.csv")
    assert len(intervals) == 1
    assert intervals["start"][0] > "2026-01-01T23"
    timeline = pd.read_csv(out / "timeline.csv")
    assert len(timeline) == 2880
    assert not timeline["anomalous"][:1200].any()


def test_parquet_is_updated_too(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "results.parquet"
    for name in ("first", "overlapping", "overlapping"):
        assert detect(folder, name, out, "--update").code == 0
    intervals = pd.read_parquet(out / "intervals.parquet")
    assert str(intervals["start"].dtype).startswith("datetime64")
    assert len(intervals) == 2
    assert len(pd.read_parquet(out / "timeline.parquet")) == 2880


def test_time_zones_and_further_entities(folder: Path, tmp_path: Path) -> None:
    """The hour that the clock repeats in autumn is two hours of results."""
    out = tmp_path / "results"
    data = frame(rows=600)
    data["time"] = pd.date_range("2026-10-24 22:00", periods=600, freq="1min", tz="UTC").tz_convert("Europe/Berlin")
    data.to_csv(tmp_path / "pump.csv", index=False)
    data[200:400].to_csv(tmp_path / "fan.csv", index=False)
    for name in ("pump", "fan", "pump"):
        assert (
            tsadc("detect", tmp_path / f"{name}.csv", "--model", folder / "model", "--out", out, "--update").code == 0
        )
    timeline = pd.read_csv(out / "timeline.csv")
    assert timeline["entity"].value_counts().to_dict() == {"pump": 600, "fan": 200}
    assert len(timeline[["entity", "time"]].drop_duplicates()) == 800


def test_reports_and_other_files_in_the_folder_stay(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "results"
    detect(folder, "first", out, "--update", "--report", out / "first.html")
    (out / "notes").mkdir()
    (out / "notes" / "valve.txt").write_text("changed on Monday")
    answer = detect(folder, "second", out, "--update", "--report", out / "second.html")
    assert answer.code == 0
    assert {file.name for file in out.iterdir()} == {
        "first.html",
        "second.html",
        "notes",
        *(f"{t}.csv" for t in (*TABLES, "pieces")),
    }
    assert (out / "notes" / "valve.txt").read_text() == "changed on Monday"


@pytest.mark.parametrize("links", [True, False])
def test_earlier_reports_in_a_subfolder_stay(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(1, "Operation not permitted")

    out = tmp_path / "results"
    detect(folder, "first", out, "--update", "--report", out / "reports" / "first.html")
    (out / "reports" / "2025" / "may").mkdir(parents=True)
    (out / "reports" / "2025" / "may" / "valve.txt").write_text("changed on Monday")
    (out / ".new").write_text("a name that --update uses, too")
    before = (out / "reports" / "first.html").read_bytes()
    if not links:
        monkeypatch.setattr("os.link", refuse)
    answer = detect(folder, "second", out, "--update", "--report", out / "reports" / "second.html")
    assert answer.code == 0
    assert (out / "reports" / "first.html").read_bytes() == before
    assert (out / "reports" / "second.html").is_file()
    assert (out / "reports" / "2025" / "may" / "valve.txt").read_text() == "changed on Monday"
    assert (out / ".new").read_text() == "a name that --update uses, too"


@pytest.mark.parametrize("name", ["notes.html", "intervals.xlsx", "timeline", "report.html/photo.png"])
def test_force_leaves_a_folder_alone_that_has_files_of_the_user(folder: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / "results"
    detect(folder, "first", out, "--report", out / "monday.html")
    assert detect(folder, "second", out, "--force").code == 0  # over a report of ours
    (out / name).parent.mkdir(exist_ok=True)
    (out / name).write_text("mine")
    with untouched(tmp_path):
        refusal = detect(folder, "first", out, "--force").refusal
    assert f"also holds {name.partition('/')[0]}, which --force would remove" in refusal


def test_force_replaces_results_and_nothing_else(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "results"
    assert detect(folder, "both", out).code == 0
    assert "exists already" in detect(folder, "first", out).refusal
    assert detect(folder, "first", out, "--force").code == 0
    assert len(pd.read_csv(out / "timeline.csv")) == 1460
    (out / "notes.txt").write_text("kept")
    with untouched(tmp_path):
        assert "also holds notes.txt, which --force would remove" in detect(folder, "first", out, "--force").refusal
    (tmp_path / "photos").mkdir()
    with untouched(tmp_path):
        assert "is no folder of results" in detect(folder, "first", tmp_path / "photos", "--force").refusal
        assert "is no folder of results" in detect(folder, "first", tmp_path / "photos", "--update").refusal


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda file: file.write_bytes(b"\xff\xfe\x00"), "cannot be read as a table of results"),
        (lambda file: file.write_text("a,b\n1,2\n"), "does not hold tables of results"),
        (lambda file: file.write_text("entity,start,end,score\npump,0,40,1.0\n"), "has results without dates"),
    ],
)
def test_a_damaged_folder_is_refused_and_left_alone(folder: Path, tmp_path: Path, damage, complaint: str) -> None:
    out = tmp_path / "results"
    detect(folder, "first", out)
    damage(out / "intervals.csv")
    with untouched(out):
        assert complaint in detect(folder, "second", out, "--update").refusal


def test_results_without_dates_cannot_be_updated(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    frame().drop(columns="time").to_csv(file, index=False)
    answer = tsadc("detect", file, "--model", folder / "model", "--out", tmp_path / "results", "--update")
    assert "--update orders results by time, but 'rows' has no dates" in answer.refusal
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.csv"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--update"], "--update needs a folder of results; add --out FOLDER."),
        (["--force"], "--force needs a folder of results; add --out FOLDER."),
        (["--update", "--force", "--out", "results"], "give one of the two"),
        ([], "Nothing would be written"),
    ],
)
def test_options_that_do_not_fit_are_refused(folder: Path, words: list[str], complaint: str) -> None:
    json_too = ["--json"] if words and "--out" not in words else []
    answer = tsadc("detect", folder / "first" / "pump.csv", "--model", folder / "model", *words, *json_too)
    assert complaint in answer.refusal


def test_json_is_all_there_is_on_stdout(folder: Path, tmp_path: Path) -> None:
    answer = tsadc("detect", folder / "both" / "pump.csv", "--model", folder / "model", "--json")
    found = json.loads(answer.out)
    assert answer.out.count("\n") == 1
    assert (found["judged"], found["found"], found["out"], found["report"]) == (True, 2, None, None)
    assert found["summary"].startswith("2 unusual intervals:")
    first = found["intervals"][0]
    assert (first["entity"], first["start"]) == ("pump", "2026-01-01T10:00:00")
    assert max(first["variables"], key=first["variables"].get) == "b"
    out = tmp_path / "results"
    assert json.loads(detect(folder, "both", out, "--json").out)["out"] == str(out)
    assert set(pd.read_csv(out / "intervals.csv")["model"]) == {found["model"]}


def test_json_of_a_refusal_is_nothing(folder: Path) -> None:
    assert tsadc("detect", "absent.csv", "--model", folder / "model", "--json").refusal


def test_the_exit_code_says_whether_something_was_found(folder: Path, tmp_path: Path) -> None:
    assert detect(folder, "both", tmp_path / "one").code == 0
    assert detect(folder, "both", tmp_path / "two", "--exit-code").code == 3
    frame(rows=600).to_csv(tmp_path / "pump.csv", index=False)
    calm = ("detect", tmp_path / "pump.csv", "--model", folder / "model", "--json", "--exit-code")
    assert tsadc(*calm).code == 0


@pytest.mark.parametrize("tables", [True, False])
def test_a_script_reads_of_drift(folder: Path, tmp_path: Path, tables: bool) -> None:
    """Events of less than 10,000 rows are dropped, so that drift is all there is."""
    moved = frame(rows=1200, seed=7)
    moved.loc[400:, "b"] += 6
    moved.to_csv(tmp_path / "pump.csv", index=False)
    out = ["--out", tmp_path / "results"] if tables else []
    words = ("--model", folder / "model", "--set", "event.minimum=10000", "--json", "--exit-code", *out)
    answer = tsadc("detect", tmp_path / "pump.csv", *words)
    assert answer.code == 3
    found = json.loads(answer.out)
    assert (found["found"], found["intervals"]) == (0, [])
    (drift,) = found["drift"]
    (variable,) = drift.pop("variables")
    assert (drift.pop("missing"), drift.pop("stuck")) == ([], [])
    assert drift == {"entity": "pump", "since": "2026-01-01T06:40:00", "above": 20, "observations": 20}
    assert variable["name"] == "b"
    assert variable["now"] - variable["usual"] == pytest.approx(6, abs=0.2)
    assert found["summary"].splitlines()[0].startswith("20 of the 20 observations of pump since 2026-01-01 06:40 ")
    assert found["summary"].splitlines()[1] == "Nothing stands out from the recent past."


@pytest.mark.parametrize("rows", [0, 1, 2, 19])
def test_a_day_that_has_just_begun_is_no_error(folder: Path, tmp_path: Path, rows: int) -> None:
    frame()[:rows].to_csv(tmp_path / "pump.csv", index=False)
    out, report = tmp_path / "results", tmp_path / "report.html"
    words = ("--model", folder / "model", "--out", out, "--report", report, "--exit-code")
    answer = tsadc("detect", tmp_path / "pump.csv", *words)
    assert answer.code == 0
    assert answer.out.startswith("Nothing to judge yet, and nothing was written: ")
    found = json.loads(tsadc("detect", tmp_path / "pump.csv", *words, "--update", "--json").out)
    assert (found["judged"], found["found"], found["out"], found["intervals"]) == (False, 0, None, [])
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == ["pump.csv"]


def test_one_empty_file_among_several_is_a_mistake(folder: Path, tmp_path: Path) -> None:
    frame()[:0].to_csv(tmp_path / "a.csv", index=False)
    frame().to_csv(tmp_path / "b.csv", index=False)
    words = ("--model", folder / "model", "--json")
    assert "no rows" in tsadc("detect", tmp_path / "a.csv", tmp_path / "b.csv", *words).refusal


KILLED = """
import json, os, shutil, signal, sys
from pathlib import Path
from tsadc.cli.nightly import results_folder

first, second, out = map(Path, sys.argv[1:])
CHANGES = {"os.rename", "os.link", "os.mkdir", "os.remove", "os.rmdir", "open"}
TABLES = ("intervals.csv", "timeline.csv", "observations.csv")

def content(folder):
    return {name: (folder / name).read_bytes() for name in TABLES}

def update(source):
    with results_folder(out, (), "update") as folder:
        for name in TABLES:
            shutil.copy(source / name, folder / name)

def die_at(change):
    left = change
    def watch(event, arguments):
        nonlocal left
        if event in CHANGES and (event != "open" or "w" in str(arguments[1])):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(watch)

update(first)
before, found = content(out), []
shutil.copytree(out, out.with_name("kept"))
while True:
    child = os.fork()
    if not child:
        die_at(len(found) + 1)
        update(second)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    found.append(content(out))
    if not os.WIFSIGNALED(status):
        break
    shutil.rmtree(out)
    shutil.copytree(out.with_name("kept"), out)
print(json.dumps(["before" if each == before else "after" if each == found[-1] else "broken" for each in found]))
"""


def test_a_kill_leaves_the_results_of_before_or_after(folder: Path, tmp_path: Path) -> None:
    """The process is killed at each of its changes of files and folders, one after the other."""
    for name in ("first", "second"):
        detect(folder, name, tmp_path / name)
    words = [tmp_path / "first", tmp_path / "second", tmp_path / "results"]
    done = subprocess.run([sys.executable, "-c", KILLED, *words], capture_output=True, text=True, check=True, env=ALONE)
    found = json.loads(done.stdout)
    assert found.count("before") > 8
    assert found.count("after") > 3
    assert found == ["before"] * found.count("before") + ["after"] * found.count("after")
    names = sorted(path.name for path in (tmp_path / "results").iterdir())
    assert names == sorted(f"{name}.csv" for name in (*TABLES, "pieces"))


def test_two_folders_swap_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    exchange(tmp_path / "one", tmp_path / "other")
    assert [file.name for file in (tmp_path / "one").iterdir()] == ["other"]
    monkeypatch.setattr(sys, "platform", "another")
    exchange(tmp_path / "one", tmp_path / "other")
    assert [file.name for file in (tmp_path / "one").iterdir()] == ["one"]
    assert {file.name for file in tmp_path.iterdir()} == {"one", "other"}


def test_one_command_at_a_time_updates_a_folder(folder: Path, tmp_path: Path) -> None:
    from filelock import FileLock

    out = tmp_path / "results"
    detect(folder, "first", out, "--update")
    with FileLock(tmp_path / ".results.lock"):
        for how in ("--update", "--force"):
            assert "Another command is changing" in detect(folder, "second", out, how).refusal


def test_numbers_that_json_does_not_know_are_null() -> None:
    from tsadc.cli.nightly import Detected, as_json

    rows = pd.DataFrame({"score": [np.nan], "variables": [{"a": np.float32(0.5)}]})
    assert json.loads(as_json(Detected("", rows), 1.0, None, None))["intervals"] == [
        {"score": None, "variables": {"a": 0.5}}
    ]


def silent_sensors(folder: Path) -> pd.DataFrame:
    """Write two nights with two sensors that fall silent and a fault meanwhile; return both nights."""
    whole = long_run()
    whole.loc[300:1799, "a"] = np.nan  # over midnight
    whole.loc[900:1099, "b"] = np.nan
    for name, part in {"both": whole, "first": whole[:1440], "second": whole[1440:]}.items():
        (folder / name).mkdir()
        part.to_csv(folder / name / "pump.csv", index=False)
    return whole


def test_silent_sensors_have_intervals_of_their_own_over_nights(folder: Path, tmp_path: Path) -> None:
    whole = silent_sensors(tmp_path)
    model = folder / "model"
    for name, words in (("both", ()), ("first", ("--update",)), ("second", ("--update",))):
        out = tmp_path / ("once" if name == "both" else "nights")
        assert detect(tmp_path, name, out, *words, model=model).code == 0
    once, nights = (pd.read_csv(tmp_path / out / "intervals.csv") for out in ("once", "nights"))
    columns = ["start", "end", "kind", "variables"]
    silent = nights.loc[nights["evidence"] == "missing", columns].to_numpy().tolist()
    assert silent == once.loc[once["evidence"] == "missing", columns].to_numpy().tolist()
    times = whole["time"].dt.strftime("%Y-%m-%dT%H:%M:%S")
    assert [(row[0], row[1]) for row in silent] == [(times[300], times[1800]), (times[900], times[1100])]
    assert "level" in set(nights["kind"])  # of the fault at midnight, while a is silent
    flags = [pd.read_csv(tmp_path / out / "timeline.csv")["anomalous"].tolist() for out in ("once", "nights")]
    assert flags[0] == flags[1]
    before = content(tmp_path / "nights")
    assert detect(tmp_path, "first", tmp_path / "nights", "--update", model=model).code == 0
    assert content(tmp_path / "nights") == before


def test_a_damaged_table_of_pieces_is_refused(folder: Path, tmp_path: Path) -> None:
    assert detect(folder, "first", tmp_path / "nights", "--update").code == 0
    pieces = tmp_path / "nights" / "pieces.csv"
    table = pd.read_csv(pieces, dtype=str)
    table.assign(score="high").to_csv(pieces, index=False)
    answer = detect(folder, "second", tmp_path / "nights", "--update")
    assert answer.code == 2
    assert "pieces in" in answer.err
    assert "is damaged, so nothing can be added; choose another folder." in answer.err


@pytest.mark.parametrize("ending", ["", ".parquet"])
def test_a_short_outage_over_midnight_is_found_in_two_nights_as_in_one(
    folder: Path, tmp_path: Path, ending: str
) -> None:
    """An observation has 40 rows: neither night has an event, both together have one; others are too short."""
    whole = frame(rows=2880, seed=5)
    whole.loc[1415:1464, "a"] = np.nan
    whole.loc[1425:1454, "b"] = np.nan
    whole.loc[2860:, "c"] = np.nan
    whole.loc[:19, "c"] = np.nan
    for name, part in {"both": whole, "first": whole[:1440], "second": whole[1440:]}.items():
        (tmp_path / name).mkdir()
        part.to_csv(tmp_path / name / "pump.csv", index=False)
    once, nights = tmp_path / f"once{ending}", tmp_path / f"nights{ending}"
    for name, out in (("both", once), ("first", nights), ("second", nights), ("first", nights), ("second", nights)):
        assert detect(tmp_path, name, out, "--update", model=folder / "model").code == 0
    read = pd.read_parquet if ending else pd.read_csv
    found = [read(out / f"intervals{ending or '.csv'}") for out in (once, nights)]
    columns = ["start", "end", "variables", "reason"]
    silent = [table.loc[table["evidence"] == "missing", columns].astype(str).to_numpy().tolist() for table in found]
    assert silent[0] == silent[1]
    assert [row[3] for row in silent[1]] == ["a has no value for 50 min."]
    assert not (nights / f"ends{ending or '.csv'}").exists()
    flags = read(nights / f"timeline{ending or '.csv'}")["anomalous"].astype(bool)
    assert flags[1415:1465].all()
    assert not flags[2860:].any()
