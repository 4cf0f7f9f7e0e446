"""Files of loggers, weather services and historians: comments above the header, dates as numbers, events without
values."""

import numpy as np
import pandas as pd
import pytest

from tsadc.errors import DataError, TsadcNotice
from tsadc.io.columns import split_columns
from tsadc.io.doctor import examine
from tsadc.io.layout import find_table
from tsadc.io.read import read
from tsadc.io.times import calendar_form, find_times, is_hour, is_time

NAN = np.nan
DAYS = pd.date_range("2023-01-30", periods=40)


def write(folder, text, name="station.txt", encoding="utf-8"):
    path = folder / name
    path.write_bytes(text.encode(encoding))
    return path


def noted(path, expected, **options):
    with pytest.warns(TsadcNotice, match=expected):
        (found,) = read(path, **options)
    return found


def test_a_header_may_be_the_last_of_many_comments(tmp_path):
    comments = "".join(f"# note {k}, with a comma, and another\n" for k in range(90))
    rows = "".join(f"  260,{day:%Y%m%d},{k:5d},     \n" for k, day in enumerate(DAYS))
    found = noted(write(tmp_path, f"{comments}# STN,YYYYMMDD,   RH, EV24\n# \n{rows}"), "90 line.s. above the header")
    assert found.names == ("STN", "RH", "EV24")
    assert found.clock.at([0, 39]).tolist() == [DAYS[0], DAYS[-1]]
    np.testing.assert_array_equal(found.values[:, 1], np.arange(40))


@pytest.mark.filterwarnings("ignore:.*holds only text")
def test_a_header_below_another_table_and_wider_than_the_data(tmp_path):
    text = "Well:,,,\nPeriod:,01-01-2023,,\nName,Top,Bottom,From,To\nB33,7,-10,01-01-1972,28-11-1986\n\n"
    text += "Name,Date,Level,Remark,\n" + "".join(f"B33,{day:%d-%m-%Y},{k},,,\n" for k, day in enumerate(DAYS))
    found = noted(write(tmp_path, text, "well.csv"), "5 line.s. above the header")
    assert found.names == ("Level", "Remark")
    assert found.values[:, 0].tolist() == list(range(40))
    assert np.isnan(found.values[:, 1]).all()


def test_a_line_that_states_the_separator_is_no_header(tmp_path):
    found = noted(write(tmp_path, "sep=;\ntime;a\n2024-01-01;1,5\n2024-01-02;2,5\n"), "decimal comma")
    assert found.values.tolist() == [[1.5], [2.5]]


def test_a_preamble_row_of_text_is_no_header():
    rows = [["a, b", "c"], ["x", "y", "z"], ["just one"], ["t", "u", "v"], *[["2024-01-01", "1", "2"]] * 6]
    assert find_table(rows).header == 3


@pytest.mark.parametrize(
    ("numbers", "form"),
    [
        ([20240130, 20240131, 20240201], "%Y%m%d"),
        ([2024013022, 2024013023, 2024013100], "%Y%m%d%H"),
        ([202401302350, 202401310000], "%Y%m%d%H%M"),
        ([20240130235959, 20240131000000], "%Y%m%d%H%M%S"),
        ([20240130, 20240131, 20240132], None),
        ([20240130, 20240130], "%Y%m%d"),
        ([20240130], "%Y%m%d"),
        ([20240131, 20240130, 20240131], None),
        ([1706572800, 1706572860], None),
        ([12345678, 12345679], None),
        ([1.5, 2.5], None),
    ],
)
def test_numbers_that_are_dates(numbers, form):
    assert calendar_form(pd.Series(numbers)) == form


def test_dates_of_several_stations_need_not_ascend(tmp_path):
    text = "station;MESS_DATUM;TT\n" + "".join(f"{s};{day:%Y%m%d}00;1.5\n" for s in "ab" for day in DAYS)
    with pytest.warns(TsadcNotice, match="the numbers in 'MESS_DATUM' were read as times"):
        found = read(write(tmp_path, text), entity="station")
    assert [(series.entity, series.clock.at([39])[0]) for series in found] == [("a", DAYS[-1]), ("b", DAYS[-1])]


def test_a_date_that_the_calendar_does_not_have_is_refused(tmp_path):
    text = "day,a\n20230227,1\n20230228,2\n20230230,3\n"
    with pytest.raises(DataError, match=r"the time column 'day' holds .*20230230.* at row 2"):
        read(write(tmp_path, text))


