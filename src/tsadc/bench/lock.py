"""One run at a time writes into a folder, and of several processes one at a time makes what all of them need. The lock
is the system's, which lets go of it when its process ends, however that comes about: a run that was killed never blocks
the next."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from tsadc.errors import OutputError

LOCK = ".lock"
TAKEN = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Nobody else is in here with this folder, which is made if need be; refused where somebody is."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = _take(folder / LOCK)
    except OSError as error:
        raise OutputError(f"{folder} cannot be written: {error.strerror or error}.") from None
    if descriptor is None:
        raise OutputError(
            f"Another `tsadc bench run` writes into {folder}; wait until it is done, or choose another --out."
        )
    try:
        yield
    finally:
        _let_go(descriptor, folder / LOCK)


@contextlib.contextmanager
def in_turn(file: Path) -> Iterator[None]:
    """Nobody else is in here with this lock file; who comes meanwhile waits."""
    while (descriptor := _take(file, wait=True)) is None:
        continue
    try:
        yield
    finally:
        _let_go(descriptor, file)


def _take(file: Path, wait: bool = False) -> int | None:
    """None where somebody else holds it."""
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _lock(descriptor, wait)
        except OSError as error:
            # Some file systems have no locks; better a run without than none.
            if error.errno in TAKEN:
                os.close(descriptor)
                return None
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.stat(file)):
                return descriptor
        os.close(descriptor)


def _let_go(descriptor: int, file: Path) -> None:
    # While it is still held: who has opened it meanwhile sees that it is gone and makes another.
    with contextlib.suppress(OSError):
        file.unlink()
    os.close(descriptor)


def _lock(descriptor: int, wait: bool) -> None:
    if sys.platform == "win32":
        import msvcrt

        # Waits for ten seconds, then it is taken.
        msvcrt.locking(descriptor, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
