"""Exports as people have them: other encodings, marks, headers and dates than those of a plain CSV file."""

import gzip
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tsadc.errors import ConfigError, DataError, TsadcNotice
from tsadc.io.layout import find_table
from tsadc.io.read import read
from tsadc.io.reading import Reading

NAN = np.nan
AIR = (
    "Date;Time;CO(GT);PT08.S1(CO);T;;\n"
    "10/03/2004;18.00.00;2,6;1360;13,6;;\n"
    "10/03/2004;19.00.00;-200;1292;13,3;;\n"
    "10/03/2004;20.00.00;2,2;1402;-200;;\n" + ";;;;;;\n" * 3
)
NATIVE = Path(os.environ.get("TSADC_DATA") or ".").parent / "native/airquality_csv/AirQuality.csv"


def write(folder, content, name="pump.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def noted(path, expected, **options):
    with pytest.warns(TsadcNotice, match=expected):
        (found,) = read(path, **options)
    return found


@pytest.mark.filterwarnings("ignore:.*month or the day first")
def test_an_export_of_uci_reads_with_its_sentinel_named(tmp_path):
    found = noted(
        write(tmp_path, AIR), "decimal comma; its times are the columns 'Date' and 'Time' joined", missing=[-200]
    )
    assert found.names == ("CO(GT)", "PT08.S1(CO)", "T")
    np.testing.assert_array_equal(found.values, [[2.6, 1360, 13.6], [NAN, 1292, 13.3], [2.2, 1402, NAN]])
    assert found.clock.at([0, 2]).tolist() == [pd.Timestamp("2004-10-03 18:00"), pd.Timestamp("2004-10-03 20:00")]


def test_the_day_or_the_month_is_first_as_stated(tmp_path):
    path = write(tmp_path, AIR)
    for dayfirst, month in ((True, 3), (False, 10)):
        found = noted(path, "joined", missing=[-200], dayfirst=dayfirst)
        assert found.clock.at([0])[0].month == month
    dashes = write(tmp_path, "time,a\n03-04-2024 10:00,1\n03-04-2024 10:01,2\n", "dashes.csv")
    assert [read(dashes, dayfirst=first)[0].clock.at([0])[0].month for first in (None, True, False)] == [4, 4, 3]
    with pytest.raises(DataError, match=r"'31/01/2024' at row 0 .* cannot be read as a time"):
        read(write(tmp_path, "time,a\n31/01/2024,1\n01/02/2024,2\n"), dayfirst=False)


@pytest.mark.skipif(not NATIVE.is_file(), reason="needs UCI's AirQuality.csv beside TSADC_DATA")
def test_the_real_file_of_uci():
    with pytest.warns(TsadcNotice, match="'Date' and 'Time' joined"):
        (found,) = read(NATIVE, missing=[-200])
    assert found.values.shape == (9357, 13)
    assert found.clock.at([0, 9356]).astype(str).tolist() == ["2004-03-10 18:00:00", "2005-04-04 14:00:00"]
    assert 0.13 < np.isnan(found.values).mean() < 0.14
    assert np.nanmin(found.values[:, found.names.index("CO_GT")]) == 0.1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("10-Mar-04 18:00:00", "10-Mar-04 19:00:00"),
        ("10-Mar-2004 18:00", "10-Mar-2004 19:00"),
        ("2004/03/10 18:00", "2004/03/10 19:00"),
        ("10.03.04 18:00", "10.03.04 19:00"),
        ("10.03.2004 18.00.00", "10.03.2004 19.00.00"),
        ("2004-03-10 18:00:00,000", "2004-03-10 19:00:00,000"),
        ("13/03/04 18:00", "13/03/04 19:00"),
    ],
)
def test_dates_as_historians_write_them(tmp_path, first, second):
    (found,) = read(write(tmp_path, f"when;a\n{first};1\n{second};2\n"))
    assert found.clock.at([1])[0] in (pd.Timestamp("2004-03-10 19:00"), pd.Timestamp("2004-03-13 19:00"))


