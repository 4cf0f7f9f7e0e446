"""Independent pieces of work side by side, one thread each.

Threads inside an operation (OpenMP) gain little on tensors of this size, and lose much where the cores are shared: the
one that is late lets all others spin. Here whole observations are given out, results come back in order, and nothing
that is computed depends on how many threads there are.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

import torch

from tsadc.nn.blas import without_threads

T = TypeVar("T")
R = TypeVar("R")


def available() -> int:
    """Threads to use: the cores of this process, or fewer where OMP_NUM_THREADS or `torch.set_num_threads` say so."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, torch.get_num_threads()))


def spread(work: Callable[[T], R], items: Iterable[T], ahead: int = 1) -> Iterator[R]:
    """`work` of each item, in their order, on all threads; at most `ahead` more than there are threads are begun or
    waiting at a time. Gradient mode is each thread's own: `work` sets it."""
    count = available()
    if count == 1:
        yield from map(work, items)
        return
    with _alone():
        waiting: deque[Future[R]] = deque()
        try:
            for item in items:
                waiting.append(_pool(count, os.getpid()).submit(work, item))
                if len(waiting) >= count + ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


@contextmanager
def _alone() -> Iterator[None]:
    """No threads inside operations, neither torch's nor those of numpy's products."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with without_threads():
            yield
    finally:
        torch.set_num_threads(before)


@cache
def _pool(count: int, process: int) -> ThreadPoolExecutor:
    """Each process has its own: a forked one inherits the object, but not its threads."""
    return ThreadPoolExecutor(count, "tsadc", initializer=torch.set_num_threads, initargs=(1,))
