"""Arguments -> files: a folder stands for the files in it, a pattern for the files it matches."""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote

from tsadc.atomic import ADDRESS
from tsadc.errors import DataError, notice

COMPRESSED = ".gz"
PARTITION = re.compile(r"([A-Za-z_]\w*)=(.+)")  # a folder of a partitioned data set, as Hive and Spark write them
DATE_KEYS = {"date", "year", "month", "week", "day", "hour", "minute", "dt", "ds", "ts"}
STORAGES = {"s3", "gs", "gcs", "az", "abfs", "abfss", "hdfs", "http", "https"}  # other addresses are databases
# Tables of text, but also notes and recordings: they are read if they are named, not if their folder is.
NAMED = (".txt", ".dat")
RECORDINGS = (".hea", ".edf", ".h5", ".hdf5", ".mat")


def expand(paths: str | Path | Sequence[str | Path], endings: Collection[str]) -> list[Path]:
    """Return the files that `paths` name. Folders and patterns yield the visible files with one of the `endings`,
    sorted by name, and those with an ending in `NAMED` only if the pattern ends with it. A file that is named itself is
    always kept."""
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


def partitions(paths: str | Path | Sequence[str | Path], file: Path) -> dict[str, str]:
    """Return the keys and values of the folders between a partitioned folder in `paths` and a file in it, as in
    `entity=7/date=2024-01-01`."""
    for root in [Path(path) for path in ([paths] if isinstance(paths, (str, Path)) else paths)]:
        if root.is_dir() and file.is_relative_to(root):
            return partition_keys(file.relative_to(root).parts[:-1])
    return {}


def partition_keys(folders: Iterable[str]) -> dict[str, str]:
    """Return the keys and values in the names of folders; those that are no partitions have none."""
    found = [PARTITION.fullmatch(folder) for folder in folders]
    return {folder[1]: unquote(folder[2]) for folder in found if folder}


def partition_entity(keys: Mapping[str, str], named: str | None) -> str | None:
    """Return the entity of a partition: the value of the key `named` or of `entity`, or else the values of all keys
    that are no dates. None if there is none."""
    for key in (named, "entity"):
        if key is not None and key in keys:
            return keys[key]
    return "/".join(value for key, value in keys.items() if key.lower() not in DATE_KEYS) or None


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
    if (address := ADDRESS.match(str(path))) and address[1].lower() in STORAGES:
        raise DataError(
            f"{address[1]}://{str(path)[address.end() :]} is an address, which only `tsadc fit` and `tsadc detect` "
            "with --engine ray read; copy the files to this machine first."
        )
    wanted = [ending for ending in endings if ending not in NAMED or path.suffix.lower() == ending]
    by_name_only = [ending for ending in endings if ending not in wanted]
    if path.is_dir() and any(child.is_dir() and PARTITION.fullmatch(child.name) for child in path.iterdir()):
        return _readable_files(path.rglob("*"), wanted, by_name_only, f"The folder {path} has", "")
    if path.is_dir():
        has_folders = any(child.is_dir() and not child.name.startswith(".") for child in path.iterdir())
        fix = f"; name its subfolders, or use a pattern such as {path / '*' / f'*{wanted[0]}'}" if has_folders else ""
        return _readable_files(path.iterdir(), wanted, by_name_only, f"The folder {path} has", fix)
    if not glob.has_magic(str(path)) or path.exists():
        return [path]
    matches = [Path(name) for name in glob.glob(str(path), recursive=True)]
    if not matches:
        raise DataError(f"No file matches {path}; check the pattern.")
    return _readable_files(matches, wanted, by_name_only, f"The pattern {path} matches", "")


def _readable_files(
    paths: Iterable[Path], endings: Collection[str], by_name_only: Collection[str], where: str, fix: str
) -> list[Path]:
    files = sorted(path for path in paths if path.is_file() and not path.name.startswith("."))
    headers = {path.with_suffix("") for path in files if path.suffix.lower() == ".hea"}
    # The signals of a WFDB header lie beside it, and are read through it.
    kept = [
        path
        for path in files
        if ending(path) in endings and (path.suffix.lower() != ".mat" or path.with_suffix("") not in headers)
    ]
    if not kept:
        by_name = next((path for path in files if ending(path) in by_name_only), None)
        if by_name is not None:
            pattern = by_name.parent / f"*{by_name.suffix}"
            fix += (
                f"; files with the ending {ending(by_name)} are read if they are named, as by the pattern '{pattern}'"
            )
        raise DataError(f"{where} no file that can be read (with the ending {', '.join(endings)}){fix}.")
    others = Counter(
        ending(path) or path.name for path in files if path not in kept and path.with_suffix("") not in headers
    )
    if others:
        shown = ", ".join(f"{count} {name}" for name, count in others.most_common(5))
        notice(f"{where} files that were not read: {shown}{', ...' if len(others) > 5 else ''}.")
    return kept
