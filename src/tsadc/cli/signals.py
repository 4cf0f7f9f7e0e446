"""Stop on SIGTERM as on Ctrl-C: what is half-written is removed, and one sentence says how to go on."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import NoReturn

INTERRUPTED, TERMINATED = 130, 143  # exit codes: 128 and the number of the signal


class Terminated(BaseException):
    """The process was asked to end (SIGTERM)."""


class Interrupted(BaseException):
    """The user has pressed Ctrl-C."""


@contextlib.contextmanager
def stopping_on_sigterm() -> Iterator[None]:
    """Raise `Terminated` in the block when the signal arrives, so that it cleans up as after an error."""

    def stop(number: int, frame: object) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # cleaning up must not be interrupted
        raise Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def stopped(stop: BaseException) -> tuple[str, int]:
    """Return the word for a message, and the exit code."""
    return ("terminated", TERMINATED) if isinstance(stop, Terminated) else ("interrupted", INTERRUPTED)
