"""Run jobs that share a training together, in one process or several, and keep each record as soon as it is known. Jobs
of a process that was killed get a record that says so."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from multiprocessing.synchronize import Event
from pathlib import Path

from tsadc.bench.execute import beginning, run
from tsadc.bench.job import Job, Record
from tsadc.bench.records import Store, key_of, load
from tsadc.errors import TsadcError

KILLED = {
    "error": "Killed: The process was killed, perhaps for lack of memory; run it again with --retry --processes 1.",
    "error_at": "unknown",
}


def run_all(jobs: Sequence[Job], raw: Path, store: Store, processes: int = 1) -> Iterator[tuple[Job, Record]]:
    """Yield jobs with their records, in the order in which they finish."""
    groups = trainings(jobs)
    if processes == 1:
        for group in groups:
            yield from run_and_keep(group, raw, store)
        return
    stopping = threading.Event()
    threads = ThreadPoolExecutor(processes)
    futures: list[Future[list[tuple[Job, Record]]]] = []
    try:
        for group in groups:
            futures.append(threads.submit(_in_a_process, group, raw, store, stopping))
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


def _in_a_process(group: list[Job], raw: Path, store: Store, stopping: threading.Event) -> list[tuple[Job, Record]]:
    """Run jobs of one training in a process of their own. Its peak memory is its own, and if it is killed, no other job
    is lost; the jobs without a record then get one that says so, unless `stopping` is set."""
    if stopping.is_set():
        return []
    spawn = multiprocessing.get_context("spawn")  # forked after torch has started threads, a process may hang
    started = spawn.Event()
    before = _records(store)
    with ProcessPoolExecutor(1, spawn, _begin, (started,)) as pool:
        try:
            with _interruptions_held():  # the process starts so, until it ignores interruptions itself
                future = pool.submit(_together, group, raw, store)
            return future.result()
        except BrokenExecutor:
            if stopping.is_set():
                return []
            if not started.is_set():
                raise TsadcError("A process ended before it could begin; go on with --processes 1.") from None
    after = _records(store)
    new = {job.key: after[job.key] for job in group if job.key in after and after[job.key] != before.get(job.key)}
    return [(job, new[job.key] if job.key in new else _killed(job, raw, store)) for job in group]


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


@contextlib.contextmanager
def _interruptions_held() -> Iterator[None]:
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(started: Event) -> None:
    end_with_parent()
    started.set()


def end_with_parent() -> None:
    """Make this process end when its parent does, even if that is killed. Ignore interruptions of both: the parent
    ends this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_exit_after, args=(parent.join,), daemon=True).start()


def _exit_after(wait: Callable[[], None]) -> None:
    wait()
    os._exit(1)


def _together(group: list[Job], raw: Path, store: Store) -> list[tuple[Job, Record]]:
    return list(run_and_keep(group, raw, store))
