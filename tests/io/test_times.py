import datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsadc.errors import DataError, TsadcNotice
from tsadc.io.times import date_order, find_times, is_time, read_times

EXACT = pd.date_range("2024-01-28 22:00", periods=60, freq="3h")  # crosses a month, and days above 12


def read(values: object, name: str = "time") -> pd.DatetimeIndex:
    column = values if isinstance(values, pd.Series) else pd.Series(values)
    assert is_time(name, column)
    return read_times(column, name, "The data")


@pytest.mark.parametrize(
    "form",
    [
        "%Y-%m-%d %H:%M",
        "%Y-%m-%dT%H:%M:%S",
        "%Y/%m/%d %H:%M:%S",
        "%Y-%m-%d %H:%M:%S.%f",
        "%Y%m%dT%H%M%S",
        "%m/%d/%Y %H:%M",
        "%d/%m/%Y %H:%M",
        "%d.%m.%Y %H:%M:%S",
        "%d-%m-%Y %H:%M",
        "%m/%d/%Y %I:%M %p",
    ],
)
def test_common_ways_to_write_a_time_are_read_whatever_the_column_is_called(form):
    times = read(EXACT.strftime(form), name="when")
    assert (times == EXACT).all()
    assert times.tz is None


@pytest.mark.parametrize("form", ["%b %d, %Y %H:%M", "%d %B %Y %H:%M"])
def test_months_may_be_words_in_a_column_called_time(form):
    assert (read(EXACT.strftime(form)) == EXACT).all()


@given(st.dates(datetime.date(2000, 1, 1), datetime.date(2049, 12, 31)), st.booleans())
def test_day_first_and_month_first_are_told_apart_by_what_lies_close_together(day, day_first):
    exact = pd.date_range(day, periods=96, freq="h")
    form = "%d/%m/%Y %H:%M" if day_first else "%m/%d/%Y %H:%M"
    assert (read(exact.strftime(form)) == exact).all()


def test_dates_that_could_be_either_are_said_with_what_was_taken():
    with pytest.warns(
        TsadcNotice, match=r"03/04/2024 10:00 was read as 2024-03-04\. --dayfirst or --monthfirst decides"
    ):
        assert (read(["03/04/2024 10:00", "03/04/2024 10:01"]).month == 3).all()


@pytest.mark.filterwarnings("error")
def test_nothing_is_said_where_both_ways_mean_the_same_or_one_is_plainly_meant():
    assert (read(["05/05/2024 10:00", "05/05/2024 10:01"]).month == 5).all()
    assert (read(["03/04/2024 23:59", "04/04/2024 00:00"]).month == 4).all()


