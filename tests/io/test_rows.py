import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tsadc.errors import DataError
from tsadc.io import rows as module
from tsadc.io.rows import NpyRows, ParquetRows, Runs
from tsadc.series import Observations, Place, Series

reuse = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
NAMES = ["a", "b.c", "d"]


def matrix(rows: int, columns: int = 3) -> np.ndarray:
    values = np.random.default_rng(rows).normal(size=(rows, columns))
    values[values > 1.5] = np.nan
    return values


def write_parquet(path, values, group: int, dictionary: bool = True) -> None:
    columns = [pa.array(column, from_pandas=True) for column in values.T]  # NaN is written as null
    pq.write_table(pa.table(columns, names=NAMES), path, row_group_size=group, use_dictionary=dictionary)


def kept() -> int:
    """Bytes of decoded values in memory, of all files."""
    return sum(values.nbytes for values in module.BLOCKS.blocks.values())


def slow_runs(grid: list[int], lengths: list[int], values: np.ndarray, rows: int) -> np.ndarray:
    out = np.full((rows, values.shape[1]), np.nan)
    done = 0
    for start, length in zip(grid, lengths, strict=True):
        out[start : start + length] = values[done : done + length]
        done += length
    return out


@reuse
@given(st.data(), st.integers(1, 60), st.integers(1, 70), st.integers(1, 9), st.booleans())
def test_rows_of_a_parquet_file_against_the_whole_array(tmp_path, data, count, group, block, dictionary):
    values = matrix(count)
    path = tmp_path / "x.parquet"
    write_parquet(path, values, group, dictionary)
    lengths, left = [], count
    while left:
        lengths.append(data.draw(st.integers(1, left)))
        left -= lengths[-1]
    gaps = [0, *(data.draw(st.integers(1, 9)) for _ in lengths[1:])]
    grid = (np.cumsum(gaps) + np.cumsum([0, *lengths[:-1]])).tolist()
    file = np.cumsum([0, *lengths[:-1]]).tolist()
    whole = slow_runs(grid, lengths, values, grid[-1] + lengths[-1])
    rows = ParquetRows(path, NAMES, Runs(grid, file, len(whole), count), np.dtype(np.float64))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK", block * 24)
        patch.setattr(module, "CACHE", 4 * block * 24)
        for _ in range(5):
            first, last = sorted(data.draw(st.tuples(*[st.integers(-3, len(whole) + 3)] * 2)))
            np.testing.assert_array_equal(rows[first:last], whole[first:last])
        np.testing.assert_array_equal(np.asarray(rows), whole)
        assert kept() <= 4 * block * 24


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["<f8", ">f4", "<f2"])
def test_they_index_like_arrays(tmp_path, order, kind):
    values = np.asarray(matrix(40), dtype=kind, order=order)
    np.save(tmp_path / "x.npy", values)
    write_parquet(tmp_path / "x.parquet", matrix(40), 16)
    for rows, whole in (
        (NpyRows(tmp_path / "x.npy", np.load(tmp_path / "x.npy", mmap_mode="r"), [0, 1, 2]), values),
        (ParquetRows(tmp_path / "x.parquet", NAMES, Runs.whole(40), np.dtype(np.float64)), matrix(40)),
    ):
        assert (len(rows), rows.shape, rows.ndim, rows.size) == (40, (40, 3), 2, 120)
        assert rows.dtype == whole.dtype.newbyteorder("=")
        for key in (
            slice(5, 30),
            slice(None),
            slice(38, 99),
            slice(-4, None),
            slice(20, 10),
            (slice(3, 9), 1),
            (slice(3, 9), [2, 0]),
            (slice(None), 2),
            7,
            -1,
            (7, 1),
        ):
            np.testing.assert_array_equal(rows[key], whole[key])
        picked = rows[:, [2, 0]]
        assert type(picked) is type(rows)
        np.testing.assert_array_equal(picked[10:20], whole[10:20, [2, 0]])
        np.testing.assert_array_equal(picked[:, [1]][10:20], whole[10:20, [0]])
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(rows))[5:9], whole[5:9])
        with pytest.raises(IndexError, match="with a step of 1"):
            rows[::2]


def test_numbers_of_any_type_become_floats(tmp_path):
    table = pa.table({"i": pa.array([1, None, 3]), "b": [True, False, None], "f": pa.array([1, 2, 3], pa.float32())})
    pq.write_table(table, tmp_path / "x.parquet")
    rows = ParquetRows(tmp_path / "x.parquet", ["i", "b", "f"], Runs.whole(3), np.dtype(np.float64))
    np.testing.assert_array_equal(rows[:], [[1, 1, 1], [np.nan, 0, 2], [3, np.nan, 3]])


