"""Time columns: recognise them, and read their text or numbers."""

from __future__ import annotations

import re
from typing import Literal

import numpy as np
import pandas as pd

from tsadc.errors import DataError, notice

TIME_NAMES = {"time", "timestamp", "datetime", "date", "ts", "t"}
# The size of numbers that count from 1970 shows their unit: these are the years 1973 to 2286.
EPOCH_UNITS: dict[Literal["s", "ms", "us", "ns"], tuple[float, float]] = {
    "s": (1e8, 1e10),
    "ms": (1e11, 1e13),
    "us": (1e14, 1e16),
    "ns": (1e17, 1e19),
}
DATES = ("%m/%d/%Y ", "%d/%m/%Y ", "%d.%m.%Y ", "%d-%m-%Y ", "")
TIMES_OF_DAY = ("", "%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p")
FORMATS = ("ISO8601", *(form for date in DATES for time in TIMES_OF_DAY if (form := f"{date}{time}".strip())))

SLASHED = re.compile(r"\s*(\d{1,2})/(\d{1,2})/\d{4}")
ZONED = re.compile(r":\d.*(?:[zZ]|UTC|GMT|[+-]\d{2}(?::?\d{2})?)$")


def is_time(name: str, column: pd.Series) -> bool:
    """Return whether a column holds times, by its type, its name, or because most of a sample can be read as times."""
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
    """Return whether the numbers can be times counted since 1970."""
    return _epoch_unit(column) is not None


def read_times(column: pd.Series, name: str, source: str) -> pd.DatetimeIndex:
    """Return the column as timestamps, in its own time zone if it has a single one, otherwise in UTC."""
    if pd.api.types.is_datetime64_any_dtype(column):
        return pd.DatetimeIndex(column)
    if pd.api.types.is_numeric_dtype(column):
        parsed = pd.to_datetime(column, unit=_epoch_unit(column), errors="coerce")
        _refuse_unparsed(parsed.isna() & column.notna(), column, name, source)
        return pd.DatetimeIndex(parsed)
    form, parsed = _best_format(column, name, source)
    _refuse_unparsed(parsed.isna() & column.notna(), column, name, source)
    try:
        return pd.DatetimeIndex(pd.to_datetime(column.astype(str), format=form, errors="raise"))
    except ValueError:  # several offsets, as around a change to daylight saving time, or a missing value
        _refuse_mixed_zones(column, name, source)
        return pd.DatetimeIndex(parsed)


def date_order(column: pd.Series, times: pd.DatetimeIndex) -> str:
    """Return how dates such as 03/04/2024 were read: "day first", "month first", or "" for formats like 2024-04-03."""
    if pd.api.types.is_datetime64_any_dtype(column) or pd.api.types.is_numeric_dtype(column):
        return ""
    known = times.notna() & (times.day != times.month)
    if not known.any():
        return ""
    row = int(known.argmax())
    date = SLASHED.match(str(column.iloc[row]))
    return "" if date is None else "month first" if int(date[1]) == times[row].month else "day first"


def _refuse_mixed_zones(column: pd.Series, name: str, source: str) -> None:
    """Raise an error if only some times have a zone: how far they lie from the others is unknown."""
    zoned = column.astype(str).str.strip().str.contains(ZONED)
    naive = ~zoned & column.notna()
    if zoned.any() and naive.any():
        row = int(np.flatnonzero(naive)[0])
        raise DataError(
            f"{source}: the time column {name!r} holds {column.iloc[row]!r} at row {row} (counted from 0, below the "
            f"header) without a time zone, but other rows have one, such as {column[zoned].iloc[0]!r}; write "
            "all with a zone."
        )


def _best_format(column: pd.Series, name: str, source: str) -> tuple[str, pd.Series]:
    """Return the format that reads most of the column, and its result. If both day first and month first are possible,
    choose the one whose times span less: consecutive rows are close in time."""
    head = _sample(column)
    forms = [form for form in FORMATS if _parse(head, form).notna().any()] or ["mixed"]
    parsed = {form: _parse(column, form) for form in forms}
    quality = {form: (times.notna().sum(), times.min() - times.max()) for form, times in parsed.items()}
    form = max(forms, key=lambda f: quality[f])
    for other in forms:
        if quality[other] == quality[form] and not parsed[other].equals(parsed[form]):
            example = column.dropna().iloc[0]
            notice(
                f"{source}: the dates in {name!r} can be read with the month or the day first; {example} was read as "
                f"{parsed[form].dropna().iloc[0]:%Y-%m-%d}. Write dates in that form to be sure."
            )
            break
    return form, parsed[form]


def _parse(column: pd.Series, form: str) -> pd.Series:
    return pd.to_datetime(column.astype(str), format=form, errors="coerce", utc=True)


def _sample(column: pd.Series) -> pd.Series:
    known = column.dropna()
    return known.iloc[:: max(1, len(known) // 5)].iloc[:5]


def _epoch_unit(column: pd.Series) -> Literal["s", "ms", "us", "ns"] | None:
    middle = float(column.median())  # not an extreme, which a single wrong value could be
    return next((unit for unit, (least, most) in EPOCH_UNITS.items() if least <= middle < most), None)


def _refuse_unparsed(wrong: pd.Series, column: pd.Series, name: str, source: str) -> None:
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise DataError(
            f"{source}: the time column {name!r} holds {column.iloc[row]!r} at row {row} (counted from 0, below the "
            "header), which cannot be read as a time; write times such as 2024-01-31 10:00:00."
        )