@given(st.sampled_from([("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1)]), st.integers(10**9, 4 * 10**9 - 10**6))
def test_numbers_since_1970_show_their_unit_by_their_size(unit, second):
    exact = pd.DatetimeIndex(np.array([second, second + 60, second + 120]).astype("datetime64[s]"))
    assert (read(exact.as_unit("ns").asi8 // unit[1], "Timestamp") == exact).all()


def test_a_number_is_a_time_only_by_name_and_size():
    assert not is_time("flow", pd.Series([1.7e9, 1.7e9]))
    assert not is_time("t", pd.Series([20.5, 21.0]))
    assert not is_time("time", pd.Series([np.nan, np.nan]))


@pytest.mark.parametrize(
    "values", [["a-1", "b-2"], ["10-20", "20-30"], ["low", "high"], ["1.5", "2.5"], [None, None], ["Tue", "May"]]
)
def test_text_is_not_a_time_by_accident(values):
    assert not is_time("range", pd.Series(values, dtype=object))


def test_one_offset_is_kept_and_several_become_utc():
    text = ["2024-03-31T01:00:00+01:00", "2024-03-31T02:00:00+01:00"]
    assert [str(t) for t in read(text)] == ["2024-03-31 01:00:00+01:00", "2024-03-31 02:00:00+01:00"]
    text[1] = "2024-03-31T03:00:00+02:00"
    assert [str(t) for t in read(text)] == ["2024-03-31 00:00:00+00:00", "2024-03-31 01:00:00+00:00"]
    assert str(read(["2024-03-31T01:00:00Z", "2024-03-31T02:00:00Z"]).tz) == "UTC"


def test_midnight_without_a_time_of_day_is_read():
    assert (read(["2024-01-01", "2024-01-01 00:30", "2024-01-01 01:00:00.0"]).minute == [0, 30, 0]).all()


def test_a_time_of_day_alone_is_a_time():
    times = read(["10:00:00", "10:00:01"])
    assert (times[1] - times[0]) == pd.Timedelta(seconds=1)


def test_objects_of_any_kind_are_read():
    days = [datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 2)]
    assert (read(pd.Series(days, dtype=object)) == days).all()
    assert (read(pd.Series([d.date() for d in days], dtype=object)) == days).all()
    assert (read(pd.Series([str(d) for d in days], dtype="category")) == days).all()
    assert str(read(pd.Series(pd.DatetimeIndex(days, tz="Asia/Tokyo"))).tz) == "Asia/Tokyo"


@pytest.mark.parametrize("row", [0, 1, 7, 59])
@pytest.mark.parametrize("bad", ["yesterday", "2024-13-01 00:00", "NOT A TIME"])
@pytest.mark.parametrize("form", ["%Y-%m-%d %H:%M", "%d.%m.%Y %H:%M"])
def test_one_bad_time_is_named_with_its_row(row, bad, form):
    text = list(EXACT.strftime(form))
    text[row] = bad
    with pytest.raises(DataError) as caught:
        read(text)
    assert str(caught.value) == (
        f"The data: the time column 'time' holds '{bad}' at row {row} (counted from 0, below the header), which "
        "cannot be read as a time; write times such as 2024-01-31 10:00:00."
    )


def test_a_missing_time_stays_missing_for_the_clock_to_name():
    text = [*EXACT.strftime("%Y-%m-%d %H:%M")]
    text[3] = None
    times = read(text)
    assert times.isna().tolist() == [i == 3 for i in range(60)]


def test_a_bad_number_among_seconds_since_1970():
    seconds = 1.7e9 + 60 * np.arange(10.0)
    seconds[4] = np.inf
    with pytest.raises(DataError, match=r"'time' holds .*inf.* at row 4"):
        read(seconds)
    seconds[4] = 0
    assert read(seconds)[4] == pd.Timestamp(0)


def test_times_with_and_without_a_zone_are_refused_at_the_first_without():
    with pytest.raises(DataError, match=r"'2024-01-01 10:02' at row 2 .* without a time zone.*'2024-01-01T10:00Z'"):
        read(["2024-01-01T10:00Z", "2024-01-01T10:01+02:00", "2024-01-01 10:02", "2024-01-01T10:03Z"])
    assert read(["2024-01-01T10:00+01:00", "2024-01-01T10:01+02:00"]).hour.tolist() == [9, 8]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["01/02/2024 10:00", "01/13/2024 10:00"], "month first"),
        (["01/02/2024 10:00", "13/02/2024 10:00"], "day first"),
        (["03/03/2024 10:00", "03/03/2024 10:01"], ""),
        (["2024-02-01", "2024-02-13"], ""),
        (["13.02.2024", "14.02.2024"], ""),
    ],
)
def test_the_order_in_which_dates_were_read(texts, expected):
    assert date_order(pd.Series(texts), read(texts)) == expected


def test_measured_values_are_not_times_of_day():
    days = pd.Series([f"2024-01-{day:02}" for day in range(1, 21)])
    values = pd.Series(["12.34", "Bad", *["11.20"] * 18])
    assert find_times({"Date": days, "flow": values, "p": values}) == ("Date",)
    assert find_times({"Date": days, "flow": values}, "Date") == ("Date",)
    clock = values.replace("Bad", "11.25")
    assert find_times({"Date": days, "flow": clock, "Uhrzeit": clock}) == ("Date", "Uhrzeit")
    assert find_times({"Date": days, "flow": clock, "x": clock + ".00"}) == ("Date", "x")
