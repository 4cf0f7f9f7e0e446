"""Write results to files: intervals, timeline and observations, as CSV or Parquet, part by part.

The shares of the variables in an interval are JSON. In CSV files, times are ISO 8601 with the time of day, and with the
UTC offset if the data has a time zone. If the offset changes within a file, read it with
`pandas.to_datetime(column, utc=True)`. Text that a spreadsheet would run as a formula begins with an apostrophe.
Intervals and observations name the model that judged them, as a folder may hold the results of several."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from tsadc.detectors.result import Result
from tsadc.errors import DataError
from tsadc.io.delimited import bare as bare
from tsadc.io.delimited import inert as inert
from tsadc.show.words import Unit, iso8601, precision

TABLES = ("intervals", "timeline", "observations")
MANIFEST = "manifest.json"  # of tables that a cluster wrote by date and entity
ENDS = "ends"  # sensors that are silent at the ends of a file, for a short time
TIMES = ("time", "start", "end")
LEAST = "lasts_at_least"  # of a piece of an event: if the whole event is shorter, it is none


def write_tables(parts: Iterable[Result], folder: Path, *, parquet: bool, model: str = "") -> list[str]:
    """Write the three tables into `folder` and return their file names. Memory holds one part at a time.

    Intervals and observations get two more columns: `model_threshold`, before drift raises it, and `model`."""
    names = [f"{table}.{'parquet' if parquet else 'csv'}" for table in TABLES]
    writers = [_Parquet(folder / name) if parquet else _Csv(folder / name) for name in names]
    try:
        for part in parts:
            unit = precision(series.clock for series in part.series)
            for writer, table in zip(writers, tables(part, model), strict=True):
                writer.add(table if parquet else with_iso_times(table, unit))
    finally:
        for writer in writers:
            writer.close()
    return names


def tables(part: Result, model: str) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return the tables of a result as they are written, in the order of `TABLES`."""
    return _intervals(part, model), part.timeline, _judged(part.observations, part, model)


def write_ends(ends: Iterable[tuple[Result, int]], folder: Path, *, parquet: bool, model: str = "") -> None:
    """Write the table `ends` into `folder`: intervals of each result that are no event if they last less than the given
    number of nanoseconds, which is one more column. Without any there is no file."""
    file = folder / f"{ENDS}.{'parquet' if parquet else 'csv'}"
    writer = _Parquet(file) if parquet else _Csv(file)
    try:
        for part, least in ends:
            table = _intervals(part, model).assign(**{LEAST: str(pd.Timedelta(least, "ns"))})
            writer.add(table if parquet else with_iso_times(table, precision(own.clock for own in part.series)))
    finally:
        writer.close()


def _intervals(part: Result, model: str) -> pd.DataFrame:
    found = part.intervals
    shares, periods = found["variables"].map(shares_json), found["return_period"].map(period_text)
    return _judged(found.assign(variables=shares, return_period=periods), part, model)


def _judged(table: pd.DataFrame, part: Result, model: str) -> pd.DataFrame:
    return table.assign(model_threshold=part.threshold, model=model)


def shares_json(shares: dict[str, float]) -> str:
    """Format shares as JSON, so that any name stays unambiguous; `json.loads` returns them."""
    return json.dumps({name: float(f"{share:g}") for name, share in shares.items()}, ensure_ascii=False)


def period_text(period: pd.Timedelta | float) -> str | float:
    """Format a return period to the second, such as "40 days 00:00:00"; a number of rows stays a number."""
    return str(period.round("s")) if isinstance(period, pd.Timedelta) else period


def guarded(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with all its texts inert. Times are made here, and there are many."""
    texts = table.select_dtypes(["object", "string", "category"]).columns.difference(list(TIMES))
    return table.assign(**{name: _inert(table[name]) for name in texts})


def _inert(texts: pd.Series) -> pd.Series:
    if texts.dtype == object:  # 1 and True are different values there, but equal
        return texts.map(inert)
    codes, different = pd.factorize(texts, use_na_sentinel=False)
    return pd.Series(pd.Index(different).astype(object).map(inert).take(codes), index=texts.index)


def with_iso_times(table: pd.DataFrame, unit: Unit) -> pd.DataFrame:
    """Return the table with its times as ISO 8601; row numbers stay as they are."""
    return table.assign(**{key: _iso(table[key], unit) for key in TIMES if key in table})


def _iso(times: pd.Series, unit: Unit) -> pd.Series | list[str]:
    if pd.api.types.is_datetime64_any_dtype(times):
        return iso8601(pd.DatetimeIndex(times), unit)
    # Entities in different time zones share a column of single timestamps; row numbers stay as they are.
    return times.map(
        lambda time: iso8601(pd.DatetimeIndex([time]), unit)[0] if isinstance(time, pd.Timestamp) else time
    )


class _Csv:
    def __init__(self, file: Path) -> None:
        self.file, self.has_header = file, False

    def add(self, table: pd.DataFrame) -> None:
        guarded(table).to_csv(self.file, index=False, mode="a", header=not self.has_header)
        self.has_header = True

    def close(self) -> None:
        pass


class _Parquet:
    """Row groups of one file. Parts without rows wait, because pandas cannot infer the types of their columns."""

    def __init__(self, file: Path) -> None:
        try:
            self.arrow, self.parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
        except ImportError:
            raise DataError("Writing Parquet requires pyarrow: pip install 'tsadc[parquet]'.") from None
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
