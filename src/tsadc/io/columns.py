"""Columns of a data frame -> time, entity and variables. Every value of a variable must be a number."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tsadc.errors import DataError, notice
from tsadc.io.reading import DEFAULT, Reading, choose, no_column, without_missing
from tsadc.io.times import TIME_NAMES, date_order, is_epoch, is_time, read_times
from tsadc.series import Floats

COUNTER_NAMES = TIME_NAMES | {"index", "row", "step"}
UNNAMED_INDEX = {"unnamed: 0", "", "__index_level_0__", "level_0"}  # how pandas writes an index without a name
MAX_VARIABLES = 10_000
DECIMAL_COMMA = re.compile(r"[+-]?\d+([.,]\d{3})*,\d+")


@dataclass(frozen=True)
class Columns:
    """The variables of a table and, for each row, its time and its entity, if there are such columns.

    `date_order` says how dates such as 03/04/2024 were read: "day first", "month first", or "" if there was no choice.
    """

    times: pd.DatetimeIndex | None
    values: Floats
    names: tuple[str, ...]
    entities: NDArray[np.object_] | None = None
    date_order: str = ""


def split_columns(frame: pd.DataFrame, source: str, reading: Reading = DEFAULT) -> Columns:
    """Split the columns into time, entity and variables.

    Unless `reading` names the time column, it is the index if that holds times, or else the first column that is a time
    by its type, name or content. A column that only numbers the rows is dropped."""
    check_width(frame.shape[1], source)
    for level in (reading.entity, reading.time):
        if level is not None and level in frame.index.names:
            frame = frame.reset_index(level=level)
    names = [str(name).strip() for name in frame.columns]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"{source} has two columns named {twice!r}; give every variable its own name.")
    for name in reading.exclude:
        if name not in names and name not in reading.may_lack:
            raise no_column(name, names, source)
    data = {name: frame.iloc[:, i] for i, name in enumerate(names) if name not in reading.exclude}
    entities = None if reading.entity is None else _entities(data, reading.entity, source)
    times, order = _times(frame.index, data, reading.time, entities, source)
    wanted = {*(reading.columns or ()), *reading.difference}
    for i, name in enumerate(names):
        if name in data and name not in wanted and is_counter(name, i, data[name], entities, source):
            del data[name]
    rest = list(data)
    positions, new_names = choose_variables(rest, replace(reading, exclude=()), source)
    values = {
        new_name: numbers
        for new_name, position in zip(new_names, positions, strict=True)
        if (numbers := _numbers(data[rest[position]], rest[position], source, reading)) is not None
    }
    check_variables(tuple(values), source)
    return Columns(times, np.column_stack(list(values.values())), tuple(values), entities, order)


def check_width(count: int, source: str) -> None:
    """Raise an error if there are too many columns, before time is spent on them."""
    if count > MAX_VARIABLES:
        raise DataError(
            f"{source} has more than {MAX_VARIABLES} columns, which is more variables than can be modelled; transpose "
            "it if its rows are the variables."
        )


def find_infinite(values: Floats) -> tuple[int, int] | None:
    """Return the row and the column of the first infinite value, or None."""
    # The extremes need no array of flags as large as the data, which may be a file on disk.
    if not np.isinf(np.fmin.reduce(values, axis=None)) and not np.isinf(np.fmax.reduce(values, axis=None)):
        return None
    row, column = (int(i[0]) for i in np.nonzero(np.isinf(values)))
    return row, column


def check_variables(names: Sequence[str], source: str) -> None:
    """Raise an error if there is no variable."""
    if not names:
        raise DataError(
            f"{source} has no column of numbers besides the time, but at least one is needed; if it has one, check the "
            "separator."
        )


def _entities(data: dict[str, pd.Series], name: str, source: str) -> NDArray[np.object_]:
    """Remove the column `name` from `data` and return it as text."""
    if name not in data:
        raise no_column(name, list(data), source)
    column = data.pop(name)
    text = column.astype(str).str.strip().to_numpy(dtype=object)
    absent = column.isna().to_numpy() | (text == "")
    if absent.any():
        row = int(np.flatnonzero(absent)[0])
        raise DataError(
            f"{source}: the entity column {name!r} is empty at row {row} (counted from 0, below the header); fill it."
        )
    return np.asarray(text)


def _times(
    index: pd.Index, data: dict[str, pd.Series], name: str | None, entities: NDArray[np.object_] | None, source: str
) -> tuple[pd.DatetimeIndex | None, str]:
    """Remove the time column from `data` and return its times (None if there is no clock) and their date order."""
    if name is None:
        times = _index_times(index, source)
        if times is not None:
            return times, date_order(index.to_series(), times)
        name = next((n for n, column in data.items() if is_time(n, column)), None)
        if name is None:
            return None, ""
    if name not in data:
        raise no_column(name, list(data), source)
    column = data.pop(name)
    if pd.api.types.is_numeric_dtype(column) and not is_epoch(column):
        if _is_evenly_spaced(column, entities):
            return None, ""
        raise no_clock(name, source)
    times = read_times(column, name, source)
    return times, date_order(column, times)


def choose_variables(names: Sequence[str], reading: Reading, source: str) -> tuple[list[int], tuple[str, ...]]:
    """Like `choose`, but ignore the time and entity columns if `reading.columns` lists them."""
    if reading.columns is not None:
        rest = tuple(name for name in reading.columns if name in names or name not in (reading.time, reading.entity))
        reading = replace(reading, columns=rest or None)
    return choose(names, reading, source)


def _index_times(index: pd.Index, source: str) -> pd.DatetimeIndex | None:
    if isinstance(index, pd.MultiIndex):
        raise DataError(
            f"{source} has an index of several levels, but one of times was expected; pass a dict with one data frame "
            "per entity."
        )
    if isinstance(index, pd.PeriodIndex):
        return index.to_timestamp()
    name, column = str(index.name), index.to_series()
    return read_times(column, name, source) if is_time(name, column) else None


def is_counter(name: str, position: int, column: pd.Series, entities: NDArray[np.object_] | None, source: str) -> bool:
    """Return whether a column only numbers the rows (of each entity)."""
    if not pd.api.types.is_numeric_dtype(column) or len(column) < 2:
        return False
    if position == 0 and name.lower() in UNNAMED_INDEX:
        return pd.api.types.is_integer_dtype(column)
    named_as_time = name.lower() in TIME_NAMES
    if not named_as_time and (position > 0 or name.lower() not in COUNTER_NAMES):
        return False
    if _is_evenly_spaced(column, entities):
        return True
    if named_as_time and bool((_steps(column, entities) > 0).all()):
        raise no_clock(name, source)
    return False


def _is_evenly_spaced(column: pd.Series, entities: NDArray[np.object_] | None) -> bool:
    steps = _steps(column, entities)
    return bool(len(steps) and steps[0] > 0 and np.allclose(steps, steps[0], rtol=1e-3))


def _steps(column: pd.Series, entities: NDArray[np.object_] | None) -> Floats:
    """Return the differences from each row to the next of the same entity."""
    numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
    if entities is None:
        return np.diff(numbers)
    codes = pd.factorize(entities)[0]
    order = np.argsort(codes, kind="stable")
    steps: Floats = np.diff(numbers[order])[np.diff(codes[order]) == 0]
    return steps


def no_clock(name: str, source: str) -> DataError:
    return DataError(
        f"{source}: the time column {name!r} holds numbers that are neither evenly spaced nor times since 1970; write "
        "times such as 2024-01-31 10:00:00, or remove the column."
    )


def _numbers(column: pd.Series, name: str, source: str, reading: Reading) -> Floats | None:
    """Return the column as float64, or None with a notice if all of it is text."""
    if pd.api.types.is_datetime64_any_dtype(column) or pd.api.types.is_timedelta64_dtype(column):
        raise DataError(f"{source} has a second column of times, {name!r}; remove all but one.")
    if pd.api.types.is_complex_dtype(column):
        raise DataError(
            f"{source}: column {name!r} holds complex numbers; write the real and the imaginary part as two columns."
        )
    if pd.api.types.is_numeric_dtype(column):
        number = column
    else:
        column = _without_missing_texts(column, reading)
        try:
            number = pd.to_numeric(column, errors="coerce")
        except OverflowError:  # a whole number beyond any float
            number = pd.to_numeric(column.astype(str), errors="coerce")
        _refuse_text(column, number.isna() & column.notna(), name, source)
        if number.isna().all() and column.notna().any():
            notice(f"{source}: column {name!r} holds only text and was left out.")
            return None
    values = without_missing(number.to_numpy(dtype=np.float64, na_value=np.nan), reading)
    if np.isinf(values).any():
        row = int(np.flatnonzero(np.isinf(values))[0])
        raise DataError(
            f"{source}: column {name!r} is infinite at row {row}; leave the cell empty where nothing was measured."
        )
    return values


def _without_missing_texts(column: pd.Series, reading: Reading) -> pd.Series:
    """Return the column with None for the texts that `reading.missing` lists, in any case."""
    texts = {text.casefold() for text in reading.missing if isinstance(text, str)}
    if not texts:
        return column
    return column.mask(column.astype(str).str.strip().str.casefold().isin(texts))


def _refuse_text(column: pd.Series, wrong: pd.Series, name: str, source: str) -> None:
    """Raise an error for text among numbers, and for numbers with a decimal comma."""
    if not wrong.any():
        return
    row = int(np.flatnonzero(wrong)[0])
    cell = column.iloc[row]
    if DECIMAL_COMMA.fullmatch(str(cell).strip()):
        fix = "write numbers with a decimal point and without thousands separators"
    elif wrong.sum() < column.notna().sum():
        fix = (
            f"if it means not measured, add --missing {shlex.quote(str(cell).strip())} (in Python: "
            f"Reading(missing=[{str(cell).strip()!r}]))"
        )
    else:
        return
    raise DataError(
        f"{source}: column {name!r} should hold numbers, but row {row} (counted from 0, below the header) holds "
        f"{cell!r}; {fix}."
    )
