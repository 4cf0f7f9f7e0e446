"""Storage, groups of files, and what `--engine ray` refuses, without Ray."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from unittest import mock
from urllib.parse import unquote

import numpy as np
import pandas as pd
import pytest

import tsadc as package
from machines import assert_same, limit, machines
from terminal import QUICK, frame, tsadc
from tsadc.cli import cluster_audit, cluster_detect, cluster_fit
from tsadc.cli.cluster_detect import DetectJob, judge
from tsadc.cli.cluster_notices import joined
from tsadc.cli.signals import Terminated, stopping_on_sigterm
from tsadc.cluster import engine, storage
from tsadc.cluster.engine import NEEDS_RAY, Cluster, _run, _signals_held, connect
from tsadc.cluster.manifest import Manifest, folder_name, start
from tsadc.cluster.models import model_files
from tsadc.cluster.partitions import FileGroup, group_files, named_files, read_group
from tsadc.cluster.storage import address_of, join
from tsadc.detectors.store import load
from tsadc.errors import ConfigError, DataError, OutputError, TsadcError, TsadcNotice, collected_notices
from tsadc.io.read import read
from tsadc.io.reading import Reading
from tsadc.show.result_files import TABLES
from tsadc.show.stored_results import read_results


class Here:
    """A cluster of this process."""

    def share(self, value: object) -> object:
        return value

    def map(self, function: Callable[[object, object], object], shared: object, items: Sequence[object]) -> object:
        return [(item, _run(package.__version__, function, shared, item)) for item in items]


def groups(*data: Path, **options: object) -> list[FileGroup]:
    return group_files(Here(), named_files(data), Reading(**options))


def test_an_address_of_this_machine_names_files(tmp_path: Path) -> None:
    frame(60).to_parquet(tmp_path / "m0.parquet")
    [named] = named_files([Path(f"file://{tmp_path}")])
    assert named.path == tmp_path / "m0.parquet"


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


@pytest.mark.parametrize(
    ("labels", "names"),
    [(("a ", "a"), ["a"]), (tuple(pd.to_datetime(["2026-01-01", "2026-01-02"])), ["2026-01-01", "2026-01-02"])],
)
def test_entities_in_a_column_have_the_names_that_reading_gives_them(
    labels: tuple[object, ...], names: list[str], tmp_path: Path
) -> None:
    for number, label in enumerate(labels):
        dates = pd.date_range(f"2026-01-0{number + 1}", periods=60, freq="24min")
        table = frame(60).assign(time=dates, of=label).set_index("of")
        table.to_parquet(tmp_path / f"{number}.parquet")
    table[:0].to_parquet(tmp_path / "empty.parquet")
    with collected_notices() as notices:
        found = groups(tmp_path, entity="of")
    assert notices[0] == f"{tmp_path}/empty.parquet has no rows and so no entity."
    assert [entity for group in found for entity in group.entities] == names
    series = [own for group in found for own in read_group(group, tmp_path)[0]]
    assert [own.entity for own in series] == names
    assert sum(map(len, series)) == 120
    table.rename({labels[-1]: ""}).to_parquet(tmp_path / "1.parquet")
    with pytest.raises(DataError, match="the entity column 'of' is empty at row 0"):
        groups(tmp_path, entity="of")


@pytest.mark.parametrize(
    ("named", "refusal"),
    [(("b",), "a has no row that could be read; add rows."), (("a", "b"), "b was not in the files when the command")],
)
def test_files_that_change_meanwhile_are_refused(named: tuple[str, ...], refusal: str, tmp_path: Path) -> None:
    frame(60).assign(name="a").to_parquet(tmp_path / "0.parquet")
    [group] = groups(tmp_path, entity="name")
    pd.concat([frame(60).assign(name=name) for name in named]).to_parquet(tmp_path / "0.parquet")
    with pytest.raises(DataError, match=refusal):
        read_group(group, tmp_path)


def test_names_made_of_digits_stay_as_they_are(plant: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, names = pd.read_parquet(plant / "data" / "history.parquet"), {"01", "1", "a/b"}
    pd.concat([table.assign(name=name) for name in names]).to_parquet(tmp_path / "both.parquet")
    [group] = groups(tmp_path, entity="name")
    files = model_files(load(plant / "model"))
    judge(DetectJob("digits", files, "model", str(tmp_path / "found"), None, False, "day", False), group)
    guide = (Path(__file__).parents[2] / "docs/guides/cluster.md").read_text()
    [code] = re.findall(r"^```python\n(.*?)^```", guide, flags=re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    scope: dict[str, pd.DataFrame] = {}
    exec(code, scope)
    assert set(scope["intervals"]["entity"]) == names


def test_an_entity_with_a_bad_name_is_left_out_alone(
    plant: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_detect, "connect", lambda address: contextlib.nullcontext(Here()))
    table = pd.read_parquet(plant / "data" / "history.parquet")
    pd.concat([table.assign(name=name) for name in ("a", "é" * 34)]).to_parquet(tmp_path / "both.parquet")
    words = ("detect", tmp_path / "both.parquet", "--entity", "name", "--model", plant / "model", "--engine", "ray")
    out = tmp_path / "found"
    answer = tsadc(*words, "--out", out)
    why = "Its name has 204 characters as part of a path, but at most 200 fit; rename it."
    assert f"1 entity of 2 could not be judged; '{'é' * 34}': {why} Correct the data" in answer.refusal
    assert answer.refusal.endswith(f"--skip-bad; the results of the others are in {out}.")
    for _ in range(2):  # the second run continues the first
        answer = tsadc(*words, "--out", out, "--skip-bad")
        assert answer.code == 0, answer.err
        stored = json.loads((out / "manifest.json").read_text())
        assert (stored["complete"], list(stored["entities"]), list(stored["left_out"])) == (False, ["a"], ["é" * 34])
        assert {unquote(path.name) for path in out.glob("*/date=*/entity=*")} == {"entity=a"}
    with pytest.warns(TsadcNotice, match="found lacks 1 entity that could not be judged: é"):
        assert len(read_results(out).intervals) == stored["totals"]["intervals"] > 0
    pd.concat([table.assign(name=name) for name in ("a", "b")]).to_parquet(tmp_path / "both.parquet")
    assert "holds an unfinished job with another model, other data" in tsadc(*words, "--out", out).refusal
    assert tsadc(*words, "--out", out, "--force").code == 0
    assert json.loads((out / "manifest.json").read_text())["complete"]


def test_a_failed_entity_leaves_no_table(plant: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, files = cluster_detect._write, model_files(load(plant / "model"))

    def fail(job: DetectJob, entity: str, table: str, parts: Sequence[pd.DataFrame]) -> int:
        if table == "observations":
            raise OutputError("The disk is full.")
        return write(job, entity, table, parts)

    [group] = groups(plant / "data")
    monkeypatch.setattr(cluster_detect, "_write", fail)
    judged = judge(DetectJob("fails", files, "model", str(tmp_path), None, False, "day", False), group)
    assert (judged.done, judged.refused) == ((), {"history": "The disk is full."})
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_what_a_cluster_cannot_read_is_refused_before_it_is_started(plant: Path, tmp_path: Path) -> None:
    frame(60).to_csv(tmp_path / "a.csv")
    (tmp_path / "above").mkdir()
    (tmp_path / "above" / "below").mkdir()
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "notes.txt").touch()
    only = "a cluster reads Parquet files only: convert them, or leave out --engine ray."
    refused = {
        tmp_path / "a.csv": f"{tmp_path}/a.csv should end in .parquet; {only}",
        tmp_path / "none": f"There is no file or folder {tmp_path}/none; check the name.",
        tmp_path: f"The folder {tmp_path} has no file that can be read (with the ending .parquet); name its "
        f"subfolders, or use a pattern such as {tmp_path}/*/*.parquet; {only}",
    }
    detect = ("--model", plant / "model", "--out", tmp_path / "found", "--engine", "ray")
    with mock.patch.dict(sys.modules, {"ray": None}):
        for data, refusal in refused.items():
            assert tsadc("detect", data, *detect).refusal == refusal
            assert tsadc("fit", data, "--out", tmp_path / "model", "--engine", "ray").refusal == refusal
        refusal = tsadc("detect", plant / "data", *detect[:3], tmp_path / "results", "--engine", "ray").refusal
        assert refusal == f"{tmp_path}/results exists already and is no folder of results; choose another name."
    with pytest.raises(DataError, match="No data was given"):
        groups()


def test_a_detector_that_no_cluster_can_fit_is_refused_at_once(plant: Path, tmp_path: Path) -> None:
    words = ("fit", plant / "data", "--out", tmp_path / "model", "--engine", "ray", "--detector")
    with mock.patch.dict(sys.modules, {"ray": None}):
        assert tsadc(*words, "robust-z").refusal == (
            "robust-z cannot be fitted on a cluster, which fits the ensemble and detectors with a network; leave out "
            "--engine ray, or choose another detector."
        )


def test_an_audit_by_tasks_is_that_of_one_process(plant: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_audit, "connect", lambda address: contextlib.nullcontext(Here()))
    words = ("audit", plant / "history.csv", "--length", "40", "--folds", "2", "--set", "kernels=2")
    for folder, chosen in (("local", ()), ("ray", ("--engine", "ray"))):
        answer = tsadc(*words, "--out", tmp_path / folder, *chosen)
        assert answer.code == 0, answer.err
        assert ("The first of 4 models took" in answer.out) == (folder == "local")  # tasks run at the same time
    for file in (tmp_path / "local").glob("*.csv"):
        assert (tmp_path / "ray" / file.name).read_bytes() == file.read_bytes()
    monkeypatch.setattr(cluster_audit, "judge_fold", mock.Mock(side_effect=DataError("Too little.")))
    answer = tsadc(*words, "--out", tmp_path / "none", "--engine", "ray")
    assert (answer.code, answer.err) == (2, "tsadc: Fold 1 of 2 cannot be judged: Too little.\n")
    assert not (tmp_path / "none").exists()
    assert (
        "--stream does not go together" in tsadc(*words, "--out", tmp_path / "x", "--engine", "ray", "--stream").refusal
    )


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
    job = DetectJob("job", model_files(load(plant / "model")), "model", str(tmp_path), None, False, "day", False)
    [group] = groups(plant / "data")

    def written() -> dict[Path, bytes]:
        return {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}

    first = judge(job, group)
    before = written()
    assert judge(job, group) == first
    assert written() == before
    [entity] = first.done
    assert (entity.rows_in, entity.rows_out, entity.intervals) == (200, 200, 1)


def test_results_may_be_divided_by_month(plant: Path, tmp_path: Path) -> None:
    files = model_files(load(plant / "model"))
    dates = pd.date_range("2026-01-31 23:00", periods=200, freq="1min")
    frame(200, 3).assign(time=dates).to_parquet(tmp_path / "pump.parquet")
    [group] = groups(tmp_path / "pump.parquet")
    tables = []
    for partition, folders in (("day", ["2026-01-31", "2026-02-01"]), ("month", ["2026-01-01", "2026-02-01"])):
        out = tmp_path / partition
        judge(DetectJob(partition, files, "model", str(out), None, False, partition, False), group)
        assert sorted(folder.name for folder in (out / "timeline").iterdir()) == [f"date={date}" for date in folders]
        parts = [pd.read_parquet(file) for file in sorted((out / "timeline").rglob("*.parquet"))]
        tables.append(pd.concat(parts, ignore_index=True))
    pd.testing.assert_frame_equal(*tables)


def test_results_of_a_cluster_can_be_reviewed_and_labelled(
    plant: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_detect, "connect", lambda address: contextlib.nullcontext(Here()))
    shutil.copytree(plant / "model", tmp_path / "model")
    words = ("detect", plant / "data", "--model", tmp_path / "model", "--out")
    for folder, chosen in (("local", ()), ("ray", ("--engine", "ray"))):
        assert tsadc(*words, tmp_path / folder, *chosen).code == 0
    local, ray = (read_results(tmp_path / folder) for folder in ("local", "ray"))
    assert [own.judged for own in ray.intervals] == [own.judged for own in local.intervals]
    for one, other in zip(ray.intervals, local.intervals, strict=True):
        scores, *place = ray.scores_around(one)
        expected, *same = local.scores_around(other)
        np.testing.assert_allclose(scores, expected, rtol=1e-5)
        assert (place, one.when) == (same, other.when)
    page = tmp_path / "page.html"
    assert tsadc("review", tmp_path / "model", "--results", tmp_path / "ray", "--page", page).code == 0
    name = local.intervals[0].judged.id
    words = ("label", tmp_path / "model", "false", "--interval", name, "--results", tmp_path / "ray")
    assert "1 verdict noted" in tsadc(*words).out
    shutil.rmtree(tmp_path / "ray" / "intervals")  # as if nothing had been found
    assert read_results(tmp_path / "ray").intervals == ()
    stored = json.loads((tmp_path / "ray" / "manifest.json").read_text())
    (tmp_path / "ray" / "manifest.json").write_text(json.dumps({**stored, "complete": False}))
    assert "ray holds the results of an unfinished job; run its `tsadc detect` again" in tsadc(*words).refusal


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
    for content, why in ((None, "holds notes.txt"), ("{}", "holds notes.txt"), ("{}", "is no folder of results")):
        if content is not None:
            (tmp_path / "other" / "manifest.json").write_text(content)
        if why.startswith("is"):
            (tmp_path / "other" / "notes.txt").unlink()
        with pytest.raises(OutputError, match=why):
            start(str(tmp_path / "other"), Manifest("1", "m", "j", ()), force=True)
    assert (tmp_path / "other" / "manifest.json").read_text() == "{}"
    (tmp_path / "found" / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match=r"holds notes.txt, which --force would remove"):
        job("two", force=True)


@pytest.fixture
def finished(plant: Path, tmp_path: Path) -> Callable[[], set[str]]:
    """Judge an entity and leave the job unfinished; return what finds the entities that are done."""
    job = DetectJob("job", model_files(load(plant / "model")), "model", str(tmp_path), None, False, "day", False)
    manifest = Manifest("1", "model", "job", ())
    start(str(tmp_path), manifest, force=False)
    judge(job, groups(plant / "data")[0])
    return lambda: set(start(str(tmp_path), manifest, force=False))


@pytest.mark.parametrize("table", TABLES)
def test_an_entity_whose_tables_are_missing_or_cut_is_not_done(
    table: str, finished: Callable[[], set[str]], tmp_path: Path
) -> None:
    assert finished() == {"history"}
    [file] = (tmp_path / table).glob("date=*/entity=history/part.parquet")
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    assert finished() == set()
    file.write_bytes(whole)
    assert finished() == {"history"}
    shutil.rmtree(file.parents[1])
    assert finished() == set()


@pytest.mark.parametrize(
    "changes",
    [{"rows_in": "x"}, {"rows_in": None}, {"worst": [[1]]}, {"rows": 3}, {"notices": "text"}],
    ids=lambda changes: next(iter(changes)),
)
def test_an_entity_whose_file_is_of_another_form_is_not_done(
    changes: dict, finished: Callable[[], set[str]], tmp_path: Path
) -> None:
    file = tmp_path / "entities" / "history.json"
    stored = json.loads(file.read_text())
    file.write_text(json.dumps({**stored, **changes}))
    assert finished() == set()
    file.write_text(json.dumps({name: value for name, value in stored.items() if name != "rows_in"}))
    assert finished() == set()


def test_names_of_entities_cannot_leave_the_folder() -> None:
    assert [folder_name(name) for name in ("pump 1", "a/b", "..", ".hidden")] == [
        "pump 1",
        "a%2Fb",
        "%2E%2E",
        "%2Ehidden",
    ]


def learnt(model: Path) -> tuple[bytes, dict]:
    return (model / "model.safetensors").read_bytes(), json.loads((model / "config.json").read_text())


@pytest.mark.parametrize("most", [4000, 20])
def test_a_fit_by_tasks_is_that_of_one_process(most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a sample that is the whole history, and with one of a few entities and a second pass over the others."""
    limit(monkeypatch, most)
    monkeypatch.setattr(cluster_fit, "MIN_QUOTA", 6)
    monkeypatch.setattr(cluster_fit, "connect", lambda address: contextlib.nullcontext(Here()))
    for item in machines():
        table = pd.DataFrame(item.values, columns=list(item.names), index=item.clock.at(range(len(item))))
        table = table.rename_axis("time").reset_index()
        table.to_parquet(tmp_path / f"{item.entity}.parquet")
    words = ("fit", tmp_path, "--length", "24", "--set", "kernels=4")
    answer = tsadc(*words, "--out", tmp_path / "local")
    assert answer.code == 0, answer.err
    answer = tsadc(*words, "--out", tmp_path / "ray", "--engine", "ray")
    assert answer.code == 0, answer.err
    (arrays, settings), (expected_arrays, expected) = learnt(tmp_path / "ray"), learnt(tmp_path / "local")
    if most == 4000:
        assert arrays == expected_arrays
        assert settings == expected
    else:
        assert_same(load(tmp_path / "ray"), load(tmp_path / "local"))
    table[["time", "a"]].to_parquet(tmp_path / f"{item.entity}.parquet")
    refused = tsadc(*words, "--out", tmp_path / "none", "--engine", "ray").refusal
    assert refused.startswith(f"{item.entity} cannot be learnt from: {item.entity!r} lacks 2 of the 3")
    assert not (tmp_path / "none").exists()
    answer = tsadc(*words, "--out", tmp_path / "fewer", "--engine", "ray", "--skip-bad")
    assert answer.code == 0, answer.err
    assert f"1 entity left out: {item.entity}" in answer.err
    assert len(load(tmp_path / "fewer").scaler_.entities) == len(machines()) - 1


