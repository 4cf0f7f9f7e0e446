from dataclasses import replace
from pathlib import Path

import pytest

from tsadc.bench import cleaned
from tsadc.bench.cell import Cell
from tsadc.bench.cleaned import Cleaned
from tsadc.bench.fitting import fit
from tsadc.detectors.tsadc.detector import Config

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
    assert made == [(Config().training.epochs, 0)]
    fit(Cell("tiny", "random", 0, split={"cleaned": 1}), of.task(HERE), file)
    assert len(made) == 1
    fit(Cell("tiny", "usad", 0, overrides={"training": {"epochs": 2}}, split={"cleaned": 1}), of.task(HERE), file)
    assert made[1:] == [(2, 0)]
