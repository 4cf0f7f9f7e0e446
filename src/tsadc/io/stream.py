"""Open files larger than memory: only the time column is read, to check the clock; the values stay in the file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from tsadc.errors import DataError, notice
from tsadc.io.arrays import names_beside, open_npy
from tsadc.io.clock import MAX_FILLED, MAX_JITTER, even_start, interval_of, rows_of, ticks_of, zone_of
from tsadc.io.columnar import guarded
from tsadc.io.columns import UNNAMED_INDEX, check_variables, check_width, choose_variables, is_counter, no_clock
from tsadc.io.files import ending
from tsadc.io.reading import Reading, choose, no_column, spell
from tsadc.io.rows import NpyRows, ParquetRows, Runs, open_parquet, release
from tsadc.io.times import TIME_NAMES, is_epoch, is_time, read_times
from tsadc.series import Clock, Floats, Series
from tsadc.variables import unnamed

SAMPLE = 1000  # rows from which the kind of a column is recognised
SLOW_ROW_GROUP = 256 * 2**20  # bytes of a row group beyond which random access is slow


def open_rows(path: Path, entity: str, reading: Reading) -> Series:
    """Open a .npy or .parquet file as a Series whose values stay in the file."""
    if ending(path) == ".npy":
        return _open_npy(path, entity, reading)
    if ending(path) == ".parquet":
        return guarded(path, "Parquet", lambda: _open_parquet(path, entity, reading))
    raise DataError(
        f"{path} cannot be streamed, because only .npy and .parquet files can; convert it, or read it without --stream."
    )


def _open_npy(path: Path, entity: str, reading: Reading) -> Series:
    values, observation = open_npy(path), None
    if isinstance(values, np.memmap) and values.ndim == 3 and values.flags.c_contiguous:
        observation = values.shape[1]
        values = values.reshape(values.shape[0] * observation, values.shape[2])
    layout = " in Fortran order" if values.ndim == 3 else ""
    if not isinstance(values, np.memmap) or values.ndim != 2 or values.dtype.kind != "f":
        raise DataError(
            f"{path} should hold floats of shape (time, variable), or (observation, time, variable) in C order, to be "
            f"streamed, but holds {values.dtype} of shape {values.shape}{layout}; read it without --stream."
        )
    if reading.time:
        raise DataError(f"{path} is an array without a time column; leave out `time`.")
    _check_rows(len(values), path)
    check_width(values.shape[1], str(path))
    listed = names_beside(path)
    known = listed if listed and len(listed) == values.shape[1] else unnamed(values.shape[1])
    order, names = choose(known, reading, str(path))
    check_variables(names, str(path))
    rows = NpyRows(path, values, order)
    return Series(cast(Floats, rows), names, Clock(), entity, observation)


@dataclass(frozen=True)
class _Layout:
    """The time column and the variables of a Parquet file."""

    time: str | None
    variables: list[str]
    dtype: np.dtype[Any]


def _open_parquet(path: Path, entity: str, reading: Reading) -> Series:
    with open_parquet(path) as file:
        check_width(file.metadata.num_columns, str(path))
        _check_rows(file.metadata.num_rows, path)
        layout = _layout(file, path, reading)
        known = [name.strip() for name in layout.variables]
        order, names = choose_variables(known, replace(reading, exclude=()), str(path))
        check_variables(names, str(path))
        clock, runs = Clock(), Runs.whole(file.metadata.num_rows)
        if layout.time is not None:
            clock, runs = stream_clock(_time_pieces(file, layout.time, path), str(path))
        sizes = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
    release()
    rows = ParquetRows(path, [layout.variables[i] for i in order], runs, layout.dtype)
    largest = max(sizes, default=0)
    if largest * len(names) * layout.dtype.itemsize > SLOW_ROW_GROUP:
        notice(
            f"{path} has row groups of up to {largest} rows, and random access decodes a whole row group; write it "
            f"with row_group_size={rows.block} to train faster."
        )
    return Series(cast(Floats, rows), names, clock, entity)


def _check_rows(count: int, path: Path) -> None:
    if count == 0:
        raise DataError(f"{path} has no rows; add rows of measurements.")


def _layout(file: Any, path: Path, reading: Reading) -> _Layout:
    schema = file.schema_arrow
    if len({name.strip() for name in schema.names}) < len(schema.names):
        raise DataError(f"{path} has two columns of the same name; give every variable its own name.")
    head = next(file.iter_batches(SAMPLE, use_threads=False)).to_pandas(ignore_metadata=True)
    excluded = {name for name in schema.names if name.strip() in reading.exclude}
    for name in reading.exclude:
        if name not in [known.strip() for known in schema.names] and name not in reading.may_lack:
            raise no_column(name, schema.names, str(path))
    time = _time_column(head.drop(columns=list(excluded)), schema, path, reading.time)
    index = {name for name in (schema.pandas_metadata or {}).get("index_columns", ()) if isinstance(name, str)}
    wanted = set(reading.columns or ())

    def is_variable(place: int, name: str) -> bool:
        if name == time or name.strip() in wanted:
            return name != time
        if name in index or name in excluded:
            return False
        return not (
            is_counter(name.strip(), place, head[name], None, str(path)) and _counts_on(file, name, place, path)
        )

    variables = [name for place, name in enumerate(schema.names) if is_variable(place, name)]
    kinds = [_number_type(schema.field(name), path) for name in variables if not wanted or name.strip() in wanted]
    return _Layout(time, variables, np.result_type(np.float32, *kinds))


def _counts_on(file: Any, name: str, place: int, path: Path) -> bool:
    """Return whether a column that numbers the first rows continues so to the end."""
    if place == 0 and name.strip().lower() in UNNAMED_INDEX:
        return True
    last: Floats = np.zeros(0)
    step, even, rising = np.nan, True, True
    for batch in file.iter_batches(2**17, columns=[name], use_threads=False):
        numbers = batch.to_pandas(ignore_metadata=True)[name].to_numpy(dtype=np.float64, na_value=np.nan)
        steps = np.diff(np.append(last, numbers))
        step = steps[0] if np.isnan(step) and len(steps) else step
        even, rising = even and bool(np.allclose(steps, step, rtol=1e-3)), rising and bool((steps > 0).all())
        last = numbers[-1:]
    if not even and rising and name.strip().lower() in TIME_NAMES:
        raise no_clock(name.strip(), str(path))
    return even


def _time_column(head: pd.DataFrame, schema: Any, path: Path, named: str | None) -> str | None:
    from pyarrow import types

    if named is None:
        time = next((str(name) for name in head.columns if is_time(str(name).strip(), head[name])), None)
        if time is None:
            return None
    else:
        time = next((name for name in schema.names if name.strip() == named), None)
        if time is None:
            raise no_column(named, schema.names, str(path))
    kind = schema.field(time).type
    if types.is_timestamp(kind) or (types.is_integer(kind) and is_epoch(head[time])):
        return time
    raise DataError(
        f"{path} cannot be streamed, because its time column {time!r} does not hold timestamps; convert it."
    )


def _number_type(field: Any, path: Path) -> np.dtype[Any]:
    from pyarrow import types

    if types.is_integer(field.type) or types.is_floating(field.type) or types.is_boolean(field.type):
        kind: np.dtype[Any] = np.dtype(field.type.to_pandas_dtype())
        return kind
    raise DataError(
        f"{path} cannot be streamed, because column {field.name!r} holds {field.type}, not numbers; choose other "
        "columns with --columns, or read it without --stream."
    )


def _time_pieces(file: Any, time: str, path: Path) -> Iterator[pd.DatetimeIndex]:
    for batch in file.iter_batches(2**17, columns=[time], use_threads=False):
        yield read_times(batch.to_pandas(ignore_metadata=True)[time], time, str(path))


def stream_clock(pieces: Iterator[pd.DatetimeIndex], source: str) -> tuple[Clock, Runs]:
    """Return the clock that the first piece implies and all others must keep, and the rows' places on it."""
    clock: Clock | None = None
    grid, file, done, last = [0], [0], 0, -1
    for times in pieces:
        ticks = ticks_of(times, source, done)
        if clock is None:
            clock = _first_clock(times, source)
        offsets = (ticks - clock.start) / clock.interval
        rows = np.rint(offsets).astype(np.int64)
        steps = np.diff(rows, prepend=last)
        stray = np.flatnonzero((np.abs(offsets - rows) > MAX_JITTER) | (steps < 1))
        if len(stray):
            raise DataError(
                f"{source} cannot be streamed, because row {done + stray[0]} ({times[stray[0]]}) is not on its clock "
                f"of every {spell(clock.interval)}; read it without --stream."
            )
        breaks = np.flatnonzero(steps > 1)
        grid += rows[breaks].tolist()
        file += (done + breaks).tolist()
        done, last = done + len(rows), int(rows[-1])
    if clock is None or last + 1 > MAX_FILLED * done:
        raise DataError(
            f"{source} has {done} rows in a span of {last + 1} time steps; correct its times, or split it at its gaps."
        )
    return clock, Runs(grid, file, last + 1, done)


def _first_clock(times: pd.DatetimeIndex, source: str) -> Clock:
    ticks = ticks_of(times, source)
    steps = np.diff(ticks)
    if len(ticks) < 2 or (steps <= 0).any():
        raise DataError(
            f"{source} cannot be streamed, because its rows are not sorted by time, each time once; sort them first."
        )
    interval, exact = interval_of(ticks, steps)
    start = int(ticks[0]) if exact else even_start(ticks, rows_of(ticks, interval)[0], interval)
    return Clock(start, interval, dated=True, timezone=zone_of(times))
