import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
from safetensors.numpy import load_file

from terminal import ALONE, QUICK, Answer, faulty, frame, tsadc, untouched
from tsadc.cli.app import app

READING = """
--time=None --entity=None --every=None --columns=None... --exclude=None... --difference=None... --missing=None...
--separator=None --decimal=None --encoding=None --skip-rows=None --dayfirst=None
--long=None --sheet=None --sql=None --query=None
--entity-name=None --entity-from=None --rate=None --skip-bad=False --stream=False --strict=False
"""  # the options of every command that reads data
COMMANDS = """
demo    --out=demo --story=False
fit     DATA... --out --length=None --contamination=None --alarms=None --detector=ensemble --preset=default
        --config=None --set=None... --epochs=None --seed=None --calendar=None... --resume=False --clean=False
        --review=None --mergeable=False --continue=None --engine=local --address=None --workers=None
        READING
merge   MODELS... --out --detector=None
audit   DATA... --out --model=None --length=None --detector=None --set=None... --folds=5 --calendar=None...
        --engine=local --address=None
        READING
clean   DATA... --audit --out --fill=expected --level=None --samples=0 --calendar=None... --model=None --detector=None
        READING
detect  DATA... --model --out=None --report=None --alarms=None --set=None... --calendar=None... --update=False
        --force=False --json=False --exit-code=False --processes=1 --engine=local --address=None --partition=day
        --detector=None READING
refit   MODEL DATA... --window=90d --out=None --report=None --calendar=None... --rollback=False --force=False
        --detector=None READING
label   MODEL VERDICT --results=None --interval=None... --answers=None --note=None --by=None --undo=None...
        --list=False --detector=None
review  MODEL --results --page=None --most=10 --by=None --detector=None
explain MODEL DATA... --at --of-entity=None --detector=None READING
adapt   DATA... --model --out --detector=None READING
export  MODEL --to --out
info    WHAT... --length=None --detector=ensemble --preset=default --json=False READING
serve   CONFIG --model=None --check=False --rollback=None
collect URL --query... --out --step=30s --hours=24.0 --entity=instance --ignore=None...
backtest MODEL DATA... --out --from=None --to=None --config=None --detector=None READING
watch   MODEL SOURCE --every=5.0 --seconds=0.0 --json=False --entity=None
data list
data prepare NAME --raw --out --set=None... --skip-bad=False
bench run PLAN --out=None --processes=1 --only=None... --seeds=None --dry-run=False --again=False --retry=False
        --engine=local --address=None
  --raw=None
bench table FOLDER --format=markdown --out=None --brief=False --metric=None --plan=None --only=None...
  --choosing=False
bench families FOLDER --out=None --choices=None --plan=None --only=None... --choosing=False
bench report FOLDER --out --plan=None --only=None... --choosing=False
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder in which every step of the walk leaves what the next one needs."""
    folder = tmp_path_factory.mktemp("walk")
    for seed, name in enumerate(("left", "right")):
        frame(seed=seed).to_csv(folder / f"{name}.csv", index=False)
    faulty().to_csv(folder / "new.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def fitted(folder: Path) -> Answer:
    return tsadc("fit", folder / "left.csv", folder / "right.csv", "--out", folder / "model", *QUICK)


@pytest.fixture(scope="module")
def detected(folder: Path, fitted: Answer) -> Answer:
    return tsadc(
        "detect", folder / "new.csv", "--model", folder / "model", "--out", folder / "found",
        "--report", folder / "pages" / "report.html",
    )  # fmt: skip


def listing(parameter: typer.core.TyperOption | typer.core.TyperArgument) -> str:
    """`--name` if it is required, `--name=default` if not, `...` where it may be repeated."""
    many = "..." if parameter.nargs == -1 or parameter.multiple else ""
    if parameter.param_type_name == "argument":
        return f"{parameter.name.upper()}{many}"
    (option,) = parameter.opts
    return f"{option}{'' if parameter.required else f'={parameter.default}'}{many}"


def commands(group: typer.core.TyperGroup, prefix: str = "") -> Iterator[tuple[str, typer.core.TyperCommand]]:
    for name, command in group.commands.items():
        if isinstance(command, typer.core.TyperGroup):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


def test_commands_and_their_options_are_frozen() -> None:
    every = commands(typer.main.get_command(app))
    found = [" ".join([name, *map(listing, command.params)]) for name, command in every]
    frozen = COMMANDS.strip().replace("\n  ", " ").replace("READING", " ".join(READING.split())).splitlines()
    assert sorted(found) == sorted(" ".join(line.split()) for line in frozen)


def test_every_option_is_explained() -> None:
    for name, command in commands(typer.main.get_command(app)):
        assert command.help
        for parameter in command.params:
            assert parameter.help, f"{name} {parameter.name}"


def test_fit_says_what_it_did(folder: Path, fitted: Answer) -> None:
    assert fitted.code == 0
    assert fitted.err == ""
    first, trained, contamination, threshold, where = fitted.out.splitlines()
    assert re.fullmatch(r"epoch 1/1  loss \d\.\d{4}  validation \d\.\d{4}  0:00:00 left", first)
    assert trained == "Trained on 30 observations of 40 rows, 4 variables, 2 entities: 1 epoch."
    assert re.fullmatch(r"Contamination \d+\.\d % \(estimated; 90% interval \d.* to \d.* %\)\.", contamination)
    lies = r"Threshold \d+\.\d{3}, about \S+ false alarms a day expected per entity \(method alarms; 1/week was .*\)\. "
    assert re.fullmatch(lies + r"(1 training observation lies|\d+ training observations lie) above it\.", threshold)
    assert where == f"The model is in {folder / 'model'}."
    assert {file.name for file in (folder / "model").iterdir()} == {"config.json", "model.safetensors"}
    assert not (folder / "model.partial").exists()


def test_a_model_says_everything_needed_to_rebuild_it(folder: Path, fitted: Answer) -> None:
    config = json.loads((folder / "model" / "config.json").read_text())
    assert config["variables"] == ["a", "b", "c", "d"]
    assert config["clock"]["interval"] == 60 * 10**9
    assert config["settings"]["length"] == 40
    assert config["settings"]["training"]["epochs"] == 1
    assert set(config["scaler"]["entities"]) == {"left", "right"}
    assert config["provenance"]["versions"]["tsadc"]
    assert config["threshold"] > 0


def test_detect_finds_the_fault(folder: Path, detected: Answer) -> None:
    assert detected.code == 0
    assert "Entities that the model does not know" in detected.err
    verdict = detected.out.splitlines()
    assert re.match(r"\d+ unusual intervals?(\. The worst three)?:", verdict[0])
    assert re.search(
        r"new  2026-01-01 0[45]:\S+ to 2026-01-01 05:\S+  severity (> )?\d+ \(once in .+\)  b \d\d%", verdict[1]
    )
    intervals = pd.read_csv(folder / "found" / "intervals.csv", parse_dates=["start", "end"])
    worst = intervals.loc[intervals["score"].idxmax()]
    assert worst["start"] < pd.Timestamp("2026-01-01 05:30") < worst["end"] + pd.Timedelta("10min")
    assert worst["variables"].startswith('{"b": 0.')
    timeline = pd.read_csv(folder / "found" / "timeline.csv", parse_dates=["time"])
    assert len(timeline) == 600
    assert timeline.loc[300:329, "anomalous"].mean() > 0.8
    observations = pd.read_csv(folder / "found" / "observations.csv")
    assert len(observations) == 15
    assert observations.loc[observations["score"].idxmax(), "start"] in ("2026-01-01T04:40:00", "2026-01-01T05:20:00")


def test_detect_writes_a_report_where_it_is_told_to(folder: Path, detected: Answer) -> None:
    page = (folder / "pages" / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert f"The report is {folder / 'pages' / 'report.html'}." in detected.out
    assert [file.name for file in (folder / "pages").iterdir()] == ["report.html"]


def test_parquet_in_and_out_says_the_same_as_csv(folder: Path, detected: Answer) -> None:
    frame = pd.read_csv(folder / "new.csv", parse_dates=["time"])
    (folder / "again").mkdir()
    frame.to_parquet(folder / "again" / "new.parquet")
    out = folder / "found.parquet"
    answer = tsadc("detect", folder / "again" / "new.parquet", "--model", folder / "model", "--out", out)
    assert answer.code == 0
    assert {file.name for file in out.iterdir()} == {f"{name}.parquet" for name in TABLES}
    for name in TABLES:
        dates = [column for column in ("time", "start", "end") if column in pd.read_parquet(out / f"{name}.parquet")]
        csv = pd.read_csv(folder / "found" / f"{name}.csv", parse_dates=dates)
        pd.testing.assert_frame_equal(pd.read_parquet(out / f"{name}.parquet"), csv, check_dtype=False, rtol=1e-6)


TABLES = ("intervals", "timeline", "observations")


def test_columns_in_another_order_give_the_same_numbers(folder: Path, detected: Answer) -> None:
    (folder / "shuffled").mkdir()
    file = folder / "shuffled" / "new.csv"
    pd.read_csv(folder / "new.csv")[["c", "a", "time", "d", "b"]].to_csv(file, index=False)
    assert tsadc("detect", file, "--model", folder / "model", "--out", folder / "found-again").code == 0
    for name in TABLES:
        assert (folder / "found-again" / f"{name}.csv").read_text() == (folder / "found" / f"{name}.csv").read_text()


def test_info_describes_a_model_and_data(folder: Path, fitted: Answer) -> None:
    about = tsadc("info", folder / "model")
    assert about.code == 0
    for words in (
        "4: a, b, c, d",
        "every 1 min",
        "40 rows",
        "2: left, right",
        "1200 rows, 30 observations",
        "1 epoch,",
    ):
        assert words in about.out
    about = tsadc("info", folder / "left.csv", folder / "right.csv")
    assert about.code == 0
    assert "1200" in about.out


def test_adapt_teaches_a_model_a_new_entity(folder: Path, fitted: Answer) -> None:
    with untouched(folder / "model"):
        answer = tsadc("adapt", folder / "new.csv", "--model", folder / "model", "--out", folder / "adapted")
    assert answer == Answer(0, f"Adapted to new; the model is in {folder / 'adapted'}.\n", "")
    before, after = (load_file(folder / name / "model.safetensors") for name in ("model", "adapted"))
    assert any(name.startswith("network.") for name in before)
    assert all(np.array_equal(array, after[name]) for name, array in before.items() if name.startswith("network."))
    answer = tsadc("detect", folder / "new.csv", "--model", folder / "adapted", "--out", folder / "found-adapted")
    assert answer.err == ""
    assert "3: left, right, new" in tsadc("info", folder / "adapted").out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("bogus", "No such command 'bogus'"),
        ("fit", "Missing option '--out'"),
        ("fit data.csv", "Missing option '--out'"),
        ("fit data.csv --out model --lenght 3", "No such option: --lenght"),
        ("fit data.csv --out model --length few", "Invalid value for '--length'"),
        ("detect data.csv --out found", "Missing option '--model'"),
        ("data prepare", "Missing argument"),
    ],
)
def test_wrong_usage_is_told_and_leads_to_help(words: str, complaint: str) -> None:
    answer = tsadc(*words.split())
    assert answer.code == 2
    assert complaint in " ".join(answer.err.split())
    assert "--help" in answer.err
    assert "Traceback" not in answer.err


