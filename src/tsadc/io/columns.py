"""A frame's columns sorted into time and variables, with every value checked to be a number."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from tsadc.errors import DataError, TsadcNotice
from tsadc.series import Floats

TIME_NAMES = {"time", "timestamp", "datetime", "date", "ts", "t"}
COUNTER_NAMES = TIME_NAMES | {"index", "row", "step", "unnamed: 0", ""}
# The unit of a column of numbers that counts from 1970 shows in its size: these are the years 1973 to 2286.
EPOCH_UNITS: dict[Literal["s", "ms", "us", "ns"], tuple[float, float]] = {
    "s": (1e8, 1e10),
    "ms": (1e11, 1e13),
    "us": (1e14, 1e16),
    "ns": (1e17, 1e19),
}


@dataclass(frozen=True)
class Columns:
    """`times` is None where the frame has no clock."""

    times: pd.DatetimeIndex | None
    values: Floats
    names: tuple[str, ...]


def split_columns(frame: pd.DataFrame, source: str) -> Columns:
    """Find the time column by type, then by name; everything else must be numbers."""
    times = frame.index if isinstance(frame.index, pd.DatetimeIndex) else None
    data = {str(name): frame.iloc[:, i] for i, name in enumerate(frame.columns)}
    if len(data) < len(frame.columns):
        twice = frame.columns[frame.columns.astype(str).duplicated()][0]
        raise DataError(f"{source} has two columns named {str(twice)!r}; give every variable its own name.")
    if times is None:
        name = next((n for n, column in data.items() if _is_time(n, column)), None)
        if name is not None:
            times = _times(data.pop(name), name, source)
        else:
            first = next(iter(data), None)
            if first is not None and len(data) > 1 and _is_counter(first, data[first]):
                del data[first]
    values = {name: number for name, column in data.items() if (number := _numbers(column, name, source)) is not None}
    if not values:
        raise DataError(f"{source} has no column of numbers besides the time; it needs at least two variables.")
    if len(values) == 1:
        raise DataError(
            f"{source} has a single variable, {next(iter(values))!r}, but the detector models how variables depend on "
            "each other and needs at least two; if there are more, check the file's separator."
        )
    return Columns(times, np.column_stack(list(values.values())), tuple(values))


def _is_time(name: str, column: pd.Series) -> bool:
    if pd.api.types.is_datetime64_any_dtype(column):
        return True
    if pd.api.types.is_numeric_dtype(column):
        return name.lower() in TIME_NAMES and _epoch_unit(column) is not None
    known = column.dropna()
    if known.empty or pd.to_numeric(known.iloc[:3], errors="coerce").notna().any():
        return False
    head = known.iloc[:: max(1, len(known) // 5)].iloc[:5]
    return bool(pd.to_datetime(head, errors="coerce", utc=True, format="mixed").notna().all()) and (
        name.lower() in TIME_NAMES or any(mark in str(head.iloc[0]) for mark in "-/:T")
    )


def _epoch_unit(column: pd.Series) -> Literal["s", "ms", "us", "ns"] | None:
    low, high = float(column.min()), float(column.max())
    return next((unit for unit, (least, most) in EPOCH_UNITS.items() if least <= low and high < most), None)


def _is_counter(name: str, column: pd.Series) -> bool:
    if name.lower() not in COUNTER_NAMES or not pd.api.types.is_numeric_dtype(column) or len(column) < 2:
        return False
    steps = np.diff(column.to_numpy(dtype=float))
    return bool(steps[0] > 0 and np.allclose(steps, steps[0], rtol=1e-3))


def _times(column: pd.Series, name: str, source: str) -> pd.DatetimeIndex:
    if pd.api.types.is_numeric_dtype(column):
        return pd.DatetimeIndex(pd.to_datetime(column, unit=_epoch_unit(column)))
    try:
        return pd.DatetimeIndex(pd.to_datetime(column))
    except (ValueError, TypeError):
        try:
            return pd.DatetimeIndex(pd.to_datetime(column, utc=True, format="mixed"))
        except (ValueError, TypeError):
            parsed = pd.to_datetime(column, errors="coerce", utc=True, format="mixed")
            row = int(np.flatnonzero(parsed.isna() & column.notna())[0])
            raise DataError(
                f"{source}: the time column {name!r} holds {column.iloc[row]!r} at row {row}, which is not a time."
            ) from None


def _numbers(column: pd.Series, name: str, source: str) -> Floats | None:
    """The column as float64, or None (with a notice) where it is text from end to end."""
    if pd.api.types.is_datetime64_any_dtype(column):
        raise DataError(f"{source} has a second column of times, {name!r}; leave all but one out.")
    number = pd.to_numeric(column, errors="coerce")
    wrong = np.flatnonzero(number.isna() & column.notna())
    if len(wrong) == column.notna().sum() > 0:
        warnings.warn(f"{source}: column {name!r} holds text only and is left out.", TsadcNotice, stacklevel=2)
        return None
    if len(wrong):
        row = int(wrong[0])
        raise DataError(
            f"{source}: column {name!r} should hold numbers, but row {row} (counted from 0, below the header) holds "
            f"{column.iloc[row]!r}; leave the cell empty where nothing was measured."
        )
    values = number.to_numpy(dtype=np.float64, na_value=np.nan)
    if np.isinf(values).any():
        row = int(np.flatnonzero(np.isinf(values))[0])
        raise DataError(
            f"{source}: column {name!r} is infinite at row {row}; leave the cell empty where nothing was measured."
        )
    return values
