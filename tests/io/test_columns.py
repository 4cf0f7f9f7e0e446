import warnings

import numpy as np
import pandas as pd
import pytest

from tsadc.errors import DataError, TsadcNotice
from tsadc.io.columns import Columns, split_columns
from tsadc.io.reading import Reading

TIMES = pd.date_range("2024-01-01", periods=4, freq="min")


def frame(**columns: object) -> pd.DataFrame:
    return pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "b": [5, 6, 7, 8], **columns})


def refusal(data: pd.DataFrame) -> str:
    with pytest.raises(DataError) as caught:
        split_columns(data, "The data")
    message = str(caught.value)
    assert message.endswith(".")
    assert "\n" not in message
    return message


def names(data: pd.DataFrame) -> tuple[str, ...]:
    return split_columns(data, "The data").names


def test_time_is_found_in_the_index_or_in_a_column_anywhere():
    for data in (
        frame().set_index(TIMES),
        frame().set_index(TIMES.strftime("%Y-%m-%d %H:%M")),
        frame().set_index(TIMES.to_period("min")),
        frame().set_index(pd.Index(TIMES.as_unit("s").asi8, name="timestamp")),
        frame(when=TIMES),
        frame(when=TIMES.astype(str)),
        frame(time=TIMES.as_unit("ms").asi8),
    ):
        columns = split_columns(data, "The data")
        assert (columns.times == TIMES).all()
        assert columns.names == ("a", "b")
        np.testing.assert_array_equal(columns.values, frame().to_numpy())


def test_without_a_time_there_is_none():
    for data in (frame(), frame().set_index(pd.Index([10, 11, 12, 13])), frame().set_index(pd.Index(list("wxyz")))):
        assert split_columns(data, "The data").times is None


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([1, 0, 1, 1], dtype=np.float32),
        pd.Series([1, 0, 1, 1], dtype=np.int8),
        pd.Series([True, False, True, True]),
        pd.Series([1, 0, 1, 1], dtype="Int64"),
        pd.Series([True, False, True, True], dtype="boolean"),
        pd.Series([True, False, True, True], dtype=object),
        pd.Series(["1", " 0", "1.0", "1e0"]),
        pd.Series([1, 0, 1, 1], dtype="category"),
        pd.Series([1, 0, 1, 1], dtype="float64[pyarrow]"),
        pd.Series([1, 0, 1, 1], dtype=pd.SparseDtype("float64", 0.0)),
    ],
)
def test_numbers_of_any_type_become_floats(column):
    columns = split_columns(frame(x=column), "The data")
    assert columns.values.dtype == np.float64
    assert columns.values[:, 2].tolist() == [1, 0, 1, 1]


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([1, None, 0, 1], dtype="Int64"),
        pd.Series([True, None, False, True], dtype=object),
        pd.Series([True, None, False, True], dtype="boolean"),
        pd.Series(["1", None, "0", "1"]),
        pd.Series([1, np.nan, 0, 1]),
    ],
)
def test_what_is_missing_is_nan(column):
    np.testing.assert_array_equal(split_columns(frame(x=column), "The data").values[:, 2], [1, np.nan, 0, 1])


def test_text_among_numbers_is_named_with_its_row():
    assert refusal(frame(x=["1.5", "n/k", "2.5", "?"])) == (
        "The data: column 'x' should hold numbers, but row 1 (counted from 0, below the header) holds 'n/k'; if it "
        "means not measured, add --missing n/k (in Python: Reading(missing=['n/k']))."
    )


@pytest.mark.parametrize("cell", ["1,5", "-0,25", "1,234"])
def test_decimal_commas_are_named_even_where_every_cell_has_one(cell):
    assert refusal(frame(x=[cell] * 4)) == (
        f"The data: column 'x' should hold numbers, but row 0 (counted from 0, below the header) holds '{cell}'; state "
        "the mark of decimals with --decimal , or --decimal . (in Python: Reading(decimal=','))."
    )


def test_a_column_of_text_is_left_out_with_a_notice():
    with pytest.warns(TsadcNotice, match="column 'site' holds only text and was left out"):
        assert names(frame(site=list("wxyz"))) == ("a", "b")


def test_an_empty_column_is_a_variable_without_values():
    columns = split_columns(frame(x=[None] * 4), "The data")
    assert columns.names == ("a", "b", "x")
    assert np.isnan(columns.values[:, 2]).all()


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinite_values_are_named_with_their_row(value):
    assert refusal(frame(x=[0, 0, value, 0])) == (
        "The data: column 'x' is infinite at row 2; leave the cell empty where nothing was measured."
    )
    assert "column 'x' is infinite at row 2" in refusal(frame(x=["0", "0", str(value), "0"]))


def test_numbers_beyond_any_float_are_infinite():
    assert "column 'x' is infinite at row 1" in refusal(frame(x=pd.Series([1, 10**400, 2, 3], dtype=object)))


def test_other_kinds_of_columns():
    assert "has a second column of times, 'then'" in refusal(frame(now=TIMES, then=TIMES))
    assert "has a second column of times, 'since'" in refusal(frame(since=TIMES - TIMES[0]))
    assert "column 'x' holds complex numbers" in refusal(frame(x=[1j, 2, 3, 4]))
    assert "column 'x' should hold numbers, but row 1" in refusal(frame(x=[1, [2], 3, 4]))


