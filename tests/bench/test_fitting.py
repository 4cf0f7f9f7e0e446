from pathlib import Path

import pytest

from tsadc.bench.cell import Cell
from tsadc.bench.fitting import fit

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
