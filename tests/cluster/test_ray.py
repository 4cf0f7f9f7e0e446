"""`--engine ray` on a real cluster of two nodes: the same numbers as locally, and nothing lost or double."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest

import tsadc as package
from terminal import frame, tsadc

pytest.importorskip("ray", reason="ray is not installed: pip install 'tsadc[ray]'")
pytestmark = pytest.mark.filterwarnings("default")  # Ray's own
STORE = 80 * 2**20  # bytes of the object store of a node, close to the least that Ray takes
ENTITIES = ("pump-1", "pump-2", "line 3/a", "7")
TABLES = ("intervals", "timeline", "observations")


@pytest.fixture(scope="module")
def cluster() -> Iterator[object]:
    from ray.cluster_utils import Cluster

    # Workers import the package that is tested.
    path = os.pathsep.join([str(Path(package.__file__).parents[1]), str(Path(__file__).parent)])
    with mock.patch.dict(os.environ, {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}):
        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": STORE})
        made.add_node(num_cpus=1, object_store_memory=STORE)
    yield made
    made.shutdown()


def day(seed: int, rows: int = 600, start: str = "2026-01-01 18:00") -> pd.DataFrame:
    """Rows of a machine from evening to morning, with a fault in `b` that lasts beyond midnight."""
    table = frame(rows, seed)
    table["time"] = pd.date_range(start, periods=rows, freq="1min")
    table.loc[345:374, "b"] += 6 * (seed % 2)
    return table


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Parquet partitioned by entity; one of them in two files."""
    root = tmp_path_factory.mktemp("data") / "plant"
    for seed, entity in enumerate(ENTITIES):
        folder = root / f"entity={entity.replace('/', '%2F')}"
        folder.mkdir(parents=True)
        table = day(seed)
        if entity == "pump-2":
            table[:200].to_parquet(folder / "part-0.parquet")
            table[200:].to_parquet(folder / "part-1.parquet")
        else:
            table.to_parquet(folder / "part-0.parquet")
    return root


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for seed, entity in enumerate(ENTITIES[:2]):
        frame(2400, 10 + seed).to_csv(folder / f"{entity}.csv", index=False)
    answer = tsadc("fit", *[folder / f"{name}.csv" for name in ENTITIES[:2]], "--out", folder / "model", "--length", "40")
    assert answer.code == 0, answer.err
    return folder / "model"


@pytest.fixture(scope="module")
def local(data: Path, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("local") / "found.parquet"
    answer = tsadc("detect", data, "--model", model, "--out", out)
    assert answer.code == 0, answer.err
    return out


def on_ray(cluster: object, *words: object) -> object:
    return tsadc("detect", *words, "--engine", "ray", "--address", cluster.address)


def stored(out: Path, table: str) -> pd.DataFrame:
    """Return a partitioned table as the local run writes it, but sorted."""
    from urllib.parse import unquote

    parts = []
    for file in sorted(out.glob(f"{table}/date=*/entity=*/part.parquet")):
        part = pd.read_parquet(file, partitioning=None)
        first = "time" if table == "timeline" else "start"
        assert set(part[first].dt.strftime("date=%Y-%m-%d")) == {file.parents[1].name}
        part.insert(0, "entity", unquote(file.parent.name.removeprefix("entity=")))
        parts.append(part)
    return ordered(pd.concat(parts))


def ordered(table: pd.DataFrame) -> pd.DataFrame:
    by = ["entity", "time" if "time" in table else "start"]
    return table.sort_values(by, kind="stable").reset_index(drop=True)


def assert_same(out: Path, local: Path) -> None:
    """Compare all three tables to the bit."""
    for table in TABLES:
        expected = ordered(pd.read_parquet(local / f"{table}.parquet"))
        found = stored(out, table)[list(expected.columns)]
        pd.testing.assert_frame_equal(found, expected, check_exact=True)


def manifest(out: Path) -> dict:
    return json.loads((out / "manifest.json").read_text())


def test_a_cluster_finds_what_one_machine_finds(
    cluster: object, data: Path, model: Path, local: Path, tmp_path: Path
) -> None:
    answer = on_ray(cluster, data, "--model", model, "--out", tmp_path / "found", "--exit-code")
    assert answer.code == 3, answer.err
    assert "unusual intervals in 2 of 4 entities" in answer.out
    assert_same(tmp_path / "found", local)
    whole = manifest(tmp_path / "found")
    assert whole["complete"]
    assert set(whole["entities"]) == set(ENTITIES)
    assert {entity["rows_in"] for entity in whole["entities"].values()} == {600}
    assert whole["totals"]["rows_in"] == whole["totals"]["rows_out"] == 2400
    assert whole["tsadc"] == package.__version__
    assert whole["model"] == pd.read_parquet(local / "intervals.parquet")["model"][0]
    assert len(whole["entities"]["pump-2"]["files"]) == 2