def test_no_variables():
    assert refusal(pd.DataFrame({"time": TIMES})) == (
        "The data has no column of numbers besides the time, but at least one is needed; if it has one, check the "
        "separator."
    )
    assert "no column of numbers" in refusal(pd.DataFrame(index=TIMES))
    with pytest.warns(TsadcNotice, match="only text"):
        assert "no column of numbers" in refusal(pd.DataFrame({"x": ["u", "v"], "y": ["w", "z"]}))


def test_names_that_come_twice():
    data = frame()
    for twice in (["x", "x"], ["x", " x"], [1, "1"]):
        data.columns = twice
        assert refusal(data) == f"The data has two columns named {str(twice[0])!r}; give every variable its own name."


def test_names_are_stripped_and_need_not_be_text():
    data = frame()
    data.columns = [7, " heat "]
    assert names(data) == ("7", "heat")


@pytest.mark.parametrize("name", ["Unnamed: 0", "", "__index_level_0__"])
@pytest.mark.parametrize("counts", [[0, 1, 2, 3], [0, 1, 0, 1], [5, 9, 10, 30]])
def test_an_index_that_was_written_out_is_no_variable(name, counts):
    for rest in ({"time": TIMES}, {}):
        data = pd.DataFrame({name: counts, **rest, "a": 1.0, "b": 2.0})
        assert names(data) == ("a", "b")


def test_a_column_that_counts_rows_is_no_variable():
    for name in ("index", "Step", "time", "t"):
        for counts in ([0, 1, 2, 3], [0.0, 0.1, 0.2, 0.3]):
            assert names(pd.DataFrame({name: counts, "a": 1.0, "b": 2.0})) == ("a", "b")
    assert names(frame(time=[0, 1, 2, 3])) == ("a", "b")
    assert names(frame(index=[0, 1, 2, 3])) == ("a", "b", "index")
    assert names(pd.DataFrame({"step": [0, 1, 1, 0], "a": 1.0, "b": 2.0})) == ("step", "a", "b")
    assert names(frame(t=[20.5, 20.1, 20.7, 20.6])) == ("a", "b", "t")


def test_a_clock_that_cannot_be_read_is_refused_and_not_taken_for_a_variable():
    for counts in ([0, 1, 2, 7], [20240130, 20240131, 20240142, 20240202]):
        assert "the time column 'date' holds numbers that are neither evenly spaced nor times since 1970" in refusal(
            frame(date=counts)
        )


def test_an_index_of_several_levels_is_refused_with_the_fix():
    data = frame().set_index(pd.MultiIndex.from_product([["x", "y"], [0, 1]]))
    assert "pass a dict with one data frame per entity" in refusal(data)


def test_nothing_of_pandas_leaks_as_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DataError, match="cannot be read as a time"):
            split_columns(frame(time=["soon", "later", "13/14/15", "never"]), "The data")


def split(data: pd.DataFrame, **settings: object) -> Columns:
    return split_columns(data, "The data", Reading(**settings))


def test_a_column_named_as_the_time_is_the_time_whatever_it_looks_like():
    for column in (TIMES, TIMES.strftime("%d %B %Y %H:%M"), TIMES.as_unit("ms").asi8):
        columns = split(frame(flow=column), time="flow")
        assert (columns.times == TIMES).all()
        assert columns.names == ("a", "b")
    columns = split(frame(flow=TIMES).set_index(TIMES + pd.Timedelta("1D")), time="flow")
    assert (columns.times == TIMES).all()
    assert (split(frame().set_index(TIMES.rename("when")), time="when").times == TIMES).all()


def test_a_named_counter_is_no_clock_and_an_uneven_one_is_refused():
    assert split(frame(n=[2.0, 2.5, 3.0, 3.5]), time="n").times is None
    with pytest.raises(DataError, match="time column 'n' holds numbers that are neither evenly spaced nor times since"):
        split(frame(n=[0, 1, 5, 7]), time="n")
    with pytest.raises(DataError, match="The data has no column 'tme'; did you mean `time`"):
        split(frame(time=TIMES), time="tme")


def test_only_what_is_picked_is_looked_at():
    data = frame(site=list("wxyz"), c=["1", "?", "2", "3"], step=[0, 1, 2, 3], when=TIMES)
    columns = split(data, columns=("b", "a"), rename={"a": "heat"})
    assert columns.names == ("b", "heat")
    np.testing.assert_array_equal(columns.values, frame()[["b", "a"]].to_numpy())
    assert (columns.times == TIMES).all()
    assert split(data.iloc[:, ::-1], columns=("step", "a")).names == ("step", "a")
    assert split(data, time="when", entity="site", columns=("when", "site", "a", "b")).names == ("a", "b")


def test_too_many_columns_are_refused():
    wide = pd.DataFrame(np.zeros((2, 10_001)))
    assert "The data has more than 10000 columns" in refusal(wide)


def test_a_single_column():
    found = split_columns(pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 5.0]}), "The data", Reading(columns=("b",)))
    assert found.names == ("b",)
    assert found.values.tolist() == [[3.0], [5.0]]
