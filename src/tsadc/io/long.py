"""Long tables -> wide tables: one row per value (time, variable, value) becomes one row per time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tsadc.errors import DataError, listed, notice
from tsadc.io.clock import ticks_of
from tsadc.io.columns import DECIMAL, NOTES, as_numbers, check_width, entities_of
from tsadc.io.limits import check_numbers
from tsadc.io.reading import Reading, no_column
from tsadc.io.times import read_times


def pivot(frame: pd.DataFrame, source: str, reading: Reading) -> pd.DataFrame:
    """Return the table with one column per variable and one row per time (and entity), sorted by time.

    With `every`, the values of a variable are averaged in each step of the grid: variables of a historian have times of
    their own."""
    assert reading.long is not None
    time, variable, value = reading.long
    data = {str(name).strip(): frame.iloc[:, i] for i, name in enumerate(frame.columns)}
    for name in reading.long:
        if name not in data:
            raise no_column(name, list(data), source)
    others = [name for name in data if name not in (*reading.long, reading.entity, *reading.exclude)]
    if others:
        notice(f"{source}: columns besides time, variable and value were left out: {listed(others)}.")
    entities = None if reading.entity is None else entities_of(data, reading.entity, source)
    tags = entities_of(data, variable, source, "variable")
    times = _times(data[time], time, source, reading)
    reading = replace(reading, decimal=reading.decimal or frame.attrs.get(DECIMAL))
    values = as_numbers(data[value], value, source, reading)
    if values is None:
        raise DataError(f"{source}: the column of values, {value!r}, holds only text; name the columns with --long.")
    owners, known_entities = (np.zeros(len(frame), np.int64), None) if entities is None else pd.factorize(entities)
    moments, moment_of = np.unique(times.as_unit("ns").asi8, return_inverse=True)
    keys, rows = np.unique(owners * len(moments) + moment_of, return_inverse=True)
    places, names = pd.factorize(tags)
    for what, column in (("time", time), ("entity", reading.entity)):
        if column in names:
            raise DataError(f"{source} has a variable {column!r}, named like its {what} column; rename one of them.")
    check_width(len(names), source)
    check_numbers(len(keys) * len(names), f"{source}, with one column per variable,", "use a longer --every")
    cells = rows * len(names) + places
    if reading.every is None:
        _refuse_repeated(cells, times, tags, source)
    known = np.isfinite(values)
    count = np.bincount(cells[known], minlength=len(keys) * len(names))
    total = np.bincount(cells[known], weights=values[known], minlength=len(keys) * len(names))
    wide = np.divide(total, count, out=np.full(len(total), np.nan), where=count > 0).reshape(len(keys), len(names))
    out = pd.DataFrame(wide, columns=[str(name) for name in names])
    stamps = pd.DatetimeIndex(moments[keys % len(moments)])
    out.insert(0, time, stamps if times.tz is None else stamps.tz_localize("UTC").tz_convert(times.tz))
    if known_entities is not None:
        out.insert(1, str(reading.entity), known_entities[keys // len(moments)])
    out.attrs[NOTES] = frame.attrs.get(NOTES, [])
    return out


def _times(column: pd.Series, name: str, source: str, reading: Reading) -> pd.DatetimeIndex:
    """Return the times, rounded down to the grid of `every` if there is one."""
    times = read_times(column, name, source, reading.dayfirst)
    ticks = ticks_of(times, source)
    if reading.interval is None:
        return times
    floored = pd.DatetimeIndex(ticks // reading.interval * reading.interval)
    return floored if times.tz is None else floored.tz_localize("UTC").tz_convert(times.tz)


def _refuse_repeated(cells: NDArray[np.int64], times: pd.DatetimeIndex, tags: NDArray[np.object_], source: str) -> None:
    again = pd.Series(cells).duplicated().to_numpy()
    if again.any():
        row = int(np.flatnonzero(again)[0])
        raise DataError(
            f"{source} has two values of {tags[row]!r} at {times[row]}, the second at row {row}; remove one, name the "
            "column with the entity of each row with --entity, or average them with --every (in Python: "
            "Reading(every=...))."
        )
