import contextlib
import io
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tsadc.errors import DataError, TsadcNotice
from tsadc.io.read import TABLES, read, read_frame
from tsadc.io.reading import Reading

TEXT = "time,a,b\n2024-01-01 00:00,1,2.5\n2024-01-01 00:01,3,\n2024-01-01 00:02,5,6\n"
VALUES = np.array([[1, 2.5], [3, np.nan], [5, 6]])
floats = st.floats(allow_nan=False, allow_infinity=False)
reuse = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)


def write(folder, content: str | bytes, name: str = "pump.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refusal(path) -> str:
    with pytest.raises(DataError) as caught:
        read([path])
    message = str(caught.value)
    assert str(path) in message
    assert message.endswith(".")
    assert "\n" not in message
    return message.replace(str(path), "PATH")


@pytest.mark.parametrize(
    "content",
    [
        TEXT,
        TEXT.encode("utf-8-sig"),
        TEXT.replace("\n", "\r\n"),
        TEXT.replace("\n", "\r"),
        TEXT.replace(",", ";"),
        TEXT.replace(",", "\t"),
        TEXT.replace(",", "|"),
        TEXT.replace(",", ", "),
        TEXT.replace("time,a,b", '"time","a","b"'),
        "\n\n" + TEXT + "\n\n",
        TEXT.rstrip("\n"),
        TEXT.replace("\n", ",\n"),
        "".join(f"{i},{line}" for i, line in zip(["", 0, 1, 2], io.StringIO(TEXT), strict=True)),
        TEXT.replace(",\n", ",NA\n"),
        "timestamp,a,b\n1704067200,1,2.5\n1704067260,3,\n1704067320,5,6\n",
        "timestamp,a,b\n1704067200000,1,2.5\n1704067260000,3,\n1704067320000,5,6\n",
        "time,a,b\n2024-01-01T01:00+01:00,1,2.5\n2024-01-01T01:01+01:00,3,\n2024-01-01T02:02+02:00,5,6\n",
    ],
)
def test_files_that_differ_in_form_give_the_same_series(tmp_path, content):
    (found,) = read([write(tmp_path, content)])
    assert found.names == ("a", "b")
    np.testing.assert_array_equal(found.values, VALUES)
    assert (found.clock.start, found.clock.interval) == (pd.Timestamp("2024-01-01").value, 60 * 10**9)
    assert found.entity == "pump"


def test_the_most_frequent_mark_outside_quotes_separates(tmp_path):
    (found,) = read([write(tmp_path, 'x;"heat, deg; C"|y;z\n1;2;3\n4;5;6\n')])
    assert found.names == ("x", "heat, deg; C|y", "z")


@reuse
@given(st.lists(st.tuples(floats, floats), min_size=1, max_size=20))
def test_any_floats_are_read_to_the_bit(tmp_path, rows):
    path = tmp_path / "pump.csv"
    pd.DataFrame(rows, columns=["a", "b"]).to_csv(path, index=False)
    assert read([path])[0].values.tobytes() == np.array(rows, dtype=np.float64).tobytes()


@reuse
@given(
    st.lists(st.lists(st.none() | floats, min_size=3, max_size=3), min_size=2, max_size=10),
    st.sampled_from([",", ";", "\t", "|"]),
    st.booleans(),
    st.booleans(),
    st.datetimes(pd.Timestamp("1900-01-01"), pd.Timestamp("2200-01-01")),
)
def test_what_a_frame_writes_is_read_back(tmp_path, rows, separator, dated, numbered, start):
    frame = pd.DataFrame(np.array(rows, dtype=np.float64), columns=["a", "b", "c"])
    times = pd.date_range(start, periods=len(rows), freq="s")
    if dated:
        frame.insert(0, "time", times)
    frame.to_csv(tmp_path / "pump.csv", sep=separator, index=numbered)
    frame.to_parquet(tmp_path / "pump.parquet")
    for path in (tmp_path / "pump.csv", tmp_path / "pump.parquet"):
        (found,) = read([path])
        np.testing.assert_array_equal(found.values, np.array(rows, dtype=np.float64))
        assert found.clock.dated == dated
        if dated:
            assert (found.clock.at(np.arange(len(rows))) == times).all()


@contextlib.contextmanager
def read_or_refused():
    """Nothing but a DataError or a notice may come out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TsadcNotice)
        with contextlib.suppress(DataError):
            yield


@reuse
@given(st.binary(max_size=200), st.sampled_from([".csv", ".parquet"]))
def test_any_bytes_are_read_or_refused(tmp_path, content, ending):
    with read_or_refused():
        read([write(tmp_path, content, f"any{ending}")])


@reuse
@given(st.text('0123456789.,;-:eE+"\n\r\t ab|', max_size=80))
def test_any_text_is_read_or_refused(tmp_path, content):
    with read_or_refused():
        read([write(tmp_path, content)])


@reuse
@given(
    st.sampled_from(["time", "date", "x"]), st.lists(st.text("0123456789-/: TZ.+", max_size=12), min_size=2, max_size=5)
)
def test_any_column_that_looks_like_times_is_read_or_refused(tmp_path, name, cells):
    rows = "".join(f'"{cell}",{i},{i}\n' for i, cell in enumerate(cells))
    with read_or_refused():
        read([write(tmp_path, f"{name},a,b\n{rows}")])


@reuse
@given(st.data())
def test_a_damaged_parquet_file_is_read_or_refused(tmp_path, data):
    path = tmp_path / "pump.parquet"
    pd.DataFrame({"a": np.arange(50.0), "b": np.arange(50) % 7}).to_parquet(path)
    content = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    else:
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    with read_or_refused():
        read([write(tmp_path, bytes(content), "pump.parquet")])


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "PATH is empty, but a header and rows of numbers were expected."),
        ("\n \n", "PATH is empty, but a header and rows of numbers were expected."),
        ("time,a,b\n", "PATH has a header but no rows; add rows of measurements."),
        ("a b\n1 2\n", "PATH has no column of numbers"),
        ("x,y\nu,v\n", "PATH has no column of numbers besides the time"),
        ("a,b\n1,2\n3,4,5\n", "PATH is not a well-formed CSV file: Expected 2 fields in line 3, saw 3."),
        ("\r,", "PATH is not a well-formed CSV file: No columns to parse from file."),
        ("a,b\n1,2,3\n", "PATH has more values in a row than names in its header; give every column a name, or"),
        ("a,b\n1,x\n2,3\n", "PATH: column 'b' should hold numbers, but row 0 (counted from 0, below the header) holds"),
        ("a,b\n1,inf\n", "PATH: column 'b' is infinite at row 0"),
        ("a,b,a\n1,2,3\n", "PATH has two columns named 'a'; give every variable its own name."),
        ("0.1,0.2\n0.3,0.4\n", "PATH has no header: its first line holds numbers"),
        ("1,1\n2,2\n", "PATH has no header: its first line holds numbers"),
        ("2024-01-01,0.5,7\n2024-01-02,0.5,7\n", "PATH has no header: its first line holds numbers"),
        (
            "a;b\n1,500;2,500\n2,500;3\n",
            "column 'a' should hold numbers, but row 0 (counted from 0, below the header) holds '1,500'",
        ),
        (b"a,b\n1,\xe9\x01\n", "PATH is not text, although its name ends in .csv; export it as CSV."),
        (
            b"a,b\n" + b"1,2\n" * 40000 + b"1,\x81\n",
            "PATH is not text in a known encoding; name another one with --enc",
        ),
        ("a,b\n" + "1,2\n" * 300_000 + "1,x\n", "PATH: column 'b' should hold numbers, but row 300000"),
        ("time,a,b\n2024-01-01,1,2\nsoon,3,4\n2024-01-03,5,6\n", "the time column 'time' holds 'soon' at row 1"),
        ("time,a,b\n2024-01-02,1,2\n2024-01-01,3,4\n", "PATH should be sorted by time, but row 1"),
        ("time,a,b\n2024-01-02,1,2\n2024-01-02,3,4\n", "PATH has the time 2024-01-02 00:00:00 twice, at rows 0 and 1"),
        ("time,a,b\n2024-01-02,1,2\n,3,4\n", "PATH has no time at row 1; give every row a time."),
    ],
)
@pytest.mark.filterwarnings("ignore::tsadc.errors.TsadcNotice")
def test_a_bad_csv_file_is_refused_in_one_sentence(tmp_path, content, expected):
    assert expected in refusal(write(tmp_path, content))


def test_a_short_row_has_nothing_measured_at_its_end(tmp_path):
    np.testing.assert_array_equal(read([write(tmp_path, "a,b\n1,2\n3\n")])[0].values, [[1, 2], [3, np.nan]])


def test_the_columns_of_a_frame_without_names(tmp_path):
    path = tmp_path / "pump.csv"
    for numbered in (True, False):
        pd.DataFrame(VALUES).to_csv(path, index=numbered)
        assert read([path])[0].names == ("0", "1")


def test_parquet_keeps_the_index_and_its_zone(tmp_path):
    times = pd.date_range("2024-01-01", periods=3, freq="min", tz="Europe/Berlin")
    for index in (times, times.rename("time")):
        pd.DataFrame(VALUES, columns=["a", "b"], index=index).to_parquet(tmp_path / "pump.parquet")
        (found,) = read(tmp_path / "pump.parquet")
        assert found.names == ("a", "b")
        assert (found.clock.at(np.arange(3)) == times).all()
        assert found.clock.timezone == "Europe/Berlin"


def test_a_truncated_parquet_file(tmp_path):
    pd.DataFrame(VALUES, columns=["a", "b"]).to_parquet(tmp_path / "pump.parquet")
    content = (tmp_path / "pump.parquet").read_bytes()
    for size in (0, 3, len(content) // 2, len(content) - 1):
        assert "PATH is not a readable Parquet file: " in refusal(write(tmp_path, content[:size], "pump.parquet"))


def test_what_is_not_a_file(tmp_path):
    assert refusal(tmp_path / "none.csv") == "There is no file PATH; check the name."
    assert refusal(write(tmp_path, "x", "notes.doc")) == (
        "PATH should end in .csv, .tsv, .csv.gz, .tsv.gz, .txt, .dat, .parquet, .arrow, .feather, .xlsx, .xlsm, .npy, "
        ".npz, .hea, .edf, .h5, .hdf5, .mat, because the ending determines the format."
    )
    with pytest.raises(DataError, match="No data file was given"):
        read([])


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    def refuse(path, reading):
        raise PermissionError(13, "Permission denied", str(path))

    path = write(tmp_path, TEXT)
    monkeypatch.setitem(TABLES, ".csv", refuse)
    assert refusal(path) == "PATH cannot be read: permission denied."


@pytest.mark.filterwarnings("ignore:.*has no times")
def test_entities_are_named_after_their_files_or_their_paths_where_those_repeat(tmp_path):
    (tmp_path / "x").mkdir()
    one, two = write(tmp_path, TEXT), write(tmp_path / "x", TEXT)
    three, four = tmp_path / "pump.parquet", write(tmp_path, TEXT, "fan.CSV")
    pd.DataFrame(VALUES, columns=["a", "b"]).to_parquet(three)
    assert [s.entity for s in read([one, str(two), three, four])] == [str(one), str(two), str(three), "fan"]
    with pytest.raises(DataError, match="was given twice; name it once"):
        read([one, tmp_path / "x" / ".." / "pump.csv"])


def test_one_path_needs_no_list(tmp_path):
    path = write(tmp_path, TEXT)
    np.testing.assert_array_equal(read(str(path))[0].values, VALUES)
    assert list(read_frame(path).columns) == ["time", "a", "b"]


def test_a_folder_or_a_pattern_is_one_entity_per_file(tmp_path):
    for name, rows in (("b", 3), ("a", 2), (".hidden", 1)):
        write(tmp_path, "".join(TEXT.splitlines(keepends=True)[: rows + 1]), f"{name}.csv")
    for paths in (tmp_path, str(tmp_path / "*.csv")):
        assert [(one.entity, len(one)) for one in read(paths)] == [("a", 2), ("b", 3)]


def test_the_order_of_columns_does_not_matter_between_files(tmp_path):
    one = write(tmp_path, "a,b,c\n1,2,3\n4,5,6\n", "one.csv")
    two = write(tmp_path, "c,a,b\n3,1,2\n6,4,5\n", "two.csv")
    first, second = read([one, two])
    assert second.names == ("a", "b", "c")
    np.testing.assert_array_equal(first.values, second.values)


def test_columns_that_change_between_files_are_named_with_the_file(tmp_path):
    one, two, three = (
        write(tmp_path, f"{header}\n1,2,3\n4,5,6\n", name)
        for header, name in (("a,b,x", "1.csv"), ("a,b,c", "2.csv"), ("c,a,b", "3.csv"))
    )
    with pytest.raises(DataError) as caught:
        read([one, two, three])
    assert str(caught.value) == (
        f"{one} has other variables than {two}: it lacks 'c' and adds 'x'; keep those that all files share with "
        "--columns (in Python: Reading(columns=[...]))."
    )
    assert [s.names for s in read([one, two, three], Reading(columns=("b", "a")))] == [("b", "a")] * 3


BAD = {
    "0-other.csv": b"x,y,z\n1,2,3\n",
    "2-text.csv": b"a,b\n1,?\n2,3\n",
    "3-binary.csv": b"h\xe9\x01at,b\n1,2\n",
    "4-clock.csv": b"time,a,b\n2024-01-02,1,2\n2024-01-01,3,4\n",
    "5-cut.parquet": b"PAR1",
    "6-cut.npz": b"PK\x03\x04",
}


def test_bad_files_are_skipped_when_asked_and_all_are_listed(tmp_path):
    for name, content in BAD.items():
        write(tmp_path, content, name)
    write(tmp_path, TEXT, "1.csv")
    write(tmp_path, TEXT, "7.csv")
    with pytest.raises(DataError):
        read(tmp_path)
    with pytest.warns(TsadcNotice) as noticed:
        found = read(tmp_path, Reading(skip_bad=True))
    assert [one.entity for one in found] == ["1", "7"]
    (notice,) = (str(one.message) for one in noticed if "left out: /" in str(one.message))
    assert notice.startswith("6 left out: ")
    assert all(str(tmp_path / name) in notice for name in BAD)


def test_nothing_good_is_an_error_all_the_same(tmp_path):
    for name in ("2-text.csv", "3-binary.csv"):
        write(tmp_path, BAD[name], name)
    with pytest.raises(DataError, match=r"None of 2 file\(s\) can be used; the first problem: .*2-text\.csv: column"):
        read(tmp_path, Reading(skip_bad=True))


def test_irregular_files_are_put_on_a_grid(tmp_path):
    path = write(tmp_path, "time,a,b\n2024-01-01 00:00:10,1,2\n2024-01-01 00:00:50,3,\n2024-01-01 00:02:30,5,6\n")
    (found,) = read(path, Reading(every="1min"))
    np.testing.assert_array_equal(found.values, [[2, 2], [np.nan, np.nan], [5, 6]])
    assert (found.clock.start, found.clock.interval) == (pd.Timestamp("2024-01-01").value, 60 * 10**9)


def test_the_column_of_times_may_be_named(tmp_path):
    path = write(tmp_path, "when,a,b,ts\n1704067200,1,2,2020-01-01\n1704067260,3,4,2020-01-02\n")
    (found,) = read(path, Reading(time="when", columns=("a", "b")))
    assert (found.names, found.clock.start) == (("a", "b"), pd.Timestamp("2024-01-01").value)
    with pytest.raises(DataError, match="has no column 'wen'; did you mean `when`"):
        read(path, Reading(time="wen"))


def test_entities_of_different_length_are_normal(tmp_path):
    for rows in (2, 3, 50):
        frame = pd.DataFrame({"time": pd.date_range("2024-01-01", periods=rows, freq="h"), "a": 1.0, "b": 2.0})
        frame.to_parquet(tmp_path / f"{rows}.parquet")
    assert sorted(len(one) for one in read(tmp_path)) == [2, 3, 50]


def test_recordings_of_the_folder_are_read_with_their_rate(shared_data):
    folder = shared_data.parent / "native" / "wfdb_ludb"
    if not folder.is_dir():
        pytest.skip("no native files beside the data")
    pytest.importorskip("wfdb")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TsadcNotice)
        found = read(folder, Reading(rate=100))
    assert {len(one.names) for one in found} == {12}
    assert {len(one) for one in found} == {1000}
    with pytest.raises(DataError, match="is a recording with its own clock"):
        read(next(folder.glob("*.hea")), Reading(every="1s"))


def test_real_text_files_without_a_header_say_so(shared_data, tmp_path):
    folder = shared_data.parent / "native" / "smd_txt_mini" / "train"
    if not folder.is_dir():
        pytest.skip("no native files beside the data")
    assert "has no file that can be read" in refusal(folder)
    path = write(tmp_path, (folder / "machine-1-3.txt").read_bytes(), "machine.csv")
    assert "PATH has no header" in refusal(path)


def test_bare_arrays_need_as_many_variables_each(tmp_path):
    for name, width in (("a", 3), ("b", 3), ("c", 4)):
        np.save(tmp_path / f"{name}.npy", np.zeros((5, width)))
    with pytest.raises(DataError, match=r"c\.npy has 4 variables, but .*a\.npy has 3; all files must have the same"):
        read(tmp_path)
    with pytest.warns(TsadcNotice, match=r"1 left out: .*c\.npy has 4 variables"):
        assert [one.entity for one in read(tmp_path, Reading(skip_bad=True))] == ["a", "b"]


def test_a_bare_array_fits_names_by_its_width(tmp_path):
    write(tmp_path, "x,y\n1,2\n3,4\n", "a.csv")
    np.save(tmp_path / "b.npy", np.zeros((5, 2)))
    assert len(read(tmp_path)) == 2
    np.save(tmp_path / "b.npy", np.zeros((5, 3)))
    with pytest.raises(DataError, match=r"b\.npy has 3 variables, but .*a\.csv has 2"):
        read(tmp_path)


def test_files_sampled_at_another_interval_are_skipped_with_the_bad(tmp_path):
    for name, step in (("a", "1min"), ("b", "1min"), ("c", "5min")):
        times = pd.date_range("2024-01-01", periods=4, freq=step)
        pd.DataFrame({"time": times, "x": range(4), "y": range(4)}).to_csv(tmp_path / f"{name}.csv", index=False)
    with pytest.warns(TsadcNotice, match=r"1 left out: .*c\.csv is sampled every 5min, but most .* --every 1min"):
        assert [one.entity for one in read(tmp_path, Reading(skip_bad=True))] == ["a", "b"]
    assert len(read(tmp_path)) == 3  # `info` shows them all; `fit` refuses


def dated(folder, name: str, times: list[str]) -> None:
    pd.DataFrame({"time": times, "x": range(len(times)), "y": range(len(times))}).to_csv(folder / name, index=False)


def test_dates_of_two_orders_are_refused_with_both_files(tmp_path):
    dated(tmp_path, "a.csv", ["01/31/2024 10:00", "01/31/2024 10:01", "01/31/2024 10:02"])
    dated(tmp_path, "b.csv", ["2024-01-31 10:00", "2024-01-31 10:01", "2024-01-31 10:02"])
    dated(tmp_path, "c.csv", ["03/03/2024 10:00", "03/03/2024 10:01", "03/03/2024 10:02"])
    assert len(read(tmp_path)) == 3  # an ISO date and one whose day is its month go with either
    dated(tmp_path, "d.csv", ["31/01/2024 10:00", "31/01/2024 10:01", "31/01/2024 10:02"])
    with pytest.raises(DataError, match=r"d\.csv has dates with the day first, but those of .*a\.csv have the month"):
        read(tmp_path)
    with pytest.warns(TsadcNotice, match=r"1 left out: .*d\.csv has dates"):
        assert [one.entity for one in read(tmp_path, Reading(skip_bad=True))] == ["a", "b", "c"]


def test_files_with_and_without_a_time_zone_are_told(tmp_path):
    dated(tmp_path, "a.csv", ["2024-01-31 10:00", "2024-01-31 10:01"])
    dated(tmp_path, "b.csv", ["2024-01-31 10:00Z", "2024-01-31 10:01Z"])
    with pytest.warns(TsadcNotice, match=r"of .*a\.csv have no time zone, but those of .*b\.csv have one; .* UTC"):
        assert len(read(tmp_path)) == 2
