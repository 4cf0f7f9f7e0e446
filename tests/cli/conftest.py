"""One model for all tests of commands, and the history it was trained on; a benchmark on data of one's own."""

from pathlib import Path

import pytest

from benchmark import OWN_PLAN, own_data, run_plan
from terminal import QUICK, frame, tsadc


@pytest.fixture(scope="session")
def history(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("history")
    files = folder / "left.csv", folder / "right.csv"
    for seed, file in enumerate(files):
        frame(seed=seed).to_csv(file, index=False)
    return files


@pytest.fixture(scope="session")
def model(history: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "model"
    answer = tsadc("fit", *history, "--out", folder, *QUICK)
    assert answer.code == 0, answer.err
    return folder


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    own_data(tmp_path)
    file = tmp_path / "plan.toml"
    file.write_text(OWN_PLAN)
    return file


@pytest.fixture
def done(plan: Path) -> Path:
    answer = run_plan(plan)
    assert answer.code == 0, answer.err
    return plan.parent / "out"
