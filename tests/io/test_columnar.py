import contextlib
import re
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import feather, ipc

from tsadc.errors import DataError
from tsadc.io.read import read

TIMES = pd.date_range("2024-01-01", periods=50, freq="min", tz="Europe/Berlin")
FRAME = pd.DataFrame({"time": TIMES, "a": np.arange(50.0), "b": np.arange(50) % 7})


def write_stream(frame: pd.DataFrame, path) -> None:
    table = pa.Table.from_pandas(frame)
    with ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table)


WRITERS = {
    "feather.feather": lambda frame, path: frame.to_feather(path),
    "plain.feather": lambda frame, path: feather.write_feather(frame, path, compression="uncompressed"),
    "file.arrow": lambda frame, path: feather.write_feather(frame, path, compression="zstd"),
    "stream.arrow": write_stream,
    "parquet.parquet": lambda frame, path: frame.to_parquet(path),
}


def refusal(path) -> str:
    with pytest.raises(DataError) as caught:
        read(path)
    message = str(caught.value)
    assert str(path) in message
    assert message.endswith(".")
    assert "\n" not in message
    return message.replace(str(path), "PATH")


@pytest.mark.parametrize("name", WRITERS)
def test_files_of_columns_give_the_same_series(tmp_path, name):
    WRITERS[name](FRAME, tmp_path / name)
    (found,) = read(tmp_path / name)
    np.testing.assert_array_equal(found.values, FRAME[["a", "b"]].to_numpy())
    assert (found.names, found.entity) == (("a", "b"), name.split(".")[0])
    assert (found.clock.at(np.arange(50)) == TIMES).all()
    assert found.clock.timezone == "Europe/Berlin"


@pytest.mark.parametrize("name", ["stream.arrow", "parquet.parquet"])
def test_the_index_of_a_frame_is_its_clock(tmp_path, name):
    WRITERS[name](FRAME.set_index("time").rename_axis(None), tmp_path / name)
    assert read(tmp_path / name)[0].clock.start == TIMES[0].value


@pytest.mark.parametrize("name", WRITERS)
def test_files_that_end_too_early(tmp_path, name):
    path = tmp_path / name
    WRITERS[name](FRAME, path)
    content = path.read_bytes()
    for size in (0, 3, 8, len(content) // 2, len(content) - (20 if name == "stream.arrow" else 1)):
        path.write_bytes(content[:size])
        form = "Parquet" if name.endswith("parquet") else "Arrow"
        assert refusal(path).startswith(f"PATH is not a readable {form} file: ")


@pytest.mark.parametrize("name", WRITERS)
def test_too_many_columns_are_refused(tmp_path, name):
    WRITERS[name](pd.DataFrame(np.zeros((1, 10_001)), columns=[f"v{i}" for i in range(10_001)]), tmp_path / name)
    assert "PATH has more than 10000 columns" in refusal(tmp_path / name)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(st.data(), st.sampled_from(sorted(WRITERS)))
@pytest.mark.filterwarnings("ignore::tsadc.errors.TsadcNotice")
def test_damaged_files_are_read_or_refused(tmp_path, data, name):
    path = tmp_path / name
    WRITERS[name](FRAME.assign(site="x"), path)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    with contextlib.suppress(DataError):
        read(path)


@pytest.mark.parametrize(("name", "form"), [("parquet.parquet", "Parquet"), ("file.arrow", "Arrow")])
def test_without_pyarrow_the_package_to_install_is_named(tmp_path, monkeypatch, name, form):
    WRITERS[name](FRAME, tmp_path / name)
    for module in [module for module in sys.modules if module.split(".")[0] == "pyarrow"]:
        monkeypatch.setitem(sys.modules, module, None)
    assert refusal(tmp_path / name) == f"PATH is {form}, which needs one more package: pip install 'tsadc[parquet]'."


@pytest.mark.parametrize("name", ["packed.parquet", "packed.arrow", "packed.feather"])
def test_a_table_larger_than_memory_is_refused_before_it_is_read(tmp_path, monkeypatch, name):
    frame = pd.DataFrame({"a": np.zeros(2**20), "b": np.zeros(2**20)})
    WRITERS["parquet.parquet" if name.endswith("parquet") else "file.arrow"](frame, tmp_path / name)
    assert (tmp_path / name).stat().st_size < 2**17
    monkeypatch.setattr("tsadc.io.limits.available_memory", lambda: 48 * 2**20 - 1)
    assert re.search(r"needs 50\.3 MB of memory or more, but 50\.3 MB are available", refusal(tmp_path / name))
    monkeypatch.setattr("tsadc.io.limits.available_memory", lambda: 48 * 2**20)
    assert len(read(tmp_path / name)[0]) == 2**20


def test_a_long_text_that_a_dictionary_repeats_is_counted_as_often(tmp_path, monkeypatch):
    path = tmp_path / "texts.parquet"
    pd.DataFrame({"a": np.arange(1000.0), "site": ["x" * 100_000] * 1000}).to_parquet(path)
    assert path.stat().st_size < 2**17
    for module in ("limits", "columnar"):
        monkeypatch.setattr(f"tsadc.io.{module}.available_memory", lambda: 200_000_000)
    assert re.search(r"needs 2\d\d\.\d MB of memory or more, but 200\.0 MB are available", refusal(path))