def test_dates_and_times_in_any_order_and_of_any_type(tmp_path):
    text = "a,Uhrzeit,Tag\n1,23:00,2024-01-31\n2,23:30,2024-01-31\n3,00:00,2024-02-01\n"
    expected = [pd.Timestamp("2024-01-31 23:00"), pd.Timestamp("2024-02-01")]
    for options in ({}, {"time": "Tag"}, {"time": "Uhrzeit"}):
        assert (
            noted(write(tmp_path, text), "'Tag' and 'Uhrzeit' joined", **options).clock.at([0, 2]).tolist() == expected
        )
    frame = pd.read_csv(tmp_path / "pump.csv", parse_dates=["Tag"])
    frame.to_parquet(tmp_path / "pump.parquet")
    assert noted(tmp_path / "pump.parquet", "joined").clock.at([0, 2]).tolist() == expected
    whole = text.replace("a,", "stamp,a,").replace("\n1", "\n2030-01-01 00:00,1")
    whole = whole.replace("\n2,", "\n2030-01-01 00:01,2,").replace("\n3", "\n2030-01-01 00:02,3")
    assert (
        noted(write(tmp_path, whole), "2 columns hold only text and were left out: Uhrzeit, Tag").clock.at([0])[0].year
        == 2030
    )


def test_dates_that_repeat_are_not_to_be_averaged(tmp_path):
    path = write(tmp_path, "Date,shift,a\n2024-01-01,1,1\n2024-01-01,2,2\n2024-01-02,1,3\n")
    with pytest.raises(DataError) as caught:
        read(path)
    assert str(caught.value).endswith(
        "twice, at rows 0 and 1; these are dates without a time of day, so name the column that has one with --time "
        "(in Python: Reading(time=...)), or the column with the entity of each row with --entity."
    )
    tags = write(tmp_path, "time,tag,value\n2024-01-01 10:00,a b,1\n2024-01-01 10:00,c,2\n2024-01-01 10:01,c,3\n")
    with pytest.warns(TsadcNotice, match="'tag' holds only text"), pytest.raises(DataError) as caught:
        read(tags)
    assert "if 'tag' says which entity a row belongs to, add --entity tag, and if it names the variable, --long" in str(
        caught.value
    )


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "cp1252"])
def test_encodings_are_recognised_and_said(tmp_path, encoding):
    text = "time,Temp °C\n2024-01-01,1\n2024-01-02,2\n"
    found = noted(write(tmp_path, text.encode(encoding)), f"pump.csv: it was read in the encoding {encoding}")
    assert found.names == ("Temp °C",)
    (tmp_path / "pump.csv.gz").write_bytes(gzip.compress(text.encode(encoding)))
    assert noted(tmp_path / "pump.csv.gz", "encoding").values.ravel().tolist() == [1, 2]
    assert read(tmp_path / "pump.csv", encoding=encoding)[0].names == ("Temp °C",)  # without a notice


def test_a_letter_late_in_a_file_shows_its_encoding(tmp_path):
    text = "a,note\n" + "1,x\n" * 40_000 + "2,é\n"
    found = noted(write(tmp_path, text.encode("cp1252")), "cp1252, because it is not UTF-8", exclude=["note"])
    assert len(found) == 40_001


def test_a_wrong_encoding_is_refused(tmp_path):
    path = write(tmp_path, "a,b\n1,é\n".encode("cp1252"))
    with pytest.raises(DataError, match="is not text in the encoding utf-8; name another one with --encoding"):
        read(path, encoding="utf-8")


def test_lines_above_the_header_are_found_and_skipped(tmp_path):
    text = "Plant 7, boiler\nexported by;ACME\n\nCreated: 2024-01-01 10:00\nwhen;a;b\n2024-01-01;1;2\n2024-01-02;3;4\n"
    found = noted(write(tmp_path, text), r"4 line\(s\) above the header were skipped, from 'Plant 7, boiler'")
    assert found.names == ("a", "b")
    assert found.values.tolist() == [[1, 2], [3, 4]]
    (stated,) = read(tmp_path / "pump.csv", skip_rows=4)  # without a notice
    assert stated.values.tolist() == [[1, 2], [3, 4]]
    (later,) = read(write(tmp_path, "x,y\n5,6\na,b\n1,2\n"), skip_rows=2)
    assert (later.names, later.values.tolist()) == (("a", "b"), [[1, 2]])


