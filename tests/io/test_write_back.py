"""Changes go back into the user's data: the requested cells change, and nothing else does, to the byte."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tsadc.errors import DataError
from tsadc.io.memory import as_series
from tsadc.io.write_back import Changes, write_back
from tsadc.series import Booleans, Floats, Series

pytestmark = pytest.mark.filterwarnings("ignore::tsadc.errors.TsadcNotice")  # columns of text are left out
ROWS = 30
DTYPES: list[Any] = [
    "float64",
    "float32",
    "int64",
    "int16",
    "uint8",
    "bool",
    "Float64",
    "Int64",
    "boolean",
    "float64[pyarrow]",
]


def changed(data: Any, cells: Booleans, value: float = 7.25, *, drop: bool = False) -> Any:
    """Write the value into the cells (time, variable) of the only series of `data`."""
    [series] = as_series(data)
    dropped = np.asarray(cells.any(axis=1)) & drop
    return write_back(data, [Changes(series, cells, np.full(cells.shape, value), dropped)])


def as_bytes(column: pd.Series) -> list[Any]:
    """The cells of a column, with their bits if they are floats."""
    if isinstance(column.dtype, np.dtype) and column.dtype.kind == "f":
        bits = column.to_numpy().view(f"u{column.dtype.itemsize}")
        return [int(bit) for bit in bits]
    return [None if cell is pd.NA else cell for cell in column.array]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_cells_that_do_not_change_are_the_same_to_the_byte(data: st.DataObject) -> None:
    dtypes = data.draw(st.lists(st.sampled_from(DTYPES), min_size=1, max_size=4))
    generator = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    frame = pd.DataFrame(index=data.draw(st.sampled_from([pd.RangeIndex(ROWS), pd.Index(range(5, 5 + ROWS))])))
    frame["note"] = [f"n{i % 3}" for i in range(ROWS)]
    for k, dtype in enumerate(dtypes):
        values = generator.integers(0, 2, ROWS) if "bool" in dtype else generator.integers(0, 100, ROWS) + k % 2
        column = pd.Series(values, index=frame.index).astype(dtype)
        if dtype in ("float64", "float32"):
            column[generator.random(ROWS) < 0.1] = np.nan
        elif dtype[0] in "FI" or "[" in dtype or dtype == "boolean":
            column[generator.random(ROWS) < 0.1] = pd.NA
        frame[f"v{k}"] = column
    before = frame.copy(deep=True)
    cells = generator.random((ROWS, len(dtypes))) < 0.2
    new = changed(frame, cells, 1.0)
    pd.testing.assert_frame_equal(frame, before)  # the input stays as it is
    assert list(new.dtypes) == list(frame.dtypes)
    assert new.index.equals(frame.index)
    assert as_bytes(new["note"]) == as_bytes(frame["note"])
    for k in range(len(dtypes)):
        old_cells, new_cells = as_bytes(frame[f"v{k}"]), as_bytes(new[f"v{k}"])
        measured = frame[f"v{k}"].notna().to_numpy()
        for row in range(ROWS):
            if cells[row, k] and measured[row]:
                assert new[f"v{k}"].iloc[row] == 1
            else:
                assert new_cells[row] == old_cells[row]


def cell(rows: int, columns: int, *places: tuple[int, int]) -> Booleans:
    cells = np.zeros((rows, columns), dtype=bool)
    for place in places:
        cells[place] = True
    return cells


@pytest.mark.parametrize("shape", [(12, 2), (3, 4, 2)])
def test_an_array_keeps_shape_and_type(shape: tuple[int, ...]) -> None:
    values: Floats = np.arange(24, dtype=np.float32).reshape(shape)
    new = changed(values, cell(12, 2, (5, 1)))
    assert new.dtype == np.float32
    assert new.shape == shape
    assert new.reshape(12, 2)[5, 1] == 7.25
    assert (new != values).sum() == 1
    whole = changed(values.astype(np.int32), cell(12, 2, (5, 1)))
    assert whole.dtype == np.int32
    assert whole.reshape(12, 2)[5, 1] == 7


def test_dropping_leaves_out_rows_and_observations() -> None:
    values = np.arange(24.0).reshape(12, 2)
    frame = pd.DataFrame(values, columns=["a", "b"], index=pd.date_range("2024", periods=12, freq="1min"))
    cells = cell(12, 2, (5, 1), (7, 0))
    assert changed(values, cells, drop=True).tolist() == np.delete(values, [5, 7], axis=0).tolist()
    pd.testing.assert_frame_equal(changed(frame, cells, drop=True), frame.drop(frame.index[[5, 7]]))
    assert changed(values.reshape(3, 4, 2), cells, drop=True).tolist() == values.reshape(3, 4, 2)[[0, 2]].tolist()
    series = changed(Series(values, ("a", "b")), cells, drop=True)
    assert np.isnan(series.values).all(axis=1).nonzero()[0].tolist() == [5, 7]  # the clock stays regular


def test_times_put_rows_in_their_place() -> None:
    times = pd.date_range("2024", periods=12, freq="1min").delete([3, 4])  # the series has these rows as NaN
    frame = pd.DataFrame({"time": times, "a": np.arange(10.0), "b": 1})
    new = changed(frame, cell(12, 2, (5, 0), (4, 1)))
    assert new["a"].tolist() == [0.0, 1.0, 2.0, 7.25, *range(4, 10)]
    assert new["b"].tolist() == [1] * 10
    assert list(new["time"]) == list(times)


def test_other_libraries_and_dicts_of_entities() -> None:
    table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [0.5, None, 1.5, 2.5], "tag": ["x", "y", "z", "x"]})
    new = changed(table, cell(4, 2, (1, 0), (3, 1), (1, 1)))
    assert isinstance(new, pl.DataFrame)
    assert new.schema == table.schema
    assert new.to_dict(as_series=False) == {"a": [1, 7, 3, 4], "b": [0.5, None, 1.5, 7.25], "tag": ["x", "y", "z", "x"]}
    assert len(changed(table, cell(4, 2, (1, 0)), drop=True)) == 3
    arrow = changed(pa.table({"a": [1.0, 2.0]}), cell(2, 1, (1, 0)))
    assert isinstance(arrow, pa.Table)
    assert arrow.to_pydict() == {"a": [1.0, 7.25]}
    entities = {"p": np.zeros((4, 1)), "q": np.ones((4, 1))}
    series = as_series(entities)
    changes = [
        Changes(own, cell(4, 1, (i, 0)), np.full((4, 1), 9.0), np.zeros(4, dtype=bool)) for i, own in enumerate(series)
    ]
    new = write_back(entities, changes)
    assert {name: values.ravel().tolist() for name, values in new.items()} == {"p": [9, 0, 0, 0], "q": [1, 9, 1, 1]}


def test_text_numbers_stay_text() -> None:
    frame = pd.DataFrame({"a": pd.Series(["1.5", "2.5", "3.5"], dtype=object), "b": [1.0, 2.0, 3.0]})
    assert changed(frame, cell(3, 2, (1, 0)))["a"].tolist() == ["1.5", "7.25", "3.5"]


def test_whole_numbers_cannot_be_missing() -> None:
    frame = pd.DataFrame({"a": [1, 2, 3], "b": [1.0, 2.0, 3.0]})
    with pytest.raises(DataError, match="Column 'a' has the type int64, which cannot hold a missing value; use fill="):
        changed(frame, cell(3, 2, (1, 0)), np.nan)
    nullable = changed(frame.astype({"a": "Int64"}), cell(3, 2, (1, 0)), np.nan)
    assert nullable["a"].isna().tolist() == [False, True, False]
    assert nullable["a"].dtype == "Int64"


def test_what_cannot_be_changed_cell_by_cell_is_refused() -> None:
    xarray = pytest.importorskip("xarray")
    array = xarray.DataArray(np.zeros((5, 2)), dims=("time", "variable"))
    with pytest.raises(DataError, match="A DataArray cannot be changed cell by cell; pass a data frame or an array"):
        changed(array, cell(5, 2, (1, 0)))
