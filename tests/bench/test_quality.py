"""The published studies: the documents hold what the committed records say, as `make results` puts it there."""

import json
from pathlib import Path

import pytest

from tsadc.bench import table
from tsadc.bench.protocols import PROTOCOLS
from tsadc.bench.records import Store, cell_of, load

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


@each_study
def test_the_committed_records_are_of_the_present_settings(study: str, shared_data: Path) -> None:
    store = Store(RECORDS / study)
    for file in sorted((RECORDS / study).glob("*/*/*.json")):
        cell = cell_of(json.loads(file.read_text()))
        assert cell.data in PROTOCOLS
        assert store.current(cell, shared_data), f"{file} was made with other settings: run make bench-quality"
