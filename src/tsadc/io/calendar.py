"""Planned work: calendars of expected events, from CSV or iCalendar files.

Rows of planned work count as not measured: they are neither judged nor learnt from. An entry holds for one entity or
for all, and for all variables or for those that it names. Entries may overlap. A repetition without an end goes on for
`MOST_YEARS`.

Times without a time zone are those of the data, whatever its time zone. Without dates, an entry of a CSV file has row
numbers."""

from __future__ import annotations

import csv
import datetime
import difflib
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tsadc.errors import DataError, listed, notice
from tsadc.series import Booleans, Clock, Floats, Series

MOST_BYTES, MOST_ENTRIES, MOST_YEARS = 2**26, 100_000, 50
FIRST_YEAR, LAST_YEAR = 1678, 2261  # of times in nanoseconds
COLUMNS = ("entity", "start", "end", "variables", "note")
DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
DURATION = re.compile(r"\+?P(?:(\d{1,5})W)?(?:(\d{1,6})D)?(?:T(?:(\d{1,6})H)?(?:(\d{1,7})M)?(?:(\d{1,8})S)?)?")
YEAR_FIRST = re.compile(r"\d{4}-\d\d-\d\d(?:[T ].*)?")
ANY = ("", "*")  # in place of an entity: all of them
Moment = datetime.datetime


