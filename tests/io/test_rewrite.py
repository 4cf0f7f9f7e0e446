"""Files are written again with some cells changed, and all other bytes as they were."""

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tsadc
from tsadc.errors import DataError
from tsadc.io.rewrite import check_rewritable, rewrite, sources
from tsadc.io.write_back import Changes

TABLE = """# logger 7; version 2
time;flow;note;level
2024-01-01 00:00;"1,50";start;10
2024-01-01 00:01;2,25;"a; b";20

2024-01-01 00:02; 3,125;;30
2024-01-01 00:03;-4,5;;NaN
2024-01-01 00:04;5,0;end;50\r
"""
pytestmark = pytest.mark.filterwarnings("ignore::tsadc.errors.TsadcNotice")


def changed(
    file: Path, out: Path, places: dict[tuple[str, int, int], float], dropped: tuple[int, ...] = (), **reading: str
) -> None:
    """Write new values by (entity, row, variable), without the rows `dropped` of the first entity."""
    options = tsadc.Reading(**reading)  # type: ignore[arg-type]
    changes = {}
    for number, series in enumerate(tsadc.read(file, options)):
        cells, values = np.zeros(series.values.shape, dtype=bool), np.full(series.values.shape, np.nan)
        for (entity, row, variable), value in places.items():
            if entity == series.entity:
                cells[row, variable], values[row, variable] = True, value
        rows = np.isin(np.arange(len(series)), dropped if number == 0 else ())
        changes[series.entity] = Changes(series, cells, values, rows)
    for source in sources([file], options, changes):
        rewrite(source, out, options)


def test_a_text_file_keeps_every_other_character(tmp_path: Path) -> None:
    file, out = tmp_path / "pump.csv", tmp_path / "out.csv"
    file.write_bytes(TABLE.encode("cp1252"))
    places = {("pump", 0, 0): 7.123, ("pump", 2, 0): 8.0, ("pump", 1, 1): 21.4, ("pump", 3, 0): np.nan}
    changed(file, out, places | {("pump", 3, 1): 99.0})  # which was not measured, and stays so
    expected = TABLE.replace('"1,50"', '"7,123"').replace(" 3,125", " 8,000").replace(";20\n", ";21\n")
    assert out.read_bytes() == expected.replace("-4,5", "").encode("cp1252")


def test_a_missing_value_of_the_only_column_is_no_empty_line(tmp_path: Path) -> None:
    file, out = tmp_path / "pump.csv", tmp_path / "out.csv"
    file.write_text("flow\n1.5\n2.5\n3.5\n")
    changed(file, out, {("pump", 1, 0): np.nan})
    assert out.read_text() == "flow\n1.5\nNaN\n3.5\n"


def test_rows_are_dropped_with_their_lines(tmp_path: Path) -> None:
    file, out = tmp_path / "pump.csv", tmp_path / "out.csv"
    file.write_text(TABLE, newline="")
    changed(file, out, {}, dropped=(1, 4))
    kept = [line for line in TABLE.splitlines(keepends=True) if "00:01" not in line and "00:04" not in line]
    assert out.read_bytes().decode() == "".join(kept)


def test_a_compressed_file_with_entities_and_a_mark(tmp_path: Path) -> None:
    rows = [f"{name},2024-01-01 00:0{i},{i}.5" for i in range(5) for name in ("p", "q")]
    text = "\ufeffmachine,time,flow\r\n" + "\r\n".join(rows) + "\r\n"
    file, out = tmp_path / "all.csv.gz", tmp_path / "out.csv.gz"
    file.write_bytes(gzip.compress(text.encode()))
    changed(file, out, {("q", 3, 0): 7.25}, entity="machine")
    assert gzip.decompress(out.read_bytes()).decode() == text.replace(
        "q,2024-01-01 00:03,3.5", "q,2024-01-01 00:03,7.2"
    )


def test_parquet_keeps_its_schema(tmp_path: Path) -> None:
    times = pd.date_range("2024", periods=6, freq="1min")
    table = pa.table(
        {
            "time": times,
            "flow": pa.array([1.0, 2.0, None, 4.0, 5.0, 6.0], pa.float32()),
            "count": pa.array(range(6), pa.int16()),
        },
        metadata={"site": "north"},
    )
    file, out = tmp_path / "pump.parquet", tmp_path / "out.parquet"
    pq.write_table(table, file, compression="zstd")
    changed(file, out, {("pump", 1, 0): 2.5, ("pump", 2, 0): 3.5, ("pump", 4, 1): 3.7}, dropped=(0,))
    new = pq.read_table(out)
    assert new.schema.equals(table.schema, check_metadata=True)
    assert new["flow"].to_pylist() == [2.5, None, 4.0, 5.0, 6.0]
    assert new["count"].to_pylist() == [1, 2, 3, 4, 5]
    assert pq.read_metadata(out).row_group(0).column(0).compression == "ZSTD"


def test_an_array_keeps_its_type_and_shape(tmp_path: Path) -> None:
    values = np.arange(24, dtype=np.float32).reshape(3, 4, 2)
    np.save(tmp_path / "ecg.npy", values)
    changed(tmp_path / "ecg.npy", tmp_path / "out.npy", {("ecg", 5, 1): 7.5}, dropped=(0,))
    new = np.load(tmp_path / "out.npy")
    values[1, 1, 1] = 7.5
    assert new.dtype == np.float32
    np.testing.assert_array_equal(new, values[1:])


def test_what_cannot_be_written_back_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"x\.xlsx cannot be written back; cleaning writes \.csv, .*, so export it"):
        check_rewritable([tmp_path / "x.xlsx"], tsadc.Reading())
    with pytest.raises(DataError, match="read with --long cannot be written back cell by cell"):
        check_rewritable([tmp_path / "x.csv"], tsadc.Reading(long=("time", "tag", "value")))
    file = tmp_path / "lines.csv"
    file.write_text('time,flow,note\n2024-01-01,1,"two\nlines"\n2024-01-02,2,x\n2024-01-03,3,y\n')
    changed(file, tmp_path / "out.csv", {("lines", 1, 0): 5.0})
    assert ",5,x" in (tmp_path / "out.csv").read_text()
    with pytest.raises(DataError, match="could not be located line by line; save it as a plain CSV file"):
        changed(file, tmp_path / "out.csv", {("lines", 0, 0): 5.0})
