"""Child processes that do not outlive their parent."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable


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
