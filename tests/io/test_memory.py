import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from tsadc.errors import DataError
from tsadc.io.memory import as_series
from tsadc.series import Clock, Series

VALUES = np.array([[1.0, 5.0], [2.0, 6.0], [np.nan, 7.0]])
TIMES = pd.date_range("2024-01-01", periods=3, freq="min")
FRAME = pd.DataFrame({"time": TIMES, "a": VALUES[:, 0], "b": VALUES[:, 1]})


def refusal(data: object, length: int | None = None) -> str:
    with pytest.raises(DataError) as caught:
        as_series(data, length)
    message = str(caught.value)
    assert message.endswith(".")
    assert "\n" not in message
    return message


@pytest.mark.parametrize("make", [lambda f: f, pl.from_pandas, lambda f: pa.Table.from_pandas(f)])
def test_frames_of_any_kind_give_the_same_series(make):
    (found,) = as_series(make(FRAME))
    np.testing.assert_array_equal(found.values, VALUES)
    assert found.names == ("a", "b")
    assert found.clock == Clock(TIMES[0].value, 60 * 10**9, dated=True)
    assert found.entity == "series"


@pytest.mark.parametrize("make", [lambda f: f, pl.from_pandas, lambda f: pa.Table.from_pandas(f)])
def test_frames_of_any_kind_keep_their_time_zone(make):
    (found,) = as_series(make(FRAME.assign(time=TIMES.tz_localize("Europe/Berlin"))))
    assert found.clock.timezone == "Europe/Berlin"
    assert str(found.clock.at([0])[0]) == "2024-01-01 00:00:00+01:00"


def test_an_arrow_table_keeps_the_index_of_the_frame_it_was():
    (found,) = as_series(pa.Table.from_pandas(FRAME.set_index("time").rename_axis(None)))
    assert found.names == ("a", "b")
    assert found.clock.start == TIMES[0].value


def test_polars_columns_of_any_type():
    data = pl.DataFrame(
        {
            "when": pl.Series([datetime.datetime(2024, 1, 1, hour) for hour in range(3)]).dt.cast_time_unit("ms"),
            "whole": [1, None, 3],
            "flag": [True, None, False],
            "text": ["1.5", "2.5", None],
        }
    )
    (found,) = as_series(data)
    np.testing.assert_array_equal(found.values, [[1, 1, 1.5], [np.nan, np.nan, 2.5], [3, 0, np.nan]])


def test_an_arrow_table_with_a_name_twice():
    assert "two columns of the same name" in refusal(pa.table([[1, 2], [3, 4]], names=["a", "a"]))


@pytest.mark.parametrize(
    "data",
    [
        [[1, 2], [3, 4]],
        ((1, 2), (3, 4)),
        np.array([[1, 2], [3, 4]], dtype=np.int16),
        np.array([[1, 2], [3, 4]], dtype=np.float16),
        np.array([[1, 2], [3, 4]], dtype=">f8"),
        np.array([[1, 2.0], [3, 4]], dtype=object),
        np.array([["1", "2"], ["3", "4"]]),
        torch.tensor([[1, 2], [3, 4]]),
        torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
    ],
)
def test_arrays_of_any_kind(data):
    (found,) = as_series(data)
    assert found.values.tolist() == [[1, 2], [3, 4]]
    assert found.values.dtype in (np.float32, np.float64)
    assert found.names == ("variable_0", "variable_1")
    assert found.clock == Clock()


def test_an_array_of_floats_is_not_copied():
    for kind in (np.float32, np.float64):
        array = np.ones((4, 2), dtype=kind)
        assert as_series(array)[0].values is array or as_series(array)[0].values.base is array
        assert np.shares_memory(as_series(array)[0].values, array)


def test_what_is_missing_in_an_array_is_nan():
    masked = np.ma.masked_greater(np.array([[1, 2], [3, 4]]), 3)
    np.testing.assert_array_equal(as_series(masked)[0].values, [[1, 2], [3, np.nan]])
    np.testing.assert_array_equal(as_series([[1, None], [3, 4]])[0].values, [[1, np.nan], [3, 4]])


