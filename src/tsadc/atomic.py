"""Write files and folders that appear whole or not at all, even if the process is killed."""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from tsadc.errors import OutputError, TsadcError


def write_file(path: Path, data: bytes) -> None:
    """Write the file, or replace it; a reader sees the old content or the new one, never a part. Create its folder."""
    with _output_errors(path):
        if path.is_dir():
            raise OutputError(f"{path} is a folder, but a file is to be written there; choose another name.")
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = _temporary_name(path)
        try:
            with temporary.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        _sync_folder(path.parent)


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder that is renamed to `path` when the block ends, or removed if it fails."""
    with _output_errors(path):
        if path.exists():
            raise OutputError(f"{path} exists already; choose another name or remove it.")
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = _temporary_name(path)
        temporary.mkdir()
        try:
            yield temporary
            os.rename(temporary, path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        _sync_folder(path.parent)


@contextlib.contextmanager
def replaced_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder that takes the place of `path` when the block ends, or is removed if it fails.

    A reader finds the old folder or the new one, even if the process is killed; see `exchange`."""
    with _output_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = _temporary_name(path)
        temporary.mkdir()
        try:
            yield temporary
            if path.exists():
                exchange(temporary, path)
            else:
                os.rename(temporary, path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        _sync_folder(path.parent)


def exchange(one: Path, other: Path) -> None:
    """Let two folders swap their names, in one step where the system can (Linux), otherwise in three renames."""
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
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power failure, where the file system can."""
    with contextlib.suppress(OSError):  # Windows cannot open a folder
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextlib.contextmanager
def _output_errors(path: Path) -> Iterator[None]:
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
