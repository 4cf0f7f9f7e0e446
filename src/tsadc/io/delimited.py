"""Delimited text files -> data frames: CSV and TSV, also compressed with gzip.

Encoding, separator, decimal comma, lines above the header and rows of units are found in the first lines, unless
`Reading` states them."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, cast

import pandas as pd

from tsadc.errors import DataError
from tsadc.io.columns import DECIMAL, MAX_VARIABLES, NOTES, UNITS, check_width
from tsadc.io.files import COMPRESSED, ending
from tsadc.io.layout import Table, decimal_mark, find_table, share_of_width
from tsadc.io.limits import check_text_size
from tsadc.io.reading import DEFAULT, Reading, reason
from tsadc.io.times import TIME_NAMES

# Since 3.1 pandas reads floats exactly by default, and deprecates the option.
PANDAS = tuple(int(part) for part in pd.__version__.split(".")[:2])
EXACT: dict[str, Any] = {} if PANDAS >= (3, 1) else {"float_precision": "round_trip"}
CHUNK = 65536  # bytes in which the form of a file is recognised, unless its header is longer
MAX_HEADER = 200 * MAX_VARIABLES  # bytes
MAX_SAMPLED = 200  # rows
SEPARATORS = ",;\t|"
UNICODE = "utf-8-sig"
WESTERN = "cp1252"
COMMENT = "#"  # begins lines above the table; the last one may be the header
STATED_SEPARATOR = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)  # a first line that Excel reads and writes
FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # text that a spreadsheet runs; files have an apostrophe before it
CONTROL = re.compile(rb"[\x00-\x08\x0e-\x19\x1b-\x1f]")


@dataclass(frozen=True)
class Form:
    """How a file is written: its encoding, its marks, the names of its columns, and the lines to skip."""

    encoding: str
    separator: str
    decimal: str
    names: list[str]  # without gaps: a column without a name is called as pandas calls it
    skipped: list[int]
    padded: bool  # some cells begin with a space; pandas is slower if it must look for them
    units: dict[str, str]
    notes: list[str]


def read_delimited(path: Path, reading: Reading = DEFAULT) -> pd.DataFrame:
    """Read the file as a frame. Columns with entities and tags stay text even if they look like numbers: 007 is not 7.

    What was found out about its form is in `frame.attrs`: the units of columns, and notes for the user."""
    check_text_size(path)
    with _refused_damage(path, reading):
        form = form_of(path, reading)
        try:
            frame = _read_table(path, form, reading)
        except UnicodeDecodeError:
            if reading.encoding is not None or form.encoding != UNICODE:
                raise
            form = replace(form, encoding=WESTERN, notes=[*form.notes, _encoding_note(WESTERN)])
            frame = _read_table(path, form, reading)
    if not isinstance(frame.index, pd.RangeIndex):
        raise DataError(
            f"{path} has more values in a row than names in its header; give every column a name, or state "
            "how many lines are above the header with --skip-rows (in Python: Reading(skip_rows=...))."
        )
    frame.attrs.update({UNITS: form.units, NOTES: form.notes, DECIMAL: "," if form.decimal == "," else None})
    return frame


def read_texts(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    """Read a small table, such as one that a spreadsheet has saved, as texts: the names in its first line, and by name
    the cells of each further line that has any.

    Encoding and separator are found, and the apostrophe before what could be a formula is removed."""
    check_text_size(path)
    with _refused_damage(path, DEFAULT):
        content = path.read_bytes()
        try:
            text = content.decode(_encoding(content, path))
        except UnicodeDecodeError:
            text = content.decode(WESTERN)
        lines = io.StringIO(text.removeprefix("\ufeff"), newline=None).read().split("\n")
        written = STATED_SEPARATOR.fullmatch(lines[0])
        lines = lines[1:] if written else lines
        separator = written[1] if written else max(SEPARATORS, key=_without_quoted(lines[0]).count if lines else len)
        rows = [row for row in csv.reader(lines, delimiter=separator) if any(cell.strip() for cell in row)]
    if not rows:
        raise DataError(f"{path} is empty, but a line with the names of columns was expected.")
    names = [name.strip() for name in rows[0]]
    _check_header(names, path)
    cells = [[bare(cell.strip()) for cell in row] + [""] * (len(names) - len(row)) for row in rows[1:]]
    return names, [dict(zip(names, row, strict=False)) for row in cells]


def inert(value: Any) -> Any:
    """Put an apostrophe before text that a spreadsheet would run as a formula; anything else stays as it is."""
    if not isinstance(value, str) or value[:1] not in FORMULAS or not value:
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def bare(text: str) -> str:
    """Return the text of a CSV cell without the apostrophe that `inert` has put before it."""
    return text[1:] if text[:1] == "'" and inert(text[1:]) == text else text


def _read_table(path: Path, form: Form, reading: Reading) -> pd.DataFrame:
    texts = {reading.entity, reading.long[1] if reading.long else None}
    literal = {name: _marked for name in form.names if name in texts}
    # Infer types from whole columns, not from chunks: chunks may differ, and pandas would warn about it.
    frame: pd.DataFrame = pd.read_csv(
        path,
        sep=form.separator,
        decimal=form.decimal,
        encoding=form.encoding,
        skiprows=form.skipped or None,
        header=0,
        names=form.names,
        skipinitialspace=form.padded,
        low_memory=False,
        converters=literal or None,
        na_values=["NAN", *(text for text in reading.missing if isinstance(text, str))],
        compression="gzip" if path.suffix.lower() == COMPRESSED else None,
        **EXACT,
    )
    if not isinstance(frame.index, pd.RangeIndex):
        return frame
    for name in literal:
        frame[name] = frame[name].str[1:]
    # A separator at the end of every line makes one more column, without a name and without values.
    empty = [name for name in frame.columns if str(name).startswith("Unnamed: ") and frame[name].isna().all()]
    return frame.drop(columns=empty)


def _marked(cell: str) -> str:
    """Mark text so that pandas takes it neither for a number nor for a missing value, as it takes NA (Namibia)."""
    return "=" + cell.strip()


@contextmanager
def _refused_damage(path: Path, reading: Reading) -> Iterator[None]:
    try:
        yield
    except UnicodeError:
        stated = reading.encoding is not None
        form = f"is not text in the encoding {reading.encoding}" if stated else "is not text in a known encoding"
        raise DataError(
            f"{path} {form}; name another one with --encoding (in Python: Reading(encoding=...)), or save it as UTF-8."
        ) from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path} is not a complete gzip file: {reason(error)}.") from None
    except (pd.errors.ParserError, pd.errors.EmptyDataError, csv.Error) as error:
        raise DataError(f"{path} is not a well-formed CSV file: {reason(error)}.") from None


def form_of(path: Path, reading: Reading) -> Form:
    """Find out how the file is written; check its header before the rest is read."""
    with _open(path) as file:
        head = file.read(CHUNK)
        while b"\n" not in head.lstrip() and len(head) < MAX_HEADER and (more := file.read(CHUNK)):
            head += more
        complete = not file.read(1)
    encoding = reading.encoding or _encoding(head, path)
    text = codecs.getincrementaldecoder(encoding)().decode(head).removeprefix("\ufeff")
    lines = io.StringIO(text, newline=None).read().split("\n")
    lines = lines if complete or len(lines) < 3 else lines[:-1]  # the last one may be cut off
    lines = lines[reading.skip_rows or 0 :]
    if not any(line.strip() for line in lines):
        raise DataError(f"{path} is empty, but a header and rows of numbers were expected.")
    sample = _sample(path, lines, reading)
    table, names = sample.table, [name.strip() for name in sample.table.merged or sample.rows[sample.table.header]]
    _check_header(names, path)
    header = (reading.skip_rows or 0) + sample.starts[table.header]
    below = (reading.skip_rows or 0) + sample.first_line
    decimal = reading.decimal or _decimal(names, sample.cells[table.first :])
    units = {name: unit for name, unit in zip(names, table.units, strict=False) if unit}
    notes = [_encoding_note(encoding)] if reading.encoding is None and encoding != UNICODE else []
    if table.header:
        first = next(line for line in lines if line.strip()).strip()
        notes.append(
            f"{header} line(s) above the header were skipped, from {_shortened(first)!r}; --skip-rows states how many"
        )
    if table.merged:
        notes.append("its header has two rows, which were joined")
    if table.below > bool(table.merged):
        shown = ", ".join(f"{name} {unit}" for name, unit in list(units.items())[:3]) or "none"
        notes.append(f"{table.below - bool(table.merged)} row(s) of text below the header were read as units ({shown})")
    if decimal == "," and reading.decimal is None:
        notes.append("its numbers have a decimal comma")
    columns = [name or f"Unnamed: {place}" for place, name in enumerate(names + [""] * sample.nameless)]
    skipped = [*range(header), *range(header + 1, below)]
    padded = any(f"{sample.separator} " in line for line in lines)
    return Form(encoding, sample.separator, decimal, columns, skipped, padded, units, notes)


def _open(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path, "rb")) if path.suffix.lower() == COMPRESSED else open(path, "rb")


def _encoding(head: bytes, path: Path) -> str:
    """Return UTF-8, or another encoding if the first bytes show it."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    for encoding, zeros in (("utf-16-le", head[1::2]), ("utf-16-be", head[0::2])):
        if len(head) > 3 and zeros.count(0) > 0.8 * len(zeros):
            return encoding
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        if CONTROL.search(head):
            raise DataError(
                f"{path} is not text, although its name ends in {ending(path)}; export it as CSV."
            ) from None
        return WESTERN
    return UNICODE


