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
NO_NUMBER = 0  # of a row that has none in messages
ROW = '{"entity": "pump", "time": "2026-03-01T12:30:00Z", "values": {"flow": 1.5}}'
EXAMPLE = f'{{"rows": [{ROW}]}}'


def decode_json(body: bytes) -> list[RowBatch | RowTable]:
    """Return the rows of a JSON body: `{"rows": [...]}`, `{"batches": [...]}` or `{"tables": [...]}`."""
    content = _parsed(body, f"The body must be JSON such as {EXAMPLE}.")
    if not isinstance(content, dict) or len(content) != 1 or not content.keys() <= {"rows", "batches", "tables"}:
        raise DataError(f"The body must have `rows`, `batches` or `tables`, such as {EXAMPLE}.")
    [(kind, items)] = content.items()
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise DataError(f"`{kind}` must be a list of objects.")
    if kind == "rows":
        return list(_from_rows(items))
    return [_from_columns(item, kind == "batches") for item in items]


def decode_line(line: str) -> list[RowTable]:
    """Return the row of a line of JSON, which is an object as in `{"rows": [...]}`."""
    return decode_row(_parsed(line.encode(errors="replace"), f"It must be JSON such as {ROW}."))


def decode_row(item: Any) -> list[RowTable]:
    """Return the row of an object with `entity`, `time` and `values`."""
    return list(_from_rows([item], first=NO_NUMBER))


