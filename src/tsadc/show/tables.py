"""Results as files: intervals, timeline and observations, as CSV or Parquet, written part by part."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from tsadc.detectors.result import Result
from tsadc.errors import DataError

TABLES = ("intervals", "timeline", "observations")


def write_tables(parts: Iterable[Result], folder: Path, *, parquet: bool) -> list[str]:
    """Write the three tables into `folder`; returns their file names. Memory holds one part at a time."""
    names = [f"{table}.{'parquet' if parquet else 'csv'}" for table in TABLES]
    writers = [_Parquet(folder / name) if parquet else _Csv(folder / name) for name in names]
    try:
        for part in parts:
            intervals = part.intervals.assign(variables=part.intervals["variables"].map(blame_text))
            for writer, table in zip(writers, (intervals, part.timeline, part.observations), strict=True):
                writer.add(table)
    finally:
        for writer in writers:
            writer.close()
    return names


def blame_text(shares: dict[str, float]) -> str:
    """`{"a": 0.62, "b": 0.21}` -> `a:0.62;b:0.21`."""
    return ";".join(f"{name}:{share:g}" for name, share in shares.items())


class _Csv:
    def __init__(self, file: Path) -> None:
        self.file, self.begun = file, False

    def add(self, table: pd.DataFrame) -> None:
        table.to_csv(self.file, index=False, mode="a", header=not self.begun)
        self.begun = True

    def close(self) -> None:
        pass


class _Parquet:
    """Row groups of one file. Parts without rows wait, because pandas does not know the types of their columns."""

    def __init__(self, file: Path) -> None:
        try:
            self.arrow, self.parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
        except ImportError:
            raise DataError("Writing Parquet needs one more package: pip install 'tsadc[parquet]'.") from None
        self.file = file
        self.writer: Any = None
        self.empty: pd.DataFrame | None = None

    def add(self, table: pd.DataFrame) -> None:
        if table.empty:
            self.empty = table
            return
        rows = self.arrow.Table.from_pandas(table, preserve_index=False)
        if self.writer is None:
            self.writer = self.parquet.ParquetWriter(self.file, rows.schema)
        self.writer.write_table(rows.cast(self.writer.schema))

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
        elif self.empty is not None:
            self.empty.to_parquet(self.file, index=False)
