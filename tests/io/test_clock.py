import datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsadc.errors import DataError
from tsadc.io.clock import regular

MINUTE = 60 * 10**9


def stamps(ticks: object) -> pd.DatetimeIndex:
    return pd.DatetimeIndex(np.asarray(ticks, dtype=np.int64).astype("datetime64[ns]"))


def column(times: pd.DatetimeIndex) -> np.ndarray:
    return np.arange(len(times), dtype=np.float64)[:, None]


@given(
    start=st.integers(-(10**18), 2 * 10**18),
    interval=st.integers(1, 10**14),
    kept=st.lists(st.booleans(), min_size=1, max_size=40),
)
def test_skipped_rows_become_rows_of_nan(start, interval, kept):
    rows = np.flatnonzero([True, True, True, *kept, True])
    # With most rows there, the commonest step is the interval.
    if len(rows) - 1 < 2 * (np.diff(rows) > 1).sum() + 1:
        return
    times = stamps(start + rows * interval)
    values, clock = regular(times, column(times), "The data")
    assert (clock.start, clock.interval, clock.dated, clock.timezone) == (start, interval, True, None)
    expected = np.full((rows[-1] + 1, 1), np.nan)
    for i, row in enumerate(rows):
        expected[row] = i
    np.testing.assert_array_equal(values, expected)
    assert (clock.at(rows) == times).all()


@given(
    interval=st.sampled_from([1000, 10**6, 2 * 10**6, 10**8, 10**9, 30 * 10**9, MINUTE, 3600 * 10**9]),
    phase=st.sampled_from([0.0, 0.25, 0.5]),
    first=st.integers(0, 10**6),
    rows=st.integers(20, 200),
    seed=st.integers(0, 99),
)
def test_jitter_is_evened_out_to_the_same_clock_every_time(interval, phase, first, rows, seed):
    rng = np.random.default_rng(seed)
    exact = 1_700_000_000 * 10**9 // interval * interval + int((first + phase) * interval) + np.arange(rows) * interval
    times = stamps(exact + np.rint(rng.uniform(-0.045, 0.045, rows) * interval).astype(np.int64))
    values, clock = regular(times, column(times), "The data")
    assert clock.interval == interval
    assert len(values) == rows
    assert abs(clock.start - exact[0]) <= 0.1 * interval
    if phase == 0:
        assert clock.start == exact[0]


@pytest.mark.parametrize("rate", [3, 7, 30, 60, 128])
def test_timestamps_rounded_to_milliseconds_keep_their_rate(rate):
    exact = np.arange(5000) / rate
    for first in (0, 17, 2000):
        times = stamps(np.rint(exact[first:] * 1000).astype(np.int64) * 10**6)
        values, clock = regular(times, column(times), "The data")
        assert clock.interval == round(1e9 / rate)
        assert not np.isnan(values).any()


def test_seconds_written_as_floats_give_a_round_clock():
    times = pd.DatetimeIndex(pd.to_datetime(1.7e9 + 0.1 * np.arange(1000), unit="s"))
    values, clock = regular(times, column(times), "The data")
    assert (clock.start, clock.interval) == (1_700_000_000 * 10**9, 10**8)
    assert len(values) == 1000


def test_a_gap_at_the_very_start_does_not_hide_the_interval():
    values, clock = regular(stamps([0, 2 * MINUTE, 3 * MINUTE]), np.arange(3.0)[:, None], "The data")
    assert clock.interval == MINUTE
    np.testing.assert_array_equal(values[:, 0], [0, np.nan, 1, 2])


@pytest.mark.parametrize(
    "zone",
    ["UTC", "Europe/Berlin", "America/St_Johns", datetime.timezone(datetime.timedelta(hours=5, minutes=30))],
)
def test_times_come_back_in_their_own_zone(zone):
    times = pd.date_range("2024-03-30 12:00", periods=48, freq="h", tz=zone)
    _, clock = regular(times, column(times), "The data")
    again = clock.at(np.arange(48))
    assert [str(t) for t in again] == [str(t) for t in times]


def test_a_zone_without_a_lasting_name_becomes_utc():
    zone = datetime.timezone(datetime.timedelta(hours=2), "Our time")
    times = pd.date_range("2024-03-30 12:00", periods=4, freq="h", tz=zone)
    _, clock = regular(times, column(times), "The data")
    assert clock.timezone == "UTC"
    assert (clock.at(np.arange(4)) == times).all()


def test_hours_are_regular_across_a_change_of_the_clocks():
    times = pd.date_range("2024-10-26 22:00", periods=10, freq="h", tz="Europe/Berlin")
    values, clock = regular(times, column(times), "The data")
    assert len(values) == 10
    assert clock.interval == 3600 * 10**9


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_the_resolution_of_timestamps_does_not_matter(unit):
    times = pd.date_range("2024-01-01", periods=5, freq="min", unit=unit)
    assert regular(times, column(times), "The data")[1].start == pd.Timestamp("2024-01-01").value


