"""What is pushed into a stream -> times as integers, and values in the order of the model's variables."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tsadc.errors import DataError, listed
from tsadc.series import Floats

NO_NUMBERS = "mMc"  # kinds of arrays that NumPy would convert
LATEST = np.iinfo(np.int64).max  # nanoseconds or row number


def as_ticks(times: Any, *, dated: bool) -> NDArray[np.int64]:
    """Return times as nanoseconds since 1970 in UTC or, without dates, as row numbers."""
    try:
        array = np.asarray(times)
    except ValueError:  # sequences of different lengths
        array = np.zeros(())
    if array.ndim != 1:
        raise DataError(f"Times must be a sequence with one time per row, but got {reprlib.repr(times)}.")
    if array.dtype.kind == "i" or (array.dtype.kind == "u" and (array <= LATEST).all()):
        return array.astype(np.int64, copy=False)
    if not dated and array.size:
        raise DataError(f"The model counts rows, so a time must be a row number, but got {array[0]!r}.")
    try:
        # pandas takes a float for nanoseconds, but it may as well be seconds or days.
        if array.dtype.kind == "f" or (array.dtype.kind == "O" and any(isinstance(time, float) for time in array)):
            raise ValueError
        dates = pd.DatetimeIndex(pd.to_datetime(times, utc=True)).as_unit("ns")
    except (ValueError, TypeError, OverflowError):
        dates = pd.DatetimeIndex([pd.NaT])
    if dates.isna().any():
        raise DataError(
            "Times must be datetimes from 1678 to 2261, or integers of nanoseconds since 1970 in UTC, but got "
            f"{array[0] if array.size else times!r}."
        )
    return np.asarray(dates.asi8)


def as_floats(values: Any) -> Floats:
    """Return values as floats, NaN for None; raise if one is no number, or rows have different lengths."""
    if type(values) is np.ndarray and values.dtype.char == "d":
        return values
    try:
        array = values.to_numpy(na_value=np.nan) if isinstance(values, pd.DataFrame | pd.Series) else values
        if isinstance(array, np.ndarray) and array.dtype.kind in NO_NUMBERS:
            raise TypeError
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise DataError(
            f"Values must be numbers, NaN where nothing was measured, but got {reprlib.repr(values)}."
        ) from None


def names_of(labels: pd.Index, variables: Sequence[str]) -> list[str] | None:
    """Return the names of the columns of a data frame, which must be the variables; None if they are positions."""
    if labels.dtype.kind in "iu" and labels.equals(pd.RangeIndex(len(labels))):
        return None
    names = [str(label) for label in labels]
    missing = [name for name in variables if name not in names]
    unknown = [name for name in names if name not in variables]
    if missing or unknown:
        wrong = [f"lack {listed(missing)}"] * bool(missing) + [f"have {listed(unknown)}"] * bool(unknown)
        raise DataError(
            f"The columns must be the {len(variables)} variables of the model, but they {' and '.join(wrong)}; "
            "rename them, or pass `names` to `push_many` if some are not measured or not known."
        )
    return names


def in_order(values: Floats, names: Sequence[str], variables: Sequence[str]) -> tuple[Floats, int]:
    """Return the values of named columns in the order of the model's variables, and how many have no place there."""
    if len(set(names)) < len(names):
        raise DataError(f"Every column needs a name of its own, but got {listed(list(names))}.")
    out, unknown = np.full((len(values), len(variables)), np.nan), 0
    places = {name: k for k, name in enumerate(variables)}
    for column, name in zip(values.T, names, strict=True):
        if name in places:
            out[:, places[name]] = column
        else:
            unknown += len(column)
    return out, unknown
