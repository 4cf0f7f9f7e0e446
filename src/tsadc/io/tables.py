"""Files of rows and columns -> Series, one entity per file: CSV and Parquet."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from tsadc.errors import DataError
from tsadc.io.frames import from_frame
from tsadc.series import Series


def read(paths: Sequence[str | Path]) -> tuple[Series, ...]:
    """One Series per file, its entity the file's name without the ending (or its path, where names repeat)."""
    files = [Path(path) for path in paths]
    if not files:
        raise DataError("No data file was given.")
    if len({file.resolve() for file in files}) < len(files):
        raise DataError("The same data file was given twice.")
    stems = [file.stem for file in files]
    names = [file.stem if stems.count(file.stem) == 1 else str(file.with_suffix("")) for file in files]
    return tuple(from_frame(read_frame(file), name, str(file)) for file, name in zip(files, names, strict=True))


def read_frame(path: Path) -> pd.DataFrame:
    """The file as a pandas frame, whatever its format."""
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise DataError(f"{path} should end in {' or '.join(READERS)}, which is how its format is known.")
    if not path.exists():
        raise DataError(f"There is no file {path}.")
    if path.is_dir():
        raise DataError(f"{path} is a folder, but a file was expected.")
    try:
        return reader(path)
    except PermissionError:
        raise DataError(f"{path} may not be read: permission denied.") from None


def _read_csv(path: Path) -> pd.DataFrame:
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            head = file.read(65536)
        if not head.strip():
            raise DataError(f"{path} is empty; a header and rows of numbers were expected.")
        frame = pd.read_csv(path, sep=_separator(head), encoding="utf-8-sig", float_precision="round_trip")
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8 text; save it as UTF-8 CSV.") from None
    except pd.errors.ParserError as error:
        raise DataError(f"{path} is not a well-formed CSV file: {str(error).strip()}.") from None
    if not isinstance(frame.index, pd.RangeIndex):
        raise DataError(f"{path} has more values in a row than names in its header; every column needs a name.")
    if len(frame.columns) and all(_is_number(name) for name in frame.columns):
        raise DataError(f"{path} has no header: its first line holds numbers where the variables' names belong.")
    return frame


def _separator(head: str) -> str:
    first = head.splitlines()[0]
    counts = {mark: first.count(mark) for mark in (",", ";", "\t", "|")}
    best = max(counts, key=lambda mark: counts[mark])
    if counts[best] == 0:
        return ","
    try:
        return csv.Sniffer().sniff(first, delimiters=",;\t|").delimiter
    except csv.Error:
        return best


def _is_number(name: object) -> bool:
    try:
        float(str(name))
    except ValueError:
        return False
    return True


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(path)
    except ImportError:
        raise DataError(f"{path} is Parquet, which needs one more package: pip install 'tsadc[parquet]'.") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is not a readable Parquet file: {str(error).splitlines()[0].rstrip('.')}.") from None


READERS: dict[str, Callable[[Path], pd.DataFrame]] = {".csv": _read_csv, ".parquet": _read_parquet}
