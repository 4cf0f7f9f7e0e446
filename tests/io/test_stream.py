import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tsadc.errors import DataError, TsadcNotice
from tsadc.io import stream as module
from tsadc.io.memory import as_series
from tsadc.io.read import read
from tsadc.io.reading import Reading
from tsadc.io.rows import NpyRows, ParquetRows
from tsadc.scale import Scaler

STREAM = Reading(stream=True)
TIMES = pd.date_range("2024-01-01", periods=100, freq="min", tz="Europe/Berlin")
VALUES = np.random.default_rng(0).normal(size=(100, 2))


def frame(rows: object = slice(None), **more: object) -> pd.DataFrame:
    return pd.DataFrame({"time": TIMES, "a": VALUES[:, 0], "b": VALUES[:, 1], **more}).iloc[rows]


def write(folder: Path, data: pd.DataFrame, **options: object) -> Path:
    path = folder / "pump.parquet"
    data.to_parquet(path, **{"row_group_size": 16, "index": False} | options)
    return path


def same(path: Path, **settings: object) -> tuple:
    """A streamed file is what the file read whole is."""
    (lazy,), (whole,) = read(path, Reading(stream=True, **settings)), read(path, Reading(**settings))
    assert (lazy.names, lazy.clock, lazy.entity, len(lazy)) == (whole.names, whole.clock, whole.entity, len(whole))
    np.testing.assert_array_equal(np.asarray(lazy.values), whole.values)
    return lazy, whole


def test_a_parquet_file_stays_on_disk(tmp_path):
    lazy, _ = same(write(tmp_path, frame()))
    assert isinstance(lazy.values, ParquetRows)
    assert lazy.clock.timezone == "Europe/Berlin"


@pytest.mark.parametrize(
    "make",
    [
        lambda: frame([i for i in range(100) if i not in (3, 4, 5, 40, 98)]),  # gaps
        lambda: frame().assign(time=TIMES + pd.to_timedelta(np.arange(100) % 3, unit="s")),  # jitter
        lambda: frame().assign(time=TIMES.as_unit("s").asi8),
        lambda: frame().drop(columns="time"),
        lambda: frame().drop(columns="time").assign(b=range(100), c=np.float32(1), d=True),
        lambda: frame()[["b", "time", "a"]],
    ],
)
def test_clocks_and_columns_of_many_kinds(tmp_path, make):
    same(write(tmp_path, make()))


def test_the_index_of_a_frame_is_no_variable(tmp_path):
    same(write(tmp_path, frame().set_index("time"), index=None))
    same(write(tmp_path, frame().set_index("time").rename_axis(None), index=None))
    same(write(tmp_path, frame(slice(None, None, 2)), index=True))


def test_columns_are_picked_and_renamed(tmp_path):
    path = write(tmp_path, frame(site="x", c=2.0))
    lazy, _ = same(path, columns=("b", "a"), rename={"a": "heat"})
    assert lazy.names == ("b", "heat")
    same(path, columns=("c", "a"), time="time")
    same(path, columns=("time", "c", "a"), time="time")


def test_names_are_stripped_alike(tmp_path):
    path = write(tmp_path, frame(c=2.0).rename(columns={"a": " a", "time": "time ", "c": " step "}))
    lazy, _ = same(path)
    assert lazy.names == ("a", "b", "step")
    same(path, columns=("b", "a"), time="time")


@pytest.mark.parametrize("name", ["step", "t"])
def test_a_column_that_stops_counting_is_a_variable(tmp_path, name):
    counting = np.arange(3000.0)
    data = pd.DataFrame({name: counting, "a": counting % 7, "b": counting % 5})
    assert same(write(tmp_path, data))[0].names == ("a", "b")
    data.loc[2900:, name] = 0.0
    assert same(write(tmp_path, data))[0].names == (name, "a", "b")


def test_a_clock_that_stops_being_even_is_refused_alike(tmp_path):
    times = np.append(np.arange(2000.0), [2003.0, 2004.0])
    path = write(tmp_path, pd.DataFrame({"t": times, "a": times % 7, "b": times % 5}))
    assert "PATH: the time column 't' holds numbers that are neither evenly spaced" in refusal(path)
    assert refusal(path, Reading()) == refusal(path)


def test_observations_that_follow_each_other_are_streamed(tmp_path):
    cube = np.random.default_rng(0).normal(size=(5, 20, 2)).astype(np.float32)
    np.save(tmp_path / "pump.npy", cube)
    lazy, whole = same(tmp_path / "pump.npy")
    assert isinstance(lazy.values, NpyRows)
    assert lazy.observation == whole.observation == 20
    with pytest.raises(
        DataError, match=r"'pump' holds observations of 20 rows, .* the length is 25; fit with --length 20"
    ):
        as_series(lazy, 25)
    np.save(tmp_path / "turned.npy", np.asfortranarray(cube))
    assert "(5, 20, 2) in Fortran order; read it without --stream" in refusal(tmp_path / "turned.npy")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
@given(st.sets(st.integers(0, 99), max_size=40), st.integers(1, 120))
def test_gaps_anywhere_are_rows_that_were_not_observed(tmp_path, skipped, group):
    kept = [0, 1, 2, *(i for i in range(3, 100) if i not in skipped)]
    # With most rows there, the commonest step is the interval.
    if (np.diff(kept) > 1).sum() * 2 >= len(kept) - 1:
        return
    same(write(tmp_path, frame(kept), row_group_size=group))


