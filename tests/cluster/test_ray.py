"""`--engine ray` on a real cluster of two nodes: the same numbers as locally, and nothing lost or double."""

import json
import operator
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock
from urllib.parse import unquote

import numpy as np
import pandas as pd
import pytest

import tsadc as package
from benchmark import OWN_PLAN, own_data
from terminal import QUICK, frame, tsadc
from tsadc.cluster.engine import connect
from tsadc.detectors.store import load
from tsadc.errors import TsadcNotice

pytest.importorskip("ray", reason="ray is not installed: pip install 'tsadc[ray]'")
pytestmark = pytest.mark.filterwarnings("default")  # Ray's own
ROOT = Path(__file__).parents[2]
STORE = 80 * 2**20  # bytes of the object store of a node, close to the least that Ray takes
ENTITIES = ("pump-1", "pump-2", "line 3/a", "7")
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    S3_PORT = free.getsockname()[1]
S3 = {
    "AWS_ACCESS_KEY_ID": "tester",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_REGION": "us-east-1",
}
TABLES = ("intervals", "timeline", "observations")


@pytest.fixture(scope="module")
def cluster() -> Iterator[object]:
    from ray.cluster_utils import Cluster

    # Workers import the package that is tested.
    path = os.pathsep.join([str(Path(package.__file__).parents[1]), str(Path(__file__).parent)])
    with mock.patch.dict(os.environ, {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", **S3}):
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
    files = [folder / f"{name}.csv" for name in ENTITIES[:2]]
    answer = tsadc("fit", *files, "--out", folder / "model", "--length", "40")
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


@pytest.fixture(scope="module")
def connected(cluster: object) -> Iterator[object]:
    """The cluster, to which this process is connected: its workers then serve all commands."""
    import ray

    ray.init(address=cluster.address, logging_level="ERROR", log_to_driver=False)
    yield cluster
    ray.shutdown()


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


def test_bad_partitions_are_named_and_the_job_continues_when_they_are_corrected(
    connected: object, data: Path, model: Path, local: Path, tmp_path: Path
) -> None:
    bad, out = tmp_path / "plant", tmp_path / "found"
    shutil.copytree(data, bad)
    damaged, other = bad / "entity=7/part-0.parquet", bad / "entity=pump-2/part-1.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-100])
    day(1)[200:].rename(columns={"a": "x", "b": "y", "c": "z"}).to_parquet(other)
    answer = on_ray(connected, bad, "--model", model, "--out", out)
    assert "2 entities of 4 could not be judged; '7':" in answer.refusal
    assert f"{damaged} is not a readable Parquet file" in answer.refusal
    unfinished = manifest(out)
    assert not unfinished["complete"]
    assert set(unfinished["entities"]) == {"pump-1", "line 3/a"}
    assert set(unfinished["left_out"]) == {"7", "pump-2"}
    assert "part-1.parquet has other variables than" in unfinished["left_out"]["pump-2"]

    answer = on_ray(connected, bad, "--model", model, "--out", tmp_path / "fewer", "--skip-bad")
    assert answer.code == 0, answer.err
    assert "2 entities left out: 7, pump-2; '7': " in answer.err
    fewer = manifest(tmp_path / "fewer")
    assert not fewer["complete"]
    assert set(fewer["entities"]) | set(fewer["left_out"]) == set(ENTITIES)

    before = {file: file.stat().st_mtime_ns for file in out.glob("timeline/*/*/part.parquet")}
    stale = out / "timeline/date=1999-01-01/entity=7/part.parquet"  # of a task that was killed while it wrote
    stale.parent.mkdir(parents=True)
    stale.write_bytes(b"half")
    for file in (damaged, other):
        shutil.copy2(data / file.relative_to(bad), file)
    answer = on_ray(connected, bad, "--model", model, "--out", out)
    assert answer.code == 0, answer.err
    assert_same(out, local)
    assert {file: file.stat().st_mtime_ns for file in before} == before  # not judged again
    assert manifest(out)["complete"]
    assert "exists already" in on_ray(connected, bad, "--model", model, "--out", out).refusal
    answer = on_ray(connected, bad, "--model", model, "--out", tmp_path / "fewer")
    assert answer.code == 0, answer.err
    assert_same(tmp_path / "fewer", local)


def test_an_entity_in_two_files_with_others_is_joined(connected: object, model: Path, tmp_path: Path) -> None:
    tables = [day(seed).assign(machine=name) for seed, name in enumerate(ENTITIES)]
    folder, out = tmp_path / "plant", tmp_path / "found"
    folder.mkdir()
    pd.concat([tables[0], tables[1][:200]]).to_parquet(folder / "a.parquet")
    pd.concat([tables[1][200:], tables[2]]).to_parquet(folder / "b.parquet")
    pd.concat([tables[3], day(5, 10).assign(machine="short")]).to_parquet(folder / "c.parquet")
    answer = tsadc("detect", folder, "--model", model, "--out", tmp_path / "local.parquet", "--entity", "machine")
    assert answer.code == 0, answer.err
    answer = on_ray(connected, folder, "--model", model, "--out", out, "--entity", "machine")
    assert answer.code == 0, answer.err
    assert "1 entity has too few rows for an observation and no results: short." in answer.err
    whole = manifest(out)
    assert {name: entity["rows_in"] for name, entity in whole["entities"].items()} == {
        **dict.fromkeys(ENTITIES, 600),
        "short": 10,
    }
    for table in TABLES:
        expected = ordered(pd.read_parquet(tmp_path / "local.parquet" / f"{table}.parquet"))
        expected = expected[expected["entity"] != "short"].reset_index(drop=True)
        pd.testing.assert_frame_equal(stored(out, table)[list(expected.columns)], expected, check_exact=True)


def test_a_cluster_learns_what_one_machine_learns(connected: object, data: Path, tmp_path: Path) -> None:
    words = ("fit", data, "--length", "24")
    assert tsadc(*words, "--out", tmp_path / "local").code == 0
    answer = tsadc(*words, "--out", tmp_path / "ray", "--engine", "ray", "--address", connected.address)
    assert answer.code == 0, answer.err
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / "ray" / name).read_bytes() == (tmp_path / "local" / name).read_bytes()


def test_a_cluster_suspects_what_one_machine_suspects(connected: object, data: Path, tmp_path: Path) -> None:
    words = ("audit", data, "--length", "24", "--set", "kernels=4", "--folds", "2")
    for folder, engine in (("local", ()), ("ray", ("--engine", "ray", "--address", connected.address))):
        answer = tsadc(*words, "--out", tmp_path / folder, *engine)
        assert answer.code == 0, answer.err
    names = sorted(file.name for file in (tmp_path / "local").iterdir())
    assert names == sorted(file.name for file in (tmp_path / "ray").iterdir())
    for name in set(names) - {"index.html", "audit.json"}:  # these two say how long it took
        assert (tmp_path / "ray" / name).read_bytes() == (tmp_path / "local" / name).read_bytes(), name
    local, ray = (json.loads((tmp_path / folder / "audit.json").read_text()) for folder in ("local", "ray"))
    assert {**ray, "seconds": 0} == {**local, "seconds": 0}
    assert local["suspects"] > 0


def test_the_guide_runs(connected: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for seed, entity in enumerate(ENTITIES[:2]):
        for folder, table in (("plant", frame(1200, seed)), ("plant-new", day(seed + 1))):
            (tmp_path / folder / f"entity={entity}").mkdir(parents=True)
            table.to_parquet(tmp_path / folder / f"entity={entity}" / "part-0.parquet")
    guide = (ROOT / "docs/guides/cluster.md").read_text()
    [commands] = re.findall(r"^```console\n(.*?)^```", guide, flags=re.DOTALL | re.MULTILINE)
    for command in commands.splitlines():
        answer = tsadc(*shlex.split(command)[1:])
        assert answer.code == 0, answer.err
    scope: dict[str, pd.DataFrame] = {}
    [code] = re.findall(r"^```python\n(.*?)^```", guide, flags=re.DOTALL | re.MULTILINE)
    exec(code, scope)
    assert set(scope["intervals"]["entity"]) <= set(ENTITIES)
    assert len(scope["intervals"]) == manifest(tmp_path / "found")["totals"]["intervals"] > 0


def test_two_processes_train_one_network(connected: object, data: Path, tmp_path: Path) -> None:
    """With the same batches as one process, so the losses are the same, up to the order of sums."""
    words = ("fit", data, *QUICK, "--epochs", "2", "--seed", "3")
    assert tsadc(*words, "--out", tmp_path / "one").code == 0
    answer = tsadc(*words, "--out", tmp_path / "two", "--engine", "ray", "--workers", "2")
    assert answer.code == 0, answer.err
    assert re.findall(r"^epoch (\d)/2  loss \d", answer.out, flags=re.MULTILINE) == ["1", "2"]  # as locally
    one, two = (load(tmp_path / name) for name in ("one", "two"))
    losses = [[epoch["loss"] for epoch in model.provenance_["training"]["epochs"]] for model in (one, two)]
    assert len(losses[0]) == 2
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
    np.testing.assert_allclose(two.decision_scores_, one.decision_scores_, rtol=1e-3, atol=1e-3)
    refused = tsadc(*words, "--out", tmp_path / "three", "--engine", "ray", "--workers", "9").refusal
    assert refused == "--workers 9 needs 9 cores, but the cluster has 2; ask for fewer."
    refused = tsadc("fit", data, "--out", tmp_path / "three", "--engine", "ray", "--workers", "2").refusal
    assert refused == "--workers trains a network, but ensemble has none; leave it out."


def test_an_error_in_a_process_of_several_is_one_sentence(connected: object) -> None:
    with connect(connected.address) as engine:
        outcome = engine.together(operator.setitem, engine.share((1, 2)), 2, print)
    assert outcome.value is None
    assert outcome.error == "It failed unexpectedly: TypeError: 'tuple' object does not support item assignment."


def test_processes_that_get_no_cores_are_not_waited_for(connected: object, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    class Other:
        def ready(self) -> bool:
            return True

    monkeypatch.setattr("tsadc.cluster.engine.PLACING", 2.0)
    other = ray.remote(num_cpus=1)(Other).remote()
    assert ray.get(other.ready.remote())
    try:
        with (
            connect(connected.address) as engine,
            pytest.warns(TsadcNotice, match=r"^Waiting for 2 free cores of the cluster\.$"),
        ):
            outcome = engine.together(operator.setitem, engine.share([1, 2]), 2, print)
    finally:
        ray.kill(other)
    assert outcome.value is None
    assert outcome.error == "There were not 2 free cores for 2 s; wait for other programs, or lower --workers."


def test_a_benchmark_has_the_same_records(connected: object, tmp_path: Path) -> None:
    own_data(tmp_path)
    (tmp_path / "plan.toml").write_text(OWN_PLAN)
    records = {}
    for engine, more in (("local", ()), ("ray", ("--address", connected.address))):
        answer = tsadc("bench", "run", tmp_path / "plan.toml", "--out", tmp_path / engine, "--engine", engine, *more)
        assert answer.code == 0, answer.err
        [file] = (tmp_path / engine).glob("*.jsonl")
        records[engine] = [json.loads(line) for line in file.read_text().splitlines()]
    metrics = [
        [(record["detector"], record["seed"], record["auroc"], record["ap"]) for record in own]
        for own in records.values()
    ]
    assert sorted(metrics[0]) == sorted(metrics[1])
    assert len(metrics[0]) == 4


def test_another_version_on_a_node_is_refused(connected: object, data: Path, model: Path, tmp_path: Path) -> None:
    with mock.patch.object(package, "__version__", "99.0"):
        answer = on_ray(connected, data, "--model", model, "--out", tmp_path / "found")
    assert f"has tsadc {package.__version__}, but this machine has 99.0" in answer.refusal
    assert not manifest(tmp_path / "found")["complete"]


def test_a_shared_value_may_be_larger_than_the_object_store(connected: object) -> None:
    with connect(connected.address) as engine:
        shared = engine.share(np.ones(STORE // 4, dtype=np.float64))  # twice the store: Ray uses the disk
        outcomes = dict(engine.map(operator.getitem, shared, [1, 2]))
    assert {item: outcome.value for item, outcome in outcomes.items()} == {1: 1.0, 2: 1.0}


@pytest.fixture
def bucket() -> Iterator[str]:
    """A bucket on a real S3 server."""
    # Not another one on the path: uploads in parts fail with moto 5.2.1.
    program = shutil.which("moto_server", path=str(ROOT / ".venv-s3/bin"))
    if program is None:
        pytest.skip("no S3 server is installed: make s3-server")
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([program, "-p", str(S3_PORT)], **silent) as server:
        try:
            wait_until(answers)
            with mock.patch.dict(os.environ, S3):
                s3().create_dir("plant")
                yield "plant"
        finally:
            server.terminate()


def s3() -> object:
    from pyarrow.fs import S3FileSystem

    return S3FileSystem(allow_bucket_creation=True, endpoint_override=f"127.0.0.1:{S3_PORT}", scheme="http")


def answers() -> bool:
    with socket.socket() as attempt:
        return attempt.connect_ex(("127.0.0.1", S3_PORT)) == 0


def wait_until(holds: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_data_and_results_on_s3(
    connected: object, bucket: str, data: Path, model: Path, local: Path, tmp_path: Path
) -> None:
    from pyarrow.fs import LocalFileSystem, copy_files

    copy_files(str(data), f"{bucket}/data", source_filesystem=LocalFileSystem(), destination_filesystem=s3())
    here, out, nowhere = (
        f"s3://{bucket}/{name}?endpoint_override=127.0.0.1:{S3_PORT}&scheme=http" for name in ("data", "found", "other")
    )
    answer = on_ray(connected, here, "--model", model, "--out", out)
    assert answer.code == 0, answer.err
    copies = {"source_filesystem": s3(), "destination_filesystem": LocalFileSystem()}
    copy_files(f"{bucket}/found", str(tmp_path / "found"), **copies)
    assert_same(tmp_path / "found", local)
    assert manifest(tmp_path / "found")["data"] == [here]
    assert "exists already" in on_ray(connected, here, "--model", model, "--out", out).refusal
    nothing = on_ray(connected, nowhere, "--model", model, "--out", tmp_path / "none")
    assert f"There is nothing at s3://{bucket}/other" in nothing.refusal


@pytest.mark.parametrize(
    ("command", "stop", "code", "sentence"),
    [
        ("detect", signal.SIGTERM, 143, "terminated; run the same command again to continue."),
        ("detect", signal.SIGINT, 130, "interrupted; run the same command again to continue."),
        ("fit", signal.SIGTERM, 143, "terminated; nothing was saved, so start again with the same command."),
    ],
)
def test_a_signal_ends_a_command_on_a_cluster_with_a_sentence(
    command: str, stop: signal.Signals, code: int, sentence: str, cluster: object, model: Path, tmp_path: Path
) -> None:
    """While its tasks run: each reads its file, which is a pipe that nobody fills."""
    pipe = tmp_path / "pump.parquet"
    os.mkfifo(pipe)
    more = ("--model", model) if command == "detect" else ("--length", "40")
    words = (command, pipe, *more, "--out", tmp_path / "out", "--engine", "ray", "--address", cluster.address)
    running = subprocess.Popen(
        [sys.executable, "-m", "tsadc", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        reached = os.open(pipe, os.O_WRONLY)  # waits until a task opens it
        running.send_signal(stop)
        out, err = running.communicate(timeout=60)
        os.close(reached)
    finally:
        running.kill()
    assert (running.returncode, out, err) == (code, "", f"tsadc: {sentence}\n")


# The last test, as it takes a node away.
def test_a_node_that_is_lost_costs_nothing_but_time(connected: object, model: Path, tmp_path: Path) -> None:
    folder, out = tmp_path / "plant", tmp_path / "found"
    folder.mkdir()
    for seed in range(6):
        day(seed, 1200).to_parquet(folder / f"m{seed}.parquet")
    answer = tsadc("detect", folder, "--model", model, "--out", tmp_path / "local.parquet")
    assert answer.code == 0, answer.err
    done_when_killed = []

    def kill() -> None:
        wait_until(lambda: any(out.glob("entities/*.json")))
        done_when_killed.append(len(list(out.glob("entities/*.json"))))
        [node] = [node for node in connected.list_all_nodes() if not node.is_head()]
        connected.remove_node(node, allow_graceful=False)

    killer = threading.Thread(target=kill)
    killer.start()
    answer = on_ray(connected, folder, "--model", model, "--out", out)
    killer.join()
    assert answer.code == 0, answer.err
    assert 1 <= done_when_killed[0] < 6
    assert_same(out, tmp_path / "local.parquet")
    whole = manifest(out)
    assert whole["complete"]
    assert whole["totals"]["rows_in"] == whole["totals"]["rows_out"] == 6 * 1200
    # What the lost processes were writing just then may be left under names that readers of Parquet skip.
    assert all(left.name.startswith(".") for left in out.rglob("*.partial"))
