import multiprocessing
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tsadc.bench import run
from tsadc.bench.job import Job, Record
from tsadc.bench.measure import Arrays
from tsadc.bench.records import Store, job_of, load
from tsadc.bench.run import BATCH, batches, run_all, trainings
from tsadc.errors import TsadcError

HERE = Path(".")


@pytest.mark.usefixtures("tiny")
def test_what_shares_a_training_is_run_together() -> None:
    jobs = [Job(data, "random", seed) for data in ("tiny", "tiny-adapted") for seed in (0, 1)]
    other = Job("tiny", "random", 0, overrides={"contamination": 0.2})
    assert trainings([*jobs, other]) == [[jobs[0], jobs[2]], [jobs[1], jobs[3]], [other]]


@pytest.mark.usefixtures("tiny")
def test_a_process_runs_several_jobs_without_a_network_on_one_draw() -> None:
    jobs = [
        Job("tiny", "random", seed, overrides={"contamination": share / 100})
        for seed in (0, 1)
        for share in range(1, BATCH + 2)
    ]
    network = Job("tiny", "usad", 1)
    found = batches([*jobs, network, Job("tiny", "ridge", 1)])
    assert [len(batch) for batch in found] == [BATCH, 1, BATCH, 1, 1, 1]
    assert [job for batch in found for job in batch] == [*jobs, network, Job("tiny", "ridge", 1)]


@pytest.mark.usefixtures("tiny")
def test_a_record_is_kept_before_the_next_is_made(tmp_path: Path) -> None:
    store = Store(tmp_path)
    running = run_all([Job("tiny", "random", seed) for seed in (0, 1)], HERE, store)
    job, record = next(running)
    assert load(tmp_path) == [record]
    assert job.seed == 0
    assert [job.seed for job, _ in running] == [1]
    assert len(load(tmp_path)) == 2


@pytest.mark.slow
def test_several_processes_give_the_same_records(tmp_path: Path) -> None:
    jobs = [Job("plant", name, 0) for name in ("random", "robust-z")]
    alone = {job.variant: timeless(record) for job, record in run_all(jobs, HERE, Store(tmp_path / "1"))}
    several = {job.variant: timeless(record) for job, record in run_all(jobs, HERE, Store(tmp_path / "2"), processes=2)}
    assert set(alone) == {"random", "robust-z"}
    assert several == alone
    assert len(load(tmp_path / "2")) == 2


PARENT = """
import multiprocessing, os, sys, time
from tsadc.nn.runtime.processes import end_with_parent

def work():
    end_with_parent()
    print(os.getppid(), flush=True)
    time.sleep(600)

if __name__ == "__main__":
    multiprocessing.get_context("spawn").Process(target=work).start()
    time.sleep(600)
"""


def test_a_worker_ends_with_its_parent_even_if_that_was_killed(tmp_path: Path) -> None:
    file = tmp_path / "parent.py"
    file.write_text(PARENT)
    with subprocess.Popen([sys.executable, file], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert int(parent.stdout.readline()) == parent.pid
        parent.kill()
        # The worker has the other end: there is more to wait for as long as it lives.
        assert parent.communicate(timeout=60)[0] == ""


def test_every_worker_of_a_run_watches_its_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []

    class Pool:
        def __init__(self, processes: int, context: object, initializer: object, given: object) -> None:
            made.extend([processes, initializer])
            raise RuntimeError

    monkeypatch.setattr(run, "ProcessPoolExecutor", Pool)
    with pytest.raises(RuntimeError):
        list(run_all([Job("plant", "random", 0)], HERE, Store(tmp_path), processes=2))
    assert made == [1, run._begin]


class Deadly(Store):
    """Its process is killed once it has kept a record of seed 0, unless that is of `robust-z`."""

    def keep(self, record: Record, scores: Arrays) -> None:
        super().keep(record, scores)
        if multiprocessing.parent_process() and record["seed"] == 0 and record["detector"] != "robust-z":
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
def test_what_a_killed_process_leaves_gets_a_failure_and_the_others_go_on(tmp_path: Path) -> None:
    # Those of one training: heads of one network. The second is what the process did not come to.
    quick = {"training": {"epochs": 1}}
    heads = [
        Job("plant", "usad", 0, overrides={**quick, "scoring": scoring}, observations=8) for scoring in ("fused", "own")
    ]
    store = Deadly(tmp_path)
    running = run_all([*heads, Job("plant", "robust-z", 0)], HERE, store, processes=2)
    other, first, second = (one for _, one in sorted(running, key=lambda pair: pair[0].detector))
    assert (job_of(first).scoring, "error" in first) == ("fused", False)
    assert (job_of(second).scoring, second["error"]) == ("own", run.KILLED["error"])
    assert "auroc" in other
    assert sorted("error" in one for one in load(tmp_path)) == [False, False, True]


class Fatal(Store):
    """Its process is killed in place of keeping a record of `robust-z`."""

    def keep(self, record: Record, scores: Arrays) -> None:
        if multiprocessing.parent_process() and record["detector"] == "robust-z":
            os.kill(os.getpid(), signal.SIGKILL)
        super().keep(record, scores)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
def test_only_the_job_that_was_running_fails_if_its_process_is_killed(tmp_path: Path) -> None:
    jobs = [Job("plant", name, 0) for name in ("random", "robust-z", "all-positive")]
    records = {job.detector: record for job, record in run_all(jobs, HERE, Fatal(tmp_path), processes=2)}
    assert {name: "error" in record for name, record in records.items()} == {
        "random": False,
        "robust-z": True,
        "all-positive": False,
    }
    assert records["robust-z"]["error"] == run.KILLED["error"]
    assert len(load(tmp_path)) == 3


def test_a_process_that_cannot_begin_blames_no_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_begin", os._exit)  # of an event: an initializer that fails
    with pytest.raises(TsadcError, match=r"^A process ended before it could begin; go on with --processes 1\.$"):
        list(run_all([Job("plant", "random", 0)], HERE, Store(tmp_path), processes=2))
    assert load(tmp_path) == []


def test_an_interruption_while_trainings_are_handed_out_stops_those_that_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Threads(ThreadPoolExecutor):
        handed = 0

        def submit(self, *given: Any, **more: Any) -> Any:
            self.handed += 1
            if self.handed == 3:
                raise KeyboardInterrupt
            return super().submit(*given, **more)

    monkeypatch.setattr(run, "ThreadPoolExecutor", Threads)
    slow = [Job("plant", "gru-gnn", seed, overrides={"training": {"epochs": 1000}}) for seed in range(3)]
    with pytest.raises(KeyboardInterrupt):
        list(run_all(slow, HERE, Store(tmp_path), processes=2))
    assert multiprocessing.active_children() == []
    assert load(tmp_path) == []


@pytest.mark.slow
def test_a_run_that_is_left_kills_its_processes_and_blames_no_job(tmp_path: Path) -> None:
    slow = Job("plant", "gru-gnn", 0, overrides={"training": {"epochs": 1000}})
    running = run_all(
        [Job("plant", "random", 0), slow, Job("plant", "robust-z", 1)], HERE, Store(tmp_path), processes=2
    )
    assert next(running)[0].detector == "random"
    running.close()
    assert multiprocessing.active_children() == []
    assert all("error" not in one for one in load(tmp_path))
    assert "gru-gnn" not in [one["detector"] for one in load(tmp_path)]


def timeless(record: Record) -> Record:
    own = ("made", "peak_bytes")
    return {name: value for name, value in record.items() if not name.endswith("_seconds") and name not in own}
