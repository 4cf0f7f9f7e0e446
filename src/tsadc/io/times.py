"""Columns of times: which column is one, and how its text or numbers are read."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd

from tsadc.errors import DataError

TIME_NAMES = {"time", "timestamp", "datetime", "date", "ts", "t"}
# The unit of a column of numbers that counts from 1970 shows in its size: these are the years 1973 to 2286.
EPOCH_UNITS: dict[Literal["s", "ms", "us", "ns"], tuple[float, float]] = {
    "s": (1e8, 1e10),
    "ms": (1e11, 1e13),
    "us": (1e14, 1e16),
    "ns": (1e17, 1e19),
}
DATES = ("%m/%d/%Y ", "%d/%m/%Y ", "%d.%m.%Y ", "%d-%m-%Y ", "")
CLOCKS = ("", "%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p")
FORMATS = ("ISO8601", *(form for date in DATES for clock in CLOCKS if (form := f"{date}{clock}".strip())))


def is_time(name: str, column: pd.Series) -> bool:
    """By type, by name, or by what most of a sample of it can be read as."""
    if pd.api.types.is_datetime64_any_dtype(column):
        return True
    named = name.lower() in TIME_NAMES
    if pd.api.types.is_numeric_dtype(column):
        return named and is_epoch(column)
    head = _sample(column)
    if head.empty or pd.to_numeric(head.astype(str), errors="coerce").notna().any():
        return False
    return named or any(_parse(head, form).notna().mean() > 0.5 for form in FORMATS)


def is_epoch(column: pd.Series) -> bool:
    """Whether numbers are of the size of times counted since 1970."""
    return _epoch_unit(column) is not None


def read_times(column: pd.Series, name: str, source: str) -> pd.DatetimeIndex:
    """The column as timestamps, in its own time zone if it has a single one, otherwise in UTC."""
    if pd.api.types.is_datetime64_any_dtype(column):
        return pd.DatetimeIndex(column)
    if pd.api.types.is_numeric_dtype(column):
        parsed = pd.to_datetime(column, unit=_epoch_unit(column), errors="coerce")
        _refuse(parsed.isna() & column.notna(), column, name, source)
        return pd.DatetimeIndex(parsed)
    form, parsed = _best(column)
    _refuse(parsed.isna() & column.notna(), column, name, source)
    try:
        return pd.DatetimeIndex(pd.to_datetime(column.astype(str), format=form, errors="raise"))
    except ValueError:  # several offsets, as around a change of the clocks, or a missing value
        return pd.DatetimeIndex(parsed)


def _best(column: pd.Series) -> tuple[str, pd.Series]:
    """The format that reads most of the column. Of day first and month first, where both can be meant, the one whose
    times lie closer together: rows follow each other."""
    head = _sample(column)
    forms = [form for form in FORMATS if _parse(head, form).notna().any()] or ["mixed"]
    parsed = {form: _parse(column, form) for form in forms}
    form = max(forms, key=lambda f: (parsed[f].notna().sum(), parsed[f].min() - parsed[f].max()))
    return form, parsed[form]


def _parse(column: pd.Series, form: str) -> pd.Series:
    return pd.to_datetime(column.astype(str), format=form, errors="coerce", utc=True)


def _sample(column: pd.Series) -> pd.Series:
    known = column.dropna()
    return known.iloc[:: max(1, len(known) // 5)].iloc[:5]


def _epoch_unit(column: pd.Series) -> Literal["s", "ms", "us", "ns"] | None:
    middle = float(column.median())  # and not the extremes, which a single wrong value can be
    return next((unit for unit, (least, most) in EPOCH_UNITS.items() if least <= middle < most), None)


def _refuse(wrong: pd.Series, column: pd.Series, name: str, source: str) -> None:
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise DataError(
            f"{source}: the time column {name!r} holds {column.iloc[row]!r} at row {row} (counted from 0, below the "
            "header), which is not a time such as 2024-01-31 10:00:00."
        )
