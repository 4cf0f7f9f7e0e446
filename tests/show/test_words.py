import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tsadc.detectors import REGISTRY, find
from tsadc.detectors.drift import Drift, Moved
from tsadc.series import Clock
from tsadc.show.words import (
    DASH,
    EVIDENCE,
    THIN,
    Times,
    drift,
    evidence,
    iso8601,
    number,
    percent,
    precision,
    return_period,
    severity,
    severity_word,
)

MINUTE = 60 * 10**9
START = pd.Timestamp("2026-03-03 14:05").value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (4.2149, "4.21"),
        (4.2, "4.20"),
        (12.34, "12.3"),
        (0.01234, "0.0123"),
        (99.99, "100"),
        (1234.5, "1,234"),
        (-2.5, "\N{MINUS SIGN}2.50"),
        (1.5e7, "1.50e+07"),
        (np.nan, DASH),
        (np.inf, DASH),
    ],
)
def test_number(value, text):
    assert number(value) == text


def test_percent():
    assert [percent(share) for share in (0, 0.004, 0.0994, 0.0999, 0.623, 1)] == [
        f"{text}{THIN}%" for text in ("0", "0.4", "9.9", "10", "62", "100")
    ]


def test_severity_has_three_words():
    assert [severity_word(s) for s in (0.0, 89.9, 90.0, 98.9, 99.0, 100.0)] == [
        *["slight"] * 2,
        *["moderate"] * 2,
        *["severe"] * 2,
    ]


def test_severity_is_a_whole_number_that_does_not_reach_the_ends():
    for value, text in ((0.0, "< 1"), (0.9, "< 1"), (1.0, "1"), (36.8, "36"), (99.0, "99"), (99.01, "> 99")):
        assert severity(value) == text


def test_a_return_period_has_the_largest_unit_that_fits_twice():
    for period, text in (
        ("40D", "once in 6 weeks"), ("13D", "once in 13 days"), ("100D", "once in 3 months"),
        ("36h", "once in 36 hours"),
        ("90min", "once in 90 minutes"), ("20s", "once in 1 minute"), ("36525D", "once in 100 years"),
    ):  # fmt: skip
        assert return_period(pd.Timedelta(period)) == text
    assert return_period(1234.5) == "once in 1,234 rows"
    assert return_period(float("inf")) == "once in 1,000,000,000 rows"


def test_drift_in_words():
    moved = (Moved("flow", 31.0, 12.0), Moved("speed", 0.5, 700.0))
    assert drift(Drift("pump", pd.Timestamp("2024-03-01 12:00"), 70, 72, moved)) == (
        "70 of the 72 observations of pump since 2024-03-01 12:00 differ from what was learnt: another machine, a new "
        "regime, or drift? Medians that moved: flow from 31.0 to 12.0, speed from 0.50 to 700. Check that it is "
        "the same machine, in the same units. If this is the new normal, fit again, or use `tsadc adapt` if only "
        "levels and spreads have changed."
    )
    assert "since row 40 differ from what was learnt: another machine, a new regime, or drift? Check" in drift(
        Drift("pump", 40, 10, 10, ())
    )
    assert drift(Drift("pump", 40, 10, 10, (), ("flow", "load"))).endswith(
        "or drift? Not measured in this period: flow, load. Check this first; the rest may follow from it."
    )


def test_a_stuck_sensor_is_not_called_drift():
    stuck = Drift("pump", pd.Timestamp("2024-03-01 12:00"), 20, 20, (), stuck=("flow",))
    assert drift(stuck) == (
        "flow of pump has not changed since 2024-03-01 12:00: a stuck sensor? 20 of the 20 observations since then "
        "differ from what was learnt. Check the sensor first; the rest may follow from it."
    )
    both = replace(stuck, variables=(Moved("speed", 1.0, 9.0),), missing=("load",))
    assert drift(both).endswith(
        "Medians that moved: speed from 1.00 to 9.00. Not measured in this period: load; not changing in this period: "
        "flow. Check this first; the rest may follow from it."
    )
    own = replace(stuck, variables=(Moved("flow", 1.0, 1.4),))
    assert drift(own) == drift(stuck)


@pytest.mark.parametrize("name", REGISTRY)
def test_every_view_of_every_detector_has_a_title_and_a_sentence(name):
    for view in find(name)(length=64).view_names:
        title, sentence = EVIDENCE[view]
        assert title != view
        assert sentence.endswith(".")


