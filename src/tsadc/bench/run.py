"""Cells are run by training, in one process or several; each record is kept as soon as it is known. What a process that
was killed leaves without one gets one that says so."""

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

from tsadc.bench.cell import Cell, Record
from tsadc.bench.job import beginning, run
from tsadc.bench.records import Store
from tsadc.errors import TsadcError

KILLED = {
    "type": "Killed",
    "message": "The process was killed, perhaps for want of memory; run it again with --retry --jobs 1.",
    "where": "unknown",
}


def run_all(cells: Sequence[Cell], raw: Path, store: Store, jobs: int = 1) -> Iterator[tuple[Cell, Record]]:
    """Cells with their records, in the order in which they are done."""
    groups = trainings(cells)
    if jobs == 1:
        for group in groups:
            yield from run_and_keep(group, raw, store)
        return
    over = threading.Event()
    threads = ThreadPoolExecutor(jobs)
    futures: list[Future[list[tuple[Cell, Record]]]] = []
    try:
        for group in groups:
            futures.append(threads.submit(_in_a_process, group, raw, store, over))
        for future in as_completed(futures):
            yield from future.result()
    except BaseException:
        over.set()
        threads.shutdown(wait=False, cancel_futures=True)
        while not all(future.done() for future in futures):
            for process in multiprocessing.active_children():  # trainings are kept, and need not be waited for
                process.terminate()
            time.sleep(0.05)
        raise
    finally:
        threads.shutdown(cancel_futures=True)


def _in_a_process(group: list[Cell], raw: Path, store: Store, over: threading.Event) -> list[tuple[Cell, Record]]:
    """Cells of one training with their records. Each group has a process of its own, which knows its memory, and takes
    no other with it if it is killed; none but `over` kills it without a failure."""
    if over.is_set():
        return []
    before = [store.current(cell, raw) for cell in group]
    spawn = multiprocessing.get_context("spawn")  # forked after torch has started threads, a process may hang
    begun = spawn.Event()
    with ProcessPoolExecutor(1, spawn, _begin, (begun,)) as pool:
        try:
            with _interruptions_held():  # by the process too, which begins so, until it takes no notice of them
                future = pool.submit(_together, group, raw, store)
            return future.result()
        except BrokenExecutor:
            if over.is_set():
                return []
            if not begun.is_set():
                raise TsadcError("A process ended before it could begin; go on with --jobs 1.") from None
    found = [(cell, store.current(cell, raw), old) for cell, old in zip(group, before, strict=True)]
    return [(cell, now if now is not None and now != old else _lost(cell, raw, store)) for cell, now, old in found]


def _lost(cell: Cell, raw: Path, store: Store) -> Record:
    """The record of a cell whose process was killed, which is kept."""
    record = beginning(cell, raw) | {"error": KILLED}
    store.keep(cell, record, {})
    return record


def run_and_keep(cells: Sequence[Cell], raw: Path, store: Store) -> Iterator[tuple[Cell, Record]]:
    """Cells of one training."""
    for cell, record, arrays in run(cells, raw, store.training):
        store.keep(cell, record, arrays)
        yield cell, record


def trainings(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Those that share their training together."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.training, []).append(cell)
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


def _begin(begun: Event) -> None:
    end_with_parent()
    begun.set()


def end_with_parent() -> None:
    """From now on this process ends as soon as the one that started it is gone, even if that was killed. Of an
    interruption of both it takes no notice: the other one ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_outlive, args=(parent.join,), daemon=True).start()


def _outlive(wait: Callable[[], None]) -> None:
    wait()
    os._exit(1)


def _together(group: list[Cell], raw: Path, store: Store) -> list[tuple[Cell, Record]]:
    return list(run_and_keep(group, raw, store))
