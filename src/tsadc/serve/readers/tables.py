"""Data frames -> batches of rows, for readers of tables."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from threading import Event

import numpy as np
import pandas as pd

from tsadc.errors import DataError
from tsadc.io.columns import split_columns
from tsadc.io.long import pivot
from tsadc.io.reading import Reading
from tsadc.serve.rows import RowBatch

OPTION = re.compile(r"--[a-z-]+(?: [^()]*)? \(in Python: Reading\((\w+)=(.+?)\)\)")  # in the messages of `tsadc.io`
MOST_ROWS = 10_000  # of a batch, so that storing one is quick


@dataclass(frozen=True)
class TableSettings:
    """How the columns of a table are understood; see `tsadc.Reading`.

    Parameters
    ----------
    time : str, optional
        Name of the time column. Default: it is found.
    entity : str, optional
        Name of the column that says which entity a row belongs to.
    entity_name : str, optional
        Name of the one entity to which all rows belong.
    columns : tuple of str, optional
        Names of the variables to keep. Default: all.
    exclude : tuple of str
        Names of columns to leave out.
    missing : tuple of str
        Numbers and texts that mean "not measured".
    long : tuple of three str, optional
        Names of the columns with time, variable and value of a table with one row per value.
    """

    time: str | None = None
    entity: str | None = None
    entity_name: str | None = None
    columns: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    missing: tuple[float | str, ...] = ()
    long: tuple[str, str, str] | None = None

    def reading(self) -> Reading:
        """Return the options for reading files."""
        names = ("time", "entity", "entity_name", "columns", "exclude", "missing", "long")
        return Reading(**{name: getattr(self, name) for name in names})


def to_batches(
    frame: pd.DataFrame, skip: int, source: str, entity: str, place: str, reading: Reading
) -> Iterator[RowBatch]:
    """Yield the rows of a table, entity by entity.

    Parameters
    ----------
    frame : DataFrame
    skip : int
        Rows at its start that only show what its columns are.
    source : str
        Name of the reader.
    entity : str
        Entity of all rows, unless a column names it.
    place : str
        Where the table comes from, for messages.
    reading : Reading
    """
    try:
        if reading.long is not None:
            frame, skip = pivot(frame.iloc[skip:], place, reading), 0
            reading = replace(reading, long=None, time=reading.long[0], missing=(), exclude=())
        columns = split_columns(frame, place, reading)
    except DataError as error:
        raise type(error)(OPTION.sub(lambda option: _setting(option, source), str(error))) from None
    if columns.times is None:
        raise DataError(f"{place} has no time column, which live rows need; name it with `time`.")
    times = columns.times[skip:]
    if times.isna().any():
        raise DataError(f"{place} has a row without a time; correct it.")
    ticks = np.asarray(times.tz_convert(None) if times.tz is not None else times, dtype="datetime64[ns]").view(np.int64)
    values = columns.values[skip:]
    if columns.entities is None:
        owners, names = np.zeros(len(ticks), dtype=np.int64), [reading.entity_name or entity]
    else:
        owners, found = pd.factorize(columns.entities[skip:])
        names = [str(name) for name in found]
    # In the order of time over all entities, so that none waits for the others.
    for first in range(0, len(ticks), MOST_ROWS):
        part = slice(first, first + MOST_ROWS)
        for code in np.unique(owners[part]):
            rows = np.flatnonzero(owners[part] == code) + first
            yield RowBatch(source, names[code], columns.names, ticks[rows], values[rows])


def _setting(option: re.Match[str], reader: str) -> str:
    """Return the setting of a reader that does the same as an option of the command line, if there is one."""
    name, value = option.groups()
    if name not in {field.name for field in fields(TableSettings)}:
        return option[0]
    if value == "...":
        return f"`{name}` of [reader.{reader}]"
    return f"`{name} = {json.dumps(ast.literal_eval(value), ensure_ascii=False)}` to [reader.{reader}]"


def pace(stop: Event, seconds: float) -> Iterator[None]:
    """Yield at once and then every so many seconds, until `stop` is set."""
    while not stop.is_set():
        yield
        stop.wait(seconds)
