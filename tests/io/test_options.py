"""Options that leave out, mark and difference columns, and that say which files are one entity."""

import warnings

import numpy as np
import pandas as pd
import pytest

import tsadc as package
from terminal import tsadc
from tsadc.errors import ConfigError, DataError
from tsadc.io.read import read
from tsadc.io.reading import Reading, parse_missing

NAN = np.nan


def write(folder, text, name="pump.csv"):
    path = folder / name
    path.write_text(text)
    return path


def hours(folder, *parts, name="pump-{}_log.csv"):
    """Write files of three rows each: hours 0 to 2, 3 to 5, ... of one day."""
    paths = []
    for number, part in enumerate(parts):
        times = pd.date_range("2024-01-01", periods=3, freq="1h") + pd.Timedelta(hours=3 * part)
        path = folder / name.format(number)
        pd.DataFrame({"time": times, "a": np.arange(3.0) + 3 * part, "b": 1.0}).to_csv(path, index=False)
        paths.append(path)
    return paths


def test_options_can_be_given_by_name_and_override_a_reading(tmp_path):
    path = write(tmp_path, "a,b,c\n1,2,-200\n3,4,5\n")
    (found,) = package.read(path, Reading(columns=["c", "a"]), missing=[-200])
    np.testing.assert_array_equal(found.values, [[NAN, 1], [5, 3]])
    assert package.read(path, Reading(columns=["c"]), columns=["b"])[0].names == ("b",)
    with pytest.raises(ConfigError, match=r"There is no setting `mising`; did you mean `missing`\?"):
        package.read(path, mising=[-200])


def test_excluded_columns_may_hold_anything(tmp_path):
    path = write(tmp_path, "time,a,note,label\n2024-01-01,1,x,0\n2024-01-02,2,7,1\n")
    assert read(path, Reading(exclude=["note", "label"]))[0].names == ("a",)
    # Without its time column, a table has no clock.
    assert not read(path, Reading(exclude=["time", "note"]))[0].clock.dated
    with pytest.raises(DataError, match=r"has no column 'lable'; did you mean `label`\?"):
        read(path, Reading(exclude=["note", "lable"]))


def test_numbers_and_texts_that_mean_not_measured(tmp_path):
    path = write(tmp_path, "a,b,c\n1,Bad,-200\n-200.0,2,no data\n3, bad ,4\n")
    (found,) = read(path, Reading(missing=[-200, "Bad", "No Data"]))
    np.testing.assert_array_equal(found.values, [[1, NAN, NAN], [NAN, 2, NAN], [3, NAN, 4]])
    with pytest.raises(DataError, match=r"row 0 \(.*\) holds 'Bad'; if it means not measured, add --missing Bad"):
        read(path, Reading(missing=[-200, "No Data"]))
    with pytest.raises(DataError, match=r"add --missing 'no data'"):
        read(path, Reading(missing=[-200, "Bad"]))


def test_a_time_or_an_entity_is_never_missing(tmp_path):
    path = write(tmp_path, "time,host,a\n2024-01-01,1,1\n2024-01-02,1,2\n2024-01-01,2,1\n2024-01-02,2,3\n")
    one, two = read(path, Reading(entity="host", missing=[1]))
    assert (one.entity, two.entity) == ("1", "2")
    np.testing.assert_array_equal(two.values[:, 0], [NAN, 3])


def test_missing_numbers_in_arrays_and_columnar_files(tmp_path):
    np.save(tmp_path / "pump.npy", np.array([[1.0, -9999], [2, 3]], dtype=np.float32))
    pd.DataFrame({"a": [1, -9999], "b": ["2", "Bad"]}).to_parquet(tmp_path / "pump.parquet")
    array, table = (read(tmp_path / f"pump.{form}", missing=[-9999, "bad"])[0] for form in ("npy", "parquet"))
    np.testing.assert_array_equal(array.values, [[1, NAN], [2, 3]])
    np.testing.assert_array_equal(table.values, [[1, 2], [NAN, NAN]])


def test_missing_is_written_as_a_list_on_the_command_line():
    assert parse_missing(["-200", "Bad", "NaN", "1e3"]) == (-200.0, "Bad", "NaN", 1000.0)
    assert Reading(missing=-200).missing == (-200.0,)
    for wrong in ([None], [True], [[1]]):
        with pytest.raises(ConfigError, match="`missing` must be a list of numbers and texts"):
            Reading(missing=wrong)


def test_a_counter_becomes_increments_and_a_reset_is_not_measured(tmp_path):
    path = write(tmp_path, "hours,b\n10,1\n12,2\n12,3\n1,4\n4,5\n")
    (found,) = read(path, Reading(difference=["hours"], rename={"hours": "h"}))
    np.testing.assert_array_equal(found.values, [[NAN, 1], [2, 2], [0, 3], [NAN, 4], [3, 5]])
    with pytest.raises(DataError, match=r"has no column 'hour'; did you mean `hours`\?"):
        read(path, Reading(difference=["hour"]))


def test_increments_are_taken_on_the_clock_across_files_and_not_across_a_gap(tmp_path):
    (found,) = read(hours(tmp_path, 0, 1, 3), Reading(entity_name="pump", difference=["a"]))
    np.testing.assert_array_equal(found.values[:, 0], [NAN, 1, 1, 1, 1, 1, NAN, NAN, NAN, NAN, 1, 1])


