"""The committed tables are those of the committed records, as `make results` makes them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from benchmark import script
from tsadc.bench.plan import read
from tsadc.bench.records import job_of, load
from tsadc.cli.bench_show import ShowOptions, families, report, table
from tsadc.data.catalogue import PROTOCOLS

ROOT = Path(__file__).parents[2]
PLANS, RECORDS, TABLES = ROOT / "plans", ROOT / "benchmarks" / "results", ROOT / "docs" / "tables"
STUDIES = ("history", "network", "ablation", "contamination")
PAPER = ("main", "eta", "kappa", "ablation", "loss", "masking", "cost", "scorings")


def study(name: str, out: Path) -> None:
    options = ShowOptions(RECORDS / name, PLANS / f"{name}.toml")
    table(options, "markdown", out=out, brief=True)


def general(out: Path, protocols: bool = False) -> None:
    options = ShowOptions(RECORDS / "general", PLANS / "general.toml")
    if protocols:
        table(options, "markdown", out=out, brief=True)
    else:
        families(options, RECORDS / "choices.json", out)


def paper(name: str, out: Path) -> None:
    options = ShowOptions(RECORDS / "paper" / name.replace("scorings", "main"), PLANS / "paper" / f"{name}.toml")
    table(options, "markdown", out=out, brief=True)


MAKERS: dict[str, Callable[[Path], object]] = {
    **{name: lambda out, name=name: study(name, out) for name in STUDIES},
    "general": general,
    "general-protocols": lambda out: general(out, protocols=True),
    **{f"paper-{name}": lambda out, name=name: paper(name, out) for name in PAPER},
    "audit": lambda out: script("audit").main(["--table", str(out)]),
    "cleaning": lambda out: script("cleaning").main(["--table", str(out)]),
    "feedback": lambda out: script("feedback").main(["--table", str(out)]),
    "imputation": lambda out: script("imputation").main(["--table", str(out)]),
    "scale": lambda out: script("scale_entities").main(["--table", str(out)]),
    "stream": lambda out: script("stream").main(["--table", str(out)]),
    "paper-cleaned": lambda out: script("paper/cleaned").main(["--table", str(out)]),
    "paper-impurity": lambda out: script("paper/impurity").main(["--table", str(out)]),
    **{
        f"paper-approximation-{name}": lambda out, name=name: script("paper/approximation").main(
            [name, "--table", str(out)]
        )
        for name in ("plant", "sleep")
    },
}


def test_there_is_a_maker_of_every_table() -> None:
    elsewhere = {"detectors", "export", "speed"}  # checked in test_figures
    elsewhere |= {"audit-few", "cluster"}  # made together with their records
    unrecorded = {"choices", "hidden-variables"}  # made from scores that are too large to be committed
    assert {file.stem for file in TABLES.glob("*.md")} - unrecorded == set(MAKERS) | elsewhere


@pytest.mark.parametrize("name", MAKERS)
def test_the_committed_table_is_that_of_the_records(name: str, tmp_path: Path) -> None:
    MAKERS[name](tmp_path / "made.md")
    assert (tmp_path / "made.md").read_text() == (TABLES / f"{name}.md").read_text(), "run make results"


@pytest.mark.parametrize("name", ["main", "eta", "kappa"])
def test_the_committed_figure_is_that_of_the_records(name: str, tmp_path: Path) -> None:
    options = ShowOptions(RECORDS / "paper" / name, PLANS / "paper" / f"{name}.toml")
    report(options, tmp_path / "drawn.svg")
    assert (tmp_path / "drawn.svg").read_text() == (ROOT / "docs" / f"paper-{name}.svg").read_text(), "run make results"


@pytest.mark.parametrize("name", [*STUDIES, "general", *(f"paper/{name}" for name in PAPER if name != "scorings")])
def test_the_committed_records_are_of_jobs_of_their_plan(name: str) -> None:
    if not any((RECORDS / name).glob("*.jsonl")):
        pytest.skip(f"plans/{name}.toml has not been run")
    records = load(RECORDS / name)
    keys = {job.key for job in read(PLANS / f"{name}.toml").jobs()}
    assert records
    for job in map(job_of, records):
        assert job.dataset in PROTOCOLS
        assert job.key in keys


def test_files_of_records_stay_small() -> None:
    assert max(file.stat().st_size for file in RECORDS.rglob("*.jsonl")) < 200_000
