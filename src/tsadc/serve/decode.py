"""The body of `POST /v1/rows` -> rows: JSON by rows, JSON with the variables named once, or Arrow."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import orjson
import pandas as pd

from tsadc.config import shown
from tsadc.errors import DataError
from tsadc.series import Floats
from tsadc.serve.rows import RowBatch, RowTable, Ticks

SOURCE = "http"
ARROW = "application/vnd.apache.arrow.stream"
EARLIEST = 10**17  # nanoseconds, in 1973; smaller numbers are seconds or milliseconds
EXAMPLE = '{"rows": [{"entity": "pump", "time": "2026-03-01T12:30:00Z", "values": {"flow": 1.5}}]}'


def decode_json(body: bytes) -> list[RowBatch | RowTable]:
    """Return the rows of a JSON body: `{"rows": [...]}`, `{"batches": [...]}` or `{"tables": [...]}`."""
    content = _parsed(body)
    if not isinstance(content, dict) or len(content) != 1 or not content.keys() <= {"rows", "batches", "tables"}:
        raise DataError(f"The body must have `rows`, `batches` or `tables`, such as {EXAMPLE}.")
    [(kind, items)] = content.items()
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise DataError(f"`{kind}` must be a list of objects.")
    if kind == "rows":
        return list(_from_rows(items))
    return [_from_columns(item, kind == "batches") for item in items]


def _parsed(body: bytes) -> Any:
    """Return what `json.loads` returns. orjson takes a third of its time but refuses NaN, which Python writes."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise DataError(f"The body must be JSON such as {EXAMPLE}.") from None


def _from_rows(items: Sequence[Mapping[str, Any]]) -> Iterator[RowTable]:
    groups: dict[tuple[str, ...], tuple[list[str], list[Any], list[Any]]] = {}
    for item in items:
        if item.keys() != {"entity", "time", "values"} or not isinstance(item["values"], dict):
            raise DataError(f"A row must have entity, time and values, as in {EXAMPLE}, but got {shown(dict(item))}.")
        entities, times, values = groups.setdefault(tuple(item["values"]), ([], [], []))
        entities.append(_text(item["entity"], "entity"))
        times.append(item["time"])
        values.append(list(item["values"].values()))
    for names, (entities, times, values) in groups.items():
        yield RowTable(SOURCE, entities, names, _times(times), _values(values, len(names)))


def _from_columns(item: Mapping[str, Any], one_entity: bool) -> RowBatch | RowTable:
    """Return a batch, which has one entity, or a table, which has a list of them."""
    key = "entity" if one_entity else "entities"
    if item.keys() != {key, "names", "times", "values"}:
        what = "batch" if one_entity else "table"
        raise DataError(f"A {what} must have {key}, names, times and values, but got {', '.join(item)[:200]}.")
    for name in ("names", *([] if one_entity else ["entities"])):
        if not isinstance(item[name], list):
            raise DataError(f"`{name}` must be a list, but got {shown(item[name])}.")
    variables = tuple(_text(name, "variable") for name in item["names"])
    times, values = _times(item["times"]), _values(item["values"], len(variables))
    if one_entity:
        return RowBatch(SOURCE, _text(item["entity"], "entity"), variables, times, values)
    return RowTable(SOURCE, [_text(name, "entity") for name in item["entities"]], variables, times, values)


def _text(name: Any, what: str) -> str:
    if not isinstance(name, str):
        raise DataError(f"The name of a {what} must be text, but got {shown(name)}.")
    return name


def _times(times: Any) -> Ticks:
    """Return times as nanoseconds since 1970: whole numbers are such already, texts are ISO 8601."""
    if not isinstance(times, list):
        raise DataError(f"`times` must be a list, but got {shown(times)}.")
    if all(type(time) is int for time in times):
        try:
            ticks = np.array(times, dtype=np.int64)
        except OverflowError:
            raise DataError("A time has more than 64 bits; send nanoseconds since 1970, or ISO 8601.") from None
        if len(ticks) and 0 < int(ticks.min()) < EARLIEST:
            raise DataError(
                f"The time {ticks.min()} looks like seconds or milliseconds; send nanoseconds since 1970, or ISO 8601."
            )
        return ticks
    if not all(isinstance(time, str) for time in times):
        raise DataError("Times must all be texts in ISO 8601, or all nanoseconds since 1970 as whole numbers.")
    try:
        found = pd.DatetimeIndex(pd.to_datetime(times, utc=True, format="ISO8601"))
        if found.isna().any():
            raise ValueError
        return np.asarray(found.as_unit("ns").asi8)
    except (ValueError, OverflowError):
        raise DataError("A time is not ISO 8601, such as 2026-03-01T12:30:00Z.") from None


def _values(values: Any, width: int) -> Floats:
    """Return rows of numbers; null is a missing value."""
    try:
        array = np.array(values)
        if array.dtype.kind == "O" and all(value is None or type(value) in (int, float) for value in array.flat):
            array = array.astype(np.float64)
    except (ValueError, TypeError, OverflowError):
        array = np.array("")
    if array.size == 0:
        return np.empty((len(array) if array.ndim else 0, width))
    if array.dtype.kind not in "fiu" or array.ndim != 2:
        raise DataError("Values must be numbers or null, one per variable in every row.")
    return array.astype(np.float64)


def decode_arrow(body: bytes) -> list[RowBatch | RowTable]:
    """Return the rows of an Arrow stream with the columns `entity`, `time`, and one per variable."""
    try:
        import pyarrow as pa
    except ImportError:
        raise DataError("Arrow needs one more package on the server: pip install 'tsadc[parquet]'.") from None
    try:
        table = pa.ipc.open_stream(body).read_all()
        table.validate(full=True)
        missing = {"entity", "time"} - set(table.column_names)
        if missing or len(set(table.column_names)) < table.num_columns:
            raise DataError("The Arrow table must have the columns entity, time and one per variable, each once.")
        names = tuple(name for name in table.column_names if name not in ("entity", "time"))
        time = table.column("time")
        time = time if pa.types.is_integer(time.type) else time.cast(pa.timestamp("ns")).cast(pa.int64())
        entities = table.column("entity").cast(pa.string())
        if time.null_count or entities.null_count:
            raise DataError("Every row of the Arrow table needs an entity and a time.")
        columns = [table.column(name).cast(pa.float64()).to_numpy() for name in names]
    except pa.ArrowException as error:
        raise DataError(f"The body is not a usable Arrow stream: {' '.join(str(error).split())[:200]}.") from None
    ticks = _times(time.to_pylist())
    values = np.column_stack(columns) if columns else np.empty((table.num_rows, 0))
    return [RowTable(SOURCE, entities.to_pylist(), names, ticks, values)] if len(ticks) else []