def test_separate_observations_have_no_increment_between_them(tmp_path):
    np.save(tmp_path / "pump.npy", np.arange(8.0).reshape(2, 4, 1))
    (found,) = read(tmp_path / "pump.npy", Reading(difference=["variable_0"]))
    np.testing.assert_array_equal(found.values[:, 0], [NAN, 1, 1, 1, NAN, 1, 1, 1])


def test_all_files_are_one_entity_in_the_order_of_time(tmp_path):
    (found,) = read(hours(tmp_path, 2, 0, 1), Reading(entity_name="pump"))
    assert (found.entity, found.clock.interval) == ("pump", 3600 * 10**9)
    assert found.values[:, 0].tolist() == list(range(9))


def test_files_of_one_entity_that_overlap_or_have_no_time(tmp_path):
    one, two = hours(tmp_path, 0, 0.5)
    with pytest.raises(DataError) as caught:
        read([one, two], Reading(entity_name="pump"))
    assert str(caught.value) == (
        f"Entity 'pump' is in both {one} and {two}, and their times overlap at 2024-01-01 01:30:00; give each its own "
        "entity if they are two, remove the overlap from one of them, or average both with --every (in Python: "
        "Reading(every=...))."
    )
    plain = write(tmp_path, "a,b\n1,2\n3,4\n")
    with pytest.raises(DataError, match="has no column of times; add it there"):
        read([one, plain], Reading(entity_name="pump"))


def test_the_entity_is_taken_from_the_name_of_the_file(tmp_path):
    paths = hours(tmp_path, 1, name="pump-7_b{}.csv") + hours(tmp_path, 0, name="pump-12_{}.csv")
    paths += hours(tmp_path, 0, name="pump-7_a{}.csv")
    seven, twelve = read(paths, Reading(entity_from=r"pump-(\d+)_.*"))
    assert (seven.entity, len(seven), twelve.entity, len(twelve)) == ("7", 6, "12", 3)
    other = write(tmp_path, "a\n1\n", "tank.csv")
    with pytest.raises(DataError, match=r"tank\.csv has a name without 'pump-\(\\\\d\+\)_\.\*', in which its entity"):
        read([*paths, other], Reading(entity_from=r"pump-(\d+)_.*"))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"exclude": "a"}, "`exclude` must be a list of names, but got 'a'"),
        ({"difference": [1]}, "`difference` must be a list of names"),
        ({"exclude": ["a"], "columns": ["a"]}, "`exclude` leaves out 'a', which another option uses"),
        ({"difference": ["b"], "columns": ["a"]}, "`difference` contains 'b', which is not among `columns`"),
        ({"entity": "host", "entity_name": "p"}, "`entity` and `entity_name` both say which entity"),
        ({"entity_name": " "}, "`entity_name` must be a name, but got ' '"),
        ({"entity_from": "pump-("}, r"`entity_from` must be a regular expression such as .*, but 'pump-\(' is none"),
        ({"entity_from": "pump"}, "`entity_from` must be a pattern with a group"),
        ({"stream": True, "missing": [-1]}, "`stream` leaves the rows in their file, so .* with `missing`"),
        ({"stream": True, "difference": ["a"]}, "with `difference`; drop one of them"),
    ],
)
def test_options_that_do_not_fit(options, expected):
    with pytest.raises(ConfigError, match=expected):
        Reading(**options)


def test_streamed_files_leave_out_columns_but_are_not_joined(tmp_path):
    times = pd.date_range("2024-01-01", periods=6, freq="1h")
    frame = pd.DataFrame({"time": times, "a": np.arange(6.0), "note": "x"})
    frame[:3].to_parquet(tmp_path / "1.parquet", index=False)
    frame[3:].to_parquet(tmp_path / "2.parquet", index=False)
    first, _ = read(tmp_path, Reading(stream=True, exclude=["note"]))
    assert (first.names, np.asarray(first.values[0:3]).ravel().tolist()) == (("a",), [0, 1, 2])
    with pytest.raises(DataError, match="cannot be joined with --stream; read them without it"):
        read(tmp_path, Reading(stream=True, exclude=["note"], entity_name="pump"))
    with pytest.raises(DataError, match=r"has no column 'nte'; did you mean `note`\?"):
        read(tmp_path, Reading(stream=True, exclude=["nte"]))


def test_names_that_a_model_remembers_may_be_absent(tmp_path):
    path = write(tmp_path, "a,b\n1,2\n3,4\n")
    options = {"exclude": ["label"], "difference": ["hours"]}
    assert read(path, **options, may_lack=["label", "hours"])[0].names == ("a", "b")
    assert read(path, columns=["b", "c"], may_lack=["c"])[0].names == ("b",)


def test_the_options_of_the_command_line(tmp_path):
    rows = "".join(f"{i * 2},{-200 if i % 10 == 0 else i % 5},x,{i % 3}\n" for i in range(1000))
    path = write(tmp_path, 'hours,"heat, C",note,label\n' + rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answer = tsadc(
            "info", path, "--missing", "-200,Bad", "--exclude", "note,label", "--difference", "hours", "--length", "50"
        )  # fmt: skip
    assert answer.code == 0, answer.err
    assert "2: hours, heat, C" in " ".join(answer.out.split())
    assert "5.05%" in answer.out  # 100 sentinels and the first increment, of 2,000 cells
    refused = tsadc("info", path, "--exclude", "notes")
    assert refused.refusal.endswith("has no column 'notes'; did you mean `note`?")