def _encoding_note(encoding: str) -> str:
    why = ", because it is not UTF-8" if encoding == WESTERN else ""
    return f"it was read in the encoding {encoding}{why}; --encoding names another one"


def _sample(path: Path, lines: list[str], reading: Reading) -> _Sample:
    """Divide the first lines into cells. Unless it is stated, the separator is the mark that is most frequent in the
    first line, or another one if only that gives rows of equal length."""
    stated = reading.separator or ("\t" if ending(path).startswith(".tsv") else None)
    if written := STATED_SEPARATOR.fullmatch(lines[0]):
        stated, lines = stated or written[1], ["", *lines[1:]]
    lines = _without_comment_marks(lines)
    first = next((line for line in lines if line.strip()), "")
    usual = stated or max(SEPARATORS, key=_without_quoted(first).count)
    check_width(_without_quoted(first).count(usual) + 1, str(path))
    best = _Sample.of(lines, usual, reading)
    for separator in "" if stated or best.fits else SEPARATORS.replace(usual, ""):
        with suppress(csv.Error):
            other = _Sample.of(lines, separator, reading)
            if other.fits and (not best.fits or other.width > best.width):
                best = other
    check_width(best.width, str(path))
    return best


def _without_comment_marks(lines: list[str]) -> list[str]:
    """Return the lines without the comment marks at the top of the file: a comment may be the header."""
    first = next((number for number, line in enumerate(lines) if line.strip() and line[0] != COMMENT), len(lines))
    return [line.lstrip(COMMENT).lstrip() for line in lines[:first]] + lines[first:]


