"""Objects in memory -> Series: data frames (pandas, or any that narwhals knows), xarray, MNE, arrays, dicts of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
from narwhals.exceptions import DuplicateError

from tsadc.errors import DataError
from tsadc.io.columns import check_width, infinite, split_columns
from tsadc.io.entities import Part, assemble, divide
from tsadc.io.foreign import from_raw, is_raw, is_xarray, xarray_frame
from tsadc.io.reading import PLAIN, Reading, choose
from tsadc.series import Clock, Floats, Series
from tsadc.variables import unnamed


def as_series(data: Any, length: int | None = None, reading: Reading = PLAIN) -> tuple[Series, ...]:
    """Whatever a user holds as a tuple of Series. Arrays are (time, variable) or (observation, time, variable); in the
    latter case the observations must have `length` steps. A dict maps entities to such objects."""
    if isinstance(data, Series):
        return check_length((data,), length)
    if isinstance(data, Mapping) and not is_xarray(data):
        if not data:
            raise DataError("The data should map entities to series, but the mapping is empty.")
        if reading.entity is not None:
            raise DataError("The data maps entities to series already; leave out `entity`, or pass a single frame.")
        found = [_some(value, str(entity), length, reading) for entity, value in data.items()]
        return _distinct(tuple(one for some in found for one in some))
    if isinstance(data, Sequence) and data and all(isinstance(one, Series) for one in data):
        return check_length(_distinct(tuple(data)), length)
    return _some(data, "series", length, reading)


def parts_of(frame: pd.DataFrame, entity: str, source: str, reading: Reading = PLAIN) -> list[Part]:
    """The rows of each entity in a frame: of `entity` alone, unless `reading` names the column that tells."""
    if len(frame) == 0:
        raise DataError(f"{source} holds no rows.")
    return divide(split_columns(frame, source, reading), entity, source)


def from_array(
    data: Any,
    entity: str,
    source: str,
    length: int | None = None,
    reading: Reading = PLAIN,
    names: Sequence[str] | None = None,
) -> Series:
    """Numbers of shape (time, variable), or (observation, time, variable) with the observations one after another;
    `names` are the variables', where they are known."""
    given = _floats(data, source)
    values = _rows(given, length, reading.coverage, source)
    names = tuple(names) if names and len(names) == values.shape[1] else unnamed(values.shape[1])
    if reading.time or reading.entity or reading.every:
        raise DataError(f"{source} is a bare array without times or names; use it without time, entity and every.")
    if reading.columns or reading.rename:
        order, names = choose(names, reading, source)
        values = values[:, order]
    return Series(values, names, Clock(), entity, given.shape[1] if given.ndim == 3 else None)


def check_length(series: tuple[Series, ...], length: int | None) -> tuple[Series, ...]:
    """Refuse observations laid end to end that would be cut anew: each would mix two that do not belong together."""
    for one in series:
        if length is not None and one.observation not in (None, length):
            raise DataError(
                f"{one.entity!r} holds observations of {one.observation} rows, which must not be cut across, but the "
                f"length is {length}; fit with --length {one.observation}, in Python length={one.observation}."
            )
    return series


def _some(data: Any, entity: str, length: int | None, reading: Reading) -> tuple[Series, ...]:
    source = f"The data of {entity!r}" if entity != "series" else "The data"
    if isinstance(data, Series):
        return check_length((replace(data, entity=entity),), length)
    if is_raw(data):
        return (from_raw(data, entity, source, reading),)
    frame = xarray_frame(data, source, reading) if is_xarray(data) else _frame(data, source)
    if frame is None:
        return (from_array(data, entity, source, length, reading),)
    return assemble(parts_of(frame, entity, source, reading), reading)


def _frame(data: Any, source: str) -> pd.DataFrame | None:
    """A frame of any library as one of pandas; None if it is no frame."""
    if isinstance(data, pd.DataFrame):
        return data
    try:
        frame = nw.from_native(data, pass_through=True)
    except DuplicateError:
        raise DataError(f"{source} has two columns of the same name; give every variable its own.") from None
    if isinstance(frame, nw.LazyFrame):
        raise DataError(f"{source} is a frame that is not computed yet; collect it first.")
    return _to_pandas(frame) if isinstance(frame, nw.DataFrame) else None


def _to_pandas(frame: nw.DataFrame[Any]) -> pd.DataFrame:
    """Column by column: the frames' own conversions need pyarrow, which may not be there."""
    out = pd.DataFrame({name: frame[name].to_numpy() for name in frame.columns})
    for name, kind in frame.schema.items():
        if isinstance(kind, nw.Datetime) and kind.time_zone:
            out[name] = pd.DatetimeIndex(out[name]).tz_localize("UTC").tz_convert(kind.time_zone)
    return out


def _rows(values: Floats, length: int | None, coverage: float | None, source: str) -> Floats:
    """Checked values as (time, variable)."""
    if values.ndim == 3:
        if length is not None and values.shape[1] != length:
            raise DataError(
                f"{source} holds observations of {values.shape[1]} steps, but the detector's length is {length}; "
                f"use length={values.shape[1]} or pass the series as (time, variable)."
            )
        measured = np.isfinite(values).any(axis=2).mean(axis=1) if values.size else np.ones(0)
        sparse = np.flatnonzero(measured < (coverage or 0))
        if len(sparse):
            raise DataError(
                f"{source}: observation {sparse[0]} has under {coverage:.0%} of its steps measured and would get no "
                "score; leave it out."
            )
        values = values.reshape(values.shape[0] * values.shape[1], values.shape[2])
    if values.ndim != 2:
        raise DataError(
            f"{source} should have shape (time, variable) or (observation, time, variable), but has {values.shape}."
        )
    if len(values) == 0:
        raise DataError(f"{source} holds no rows.")
    if values.shape[1] < 2:
        raise DataError(
            f"{source} has {values.shape[1]} variable(s), but series of at least two are expected; pass one column for "
            "each variable."
        )
    check_width(values.shape[1], source)
    if found := infinite(values):
        raise DataError(
            f"{source}: variable {found[1]} is infinite at row {found[0]}; use NaN where nothing was measured."
        )
    return values


def _floats(data: Any, source: str) -> Floats:
    if isinstance(data, (str, PurePath)):
        raise DataError(f"{source} is a name, {str(data)!r}; if it is a file's, pass tsadc.read({str(data)!r}).")
    if isinstance(data, (list, tuple)) and any(hasattr(one, "columns") for one in data):
        raise DataError(f"{source} is a list of frames; pass a dict that gives each its entity's name.")
    try:
        values = np.asanyarray(data)
        if values.dtype.kind not in "biufOUS":
            raise TypeError(f"its type is {values.dtype}")
        if values.dtype.kind in "US":
            values = values.astype(object)  # whose errors show the text as it was given
        values = values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        reason = str(error).split(". ")[0].rstrip(".")
        raise DataError(
            f"{source} should be a data frame or an array of numbers, but is a {type(data).__name__}: {reason}."
        ) from None
    return np.asarray(np.ma.filled(values, np.nan))


def _distinct(series: tuple[Series, ...]) -> tuple[Series, ...]:
    seen: set[str] = set()
    for one in series:
        if one.entity in seen:
            raise DataError(f"Entity {one.entity!r} comes twice; give each series its own entity name.")
        seen.add(one.entity)
    return series
