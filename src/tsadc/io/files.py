"""Arguments -> files: a folder stands for the files in it, a pattern for those it matches. One file is one entity."""

from __future__ import annotations

import glob
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from tsadc.errors import DataError, TsadcNotice

COMPRESSED = ".gz"
RECORDINGS = (".hea", ".edf", ".h5", ".hdf5", ".mat")


def expand(paths: str | Path | Sequence[str | Path], endings: Collection[str]) -> list[Path]:
    """The files meant by `paths`. Of folders and patterns only what ends in one of `endings` is taken, sorted by name,
    hidden files never; a file that is named itself is always taken."""
    given = [Path(path) for path in ([paths] if isinstance(paths, (str, Path)) else paths)]
    if not given:
        raise DataError("No data file was given.")
    files = [file for path in given for file in _expand(path, endings)]
    seen: set[Path] = set()
    for file in files:
        if file.resolve() in seen:
            raise DataError(f"The same data file was given twice: {file}.")
        seen.add(file.resolve())
    return files


def entity_names(files: Sequence[Path]) -> list[str]:
    """Each file's name without its ending, or its path where names repeat."""
    stems = [stem(file) for file in files]
    count = Counter(stems)
    return [name if count[name] == 1 else str(file) for name, file in zip(stems, files, strict=True)]


def ending(path: Path) -> str:
    """How the format is known, in small letters: `.csv`, or `.csv.gz` where that is compressed."""
    last = path.suffix.lower()
    return Path(path.stem).suffix.lower() + last if last == COMPRESSED else last


def stem(path: Path) -> str:
    """The name without its ending."""
    return path.name[: len(path.name) - len(ending(path))]


def _expand(path: Path, endings: Collection[str]) -> list[Path]:
    if path.is_dir():
        fix = f"name its subfolders, or use a pattern such as {path / '*' / '*.csv'}"
        return _usable(path.iterdir(), endings, str(path), fix if _has_folders(path) else "")
    if not glob.has_magic(str(path)) or path.exists():
        return [path]
    found = [Path(name) for name in glob.glob(str(path), recursive=True)]
    if not found:
        raise DataError(f"No file matches {path}.")
    return _usable(found, endings, f"What matches {path}", "")


def _usable(paths: Iterable[Path], endings: Collection[str], where: str, fix: str) -> list[Path]:
    files = sorted(path for path in paths if path.is_file() and not path.name.startswith("."))
    headers = {path.with_suffix("") for path in files if path.suffix.lower() == ".hea"}
    # The signals of a WFDB header lie beside it, and are read through it.
    kept = [
        path
        for path in files
        if ending(path) in endings and (path.suffix.lower() != ".mat" or path.with_suffix("") not in headers)
    ]
    if not kept:
        raise DataError(
            f"{where} holds no file that can be read, which would end in {', '.join(endings)}"
            f"{'; ' + fix if fix else ''}."
        )
    others = Counter(
        ending(path) or path.name for path in files if path not in kept and path.with_suffix("") not in headers
    )
    if others:
        shown = ", ".join(f"{count} {name}" for name, count in others.most_common(5))
        more = ", ..." if len(others) > 5 else ""
        warnings.warn(f"{where} holds files that are not read: {shown}{more}.", TsadcNotice, stacklevel=5)
    return kept


def _has_folders(path: Path) -> bool:
    return any(one.is_dir() and not one.name.startswith(".") for one in path.iterdir())
