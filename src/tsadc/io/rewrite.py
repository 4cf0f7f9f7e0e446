"""Write files again with some cells changed or rows left out: the same format, and everything else as it was.

Text files keep every other character: separators, quotes, line ends, encoding, columns of text, lines above the header.
Parquet and Arrow files keep their schema and metadata."""

from __future__ import annotations

import codecs
import gzip
import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tsadc.errors import DataError, TsadcNotice
from tsadc.io.columnar import guarded
from tsadc.io.columns import Columns, split_columns
from tsadc.io.delimited import UNICODE, WESTERN, Form, form_of
from tsadc.io.files import COMPRESSED, ending, entity_names, expand
from tsadc.io.read import ENDINGS, own_reading, read_frame
from tsadc.io.reading import DEFAULT, Reading
from tsadc.io.write_back import Changes, as_type, no_missing, rows_of_clock, source_cells, source_rows
from tsadc.series import Booleans, Floats

TEXTS = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".txt", ".dat")
ARROW = (".parquet", ".arrow", ".feather")
REWRITTEN = (*TEXTS, *ARROW, ".npy")
PLAIN = re.compile(r"[+-]?\d*(?:[.,](\d*))?")
FIELD = re.compile(r'(\s*"?)(.*?)("?\s*)', re.DOTALL)
BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


@dataclass(frozen=True, eq=False)
class Source:
    """What changes in one file: cells (row, variable) of the variables `names`, and rows that are left out."""

    file: Path
    names: tuple[str, ...]  # as in the file
    cells: Booleans
    values: Floats
    dropped: Booleans

    @property
    def count(self) -> int:
        """Number of cells that change."""
        return int((self.cells & ~self.dropped[:, None]).sum())


def check_rewritable(paths: Sequence[Path], reading: Reading) -> None:
    """Raise if one of the files cannot be written again, before time is spent."""
    for option in ("long", "difference", "sql", "stream"):
        if getattr(reading, option):
            raise DataError(
                f"Data that is read with --{option} cannot be written back cell by cell; export it as a table with one "
                "column per variable, and clean that."
            )
    for file in expand(paths, ENDINGS):
        if ending(file) not in REWRITTEN:
            raise DataError(
                f"{file} cannot be written back; cleaning writes {', '.join(REWRITTEN)}, so export it to one of these."
            )


def sources(paths: Sequence[Path], reading: Reading, changes: Mapping[str, Changes]) -> Iterator[Source]:
    """Yield what changes in each file that `tsadc.read` reads, in its order. `changes` are by entity."""
    files = expand(paths, ENDINGS)
    for file, name in zip(files, entity_names(files), strict=True):
        of_file, entity = own_reading(file, paths, reading)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TsadcNotice)  # given when the data was read
            if ending(file) == ".npy":
                yield _array(file, _changes_of(changes, entity or name, file))
            else:
                yield _table(file, name, entity, of_file, changes)


def _changes_of(changes: Mapping[str, Changes], entity: str, file: Path) -> Changes:
    if entity not in changes:
        raise DataError(f"{entity!r} in {file} was left out when the data was read; do not give that file.")
    return changes[entity]


def _array(file: Path, changes: Changes) -> Source:
    shape = changes.series.values.shape
    rows = np.arange(shape[0])
    columns = Columns(None, np.asarray(changes.series.values), changes.series.names)
    return Source(file, changes.series.names, *source_cells(columns, changes, rows), source_rows(changes, rows))


def _table(file: Path, name: str, entity: str | None, reading: Reading, changes: Mapping[str, Changes]) -> Source:
    frame = read_frame(file, reading)
    columns = split_columns(frame, str(file), reading)
    back = {new: old for old, new in (reading.rename or {}).items()}
    shape = len(frame), len(columns.names)
    cells, values, dropped = np.zeros(shape, dtype=bool), np.zeros(shape), np.zeros(shape[0], dtype=bool)
    entities = columns.entities
    if entities is None or entity is not None:
        entities = np.full(len(columns.values), entity or name, dtype=object)
    for one_entity in pd.unique(entities):
        mine = np.flatnonzero(entities == one_entity)
        times = None if columns.times is None else columns.times[mine]
        part = replace(columns, times=times, values=columns.values[mine], entities=None)
        change = _changes_of(changes, str(one_entity), file)
        rows = rows_of_clock(part, change.series, reading)
        cells[mine], values[mine] = source_cells(part, change, rows)
        dropped[mine] = source_rows(change, rows)
    return Source(file, tuple(back.get(new, new) for new in columns.names), cells, values, dropped)


def rewrite(source: Source, out: Path, reading: Reading = DEFAULT) -> None:
    """Write the file to `out` with its changes."""
    kind = ending(source.file)
    if kind in TEXTS:
        _rewrite_text(source, out, reading)
    elif kind in ARROW:
        guarded(source.file, "Arrow", lambda: _rewrite_arrow(source, out))
    else:
        _rewrite_array(source, out)


def _rewrite_text(source: Source, out: Path, reading: Reading) -> None:
    form = form_of(source.file, reading)
    packed = source.file.suffix.lower() == COMPRESSED
    content = source.file.read_bytes()
    content = gzip.decompress(content) if packed else content
    mark, encoding = next(((mark, name) for mark, name in BOMS if content.startswith(mark)), (b"", form.encoding))
    if encoding == UNICODE:
        encoding = "utf-8"
    try:
        text = content[len(mark) :].decode(encoding)
    except UnicodeDecodeError:
        encoding = WESTERN  # as it was read
        text = content.decode(encoding)
    lines = list(io.StringIO(text, newline=""))
    records = _records(lines, form)
    if len(records) != len(source.cells):
        raise _not_located(source.file)
    _write_cells(lines, records, source, form)
    removed = {line for row in np.flatnonzero(source.dropped) for line in range(*records[row])}
    written = mark + "".join(line for i, line in enumerate(lines) if i not in removed).encode(encoding)
    out.write_bytes(gzip.compress(written, mtime=0) if packed else written)


