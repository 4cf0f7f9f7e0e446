"""Cells are run by training, in one process or several; each record is kept as soon as it is known."""

from __future__ import annotations

import multiprocessing
import os
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
        for future in as_completed([pool.submit(_together, group, raw, store) for group in groups]):
            yield from future.result()
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


def end_with_parent() -> None:
    """From now on this process ends as soon as the one that started it is gone, even if that was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_outlive, args=(parent.join,), daemon=True).start()


def _outlive(wait: Callable[[], None]) -> None:
    wait()
    os._exit(1)


def _together(group: list[Cell], raw: Path, store: Store) -> list[tuple[Cell, Record]]:
    return list(run_and_keep(group, raw, store))
