"""Storage, groups of files, and what `--engine ray` refuses, without Ray."""

import sys
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import pandas as pd
import pytest

from terminal import frame, tsadc
from tsadc.cli.cluster_detect import DetectJob, _files, judge
from tsadc.cluster import storage
from tsadc.cluster.engine import Cluster, connect
from tsadc.cluster.manifest import Manifest, folder_name, start
from tsadc.cluster.partitions import FileGroup, entities_in, group_files
from tsadc.cluster.storage import StoredFile, address_of, join
from tsadc.detectors.store import load
from tsadc.errors import ConfigError, DataError, OutputError
from tsadc.io.read import read
from tsadc.io.reading import Reading


def counted(files: Sequence[tuple[StoredFile, str]]) -> list[dict[str, int]]:
    return [entities_in(file, column, Path()) for file, column in files]


def groups(*data: Path, **options: object) -> list[FileGroup]:
    return group_files(data, Reading(**options), counted)


def test_an_address_survives_being_a_path() -> None:
    assert address_of(Path("s3://bucket/a/b")) == "s3://bucket/a/b"
    assert address_of("file:///data/plant") == "/data/plant"
    assert address_of("data") == str(Path("data").absolute())
    assert join("s3://bucket/a/?scheme=http", "b", "c") == "s3://bucket/a/b/c?scheme=http"
    with pytest.raises(ConfigError, match="must not contain a password"):
        address_of("s3://user:word@bucket/a")


