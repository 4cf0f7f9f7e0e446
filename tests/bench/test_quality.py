"""The study of `plans/quality.toml`: the documents hold what the committed records say."""

import json
from pathlib import Path

import pytest

from tsadc.bench import table
from tsadc.bench.protocols import PROTOCOLS
from tsadc.bench.records import Store, cell_of, load

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "benchmarks" / "results" / "quality"


def test_the_document_holds_the_tables_of_the_committed_records() -> None:
    if not RECORDS.is_dir():
        pytest.skip("no records of make bench-quality are committed")
    document = (ROOT / "docs" / "results.md").read_text()
    assert table.markdown(load(RECORDS)) in document


def test_the_committed_records_are_of_the_present_settings(shared_data: Path) -> None:
    if not RECORDS.is_dir():
        pytest.skip("no records of make bench-quality are committed")
    store = Store(RECORDS)
    for file in sorted(RECORDS.glob("*/*/*.json")):
        cell = cell_of(json.loads(file.read_text()))
        assert cell.data in PROTOCOLS
        assert store.current(cell, shared_data), f"{file} was made with other settings: run make bench-quality"