def test_entities_of_one_file_are_learnt_as_by_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that reads entities of both kinds again learns nothing anew of those that the views are fitted to."""
    limit(monkeypatch, 20)
    monkeypatch.setattr(cluster_fit, "MIN_QUOTA", 6)
    monkeypatch.setattr(cluster_fit, "connect", lambda address: contextlib.nullcontext(Here()))
    tables = [
        pd.DataFrame(item.values, columns=list(item.names)).assign(
            time=item.clock.at(range(len(item))), unit=item.entity
        )
        for item in machines()
    ]
    pd.concat(tables).to_parquet(tmp_path / "all.parquet")
    words = ("fit", tmp_path / "all.parquet", "--entity", "unit", "--length", "24", "--set", "kernels=4")
    for answer in (
        tsadc(*words, "--out", tmp_path / "local"),
        tsadc(*words, "--out", tmp_path / "ray", "--engine", "ray"),
    ):
        assert answer.code == 0, answer.err
    assert_same(load(tmp_path / "ray"), load(tmp_path / "local"))


def test_an_address_that_does_not_answer_is_refused_at_once(plant: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="ray is not installed: pip install 'tsadc[ray]'")
    words = ("detect", plant / "data", "--model", plant / "model", "--out", tmp_path / "found", "--engine", "ray")
    answer = tsadc(*words, "--address", "127.0.0.1:9")
    assert "No Ray cluster answers at 127.0.0.1:9: " in answer.refusal
    assert "--address must be HOST:PORT" in tsadc(*words, "--address", "head").refusal
    assert not (tmp_path / "found").exists()


@contextlib.contextmanager
def listening(answer: bytes) -> Iterator[str]:
    """Yield the address of a program that answers with some bytes."""
    with socket.create_server(("127.0.0.1", 0)) as server, contextlib.ExitStack() as connections:

        def serve() -> None:
            with contextlib.suppress(OSError):
                connection = connections.enter_context(server.accept()[0])
                connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_an_address_at_which_something_else_listens_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "ANSWER", 0.2)
    with mock.patch.dict(sys.modules, {"ray": mock.Mock(is_initialized=lambda: False)}):
        for answer, why in ((b"", "timed out"), (b"HTTP/1.1 400 Bad Request\r\n", "another program does")):
            with listening(answer) as address:
                refusal = f"No Ray cluster answers at {address}: {why}; check the address and whether"
                with pytest.raises(ConfigError, match=refusal), connect(address):
                    pass
        with listening(b"\0\0\x18" + engine.SETTINGS[3:]) as address, connect(address):
            pass


@pytest.mark.parametrize(
    ("address", "error", "refusal"),
    [
        (
            None,
            Exception("The node timed out.\nIt is slow."),
            "on this machine: The node timed out. It is slow; run the",
        ),
        (
            "auto",
            ConnectionError("Could not find any"),
            "No Ray cluster runs on this machine; start one with `ray start",
        ),
        ("local", ValueError(""), "on this machine: ValueError; run"),
        ("auto", OSError("Failed"), "used at auto: Failed; give .*, set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN"),
    ],
)
def test_why_ray_cannot_be_used_is_one_sentence(
    address: str | None, error: Exception, refusal: str, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(**options: object) -> None:
        os.write(2, b"[2026-11-18] gcs_client.cc:210: Failed\n")
        raise error

    with (
        mock.patch.dict(sys.modules, {"ray": mock.Mock(is_initialized=lambda: False, init=fail)}),
        pytest.raises(ConfigError, match=refusal),
        connect(address),
    ):
        pass
    assert capfd.readouterr().err == ""


def test_sigterm_ends_the_command_also_while_ray_starts() -> None:
    def start(**options: object) -> None:  # as Ray does
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(number))
        signal.raise_signal(signal.SIGTERM)

    with (
        mock.patch.dict(sys.modules, {"ray": mock.Mock(is_initialized=lambda: False, init=start)}),
        pytest.raises(Terminated),
        stopping_on_sigterm(),
        connect(None),
    ):
        pass


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("When: AWS Error NETWORK_CONNECTION during HeadObject: curlCode: 7", "the server does not answer; check"),
        ("When: AWS Error ACCESS_DENIED during HeadBucket", "the server answers ACCESS_DENIED; check the address, and"),
        (
            "AWS Error INTERNAL_FAILURE during it",
            "the server answers INTERNAL_FAILURE; check the address and the server",
        ),
        ("Disk quota exceeded", "Disk quota exceeded."),
    ],
)
def test_words_of_s3_are_replaced(text: str, why: str) -> None:
    failing = mock.patch.object(storage, "_opened", side_effect=OSError(text))
    with failing, pytest.raises(OutputError, match=f"s3://b/x cannot be read: {why}"):
        storage.names_in("s3://b/x")


def test_results_are_written_beside_data_and_model(plant: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(plant / "data")
    (tmp_path / "file").touch()
    inside = {
        plant / "model" / "deep" / "found": f"is inside {plant}/model, whose files belong to a model; choose a place",
        tmp_path / "link" / "found": f"is inside {plant}/data, whose files belong to the data; choose a place outside",
        tmp_path / "file": f"{tmp_path}/file is a file, so {tmp_path}/file cannot be a folder of results; choose",
    }
    with mock.patch.dict(sys.modules, {"ray": None}):
        for out, refusal in inside.items():
            words = ("detect", plant / "data", "--model", plant / "model", "--out", out, "--engine", "ray")
            assert refusal in tsadc(*words).refusal
    assert storage.is_inside("s3://b/plant/found?scheme=http", "s3://b/plant?scheme=http")
    assert not storage.is_inside("s3://b/plant-2", "s3://b/plant")


def test_notices_that_differ_only_in_the_entity_are_one() -> None:
    unknown = "The model does not know {}; adapt it."
    noted = [((name,), [unknown.format(name), f"{name!r} has {rows} gaps."]) for name, rows in (("a-1", 3), ("a-2", 4))]
    noted += [(("b", "c"), [unknown.format("c"), "It is old."]), (("d",), ["It is old."])]
    assert joined(noted) == [
        "The model does not know a-1; adapt it. The same holds for 2 other entities: a-2, c.",
        "'a-1' has 3 gaps.",
        "'a-2' has 4 gaps.",
        "It is old.",
    ]


def test_a_full_object_store_is_one_sentence() -> None:
    exceptions = pytest.importorskip("ray.exceptions", reason="ray is not installed: pip install 'tsadc[ray]'")
    ray = mock.Mock(exceptions=exceptions)
    ray.put.side_effect = exceptions.ObjectStoreFullError("no room\nmore")
    with pytest.raises(ConfigError, match=r"object store of the cluster is full .*; start Ray with a larger"):
        Cluster(ray).share(b"model")


@pytest.mark.parametrize(
    ("text", "why"),
    [("It failed to import:\nNo module named 'tsadc.cluster'", "A node of the cluster cannot import tsadc"), ("", "")],
)
def test_a_node_without_tsadc_is_told_from_a_lost_process(text: str, why: str) -> None:
    exceptions = pytest.importorskip("ray.exceptions", reason="ray is not installed: pip install 'tsadc[ray]'")
    ray = mock.MagicMock(exceptions=exceptions)
    ray.cluster_resources.return_value = {"CPU": 2}
    ray.wait.side_effect = lambda tasks, **how: (tasks[:1], tasks[1:])
    ray.get.side_effect = exceptions.RayActorError(error_msg=text)
    if why:
        with pytest.raises(ConfigError, match=why):
            Cluster(ray).together(print, None, 2, print)
        return
    outcome = Cluster(ray).together(print, None, 2, print)
    assert outcome.error == "Its process was lost 4 times, most likely because memory ran out."
    assert ray.util.remove_placement_group.call_count == 4


@pytest.mark.parametrize("lost", [False, True])
def test_a_head_that_is_gone_is_one_sentence(lost: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    exceptions = pytest.importorskip("ray.exceptions", reason="ray is not installed: pip install 'tsadc[ray]'")
    monkeypatch.setattr(engine, "LOOK", 0.05)
    ray = mock.MagicMock(exceptions=exceptions)
    ray.wait.side_effect = lambda tasks, **how: (tasks[:lost], [])
    ray.get.side_effect = exceptions.NodeDiedError("It is gone.")
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        ray.get_runtime_context.return_value.gcs_address = address
        cluster = Cluster(ray)
    with pytest.raises(TsadcError, match=f"^The head of the cluster at {address} is gone; start the cluster and run"):
        next(cluster.map(print, None, [1]))


def test_signals_wait_until_code_of_ray_has_ended() -> None:
    done = []

    def raise_held(number: int) -> None:
        with _signals_held():
            signal.raise_signal(number)
            done.append(number)

    with stopping_on_sigterm():
        for number, stop in ((signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)):
            with pytest.raises(stop):
                raise_held(number)
    assert done == [signal.SIGINT, signal.SIGTERM]


def test_options_that_do_not_go_with_ray_are_refused(plant: Path, tmp_path: Path) -> None:
    words = ("detect", plant / "data", "--model", plant / "model", "--out", tmp_path / "found")
    assert "--engine must be local or ray" in tsadc(*words, "--engine", "spark").refusal
    assert "--address names a Ray cluster; add --engine ray" in tsadc(*words, "--address", "auto").refusal
    assert "--partition is for --engine ray" in tsadc(*words, "--partition", "month").refusal
    assert (
        "--workers is for --engine ray"
        in tsadc("fit", plant / "data", "--out", tmp_path / "m", "--workers", "2").refusal
    )
    network = ("fit", plant / "data", "--out", tmp_path / "m", *QUICK, "--engine", "ray", "--skip-bad")
    assert "--skip-bad does not go together with training a network on a cluster" in tsadc(*network).refusal
    assert "--update does not go together" in tsadc(*words, "--engine", "ray", "--update").refusal
    assert "`--partition` must be day or month" in tsadc(*words, "--engine", "ray", "--partition", "year").refusal
    assert "--stream cannot be combined" in tsadc(*words, "--engine", "ray", "--stream").refusal


def test_ray_is_imported_only_when_it_is_used(plant: Path, tmp_path: Path) -> None:
    with mock.patch.dict(sys.modules, {"ray": None}):
        words = ("detect", plant / "data", "--model", plant / "model", "--out", tmp_path / "found")
        assert tsadc(*words, "--engine", "ray").refusal == NEEDS_RAY
        with pytest.raises(ConfigError, match="needs the package ray"), connect(None):
            pass
        answer = tsadc(*words)
    assert answer.code == 0, answer.err