def test_observations_read_them_as_they_read_arrays(tmp_path):
    write_parquet(tmp_path / "x.parquet", matrix(50), 20)
    rows = ParquetRows(tmp_path / "x.parquet", NAMES, Runs.whole(50), np.dtype(np.float64))
    places = tuple(Place(0, start) for start in range(-5, 50, 10))
    lazy, whole = (Observations((Series(v, tuple(NAMES)),), places, 10) for v in (rows, matrix(50)))
    np.testing.assert_array_equal(lazy.batch(range(6)), whole.batch(range(6)))
    assert [lazy.coverage(i) for i in range(6)] == [whole.coverage(i) for i in range(6)]


def test_going_on_decodes_every_row_once(tmp_path, monkeypatch):
    write_parquet(tmp_path / "x.parquet", matrix(100), 50)
    monkeypatch.setattr(module, "BLOCK", 10 * 24)
    monkeypatch.setattr(module, "CACHE", 20 * 24)
    rows = ParquetRows(tmp_path / "x.parquet", NAMES, Runs.whole(100), np.dtype(np.float64))
    decoded = []
    numbers = rows._numbers
    monkeypatch.setattr(rows, "_numbers", lambda batch: decoded.append(batch.num_rows) or numbers(batch))
    for first in range(0, 100, 7):
        rows[first : first + 7]
    assert decoded == [10] * 10


def test_many_files_keep_no_more_than_one(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 10 * 24)
    monkeypatch.setattr(module, "CACHE", 40 * 24)
    many = []
    for i in range(12):
        write_parquet(tmp_path / f"{i}.parquet", matrix(50 + i), 20)
        many.append(ParquetRows(tmp_path / f"{i}.parquet", NAMES, Runs.whole(50 + i), np.dtype(np.float64)))
    before = {file.resolve() for file in Path("/proc/self/fd").iterdir()} if Path("/proc/self/fd").exists() else set()
    for first in (0, 13, 31):  # in turns, so that each file is left in the middle and gone on with
        for i, rows in enumerate(many):
            np.testing.assert_array_equal(rows[first : first + 17], matrix(50 + i)[first : first + 17])
            assert kept() <= 40 * 24
    if before:
        opened = {file.resolve() for file in Path("/proc/self/fd").iterdir()} - before
        assert len([file for file in opened if file.suffix == ".parquet"]) == 1


def test_columns_of_one_file_are_told_apart(tmp_path):
    write_parquet(tmp_path / "x.parquet", matrix(30), 10)
    rows = ParquetRows(tmp_path / "x.parquet", NAMES, Runs.whole(30), np.dtype(np.float64))
    other = rows[:, [2]]
    for first in (0, 12, 5):
        np.testing.assert_array_equal(rows[first : first + 9], matrix(30)[first : first + 9])
        np.testing.assert_array_equal(other[first : first + 9], matrix(30)[first : first + 9, [2]])


def test_threads_may_read_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 10 * 24)
    monkeypatch.setattr(module, "CACHE", 20 * 24)
    write_parquet(tmp_path / "x.parquet", matrix(200), 50)
    rows = ParquetRows(tmp_path / "x.parquet", NAMES, Runs.whole(200), np.dtype(np.float64))
    places = np.random.default_rng(0).integers(0, 190, size=80)
    with ThreadPoolExecutor(4) as pool:
        for first, read in zip(places, pool.map(lambda first: rows[first : first + 10], places), strict=True):
            np.testing.assert_array_equal(read, matrix(200)[first : first + 10])


def test_infinite_values_are_named_when_they_are_met(tmp_path):
    values = matrix(10)
    values[7, 1] = np.inf
    np.save(tmp_path / "x.npy", values)
    rows = NpyRows(tmp_path / "x.npy", np.load(tmp_path / "x.npy", mmap_mode="r"), [0, 1, 2])
    assert len(rows[:7]) == 7
    with pytest.raises(DataError, match=r"x\.npy: variable 1 is infinite at row 7; use NaN"):
        rows[5:]


def test_a_file_that_changes_or_vanishes_under_way(tmp_path):
    np.save(tmp_path / "x.npy", matrix(10))
    rows = NpyRows(tmp_path / "x.npy", np.load(tmp_path / "x.npy", mmap_mode="r"), [0, 1, 2])
    content = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "x.npy").write_bytes(content[:-24])
    with pytest.raises(DataError, match=r"x\.npy became shorter while it was being read"):
        rows[:]
    (tmp_path / "x.npy").unlink()
    with pytest.raises(DataError, match=r"x\.npy can no longer be read: No such file"):
        rows[:]
    lost = ParquetRows(tmp_path / "x.parquet", NAMES, Runs.whole(10), np.dtype(np.float64))
    with pytest.raises(DataError, match=r"x\.parquet can no longer be read"):
        lost[:]


def test_a_parquet_file_that_lost_rows_is_refused_with_a_reason(tmp_path):
    """pyarrow then has no more batches, an error without a message."""
    rows = ParquetRows(tmp_path / "x.parquet", NAMES, Runs.whole(10), np.dtype(np.float64))
    with pytest.raises(DataError, match=r"x\.parquet can no longer be read: it is empty, cut off or damaged\.$"):
        rows._try(lambda: next(iter(())))