@dataclass(frozen=True)
class Planned:
    """One entry of a calendar.

    Attributes
    ----------
    start, end : datetime, or int
        `end` is exclusive. A datetime without a time zone is in that of the data. Whole numbers are row numbers, or
        nanoseconds since 1970 in UTC if `ticks`.
    entity : str
        Empty: all entities.
    variables : tuple of str
        Empty: all variables.
    note : str
        What is planned.
    ticks : bool
    """

    start: Moment | int
    end: Moment | int
    entity: str = ""
    variables: tuple[str, ...] = ()
    note: str = ""
    ticks: bool = False

    def rows(self, clock: Clock) -> tuple[int, int] | None:
        """Return the rows [start, stop) of a clock, which may lie outside the series; None if the clock cannot say."""
        if not self.is_comparable(clock.dated):
            return None
        first, last = (-((clock.start - self._tick(edge, clock)) // clock.interval) for edge in (self.start, self.end))
        return first, last

    def is_comparable(self, dated: bool) -> bool:
        """Return whether data with dates, or without, can have the entry."""
        return (self.ticks or not isinstance(self.start, int)) == dated

    def is_outside(self, around: tuple[Moment, Moment] | None) -> bool:
        """Return whether the entry lies outside of two times, which have no time zone; False if it has no times."""
        if around is None or isinstance(self.start, int) or isinstance(self.end, int):
            return False
        return self.end.replace(tzinfo=None) < around[0] or self.start.replace(tzinfo=None) > around[1]

    def _tick(self, edge: Moment | int, clock: Clock) -> int:
        if isinstance(edge, int):
            return edge
        stamp = pd.Timestamp(edge)
        if stamp.tzinfo is None:
            # The hour that is skipped in spring lasts no time, and the one that is repeated in autumn lasts two.
            zone, repeated = clock.timezone or "UTC", edge is self.start
            stamp = stamp.tz_localize(zone, ambiguous=repeated, nonexistent="shift_forward")
        return int(stamp.as_unit("ns").value)


@dataclass(frozen=True)
class Span:
    """Rows [start, stop) of a series with planned work on the variables `columns`."""

    start: int
    stop: int
    columns: tuple[int, ...]
    note: str


@dataclass(frozen=True)
class Calendar:
    """Planned work, to be neither judged nor learnt from.

    Attributes
    ----------
    entries : tuple of Planned

    Examples
    --------
    >>> import datetime
    >>> import tsadc
    >>> from tsadc.io.calendar import Planned
    >>> overhaul = Planned(datetime.datetime(2026, 3, 2, 6), datetime.datetime(2026, 3, 2, 14), entity="pump 1")
    >>> tsadc.Calendar((overhaul,)).entries[0].entity
    'pump 1'
    """

    entries: tuple[Planned, ...] = ()

    @classmethod
    def read(cls, *files: str | Path) -> Self:
        """Read calendars: `.ics`, or CSV with the columns entity, start, end and, optionally, variables and note.

        Parameters
        ----------
        *files : path
            Entity and variables may be empty, which means all. Several variables are separated by `|`. In iCalendar
            files, LOCATION or else CATEGORIES name the entities.

        Returns
        -------
        Calendar
            The entries of all files.

        Raises
        ------
        DataError
            If a file cannot be read, or an entry has no end or ends before it starts.
        """
        return cls(tuple(entry for file in files for entry in _read(Path(file))))

    def __add__(self, other: Calendar) -> Calendar:
        return Calendar((*self.entries, *other.entries))

    def planned(self, series: Series) -> list[Span]:
        """Return the planned rows of a series, in order of time; those of the same variables that overlap are one."""
        by_columns: dict[tuple[int, ...], list[Span]] = {}
        every = tuple(range(len(series.names)))
        around = _around(series)
        for entry in self.entries:
            if entry.entity not in (*ANY, series.entity) or entry.is_outside(around):
                continue
            rows = entry.rows(series.clock)
            if rows is None or rows[0] >= min(rows[1], len(series)) or rows[1] <= 0:
                continue
            columns = every
            if entry.variables:
                columns = tuple(k for k in every if series.names[k] in entry.variables)
            if columns:
                by_columns.setdefault(columns, []).append(Span(*rows, columns, entry.note))
        return sorted((span for spans in by_columns.values() for span in _merged(spans)), key=lambda span: span.start)

    def compare(self, series: Sequence[Series]) -> None:
        """Issue a notice if the calendar can hardly belong to the data."""
        known = {item.entity for item in series}
        named = {entry.entity for entry in self.entries if not entry.ticks} - {*ANY}  # verdicts have names of data
        if unknown := sorted(named - known):
            notice(
                f"The calendar names {listed(unknown)}, but the data only has {listed(sorted(known))}, so those "
                f"entries have no effect{_meant(unknown, known)}"
            )
        names = {name for item in series for name in item.names}
        lacking = sorted({name for entry in self.entries for name in entry.variables} - names)
        if lacking:
            notice(f"The calendar names variables that the data lacks: {listed(lacking)}{_meant(lacking, names)}")
        clocks = {item.clock.dated for item in series}
        unusable = sum(not any(map(entry.is_comparable, clocks)) for entry in self.entries)
        if unusable:
            what = "dates, but the data has none" if clocks == {False} else "row numbers, but the data has dates"
            notice(f"{unusable} of {len(self.entries)} entries of the calendar have {what}; they have no effect.")


def _around(series: Series) -> tuple[Moment, Moment] | None:
    """Return times before and after a series, by any time zone; None without dates. Entries beyond them are skipped
    without a conversion, which would take seconds for a repetition over decades."""
    if not series.clock.dated:
        return None
    first, last = series.clock.tick(0), series.clock.tick(len(series))
    epoch, day = Moment(1970, 1, 1), datetime.timedelta(days=1)
    return (
        epoch + datetime.timedelta(microseconds=first // 1000) - 2 * day,
        epoch + datetime.timedelta(microseconds=last // 1000) + 2 * day,
    )


def _meant(unknown: Iterable[str], known: Iterable[str]) -> str:
    """Return the end of a sentence about unknown names: which of the known ones may be meant."""
    by_fold = {name.casefold(): name for name in known}
    close = [match for name in unknown for match in difflib.get_close_matches(name.casefold(), by_fold, n=1)]
    return f"; did you mean {listed([by_fold[match] for match in dict.fromkeys(close)])}?" if close else "."


class _Rows:
    """Values whose planned rows are not measured, read from another array-like object when needed."""

    ndim = 2

    def __init__(self, values: Any, spans: Sequence[Span]) -> None:
        self.values, self.spans = values, spans
        self.shape, self.dtype = values.shape, values.dtype

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, key: Any) -> Floats:
        rows, rest = (key[0], key[1:]) if isinstance(key, tuple) else (key, ())
        if not isinstance(rows, slice) or rows.step not in (None, 1):
            raise TypeError("only consecutive rows can be read")
        first, last, _ = rows.indices(len(self))
        values = _hidden(np.array(self.values[first:last]), self.spans, first)
        return values[(slice(None), *rest)] if rest else values


def without(values: Any, spans: Sequence[Span]) -> Floats:
    """Return values (time, variable), an array or something that is read like one, with spans as not measured."""
    if isinstance(values, np.ndarray) and not isinstance(values, np.memmap):
        return _hidden(np.array(values), spans, 0)
    return cast(Floats, _Rows(values, spans))


def _hidden(values: NDArray[Any], spans: Sequence[Span], first: int) -> Floats:
    """Return values that begin at row `first` without those of planned rows."""
    if values.dtype.kind != "f":
        values = values.astype(np.float64)
    for span in spans:
        rows = slice(max(span.start - first, 0), max(span.stop - first, 0))
        values[rows, list(span.columns)] = np.nan
    return values


def planned_cells(spans: Sequence[Span], columns: int, start: int, stop: int) -> Booleans:
    """Return (row, variable) which cells of rows [start, stop) have planned work."""
    return np.isnan(_hidden(np.zeros((stop - start, columns)), spans, start))


def _merged(spans: list[Span]) -> list[Span]:
    """Return spans of the same variables without overlap."""
    merged: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, span.stop)):
        if merged and span.start <= merged[-1].stop:
            notes = dict.fromkeys(note for note in (*merged[-1].note.split("; "), span.note) if note)
            merged[-1] = replace(merged[-1], stop=max(span.stop, merged[-1].stop), note="; ".join(notes))
        else:
            merged.append(span)
    return merged


def _read(file: Path) -> list[Planned]:
    try:
        if file.stat().st_size > MOST_BYTES:
            raise DataError(f"{file} is larger than {MOST_BYTES >> 20} MB, which no calendar is; check the name.")
        text = file.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise DataError(f"There is no calendar {file}; check the name.") from None
    except UnicodeDecodeError:
        raise DataError(f"The calendar {file} is not UTF-8 text; save it as UTF-8.") from None
    except OSError as error:
        raise DataError(f"The calendar {file} cannot be read: {error.strerror}.") from None
    ends = {".ics": _ics, ".csv": _csv}
    if file.suffix.lower() not in ends:
        raise DataError(f"A calendar ends in .ics or .csv, but got {file}; convert it to one of them.")
    entries = []
    try:
        for entry in ends[file.suffix.lower()](text, file):
            entries.append(_checked(entry, file))
            if len(entries) > MOST_ENTRIES:
                raise DataError(f"The calendar {file} has more than {MOST_ENTRIES:,} entries; shorten it.")
    except OverflowError:
        raise DataError(f"The calendar {file} has a time outside the years 1 to 9999; correct it.") from None
    return entries


def _checked(entry: Planned, file: Path) -> Planned:
    start, end = entry.start, entry.end
    what = f"the entry of {file} that starts at {start}"
    if type(start) is not type(end) or _is_aware(start) != _is_aware(end):
        raise DataError(f"{what[0].upper()}{what[1:]} ends at {end}: both need a time zone, or both none.")
    if cast(Any, end) < cast(Any, start):
        raise DataError(f"{what[0].upper()}{what[1:]} ends before, at {end}; swap the two times.")
    if end == start:
        raise DataError(f"{what[0].upper()}{what[1:]} lasts no time; give the time at which it ends.")
    for edge in (start, end):
        if isinstance(edge, Moment) and not FIRST_YEAR <= edge.year <= LAST_YEAR:
            raise DataError(
                f"{what[0].upper()}{what[1:]} ends at {end}, but only the years {FIRST_YEAR} to {LAST_YEAR} can be "
                "used; give the times at which it really starts and ends."
            )
    return entry


def _is_aware(edge: Moment | int) -> bool:
    return isinstance(edge, Moment) and edge.tzinfo is not None


def _csv(text: str, file: Path) -> Iterator[Planned]:
    first = text.partition("\n")[0]
    separator = ";" if first.count(";") > first.count(",") else ","
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        header = [name.strip().lower() for name in next(rows, [])]
        missing = [name for name in ("entity", "start", "end") if name not in header]
        unknown = [name for name in header if name not in COLUMNS]
        if missing or unknown or len(set(header)) < len(header):
            raise DataError(
                f"The calendar {file} needs the columns entity, start, end and may have variables and note, but its "
                f"header is {', '.join(header) or 'empty'}."
            )
        for number, cells in enumerate(rows, start=2):
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(header):
                raise DataError(f"Line {number} of {file} has {len(cells)} cells, but the header has {len(header)}.")
            row = dict(zip(header, (cell.strip() for cell in cells), strict=True))
            start, end = (_edge(row[key], key, number, file) for key in ("start", "end"))
            variables = tuple(name.strip() for name in row.get("variables", "").split("|") if name.strip())
            yield Planned(start, end, row["entity"], variables, row.get("note", ""))
    except csv.Error as error:
        raise DataError(f"The calendar {file} is no CSV file: {error}.") from None


def _edge(text: str, key: str, number: int, file: Path) -> Moment | int:
    if not text:
        what = "endless" if key == "end" else "without a start"
        raise DataError(f"The entry in line {number} of {file} is {what}; give its {key}.")
    if re.fullmatch(r"\d{1,15}", text):
        return int(text)
    try:
        if not YEAR_FIRST.fullmatch(text):
            raise ValueError
        return pd.Timestamp(text).to_pydatetime()
    except (ValueError, OverflowError):
        raise DataError(
            f"Line {number} of {file} has the {key} {text!r}, but a time such as 2026-03-01 12:30, or a row number for "
            "data without dates, was expected."
        ) from None


@dataclass(frozen=True)
class _Property:
    """A line of an iCalendar file: `value`, and the parameters between its name and the colon."""

    value: str
    parameters: dict[str, str]

    @property
    def text(self) -> str:
        return re.sub(r"\\(.)", lambda escape: "\n" if escape[1] in "nN" else escape[1], self.value).strip()


def _ics(text: str, file: Path) -> Iterator[Planned]:
    lines = re.sub(r"\r?\n[ \t]", "", text).splitlines()
    if not lines or lines[0].strip().upper() != "BEGIN:VCALENDAR":
        raise DataError(f"The calendar {file} does not begin with BEGIN:VCALENDAR; export it as iCalendar again.")
    event: dict[str, list[_Property]] | None = None
    depth = 0  # of components inside an event, such as alarms
    for line in lines:
        head, colon, value = _split(line)
        name, *parameters = head.split(";")
        name = name.upper()
        if name == "BEGIN" and event is None and value.upper() == "VEVENT":
            event = {}
        elif name == "BEGIN" and event is not None:
            depth += 1
        elif name == "END" and event is not None:
            if depth:
                depth -= 1
                continue
            if value.upper() != "VEVENT":
                raise DataError(f"The calendar {file} is damaged: an event ends with END:{value[:40]}.")
            yield from _event(event, file)
            event = None
        elif event is not None and not depth and colon:
            given = {key.upper(): word for key, _, word in (part.partition("=") for part in parameters)}
            event.setdefault(name, []).append(_Property(value, given))
    if event is not None:
        raise DataError(f"The calendar {file} is truncated: its last event has no END:VEVENT.")


def _split(line: str) -> tuple[str, str, str]:
    """Split a line at the first colon outside of quotes."""
    quoted = False
    for place, letter in enumerate(line):
        quoted ^= letter == '"'
        if letter == ":" and not quoted:
            return line[:place], ":", line[place + 1 :].strip()
    return line.strip(), "", ""


def _event(event: dict[str, list[_Property]], file: Path) -> Iterator[Planned]:
    note = event["SUMMARY"][0].text if "SUMMARY" in event else ""
    what = f"The event {note!r} of {file}" if note else f"An event of {file}"
    if "STATUS" in event and event["STATUS"][0].value.upper() == "CANCELLED":
        return
    if "RECURRENCE-ID" in event or "RDATE" in event:
        raise DataError(f"{what} changes single dates of a repeated event, which is not supported; write it as CSV.")
    if "DTSTART" not in event:
        raise DataError(f"{what} has no start; add DTSTART.")
    start, all_day = _moment(event["DTSTART"][0], what)
    if "DTEND" in event:
        lasting = None
        end, _ = _moment(event["DTEND"][0], what)
        if _is_aware(start) != _is_aware(end):
            raise DataError(f"{what} needs a time zone for its start and its end, or for none of them.")
        if not _is_aware(start) or start.tzinfo == end.tzinfo:
            lasting = end - start  # in wall time, as those who plan mean it
        else:
            lasting = end.astimezone(datetime.UTC) - start.astimezone(datetime.UTC)
    elif "DURATION" in event:
        lasting = _duration(event["DURATION"][0].value, what)
    elif all_day:
        lasting = datetime.timedelta(days=1)
    else:
        raise DataError(f"{what} is endless; give it a DTEND or a DURATION.")
    if lasting <= datetime.timedelta(0):
        raise DataError(f"{what} ends before it starts or lasts no time; swap the two times.")
    places = [location.text for location in event.get("LOCATION", [])] or [
        part.strip() for categories in event.get("CATEGORIES", []) for part in categories.text.split(",")
    ]
    skipped = {
        _moment(replace(dates, value=value), what)[0]
        for dates in event.get("EXDATE", [])
        for value in dates.value.split(",")
    }
    starts = _repeated(start, event["RRULE"][0].value, what) if "RRULE" in event else iter([start])
    for begin in starts:
        if begin not in skipped:
            for entity in [place for place in places if place] or [""]:
                yield Planned(begin, begin + lasting, entity, (), note)


def _moment(time: _Property, what: str) -> tuple[Moment, bool]:
    """Return a time, and whether it is a whole day."""
    value, zone = time.value, time.parameters.get("TZID", "").strip('"')
    try:
        if re.fullmatch(r"\d{8}", value):
            return Moment.strptime(value, "%Y%m%d"), True
        if not re.fullmatch(r"\d{8}T\d{6}Z?", value):
            raise ValueError
        moment = Moment.strptime(value.removesuffix("Z"), "%Y%m%dT%H%M%S")
    except ValueError:
        raise DataError(f"{what} has the time {value[:40]!r}, but one such as 20260301T123000Z was expected.") from None
    if value.endswith("Z"):
        return moment.replace(tzinfo=datetime.UTC), False
    if not zone:
        return moment, False
    try:
        return moment.replace(tzinfo=ZoneInfo(zone)), False
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise DataError(
            f"{what} is in the time zone {zone[:40]!r}, which is not known; export it with a name such as "
            "Europe/Berlin, or in UTC."
        ) from None


def _duration(text: str, what: str) -> datetime.timedelta:
    match = DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        raise DataError(f"{what} has the duration {text[:40]!r}, but one such as PT8H or P1D was expected.")
    weeks, days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return datetime.timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)


