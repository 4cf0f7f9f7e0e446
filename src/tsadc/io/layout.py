"""Find the table in the first rows of a text file or a sheet: lines above the header, the header, rows of units below
it, and the mark of decimals."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

FOLLOWING = 3  # rows below a header that must look like data
MAX_BELOW = 3  # rows of text between the header and the data: units, descriptions, kinds of statistics
MAX_UNIT = 40  # characters
NUMBER = re.compile(r"[+-]?(\d[\d.,]*|[.,]\d+)([eE][+-]?\d+)?")
COMMA_NUMBER = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+([eE][+-]?\d+)?")
POINT_NUMBER = re.compile(r"[+-]?(\d+|\d{1,3}(,\d{3})+)?\.\d+([eE][+-]?\d+)?")
THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+")
DATE = re.compile(r"\d{1,4}[-/.](\d{1,2}|[A-Za-z]{3})[-/.]\d{1,4}\b|\d{1,2}[:.]\d{2}([:.]\d{2})?\b")
# What historians write into a cell without a value. Such a row is no row of units.
NO_VALUE = {"", "nan", "na", "n/a", "null", "none", "bad", "no data", "nodata", "bad input", "i/o timeout", "error"}


@dataclass(frozen=True)
class Table:
    """Where the table lies among the rows: the row of the header and the number of rows of text below it.

    `merged` are the names of a header of two rows, whose upper one has merged cells; empty for a header of one row."""

    header: int
    below: int
    units: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()

    @property
    def first(self) -> int:
        """The first row of data."""
        return self.header + 1 + self.below


def find_table(rows: Sequence[Sequence[str]], *, may_skip: bool = True) -> Table:
    """Find the header and the data below it, in rows of stripped cells. Without `may_skip`, the first row is the
    header."""
    header = _header(rows) if may_skip else 0
    below = _rows_of_text(rows, header)
    merged = _merged(rows, header) if below else ()
    units = rows[header + 2] if merged and below > 1 else rows[header + 1] if below and not merged else ()
    return Table(header, below, tuple(_unit(cell) for cell in units), merged)


def share_of_width(rows: Sequence[Sequence[str]], table: Table) -> float:
    """Return the share of the rows of data that are as wide as the header."""
    data = rows[table.first :]
    return sum(len(row) == len(rows[table.header]) for row in data) / max(1, len(data))


def decimal_mark(cells: Sequence[str]) -> str:
    """Return the mark of decimals in cells: a comma where some must have one and none has a point."""
    commas = [cell for cell in cells if COMMA_NUMBER.fullmatch(cell)]
    points = any(POINT_NUMBER.fullmatch(cell) for cell in cells)
    certain = any(not THOUSANDS.fullmatch(cell) for cell in commas)
    return "," if certain and not points else "."


def is_number(cell: str) -> bool:
    """Return whether the cell is a number, with a decimal point or comma."""
    return NUMBER.fullmatch(cell) is not None


def _header(rows: Sequence[Sequence[str]]) -> int:
    """Return the row of the header: the first row of names that fits the data and has rows of data below it. It may be
    wider than the data, whose last columns may be empty."""
    widths = [_width(row) for row in rows]
    later = range(len(rows) // 2, len(rows))
    usual = Counter(widths[number] for number in later).most_common(1)[0][0] if later else 0
    cells = Counter(len(rows[number]) for number in later).most_common(1)[0][0] if later else 0
    if len(rows) < 3 or usual < 2 or (usual == widths[0] and cells == len(rows[1])):
        return 0
    candidates = [
        number
        for number, row in enumerate(rows)
        if (usual <= widths[number] <= cells and _are_names(row)) or len(_merged(rows, number)) == usual
    ]
    for number in sorted(candidates, key=lambda number: len(rows[number]) != cells):
        if _is_above_data(rows, number, cells):
            return number
    return next((number for number in candidates if widths[number] == usual), 0)


def _merged(rows: Sequence[Sequence[str]], upper: int) -> tuple[str, ...]:
    """Return the names of a header of two rows: "Pump 1 Flow" and "Pump 1 Temp" if "Pump 1" spans two cells.

    Empty if no cell of the upper row spans several names, if the lower row is a header by itself, or if the joined
    names are not unique."""
    lower = rows[upper + 1] if upper + 1 < len(rows) else ()
    if not _is_text(lower) or (_are_names(lower) and all(lower)):
        return ()
    group, spans, names = "", False, list[str]()
    for above, below in itertools.zip_longest(rows[upper], lower, fillvalue=""):
        spans |= bool(group and not above and below)
        group = above or group
        names.append(f"{group} {below}".strip() if below else above)
    names = names[: _width(names)]
    return tuple(names) if spans and all(names) and _are_names(names) else ()


def _is_above_data(rows: Sequence[Sequence[str]], header: int, cells: int) -> bool:
    """Return whether the next rows, apart from rows of text such as units, have the usual number of cells and hold
    numbers or dates."""
    first = header + 1
    while first < min(header + 1 + MAX_BELOW, len(rows)) and len(rows[first]) == cells and _is_text(rows[first]):
        first += 1
    following = rows[first : first + FOLLOWING]
    return bool(following) and all(len(row) == cells and not _is_text(row) for row in following)


def _are_names(row: Sequence[str]) -> bool:
    names = [cell for cell in row if cell]
    return len(set(names)) == len(names) and not any(is_number(cell) or DATE.match(cell) for cell in names)


def _rows_of_text(rows: Sequence[Sequence[str]], header: int) -> int:
    """Return how many rows below the header hold units and other text where the rows below them hold numbers."""
    for below in range(min(MAX_BELOW, len(rows) - header - 2), 0, -1):
        first = header + 1 + below
        if all(_is_text(row) for row in rows[header + 1 : first]) and _above_numbers(rows[header + 1], rows[first:]):
            return below
    return 0


def _is_text(row: Sequence[str]) -> bool:
    return all(len(cell) <= MAX_UNIT and not is_number(cell) and not DATE.match(cell) for cell in row)


def _above_numbers(units: Sequence[str], data: Sequence[Sequence[str]]) -> bool:
    """Return whether most columns of numbers have a unit, and no unit comes again below."""
    if not any(is_number(cell) for cell in data[0]):
        return False
    numeric, named = 0, 0
    for place, unit in enumerate(units):
        cells = [row[place] for row in data if place < len(row)]
        values = [cell for cell in cells if cell.casefold() not in NO_VALUE]
        if unit in values:
            return False
        if values and all(is_number(cell) for cell in values):
            numeric, named = numeric + 1, named + (unit.casefold() not in NO_VALUE)
    return named > 0 and 2 * named >= numeric


def _unit(cell: str) -> str:
    """Return the unit without brackets around it; a dash stands for none."""
    bare = cell.strip().strip("[](){}").strip()
    return "" if bare in ("-", "--") else bare


def _width(row: Sequence[str]) -> int:
    """Return the number of cells up to the last that is not empty."""
    return max((place for place, cell in enumerate(row, start=1) if cell), default=0)
