"""Child processes that do not outlive their parent."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator


def end_with_parent() -> None:
    """Make this process end when its parent does, even if that is killed. Ignore interruptions of both: the parent
    ends this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_exit_after, args=(parent.join,), daemon=True).start()


@contextlib.contextmanager
def interruptions_held() -> Iterator[None]:
    """Start processes that ignore Ctrl-C from the beginning: a signal that is blocked here is blocked in them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # it would be started with the first process, and unblock the signal here
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _exit_after(wait: Callable[[], None]) -> None:
    wait()
    os._exit(1)
