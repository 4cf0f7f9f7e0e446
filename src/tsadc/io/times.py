"""Columns of times: which column is one, and how its text or numbers are read."""

from __future__ import annotations

import re
import warnings
from typing import Literal

import numpy as np
import pandas as pd

from tsadc.errors import DataError, TsadcNotice

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

SLASHED = re.compile(r"\s*(\d{1,2})/(\d{1,2})/\d{4}")
ZONED = re.compile(r":\d.*(?:[zZ]|UTC|GMT|[+-]\d{2}(?::?\d{2})?)$")


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
    form, parsed = _best(column, name, source)
    _refuse(parsed.isna() & column.notna(), column, name, source)
    try:
        return pd.DatetimeIndex(pd.to_datetime(column.astype(str), format=form, errors="raise"))
    except ValueError:  # several offsets, as around a change of the clocks, or a missing value
        _refuse_mixed(column, name, source)
        return pd.DatetimeIndex(parsed)


def date_order(column: pd.Series, times: pd.DatetimeIndex) -> str:
    """Which part of dates such as 03/04/2024 was taken for the day: `day first` or `month first`, empty where nothing
    tells, as in 2024-04-03."""
    if pd.api.types.is_datetime64_any_dtype(column) or pd.api.types.is_numeric_dtype(column):
        return ""
    known = times.notna() & (times.day != times.month)
    if not known.any():
        return ""
    row = int(known.argmax())
    found = SLASHED.match(str(column.iloc[row]))
    return "" if found is None else "month first" if int(found[1]) == times[row].month else "day first"


def _refuse_mixed(column: pd.Series, name: str, source: str) -> None:
    """Times with and without a zone are hours apart, or not: nobody can tell."""
    zoned = column.astype(str).str.strip().str.contains(ZONED)
    bare = ~zoned & column.notna()
    if zoned.any() and bare.any():
        row = int(np.flatnonzero(bare)[0])
        raise DataError(
            f"{source}: the time column {name!r} holds {column.iloc[row]!r} at row {row} (counted from 0, below the "
            f"header) without a time zone, but others have one, such as {column[zoned].iloc[0]!r}; write all alike."
        )


def _best(column: pd.Series, name: str, source: str) -> tuple[str, pd.Series]:
    """The format that reads most of the column. Of day first and month first, where both can be meant, the one whose
    times lie closer together: rows follow each other."""
    head = _sample(column)
    forms = [form for form in FORMATS if _parse(head, form).notna().any()] or ["mixed"]
    parsed = {form: _parse(column, form) for form in forms}
    worth = {form: (times.notna().sum(), times.min() - times.max()) for form, times in parsed.items()}
    form = max(forms, key=lambda f: worth[f])
    for other in forms:
        if worth[other] == worth[form] and not parsed[other].equals(parsed[form]):
            example = column.dropna().iloc[0]
            warnings.warn(
                f"{source}: the times in {name!r} can be read with the month or the day first; {example} was taken for "
                f"{parsed[form].dropna().iloc[0]:%Y-%m-%d}. Write dates like that to be sure.",
                TsadcNotice,
                stacklevel=3,
            )
            break
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