def test_hours_beside_dates(tmp_path):
    text = "YYYYMMDD,HH,heat\n20230101,23,1\n20230101,24,2\n20230102,1,3\n"
    found = noted(write(tmp_path, text), "the columns 'YYYYMMDD' and 'HH' joined")
    assert found.names == ("heat",)
    assert found.clock.at([0, 2]).tolist() == [pd.Timestamp("2023-01-01 23:00"), pd.Timestamp("2023-01-02 01:00")]
    text = "date;hhmm;heat\n2023-01-01;2330;1\n2023-01-02;0;2\n2023-01-02;30;3\n"
    found = noted(write(tmp_path, text), "'date' and 'hhmm' joined")
    assert found.clock.at([0, 2]).tolist() == [pd.Timestamp("2023-01-01 23:30"), pd.Timestamp("2023-01-02 00:30")]


@pytest.mark.parametrize("hours", ["{}", "{}:00"])
def test_one_day_of_dates_beside_hours(tmp_path, hours):
    rows = "".join(f"20240131,{hours.format(hour)},{hour}.5\n" for hour in range(10, 25))
    found = noted(write(tmp_path, f"YYYYMMDD,HH,a\n{rows}"), "the columns 'YYYYMMDD' and 'HH' joined")
    assert found.names == ("a",)
    assert found.clock.at([0, 14]).tolist() == [pd.Timestamp("2024-01-31 10:00"), pd.Timestamp("2024-02-01 00:00")]


def test_a_repeated_number_is_a_date_only_if_it_is_named_or_beside_hours(tmp_path):
    firmware, hours = pd.Series([20240131] * 3), pd.Series([1, 2, 3])
    assert not is_time("firmware", firmware)
    assert find_times({"firmware": firmware, "a": hours}) == ()
    assert find_times({"firmware": firmware, "hour": hours}) == ("firmware", "hour")
    year, month = pd.Series([2024] * 3), pd.Series([1] * 3)
    columns = {"firmware": firmware, "year": year, "month": month, "day": month, "hour": hours}
    assert find_times(columns) == ("year", "month", "day", "hour")
    dates = pd.Series(["2024-01-30"] * 3)
    assert find_times({"firmware": firmware, "date": dates, "hour": hours}) == ("date", "hour")
    assert find_times({"day": firmware, "date": dates, "hour": hours}, "day") == ("day", "hour")
    path = write(tmp_path, "day,a\n20240131,1.5\n20240131,2.5\n")
    found = noted(path, "the numbers in 'day' were read", time="day", every="1D")
    assert (found.clock.at([0])[0], found.values.tolist()) == (pd.Timestamp("2024-01-31"), [[2.0]])


@pytest.mark.parametrize("name", ["HHMM", "time_hhmm_utc"])
def test_a_column_named_hhmm_holds_hours_and_minutes_whatever_its_greatest_value(tmp_path, name):
    rows = "".join(f"2024-01-31,{minute},1.5\n" for minute in (0, 5, 10, 15, 20))
    found = noted(write(tmp_path, f"date,{name},a\n{rows}"), f"'date' and '{name}' joined")
    assert found.clock.at([1, 4]).tolist() == [pd.Timestamp("2024-01-31 00:05"), pd.Timestamp("2024-01-31 00:20")]


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("hour", [0, 5, 10, 15, 20], False),
        ("hour", [0, 15], False),
        ("hour", [7, 7, 7], False),
        ("hour", [22, 23, 0, 1], True),
        ("hour", [3, 9, 15, 21, 3], True),
        ("hour", [1, 2, 25], True),
        ("hour", [50, 55, 60], False),
        ("hhmm", [0, 0], True),
        ("hhmmss", [0, 100, 200], False),
        ("yyyymmddhhmm", [202401310000, 202401310005], False),
        ("flow", [1, 2, 3], False),
    ],
)
def test_numbers_that_are_hours(name, values, expected):
    assert is_hour(name, pd.Series(values)) == expected


@pytest.mark.parametrize("date", ["2024-01-31", "20240131"])
def test_minutes_beside_a_date_and_hours(tmp_path, date):
    rows = "".join(f"{date},{5 + k // 4},{15 * (k % 4)},1.5\n" for k in range(8))
    found = noted(write(tmp_path, f"date,hour,min,a\n{rows}"), "'date', 'hour' and 'min' joined")
    assert found.names == ("a",)
    assert found.clock.at([1, 7]).tolist() == [pd.Timestamp("2024-01-31 05:15"), pd.Timestamp("2024-01-31 06:45")]


