"""The parts of `benchmarks/cleaning.py` and `benchmarks/imputation.py` on which their tables depend: what is current,
what is compared, and what is skipped. Nothing is trained."""

import importlib
import json
import sys
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tsadc.data.task import Answers, Task

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
NAMES = ("audit", "cleaning", "imputation")
AP = {"dirty": 0.5, "expected": 0.65, "drop": 0.8, "clean": 0.7}
COUNTS = {"observations": 100, "anomalous": 20, "changed": 25, "hits": 15, "changed_cells": 0.04}


@pytest.fixture(scope="module")
def bench():
    """The benchmarks import each other by bare names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in NAMES})
    for name in NAMES:
        sys.modules.pop(name, None)


def records(cleaning, data, seed, ap):
    """One record of every history, eta and detector; `ap` gives the AP of a history and a detector."""
    cases = product(cleaning.HISTORIES, cleaning.ETAS, cleaning.ALL)
    return [
        {"dataset": data, "history": history, "split": {"eta": eta * (history != "clean")}, "label": detector}
        | {"seed": seed, "ap": ap(history, detector)}
        | (COUNTS if history in cleaning.FILLS else {})
        for history, eta, detector in cases
    ]


def lines(page, title):
    part = page.split(f"## {title}")[1].split("\n## ")[0]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in part.splitlines() if line.startswith("|")][2:]


def test_share_of_the_loss_that_comes_back_counts_the_detectors_that_lose(bench):
    # Only PCA loses; pca-half, which loses more, is no part of the summary.
    def ap(history, detector):
        return {"pca": AP[history], "pca-half": 0.2 + 0.6 * (history == "clean")}.get(detector, 0.9)

    page = bench.cleaning.render(records(bench.cleaning, "plant", 0, ap))
    summary = lines(page, "In short")
    assert summary[0] == ["plant", "expected", "+0.025", "3 of 18", "75%", "+0.000"]
    assert summary[1][4] == "150%"
    assert lines(page, "plant, seed 0")[1] == [
        *("0.1", "pca", "0.500", "0.650", "0.800", "0.700"),
        *("+0.200", "+0.150", "+0.300"),
    ]
    assert lines(page, "What is changed")[0] == ["plant", "0.1", "0.200", "0.250", "0.600", "0.750", "0.040"]


def test_share_is_undefined_where_nothing_is_lost_and_harm_is_shown(bench):
    page = bench.cleaning.render(
        records(bench.cleaning, "plant", 0, lambda history, _: 0.6 + 0.1 * (history == "dirty"))
    )
    assert lines(page, "In short")[0] == ["plant", "expected", "-0.100", "0 of 18", "undefined", "-0.100"]


def test_shares_of_several_seeds_have_their_range(bench):
    def ap(gain):
        return lambda history, _: {"dirty": 0.5, "clean": 0.7}.get(history, 0.5 + gain)

    page = bench.cleaning.render(
        records(bench.cleaning, "plant", 0, ap(0.1)) + records(bench.cleaning, "plant", 1, ap(0.2))
    )
    assert lines(page, "In short")[0][4] == "75% (50% to 100%)"
    assert "## plant, seeds 0, 1\n" in page


def test_interval_over_seeds_is_that_of_student(bench):
    assert bench.cleaning._interval(np.array([0.1, 0.2, 0.3])) == "+0.200 ± 0.169"  # 2.92 * 0.1 / sqrt(3)


def test_seeds_without_all_records_are_left_out(bench):
    whole = records(bench.cleaning, "plant", 0, lambda *_: 0.5)
    partial = records(bench.cleaning, "plant", 1, lambda *_: 0.9)[1:]
    assert bench.cleaning.compared([*whole, *partial], ["plant"])[0] == [0]
    assert "## plant, seed 0\n" in bench.cleaning.render([*whole, *partial])


@pytest.fixture
def measured(bench, tmp_path, monkeypatch):
    """The study with two records of a tiny task and a count of trainings."""
    cleaning, trained = bench.cleaning, []

    def execute(job, task):
        trained.append(job.label)
        return {"ap": 0.5 + 0.1 * len(trained)}, {}

    monkeypatch.setattr(cleaning, "execute", execute)
    monkeypatch.setattr(cleaning, "RESULTS", tmp_path)
    values = np.random.default_rng(0).normal(size=(4, 120, 2))
    task = Task(values, values, Answers(((),) * 4, ("series",) * 4))

    def measure(task=task):
        cleaning.measure("drop", cleaning.job("plant", "pca", 0.2, 0), ("pca",), tmp_path, task, COUNTS)
        return cleaning.load()[-1]

    return SimpleNamespace(cleaning=cleaning, trained=trained, measure=measure, task=task, folder=tmp_path)


def test_a_record_is_kept_until_the_code_or_the_data_changes(measured, monkeypatch):
    first = measured.measure()
    assert measured.measure() == first
    assert measured.trained == ["pca"]
    assert {"code", "settings", "cleaner", "trained_on", "commit", "seed"} <= first.keys()
    assert measured.cleaning.stale("plant", "drop", 0.2, ("pca",), 0, measured.folder) == {}

    # Other code that cleans, the same cleaned data: the AP holds.
    monkeypatch.setattr(measured.cleaning, "_cleaner", lambda history: {"cleaner": "other"})
    assert measured.cleaning.stale("plant", "drop", 0.2, ("pca",), 0, measured.folder) == {"pca": first}
    second = measured.measure()
    assert (second["ap"], second["cleaner"], measured.trained) == (first["ap"], "other", ["pca"])

    # Other code and other cleaned data: it is trained again, and the old record goes.
    monkeypatch.setattr(measured.cleaning, "_cleaner", lambda history: {"cleaner": "third"})
    third = measured.measure(Task(measured.task.train + 1, measured.task.test, measured.task.answers))
    assert third["ap"] > second["ap"]
    assert measured.cleaning.load() == [third]


def test_saits_is_skipped_with_a_reason_where_it_is_not_installed(bench, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bench.imputation, "RESULTS", tmp_path / "imputation.jsonl")
    monkeypatch.setattr(bench.imputation, "PAGE", tmp_path / "imputation.md")
    monkeypatch.setattr(bench.imputation.importlib.util, "find_spec", lambda name: None)
    bench.imputation.main(["plant", "--only", "saits"])
    assert capsys.readouterr().out == "plant saits: skipped, as PyPOTS is not installed (pip install pypots).\n"
    assert not (tmp_path / "imputation.jsonl").exists()


def test_an_imputation_is_measured_again_only_if_its_code_has_changed(bench, tmp_path, monkeypatch):
    runs = []

    def measure(name, method, raw):
        runs.append(name)
        return {"seconds": 1.0, "points": 0.1, "blocks": 0.2, "variables": 0.3, "rows": 0.4}

    monkeypatch.setattr(bench.imputation, "RESULTS", tmp_path / "imputation.jsonl")
    monkeypatch.setattr(bench.imputation, "PAGE", tmp_path / "imputation.md")
    monkeypatch.setattr(bench.imputation, "measure", measure)
    monkeypatch.setattr(bench.imputation, "current", lambda name, method: "first")
    for _ in range(2):
        bench.imputation.main(["plant", "--only", "linear"])
    assert runs == ["plant"]
    assert "| plant | **0.100** |" in (tmp_path / "imputation.md").read_text()
    monkeypatch.setattr(bench.imputation, "current", lambda name, method: "second")
    bench.imputation.main(["plant", "--only", "linear"])
    record = json.loads((tmp_path / "imputation.jsonl").read_text())
    assert (runs, record["code"], record["seed"]) == (["plant", "plant"], "second", 0)


def test_a_changed_imputer_concerns_the_records_of_ours_only(bench, monkeypatch):
    before = {method: bench.imputation.current("plant", method) for method in ("ours", "linear")}
    monkeypatch.setattr(bench.imputation, "module_hash", lambda module: f"another {module}")
    assert bench.imputation.current("plant", "ours") != before["ours"]
    assert bench.imputation.current("plant", "linear") == before["linear"]
