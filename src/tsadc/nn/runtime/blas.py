"""numpy's products without threads of their own. On matrices of this size they gain nothing; on shared cores they
wait for each other ten times as long as they work, and the last bits of a sum depend on their number.

The limit is that of the whole process, so it is counted: the first to enter sets it, the last to leave lifts it,
whichever threads they are and in whatever order they leave.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from threading import Lock
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

T = TypeVar("T")


@contextmanager
def without_threads() -> Iterator[None]:
    """Within, a product runs on the thread that asks for it. Nothing may be yielded within: see `each_within`."""
    _limit.enter()
    try:
        yield
    finally:
        _limit.leave()


def each_within(limit: Callable[[], AbstractContextManager[None]], items: Iterable[T]) -> Iterator[T]:
    """The items, each made within `limit` and given away outside of it, where the caller's own code runs."""
    iterator, end = iter(items), object()
    while True:
        with limit():
            item: Any = next(iterator, end)
        if item is end:
            return
        yield item


class _Limit:
    """How many are within, and the threads that each library had before."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.count = self.modules = 0
        self.libraries: dict[str, Any] = {}
        self.before: dict[str, int] = {}

    def enter(self) -> None:
        with self.lock:
            new = self._look()
            if self.count == 0 or new:
                now = {path: one.get_num_threads() for path, one in self.libraries.items() if path not in self.before}
                several = {path: number for path, number in now.items() if number not in (1, None)}
                self._set(dict.fromkeys(several, 1))
                self.before |= several
            self.count += 1

    def leave(self) -> None:
        with self.lock:
            self.count -= 1
            if self.count == 0:
                self._set(self.before)
                self.before = {}

    def _look(self) -> bool:
        """For libraries, which takes milliseconds: only where modules have been imported since, that may bring one."""
        if len(sys.modules) == self.modules:
            return False
        found = ThreadpoolController().lib_controllers
        self.libraries |= {one.filepath: one for one in found if one.user_api == "blas"}
        self.modules = len(sys.modules)
        return True

    def _set(self, numbers: Mapping[str, int]) -> None:
        # Newer versions heed only the thread that asked first, until it is forgotten. All libraries share that thread.
        kinds = {type(self.libraries[path]) for path in numbers}
        forget = [kind.clear_controlling_thread for kind in kinds if hasattr(kind, "clear_controlling_thread")]
        for one in forget:
            one(force=True)
        for path, number in numbers.items():
            self.libraries[path].set_num_threads(number)
        for one in forget:
            one(force=True)


_limit = _Limit()
if hasattr(os, "register_at_fork"):  # another thread's hold on the lock would outlive it in the child
    os.register_at_fork(before=_limit.lock.acquire, after_in_parent=_limit.lock.release)
    os.register_at_fork(after_in_child=_limit.lock.release)