def test_without_words_it_shows_help() -> None:
    shown = tsadc().out
    assert "Usage: " in shown
    assert all(f"│ {name} " in shown for name in ("demo", "fit", "detect", "adapt", "info"))


HEAVY = {"torch", "numpy", "pandas", "sklearn", "scipy", "safetensors", "narwhals"}


@pytest.mark.parametrize("words", [["--help"], ["fit", "--help"], ["bogus"]])
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    script = (
        "import atexit, sys\n"
        f"atexit.register(lambda: print('heavy:', *sorted({HEAVY!r} & set(sys.modules)), file=sys.stderr))\n"
        f"sys.argv = ['tsadc', *{words!r}]\n"
        "from tsadc.cli import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "Usage: tsadc" in done.stdout + done.stderr
    assert done.stderr.splitlines()[-1] == "heavy:"


def test_the_default_detector_is_fitted_without_importing_torch(folder: Path) -> None:
    script = (
        "import atexit, sys\n"
        "atexit.register(lambda: print('torch' in sys.modules))\n"
        "sys.argv = ['tsadc', 'fit', 'left.csv', '--out', 'default', '--length', '40']\n"
        "from tsadc.cli import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=folder, check=False)
    assert done.stdout.splitlines()[-2:] == ["The model is in default.", "False"]


def test_it_runs_as_a_module(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tsadc", "info", "nothing.csv"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    said = "There is neither a file nor a folder nothing.csv; name a model that `tsadc fit` wrote, or data."
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"tsadc: {said}\n")


def test_a_reader_that_leaves_early_causes_no_traceback(folder: Path) -> None:
    running = subprocess.Popen(
        [sys.executable, "-m", "tsadc", "info", str(folder / "left.csv")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ALONE,
    )  # fmt: skip
    assert running.stdout is not None
    running.stdout.close()
    assert running.stderr is not None
    assert running.stderr.read() == ""
    running.stderr.close()
    assert running.wait() in (0, 1)
