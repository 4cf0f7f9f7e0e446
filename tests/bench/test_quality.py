"""The published studies: the documents hold what the committed records say, as `make results` puts it there."""

import json
from pathlib import Path

import pytest

from tsadc.bench.records import Store, cell_of, load
from tsadc.cli import shown
from tsadc.cli.studies import study_table
from tsadc.data.catalogue import PROTOCOLS
from tsadc.show import bench_markdown as table

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "benchmarks" / "results"
STUDIES = [name for name in ("quality", "ablation", "contamination") if (RECORDS / name).is_dir()]
each_study = pytest.mark.parametrize("study", STUDIES)


def test_there_are_records() -> None:
    assert "quality" in STUDIES


@each_study
def test_the_document_holds_the_tables_of_the_committed_records(study: str) -> None:
    document = (ROOT / "docs" / "results.md").read_text()
    assert table.markdown(load(RECORDS / study), brief=study != "quality") in document


@pytest.mark.parametrize("plan", sorted((ROOT / "plans" / "paper").glob("*.toml")), ids=lambda file: file.stem)
def test_the_paper_document_holds_what_plans_and_records_say(plan: Path) -> None:
    folder = RECORDS / "paper" / ("main" if plan.stem == "scorings" else plan.stem)
    _, _, rest = (ROOT / "docs" / "paper.md").read_text().partition(f"<!-- {plan.stem}: begin -->")
    block, _, _ = rest.partition(f"<!-- {plan.stem}: end -->")
    text = shown.table(shown.Shown(folder, plan), "markdown", into=None, brief=True)
    assert block.strip() == text, "run make results"
    records = list(folder.glob("*/*/seed-*.json"))
    assert ("\n\nNot run." in text) == (not records)


@pytest.mark.parametrize("file", sorted((RECORDS / "paper").glob("*.json")), ids=lambda file: file.stem)
def test_the_paper_document_holds_the_tables_of_studies(file: Path) -> None:
    _, _, rest = (ROOT / "docs" / "paper.md").read_text().partition(f"<!-- {file.stem}: begin -->")
    block, _, _ = rest.partition(f"<!-- {file.stem}: end -->")
    assert block.strip() == study_table(file), "run make results"


@pytest.mark.parametrize("name", ["main", "eta", "kappa"])
def test_figures_of_the_paper_document_are_those_of_the_records(name: str, tmp_path: Path) -> None:
    plan = ROOT / "plans" / "paper" / f"{name}.toml"
    shown.report(shown.Shown(RECORDS / "paper" / name, plan), tmp_path / "drawn.svg")
    assert (tmp_path / "drawn.svg").read_text() == (ROOT / "docs" / f"paper-{name}.svg").read_text(), "run make results"


@pytest.mark.parametrize("study", [*STUDIES, *(f"paper/{one.name}" for one in sorted(RECORDS.glob("paper/*/")))])
def test_the_committed_records_are_of_the_present_settings(study: str, shared_data: Path) -> None:
    store = Store(RECORDS / study)
    for file in sorted((RECORDS / study).glob("*/*/*.json")):
        cell = cell_of(json.loads(file.read_text()))
        assert cell.data in PROTOCOLS
        assert store.current(cell, shared_data), f"{file} was made with other settings: run make bench-quality"
