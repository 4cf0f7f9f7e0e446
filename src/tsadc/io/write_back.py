"""The way back from series to the data that they were read from: change some cells, and nothing else.

A data frame, an array, a dict of them or a Series comes out as it went in: the same type, index, columns and types of
values. Cells that are not changed are copied byte by byte, and so are columns that are no variables."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tsadc.errors import DataError, TsadcNotice
from tsadc.io.clock import ticks_of
from tsadc.io.columns import Columns, split_columns
from tsadc.io.memory import as_frame
from tsadc.io.reading import DEFAULT, Reading
from tsadc.series import Booleans, Floats, Series
from tsadc.variables import unnamed


@dataclass(frozen=True, eq=False)
class Changes:
    """What becomes of the cells of one series.

    Attributes
    ----------
    series
        The series as it was read.
    cells : (time, variable)
        The cells to change. Cells that were not measured stay as they are.
    values : (time, variable)
        Their new values, NaN for missing.
    dropped : (time,)
        The rows to leave out.
    """

    series: Series
    cells: Booleans
    values: Floats
    dropped: Booleans

    @property
    def changed(self) -> Booleans:
        """The cells that are measured and change."""
        return np.asarray(self.cells & np.isfinite(self.series.values))


def write_back(data: Any, changes: Sequence[Changes]) -> Any:
    """Return a copy of the data with the changes, one for each series that `as_series` makes of it."""
    if isinstance(data, Series):
        return _series(data, changes[0])
    if isinstance(data, Sequence) and data and all(isinstance(item, Series) for item in data):
        new = [_series(item, change) for item, change in zip(data, changes, strict=True)]
        return tuple(new) if isinstance(data, tuple) else new
    if isinstance(data, Mapping) and not hasattr(data, "coords"):
        return {
            entity: write_back(value, [change]) for (entity, value), change in zip(data.items(), changes, strict=True)
        }
    frame = as_frame(data)
    if frame is not None:
        return _frame(data, frame, changes[0])
    if hasattr(data, "coords") or hasattr(data, "ch_names"):
        raise DataError(
            f"A {type(data).__name__} cannot be changed cell by cell; pass a data frame or an array of its values."
        )
    return _array(np.asanyarray(data), changes[0])


def _series(data: Series, changes: Changes) -> Series:
    """Return the series with new values. A row that is dropped becomes a row of NaN, as the clock stays regular."""
    columns = Columns(None, np.asarray(data.values), data.names)
    if data.names == unnamed(len(data.names)):
        columns = replace(columns, names=changes.series.names)  # matched by position
    cells, values = source_cells(columns, changes, np.arange(len(data)))
    new = np.array(data.values)
    new[cells] = values[cells]
    new[changes.dropped] = np.nan
    return replace(data, values=new)


def _array(data: NDArray[Any], changes: Changes) -> NDArray[Any]:
    new, cells = data.copy(), changes.changed & ~changes.dropped[:, None]
    new[cells.reshape(data.shape)] = as_type(changes.values[cells], data.dtype, "The array")
    return np.array(new[~changes.dropped.reshape(len(data), -1).any(axis=1)])


def as_type(values: Floats, dtype: np.dtype[Any], what: str) -> NDArray[Any]:
    """Return values in the type of an array or a column: rounded for whole numbers, at least one half for truth."""
    if dtype.kind in "iub" and np.isnan(values).any():
        raise no_missing(what, dtype)
    if dtype.kind == "b":
        return np.asarray(values >= 0.5)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return np.clip(np.rint(values), limits.min, limits.max).astype(dtype)
    return values.astype(dtype)


def no_missing(what: str, dtype: object) -> DataError:
    """Return the error for a missing value in a column of whole numbers."""
    return DataError(
        f'{what} has the type {dtype}, which cannot hold a missing value; use fill="expected" or fill="drop", or '
        "convert it to floating-point numbers first."
    )


def rows_of_clock(columns: Columns, series: Series, reading: Reading = DEFAULT) -> NDArray[np.int64]:
    """Return the row of the series that each row of its source belongs to. The rows are those of one entity."""
    if columns.times is None:
        return np.arange(len(columns.values))
    offset = ticks_of(columns.times, "The data") - series.clock.start
    if reading.every is not None:
        return offset // series.clock.interval  # several rows are averaged to one
    return np.rint(offset / series.clock.interval).astype(np.int64)


def source_cells(columns: Columns, changes: Changes, rows: NDArray[np.int64]) -> tuple[Booleans, Floats]:
    """Return the cells to change (row, variable) of a source, and their new values; `rows` are those of the series."""
    inside = (rows >= 0) & (rows < len(changes.series))
    places = np.where(inside, rows, 0)
    cells, values = np.zeros(columns.values.shape, dtype=bool), np.full(columns.values.shape, np.nan)
    for k, name in enumerate(columns.names):
        if name in changes.series.names:  # others are no variables of the detector
            column = changes.series.names.index(name)
            cells[:, k] = changes.cells[places, column] & inside & np.isfinite(columns.values[:, k])
            values[:, k] = changes.values[places, column]
    return cells, values


def source_rows(changes: Changes, rows: NDArray[np.int64]) -> Booleans:
    """Return which rows of a source are left out; `rows` are those of the series."""
    inside = (rows >= 0) & (rows < len(changes.series))
    return np.asarray(inside & changes.dropped[np.where(inside, rows, 0)])


def _frame(data: Any, frame: pd.DataFrame, changes: Changes) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TsadcNotice)  # given when the data was read
        columns = split_columns(frame, "The data")
    rows = rows_of_clock(columns, changes.series)
    shape = len(frame), len(columns.names)
    cells, values, dropped = np.zeros(shape, dtype=bool), np.zeros(shape), np.zeros(len(frame), dtype=bool)
    count = len(columns.values)  # empty rows at the end of the frame are no rows of the series
    cells[:count], values[:count] = source_cells(columns, changes, rows)
    dropped[:count] = source_rows(changes, rows)
    cells &= ~dropped[:, None]
    positions = [[str(name).strip() for name in frame.columns].index(name) for name in columns.names]
    if isinstance(data, pd.DataFrame):
        new = data.copy()
        for k, position in enumerate(positions):
            if cells[:, k].any():
                new.isetitem(position, _pandas_column(data.iloc[:, position], cells[:, k], values[cells[:, k], k]))
        return new.loc[~dropped].copy() if dropped.any() else new
    native = nw.from_native(data, eager_only=True)
    columns_of = [
        _narwhals_column(native[native.columns[position]], cells[:, k], values[:, k])
        for k, position in enumerate(positions)
        if cells[:, k].any()
    ]
    native = native.with_columns(*columns_of) if columns_of else native.clone()
    return (native.filter((~dropped).tolist()) if dropped.any() else native).to_native()


def _pandas_column(column: pd.Series, cells: Booleans, values: Floats) -> Any:
    """Return the array of a column with new `values` in its `cells`."""
    dtype: Any = column.dtype
    array: Any = column.array.copy()
    if isinstance(dtype, np.dtype) and dtype.kind != "O":
        array[cells] = as_type(values, dtype, f"Column {str(column.name)!r}")
        return array
    texts = [isinstance(cell, str) for cell in array[cells]]
    new: list[Any] = [None if np.isnan(value) else float(value) for value in values]
    if pd.api.types.is_bool_dtype(dtype):
        new = [None if value is None else value >= 0.5 for value in new]
    elif pd.api.types.is_integer_dtype(dtype):
        new = [None if value is None else round(value) for value in new]
    elif not pd.api.types.is_float_dtype(dtype):  # numbers written as text, or Python objects
        new = [
            repr(value) if is_text and value is not None else value for value, is_text in zip(new, texts, strict=True)
        ]
    array[cells] = pd.array(new, dtype=dtype) if not isinstance(dtype, np.dtype) else new
    return array


def _narwhals_column(column: Any, cells: Booleans, values: Floats) -> Any:
    """Return a column of polars, pyarrow or another library with new values in `cells`."""
    space, kind = column.implementation, column.dtype
    number: list[Any] = [None if np.isnan(value) else float(value) for value in values]
    if kind == nw.Boolean:
        number = [None if value is None else value >= 0.5 for value in number]
    elif kind.is_integer():
        number = [None if value is None else round(value) for value in number]
    elif not kind.is_numeric():
        number = [None if value is None else repr(value) for value in number]
    number = [value if changed else None for value, changed in zip(number, cells, strict=True)]
    new = nw.new_series(column.name, number, kind, backend=space)
    keep = nw.new_series("keep", (~cells).tolist(), nw.Boolean(), backend=space)
    return column.zip_with(keep, new)
