"""The commands and the Python of the README and the guides run, on small files and the tiny preset."""

import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tsadc
from tsadc import cli
from tsadc.bench.plan import read as read_plan
from tsadc.bench.records import load
from tsadc.data.catalogue import draw
from tsadc.detectors import GROUP

ROOT = Path(__file__).parents[1]
CLEANING = "docs/guides/clean.md"


def blocks(file: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / file).read_text(), flags=re.DOTALL)


def write_units(folder: Path, names: list[str], rows: int, seed: int) -> None:
    folder.mkdir(parents=True)
    generator = np.random.default_rng(seed)
    times = pd.date_range("2026-01-01", periods=rows, freq="1min")
    for name in names:
        load = np.sin(np.arange(rows) / 9)
        values = {f"sensor_{k}": load * (k + 1) + generator.normal(0, 0.1, rows) for k in range(3)}
        pd.DataFrame({"time": times, **values}).to_csv(folder / f"{name}.csv", index=False)


def run(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [
        word
        for part in shlex.split(command, comments=True)
        for word in (sorted(map(str, Path().glob(part))) if "*" in part else [part])
    ]
    if words[1] == "fit" and "--detector" in words:
        words += ["--preset", "tiny", "--epochs", "1"]
    if words[1] == "serve":  # which would serve until it is stopped
        words += ["--check"]
    monkeypatch.setattr("sys.argv", words)
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code in (0, None), command


@pytest.mark.parametrize(
    ("file", "prefix"), [("README.md", ""), ("docs/guides/own-csv.md", "demo/")], ids=["readme", "guide"]
)
def test_every_command_runs(file, prefix, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_units(tmp_path / f"{prefix}history", ["unit-1", "unit-6"], 900, seed=0)
    write_units(tmp_path / f"{prefix}new", ["unit-1", "unit-6"], 300, seed=1)
    write_units(tmp_path / "more", ["host-9"], 900, seed=2)
    (tmp_path / "more" / "host-9.csv").rename(tmp_path / "host-9.csv")
    for name in ("plans", "benchmarks"):
        (tmp_path / name).symlink_to(ROOT / name)
    commands = [line for block in blocks(file, "console") for line in block.splitlines() if line.startswith("tsadc ")]
    assert {shlex.split(line)[1] for line in commands} >= {"fit", "detect", "adapt"}
    for command in commands:
        run(command, monkeypatch)
    assert {path.name for path in (tmp_path / "found").iterdir()} == {
        "intervals.csv",
        "timeline.csv",
        "observations.csv",
    }
    assert (tmp_path / "found.html").stat().st_size > 10_000


@pytest.mark.filterwarnings("ignore::tsadc.errors.TsadcNotice")
@pytest.mark.parametrize("file", ["README.md", "docs/guides/own-csv.md", "docs/guides/thresholds.md"])
def test_the_python_runs(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_units(tmp_path / "demo/history", ["unit-1", "unit-2"], 6000, seed=0)
    write_units(tmp_path / "demo/new", ["unit-1"], 1300, seed=1)
    names = {f"unit-{i}": tmp_path / f"demo/history/unit-{i}.csv" for i in (1, 2)}
    frames = {name: pd.read_csv(path, parse_dates=["time"]) for name, path in names.items()}
    scope = {"history": frames, "new": {"unit-1": pd.read_csv("demo/new/unit-1.csv", parse_dates=["time"])}}
    (code,) = blocks(file, "python")
    exec(code, scope)
    result = scope["result"]
    assert np.isfinite(result.observations["score"]).all()
    if file == "README.md":
        described = re.findall(r"result\.(\w+)\s+# (.*)", code)
        names = {"intervals", "similar", "drift", "timeline", "variables", "observations", "expected"}
        assert {name for name, _ in described} == names
        for name, text in described:
            if name in ("intervals", "observations"):
                columns = [column for column in getattr(result, name).columns if not column.endswith("_score")]
                assert columns == re.sub(r" \(.*\)", "", text).replace("return period", "return_period").split(", ")


@pytest.mark.filterwarnings("ignore::tsadc.errors.TsadcNotice")
def test_the_guide_to_notebooks_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    write_units(tmp_path / "history", ["unit-1"], 3000, seed=0)
    write_units(tmp_path / "new", ["unit-1"], 600, seed=1)
    frames = [{"unit-1": pd.read_csv(f"{name}/unit-1.csv", parse_dates=["time"])} for name in ("history", "new")]
    scope = dict(zip(("history", "new"), frames, strict=True))
    (code,) = blocks("docs/guides/notebook.md", "python")
    exec(code, scope)
    assert [axis.get_ylabel() for axis in scope["axes"]] == ["score", "sensor_0", "sensor_2"]
    assert Path("report.html").stat().st_size > 10_000
    methods = re.findall(r"^\| `(\w+)\(", (ROOT / "docs/guides/notebook.md").read_text(), flags=re.MULTILINE)
    assert len(methods) == 6
    assert all(callable(getattr(scope["detector"], method)) for method in methods)


@pytest.mark.filterwarnings("ignore::tsadc.errors.TsadcNotice")
def test_the_guide_to_streams_runs():
    scope = {}
    for code in blocks("docs/guides/stream.md", "python"):
        exec(code, scope)
    result = scope["detector"].detect(scope["split"].test.series)
    final = {interval.id for interval in scope["alarms"] if interval.final}
    assert final == set(result.intervals["id"])
    assert len(final) > 1
    assert scope["later"].state("unit-1") == scope["data"]


def test_the_guide_to_reading_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = blocks("docs/guides/reading.md", "python")
    scope = {}
    exec(code, scope)
    assert all(len(series) == 288 for series in scope["hosts"])


def test_the_guide_to_examining_data_runs_and_lists_every_finding(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_units(tmp_path / "demo/history", ["unit-1", "unit-6"], 1200, seed=0)
    (command,) = blocks("docs/guides/doctor.md", "console")
    run(command.strip(), monkeypatch)
    assert "No problems were found." in capsys.readouterr().out
    (code,) = blocks("docs/guides/doctor.md", "python")
    exec(code, {})
    rules = "".join(file.read_text() for file in (ROOT / "src/tsadc/io/doctor").glob("*.py"))
    codes = set(re.findall(r'(?:Finding|_longest)\(\s*"([a-z-]+)"', rules))
    page = (ROOT / "docs/guides/doctor.md").read_text()
    assert len(codes) > 20
    assert [code for code in codes if f"`{code}`" not in page] == []


def test_the_commands_of_the_guide_to_thresholds_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_units(tmp_path / "demo/history", ["unit-1", "unit-6"], 1200, seed=0)
    write_units(tmp_path / "demo/new", ["unit-1", "unit-6"], 300, seed=1)
    (block,) = blocks("docs/guides/thresholds.md", "console")
    for command in block.splitlines():
        run(command, monkeypatch)
    assert " above" in capsys.readouterr().out
    assert len(pd.read_csv("found/observations.csv")) == len(pd.read_csv("found-review/observations.csv"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tsadc.errors.TsadcNotice")
def test_the_guide_to_dirty_histories_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_units(tmp_path / "demo/history", ["unit-1", "unit-6"], 6000, seed=0)
    dirty = pd.read_csv("demo/history/unit-1.csv")
    dirty.loc[700:760, "sensor_1"] += 5
    dirty.to_csv("demo/history/unit-1.csv", index=False)
    (block,) = blocks("docs/guides/audit.md", "console")
    for command in block.splitlines():
        run(command, monkeypatch)
    assert "Reviewed: " in capsys.readouterr().out
    files = re.findall(r"^\| `([\w.]+)` \|", (ROOT / "docs/guides/audit.md").read_text(), flags=re.MULTILINE)
    assert {path.name for path in Path("audit").iterdir()} == {name for name in files if "." in name}
    (code,) = blocks("docs/guides/audit.md", "python")
    scope = {}
    exec(code, scope)
    assert scope["found"].suspects[0].blamed == ("sensor_1",)
    assert scope["review"].counts["drop"] >= 1


@pytest.mark.slow
def test_the_commands_of_the_guide_to_nightly_runs_run(tmp_path, monkeypatch):
    """Those of the text, and those of cron and systemd with the date filled in by a shell."""
    monkeypatch.chdir(tmp_path)
    write_units(tmp_path / "history", ["unit-1", "unit-6"], 2400, seed=0)
    write_units(tmp_path / "exports/monday", ["unit-1", "unit-6"], 1200, seed=1)
    write_units(tmp_path / "exports/tuesday", ["unit-1", "unit-6"], 1200, seed=2)
    for file in Path("exports/tuesday").iterdir():
        day = pd.read_csv(file, parse_dates=["time"])
        day.assign(time=day["time"] + pd.Timedelta(hours=20)).to_csv(file, index=False)
    for block in blocks("docs/guides/nightly.md", "console"):
        for command in block.splitlines():
            run(command.replace(" --exit-code", ""), monkeypatch)
    assert len(pd.read_csv("results/timeline.csv")) == 2 * 2400
    assert Path("model.previous").is_dir()
    cron = [line for line in blocks("docs/guides/nightly.md", "crontab")[0].splitlines() if "tsadc" in line]
    (unit,) = re.findall(r"ExecStart=/bin/sh -c '(.*)'", blocks("docs/guides/nightly.md", "ini")[0])
    scheduled = [line.partition("&& ")[2].replace("\\%", "%") for line in cron] + [unit.replace("%%", "%")]
    assert len(scheduled) == 3
    for command in scheduled:
        words = command.partition(" >")[0].replace("exports/$(date -d yesterday +%F)", "exports/monday")
        run(words.replace(" --exit-code", ""), monkeypatch)


def test_the_guide_to_new_detectors_runs(capsys):
    scope: dict[str, object] = {}
    for code in blocks("docs/guides/add-a-detector.md", "python"):
        exec(code, scope)
    assert capsys.readouterr().out == "2\nTrue\n(5,)\n"
    (points,) = blocks("docs/guides/add-a-detector.md", "toml")
    assert tomllib.loads(points)["project"]["entry-points"] == {GROUP: {"means": "my_package.means:Means"}}


def test_the_guide_to_benchmarks_runs_on_your_own_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    generator, tables = np.random.default_rng(0), []
    for machine in range(8):
        fault = np.repeat([""] * 14 + ["leak"] * 4 + ["jam"] * 2, 60)
        values = generator.normal(size=(len(fault), 2)) + 9.0 * (fault != "")[:, None]
        times = pd.date_range("2026-01-01", periods=len(fault), freq="1min")
        tables.append(
            pd.DataFrame(
                {"time": times, "machine": f"m{machine}", "fault": fault, "a": values[:, 0], "b": values[:, 1]}
            )
        )
    pd.concat(tables).to_csv("machines.csv", index=False)
    (code,) = blocks("docs/guides/benchmark.md", "python")
    exec(code, {})
    data = next(block for block in blocks("docs/guides/benchmark.md", "toml") if "manifest" in block)
    Path("plan.toml").write_text(f'seeds = [0]\n{data}\n[[detectors]]\nname = "robust-z"\n')
    run("tsadc bench run plan.toml --out results", monkeypatch)
    (record,) = load(tmp_path / "results")
    assert (record["dataset"], record["auroc"], record["prevalence"]) == ("mine", 1.0, 0.3)
    assert set(record["kinds"]) == {"leak", "jam"}


def test_the_plan_of_the_guide_to_benchmarks_can_be_read(tmp_path):
    example, published, *_ = blocks("docs/guides/benchmark.md", "toml")
    (tmp_path / "plan.toml").write_text(example + published)
    plan = read_plan(tmp_path / "plan.toml")
    labels = {job.label for job in plan.jobs()}
    assert len(plan.jobs()) == 3 * 2 * 5
    assert {label for method in plan.published.methods for label in method.ours} <= labels


def test_the_guide_packs_smd_for_plans(tmp_path, monkeypatch):
    """Two observations per part; point 700 of the second machine's test part is labelled, and its variables 1 and 5."""
    monkeypatch.chdir(tmp_path)
    (code,) = (block for block in blocks("docs/guides/datasets.md", "python") if "smd19.npz" in block)
    numbers = re.findall(r'"(\d-\d+)"', code)
    assert len(numbers) == 19
    for part in ("train", "test", "test_label", "interpretation_label"):
        (tmp_path / "OmniAnomaly" / "ServerMachineDataset" / part).mkdir(parents=True)
    for i, number in enumerate(numbers):
        flags = (np.arange(1200) == 700) & (i == 1)
        for part, rows in (
            ("train", [",".join(["0.123456"] * 38)] * 1200),
            ("test", [",".join([f"{i / 100:.6f}"] * 38)] * 1200),
            ("test_label", flags.astype(int).astype(str)),
            ("interpretation_label", ["700-701:1,5"] if i == 1 else []),
        ):
            file = tmp_path / "OmniAnomaly" / "ServerMachineDataset" / part / f"machine-{number}.txt"
            file.write_text("".join(f"{row}\n" for row in rows))
    exec(code, {})
    task = draw("smd-causal", tmp_path, 0)
    assert [series.entity for series in task.train] == sorted(f"machine-{number}" for number in numbers)
    assert all((series.values == np.float32(0.123456)).all() for series in task.train)
    assert {series.entity: float(series.values.max()) for series in task.test} == {
        f"machine-{number}": float(np.float32(i / 100)) for i, number in enumerate(numbers)
    }
    (event,) = task.answers.events
    assert (task.test[event.start // 1200].entity, event.start % 1200) == (f"machine-{numbers[1]}", 700)
    assert np.flatnonzero(event.blamed).tolist() == [0, 4]


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make ([\w-]+)", "\n".join(blocks("README.md", "console")), flags=re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_links_lead_somewhere():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name} -> {target}"


def shorter_cleaning(*, forecasts: bool) -> list[str]:
    """Return the Python of the guide to cleaning, with a shorter history; either the forecasts, or the rest."""
    codes = [code.replace("6000", "2400").replace("3000:3090", "1200:1290") for code in blocks(CLEANING, "python")]
    return [code for code in codes if ("forecast = " in code) == forecasts]


@pytest.mark.filterwarnings("default")  # of other libraries
@pytest.mark.parametrize(("library", "number"), [("statsforecast", 0), ("sktime", 1)])
def test_a_forecast_is_closer_to_the_truth_after_cleaning(library: str, number: int) -> None:
    pytest.importorskip(library, reason=f"{library} is not installed with tsadc")
    names: dict[str, Any] = {}
    exec(shorter_cleaning(forecasts=False)[0], names)
    truth, errors = 2 * np.sin(np.arange(2400, 2460) / 40), []
    for data in (names["clean"], names["history"]):
        names["clean"] = data
        exec(shorter_cleaning(forecasts=True)[number], names)
        forecast = names["forecast"]
        errors.append(np.abs(np.asarray(forecast["MSTL"] if number == 0 else forecast) - truth).mean())
    assert errors[0] < 0.8 * errors[1]


@pytest.mark.slow
def test_the_guide_to_cleaning() -> None:
    """Shorter than in the guide, as each block audits a history."""
    pytest.importorskip("pyod")
    names: dict[str, Any] = {}
    exec("\n".join(shorter_cleaning(forecasts=False)), names)
    fault = slice(1200, 1290)
    assert np.abs(names["clean"]["power"].to_numpy()[fault] - 2 * names["load"][fault]).max() < 0.5
    assert "power" in names["cleaner"].report_["variables"].iloc[0]
    assert names["own"].provenance_["cleaned"]["rows"] >= 90


@pytest.mark.filterwarnings("ignore::tsadc.errors.TsadcNotice")
def test_the_guide_to_verdicts_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_units(tmp_path / "history", ["unit-1"], 1800, seed=0)
    write_units(tmp_path / "new", ["unit-1"], 600, seed=1)
    frame = pd.read_csv("new/unit-1.csv", parse_dates=["time"])
    for row, name in ((130, "sensor_0"), (310, "sensor_2"), (490, "sensor_1")):
        frame.loc[row : row + 20, name] += 5
    frame.to_csv("new/unit-1.csv", index=False)
    (calendar,) = blocks("docs/guides/label.md", "csv")
    Path("maintenance.csv").write_text(calendar)
    names = []
    for command in "".join(blocks("docs/guides/label.md", "console")).splitlines():
        if "--answers" in command:
            names = pd.read_csv("found/intervals.csv")["id"].tolist()
            answers = [{"id": names[0], "verdict": "true", "note": ""}]
            Path("answers.json").write_text(json.dumps({"format": 1, "model": "", "answers": answers}))
        run(command.replace("ID", names[1]) if names else command, monkeypatch)
    assert [own.id for own in tsadc.load("model").verdicts_] == names[:1]
    assert "unit-1" in Path("review.html").read_text()
    (code,) = blocks("docs/guides/label.md", "python")
    scope = {"detector": tsadc.load("model-2"), "new": {"unit-1": frame}}
    exec(code, scope)
    assert [own.verdict for own in scope["detector"].verdicts_] == ["true"]


@pytest.mark.slow
def test_the_commands_of_the_guide_to_cleaning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_units(tmp_path / "history", ["unit-1", "unit-6"], 900, seed=0)
    (block,) = blocks(CLEANING, "console")
    for command in block.splitlines():
        run(command.replace("60", "30"), monkeypatch)
    assert {file.name for file in (tmp_path / "cleaned").iterdir()} == {"unit-1.csv", "unit-6.csv", "changes.csv"}
