"""Columns of a data frame -> time, entity and variables. Every value of a variable must be a number."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tsadc.errors import DataError, listed, notice
from tsadc.io.reading import DEFAULT, Reading, choose, no_column, without_missing
from tsadc.io.times import TIME_NAMES, calendar_form, date_order, find_times, is_epoch, is_time, join_times, read_times
from tsadc.series import Floats

# Keys of `DataFrame.attrs`, from readers that find such things: the units of columns, notes for the user, and the mark
# of decimals.
UNITS, NOTES, DECIMAL = "units", "notes", "decimal"
COUNTER_NAMES = TIME_NAMES | {"index", "row", "step", "#"}
UNNAMED_INDEX = {"unnamed: 0", "", "__index_level_0__", "level_0"}  # how pandas writes an index without a name
NOT_MEASURED = {"", "nan", "na", "n/a", "null", "none"}
BLOCK = 4096  # rows
MAX_VARIABLES = 10_000
BOTH_MARKS = {".": r"[+-]?\d{1,3}(?:,\d{3})+\.\d+", ",": r"[+-]?\d{1,3}(?:\.\d{3})+,\d+"}  # by the mark of decimals
DECIMAL_COMMA = re.compile(r"[+-]?\d+([.,]\d{3})*,\d+")


@dataclass(frozen=True)
class Columns:
    """The variables of a table and, for each row, its time and its entity, if there are such columns.

    `date_order` says how dates such as 03/04/2024 were read: "day first", "month first", or "" if there was no choice.
    `units` maps variables to the units that the source states, `texts` lists columns that were left out because they
    hold text, and `notes` says what was assumed about the form of the source.
    """

    times: pd.DatetimeIndex | None
    values: Floats
    names: tuple[str, ...]
    entities: NDArray[np.object_] | None = None
    date_order: str = ""
    units: Mapping[str, str] = field(default_factory=dict)
    texts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def split_columns(frame: pd.DataFrame, source: str, reading: Reading = DEFAULT) -> Columns:
    """Split the columns into time, entity and variables.

    Unless `reading` names the time column, it is the index if that holds times, or else the first column that is a time
    by its type, name or content. A column of dates and one of times of day are joined. A column that only numbers the
    rows is dropped."""
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
    units, notes = frame.attrs.get(UNITS, {}), list(frame.attrs.get(NOTES, ()))
    timely = () if reading.time is None and _is_time_index(frame.index) else find_times(data, reading.time)
    if len(timely) > 1:
        notes.append(f"its times are the columns {', '.join(map(repr, timely[:-1]))} and {timely[-1]!r} joined")
    elif timely and timely[0] in data and calendar_form(data[timely[0]]):
        notes.append(f"the numbers in {timely[0]!r} were read as times; --time names another column")
    reading = replace(reading, decimal=reading.decimal or frame.attrs.get(DECIMAL))
    data = _without_empty_end(data, timely)
    entities = None if reading.entity is None else entities_of(data, reading.entity, source)
    times, order = _times(frame.index, data, timely, entities, source, reading)
    wanted = {*(reading.columns or ()), *reading.difference}
    for i, name in enumerate(names):
        if name in data and name not in wanted and is_counter(name, i, data[name], entities, source):
            del data[name]
    rest = list(data)
    positions, new_names = choose_variables(rest, replace(reading, exclude=()), source)
    values = {
        new_name: numbers
        for new_name, position in zip(new_names, positions, strict=True)
        if (numbers := as_numbers(data[rest[position]], rest[position], source, reading)) is not None
    }
    texts = tuple(rest[position] for new, position in zip(new_names, positions, strict=True) if new not in values)
    if len(texts) == 1:
        notice(f"{source}: column {texts[0]!r} holds only text and was left out.")
    elif texts:
        notice(f"{source}: {len(texts)} columns hold only text and were left out: {listed(texts)}.")
    check_variables(tuple(values), source)
    kept = {new: rest[position] for new, position in zip(new_names, positions, strict=True)}
    return Columns(
        times,
        _side_by_side(list(values.values())),
        tuple(values),
        entities,
        order,
        {new: units[old] for new, old in kept.items() if old in units},
        texts,
        tuple(notes),
    )


def _side_by_side(columns: Sequence[Floats]) -> Floats:
    """Return the columns as one array (row, column). Block by block: a column at a time would pass over all of the
    array's memory for each of them."""
    out = np.empty((len(columns[0]), len(columns)))
    for first in range(0, len(out), BLOCK):
        np.stack([column[first : first + BLOCK] for column in columns], axis=1, out=out[first : first + BLOCK])
    return out


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


def entities_of(data: dict[str, pd.Series], name: str, source: str, what: str = "entity") -> NDArray[np.object_]:
    """Remove the column `name` from `data` and return it as text; messages call it `what`."""
    if name not in data:
        raise no_column(name, list(data), source)
    column = data.pop(name)
    text = column.astype(str).str.strip().to_numpy(dtype=object)
    absent = column.isna().to_numpy() | (text == "")
    if absent.any():
        row = int(np.flatnonzero(absent)[0])
        raise DataError(
            f"{source}: the {what} column {name!r} is empty at row {row} (counted from 0, below the header); fill it."
        )
    return np.asarray(text)


