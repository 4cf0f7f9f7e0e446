"""Data of one's own with its labels as a prepared data set, for a benchmark: from files of rows, frames or arrays.

Labels are one per row. A number says whether the row is anomalous, of the kind `KIND`; a text is the kind itself, and
normal is what has none, an empty one or the word normal. On the way they are columns beside the variables, one for each
kind, so that a grid in time moves both alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tsadc.config import require
from tsadc.data.dataset import Piece, Span, cut
from tsadc.data.prepared import Prepared, load
from tsadc.data.writer import Writer
from tsadc.errors import DataError
from tsadc.io.files import entity_names
from tsadc.io.folders import new_folder
from tsadc.io.frames import as_series
from tsadc.io.reading import PLAIN, Reading, missing
from tsadc.io.tables import read_frame
from tsadc.series import Series
from tsadc.variables import match, unnamed
from tsadc.windows import runs

KIND = "anomaly"
MARK = "label: "  # before the kind, in the name of its column
NORMAL = ("", "normal")


@dataclass(frozen=True)
class _Marked:
    """A frame without its labels, and the kind of each row, empty where it is normal."""

    frame: pd.DataFrame
    kinds: NDArray[np.object_]

    def columns(self, kinds: Sequence[str]) -> pd.DataFrame:
        """The frame with a column for each kind."""
        marks = {f"{MARK}{kind}": (self.kinds == kind).astype(float) for kind in kinds}
        return pd.concat([self.frame, pd.DataFrame(marks, index=self.frame.index)], axis=1)


def prepare_own(
    data: Any,
    labels: str | Mapping[str, Any],
    out: str | Path,
    *,
    length: int,
    name: str = "own",
    reading: Reading = PLAIN,
) -> Prepared:
    """Cut data with labels into observations of `length` rows, and write them to the new folder `out`.

    Parameters
    ----------
    data
        A file of rows (CSV, TSV, Parquet, Arrow) or several, each an entity; a pandas frame; or a dict of entities with
        files, frames or arrays, (time, variable) or (observation, time, variable).
    labels
        The column that holds them, or a dict of entities with one label per row, of observations one for each.
    name
        Of the data set, which its manifests bear.
    reading
        How files and frames are read: the columns of time and entity, a grid, which variables.
    """
    require(length >= 8, "length", "at least 8 rows", length)
    marked = {entity: _marked(one, labels, entity, length, reading) for entity, one in _entities(data).items()}
    kinds = sorted({kind for one in marked.values() for kind in one.kinds if kind})
    if not kinds:
        raise DataError(
            "No row is labelled anomalous, but without anomalies nothing can be measured; check the labels."
        )
    series = _series({entity: one.columns(kinds) for entity, one in marked.items()}, kinds, reading)
    with new_folder(Path(out)) as folder:
        variables = series[0].names[: -len(kinds)]
        writer = Writer(folder, length, variables)
        left_out = sum(_add(writer, one, kinds, length) for one in series)
        if not writer.labels:
            raise DataError(f"No entity has {length} rows with values for an observation; use a smaller length.")
        about = {"name": name, "title": name, "variables": list(variables), "length": length}
        nothing = {"nothing measured": left_out} if left_out else {}
        writer.finish(about | {"left_out": nothing, "sources": {}, "tsadc": version("tsadc")})
    return load(out)


def _entities(data: Any) -> dict[str, Any]:
    if isinstance(data, Mapping):
        return {str(entity): one for entity, one in data.items()}
    if isinstance(data, (list, tuple)) and data and all(isinstance(one, (str, Path)) for one in data):
        files = [Path(one) for one in data]
        return dict(zip(entity_names(files), files, strict=True))
    return {Path(data).stem if isinstance(data, (str, Path)) else "series": data}


def _marked(data: Any, labels: str | Mapping[str, Any], entity: str, length: int, reading: Reading) -> _Marked:
    source = str(data) if isinstance(data, (str, Path)) else f"The data of {entity!r}"
    frame, repeated = _frame(data, source, length, reading)
    if isinstance(labels, str):
        columns = [str(column) for column in frame.columns]
        if labels not in columns:
            raise missing(labels, columns, source)
        place = columns.index(labels)
        return _Marked(frame.drop(columns=frame.columns[place]), _kinds(frame.iloc[:, place]))
    if entity not in labels:
        raise DataError(
            f"The labels name {', '.join(map(repr, labels))}, but there is also an entity {entity!r}; label it."
        )
    kinds = np.repeat(_kinds(pd.Series(np.asarray(labels[entity]))), repeated)
    if len(kinds) != len(frame):
        raise DataError(
            f"{source} has {len(frame) // repeated} rows or observations, but {len(kinds) // repeated} labels; give "
            "one for each."
        )
    return _Marked(frame, kinds)


def _frame(data: Any, source: str, length: int, reading: Reading) -> tuple[pd.DataFrame, int]:
    """Rows and columns, and how many rows one label is of."""
    if isinstance(data, (str, Path)):
        return read_frame(Path(data), reading), 1
    if isinstance(data, pd.DataFrame):
        # What is left of a larger frame keeps its row numbers, which are no clock.
        return data.reset_index(drop=True) if pd.api.types.is_integer_dtype(data.index) else data, 1
    values = np.asarray(data)
    if values.ndim == 3 and values.shape[1] == length:
        return pd.DataFrame(values.reshape(-1, values.shape[2]), columns=list(unnamed(values.shape[2]))), length
    if values.ndim != 2:
        raise DataError(
            f"{source} should be a file, a pandas frame or an array (time, variable) or (observation, {length}, "
            f"variable), but is a {type(data).__name__} of shape {values.shape}."
        )
    return pd.DataFrame(values, columns=list(unnamed(values.shape[1]))), 1


def _kinds(labels: pd.Series) -> NDArray[np.object_]:
    if pd.api.types.is_numeric_dtype(labels):
        return np.where(labels.fillna(0).to_numpy(dtype=float) != 0, KIND, "").astype(object)
    plain = ["" if pd.isna(one) else str(one).strip() for one in labels]
    return np.array(["" if one.casefold() in NORMAL else one for one in plain], dtype=object)


def _series(frames: Mapping[str, pd.DataFrame], kinds: Sequence[str], reading: Reading) -> tuple[Series, ...]:
    marks = tuple(f"{MARK}{kind}" for kind in kinds)
    if reading.columns is not None:
        reading = replace(reading, columns=(*reading.columns, *marks))
    whole = frames if reading.entity is None else pd.concat(frames.values(), ignore_index=True)
    series = as_series(whole, reading=reading)
    names = tuple(name for name in series[0].names if name not in marks)
    return match(series, (*names, *marks))


def _add(writer: Writer, series: Series, kinds: Sequence[str], length: int) -> int:
    """How many observations have no value at all, and are left out."""
    left_out = 0
    for start, rows in cut(np.asarray(series.values), length):
        values, marks = rows[:, : -len(kinds)], rows[:, -len(kinds) :]
        if np.isnan(values).all():
            left_out += 1
            continue
        spans = [Span(*run, kind) for i, kind in enumerate(kinds) for run in runs(marks[:, i] > 0)]
        writer.add(series.entity, series.entity, Piece(values, start, tuple(spans)))
    return left_out