def _not_located(file: Path) -> DataError:
    return DataError(
        f"The rows of {file} could not be located line by line; save it as a plain CSV file without line breaks inside "
        "cells, or as Parquet."
    )


def _records(lines: Sequence[str], form: Form) -> list[tuple[int, int]]:
    """Return the lines [first, stop) of each row of data, as pandas counts them."""
    skipped, blank = set(form.skipped), " \t\r\n".replace(form.separator, "")
    records: list[tuple[int, int]] = []
    i = 0
    while i < len(lines):
        first = i
        quotes = lines[i].count('"')
        i += 1
        while quotes % 2 and i < len(lines):
            quotes += lines[i].count('"')
            i += 1
        if first not in skipped and lines[first].strip(blank):
            records.append((first, i))
    return records[1:]  # without the header


def _write_cells(lines: list[str], records: Sequence[tuple[int, int]], source: Source, form: Form) -> None:
    """Change the cells in `lines`. Numbers get as many decimals as those of the column that they replace."""
    cells = source.cells & ~source.dropped[:, None]
    fields: dict[int, list[str]] = {}
    for k, name in enumerate(source.names):
        rows = np.flatnonzero(cells[:, k]).tolist()
        if not rows:
            continue
        if name not in form.names:
            raise _not_located(source.file)
        place = form.names.index(name)
        for row in rows:
            if row not in fields:
                first, stop = records[row]
                fields[row] = _fields(lines[first], form.separator) if stop - first == 1 else []
            if place >= len(fields[row]):
                raise _not_located(source.file)
        digits = _digits([fields[row][place] for row in rows])
        for row in rows:
            before, _, after = _parts(fields[row][place])
            written = _number(source.values[row, k], digits, form.decimal)
            if not written and len(fields[row]) == 1:
                written = "NaN"  # an empty line would be no row
            fields[row][place] = before + written + after
    for row, texts in fields.items():
        lines[records[row][0]] = form.separator.join(texts)


def _fields(line: str, separator: str) -> list[str]:
    """Divide a line at separators that are not inside quotes, and keep everything else; the line end stays last."""
    fields, quoted = [""], False
    for piece in re.split(f"({re.escape(separator)})", line):
        if piece == separator and not quoted:
            fields.append("")
            continue
        fields[-1] += piece
        quoted ^= piece.count('"') % 2 == 1
    return fields


def _parts(field: str) -> tuple[str, str, str]:
    """Return what stands before the text of a field, the text, and what stands after it: blanks, quotes, line ends."""
    match = FIELD.fullmatch(field)
    return (match[1], match[2], match[3]) if match else ("", field, "")


def _digits(texts: Sequence[str]) -> int | None:
    """Return the largest number of decimals; None if a number is not written plainly."""
    numbers = [PLAIN.fullmatch(_parts(text)[1]) for text in texts]
    return max((len(number[1] or "") for number in numbers if number), default=0) if all(numbers) else None


def _number(value: float, digits: int | None, decimal: str) -> str:
    if np.isnan(value):
        return ""
    return (repr(float(value)) if digits is None else f"{value:.{digits}f}").replace(".", decimal)


def _rewrite_arrow(source: Source, out: Path) -> None:
    import pyarrow as pa
    from pyarrow import compute, feather, ipc
    from pyarrow import parquet as pq

    parquet = ending(source.file) == ".parquet"
    table = pq.read_table(source.file) if parquet else feather.read_table(source.file)
    cells = source.cells & ~source.dropped[:, None]
    for k, name in enumerate(source.names):
        if cells[:, k].any():
            place = next(i for i, column in enumerate(table.schema.names) if column.strip() == name)
            field = table.schema.field(place)
            new = pa.array(_arrow_values(source.values[:, k], cells[:, k], field), type=field.type)
            table = table.set_column(place, field, compute.if_else(pa.array(cells[:, k]), new, table.column(place)))
    table = table.filter(pa.array(~source.dropped)) if source.dropped.any() else table
    if parquet:
        metadata = pq.read_metadata(source.file)
        packed = metadata.row_group(0).column(0).compression if metadata.num_row_groups else "SNAPPY"
        pq.write_table(table, out, compression="NONE" if packed == "UNCOMPRESSED" else packed)
    else:
        with ipc.new_file(str(out), table.schema) as writer:
            writer.write_table(table)


def _arrow_values(values: Floats, cells: Booleans, field: Any) -> list[Any]:
    import pyarrow as pa

    if not field.nullable and np.isnan(values[cells]).any():
        raise no_missing(f"Column {field.name!r}", field.type)
    numbers: list[Any] = [float(v) if cell and not np.isnan(v) else None for v, cell in zip(values, cells, strict=True)]
    if pa.types.is_boolean(field.type):
        return [None if number is None else number >= 0.5 for number in numbers]
    if pa.types.is_integer(field.type):
        return [None if number is None else round(number) for number in numbers]
    return numbers


def _rewrite_array(source: Source, out: Path) -> None:
    values: NDArray[Any] = np.load(source.file, allow_pickle=False)
    cells = (source.cells & ~source.dropped[:, None]).reshape(values.shape)
    values[cells] = as_type(source.values.reshape(values.shape)[cells], values.dtype, str(source.file))
    kept = ~source.dropped.reshape(len(values), -1).any(axis=1)
    with open(out, "wb") as file:
        np.save(file, values[kept], allow_pickle=False)
