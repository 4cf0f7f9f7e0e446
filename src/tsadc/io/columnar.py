"""Parquet and Arrow files -> data frames. They need pyarrow, which the extra `parquet` installs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pandas as pd

from tsadc.errors import DataError
from tsadc.io.columns import check_width
from tsadc.io.reading import reason

T = TypeVar("T")


def read_parquet(path: Path) -> pd.DataFrame:
    """Read a Parquet file."""
    return guarded(path, "Parquet", lambda: _read_parquet(path))


def read_arrow(path: Path) -> pd.DataFrame:
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
    return pd.read_parquet(path)


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
            table = reader.read_all()
    table.validate(full=True)  # damaged offsets could point outside of the buffers
    frame: pd.DataFrame = table.to_pandas()
    return frame
