"""Parquet and Arrow files -> data frames. They need pyarrow, which the extra `parquet` installs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from tsadc.errors import DataError
from tsadc.io.columns import check_width
from tsadc.io.limits import COPIES, STREAM, available_memory, check_bytes, check_numbers
from tsadc.io.reading import DEFAULT, Reading, reason

T = TypeVar("T")
TEXTS = ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")  # Parquet's names
PIECE = 2**26  # bytes of text decoded at once, to count them


def read_parquet(path: Path, reading: Reading = DEFAULT) -> pd.DataFrame:
    """Read a Parquet file."""
    return guarded(path, "Parquet", lambda: _read_parquet(path))


def read_arrow(path: Path, reading: Reading = DEFAULT) -> pd.DataFrame:
    """Read an Arrow file (or Feather, which is the same) or an Arrow stream."""
    return guarded(path, "Arrow", lambda: _read_arrow(path))


def guarded(path: Path, form: str, action: Callable[[], T]) -> T:
    """Return the result of `action`. A damaged file can fail anywhere in pyarrow and pandas: that is a DataError."""
    try:
        return action()
    except ImportError:
        raise DataError(f"{path} is {form}, which needs one more package: pip install 'tsadc[parquet]'.") from None
    except (PermissionError, DataError, Warning):
        raise
    except Exception as error:
        raise DataError(f"{path} is not a readable {form} file: {reason(error)}.") from None


def _read_parquet(path: Path) -> pd.DataFrame:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        check_width(file.metadata.num_columns, str(path))
        check_numbers(file.metadata.num_rows * file.metadata.num_columns, str(path), STREAM)
        _check_texts(file, path)
    return pd.read_parquet(path)


def _check_texts(file: Any, path: Path) -> None:
    """Raise unless columns of text fit into memory: a dictionary stores a long text once for any number of rows."""
    metadata = file.metadata
    longest: dict[int, int] = {}  # an upper bound of the length of a cell of each column of text
    for group in range(metadata.num_row_groups):
        for place in range(metadata.num_columns):
            column = metadata.row_group(group).column(place)
            if column.physical_type in TEXTS:
                longest[place] = max(longest.get(place, 1), column.total_uncompressed_size)
    if COPIES * metadata.num_rows * sum(longest.values()) <= available_memory():
        return
    total = 0
    for place, length in longest.items():
        name = metadata.schema.column(place).path.split(".")[0]
        # No piece can be larger than PIECE, unless a single cell is.
        for batch in file.iter_batches(max(1, PIECE // length), columns=[name], use_threads=False):
            total += batch.nbytes
            check_bytes(COPIES * total, str(path), "read other columns, or shorten its texts")


def _read_arrow(path: Path) -> pd.DataFrame:
    import pyarrow as pa
    from pyarrow import feather, ipc

    with pa.OSFile(str(path)) as file:
        magic = file.read(6)
        file.seek(0)
        if magic.startswith(b"FEA1"):  # the first version of Feather, before Arrow's own format
            table = feather.read_table(path)
        else:
            reader = ipc.open_file(file) if magic == b"ARROW1" else ipc.open_stream(file)
            check_width(len(reader.schema), str(path))
            table = pa.Table.from_batches(_batches(reader, path), reader.schema)
    table.validate(full=True)  # damaged offsets could point outside of the buffers
    frame: pd.DataFrame = table.to_pandas()
    return frame


def _batches(reader: Any, path: Path) -> Iterator[Any]:
    """Yield the batches, which may be compressed; stop where they no longer fit into memory."""
    total = 0
    count = getattr(reader, "num_record_batches", None)
    for batch in reader if count is None else (reader.get_batch(i) for i in range(count)):
        total += max(batch.nbytes, 8 * batch.num_rows * batch.num_columns)
        check_bytes(COPIES * total, f"{path}, unpacked,")
        yield batch