def test_a_logger_with_a_preamble_units_and_kinds(tmp_path):
    text = (
        '"TOA5","CR1000","1234","CR1000.Std.22"\n"TIMESTAMP","RECORD","AirT_Avg","Flow"\n"TS","RN","Deg C","m3/h"\n'
        '"","","Avg","Smp"\n"2024-01-01 00:00:00",0,1.5,"NAN"\n"2024-01-01 00:01:00",1,1.7,2\n'
    )
    path = write(tmp_path, text.replace('"CR1000",', ""))
    found = noted(
        path, r"2 row\(s\) of text below the header were read as units \(TIMESTAMP TS, RECORD RN, AirT_Avg Deg C"
    )
    assert found.names == ("RECORD", "AirT_Avg", "Flow")
    assert found.units == {"RECORD": "RN", "AirT_Avg": "Deg C", "Flow": "m3/h"}
    np.testing.assert_array_equal(found.values[:, 1:], [[1.5, NAN], [1.7, 2]])


def test_units_below_the_header_are_kept_with_their_variables(tmp_path):
    text = "time;flow;heat;state\n[s];[m3/h];[°C];[-]\n2024-01-01;1,5;2;0\n2024-01-02;2,5;3;1\n"
    found = noted(
        write(tmp_path, text), "read as units .* decimal comma", columns=["heat", "flow"], rename={"heat": "T"}
    )
    assert found.units == {"T": "°C", "flow": "m3/h"}
    assert found.values.tolist() == [[2, 1.5], [3, 2.5]]


@pytest.mark.parametrize(
    "text",
    [
        "a,b\nBad,No Data\n1,2\n3,4\n",  # not measured
        "a,b\nfail,fail\n1,2\nfail,4\n",  # a text that comes again
        "time,a,b\n2024-01-01,off,off\n2024-01-02,1,2\n",  # a row with a time
    ],
)
def test_text_in_the_first_row_is_not_always_a_unit(text):
    rows = [line.split(",") for line in text.splitlines()]
    assert (find_table(rows).header, find_table(rows).below) == (0, 0)


def test_marks_can_be_stated(tmp_path):
    path = write(tmp_path, "a:b\n1,250:2,5\n1.000,5:3\n")
    (found,) = read(path, separator=":", decimal=",")
    assert found.values.tolist() == [[1.25, 2.5], [1000.5, 3]]
    grouped = write(tmp_path, 'a;b\n"1,250";2.5\n"12,000";3\n')
    assert read(grouped, decimal=".")[0].values.tolist() == [[1250, 2.5], [12000, 3]]
    with pytest.raises(DataError, match=r"holds '1,250'; state the mark of decimals with --decimal , or --decimal \."):
        read(grouped)
    tabs = write(tmp_path, "a\tb\n1\t2\n", "tabs.csv")
    assert read(tabs, separator="\\t")[0].values.tolist() == [[1, 2]]


def test_a_decimal_comma_needs_one_number_that_proves_it(tmp_path):
    proven = noted(write(tmp_path, "a;b\n1,250;2\n1,25;3\n"), "its numbers have a decimal comma")
    assert proven.values.tolist() == [[1.25, 2], [1.25, 3]]
    quoted = noted(write(tmp_path, 'a,b\n"1,5",2\n"2,5",3\n'), "decimal comma")
    assert quoted.values.tolist() == [[1.5, 2], [2.5, 3]]
    with pytest.raises(DataError, match="state the mark of decimals"):
        read(write(tmp_path, "a;b\n1,5;2.5\n2,5;3\n"))


def test_empty_rows_at_the_end_count_only_if_rows_have_no_times(tmp_path):
    assert len(read(write(tmp_path, "time,a,b\n2024-01-01,1,2\n2024-01-02,,\n,,\n,,\n"))[0]) == 2
    assert len(read(write(tmp_path, "a,b\n1,2\n,\n,\n"))[0]) == 3


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"separator": "ab"}, "`separator` must be one character between cells"),
        ({"separator": "x"}, "`separator` must be"),
        ({"decimal": ";"}, "`decimal` must be a point or a comma, but got ';'"),
        ({"encoding": "klingon"}, "`encoding` must be the name of an encoding such as utf-8, .*'klingon'"),
        ({"skip_rows": -1}, "`skip_rows` must be a whole number of lines, but got -1"),
    ],
)
def test_options_that_make_no_sense(options, expected):
    with pytest.raises(ConfigError, match=expected):
        Reading(**options)


def test_files_of_one_form_share_a_notice(tmp_path):
    for number in range(3):
        write(tmp_path, "time;a\n2024-01-01;1,5\n2024-01-02;2,5\n", f"{number}.csv")
    with pytest.warns(TsadcNotice, match=r"0\.csv and 2 more: its numbers have a decimal comma\.") as notices:
        read(tmp_path)
    assert len(notices) == 1
