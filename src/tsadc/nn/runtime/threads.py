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

from tsadc.nn.runtime.blas import each_within, without_threads

T = TypeVar("T")
R = TypeVar("R")


def available() -> int:
    """Threads to use: the cores of this process, or fewer where OMP_NUM_THREADS or `torch.set_num_threads` say so."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, torch.get_num_threads()))


def spread(work: Callable[[T], R], items: Iterable[T], ahead: int = 1) -> Iterator[R]:
    """`work` of each item, in their order, on all threads; at most `ahead` more than there are threads are begun or
    waiting at a time. Gradient mode is each thread's own: `work` sets it. Who reads the results has the threads inside
    operations that it had before."""
    count = available()
    if count == 1:
        yield from each_within(alone, map(work, items))
        return
    waiting: deque[Future[R]] = deque()
    try:
        for item in each_within(alone, items):
            waiting.append(_pool(count, os.getpid()).submit(_by_itself, work, item))
            if len(waiting) >= count + ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
        torch.set_num_threads(torch.get_num_threads())  # what new threads start with: those of the pool have changed it


@contextmanager
def alone() -> Iterator[None]:
    """No threads inside operations, neither torch's, which are each thread's own, nor those of numpy's products."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with without_threads():
            yield
    finally:
        torch.set_num_threads(before)


def _by_itself(work: Callable[[T], R], item: T) -> R:
    """In a thread of the pool, where torch has no others."""
    with without_threads():
        return work(item)


@cache
def _pool(count: int, process: int) -> ThreadPoolExecutor:
    """Each process has its own: a forked one inherits the object, but not its threads."""
    return ThreadPoolExecutor(count, "tsadc", initializer=_settle)


def _settle() -> None:
    torch.get_num_threads()  # a thread's first question would undo what was set before it
    torch.set_num_threads(1)
