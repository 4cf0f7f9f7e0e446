"""Time columns: recognise them, and read their text or numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Literal

import numpy as np
import pandas as pd

from tsadc.errors import DataError, notice

TIME_NAMES = {"time", "timestamp", "datetime", "date", "ts", "t"}
# Columns in which 12.34 is a time of day. Not "t", which is more often a temperature.
CLOCK_NAMES = {"time", "hour", "clock", "zeit", "uhrzeit", "heure", "hora", "ora", "tijd", "tid", "godzina"}
# Columns of the parts of a date and a time of day, each in its own column: the first name of each is the usual one.
PARTS = (
    {"year", "yr", "yyyy", "jaar", "jahr"},
    {"month", "mo", "mon", "mm", "maand", "monat"},
    {"day", "dy", "dd", "dag", "tag"},
)
HOURS = CLOCK_NAMES | {"hh", "hr", "hhmm", "hour_utc", "uur", "stunde"}
HOURS_AND_MINUTES = re.compile(r"hhmm(?!ss)", re.IGNORECASE)
MINUTES = {"minute", "min", "mi", "mn", "minuut"}
STATISTICS = {"max", "maximum", "mean", "avg", "average"}  # beside one of these, "min" is a minimum
# Numbers such as 20240131 and 202401311050 are dates: their number of digits and how they are read.
CALENDAR = {8: "%Y%m%d", 10: "%Y%m%d%H", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
CALENDAR_FIELDS = {  # modulus, least and greatest value
    "Y": (10_000, 1850, 2150), "m": (100, 1, 12), "d": (100, 1, 31), "H": (100, 0, 23), "M": (100, 0, 59),
    "S": (100, 0, 59),
}  # fmt: skip
MIN_DATES = 10  # different numbers that are dates by their digits alone; fewer must also ascend
# The size of numbers that count from 1970 shows their unit: these are the years 1973 to 2286.
EPOCH_UNITS: dict[Literal["s", "ms", "us", "ns"], tuple[float, float]] = {
    "s": (1e8, 1e10),
    "ms": (1e11, 1e13),
    "us": (1e14, 1e16),
    "ns": (1e17, 1e19),
}
DATES = (
    "%m/%d/%Y ", "%d/%m/%Y ", "%d.%m.%Y ", "%d-%m-%Y ", "%d-%b-%Y ", "%d-%b-%y ", "%d %b %Y ", "%m/%d/%y ", "%d/%m/%y ",
    "%d.%m.%y ", "%Y-%m-%d ", "",
)  # fmt: skip
TIMES_OF_DAY = (
    "", "%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%H:%M:%S,%f", "%H.%M.%S", "%I:%M %p", "%I:%M:%S %p",
)  # fmt: skip
FORMS = tuple(form for date in DATES for time in TIMES_OF_DAY if (form := f"{date}{time}".strip()))
MONTH_FIRST = tuple(f"%m-%d-%Y {time}".strip() for time in TIMES_OF_DAY)  # only on request: usually the day is first
FIELDS = {
    "%Y": r"\d{4}", "%y": r"\d{2}", "%b": r"[A-Za-z]{3}", "%f": r"\d{1,9}", "%p": r"[AaPp][Mm]",
    **{f"%{letter}": r"\d{1,2}" for letter in "mdHIMS"},
}  # fmt: skip

SLASHED = re.compile(r"\s*(\d{1,2})/(\d{1,2})/\d{2}")
DATE_ALONE = re.compile(r"\d{1,4}([-/. ])(\d{1,2}|[A-Za-z]{3})\1\d{1,4}|\d{8}")
TIME_ALONE = re.compile(r"\d{1,2}[:.]\d{2}([:.]\d{2}([.,]\d+)?)?(\s*[AaPp][Mm])?")
END_OF_DAY = re.compile(r"24:00(:00([.,]0+)?)?")
DECIMAL = re.compile(r"\d{1,2}\.\d{2}")
# An interval of ISO 8601 stands for its start.
INTERVAL = re.compile(r"\s*(\d{4}-\d{2}-\d{2}T[^/]+)/\d{4}-\d{2}-\d{2}T[^/]+")
ZONED = re.compile(r":\d.*(?:[zZ]|UTC|GMT|[+-]\d{2}(?::?\d{2})?)$")


def is_time(name: str, column: pd.Series) -> bool:
    """Return whether a column holds times, by its type, its name, or because most of a sample can be read as times."""
    if pd.api.types.is_datetime64_any_dtype(column):
        return True
    named = name.lower() in TIME_NAMES
    if pd.api.types.is_numeric_dtype(column):
        # A number that repeats in all rows may be an identifier.
        varying_dates = calendar_form(column) is not None and column.min() < column.max()
        return bool(varying_dates) or (named and is_epoch(column))
    head = _starts(_sample(column))
    if head.empty or pd.to_numeric(head.astype(str), errors="coerce").notna().any():
        return False
    return named or any(_parse(head, form).notna().mean() > 0.5 for form in _formats(head))


def find_times(data: Mapping[str, pd.Series], named: str | None = None) -> tuple[str, ...]:
    """Return the name of the column of times, the names of a column of dates and one of times of day (hours may have
    minutes in a third column), or of columns of year, month, day, hour and minute; () if there is none.

    Without `named`, a column with both date and time of day is preferred to several columns."""
    candidates = [name for name, column in data.items() if is_time(name, column)]
    dates = [name for name in candidates if _is_date_alone(data[name])]
    # 10.03.04 may be either: it is a time of day if another column holds dates.
    certain = [name for name in dates if not _is_time_alone(name, data[name])]
    dates = certain or dates
    parts = _parts(data)
    # The same number in all rows is the date of a file of one day if nothing else is.
    dates = dates + [
        name
        for name, column in data.items()
        if name not in candidates and (name == named or not (dates or parts)) and _is_number_of_date(column)
    ]
    minute = _minute_name(data)
    clocks = [
        name
        for name, column in data.items()
        if name not in dates and (_is_time_alone(name, column) or (dates and is_hour(name, column, minute is not None)))
    ]
    if named is not None:
        others = (dates if named in clocks else clocks) if named in (*dates, *clocks) else []
        pair = (named, others[0])[:: -1 if named in clocks else 1] if others else (named,)
        return _with_minute(pair, data, minute)
    pair = (dates[0], clocks[0]) if dates and clocks else ()
    whole = [name for name in candidates if name not in (*dates, *clocks)]
    return (whole[0],) if whole else _with_minute(pair, data, minute) or tuple(candidates[:1]) or parts


def join_times(columns: Sequence[pd.Series], source: str, dayfirst: bool | None = None) -> pd.Series:
    """Return the time of each row from its date and time of day, or from its year, month, day, hour and minute; as text
    if the time of day is text. Hour 24, or 24:00, ends the day."""
    date, *rest = columns
    if _is_whole(date):  # a year: dates as numbers are longer
        days, rest = _days(columns[:3], source), rest[2:]
    elif pd.api.types.is_integer_dtype(rest[0]):
        days = pd.Series(read_times(date, str(date.name), source, dayfirst), index=date.index)
    else:
        return _join_texts(date, rest[0], source, dayfirst)
    for column, length in zip(rest, (_hours, _minutes), strict=False):
        days = days + length(column)
    return days


def _with_minute(names: tuple[str, ...], data: Mapping[str, pd.Series], minute: str | None) -> tuple[str, ...]:
    """Return the names of a date and an hour with that of the minute, if the hours are without minutes."""
    if minute is None or len(names) < 2:
        return names
    hour = names[1]
    return (*names, minute) if is_hour(hour, data[hour], True) and not _has_minutes(hour, data[hour]) else names


def _parts(data: Mapping[str, pd.Series]) -> tuple[str, ...]:
    """Return the names of the columns of whole numbers that hold year, month, day, hour and minute, if the first three
    are there."""
    found = [
        next((name for name, column in data.items() if name.lower() in names and _is_whole(column)), None)
        for names in PARTS
    ]
    if None in found:
        return ()
    days = tuple(name for name in found if name is not None)
    minute = _minute_name(data)
    hour = next((name for name, column in data.items() if is_hour(name, column, minute is not None)), None)
    if hour is None:
        return days
    return (*days, *_with_minute((days[0], hour), data, minute)[1:])


def _minute_name(data: Mapping[str, pd.Series]) -> str | None:
    names = MINUTES - {"min"} if any(name.lower() in STATISTICS for name in data) else MINUTES
    return next((name for name, column in data.items() if name.lower() in names and _is_whole(column, 59)), None)


def _days(columns: Sequence[pd.Series], source: str) -> pd.Series:
    """Return the dates of the columns year, month and day; raise an error that names the first wrong cell."""
    year, month, day = columns
    least, most = pd.Timestamp.min.year + 1, pd.Timestamp.max.year - 1
    _refuse_part(~year.between(least, most), year, f"a year of four digits from {least} to {most}", source)
    _refuse_part(~month.between(1, 12), month, "a month from 1 to 12", source)
    _refuse_part(~day.between(1, 31), day, "a day from 1 to 31", source)
    days = pd.to_datetime(pd.DataFrame({"year": year, "month": month, "day": day}), errors="coerce")
    _refuse_part(days.isna(), day, "a day of the month in that row", source)
    return days


def _refuse_part(wrong: pd.Series, column: pd.Series, expected: str, source: str) -> None:
    wrong = wrong.fillna(True).astype(bool)  # an empty cell of nullable integers
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise DataError(
            f"{source}: the time column {str(column.name)!r} holds {column.iloc[row]} at row {row} (counted from 0, "
            f"below the header), but {expected} was expected; correct the cell, or name the time column with --time."
        )


def _is_whole(column: pd.Series, most: int = 9999) -> bool:
    if not pd.api.types.is_integer_dtype(column) or not column.notna().any():
        return False
    return bool(column.min() >= 0 and column.max() <= most)


def is_hour(name: str, column: pd.Series, has_minute: bool = False) -> bool:
    """Return whether a column named like a time of day holds hours (0 to 24) or hours and minutes (0 to 2400).

    Numbers up to 24 are hours if they lie on a daily grid: 0, 5, 10, 15, 20 may be minutes. Beside a column of minutes
    (`has_minute`) they always are hours."""
    if not (name.lower().strip() in HOURS or HOURS_AND_MINUTES.search(name)) or not _is_whole(column, 2400):
        return False
    if _has_minutes(name, column):
        return bool((column.dropna() % 100 < 60).all())
    step = int(np.gcd.reduce(np.diff(column.dropna().to_numpy(dtype=np.int64)), initial=0))
    return has_minute or (step > 0 and 24 % step == 0)


def _has_minutes(name: str, column: pd.Series) -> bool:
    return bool(HOURS_AND_MINUTES.search(name) or column.max() > 24)


def _minutes(column: pd.Series) -> pd.Series:
    return pd.to_timedelta(column, unit="min")


def _hours(column: pd.Series) -> pd.Series:
    return _minutes(column // 100 * 60 + column % 100 if _has_minutes(str(column.name), column) else 60 * column)


def _join_texts(date: pd.Series, time: pd.Series, source: str, dayfirst: bool | None) -> pd.Series:
    """Return the text of each row's date and time of day; 18.00.00 becomes 18:00:00. If a row has 24:00, return
    timestamps instead, since it belongs to the next date."""
    days = date.dt.strftime("%Y-%m-%d") if pd.api.types.is_datetime64_any_dtype(date) else date.astype("str")
    if pd.api.types.is_timedelta64_dtype(time):
        return days + " " + (pd.Timestamp(0) + time).dt.strftime("%H:%M:%S.%f")
    clock = time.astype("str").str.strip()
    if _sample(time).astype(str).str.fullmatch(r"\s*\d{1,2}\.\d{2}(\.\d{2})?\s*").any():
        clock = clock.str.replace(".", ":", regex=False)
    ends = clock.str.fullmatch(END_OF_DAY, na=False)
    texts = days.str.strip() + " " + clock.mask(ends, clock.str.replace("24", "00", n=1, regex=False))
    if not ends.any():
        return texts
    times = read_times(texts, f"{date.name} + {time.name}", source, dayfirst)
    return pd.Series(times, index=date.index) + pd.to_timedelta(ends.astype(int), unit="D")


def _is_date_alone(column: pd.Series) -> bool:
    if pd.api.types.is_datetime64_any_dtype(column):
        known = column.dropna()
        return bool(len(known) and (known == known.dt.normalize()).all())
    if pd.api.types.is_numeric_dtype(column):
        return calendar_form(column) == CALENDAR[8]
    return _all_match(column, DATE_ALONE)


def _is_number_of_date(column: pd.Series) -> bool:
    return pd.api.types.is_integer_dtype(column) and _is_date_alone(column)


def _is_time_alone(name: str, column: pd.Series) -> bool:
    if pd.api.types.is_timedelta64_dtype(column):
        return bool(((column >= pd.Timedelta(0)) & (column < pd.Timedelta("1D"))).all())
    if not _all_match(column, TIME_ALONE):
        return False
    # 12.34.56 can only be a time of day, but 12.34 is more often a measured value.
    decimal = any(DECIMAL.fullmatch(str(cell).strip()) for cell in _sample(column))
    return not decimal or name.strip().lower() in CLOCK_NAMES


def _all_match(column: pd.Series, pattern: re.Pattern[str]) -> bool:
    if pd.api.types.is_numeric_dtype(column) or pd.api.types.is_datetime64_any_dtype(column):
        return False
    head = _sample(column)
    return bool(len(head) and all(pattern.fullmatch(str(cell).strip()) for cell in head))


def is_epoch(column: pd.Series) -> bool:
    """Return whether the numbers can be times counted since 1970."""
    return _epoch_unit(column) is not None


def calendar_form(column: pd.Series) -> str | None:
    """Return the format of whole numbers that are dates, such as 20240131 or 202401311050; None if they are not.

    Counters and measurements also pass through numbers that are no dates, such as 20240199."""
    if not pd.api.types.is_integer_dtype(column) or not len(column) or column.hasnans:
        return None
    numbers = column.to_numpy(dtype=np.int64)
    form = CALENDAR.get(len(str(abs(int(numbers[0])))))
    if form is None:
        return None
    if len(np.unique(numbers[:: max(1, len(numbers) // 1000)])) < MIN_DATES and (np.diff(numbers) < 0).any():
        return None
    rest = numbers
    for field in reversed(form.split("%")[1:]):
        size, least, most = CALENDAR_FIELDS[field]
        part = rest % size
        if part.min() < least or part.max() > most:
            return None
        rest = rest // size
    return form if not rest.any() else None


def read_times(column: pd.Series, name: str, source: str, dayfirst: bool | None = None) -> pd.DatetimeIndex:
    """Return the column as timestamps, in its own time zone if it has a single one, otherwise in UTC.

    `dayfirst` says whether 03/04/2024 is 3 April; by default the dates decide."""
    if pd.api.types.is_datetime64_any_dtype(column):
        return pd.DatetimeIndex(column)
    if pd.api.types.is_numeric_dtype(column):
        if form := calendar_form(column):
            parsed = pd.to_datetime(column.astype(str), format=form, errors="coerce")
        else:
            parsed = pd.to_datetime(column, unit=_epoch_unit(column), errors="coerce")
        _refuse_unparsed(parsed.isna() & column.notna(), column, name, source)
        return pd.DatetimeIndex(parsed)
    column = _starts(column)
    if _parse(_sample(column), "ISO8601").notna().all():
        with suppress(ValueError):  # not all rows are like the sample, which is examined below
            return pd.DatetimeIndex(pd.to_datetime(column, format="ISO8601", errors="raise"))
    form, parsed = _best_format(column, name, source, dayfirst)
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


def _formats(head: pd.Series, dayfirst: bool | None = None) -> list[str]:
    """Return the formats that some of the texts may have. Most are ruled out by their marks, which is fast."""
    forms = (*FORMS, *MONTH_FIRST) if dayfirst is False else FORMS
    wrong = {None: (), True: ("%m/",), False: ("%d/", "%d-%m")}[dayfirst]
    texts = [str(cell).strip() for cell in head]
    return ["ISO8601"] + [
        form for form in forms if not form.startswith(wrong) and any(_pattern(form).fullmatch(text) for text in texts)
    ]


@cache
def _pattern(form: str) -> re.Pattern[str]:
    return re.compile(re.sub("%[A-Za-z]", lambda field: FIELDS[field[0]], form.replace(".", r"\.")))


def _best_format(column: pd.Series, name: str, source: str, dayfirst: bool | None) -> tuple[str, pd.Series]:
    """Return the format that reads most of the column, and its result. If both day first and month first are possible,
    choose the one whose times span less: consecutive rows are close in time."""
    head = _sample(column)
    known = {form: int(_parse(head, form).notna().sum()) for form in _formats(head, dayfirst)}
    forms = [form for form, count in known.items() if count]
    forms = ["ISO8601"] if known["ISO8601"] == len(head) > 0 else forms or ["mixed"]
    parsed = {form: _parse(column, form) for form in forms}
    quality = {form: (times.notna().sum(), times.min() - times.max()) for form, times in parsed.items()}
    form = max(forms, key=lambda f: quality[f])
    for other in forms:
        if quality[other] == quality[form] and not parsed[other].equals(parsed[form]):
            example = column.dropna().iloc[0]
            notice(
                f"{source}: the dates in {name!r} can be read with the month or the day first; {example} was read as "
                f"{parsed[form].dropna().iloc[0]:%Y-%m-%d}. --dayfirst or --monthfirst decides (in Python: "
                "Reading(dayfirst=...))."
            )
            break
    return form, parsed[form]


def _parse(column: pd.Series, form: str) -> pd.Series:
    return pd.to_datetime(column.astype(str), format=form, errors="coerce", utc=True)


def _starts(column: pd.Series) -> pd.Series:
    """Return the starts of intervals such as 2024-01-01T00:00/2024-01-01T01:00; other texts stay as they are."""
    head = _sample(column)
    if not len(head) or not all(isinstance(cell, str) and INTERVAL.fullmatch(cell) for cell in head):
        return column
    return column.str.replace(INTERVAL, r"\1", regex=True)


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