def test_observations_of_the_right_length_follow_each_other():
    data = np.arange(24.0).reshape(2, 4, 3)
    for length in (4, None):
        (found,) = as_series(data, length)
        np.testing.assert_array_equal(found.values, data.reshape(8, 3))
    assert refusal(data, 5) == (
        "The data has observations of 4 time steps, but the detector's length is 5; use length=4, or pass the series "
        "as (time, variable)."
    )


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (np.zeros(5), "should have shape (time, variable) or (observation, time, variable), but has (5,)"),
        (np.zeros((1, 2, 3, 4)), "but has (1, 2, 3, 4)"),
        (pd.Series([1.0, 2.0]), "but has (2,)"),
        ([], "but has (0,)"),
        (None, "but has ()"),
        (3.5, "but has ()"),
        (np.zeros((0, 3)), "The data has no rows"),
        (np.zeros((0, 4, 0)), "The data has no rows"),
        (np.zeros((5, 0)), "The data has no variable; pass one column for each."),
        (np.array([[0, 0], [0, np.inf]]), "variable 1 is infinite at row 1; use NaN where nothing was measured"),
        ("history.csv", "is the text 'history.csv'; if it names a file, pass tsadc.read('history.csv')"),
        (Path("history.csv"), "is the text 'history.csv'"),
        ([[1, 2], [3]], "but is a list: setting an array element with a sequence"),
        ([["x", 2], [3, 4]], "but is a list: could not convert string to float: 'x'"),
        (np.array([[{}, 1]], dtype=object), "but is a ndarray"),
        ([[10**400, 1]], "but is a list: int too large to convert to float"),
        (np.array([[1j, 2]]), "but is a ndarray: its type is complex128"),
        (np.array([["2024-01-01"] * 2], dtype="datetime64[s]"), "but is a ndarray: its type is datetime64[s]"),
        (torch.ones(3, 2, requires_grad=True), "but is a Tensor: Can't call numpy() on Tensor that requires grad"),
        (torch.ones(3, 2, dtype=torch.bfloat16), "but is a Tensor: Got unsupported ScalarType BFloat16"),
        (pl.LazyFrame({"a": [1], "b": [2]}), "The data is a lazy data frame; collect it first."),
        ([FRAME, FRAME], "is a list of data frames; pass a dict that maps entity names to frames"),
        ({}, "should map entity names to series, but the mapping is empty"),
        ({"x": VALUES, "y": np.zeros(3)}, "The data of 'y' should have shape"),
        ({"x": FRAME.assign(a="?")[:0]}, "The data of 'x' has a header but no rows"),
        ({1: VALUES, "1": VALUES}, "Two series have the entity name '1'; give each series its own"),
        (pd.DataFrame({"a": [], "b": []}), "The data has a header but no rows"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_sentence(data, expected):
    assert expected in refusal(data)


def test_a_dict_names_its_entities():
    found = as_series({"x": FRAME, 7: VALUES, "z": Series(VALUES, ("p", "q"), entity="old name")})
    assert [one.entity for one in found] == ["x", "7", "z"]
    assert [one.names for one in found] == [("a", "b"), ("variable_0", "variable_1"), ("p", "q")]


def test_series_pass_through_unless_an_entity_comes_twice():
    one, two = (Series(VALUES, ("a", "b"), entity=entity) for entity in ("x", "y"))
    assert as_series(one) == (one,)
    assert as_series([one, two]) == (one, two)
    assert refusal((one, one)) == "Two series have the entity name 'x'; give each series its own."


def test_skipped_minutes_are_rows_of_nan():
    (found,) = as_series({"m": FRAME.drop(index=1).assign(time=[TIMES[0], TIMES[0] + pd.Timedelta("3min")])[:2]})
    assert len(found) == 2
    later = FRAME.assign(time=[TIMES[0], TIMES[1], TIMES[2] + pd.Timedelta("1min")])
    np.testing.assert_array_equal(as_series({"m": later})[0].values[:, 1], [5, 6, np.nan, 7])