def test_any_file_system_of_fsspec_is_a_storage(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed: pip install 'tsadc[ray]'")
    fsspec.filesystem("memory").store.clear()
    root = "memory://plant"
    assert storage.read(f"{root}/x.json") is None
    assert storage.names_in(f"{root}/data") == []
    storage.write(f"{root}/data/entity=a%2Fb/part.parquet", b"one")
    storage.write(f"{root}/data/entity=a%2Fb/part.parquet", b"two")
    storage.write(f"{root}/data/notes.txt", b"")
    [(file, folders)] = storage.remote_files(f"{root}/data", ".parquet")
    assert (file.size, folders) == (3, ("entity=a%2Fb",))
    assert storage.fetch(file.address, tmp_path).read_bytes() == b"two"
    assert storage.names_in(f"{root}/data") == ["entity=a%2Fb", "notes.txt"]
    storage.remove_folder(f"{root}/data")
    with pytest.raises(DataError, match="There is nothing at memory://plant/data"):
        storage.remote_files(f"{root}/data", ".parquet")
    with pytest.raises(DataError, match="nowhere://plant cannot be read: "):
        storage.read("nowhere://plant")


def test_groups_are_the_entities_that_reading_finds(tmp_path: Path) -> None:
    for place in ("entity=a/date=2026-01-01", "entity=a/date=2026-01-02", "entity=b%20c/date=2026-01-01"):
        (tmp_path / "parts" / place).mkdir(parents=True)
        start = place[-10:]
        frame(60).assign(time=pd.date_range(start, periods=60, freq="24min")).to_parquet(
            tmp_path / "parts" / place / "part.parquet"
        )
    (tmp_path / "alone").mkdir()
    for name in ("x", "y"):
        frame(60).to_parquet(tmp_path / "alone" / f"{name}.parquet")
    for folder, options in (("parts", {}), ("alone", {}), ("alone", {"entity_from": "(.)"})):
        found = groups(tmp_path / folder, **options)
        expected = sorted(series.entity for series in read(tmp_path / folder, Reading(**options)))
        assert [entity for group in found for entity in group.entities] == expected
    assert [len(group.files) for group in groups(tmp_path / "parts")] == [2, 1]
    [whole] = groups(tmp_path / "alone", entity_name="plant")
    assert whole.entities == ("plant",)


def test_files_that_share_an_entity_form_a_group(tmp_path: Path) -> None:
    for number, names in enumerate(("ab", "c", "bd", "e")):
        tables = [frame(10).assign(machine=name) for name in names]
        pd.concat(tables).to_parquet(tmp_path / f"{number}.parquet")
    found = groups(tmp_path, entity="machine")
    assert [group.entities for group in found] == [("a", "b", "d"), ("c",), ("e",)]
    assert [len(group.files) for group in found] == [2, 1, 1]
    with pytest.raises(DataError, match="unit"):
        groups(tmp_path, entity="unit")


def test_what_a_cluster_cannot_read_is_refused(tmp_path: Path) -> None:
    frame(60).to_csv(tmp_path / "a.csv")
    with pytest.raises(DataError, match="a cluster reads Parquet files only"):
        groups(tmp_path / "a.csv")
    with pytest.raises(DataError, match="No data was given"):
        groups()


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model and the data of one entity."""
    folder = tmp_path_factory.mktemp("plant")
    frame(1200).to_csv(folder / "history.csv", index=False)
    assert tsadc("fit", folder / "history.csv", "--out", folder / "model", "--length", "40").code == 0
    table = frame(200, 3)
    table.loc[100:130, "b"] += 6
    (folder / "data").mkdir()
    table.to_parquet(folder / "data" / "history.parquet")
    return folder


def test_a_repeated_task_writes_the_same_files(plant: Path, tmp_path: Path) -> None:
    job = DetectJob("job", _files(load(plant / "model")), "model", str(tmp_path), None, False, False)
    [group] = groups(plant / "data")

    def written() -> dict[Path, bytes]:
        return {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}

    first = judge(job, group)
    before = written()
    assert judge(job, group) == first
    assert written() == before
    assert (first[0].rows_in, first[0].rows_out, first[0].intervals) == (200, 200, 1)


def test_a_job_continues_only_if_it_is_the_same(tmp_path: Path) -> None:
    out = str(tmp_path / "found")

    def job(digest: str, **more: bool) -> object:
        return start(out, Manifest("1", "model", digest, ()), **{"force": False, **more})

    assert job("one") is None
    assert job("one") == {}
    with pytest.raises(OutputError, match="unfinished job with another model"):
        job("two")
    assert job("two", force=True) is None
    Manifest("1", "model", "two", (), complete=True).write(out)
    with pytest.raises(OutputError, match="exists already; choose another name, or replace it with --force"):
        job("two")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match="is no folder of results of a cluster"):
        start(str(tmp_path / "other"), Manifest("1", "m", "j", ()), force=True)
    assert (tmp_path / "other" / "notes.txt").read_text() == "mine"


def test_names_of_entities_cannot_leave_the_folder() -> None:
    assert [folder_name(name) for name in ("pump 1", "a/b", "..", ".hidden")] == [
        "pump 1",
        "a%2Fb",
        "%2E%2E",
        "%2Ehidden",
    ]


def test_an_address_that_does_not_answer_is_refused_at_once(plant: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="ray is not installed: pip install 'tsadc[ray]'")
    words = ("detect", plant / "data", "--model", plant / "model", "--out", tmp_path / "found", "--engine", "ray")
    answer = tsadc(*words, "--address", "127.0.0.1:9")
    assert "No Ray cluster answers at 127.0.0.1:9: " in answer.refusal
    assert "--address must be HOST:PORT" in tsadc(*words, "--address", "head").refusal
    assert not (tmp_path / "found").exists()


def test_a_full_object_store_is_one_sentence() -> None:
    exceptions = pytest.importorskip("ray.exceptions", reason="ray is not installed: pip install 'tsadc[ray]'")
    ray = mock.Mock(exceptions=exceptions)
    ray.put.side_effect = exceptions.ObjectStoreFullError("no room\nmore")
    with pytest.raises(ConfigError, match=r"object store of the cluster is full .*; start Ray with a larger"):
        Cluster(ray).share(b"model")


def test_options_that_do_not_go_with_ray_are_refused(plant: Path, tmp_path: Path) -> None:
    words = ("detect", plant / "data", "--model", plant / "model", "--out", tmp_path / "found")
    assert "--engine must be local or ray" in tsadc(*words, "--engine", "spark").refusal
    assert "--address names a Ray cluster; add --engine ray" in tsadc(*words, "--address", "auto").refusal
    assert "--update does not go together" in tsadc(*words, "--engine", "ray", "--update").refusal
    assert "--stream cannot be combined" in tsadc(*words, "--engine", "ray", "--stream").refusal


def test_ray_is_imported_only_when_it_is_used(plant: Path, tmp_path: Path) -> None:
    with mock.patch.dict(sys.modules, {"ray": None}):
        words = ("detect", plant / "data", "--model", plant / "model", "--out", tmp_path / "found")
        assert (
            tsadc(*words, "--engine", "ray").refusal == "--engine ray needs the package ray: pip install 'tsadc[ray]'."
        )
        with pytest.raises(ConfigError, match="needs the package ray"), connect(None):
            pass
        answer = tsadc(*words)
    assert answer.code == 0, answer.err
