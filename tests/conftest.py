"""Where tests find real data (`TSADC_DATA` names the folder) and reference numbers (`golden`)."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

# The same examples everywhere, and no verdict that depends on how busy the machine is.
settings.register_profile(
    "steady",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.load_profile("steady")
torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")  # for the processes that tests start


def _data_folder() -> Path:
    named = os.environ.get("TSADC_DATA")
    return Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"


SLOWEST = (
    "test_ray.py",
    "test_memory.py",
    "test_plant_quality.py",
    "test_run.py",
    "test_workflow.py",
    "test_dirty_history.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the slowest files, so that two processes end at about the same time."""
    items.sort(key=lambda item: SLOWEST.index(item.path.name) if item.path.name in SLOWEST else len(SLOWEST))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with the real data sets; skips where it is absent."""
    folder = _data_folder()
    if not folder.is_dir():
        pytest.skip("no real data here: set TSADC_DATA to the folder that holds it")
    return folder


@pytest.fixture(scope="session")
def golden() -> Path:
    """The folder with reference numbers; its README says where they come from."""
    return Path(__file__).parent / "golden"