def _repeated(start: Moment, rule: str, what: str) -> Iterator[Moment]:
    """Yield the starts of a repeated event, in wall time."""
    parts = dict(part.upper().split("=", 1) for part in rule.split(";") if "=" in part)
    unknown = sorted(parts.keys() - {"FREQ", "INTERVAL", "COUNT", "UNTIL", "BYDAY", "WKST"})
    days = parts.get("BYDAY", "").split(",") if "BYDAY" in parts else [DAYS[start.weekday()]]
    numbers = [parts.get(key, "1") for key in ("INTERVAL", "COUNT")]
    weekly = parts.get("FREQ") == "WEEKLY"
    if (
        unknown
        or parts.get("FREQ") not in ("DAILY", "WEEKLY")
        or not set(days) <= set(DAYS)
        or (not weekly and "BYDAY" in parts)
        or not all(re.fullmatch(r"[1-9]\d{0,5}", number) for number in numbers)
    ):
        raise DataError(
            f"{what} is repeated by {rule[:60]!r}, but only FREQ=DAILY and FREQ=WEEKLY with INTERVAL, COUNT, UNTIL "
            "and, for weeks, BYDAY are supported; write it as CSV."
        )
    until = start.replace(year=min(start.year + MOST_YEARS, 9998), day=min(start.day, 28))
    if "UNTIL" in parts:
        until, whole_day = _moment(_Property(parts["UNTIL"], {}), what)
        until += datetime.timedelta(days=1, microseconds=-1) if whole_day else datetime.timedelta(0)
        if until.tzinfo is None:
            until = until.replace(tzinfo=start.tzinfo)
        elif start.tzinfo is None:
            until = until.replace(tzinfo=None)
    most = int(parts["COUNT"]) if "COUNT" in parts else MOST_ENTRIES + 1
    every, count = int(numbers[0]), 0
    monday = start - datetime.timedelta(days=start.weekday())
    step = datetime.timedelta(weeks=every) if weekly else datetime.timedelta(days=every)
    places = sorted(DAYS.index(day) for day in days)
    base = monday if weekly else start
    while count < most:
        for begin in [base + datetime.timedelta(days=day) for day in places] if weekly else [base]:
            if begin < start:
                continue
            if begin > until or count >= most:
                return
            count += 1
            yield begin
        base += step
