"""Files of rows and columns -> Series, one entity per file: CSV and Parquet."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from tsadc.errors import DataError
from tsadc.io.frames import from_frame
from tsadc.series import Series

# From 3.1 on pandas reads floats exactly, and frowns on being asked to.
PANDAS = tuple(int(part) for part in pd.__version__.split(".")[:2])
EXACT: dict[str, Any] = {} if PANDAS >= (3, 1) else {"float_precision": "round_trip"}


def read(paths: str | Path | Sequence[str | Path]) -> tuple[Series, ...]:
    """One Series per file, its entity the file's name without the ending (or its path, where names repeat)."""
    files = [Path(path) for path in ([paths] if isinstance(paths, (str, Path)) else paths)]
    if not files:
        raise DataError("No data file was given.")
    if len({file.resolve() for file in files}) < len(files):
        raise DataError("The same data file was given twice.")
    stems = [file.stem for file in files]
    names = [file.stem if stems.count(file.stem) == 1 else str(file) for file in files]
    return tuple(from_frame(read_frame(file), name, str(file)) for file, name in zip(files, names, strict=True))


def read_frame(path: Path) -> pd.DataFrame:
    """The file as a pandas frame, whatever its format."""
    if path.is_dir():
        raise DataError(f"{path} is a folder, but a file was expected; name the files in it.")
    if not path.is_file():
        raise DataError(f"There is no file {path}.")
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise DataError(f"{path} should end in {' or '.join(READERS)}, which is how its format is known.")
    try:
        return reader(path)
    except PermissionError:
        raise DataError(f"{path} may not be read: permission denied.") from None


def _read_csv(path: Path) -> pd.DataFrame:
    try:
        with open(path, encoding="utf-8-sig") as file:
            lines = [line for line in file.read(65536).split("\n") if line.strip()]
        if not lines:
            raise DataError(f"{path} is empty; a header and rows of numbers were expected.")
        separator = _separator(lines[0])
        _check_header(next(csv.reader(lines, delimiter=separator, skipinitialspace=True)), path)
        # Types are told from whole columns, not from chunks: chunks may differ, and pandas would warn of it.
        frame: pd.DataFrame = pd.read_csv(
            path, sep=separator, encoding="utf-8-sig", skipinitialspace=True, low_memory=False, **EXACT
        )
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8 text; save it as UTF-8 CSV.") from None
    except (pd.errors.ParserError, pd.errors.EmptyDataError, csv.Error) as error:
        raise DataError(f"{path} is not a well-formed CSV file: {_reason(error)}.") from None
    if not isinstance(frame.index, pd.RangeIndex):
        raise DataError(f"{path} has more values in a row than names in its header; every column needs a name.")
    # A separator at the end of every line makes one more column, without a name and without a value.
    ghosts = [name for name in frame.columns if str(name).startswith("Unnamed: ") and frame[name].isna().all()]
    return frame.drop(columns=ghosts)


def _check_header(names: list[str], path: Path) -> None:
    names = [name.strip() for name in names]
    dated = not _is_number(names[0]) and any(letter.isdigit() for letter in names[0])
    rest = names[1:] if dated else names
    counted = [str(i) for i in range(len(rest))]  # how a frame writes out columns without names
    if rest and rest != counted and all(_is_number(name) for name in rest):
        raise DataError(f"{path} has no header: its first line holds numbers where the variables' names belong.")
    twice = next((name for name in names if name and names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{path} has two columns named {twice!r}; give every variable its own name.")


def _separator(header: str) -> str:
    """The mark that is most frequent in the header, outside quotes."""
    bare = re.sub(r'"[^"]*"', "", header)
    return max(",;\t|", key=bare.count)


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(path)
    except ImportError:
        raise DataError(f"{path} is Parquet, which needs one more package: pip install 'tsadc[parquet]'.") from None
    except PermissionError:
        raise
    except Exception as error:  # a damaged file can fail anywhere on its way through pyarrow and pandas
        raise DataError(f"{path} is not a readable Parquet file: {_reason(error)}.") from None


def _reason(error: Exception) -> str:
    """The first sentence of another library's message."""
    message = " ".join(str(error).split()).removeprefix("Error tokenizing data. C error: ")
    return message.split(". ")[0].rstrip(".")


READERS: dict[str, Callable[[Path], pd.DataFrame]] = {".csv": _read_csv, ".parquet": _read_parquet}
