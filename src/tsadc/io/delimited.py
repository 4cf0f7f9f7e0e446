"""Text with a separator -> frames: CSV and TSV, also compressed with gzip."""

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
from tsadc.io.columns import MOST_VARIABLES, check_width
from tsadc.io.files import COMPRESSED, ending
from tsadc.io.reading import reason

# From 3.1 on pandas reads floats exactly, and frowns on being asked to.
PANDAS = tuple(int(part) for part in pd.__version__.split(".")[:2])
EXACT: dict[str, Any] = {} if PANDAS >= (3, 1) else {"float_precision": "round_trip"}
PIECE = 65536
LONGEST_HEADER = 200 * MOST_VARIABLES  # characters


def read_delimited(path: Path, text: str | None = None) -> pd.DataFrame:
    """The file as a frame; the column `text`, if there is one, is left as it is written."""
    try:
        separator, header = _header(path)
        literal = {name: _marked for name in header if name.strip() == text}
        # Types are told from whole columns, not from chunks: chunks may differ, and pandas would warn of it.
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
        raise DataError(f"{path} is not a whole gzip file: {reason(error)}.") from None
    except (pd.errors.ParserError, pd.errors.EmptyDataError, csv.Error) as error:
        raise DataError(f"{path} is not a well-formed CSV file: {reason(error)}.") from None
    if not isinstance(frame.index, pd.RangeIndex):
        raise DataError(f"{path} has more values in a row than names in its header; every column needs a name.")
    for name in literal:
        frame[name] = frame[name].str[1:]
    # A separator at the end of every line makes one more column, without a name and without a value.
    ghosts = [name for name in frame.columns if str(name).startswith("Unnamed: ") and frame[name].isna().all()]
    return frame.drop(columns=ghosts)


def _marked(cell: str) -> str:
    """Text that pandas takes neither for a number nor for a missing value, as it takes NA (Namibia)."""
    return "=" + cell.strip()


def _header(path: Path) -> tuple[str, list[str]]:
    """The separator and the names of the columns, checked without reading on."""
    with _open(path) as file:
        head = file.read(PIECE)
        while "\n" not in head.lstrip() and len(head) < LONGEST_HEADER and (more := file.read(PIECE)):
            head += more
    lines = [line for line in head.split("\n") if line.strip()]
    if not lines:
        raise DataError(f"{path} is empty; a header and rows of numbers were expected.")
    separator = "\t" if ending(path).startswith(".tsv") else _separator(lines[0])
    check_width(_bare(lines[0]).count(separator) + 1, str(path))
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
    counted = [str(i) for i in range(len(rest))]  # how a frame writes out columns without names
    if rest and rest != counted and all(_is_number(name) for name in rest):
        raise DataError(f"{path} has no header: its first line holds numbers where the variables' names belong.")
    twice = next((name for name, count in Counter(names).items() if name and count > 1), None)
    if twice is not None:
        raise DataError(f"{path} has two columns named {twice!r}; give every variable its own name.")


def _separator(header: str) -> str:
    """The mark that is most frequent in the header, outside quotes."""
    return max(",;\t|", key=_bare(header).count)


def _bare(header: str) -> str:
    return re.sub(r'"[^"]*"', "", header)


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True
