"""Calendars of planned work: CSV and iCalendar files, and the rows that they keep from being judged."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from tsadc.errors import DataError, TsadcNotice
from tsadc.io.calendar import Calendar, Planned, Span, without
from tsadc.series import Clock, Series

HOUR = 3600 * 10**9
FIRST = datetime(2026, 3, 2)  # a Monday


def hours(count: int = 48, entity: str = "pump", timezone: str | None = None, start: datetime = FIRST) -> Series:
    tick = int(start.replace(tzinfo=UTC).timestamp()) * 10**9
    return Series(np.ones((count, 2)), ("flow", "heat"), Clock(tick, HOUR, True, timezone), entity)


def event(*lines: str) -> str:
    return "\r\n".join(["BEGIN:VCALENDAR", "VERSION:2.0", "BEGIN:VEVENT", *lines, "END:VEVENT", "END:VCALENDAR", ""])


def read(text: str, folder: Path, name: str = "plan.ics") -> tuple[Planned, ...]:
    (folder / name).write_bytes(text.encode())
    return Calendar.read(folder / name).entries


def test_a_csv_file_names_entity_times_variables_and_note(tmp_path: Path) -> None:
    text = (
        'entity,start,end,variables,note\npump,2026-03-02 06:00,2026-03-02 08:30,flow | heat,"oil, filter"\n\n,0,5,,\n'
    )
    first, second = read(text, tmp_path, "plan.csv")
    assert first == Planned(
        FIRST + timedelta(hours=6), FIRST + timedelta(hours=8.5), "pump", ("flow", "heat"), "oil, filter"
    )
    assert second == Planned(0, 5)
    (other,) = read("note;end;start;entity\nx;2026-03-02T08:00Z;2026-03-02T06:00+00:00;pump\n", tmp_path, "plan.csv")
    assert (other.start, other.note) == (datetime(2026, 3, 2, 6, tzinfo=UTC), "x")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("entity,start\n", "needs the columns entity, start, end"),
        ("", "its header is empty"),
        ("entity,start,end,machine\n", "needs the columns"),
        ("entity,start,end\npump,2026-03-02,\n", "line 2 .* is endless; give its end"),
        ("entity,start,end\npump,2026-03-03,2026-03-02\n", "ends before, at 2026-03-02"),
        ("entity,start,end\npump,2026-03-03,2026-03-03\n", "lasts no time"),
        ("entity,start,end\npump,3.4.2026,4.4.2026\n", "has the start '3.4.2026', but a time such as 2026-03-01 12:30"),
        ("entity,start,end\npump,2026-13-03,2026-03-04\n", "a time such as"),
        ("entity,start,end\npump,2026-03-03T00:00Z,2026-03-04\n", "both need a time zone, or both none"),
        ("entity,start,end\npump,7,2026-03-04\n", "both need a time zone, or both none"),
        ("entity,start,end\npump,2026-03-03,9999-12-31\n", "ends at 9999-12-31 .* only the years 1678 to 2261"),
        ("entity,start,end\npump,2026-03-03\n", "Line 2 .* has 2 cells, but the header has 3"),
        ('entity,start,end\n"pump,2026-03-03', "is no CSV file"),
    ],
)
def test_a_csv_file_that_cannot_be_meant_is_refused(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=says):
        read(text, tmp_path, "plan.csv")


def test_an_event_has_a_start_an_end_or_a_duration_and_a_place(tmp_path: Path) -> None:
    (entry,) = read(
        event(
            "DTSTART:20260302T060000Z",
            "DTEND:20260302T080000Z",
            "SUMMARY:Oil\\, filter\\nboth",
            "LOCATION:pump",
            "CATEGORIES:other",
        ),
        tmp_path,
    )
    assert entry == Planned(
        datetime(2026, 3, 2, 6, tzinfo=UTC), datetime(2026, 3, 2, 8, tzinfo=UTC), "pump", (), "Oil, filter\nboth"
    )
    lasting = read(
        event("DTSTART;TZID=Europe/Berlin:20260302T060000", "DURATION:P1DT2H30M", "CATEGORIES:pump,press"), tmp_path
    )
    assert [own.entity for own in lasting] == ["pump", "press"]
    assert lasting[0].start == datetime(2026, 3, 2, 6, tzinfo=ZoneInfo("Europe/Berlin"))
    assert lasting[0].end == datetime(2026, 3, 3, 8, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    (day,) = read(event("DTSTART;VALUE=DATE:20260302", "SUMMARY:a long", "  line"), tmp_path)
    assert day == Planned(FIRST, FIRST + timedelta(days=1), "", (), "a long line")
    assert read(event("DTSTART:20260302T060000", "DURATION:PT1H", "STATUS:CANCELLED"), tmp_path) == ()
    alarm = event("DTSTART:20260302T060000", "DURATION:PT1H", "BEGIN:VALARM", "DURATION:PT9H", "END:VALARM")
    assert read(alarm, tmp_path)[0].end == FIRST + timedelta(hours=7)


@pytest.mark.parametrize(
    ("rule", "days"),
    [
        ("FREQ=DAILY;COUNT=3", [0, 1, 2]),
        ("FREQ=DAILY;INTERVAL=2;UNTIL=20260306T060000Z", [0, 2, 4]),
        ("FREQ=WEEKLY;COUNT=2", [0, 7]),
        ("FREQ=WEEKLY;BYDAY=MO,TH;COUNT=3;WKST=MO", [0, 3, 7]),
        ("FREQ=WEEKLY;INTERVAL=2;BYDAY=TU;UNTIL=20260401", [1, 15, 29]),
    ],
)
def test_repetitions(rule: str, days: list[int], tmp_path: Path) -> None:
    entries = read(event("DTSTART:20260302T060000Z", "DURATION:PT1H", f"RRULE:{rule}"), tmp_path)
    assert [(own.start - FIRST.replace(tzinfo=UTC)).days for own in entries] == days


def test_a_repetition_follows_the_wall_clock_skips_exceptions_and_an_endless_one_ends(tmp_path: Path) -> None:
    weekly = event(
        "DTSTART;TZID=Europe/Berlin:20260323T060000",
        "DURATION:PT1H",
        "RRULE:FREQ=WEEKLY;COUNT=3",
        "EXDATE;TZID=Europe/Berlin:20260406T060000",
    )
    entries = read(weekly, tmp_path)
    assert [own.start.astimezone(UTC).hour for own in entries] == [5, 4]  # summer time begins on 29 March
    endless = read(event("DTSTART:20260302T060000Z", "DURATION:PT1H", "RRULE:FREQ=WEEKLY"), tmp_path)
    assert len(endless) == 2610
    assert endless[-1].start.year == 2076


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["DTEND:20260302T060000"], "has no start; add DTSTART"),
        (["DTSTART:20260302T060000", "SUMMARY:Oil"], "The event 'Oil' of .* is endless; give it a DTEND or a DURATION"),
        (["DTSTART:20260302T060000", "DTEND:20260301T060000"], "ends before it starts"),
        (["DTSTART:20260302T060000", "DTEND:20260303T060000Z"], "for its start and its end, or for none"),
        (["DTSTART:2 March", "DURATION:PT1H"], "has the time '2 March', but one such as"),
        (["DTSTART:20261302T060000", "DURATION:PT1H"], "but one such as"),
        (["DTSTART:20260302T060000", "DURATION:1 hour"], "one such as PT8H"),
        (["DTSTART:20260302T060000", "DURATION:PT0S"], "lasts no time"),
        (["DTSTART:20260302", "DTEND:99991231"], "only the years 1678 to 2261"),
        (["DTSTART:99980302", "DURATION:P9999W"], "outside the years 1 to 9999"),
        (["DTSTART;TZID=W. Europe Standard Time:20260302T060000", "DURATION:PT1H"], "is not known; export it"),
        (["DTSTART:20260302T060000", "DURATION:PT1H", "RRULE:FREQ=MONTHLY"], "only FREQ=DAILY and FREQ=WEEKLY"),
        (["DTSTART:20260302T060000", "DURATION:PT1H", "RRULE:FREQ=DAILY;COUNT=x"], "only FREQ=DAILY"),
        (["DTSTART:20260302T060000", "DURATION:PT1H", "RECURRENCE-ID:20260302T060000"], "single dates of a repeated"),
    ],
)
def test_an_event_that_cannot_be_meant_is_refused(lines: list[str], says: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=says):
        read(event(*lines), tmp_path)


def test_files_that_are_no_calendars_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="There is no calendar"):
        Calendar.read(tmp_path / "none.ics")
    with pytest.raises(DataError, match="does not begin with BEGIN:VCALENDAR"):
        read("hello", tmp_path)
    with pytest.raises(DataError, match="is truncated"):
        read(event("DTSTART:20260302T060000").partition("END:VEVENT")[0], tmp_path)
    with pytest.raises(DataError, match=r"ends in .ics or .csv"):
        read("x", tmp_path, "plan.txt")
    (tmp_path / "plan.ics").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="is not UTF-8"):
        Calendar.read(tmp_path / "plan.ics")
    (tmp_path / "folder.ics").mkdir()
    with pytest.raises(DataError, match="cannot be read"):
        Calendar.read(tmp_path / "folder.ics")


def test_planned_cells_count_as_not_measured_and_the_input_stays(tmp_path: Path) -> None:
    data = hours()
    calendar = Calendar(
        (
            Planned(FIRST + timedelta(hours=5.5), FIRST + timedelta(hours=8), "pump", ("heat",), "heater"),
            Planned(FIRST + timedelta(hours=40), FIRST + timedelta(days=9), "pump"),
            Planned(FIRST, FIRST + timedelta(hours=2), "press"),
        )
    )
    masked = replace(data, values=without(data.values, calendar.planned(data)))
    absent = np.isnan(masked.values)
    assert np.flatnonzero(absent[:, 1]).tolist() == [6, 7, *range(40, 48)]
    assert np.flatnonzero(absent[:, 0]).tolist() == list(range(40, 48))
    assert np.isfinite(data.values).all()


def test_overlapping_entries_become_one() -> None:
    entries = (Planned(1, 5, note="a"), Planned(4, 9, note="b"), Planned(9, 10, note="a"), Planned(12, 13))
    series = Series(np.ones((20, 1)), ("flow",))
    assert Calendar(entries).planned(series) == [Span(1, 10, (0,), "a; b"), Span(12, 13, (0,), "")]


@pytest.mark.parametrize("timezone", [None, "Pacific/Kiritimati", "Pacific/Pago_Pago"])
def test_entries_far_from_the_data_are_skipped_and_no_others(timezone: str | None) -> None:
    series, generator = hours(timezone=timezone), np.random.default_rng(0)
    zones = (None, UTC, ZoneInfo("Pacific/Kiritimati"), ZoneInfo("Pacific/Pago_Pago"))
    starts = [FIRST + timedelta(hours=int(hour)) for hour in generator.integers(-120, 140, 200)]
    for i, start in enumerate(starts):
        begin = start.replace(tzinfo=zones[i % len(zones)])
        entry = Planned(begin, begin + timedelta(hours=3))
        rows = entry.rows(series.clock)
        assert rows is not None
        expected = [Span(*rows, (0, 1), "")] if rows[0] < len(series) and rows[1] > 0 else []
        assert Calendar((entry,)).planned(series) == expected


def test_times_without_a_zone_are_those_of_the_data() -> None:
    entry = Planned(FIRST + timedelta(hours=6), FIRST + timedelta(hours=8))
    assert entry.rows(hours().clock) == (6, 8)
    assert entry.rows(hours(timezone="Asia/Tokyo").clock) == (-3, -1)
    aware = Planned(datetime(2026, 3, 2, 6, tzinfo=UTC), datetime(2026, 3, 2, 8, tzinfo=UTC))
    assert aware.rows(hours(timezone="Asia/Tokyo").clock) == (6, 8)
    # The hour that summer time skips is no time at all; the one that winter time repeats lasts two hours.
    spring = Planned(datetime(2026, 3, 29, 2), datetime(2026, 3, 29, 3))
    assert spring.rows(hours(timezone="Europe/Berlin", start=datetime(2026, 3, 29)).clock) == (1, 1)
    autumn = Planned(datetime(2026, 10, 25, 2), datetime(2026, 10, 25, 3))
    assert autumn.rows(hours(timezone="Europe/Berlin", start=datetime(2026, 10, 25)).clock) == (0, 2)


def test_values_that_are_read_from_a_file_are_hidden_when_they_are_read(tmp_path: Path) -> None:
    np.save(tmp_path / "values.npy", np.arange(20, dtype=np.float32).reshape(10, 2))
    rows = np.load(tmp_path / "values.npy", mmap_mode="r")
    series = Series(rows, ("a", "b"))
    spans = Calendar((Planned(3, 5, variables=("b",)),)).planned(series)
    masked = replace(series, values=without(rows, spans))
    np.testing.assert_array_equal(masked.values[2:6], [[4, 5], [6, np.nan], [8, np.nan], [10, 11]])
    np.testing.assert_array_equal(np.concatenate(list(masked.chunks()))[3:5, 1], [np.nan, np.nan])
    assert masked.values.shape == (10, 2)


def test_a_misspelt_entity_is_named_even_if_others_are_right() -> None:
    later = FIRST + timedelta(hours=1)
    right, wrong, every = (Planned(FIRST, later, entity) for entity in ("pump", "valve-x", ""))
    valve = replace(hours(), entity="valve-1")
    with pytest.warns(TsadcNotice, match=r"names valve-x, but the data only has pump, valve-1.*did you mean valve-1\?"):
        Calendar((right, wrong)).compare([hours(), valve])
    capitals = Planned(FIRST, later, "PUMP")
    with pytest.warns(TsadcNotice, match=r"names PUMP, valve-x, .*; did you mean pump, valve-1\?$"):
        Calendar((capitals, wrong)).compare([hours(), valve])
    with pytest.warns(TsadcNotice, match=r"names valve-x, .* entries have no effect\.$"):
        Calendar((every, wrong)).compare([hours()])
    Calendar((right, every)).compare([hours(), valve])


def test_a_calendar_of_something_else_is_noticed() -> None:
    with pytest.warns(TsadcNotice, match="names press, but the data only has pump"):
        Calendar((Planned(FIRST, FIRST + timedelta(hours=1), "press"),)).compare([hours()])
    with pytest.warns(TsadcNotice, match=r"variables that the data lacks: flwo, speed; did you mean flow\?$"):
        Calendar((Planned(FIRST, FIRST + timedelta(hours=1), "pump", ("speed", "flwo")),)).compare([hours()])
    with pytest.warns(TsadcNotice, match="1 of 1 entries of the calendar have row numbers, but the data has dates"):
        Calendar((Planned(0, 5, "pump"),)).compare([hours()])