def _without_empty_end(data: dict[str, pd.Series], timely: Sequence[str]) -> dict[str, pd.Series]:
    """Leave out rows at the end that have neither a time nor a value, as spreadsheets export them."""
    if not timely or not all(len(column) and _is_empty(column.iloc[-1:]).all() for column in data.values()):
        return data
    filled = np.flatnonzero(~np.logical_and.reduce([_is_empty(column).to_numpy() for column in data.values()]))
    end = int(filled[-1]) + 1 if len(filled) else 1
    return {name: column.iloc[:end] for name, column in data.items()}


def _is_empty(column: pd.Series) -> pd.Series:
    return column.isna() if pd.api.types.is_numeric_dtype(column) else column.isna() | (column == "")


def _times(
    index: pd.Index,
    data: dict[str, pd.Series],
    names: Sequence[str],
    entities: NDArray[np.object_] | None,
    source: str,
    reading: Reading,
) -> tuple[pd.DatetimeIndex | None, str]:
    """Remove the columns `names` from `data` and return the times they or the index hold (None: there is no clock) and
    the order of their dates."""
    if not names:
        times = _index_times(index, source) if reading.time is None else None
        return (None, "") if times is None else (times, date_order(index.to_series(), times))
    for name in names:
        if name not in data:
            raise no_column(name, list(data), source)
    columns = [data.pop(name) for name in names]
    column = columns[0] if len(columns) == 1 else join_times(columns, source, reading.dayfirst)
    if pd.api.types.is_numeric_dtype(column) and not calendar_form(column) and not is_epoch(column):
        if _is_evenly_spaced(column, entities):
            return None, ""
        raise no_clock(names[0], source)
    times = read_times(column, " + ".join(names), source, reading.dayfirst)
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
    return read_times(index.to_series(), str(index.name), source) if _is_time_index(index) else None


def _is_time_index(index: pd.Index) -> bool:
    kinds = (pd.MultiIndex, pd.PeriodIndex)  # the first is refused, the second converted
    return isinstance(index, kinds) or is_time(str(index.name), index.to_series())


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


def as_numbers(column: pd.Series, name: str, source: str, reading: Reading) -> Floats | None:
    """Return the column as float64, or None if all of it is text."""
    if pd.api.types.is_datetime64_any_dtype(column) or pd.api.types.is_timedelta64_dtype(column):
        raise DataError(f"{source} has a second column of times, {name!r}; remove all but one.")
    if pd.api.types.is_complex_dtype(column):
        raise DataError(
            f"{source}: column {name!r} holds complex numbers; write the real and the imaginary part as two columns."
        )
    if pd.api.types.is_numeric_dtype(column):
        number = column
    else:
        column = _ungrouped(_without_missing_texts(column, reading), reading.decimal)
        try:
            number = pd.to_numeric(column, errors="coerce")
        except OverflowError:  # a whole number beyond any float
            number = pd.to_numeric(column.astype(str), errors="coerce")
        _refuse_text(column, number.isna() & column.notna(), name, source)
        if number.isna().all() and column.notna().any():
            return None
    values = without_missing(number.to_numpy(dtype=np.float64, na_value=np.nan), reading)
    if np.isinf(values).any():
        row = int(np.flatnonzero(np.isinf(values))[0])
        raise DataError(
            f"{source}: column {name!r} is infinite at row {row}; leave the cell empty where nothing was measured."
        )
    return values


def _ungrouped(column: pd.Series, decimal: str | None) -> pd.Series:
    """Return the column without marks that group thousands and with a decimal point. `decimal` states the mark of
    decimals; without it, a number with both marks does, such as 1,250.5."""
    if pd.api.types.is_numeric_dtype(column):
        return column
    text = column.astype(str).str.strip()
    decimal = decimal or next((mark for mark, both in BOTH_MARKS.items() if text.str.fullmatch(both).any()), None)
    if decimal is None:
        return column
    group = {",": ".", ".": ","}[decimal]
    grouped = rf"[+-]?(\d+|\d{{1,3}}(\{group}\d{{3}})+)(\{decimal}\d+)?"
    plain = text.str.replace(group, "", regex=False).str.replace(decimal, ".", regex=False)
    return column.mask(column.notna() & text.str.fullmatch(grouped), plain)


def _without_missing_texts(column: pd.Series, reading: Reading) -> pd.Series:
    """Return the column with None for usual texts and those that `reading.missing` lists, in any case."""
    texts = NOT_MEASURED | {text.casefold() for text in reading.missing if isinstance(text, str)}
    return column.mask(column.astype(str).str.strip().str.casefold().isin(texts))


def _refuse_text(column: pd.Series, wrong: pd.Series, name: str, source: str) -> None:
    """Raise an error for text among numbers, and for numbers with a decimal comma."""
    if not wrong.any():
        return
    row = int(np.flatnonzero(wrong)[0])
    cell = column.iloc[row]
    if DECIMAL_COMMA.fullmatch(str(cell).strip()):
        fix = "state the mark of decimals with --decimal , or --decimal . (in Python: Reading(decimal=','))"
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
