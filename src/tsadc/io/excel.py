"""Excel files -> data frames. They need python-calamine, which the extra `excel` installs."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from tsadc.config import nearest
from tsadc.errors import DataError
from tsadc.io.columns import NOTES, UNITS, check_width
from tsadc.io.layout import find_table
from tsadc.io.reading import DEFAULT, Reading, reason

SAMPLED = 200  # rows in which the header is found


def read_excel(path: Path, reading: Reading = DEFAULT) -> pd.DataFrame:
    """Read a sheet of an Excel file: the one that `reading` names, or the first."""
    try:
        from python_calamine import CalamineWorkbook
    except ImportError:
        raise DataError(f"{path} is Excel, which needs one more package: pip install 'tsadc[excel]'.") from None
    try:
        book = CalamineWorkbook.from_path(str(path))
        names = list(book.sheet_names)
        sheet = reading.sheet if reading.sheet is not None else next(iter(names), None)
        rows = book.get_sheet_by_name(sheet).to_python() if sheet in names else None
    except PermissionError:
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
    frame = _frame(rows[table.header], rows[table.first :], path)
    notes = []
    if reading.sheet is None and len(names) > 1:
        notes.append(f"the first of its {len(names)} sheets, {sheet!r}, was read; --sheet names another one")
    if table.header:
        notes.append(f"{table.header} row(s) above the header were skipped; --skip-rows states how many")
    titles = [_text(cell) for cell in rows[table.header]]
    units = {name: unit for name, unit in zip(titles, table.units, strict=False) if unit}
    if table.below:
        notes.append(f"{table.below} row(s) of text below the header were read as units")
    frame.attrs.update({UNITS: units, NOTES: notes})
    return frame


def _frame(header: Sequence[Any], rows: Sequence[Sequence[Any]], path: Path) -> pd.DataFrame:
    names = [_text(cell) for cell in header]
    twice = next((name for name in names if name and names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{path} has two columns named {twice!r}; give every variable its own name.")
    columns = {
        name or f"Unnamed: {place}": [None if row[place] == "" else row[place] for row in rows]
        for place, name in enumerate(names)
        if name or any(row[place] != "" for row in rows)
    }
    return pd.DataFrame({name: _typed(cells) for name, cells in columns.items()})


def _typed(cells: list[Any]) -> pd.Series:
    known = [cell for cell in cells if cell is not None]
    if known and all(isinstance(cell, (datetime.datetime, datetime.date)) for cell in known):
        return pd.Series(pd.to_datetime(pd.Series(cells, dtype=object), errors="coerce"))
    if known and all(isinstance(cell, (int, float)) for cell in known):
        return pd.Series(cells, dtype=float)
    return pd.Series(cells, dtype=object)


def _text(cell: Any) -> str:
    return str(cell).strip()
