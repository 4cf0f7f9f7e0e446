"""Write files and folders atomically: they appear complete or not at all, even after a kill or a power failure.

Content is written to a temporary name in the same folder, `.NAME.PROCESS-TOKEN.partial`, and then renamed. After an
error the temporary file is removed. After a kill, the next write to the same path removes it if it is older than a day
and its process has ended."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from tsadc.errors import OutputError, TsadcError

ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+")  # two letters or more: C:/ is a disk
STALE = 24 * 3600  # seconds


def write_file(path: Path, data: bytes) -> None:
    """Write the file, or replace it, and create its folder. A reader sees the old content or the new one, never a
    part."""
    with new_file(path) as temporary, temporary.open("xb") as file:
        file.write(data)


def refuse_existing(path: Path) -> None:
    """Raise if a folder cannot be made at the path, because something is there, or because it is an address."""
    _refuse_address(path)
    if path.exists():
        raise OutputError(f"{path} exists already; choose another name or remove it.")


def _refuse_address(path: Path) -> None:
    if address := ADDRESS.match(str(path)):
        whole = f"{address[1]}://{str(path)[address.end() :]}"
        raise OutputError(
            f"{whole} is an address, but this is written to a disk of this machine; name a folder, and copy it there "
            "afterwards (only `tsadc detect --engine ray` writes to an address)."
        )


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Yield a temporary name. The block writes a file there, which replaces `path` when the block ends."""
    with _output_errors(path):
        if path.is_dir():
            raise OutputError(f"{path} is a folder, but a file is to be written there; choose another name.")
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = _temporary_name(path)
        try:
            yield temporary
            _sync(temporary)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        _sync(path.parent)


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder that is renamed to `path` when the block ends, or removed if the block fails."""
    with _output_errors(path):
        refuse_existing(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = _temporary_name(path)
        temporary.mkdir()
        try:
            yield temporary
            _sync_tree(temporary)
            os.rename(temporary, path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        _sync(path.parent)


@contextlib.contextmanager
def locked(path: Path, busy: str) -> Iterator[None]:
    """Hold the lock file `path` during the block and remove it afterwards. Raise an OutputError with the message `busy`
    if another process holds it."""
    with _output_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            raise OutputError(busy) from None
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # Windows cannot remove a file that is open
            path.unlink()  # before the release, while no other process can hold it
        lock.release()


def locked_folder(out: Path) -> contextlib.AbstractContextManager[None]:
    """Let one process at a time change a folder: of two at once, one would undo what the other has done."""
    busy = f"Another command is changing {out}; wait until it has finished."
    return locked(out.with_name(f".{out.name}.lock"), busy)


@contextlib.contextmanager
def replaced_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder that replaces `path` when the block ends, or is removed if the block fails.

    A reader finds the old folder or the new one, even if the process is killed; see `exchange`."""
    with _output_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = _temporary_name(path)
        temporary.mkdir()
        try:
            yield temporary
            _sync_tree(temporary)
            if path.exists():
                exchange(temporary, path)
            else:
                os.rename(temporary, path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        _sync(path.parent)


def exchange(one: Path, other: Path) -> None:
    """Swap the names of two folders: in one step on Linux, otherwise with three renames."""
    if sys.platform == "linux":
        renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
        here, swap = -100, 2  # AT_FDCWD and RENAME_EXCHANGE
        if renameat2 is not None and renameat2(here, os.fsencode(one), here, os.fsencode(other), swap) == 0:
            return
    aside = _temporary_name(other)
    os.rename(other, aside)
    os.rename(one, other)
    os.rename(aside, one)


def _temporary_name(path: Path) -> Path:
    # In the same folder, because a file can only be renamed within its file system.
    _sweep(path)
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.partial")


def _sweep(path: Path) -> None:
    """Remove the temporary files of killed processes that were writing `path`."""
    name = re.compile(rf"\.{re.escape(path.name)}\.(?:(\d+)-)?[0-9a-f]{{8}}\.partial")
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(path.parent)):
            left = name.fullmatch(entry.name)
            if left is None or time.time() - entry.stat(follow_symlinks=False).st_mtime < STALE or _runs(left[1]):
                continue
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                os.unlink(entry.path)


def _runs(process: str | None) -> bool:
    if process is None:  # written by an earlier version, which did not store the process
        return False
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # the process belongs to another user
        return True
    return True


def _sync_tree(folder: Path) -> None:
    for root, _, files in os.walk(folder):
        for name in files:
            _sync(Path(root) / name)
        _sync(Path(root))


def _sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to the disk, if the file system supports it."""
    with contextlib.suppress(PermissionError, IsADirectoryError):  # Windows cannot open a folder
        handle = os.open(path, os.O_RDONLY)
        try:
            with contextlib.suppress(OSError):  # not supported by the file system
                os.fsync(handle)
        finally:
            os.close(handle)


@contextlib.contextmanager
def _output_errors(path: Path) -> Iterator[None]:
    _refuse_address(path)
    try:
        yield
    except TsadcError:
        raise
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {explain(path, error)}; choose another place.") from None


def explain(path: Path, error: OSError) -> str:
    """Return why `path` cannot be written, for a message."""
    file = next((parent for parent in path.parents if os.path.isfile(parent)), None)
    return f"{file} is a file, so no folder can be made in it" if file else error.strerror or str(error)
