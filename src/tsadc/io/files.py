"""Arguments -> files: a folder stands for the files in it, a pattern for the files it matches."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from tsadc.errors import DataError, notice

COMPRESSED = ".gz"
RECORDINGS = (".hea", ".edf", ".h5", ".hdf5", ".mat")


def expand(paths: str | Path | Sequence[str | Path], endings: Collection[str]) -> list[Path]:
    """Return the files that `paths` name. Folders and patterns yield the visible files with one of the `endings`,
    sorted by name; a file that is named itself is always kept."""
    given = [Path(path) for path in ([paths] if isinstance(paths, (str, Path)) else paths)]
    if not given:
        raise DataError("No data file was given; name a file, a folder or a pattern such as 'data/*.csv'.")
    files = [file for path in given for file in _expand(path, endings)]
    seen: set[Path] = set()
    for file in files:
        if file.resolve() in seen:
            raise DataError(f"The data file {file} was given twice; name it once.")
        seen.add(file.resolve())
    return files


def entity_names(files: Sequence[Path]) -> list[str]:
    """Return each file's name without its ending, or its path if several files share the name."""
    stems = [stem(file) for file in files]
    count = Counter(stems)
    return [name if count[name] == 1 else _readable(str(file)) for name, file in zip(stems, files, strict=True)]


def ending(path: Path) -> str:
    """Return the ending that determines the format, in lower case: `.csv`, or `.csv.gz` for a compressed file."""
    last = path.suffix.lower()
    return Path(path.stem).suffix.lower() + last if last == COMPRESSED else last


def stem(path: Path) -> str:
    """Return the file's name without its ending."""
    return _readable(path.name[: len(path.name) - len(ending(path))])


def _readable(name: str) -> str:
    """Write the bytes of a name that are not UTF-8 as \\xff: Python's own form of them cannot be written to a file."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _expand(path: Path, endings: Collection[str]) -> list[Path]:
    if path.is_dir():
        has_folders = any(child.is_dir() and not child.name.startswith(".") for child in path.iterdir())
        fix = f"; name its subfolders, or use a pattern such as {path / '*' / '*.csv'}" if has_folders else ""
        return _readable_files(path.iterdir(), endings, f"The folder {path} has", fix)
    if not glob.has_magic(str(path)) or path.exists():
        return [path]
    matches = [Path(name) for name in glob.glob(str(path), recursive=True)]
    if not matches:
        raise DataError(f"No file matches {path}; check the pattern.")
    return _readable_files(matches, endings, f"The pattern {path} matches", "")


def _readable_files(paths: Iterable[Path], endings: Collection[str], where: str, fix: str) -> list[Path]:
    files = sorted(path for path in paths if path.is_file() and not path.name.startswith("."))
    headers = {path.with_suffix("") for path in files if path.suffix.lower() == ".hea"}
    # The signals of a WFDB header lie beside it, and are read through it.
    kept = [
        path
        for path in files
        if ending(path) in endings and (path.suffix.lower() != ".mat" or path.with_suffix("") not in headers)
    ]
    if not kept:
        raise DataError(f"{where} no file that can be read (with the ending {', '.join(endings)}){fix}.")
    others = Counter(
        ending(path) or path.name for path in files if path not in kept and path.with_suffix("") not in headers
    )
    if others:
        shown = ", ".join(f"{count} {name}" for name, count in others.most_common(5))
        notice(f"{where} files that were not read: {shown}{', ...' if len(others) > 5 else ''}.")
    return kept