def _parsed(body: bytes, expected: str) -> Any:
    """Return what `json.loads` returns. orjson takes a third of its time but refuses NaN, which Python writes."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise DataError(expected) from None


def _from_rows(items: Sequence[Any], first: int = 1) -> Iterator[RowTable]:
    groups: dict[tuple[str, ...], tuple[list[int], list[str], list[Any], list[Any]]] = {}
    for number, item in enumerate(items, start=first):
        if (
            not isinstance(item, dict)
            or item.keys() != {"entity", "time", "values"}
            or not isinstance(item["values"], dict)
        ):
            raise DataError(f"A row must have entity, time and values, as in {ROW}, but got {shown(item)}.")
        numbers, entities, times, values = groups.setdefault(tuple(item["values"]), ([], [], [], []))
        numbers.append(number)
        entities.append(_text(item["entity"], "an entity"))
        times.append(item["time"])
        values.append(list(item["values"].values()))
    for names, (numbers, entities, times, values) in groups.items():
        yield RowTable(SOURCE, entities, names, _times(times, numbers), _values(values, names, numbers))


def _from_columns(item: Mapping[str, Any], one_entity: bool) -> RowBatch | RowTable:
    """Return a batch, which has one entity, or a table, which has a list of them."""
    key = "entity" if one_entity else "entities"
    if item.keys() != {key, "names", "times", "values"}:
        what = "batch" if one_entity else "table"
        raise DataError(f"A {what} must have {key}, names, times and values, but got {shown(list(item))}.")
    for name in ("names", *([] if one_entity else ["entities"])):
        if not isinstance(item[name], list):
            raise DataError(f"`{name}` must be a list, but got {shown(item[name])}.")
    variables = tuple(_text(name, "a variable") for name in item["names"])
    times, values = _times(item["times"]), _values(item["values"], variables)
    if one_entity:
        return RowBatch(SOURCE, _text(item["entity"], "an entity"), variables, times, values)
    return RowTable(SOURCE, [_text(name, "an entity") for name in item["entities"]], variables, times, values)


def _text(name: Any, what: str) -> str:
    if not isinstance(name, str):
        raise DataError(f"The name of {what} must be text, but got {shown(name)}.")
    return name


def _times(times: Any, rows: Sequence[int] | None = None) -> Ticks:
    """Return times as nanoseconds since 1970: whole numbers are such already, texts are ISO 8601. `rows` are the
    numbers of their rows in the request, for messages, unless they begin at 1."""
    if not isinstance(times, list):
        raise DataError(f"`times` must be a list, but got {shown(times)}.")

    def wrong(place: int, sentence: str) -> DataError:
        number = rows[place] if rows else place + 1
        row = f" of row {number}" if number != NO_NUMBER else ""
        return DataError(f"The time {shown(times[place])}{row} {sentence}.")

    kind = type(times[0]) if times else int
    other = next((place for place, time in enumerate(times) if type(time) is not kind or kind not in (int, str)), None)
    if other is not None:
        sentence = "cannot be used; times must all be texts in ISO 8601, or all whole numbers of nanoseconds since 1970"
        raise wrong(other, sentence)
    if kind is int:
        try:
            ticks = np.array(times, dtype=np.int64)
        except OverflowError:
            largest = max(range(len(times)), key=lambda place: abs(times[place]))
            raise wrong(largest, "has more than 64 bits; send nanoseconds since 1970, or ISO 8601") from None
        small = (ticks > 0) & (ticks < EARLIEST)
        if small.any():
            sentence = "looks like seconds or milliseconds; send nanoseconds since 1970, or ISO 8601"
            raise wrong(int(small.argmax()), sentence)
        return ticks
    try:
        found = pd.DatetimeIndex(pd.to_datetime(times, utc=True, format="ISO8601"))
        if found.isna().any():
            raise ValueError
        return np.asarray(found.as_unit("ns").asi8)
    except (ValueError, OverflowError):
        raise wrong(
            _first_unreadable(times), "is not ISO 8601 of the years 1678 to 2261, such as 2026-03-01T12:30:00Z"
        ) from None


def _first_unreadable(times: list[str]) -> int:
    """Return the place of the first time that is not ISO 8601, or so early or late that it has no nanoseconds."""
    found = pd.DatetimeIndex(pd.to_datetime(times, utc=True, format="ISO8601", errors="coerce"))
    return int((found.isna() | (found.year < 1678) | (found.year > 2261)).argmax())


def _values(values: Any, names: Sequence[str], rows: Sequence[int] | None = None) -> Floats:
    """Return rows of numbers; null is a missing value. `rows` as for `_times`."""
    if not isinstance(values, list):
        raise DataError(f"`values` must be a list of rows, but got {shown(values)}.")
    if not names and all(row == [] for row in values):
        return np.empty((len(values), 0))
    try:
        array = np.array(values)
        if array.dtype.kind == "O" and all(value is None or type(value) in (int, float) for value in array.flat):
            array = array.astype(np.float64)
    except (ValueError, TypeError, OverflowError):
        array = np.array("")
    if not values:
        return np.empty((0, len(names)))
    if array.dtype.kind not in "fiu" or array.ndim != 2 or array.shape[1] != len(names):
        raise _wrong_value(values, names, rows or range(1, len(values) + 1))
    return array.astype(np.float64)


def _wrong_value(values: Sequence[Any], names: Sequence[str], rows: Sequence[int]) -> DataError:
    """Return an error about the first row that cannot be used."""
    for number, row in zip(rows, values, strict=True):
        if not isinstance(row, list) or len(row) != len(names):
            needed = f"a number or null for each of the {len(names)} names"
            return DataError(f"Row {number} of `values` must be a list with {needed}, but got {shown(row)}.")
        for name, value in zip(names, row, strict=True):
            if value is not None and type(value) not in (int, float):
                place = f" in row {number}" if number != NO_NUMBER else ""
                return DataError(f"The value {shown(value)} of {shown(name)}{place} must be a number or null.")
    return DataError("`values` has a number that is too large for 64 bits; correct it.")


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
        if not pa.types.is_integer(time.type):
            try:
                time = time.cast(pa.timestamp("ns")).cast(pa.int64())
            except pa.ArrowException:
                raise DataError(
                    "The column time of the Arrow table must hold timestamps, or integers of nanoseconds since 1970, "
                    f"but has the type {time.type}."
                ) from None
        entities = table.column("entity").cast(pa.string())
        if time.null_count or entities.null_count:
            raise DataError("Every row of the Arrow table needs an entity and a time.")
        columns = [table.column(name).cast(pa.float64()).to_numpy() for name in names]
    except (pa.ArrowException, OSError) as error:  # OSError: the stream is cut off
        said = " ".join(str(error).split())[:200].rstrip(".")
        raise DataError(f"The body is not a whole Arrow stream, as its Content-Type says: {said}.") from None
    except UnicodeDecodeError:
        raise DataError("The Arrow table has a column whose name is not UTF-8; encode it so.") from None
    ticks = _times(time.to_pylist())
    values = np.column_stack(columns) if columns else np.empty((table.num_rows, 0))
    return [RowTable(SOURCE, entities.to_pylist(), names, ticks, values)] if len(ticks) else []
