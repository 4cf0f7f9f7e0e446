import json
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmark import own_data
from tsadc.bench import cleaned
from tsadc.bench.cell import Cell
from tsadc.bench.cleaned import Cleaned
from tsadc.bench.fitting import fit, network_size
from tsadc.bench.job import run
from tsadc.bench.own import Own
from tsadc.data import ContaminationSpec, contaminate
from tsadc.data.manifest import save
from tsadc.data.prepared import ABOUT, ARRAYS, load
from tsadc.detectors.tsadc.detector import TSADC

HERE = Path(".")


@pytest.mark.usefixtures("tiny")
def test_a_damaged_training_is_begun_anew(tmp_path: Path) -> None:
    file = tmp_path / "training.safetensors"
    file.write_bytes(b"no training")
    cell = Cell("tiny", "usad", 0, overrides={"training": {"epochs": 1}})
    fitted = fit(cell, cell.task(HERE), file)
    assert fitted.network_seconds == 0
    assert len(fitted.detector.history_.epochs) == 1
    again = fit(cell, cell.task(HERE), file)
    assert again.network_seconds == pytest.approx(sum(one.seconds for one in fitted.detector.history_.epochs))
    assert again.seconds > again.network_seconds


@pytest.mark.usefixtures("tiny")
def test_as_many_observations_train_as_asked_for(tmp_path: Path) -> None:
    cell = Cell("tiny", "robust-z", 0, observations=7)
    fitted = fit(cell, cell.task(HERE), tmp_path / "x")
    assert fitted.detector.provenance_["data"]["observations"] == 7
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("tiny")
def test_a_cleaned_training_part_is_made_once_for_all_detectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def double(train, config, seed):
        made.append((config.training.epochs, seed))
        values = tuple(replace(one, values=one.values * 2) for one in train)
        return Cleaned(values, 0.1, 3)

    monkeypatch.setattr(cleaned, "cleaned", double)
    file = tmp_path / "x.safetensors"
    plain, of = Cell("tiny", "robust-z", 0), Cell("tiny", "robust-z", 0, split={"cleaned": 1})
    before, after = (fit(cell, cell.task(HERE), file) for cell in (plain, of))
    assert before.cleaning is None
    assert after.cleaning == {"share": 0.1, "cells": 3}
    assert made == [(TSADC.Config().training.epochs, 0)]
    fit(Cell("tiny", "random", 0, split={"cleaned": 1}), of.task(HERE), file)
    assert len(made) == 1
    fit(Cell("tiny", "usad", 0, overrides={"training": {"epochs": 2}}, split={"cleaned": 1}), of.task(HERE), file)
    assert made[1:] == [(2, 0)]


@pytest.mark.usefixtures("tiny")
def test_other_data_of_the_same_name_is_cleaned_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(cleaned, "cleaned", lambda train, *_: made.append(train) or Cleaned(train, 0.1, 3))
    cell, file = Cell("tiny", "random", 0, split={"cleaned": 1}), tmp_path / "x.safetensors"
    for origin in (("a", 1, "0.1"), ("b", 1, "0.1"), ("a", 2, "0.1"), ("a", 1, "0.2"), ("a", 1, "0.1")):
        fit(cell, cell.task(HERE), file, origin)
    assert len(made) == 4
    assert len(list(tmp_path.glob("cleaned-*.npz"))) == 4
    assert not list(tmp_path.glob("*.lock"))


@pytest.mark.usefixtures("tiny")
def test_what_is_cleaned_from_another_source_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two manifests of one's own data under one name."""
    made = []
    monkeypatch.setattr(cleaned, "cleaned", lambda train, *_: made.append(train) or Cleaned(train, 0.1, 3))
    folder, manifest = own_data(tmp_path)
    other = tmp_path / "other.json"
    save(contaminate(load(folder), ContaminationSpec(eta=0.1, shares=(0.4, 0.2, 0.4), seed=7)), other)
    for one in (manifest, other, manifest):
        list(run([Cell("mine", "random", 0, split={"cleaned": 1}, own=Own(folder, one))], HERE, tmp_path))
    assert len(made) == 2


@pytest.mark.usefixtures("tiny")
def test_who_needs_what_is_being_cleaned_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, begun, both = [], threading.Event(), threading.Event()

    def slow(train, config, seed):
        made.append(seed)
        begun.set()
        both.wait(0.5)
        return Cleaned(train, 0.1, 3)

    monkeypatch.setattr(cleaned, "cleaned", slow)
    cells = [Cell("tiny", name, 0, split={"cleaned": 1}) for name in ("random", "robust-z")]
    task, file = cells[0].task(HERE), tmp_path / "x.safetensors"
    first = threading.Thread(target=fit, args=(cells[0], task, file))
    first.start()
    begun.wait()
    assert fit(cells[1], task, file).cleaning == {"share": 0.1, "cells": 3}
    first.join()
    assert made == [0]


@pytest.fixture
def padded(tmp_path: Path) -> Own:
    """The last quarter of every observation was not measured."""
    folder, manifest = own_data(tmp_path)
    for file in (folder / ARRAYS).iterdir():
        values = np.load(file)
        values[:, 15:] = np.nan
        np.save(file, values)
    about = json.loads((folder / ABOUT).read_text())
    (folder / ABOUT).write_text(json.dumps(about | {"coverage": 0.75}))
    save(contaminate(load(folder), ContaminationSpec(eta=0.1, shares=(0.4, 0.2, 0.4))), manifest)
    return Own(folder, manifest)


def test_a_network_is_measured_on_padded_data(padded: Own, tmp_path: Path) -> None:
    cell = Cell("mine", "usad", 0, overrides={"training": {"epochs": 1}}, observations=9, own=padded)
    [(_, record, _)] = run([cell], tmp_path)
    assert "error" not in record
    assert record["train"]["observations"] == 9
    assert record["flops"] > 0


@pytest.mark.usefixtures("tiny")
def test_without_a_whole_observation_nothing_is_counted() -> None:
    cell = Cell("tiny", "usad", 0, overrides={"training": {"epochs": 1}})
    task = cell.task(HERE)
    detector = fit(cell, task).detector
    known = sum(one.numel() for one in detector.network_.parameters())
    short = tuple(replace(one, values=one.values[:50]) for one in task.test)
    assert network_size(detector, short) == {"parameters": known, "flops": None}
