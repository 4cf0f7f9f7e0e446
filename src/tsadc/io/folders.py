"""Folders that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tsadc.errors import OutputError, TsadcError


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder to write into that takes the name `path` once everything is written, and never before."""
    try:
        if path.exists():
            raise OutputError(f"{path} exists already; choose another name or remove it.")
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    except TsadcError:
        raise
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror or error}.") from None
    try:
        os.chmod(temporary, 0o755)
        yield temporary
        os.rename(temporary, path)
    except TsadcError:
        raise
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror or error}.") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
