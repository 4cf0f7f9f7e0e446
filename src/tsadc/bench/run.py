"""Cells are run by training, in one process or several; each record is kept as soon as it is known."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from tsadc.bench.cell import Cell, Record
from tsadc.bench.job import run
from tsadc.bench.records import Store


def run_all(cells: Sequence[Cell], raw: Path, store: Store, jobs: int = 1) -> Iterator[tuple[Cell, Record]]:
    """Cells with their records, in the order in which they are done."""
    groups = trainings(cells)
    if jobs == 1:
        for group in groups:
            yield from run_and_keep(group, raw, store)
        return
    # Forked after torch has started threads, a process may hang. A fresh one for each training also knows its memory.
    pool = ProcessPoolExecutor(
        jobs, mp_context=multiprocessing.get_context("spawn"), initializer=end_with_parent, max_tasks_per_child=1
    )
    try:
        with _interruptions_held():  # by processes too, which begin so, until they can end without a word
            futures = [pool.submit(_together, group, raw, store) for group in groups]
        for future in as_completed(futures):
            yield from future.result()
    except BaseException:
        for process in multiprocessing.active_children():  # trainings are kept, and need not be waited for
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


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


def end_with_parent() -> None:
    """From now on this process ends as soon as the one that started it is gone, even if that was killed, and without a
    word when both are interrupted."""
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))
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
