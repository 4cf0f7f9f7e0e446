"""Results as files: intervals, timeline and observations, as CSV or Parquet."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from tsadc.detectors.result import Result
from tsadc.errors import DataError


def write_tables(result: Result, folder: Path, *, parquet: bool) -> list[str]:
    """Write the three tables into `folder`; returns their file names."""
    tables = {
        "intervals": result.intervals.assign(variables=result.intervals["variables"].map(blame_text)),
        "timeline": result.timeline,
        "observations": result.observations,
    }
    names = []
    for name, table in tables.items():
        file = folder / f"{name}.{'parquet' if parquet else 'csv'}"
        _write(table, file)
        names.append(file.name)
    return names


def blame_text(shares: dict[str, float]) -> str:
    """`{"a": 0.62, "b": 0.21}` -> `a:0.62;b:0.21`."""
    return ";".join(f"{name}:{share:g}" for name, share in shares.items())


def _write(table: pd.DataFrame, file: Path) -> None:
    if file.suffix == ".csv":
        table.to_csv(file, index=False)
        return
    try:
        table.to_parquet(file, index=False)
    except ImportError:
        raise DataError("Writing Parquet needs one more package: pip install 'tsadc[parquet]'.") from None
