"""A frame's columns sorted into time, entity and variables, with every value checked to be a number."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tsadc.errors import DataError, TsadcNotice
from tsadc.io.reading import PLAIN, Reading, choose, missing
from tsadc.io.times import TIME_NAMES, date_order, is_epoch, is_time, read_times
from tsadc.series import Floats

COUNTER_NAMES = TIME_NAMES | {"index", "row", "step"}
NAMELESS = {"unnamed: 0", "", "__index_level_0__", "level_0"}  # how frames write out an index without a name
MOST_VARIABLES = 10_000
SEPARATOR = "if there are more, check the file's separator"
GROUPED = re.compile(r"[+-]?\d+([.,]\d{3})*,\d+")


@dataclass(frozen=True)
class Columns:
    """`times` is None where the frame has no clock, `entities` where no column names them; both have one per row.
    `order` is how dates such as 03/04/2024 were read."""

    times: pd.DatetimeIndex | None
    values: Floats
    names: tuple[str, ...]
    entities: NDArray[np.object_] | None = None
    order: str = ""


def split_columns(frame: pd.DataFrame, source: str, reading: Reading = PLAIN) -> Columns:
    """Find the time in the index, or the time column by type, by name and by content, unless `reading` names it; what
    is taken of the rest must be numbers."""
    check_width(frame.shape[1], source)
    for level in (reading.entity, reading.time):
        if level is not None and level in frame.index.names:
            frame = frame.reset_index(level=level)
    names = [str(name).strip() for name in frame.columns]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"{source} has two columns named {twice!r}; give every variable its own name.")
    data = {name: frame.iloc[:, i] for i, name in enumerate(names)}
    entities = None if reading.entity is None else _entities(data, reading.entity, source)
    times, order = _times(frame.index, data, reading.time, entities, source)
    wanted = set(reading.columns or ())
    for i, name in enumerate(names):
        if name in data and name not in wanted and is_counter(name, i, data[name], entities, source):
            del data[name]
    taken, called = _chosen(data, reading, source)
    values = {
        new: number
        for new, name in zip(called, taken, strict=True)
        if (number := _numbers(data[name], name, source)) is not None
    }
    check_count(tuple(values), source)
    return Columns(times, np.column_stack(list(values.values())), tuple(values), entities, order)


def check_width(count: int, source: str) -> None:
    """Refuse what is too wide to be a table of sensors, before time is spent on it."""
    if count > MOST_VARIABLES:
        raise DataError(
            f"{source} has more than {MOST_VARIABLES} columns, which is more variables than can be modelled; turn it "
            "around if its rows are the variables."
        )


def infinite(values: Floats) -> tuple[int, int] | None:
    """The row and the column of a value that is infinite, if there is one. Extremes find it without an array of flags
    as long as the data, which may be a file on disk."""
    if not np.isinf(np.fmin.reduce(values, axis=None)) and not np.isinf(np.fmax.reduce(values, axis=None)):
        return None
    row, column = (int(i[0]) for i in np.nonzero(np.isinf(values)))
    return row, column


def check_count(names: tuple[str, ...], source: str, fix: str = SEPARATOR) -> None:
    """Refuse fewer than two variables."""
    if not names:
        raise DataError(f"{source} has no column of numbers besides the time; it needs at least two variables.")
    if len(names) == 1:
        raise DataError(
            f"{source} has a single variable, {names[0]!r}, but series of at least two variables are expected; {fix}."
        )


def _entities(data: dict[str, pd.Series], name: str, source: str) -> NDArray[np.object_]:
    """The column `name` as text, taken out of `data`."""
    if name not in data:
        raise missing(name, list(data), source)
    column = data.pop(name)
    text = column.astype(str).str.strip().to_numpy(dtype=object)
    absent = column.isna().to_numpy() | (text == "")
    if absent.any():
        row = int(np.flatnonzero(absent)[0])
        raise DataError(
            f"{source}: the column {name!r} names no entity at row {row} (counted from 0, below the header)."
        )
    return np.asarray(text)


def _times(
    index: pd.Index, data: dict[str, pd.Series], name: str | None, entities: NDArray[np.object_] | None, source: str
) -> tuple[pd.DatetimeIndex | None, str]:
    """The times, taken out of `data`, or None where there are none; and the order of their dates."""
    if name is None:
        times = _index_times(index, source)
        if times is not None:
            return times, date_order(index.to_series(), times)
        name = next((n for n, column in data.items() if is_time(n, column)), None)
        if name is None:
            return None, ""
    if name not in data:
        raise missing(name, list(data), source)
    column = data.pop(name)
    if pd.api.types.is_numeric_dtype(column) and not is_epoch(column):
        if _is_even(column, entities):
            return None, ""
        raise no_clock(name, source)
    times = read_times(column, name, source)
    return times, date_order(column, times)


def _chosen(data: dict[str, pd.Series], reading: Reading, source: str) -> tuple[list[str], tuple[str, ...]]:
    """The names of the variables to take, and their new names."""
    names = list(data)
    positions, called = choose_variables(names, reading, source)
    return [names[i] for i in positions], called


def choose_variables(names: Sequence[str], reading: Reading, source: str) -> tuple[list[int], tuple[str, ...]]:
    """As `choose`, where time and entity may be named among the columns."""
    if reading.columns is not None:
        rest = tuple(name for name in reading.columns if name in names or name not in (reading.time, reading.entity))
        reading = replace(reading, columns=rest or None)
    return choose(names, reading, source)


def _index_times(index: pd.Index, source: str) -> pd.DatetimeIndex | None:
    if isinstance(index, pd.MultiIndex):
        raise DataError(
            f"{source} has an index of several levels, but one series was expected; pass a dict with one frame per "
            "entity."
        )
    if isinstance(index, pd.PeriodIndex):
        return index.to_timestamp()
    name, column = str(index.name), index.to_series()
    return read_times(column, name, source) if is_time(name, column) else None


def is_counter(name: str, position: int, column: pd.Series, entities: NDArray[np.object_] | None, source: str) -> bool:
    """Whether a column only numbers the rows (of each entity)."""
    if not pd.api.types.is_numeric_dtype(column) or len(column) < 2:
        return False
    if position == 0 and name.lower() in NAMELESS:
        return pd.api.types.is_integer_dtype(column)
    timely = name.lower() in TIME_NAMES
    if not timely and (position > 0 or name.lower() not in COUNTER_NAMES):
        return False
    if _is_even(column, entities):
        return True
    if timely and bool((_steps(column, entities) > 0).all()):
        raise no_clock(name, source)
    return False


def _is_even(column: pd.Series, entities: NDArray[np.object_] | None) -> bool:
    steps = _steps(column, entities)
    return bool(len(steps) and steps[0] > 0 and np.allclose(steps, steps[0], rtol=1e-3))


def _steps(column: pd.Series, entities: NDArray[np.object_] | None) -> Floats:
    """From each row to the next of the same entity."""
    numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
    if entities is None:
        return np.diff(numbers)
    codes = pd.factorize(entities)[0]
    order = np.argsort(codes, kind="stable")
    steps: Floats = np.diff(numbers[order])[np.diff(codes[order]) == 0]
    return steps


def no_clock(name: str, source: str) -> DataError:
    return DataError(
        f"{source}: the column {name!r} counts up like a clock, but neither evenly nor since 1970; write times "
        "such as 2024-01-31 10:00:00, or leave it out."
    )


def _numbers(column: pd.Series, name: str, source: str) -> Floats | None:
    """The column as float64, or None (with a notice) where it is text from end to end."""
    if pd.api.types.is_datetime64_any_dtype(column) or pd.api.types.is_timedelta64_dtype(column):
        raise DataError(f"{source} has a second column of times, {name!r}; leave all but one out.")
    if pd.api.types.is_complex_dtype(column):
        raise DataError(f"{source}: column {name!r} holds complex numbers; give real and imaginary part a column each.")
    if pd.api.types.is_numeric_dtype(column):
        number = column
    else:
        try:
            number = pd.to_numeric(column, errors="coerce")
        except OverflowError:  # a whole number beyond any float
            number = pd.to_numeric(column.astype(str), errors="coerce")
        _refuse_text(column, number.isna() & column.notna(), name, source)
        if number.isna().all() and column.notna().any():
            warnings.warn(f"{source}: column {name!r} holds text only and is left out.", TsadcNotice, stacklevel=2)
            return None
    values = number.to_numpy(dtype=np.float64, na_value=np.nan)
    if np.isinf(values).any():
        row = int(np.flatnonzero(np.isinf(values))[0])
        raise DataError(
            f"{source}: column {name!r} is infinite at row {row}; leave the cell empty where nothing was measured."
        )
    return values


def _refuse_text(column: pd.Series, wrong: pd.Series, name: str, source: str) -> None:
    """Text among numbers is a mistake, and so are numbers that only look like text."""
    if not wrong.any():
        return
    row = int(np.flatnonzero(wrong)[0])
    cell = column.iloc[row]
    if GROUPED.fullmatch(str(cell).strip()):
        fix = "write numbers with a decimal point and without thousands separators"
    elif wrong.sum() < column.notna().sum():
        fix = "leave the cell empty where nothing was measured"
    else:
        return
    raise DataError(
        f"{source}: column {name!r} should hold numbers, but row {row} (counted from 0, below the header) holds "
        f"{cell!r}; {fix}."
    )
