"""Single-threaded BLAS for numpy.

BLAS threads gain nothing on matrices of this size. On shared cores they wait for each other ten times as long as they
work, and the last bits of a sum depend on their number. The limit applies to the whole process, so it is counted: the
first thread to enter sets it and the last one to leave lifts it, in any order.
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
def single_threaded_blas() -> Iterator[None]:
    """Run each BLAS call on the thread that makes it. Do not yield to a caller inside the block: see `each_within`."""
    _limit.enter()
    try:
        yield
    finally:
        _limit.leave()


def each_within(limit: Callable[[], AbstractContextManager[None]], items: Iterable[T]) -> Iterator[T]:
    """Yield the items; each is computed inside the context `limit()`, and yielded outside."""
    iterator, end = iter(items), object()
    while True:
        with limit():
            item: Any = next(iterator, end)
        if item is end:
            return
        yield item


class _Limit:
    """The number of open blocks, and the number of threads that each library had before."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.count = self.modules = 0
        self.libraries: dict[str, Any] = {}
        self.before: dict[str, int] = {}

    def enter(self) -> None:
        with self.lock:
            new = self._find_libraries()
            if self.count == 0 or new:
                threads = {
                    path: library.get_num_threads()
                    for path, library in self.libraries.items()
                    if path not in self.before
                }
                multi = {path: number for path, number in threads.items() if number not in (1, None)}
                self._set(dict.fromkeys(multi, 1))
                self.before |= multi
            self.count += 1

    def leave(self) -> None:
        with self.lock:
            self.count -= 1
            if self.count == 0:
                self._set(self.before)
                self.before = {}

    def _find_libraries(self) -> bool:
        """Look for BLAS libraries; takes milliseconds, so only after imports, which may have loaded one."""
        if len(sys.modules) == self.modules:
            return False
        libraries = ThreadpoolController().lib_controllers
        self.libraries |= {library.filepath: library for library in libraries if library.user_api == "blas"}
        self.modules = len(sys.modules)
        return True

    def _set(self, numbers: Mapping[str, int]) -> None:
        # Newer versions of threadpoolctl obey only the first thread that changed a limit, until that is cleared.
        kinds = {type(self.libraries[path]) for path in numbers}
        clear = [kind.clear_controlling_thread for kind in kinds if hasattr(kind, "clear_controlling_thread")]
        for clear_thread in clear:
            clear_thread(force=True)
        for path, number in numbers.items():
            self.libraries[path].set_num_threads(number)
        for clear_thread in clear:
            clear_thread(force=True)


_limit = _Limit()
if hasattr(os, "register_at_fork"):  # a lock held by another thread would stay locked in the child
    os.register_at_fork(before=_limit.lock.acquire, after_in_parent=_limit.lock.release)
    os.register_at_fork(after_in_child=_limit.lock.release)
