"""Figures in the documents are those of the committed records."""

import importlib.util
import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECORDS = sorted((ROOT / "benchmarks" / "results" / "plant").glob("seed-*.json"))


def benchmark():
    spec = importlib.util.spec_from_file_location("plant_benchmark", ROOT / "benchmarks" / "plant.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_of_the_results_are_made_from_the_records():
    records = [json.loads(file.read_text()) for file in RECORDS]
    assert [record["seed"] for record in records] == [0, 1, 2, 3, 4]
    assert benchmark().summarise(records) in (ROOT / "docs" / "results.md").read_text()


def test_the_records_are_of_the_default_configuration():
    for seed, file in enumerate(RECORDS):
        assert benchmark().current(file, seed), f"{file.name} was made with other settings: run make bench-plant"


def test_the_readme_quotes_the_results():
    quoted = re.findall(r"^\| ([\w -]+) \| (.*) \|$", (ROOT / "README.md").read_text(), flags=re.MULTILINE)
    results = (ROOT / "docs" / "results.md").read_text()
    assert len(quoted) >= 4
    for name, cells in quoted:
        assert f"| {name} | {cells} |" in results, name
