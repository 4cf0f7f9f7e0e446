"""A parallel map over threads whose results do not depend on the number of threads.

Threads inside an operation (OpenMP) gain little on tensors of this size, and lose much on shared cores, where all of
them spin until the last one is done. Here each thread works on whole observations, with single-threaded operations.
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

from tsadc.nn.runtime.blas import each_within, single_threaded_blas

T = TypeVar("T")
R = TypeVar("R")


def available() -> int:
    """Return the number of threads to use: the cores of this process, limited by `torch.get_num_threads`.

    Both OMP_NUM_THREADS and `torch.set_num_threads` lower that limit.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, torch.get_num_threads()))


def parallel_map(function: Callable[[T], R], items: Iterable[T], ahead: int = 1) -> Iterator[R]:
    """Yield `function(item)` for each item, in order, computed on all threads.

    At most `ahead` items more than there are threads are running or waiting. Gradient mode belongs to a thread, so
    `function` must set it. While the caller handles a result, its own thread settings are in force.
    """
    count = available()
    if count == 1:
        yield from each_within(single_threaded, map(function, items))
        return
    waiting: deque[Future[R]] = deque()
    try:
        for item in each_within(single_threaded, items):
            waiting.append(_pool(count, os.getpid()).submit(_run, function, item))
            if len(waiting) >= count + ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
        torch.set_num_threads(torch.get_num_threads())  # the pool's threads changed the default of new threads


@contextmanager
def single_threaded() -> Iterator[None]:
    """Run the torch operations of this thread, and all BLAS calls of numpy, on one thread each."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with single_threaded_blas():
            yield
    finally:
        torch.set_num_threads(before)


def _run(function: Callable[[T], R], item: T) -> R:
    """Call `function` in a thread of the pool, whose torch operations are single-threaded already."""
    with single_threaded_blas():
        return function(item)


@cache
def _pool(count: int, process: int) -> ThreadPoolExecutor:
    """Return this process's pool; a forked process inherits the object, but not its threads."""
    return ThreadPoolExecutor(count, "tsadc", initializer=_use_one_thread)


def _use_one_thread() -> None:
    torch.get_num_threads()  # the first call in a thread would undo a setting made before it
    torch.set_num_threads(1)
