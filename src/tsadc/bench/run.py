"""Run jobs that share a training together, in one process or several, and keep each record as soon as it is known. If a
process is killed, the job that it was running gets a record that says so."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from multiprocessing.synchronize import Event
from pathlib import Path

from tsadc.bench.execute import beginning, run
from tsadc.bench.job import Job, Record
from tsadc.bench.records import Store, key_of, load
from tsadc.errors import TsadcError
from tsadc.nn.runtime.processes import end_with_parent, interruptions_held

BATCH = 8  # most jobs without a network that a process runs: it takes longer to start than many of them
KILLED = {
    "error": "Killed: The process was killed, perhaps for lack of memory; run it again with --retry --processes 1.",
    "error_at": "unknown",
}


def run_all(jobs: Sequence[Job], raw: Path, store: Store, processes: int = 1) -> Iterator[tuple[Job, Record]]:
    """Yield jobs with their records, in the order in which they finish."""
    if processes == 1:
        for group in trainings(jobs):
            yield from run_and_keep(group, raw, store)
        return
    stopping = threading.Event()
    threads = ThreadPoolExecutor(processes)
    futures: list[Future[list[tuple[Job, Record]]]] = []
    try:
        for batch in batches(jobs):
            futures.append(threads.submit(_in_a_process, batch, raw, store, stopping))
        for future in as_completed(futures):
            yield from future.result()
    except BaseException:
        stopping.set()
        threads.shutdown(wait=False, cancel_futures=True)
        while not all(future.done() for future in futures):
            for process in multiprocessing.active_children():  # trainings are kept, so there is no need to wait
                process.terminate()
            time.sleep(0.05)
        raise
    finally:
        threads.shutdown(cancel_futures=True)


def _in_a_process(jobs: list[Job], raw: Path, store: Store, stopping: threading.Event) -> list[tuple[Job, Record]]:
    """Run the jobs of a batch in a process of their own. If it is killed, the job that it was running gets a record
    that says so, and those after it are run in another process, unless `stopping` is set."""
    if stopping.is_set() or not jobs:
        return []
    spawn = multiprocessing.get_context("spawn")  # forked after torch has started threads, a process may hang
    started = spawn.Event()
    before = _records(store)
    with ProcessPoolExecutor(1, spawn, _begin, (started,)) as pool:
        try:
            with interruptions_held():  # the process starts so, until it ignores interruptions itself
                future = pool.submit(_together, jobs, raw, store)
            return future.result()
        except BrokenExecutor:
            if stopping.is_set():
                return []
            if not started.is_set():
                raise TsadcError("A process ended before it could begin; go on with --processes 1.") from None
    after = _records(store)
    new = {job.key: after[job.key] for job in jobs if job.key in after and after[job.key] != before.get(job.key)}
    done = [(job, new[job.key]) for job in jobs if job.key in new]
    left = [job for job in jobs if job.key not in new]
    killed = [(job, _killed(job, raw, store)) for job in left[:1]]
    return [*done, *killed, *_in_a_process(left[1:], raw, store, stopping)]


def _records(store: Store) -> dict[tuple[str, str, int], Record]:
    return {key_of(record): record for record in load(store.out)} if store.out.exists() else {}


def _killed(job: Job, raw: Path, store: Store) -> Record:
    record = beginning(job, raw) | KILLED
    store.keep(record, {})
    return record


def run_and_keep(jobs: Sequence[Job], raw: Path, store: Store) -> Iterator[tuple[Job, Record]]:
    """Run jobs of one training, keep each record, and yield it."""
    for job, record, scores in run(jobs, raw, store.training):
        store.keep(record, scores)
        yield job, record


def trainings(jobs: Sequence[Job]) -> list[list[Job]]:
    """Group the jobs that share a training."""
    groups: dict[str, list[Job]] = {}
    for job in jobs:
        groups.setdefault(job.training, []).append(job)
    return list(groups.values())


def batches(jobs: Sequence[Job]) -> list[list[Job]]:
    """Group the jobs that one process runs: those of one training if it is of a network, else up to about `BATCH` jobs
    on the same data and seed."""
    found: list[list[Job]] = []
    for group in trainings(jobs):
        job = group[0]
        same = found and not found[-1][0].network and (found[-1][0].data, found[-1][0].seed) == (job.data, job.seed)
        if same and not job.network and len(found[-1]) < BATCH:
            found[-1] += group
        else:
            found.append(list(group))
    return found


def _begin(started: Event) -> None:
    end_with_parent()
    started.set()


def _together(jobs: list[Job], raw: Path, store: Store) -> list[tuple[Job, Record]]:
    return [finished for group in trainings(jobs) for finished in run_and_keep(group, raw, store)]