def refusal(times: pd.DatetimeIndex) -> str:
    with pytest.raises(DataError) as caught:
        regular(times, column(times), "The data")
    message = str(caught.value)
    assert message.startswith("The data ")
    assert message.endswith(".")
    return message


def test_what_is_not_regular_is_refused_with_its_row():
    even = np.arange(20) * MINUTE
    off = even.copy()
    off[12] += 20 * 10**9
    assert refusal(stamps(off)) == (
        "The data should be sampled regularly, every 1min like most of its rows, but row 12 "
        "(1970-01-01 00:12:20) comes 80s after the one before; resample it with --every 1min "
        "(in Python: Reading(every='1min') for files, .resample('1min').mean() for data frames)."
    )
    extra = np.sort(np.append(even, 5 * MINUTE + 10**9))
    assert "row 6 (1970-01-01 00:05:01) comes 1s after" in refusal(stamps(extra))


def test_order_and_duplicates():
    assert refusal(stamps([0, MINUTE, 3 * MINUTE, 2 * MINUTE])) == (
        "The data should be sorted by time, but row 3 (1970-01-01 00:02:00) is before row 2; sort it."
    )
    with pytest.raises(
        DataError, match=r"row 2; if 'unit' says which entity .* --entity unit, .*; otherwise sort it\."
    ):
        regular(stamps([0, MINUTE, 3 * MINUTE, 2 * MINUTE]), np.zeros((4, 1)), "The data", ("unit",))
    assert refusal(stamps([0, MINUTE, MINUTE, 2 * MINUTE])) == (
        "The data has the time 1970-01-01 00:01:00 twice, at rows 1 and 2; remove one of them, or resample it with "
        "--every 1min (in Python: Reading(every='1min') for files, .resample('1min').mean() for data frames)."
    )


@pytest.mark.parametrize("rows", [20, 10_000])
def test_a_wrong_year_is_a_mistake_and_not_a_gap(rows):
    times = pd.date_range("2024-01-01", periods=rows, freq="min")
    late = times.append(times[-1:] + pd.Timedelta(days=365))
    assert f"but row {rows} ({late[-1]}) comes 365D after the one before" in refusal(late)
    early = (times[:1] - pd.Timedelta(days=365)).append(times)
    assert "but row 1 (2024-01-01 00:00:00) comes 365D" in refusal(early)


def test_times_that_are_missing_alone_or_out_of_this_world():
    times = pd.date_range("2024-01-01", periods=4, freq="min")
    assert refusal(times.insert(2, pd.NaT)) == "The data has no time at row 2; give every row a time."
    assert "at least two are needed" in refusal(times[:1])
    far = pd.DatetimeIndex(np.array(["2024-01-01", "9999-01-01"], dtype="datetime64[s]"))
    assert refusal(far) == "The data has the time 9999-01-01 00:00:00 at row 1; the year must be 1678 to 2261."


@pytest.mark.parametrize(
    ("step", "jitter"), [("1min", 0), ("1min", 0.04), ("7min", 0), ("30min", 0), ("30min", 0.04), ("1h", 0)]
)
def test_a_wall_clock_whose_summer_ends_is_refused_with_the_fix(step, jitter):
    exact = pd.date_range("2024-10-26 12:00", "2024-10-27 12:00", freq=step, tz="Europe/Berlin")
    moved = np.random.default_rng(0).uniform(-jitter, jitter, len(exact)) * pd.Timedelta(step)
    times = (exact + pd.to_timedelta(moved)).tz_localize(None)
    message = refusal(times)
    assert "repeats an hour at row" in message
    assert "as local clocks do when daylight saving time ends; write times in UTC, or with their offset" in message


def test_an_hour_that_comes_twice_by_day_is_no_change_of_the_clocks():
    hours = pd.date_range("2024-01-01", periods=24, freq="h")
    assert "twice, at rows 12 and 13; remove one" in refusal(hours[:13].append(hours[12:]))


def test_the_hour_that_is_missing_in_spring_is_a_gap():
    wall = pd.date_range("2024-03-30 22:00", periods=12, freq="30min", tz="Europe/Berlin").tz_localize(None)
    values, clock = regular(wall, column(wall), "The data")
    assert clock.interval == 30 * MINUTE
    assert np.isnan(values).sum() == 2


def test_a_clock_that_was_set_back_is_refused():
    times = pd.date_range("2024-01-01", periods=50, freq="min")
    assert "row 50 (2024-01-01 00:10:00) is before row 49; sort it" in refusal(times.append(times[10:20]))


@pytest.mark.parametrize("year", [-290254, 1600, 11157])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_years_that_python_does_not_know_are_refused_too(year, zone):
    seconds = np.array([0, int((year - 1970) * 31556952)])
    times = pd.DatetimeIndex(seconds.astype("datetime64[s]"))
    message = refusal(times if zone is None else times.tz_localize("UTC").tz_convert(zone))
    assert "at row 1; the year must be 1678 to 2261." in message
