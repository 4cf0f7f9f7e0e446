"""A frame's columns sorted into time and variables, with every value checked to be a number."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tsadc.errors import DataError, TsadcNotice
from tsadc.io.times import TIME_NAMES, is_time, read_times
from tsadc.series import Floats

COUNTER_NAMES = TIME_NAMES | {"index", "row", "step"}
NAMELESS = {"unnamed: 0", "", "__index_level_0__", "level_0"}  # how frames write out an index without a name
GROUPED = re.compile(r"[+-]?\d+([.,]\d{3})*,\d+")


@dataclass(frozen=True)
class Columns:
    """`times` is None where the frame has no clock."""

    times: pd.DatetimeIndex | None
    values: Floats
    names: tuple[str, ...]


def split_columns(frame: pd.DataFrame, source: str) -> Columns:
    """Find the time in the index, or the time column by type, by name and by content; all else must be numbers."""
    names = [str(name).strip() for name in frame.columns]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"{source} has two columns named {twice!r}; give every variable its own name.")
    data = {name: frame.iloc[:, i] for i, name in enumerate(names)}
    times = _index_times(frame.index, source)
    if times is None:
        name = next((n for n, column in data.items() if is_time(n, column)), None)
        if name is not None:
            times = read_times(data.pop(name), name, source)
    for name in [name for i, name in enumerate(names) if name in data and _is_counter(name, i, data[name], source)]:
        del data[name]
    values = {name: number for name, column in data.items() if (number := _numbers(column, name, source)) is not None}
    if not values:
        raise DataError(f"{source} has no column of numbers besides the time; it needs at least two variables.")
    if len(values) == 1:
        raise DataError(
            f"{source} has a single variable, {next(iter(values))!r}, but the detector models how variables depend on "
            "each other and needs at least two; if there are more, check the file's separator."
        )
    return Columns(times, np.column_stack(list(values.values())), tuple(values))


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


def _is_counter(name: str, position: int, column: pd.Series, source: str) -> bool:
    """Whether a column only numbers the rows."""
    if not pd.api.types.is_numeric_dtype(column) or len(column) < 2:
        return False
    if position == 0 and name.lower() in NAMELESS:
        return pd.api.types.is_integer_dtype(column)
    timely = name.lower() in TIME_NAMES
    if not timely and (position > 0 or name.lower() not in COUNTER_NAMES):
        return False
    steps = np.diff(column.to_numpy(dtype=np.float64, na_value=np.nan))
    even = bool(steps[0] > 0 and np.allclose(steps, steps[0], rtol=1e-3))
    if timely and not even and bool((steps > 0).all()):
        raise DataError(
            f"{source}: the column {name!r} counts up like a clock, but neither evenly nor since 1970; write times "
            "such as 2024-01-31 10:00:00, or leave it out."
        )
    return even


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
