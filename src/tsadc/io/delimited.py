"""Delimited text files -> data frames: CSV and TSV, also compressed with gzip."""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections import Counter
from pathlib import Path
from typing import Any, TextIO

import pandas as pd

from tsadc.errors import DataError
from tsadc.io.columns import MAX_VARIABLES, check_width
from tsadc.io.files import COMPRESSED, ending
from tsadc.io.limits import check_text_size
from tsadc.io.reading import reason

# Since 3.1 pandas reads floats exactly by default, and deprecates the option.
PANDAS = tuple(int(part) for part in pd.__version__.split(".")[:2])
EXACT: dict[str, Any] = {} if PANDAS >= (3, 1) else {"float_precision": "round_trip"}
HEADER_CHUNK = 65536  # characters
MAX_HEADER = 200 * MAX_VARIABLES  # characters


def read_delimited(path: Path, text_column: str | None = None) -> pd.DataFrame:
    """Read the file as a frame; the column `text_column`, if there is one, stays text even if it looks like numbers."""
    check_text_size(path)
    try:
        separator, header = _header(path)
        literal = {name: _marked for name in header if name.strip() == text_column}
        # Infer types from whole columns, not from chunks: chunks may differ, and pandas would warn about it.
        frame: pd.DataFrame = pd.read_csv(
            path,
            sep=separator,
            encoding="utf-8-sig",
            skipinitialspace=True,
            low_memory=False,
            converters=literal or None,
            compression="gzip" if path.suffix.lower() == COMPRESSED else None,
            **EXACT,
        )
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8 text; save it as UTF-8 CSV.") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path} is not a complete gzip file: {reason(error)}.") from None
    except (pd.errors.ParserError, pd.errors.EmptyDataError, csv.Error) as error:
        raise DataError(f"{path} is not a well-formed CSV file: {reason(error)}.") from None
    if not isinstance(frame.index, pd.RangeIndex):
        raise DataError(f"{path} has more values in a row than names in its header; give every column a name.")
    for name in literal:
        frame[name] = frame[name].str[1:]
    # A separator at the end of every line makes one more column, without a name and without values.
    empty = [name for name in frame.columns if str(name).startswith("Unnamed: ") and frame[name].isna().all()]
    return frame.drop(columns=empty)


def _marked(cell: str) -> str:
    """Mark text so that pandas takes it neither for a number nor for a missing value, as it takes NA (Namibia)."""
    return "=" + cell.strip()


def _header(path: Path) -> tuple[str, list[str]]:
    """Return the separator and the names of the columns; check both before the rest is read."""
    with _open(path) as file:
        head = file.read(HEADER_CHUNK)
        while "\n" not in head.lstrip() and len(head) < MAX_HEADER and (more := file.read(HEADER_CHUNK)):
            head += more
    lines = [line for line in head.split("\n") if line.strip()]
    if not lines:
        raise DataError(f"{path} is empty, but a header and rows of numbers were expected.")
    separator = "\t" if ending(path).startswith(".tsv") else _separator(lines[0])
    check_width(_without_quoted(lines[0]).count(separator) + 1, str(path))
    names = next(csv.reader(lines, delimiter=separator, skipinitialspace=True))
    _check_header(names, path)
    return separator, names


def _open(path: Path) -> TextIO:
    if path.suffix.lower() == COMPRESSED:
        return gzip.open(path, "rt", encoding="utf-8-sig")
    return open(path, encoding="utf-8-sig")


def _check_header(names: list[str], path: Path) -> None:
    names = [name.strip() for name in names]
    dated = not _is_number(names[0]) and any(letter.isdigit() for letter in names[0])
    rest = names[1:] if dated else names
    counted = [str(i) for i in range(len(rest))]  # pandas writes columns without names this way
    if rest and rest != counted and all(_is_number(name) for name in rest):
        raise DataError(f"{path} has no header: its first line holds numbers; add a line with the variables' names.")
    twice = next((name for name, count in Counter(names).items() if name and count > 1), None)
    if twice is not None:
        raise DataError(f"{path} has two columns named {twice!r}; give every variable its own name.")


def _separator(header: str) -> str:
    """Return the separator that is most frequent in the header, outside of quotes."""
    return max(",;\t|", key=_without_quoted(header).count)


def _without_quoted(header: str) -> str:
    return re.sub(r'"[^"]*"', "", header)


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True