def test_the_clock_is_checked_piece_by_piece():
    def pieces(times, size):
        return (times[i : i + size] for i in range(0, len(times), size))

    times = pd.DatetimeIndex(TIMES.delete([50, 51, 77]))
    clock, runs = module.stream_clock(pieces(times, 10), "The data")
    assert (clock.start, clock.interval) == (TIMES[0].value, 60 * 10**9)
    assert (runs.grid.tolist(), runs.file.tolist(), runs.rows) == ([0, 52, 78], [0, 50, 75], 100)
    for wrong in (
        times[:30].append(times[20:]),
        times[:30].append(times[29:]),
        times.insert(35, TIMES[35] - pd.Timedelta("20s")),
    ):
        with pytest.raises(
            DataError,
            match=r"The data cannot be streamed, because row 3\d \(2024.*of every 1min; read it without",
        ):
            module.stream_clock(pieces(wrong, 10), "The data")


def refusal(path: Path, reading: Reading = STREAM) -> str:
    with pytest.raises(DataError) as caught:
        read(path, reading)
    message = str(caught.value)
    assert message.endswith((".", "?"))
    assert str(path) in message
    return message.replace(str(path), "PATH")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (frame(site="x"), "PATH cannot be streamed, because column 'site' holds"),
        (
            frame().assign(time=TIMES.astype(str)),
            "because its time column 'time' does not hold timestamps",
        ),
        (frame([0, 1, 3, 2]), "its rows are not sorted by time, each time once"),
        (frame([0]), "its rows are not sorted by time, each time once"),
        (frame(slice(0, 0)), "PATH has no rows"),
        (frame()[["time"]], "PATH has no column of numbers besides the time"),
        (frame().assign(time=[*TIMES[:99], TIMES[0] + pd.Timedelta("400D")]), "in a span of 576001 time steps"),
    ],
)
def test_what_cannot_be_streamed_is_refused(tmp_path, data, expected):
    assert expected in refusal(write(tmp_path, data))


def test_other_files_and_settings(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    assert "PATH cannot be streamed, because only .npy and .parquet files can" in refusal(tmp_path / "a.csv")
    path = write(tmp_path, frame())
    assert "PATH has no column 'tiem'; did you mean `time`" in refusal(path, Reading(stream=True, time="tiem"))
    path.write_bytes(path.read_bytes()[:-10])
    assert "PATH is not a readable Parquet file" in refusal(path)
    table = pa.table([[1.0], [2.0]], names=["a", "a"])
    pq.write_table(table, path)
    assert "two columns of the same name" in refusal(path)


@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_stays_on_disk(tmp_path, order):
    np.save(tmp_path / "pump.npy", np.asarray(VALUES, order=order))
    lazy, _ = same(tmp_path / "pump.npy")
    assert isinstance(lazy.values, NpyRows)
    same(tmp_path / "pump.npy", columns=("variable_1", "variable_0"))


@pytest.mark.parametrize("values", [np.zeros((2, 4, 5, 2)), np.zeros((4, 2), dtype=int), np.zeros(4)])
def test_arrays_that_cannot_be_streamed(tmp_path, values):
    np.save(tmp_path / "pump.npy", values)
    assert "should hold floats of shape (time, variable), or (observation, time, variable) in C order" in refusal(
        tmp_path / "pump.npy"
    )


def test_large_row_groups_are_said_to_be_slow(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SLOW_ROW_GROUP", 100)
    with pytest.warns(TsadcNotice, match="has row groups of up to 16 rows"):
        read(write(tmp_path, frame()), STREAM)


def test_statistics_are_those_of_the_array(tmp_path):
    path = write(tmp_path, frame([i for i in range(100) if i % 7 != 5]))
    (lazy,), (whole,) = read(path, STREAM), read(path)
    assert Scaler.fit([lazy], Scaler.Config()).to_mapping() == Scaler.fit([whole], Scaler.Config()).to_mapping()


PASS = """
import sys
import numpy as np, pandas as pd, pyarrow.parquet
from tsadc.detectors.provenance import describe, provenance
from tsadc.io.memory import as_series
from tsadc.io.reading import Reading
from tsadc.io.read import read
from tsadc.scale import Scaler
from tsadc.windows import cut

def peak():
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024

before = peak()
series = read(sys.argv[1], Reading(stream=True))
scaler = Scaler.fit(series, Scaler.Config())
observations = cut(series, 600).observations.scaled(scaler)
provenance("any", describe(observations))
total = sum(float(np.nansum(np.abs(observations.read(i)))) for i in range(len(observations)))
print(peak() - before, len(observations), total)
"""


def write_large(path: Path, groups: int) -> None:
    rng, rows = np.random.default_rng(0), 65536
    schema = pa.schema([("time", pa.timestamp("s")), *((f"v{i}", pa.float64()) for i in range(20))])
    with pq.ParquetWriter(path, schema, use_dictionary=False, compression="none") as writer:
        for group in range(groups):
            times = pa.array(np.arange(group * rows, (group + 1) * rows), pa.int64()).cast(pa.timestamp("s"))
            writer.write_table(pa.table([times, *rng.normal(size=(20, rows))], schema=schema), row_group_size=rows)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of memory is told by /proc")
def test_a_file_is_normalised_and_cut_in_much_less_memory_than_it_has(tmp_path):
    write_large(tmp_path / "plant.parquet", 20)
    assert (tmp_path / "plant.parquet").stat().st_size > 200 * 2**20
    done = subprocess.run(
        [sys.executable, "-c", PASS, str(tmp_path / "plant.parquet")], capture_output=True, text=True, check=True
    )
    megabytes, observations, total = done.stdout.split()
    assert float(megabytes) < 100
    assert int(observations) == 2185
    # The mean size of a normal deviate, scaled by an IQR and measured over 26 million of them.
    assert float(total) / (20 * 20 * 65536) == pytest.approx(np.sqrt(2 / np.pi), rel=0.01)