def test_evidence_of_an_unknown_view_is_its_name():
    assert evidence("deviation")[0] == "Extreme values"
    assert evidence("spectrum") == ("spectrum", "")
    assert evidence("") == ("Not stated", "")


def test_dated_words():
    times = Times(Clock(START, MINUTE, dated=True))
    assert times.moment(0) == "Tue 3 Mar 2026, 14:05"
    assert times.moment(0, weekday=False) == "3 Mar 2026, 14:05"
    assert times.span(0, 65) == f"Tue 3 Mar 2026, 14:05 {DASH} 15:10"
    assert times.span(0, 600) == f"Tue 3 Mar 2026, 14:05 {DASH} Wed 4 Mar 2026, 00:05"
    assert times.short(65) == "2026-03-03 15:10"


@pytest.mark.parametrize(
    ("interval", "rows", "text"),
    [
        (MINUTE, 65, "1 h 5 min"),
        (MINUTE, 60, "1 h"),
        (MINUTE, 1441, "1 d"),
        (10**9, 90, "1 min 30 s"),
        (2 * 10**6, 175, "350 ms"),
    ],
)
def test_durations_name_two_units_at_most(interval, rows, text):
    said = Times(Clock(0, interval, dated=True)).duration(rows)
    assert said.replace(THIN, " ") == text


def test_finer_clocks_say_seconds_and_milliseconds():
    assert Times(Clock(START, 10**9, dated=True)).moment(7) == "Tue 3 Mar 2026, 14:05:07"
    assert Times(Clock(START, 2 * 10**6, dated=True)).moment(7) == "Tue 3 Mar 2026, 14:05:00.014"


def test_undated_words_are_rows():
    times = Times(Clock())
    assert times.moment(1234) == "row 1,234"
    assert times.span(3, 1300) == f"rows 3 {DASH} 1,300"
    assert times.duration(1) == "1 row"
    assert times.short(1234) == "1234"


def test_times_are_those_of_the_wall_clock_in_the_time_zone():
    clock = Clock(pd.Timestamp("2026-03-29 00:30", tz="UTC").value, MINUTE, dated=True, timezone="Europe/Berlin")
    times = Times(clock)
    assert times.moment(0) == "Sun 29 Mar 2026, 01:30"
    assert times.moment(30) == "Sun 29 Mar 2026, 03:00"


@pytest.mark.parametrize("timezone", [None, "Europe/Berlin"])
def test_the_script_can_compute_the_time_of_every_row(timezone):
    clock = Clock(pd.Timestamp("2026-03-29 00:30", tz="UTC").value, MINUTE, dated=True, timezone=timezone)
    times = Times(clock)
    script = json.loads(times.for_script(5, 200))
    for row in range(195):
        first, at = [piece for piece in script["pieces"] if piece[0] <= row][-1]
        assert at + (row - first) * script["step"] == times.wall([5 + row])[0] / 10**6
    assert script["rows"] == 195


@pytest.mark.parametrize(
    ("start", "interval", "timezone", "texts"),
    [
        ("2004-03-11", 86_400 * 10**9, None, ["2004-03-11T00:00:00", "2004-03-12T00:00:00"]),
        ("2026-03-29 00:59", MINUTE, "Europe/Berlin", ["2026-03-29T01:59:00+01:00", "2026-03-29T03:00:00+02:00"]),
        ("2026-01-01", MINUTE, "America/St_Johns", ["2025-12-31T20:30:00-03:30", "2025-12-31T20:31:00-03:30"]),
        ("2026-01-01", 4 * 10**6, None, ["2026-01-01T00:00:00.000", "2026-01-01T00:00:00.004"]),
        ("2026-01-01", 1000, None, ["2026-01-01T00:00:00.000000", "2026-01-01T00:00:00.000001"]),
    ],
)
def test_iso_times_have_one_format_that_pandas_reads(start, interval, timezone, texts):
    clock = Clock(pd.Timestamp(start).value, interval, dated=True, timezone=timezone)
    times = clock.at([0, 1])
    assert iso8601(times, precision([clock])) == texts
    assert pd.to_datetime(texts, utc=True).tolist() == (times if timezone else times.tz_localize("UTC")).tolist()