def test_minutes_make_an_hour_of_a_constant_and_are_not_taken_twice():
    date, minute = pd.Series(["2024-01-31"] * 3), pd.Series([0, 1, 2])
    assert find_times({"date": date, "hour": pd.Series([7] * 3), "min": minute}) == ("date", "hour", "min")
    assert find_times({"min": minute, "hour": pd.Series([7] * 3), "date": date}, "hour") == ("date", "hour", "min")
    assert find_times({"date": date, "hhmm": pd.Series([700, 701, 702]), "min": minute}) == ("date", "hhmm")
    hours = pd.Series([1, 2, 3])
    assert find_times({"date": date, "hour": hours, "min": minute, "max": minute + 5}) == ("date", "hour")


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("24,1,1", "'yr' holds 24 at row 1 .*, but a year of four digits from 1678 to 2261 was expected"),
        ("2024,13,1", "'mo' holds 13 at row 1 .*, but a month from 1 to 12 was expected"),
        ("2023,2,29", "'dy' holds 29 at row 1 .*, but a day of the month in that row was expected"),
    ],
)
def test_a_wrong_year_month_or_day_is_named(tmp_path, row, expected):
    with pytest.raises(DataError, match=f"the time column {expected}"):
        read(write(tmp_path, f"yr,mo,dy,a\n2023,2,28,1.5\n{row},2.5\n2023,3,2,3.5\n"))


def test_an_empty_day_of_nullable_integers_is_named():
    day = pd.Series([1, None, 3], dtype="Int64")
    data = pd.DataFrame({"year": 2024, "month": 1, "day": day, "a": [1.5, 2.5, 3.5]})
    with pytest.raises(DataError, match=r"'day' holds <NA> at row 1 .*, but a day from 1 to 31 was expected"):
        split_columns(data, "The data")


@pytest.mark.parametrize(("clock", "days"), [("{}:00", "%d/%m/%Y"), ("{}:00:00", "%Y-%m-%d"), ("{}.00.00", "%d.%m.%Y")])
def test_the_text_24_00_ends_the_day(tmp_path, clock, days):
    moments = [(day, hour) for day in pd.date_range("2024-01-30", periods=2) for hour in range(1, 25)]
    rows = "".join(f"{day:{days}};{clock.format(f'{hour:02}')};1.5\n" for day, hour in moments)
    found = noted(write(tmp_path, f"date;time;a\n{rows}"), "'date' and 'time' joined")
    expected = ["2024-01-30 23:00", "2024-01-31 00:00", "2024-01-31 01:00", "2024-02-01 00:00"]
    assert found.clock.at([22, 23, 24, 47]).tolist() == [pd.Timestamp(time) for time in expected]


def test_dates_beside_hours_are_read_with_the_day_first_if_requested(tmp_path):
    path = write(tmp_path, "date,hour,heat\n03/04/2023,1,5\n03/04/2023,2,6\n03/04/2023,3,5\n")
    for dayfirst, month in ((True, 4), (False, 3)):
        assert noted(path, "joined", dayfirst=dayfirst).clock.at([1])[0] == pd.Timestamp(2023, month, 7 - month, 2)


def test_year_month_day_hour_and_minute_in_columns(tmp_path):
    text = "Year,Month,Day,Hour,Minute,GHI\n2023,12,31,23,30,5\n2024,1,1,0,0,6\n2024,1,1,0,30,7\n"
    found = noted(write(tmp_path, text), "'Year', 'Month', 'Day', 'Hour' and 'Minute' joined")
    assert found.names == ("GHI",)
    assert found.clock.at([0, 2]).tolist() == [pd.Timestamp("2023-12-31 23:30"), pd.Timestamp("2024-01-01 00:30")]


def test_an_interval_stands_for_its_start(tmp_path):
    times = [f"2023-01-01T00:0{k}:00.0/2023-01-01T00:0{k + 1}:00.0" for k in range(4)]
    (found,) = read(write(tmp_path, "period;a\n" + "".join(f"{time};1\n" for time in times)))
    assert found.clock.at([0, 3]).tolist() == [pd.Timestamp("2023-01-01"), pd.Timestamp("2023-01-01 00:03")]


def test_events_without_values_are_left_out(tmp_path):
    text = "".join(f"01/01/24 10:{k:02d}:00 AM,{k}.5,\n" for k in range(20))
    text += "01/01/24 10:19:17 AM,,Logged\n01/01/24 10:19:21 AM,,Logged\n"
    with pytest.warns(TsadcNotice) as caught:
        (found,) = read(write(tmp_path, f'"Plot Title: 7"\nDate Time,Temp,Host Connected\n{text}'))
    assert "2 row(s) without values were left out; their times are irregular." in str(caught[-1].message)
    assert found.values[:, 0].tolist() == [k + 0.5 for k in range(20)]
    with pytest.raises(DataError, match=r"row 20 .* comes 17s after the one before"):
        read(write(tmp_path, "when,a\n" + text.replace(",,Logged", ",1").replace(",\n", "\n")))


