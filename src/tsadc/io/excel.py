"""Excel files -> data frames. They need python-calamine, which the extra `excel` installs."""

from __future__ import annotations

import datetime
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import pandas as pd

from tsadc.config import nearest
from tsadc.errors import DataError
from tsadc.io.columns import NOTES, UNITS, check_width
from tsadc.io.layout import find_table
from tsadc.io.limits import COPIES, PIECE, check_bytes
from tsadc.io.reading import DEFAULT, Reading, reason
from tsadc.io.times import TIME_NAMES

EPOCH = "1899-12-30"
SERIALS = (20_000, 80_000)  # the years 1954 to 2119
SAMPLED = 200  # rows in which the header is found
PER_CELL = 40  # bytes of a cell in the reader's table and in that of Python, also if it is empty
CELL = re.compile(rb"""\br=["']([A-Za-z]{0,6})(\d{1,10})["']""")  # of a cell, or of a row if there are no letters
LONGEST = 20  # characters of it, at least
FAR = "remove cells that lie far from the table, or split it into several files"


def read_excel(path: Path, reading: Reading = DEFAULT) -> pd.DataFrame:
    """Read a sheet of an Excel file: the one that `reading` names, or the first."""
    try:
        from python_calamine import CalamineWorkbook
    except ImportError:
        raise DataError(f"{path} is Excel, which needs one more package: pip install 'tsadc[excel]'.") from None
    try:
        _check_size(path)
        book = CalamineWorkbook.from_path(str(path))
        names = list(book.sheet_names)
        sheet = reading.sheet if reading.sheet is not None else next(iter(names), None)
        rows = book.get_sheet_by_name(sheet).to_python() if sheet in names else None
    except (PermissionError, DataError):
        raise
    except Exception as error:  # a damaged file can fail anywhere
        raise DataError(f"{path} is not a readable Excel file: {reason(error)}.") from None
    if rows is None:
        raise DataError(f"{path} has no sheet {sheet!r}{nearest(str(sheet), names)}")
    rows = rows[reading.skip_rows or 0 :]
    rows = [row for row in rows if any(cell != "" for cell in row)]
    if not rows:
        raise DataError(f"{path} is empty, but a header and rows of numbers were expected.")
    check_width(len(rows[0]), str(path))
    table = find_table([[_text(cell) for cell in row] for row in rows[:SAMPLED]], may_skip=reading.skip_rows is None)
    header = table.merged or rows[table.header]
    frame = _frame(header, rows[table.first :], path)
    notes = []
    for name in [name for name in frame if str(name).lower() in TIME_NAMES and _are_serials(frame[name])]:
        frame[name] = pd.to_datetime(frame[name], unit="D", origin=EPOCH).dt.round("ms")
        notes.append(f"the numbers in {name!r} were read as Excel's dates, days since {EPOCH}")
    if reading.sheet is None and len(names) > 1:
        notes.append(f"the first of its {len(names)} sheets, {sheet!r}, was read; --sheet names another one")
    if table.header:
        notes.append(f"{table.header} row(s) above the header were skipped; --skip-rows states how many")
    titles = [_text(cell) for cell in header]
    units = {name: unit for name, unit in zip(titles, table.units, strict=False) if unit}
    if table.merged:
        notes.append("its header has two rows, which were joined")
    if table.below > bool(table.merged):
        notes.append(f"{table.below - bool(table.merged)} row(s) of text below the header were read as units")
    frame.attrs.update({UNITS: units, NOTES: notes})
    return frame


def _are_serials(column: pd.Series) -> bool:
    """Return whether numbers can be times as Excel stores them: days since 1899-12-30, some with a fraction."""
    if not pd.api.types.is_float_dtype(column) or column.isna().any():
        return False
    return bool(column.between(*SERIALS).all() and (column % 1 > 0).any() and column.is_monotonic_increasing)


def _check_size(path: Path) -> None:
    """Raise unless the sheets fit into memory: they are compressed, and one cell far away makes a sheet that large."""
    with zipfile.ZipFile(path) as archive:
        check_bytes(COPIES * sum(entry.file_size for entry in archive.infolist()), f"{path}, unpacked,")
        for name in archive.namelist():
            if name.startswith("xl/worksheets/") and name.endswith(".xml"):
                with archive.open(name) as sheet:
                    check_bytes(PER_CELL * _cells(sheet), f"{path}, with all cells of a sheet,", FAR)


def _cells(sheet: IO[bytes]) -> int:
    """Return the number of cells up to the last row and the last column that the sheet names."""
    rows, columns, rest = 0, 0, b""
    while piece := sheet.read(PIECE):
        places = CELL.findall(rest + piece)
        rows = max([rows, *map(int, {row for _, row in places})])
        columns = max([columns, *map(_column, {column for column, _ in places})])
        rest = piece[-LONGEST:]
    return rows * columns


def _column(letters: bytes) -> int:
    number = 0
    for letter in letters.upper():
        number = 26 * number + letter - ord("@")
    return number


def _frame(header: Sequence[Any], rows: Sequence[Sequence[Any]], path: Path) -> pd.DataFrame:
    names = [_text(cell) for cell in header]
    twice = next((name for name in names if name and names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{path} has two columns named {twice!r}; give every variable its own name.")
    columns = {
        name or f"Unnamed: {place}": [None if row[place] == "" else _whole(row[place]) for row in rows]
        for place, name in enumerate(names)
        if name or any(row[place] != "" for row in rows)
    }
    return pd.DataFrame({name: _typed(cells) for name, cells in columns.items()})


def _typed(cells: list[Any]) -> pd.Series:
    known = [cell for cell in cells if cell is not None]
    if known and all(isinstance(cell, (datetime.datetime, datetime.date)) for cell in known):
        return pd.Series(pd.to_datetime(pd.Series(cells, dtype=object), errors="coerce"))
    if known and all(isinstance(cell, (int, float)) for cell in known):
        return pd.Series(cells, dtype="int64" if all(type(cell) is int for cell in cells) else float)
    return pd.Series(cells, dtype=object)


def _whole(cell: Any) -> Any:
    """Return a whole number as int: Excel stores all numbers as floats, but an entity 1 is not named "1.0"."""
    return int(cell) if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53 else cell


def _text(cell: Any) -> str:
    return str(_whole(cell)).strip()