@dataclass(frozen=True)
class _Sample:
    """The first rows of a file, divided by a separator: their cells, the line at which each starts, and the table."""

    separator: str
    rows: list[list[str]]
    starts: list[int]
    table: Table
    plain: bool  # each row is one line

    @classmethod
    def of(cls, lines: list[str], separator: str, reading: Reading) -> _Sample:
        rows, starts, line, plain = list[list[str]](), list[int](), 0, True
        reader = csv.reader(lines, delimiter=separator, skipinitialspace=True)
        for row in reader:
            if len(row) > 1 or (row and row[0].strip()):
                rows.append(row)
                starts.append(line)
            # pandas does not count lines inside of quotes, so that lines after them cannot be skipped.
            plain, line = plain and reader.line_num - line == 1, reader.line_num
            if len(rows) == MAX_SAMPLED:
                break
        if not rows:
            raise csv.Error("No columns to parse from file")
        cells = [[cell.strip() for cell in row] for row in rows]
        table = find_table(cells, may_skip=reading.skip_rows is None) if plain else Table(0, 0)
        return cls(separator, rows, starts, table, plain)

    @property
    def cells(self) -> list[list[str]]:
        return [[cell.strip() for cell in row] for row in self.rows]

    @property
    def width(self) -> int:
        return len(self.rows[self.table.header])

    @property
    def first_line(self) -> int:
        """The line of the first row of data, or the one below the header."""
        below = self.starts[self.table.header] + 1
        return self.starts[self.table.first] if self.plain and self.table.first < len(self.starts) else below

    @property
    def nameless(self) -> int:
        """Columns at the end that have neither a name nor, in the sample, a value: separators at the end of lines."""
        rows = self.rows[self.table.first :]
        named = max((len(row) for row in rows if any(cell.strip() for cell in row[self.width :])), default=self.width)
        return max((len(row) for row in rows), default=0) - self.width if named == self.width else 0

    @property
    def fits(self) -> bool:
        """Whether there are several columns, and most rows have as many as the header."""
        return self.width > 1 and share_of_width(self.rows, self.table) > 0.5


def _decimal(names: list[str], rows: list[list[str]]) -> str:
    timely = {place for place, name in enumerate(names) if name.strip().lower() in TIME_NAMES}
    return decimal_mark([cell for row in rows for place, cell in enumerate(row) if cell and place not in timely])


def _check_header(names: list[str], path: Path) -> None:
    if not any(names):
        raise csv.Error("No columns to parse from file")
    dated = not _is_number(names[0]) and any(letter.isdigit() for letter in names[0])
    rest = names[1:] if dated else names
    counted = [str(i) for i in range(len(rest))]  # pandas writes columns without names this way
    if rest and rest != counted and all(_is_number(name) for name in rest):
        raise DataError(f"{path} has no header: its first line holds numbers; add a line with the variables' names.")
    twice = next((name for name, count in Counter(names).items() if name and count > 1), None)
    if twice is not None:
        raise DataError(f"{path} has two columns named {twice!r}; give every variable its own name.")


def _without_quoted(header: str) -> str:
    return re.sub(r'"[^"]*"', "", header)


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True
