import contextlib
import gzip
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tsadc.errors import DataError
from tsadc.io.read import read
from tsadc.io.reading import Reading

TEXT = "time,a,b\n2024-01-01 00:00,1,2.5\n2024-01-01 00:01,3,\n2024-01-01 00:02,5,6\n"
VALUES = np.array([[1, 2.5], [3, np.nan], [5, 6]])


def refusal(path) -> str:
    with pytest.raises(DataError) as caught:
        read(path)
    message = str(caught.value)
    assert str(path) in message
    assert message.endswith(".")
    return message.replace(str(path), "PATH")


@pytest.mark.parametrize("pieces", [1, 2])
@pytest.mark.parametrize("name", ["pump.tsv", "pump.csv.gz", "pump.CSV.GZ", "pump.tsv.gz"])
def test_tabs_and_compression(tmp_path, name, pieces):
    text = (TEXT.replace(",", "\t") if ".tsv" in name else TEXT).encode("utf-8-sig" if pieces == 1 else "utf-8")
    parts = [text[:30], text[30:]] if pieces == 2 else [text]
    (tmp_path / name).write_bytes(b"".join(gzip.compress(part) if "z" in name.lower() else part for part in parts))
    (found,) = read(tmp_path / name)
    np.testing.assert_array_equal(found.values, VALUES)
    assert (found.entity, found.names) == ("pump", ("a", "b"))


def test_in_a_tsv_file_only_tabs_separate(tmp_path):
    (tmp_path / "pump.tsv").write_text("heat, C\tflow, l/s, cold\n1\t2\n3\t4\n")
    assert read(tmp_path / "pump.tsv")[0].names == ("heat, C", "flow, l/s, cold")


def test_a_file_that_was_cut_off_while_compressed(tmp_path):
    content = gzip.compress(("a,b\n" + "".join(f"{i},{i * i}\n" for i in range(50_000))).encode())
    path = tmp_path / "pump.csv.gz"
    for size in (1, 5, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        assert refusal(path).startswith("PATH is not a complete gzip file: ")
    path.write_text(TEXT)
    assert refusal(path) == "PATH is not a complete gzip file: Not a gzipped file (b'ti')."
    path.write_bytes(b"")
    assert refusal(path) == "PATH is empty, but a header and rows of numbers were expected."


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
@given(st.data())
def test_damaged_compression_is_read_or_refused(tmp_path, data):
    content = bytearray(gzip.compress(TEXT.encode()))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "pump.csv.gz"
    path.write_bytes(content)
    with contextlib.suppress(DataError):
        read(path)


def test_a_million_columns_are_refused_at_once(tmp_path):
    header = ",".join(f"v{i}" for i in range(10**6))
    path = tmp_path / "wide.csv"
    path.write_text(f"{header}\n{'0,' * (10**6 - 1)}0\n")
    began = time.perf_counter()
    assert refusal(path) == (
        "PATH has more than 10000 columns, which is more variables than can be modelled; transpose it if its rows "
        "are the variables."
    )
    assert time.perf_counter() - began < 1


def test_a_wide_table_is_read(tmp_path):
    names = [f"variable with quite a long name, number {i}" for i in range(3000)]
    path = tmp_path / "wide.csv"
    path.write_text(",".join(f'"{name}"' for name in names) + "\n" + "\n".join([",".join(["1"] * 3000)] * 2) + "\n")
    assert read(path)[0].names == tuple(names)


def test_the_entity_of_a_compressed_file_is_text_too(tmp_path):
    path = tmp_path / "all.csv.gz"
    path.write_bytes(gzip.compress(b"a, host,b\n1,01,2\n3,1,4\n"))
    assert [one.entity for one in read(path, Reading(entity="host"))] == ["01", "1"]