def test_status_texts_in_a_file_with_decimal_commas(tmp_path):
    text = "Time\ta\tb\n" + "".join(
        f"{day:%d-%b-%y %H:%M:%S}\t{'Bad' if k == 7 else f'1.02{k % 10},5'}\t{k},25\n" for k, day in enumerate(DAYS)
    )
    path = write(tmp_path, text, "pi.csv", "utf-16")
    with pytest.raises(DataError, match=r"row 7 .* holds 'Bad'; if it means not measured, add --missing Bad"):
        read(path)
    found = noted(path, "decimal comma", missing=["Bad"])
    assert found.values[6:9].tolist() == [[1026.5, 6.25], [pytest.approx(NAN, nan_ok=True), 7.25], [1028.5, 8.25]]


def test_a_number_with_both_marks_shows_which_one_groups(tmp_path):
    (found,) = read(write(tmp_path, 'lux,b\n"900",1\n"11,000",2\n"1,250.5",3\n'))
    assert found.values[:, 0].tolist() == [900, 11000, 1250.5]


def test_irregular_rows_with_tags_get_the_advice_to_use_long(tmp_path):
    times = pd.date_range("2024-01-01", periods=40, freq="5min")
    text = "t;tag;v\n" + "".join(
        f"{x:%Y-%m-%d %H:%M:%S};P{k};1\n{x:%Y-%m-%d %H:%M}:07;Q{k};2\n" for k, x in enumerate(times)
    )
    with (
        pytest.warns(TsadcNotice, match="'tag' holds only text"),
        pytest.raises(DataError, match="if 'tag' names the variable of each row, add --long TIME,tag,VALUE"),
    ):
        read(write(tmp_path, text))


def test_text_files_are_read_if_they_are_named_but_not_with_their_folder(tmp_path):
    write(tmp_path, "time,a\n2024-01-01,1\n2024-01-02,2\n", "pump.dat")
    write(tmp_path, "Read me", "readme.txt")
    assert read(tmp_path / "*.dat")[0].entity == "pump"
    with pytest.raises(
        DataError, match=r"no file that can be read .*; files with the ending \.dat are read if they"
    ) as e:
        read(tmp_path)
    assert str(e.value).endswith(f"as by the pattern '{tmp_path}/*.dat'.")
    write(tmp_path, "time,a\n2024-01-01,1\n2024-01-02,2\n", "other.csv")
    with pytest.warns(TsadcNotice, match="files that were not read: 1 .dat, 1 .txt"):
        assert [series.entity for series in read(tmp_path)] == ["other"]


def values(rows=600):
    return np.random.default_rng(0).normal(20, 2, size=rows).round(1)


def test_a_column_that_holds_only_the_marker_does_not_hold_it_as_a_value():
    heat = values()
    heat[100:130] = -999
    [marker] = [
        finding
        for finding in examine(pd.DataFrame({"heat": heat, "off": -999.0, "ok": values()})).findings
        if finding.code == "marker"
    ]
    assert (marker.variables, marker.remedy) == (("heat", "off"), "--missing -999")


@pytest.mark.parametrize(("value", "rows", "expected"), [(999999999, 20, 1), (90, 20, 1), (90, 400, 0)])
def test_a_value_of_most_rows_is_a_marker_only_if_it_is_known_as_one(value, rows, expected):
    heat = values()
    heat[:rows] = value
    found = examine(pd.DataFrame({"heat": np.random.default_rng(1).permutation(heat), "ok": values()})).findings
    assert [finding.code for finding in found].count("marker") == expected


def test_a_remedy_quotes_names_with_commas():
    data = pd.DataFrame({"Temp, °C": values(), "RH, %": NAN})
    [empty] = [finding for finding in examine(data).findings if finding.code == "empty"]
    assert empty.remedy == """--exclude '"RH, %"'"""


@pytest.mark.parametrize("preamble", ["", "Report of\tthe plant\n"])
def test_a_header_of_two_rows_with_merged_cells(tmp_path, preamble):
    header = "Time\tPump 1\t\tPump 2\t\n\tFlow\tTemp\tFlow\tTemp\n\tl/min\t°C\tl/min\t°C\n"
    rows = "".join(f"{day:%Y-%m-%d}\t{k}\t{k + 0.5}\t{-k}\t7\n" for k, day in enumerate(DAYS))
    found = noted(write(tmp_path, preamble + header + rows, "plant.tsv"), "its header has two rows, which were joined")
    assert found.names == ("Pump 1 Flow", "Pump 1 Temp", "Pump 2 Flow", "Pump 2 Temp")
    assert found.units["Pump 1 Temp"] == "°C"
    assert found.values[3].tolist() == [3, 3.5, -3, 7]
