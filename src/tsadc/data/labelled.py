"""Data of one's own with its labels as a prepared data set, for a benchmark: from files of rows, frames or arrays.

Labels are one per row. A number says whether the row is anomalous, of the kind `KIND`; a text is the kind itself, but
for the words that say no more than a number does: those of `NORMAL` and of `YES`. On the way they are columns beside
the variables, one for each kind, so that a grid in time moves both alike."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tsadc.atomic import new_folder
from tsadc.config import nearest, require
from tsadc.data.dataset import Piece, Span, cut
from tsadc.data.prepared import Prepared, Writer, load
from tsadc.errors import DataError, TsadcNotice
from tsadc.io.files import entity_names
from tsadc.io.memory import as_series
from tsadc.io.read import read_frame
from tsadc.io.reading import DEFAULT, Reading, no_column
from tsadc.series import Series
from tsadc.variables import match, unnamed
from tsadc.windows import runs

KIND = "anomaly"
MARK = "label: "  # before the kind, in the name of its column
NORMAL = ("", "0", "false", "no", "none", "normal", "ok")  # in any case
MOST = 6  # kinds in a message
YES = ("1", "true", "yes")  # of the kind `KIND`
AFTER = "rows after the last whole observation"


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
    reading: Reading = DEFAULT,
    normal: str | Sequence[str] = (),
    blame: Mapping[str, Sequence[str]] | None = None,
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
    normal
        Further words for a normal row, besides those of `NORMAL`.
    blame
        The variables to blame for each kind of anomaly (numbers are of the kind "anomaly"), where they are known.
    """
    _check(labels, length, reading)
    words = {word.strip().casefold() for word in (*NORMAL, *([normal] if isinstance(normal, str) else normal))}
    marked = {entity: _marked(one, labels, entity, length, reading, words) for entity, one in _entities(data).items()}
    kinds = _every_kind(marked.values())
    series = _series({entity: one.columns(kinds) for entity, one in marked.items()}, kinds, reading)
    variables = series[0].names[: -len(kinds)]
    to_blame = _blamed(blame or {}, kinds, variables)
    with new_folder(Path(out)) as folder:
        writer = Writer(folder, length, variables)
        left_out = {
            "nothing measured": sum(_add(writer, one, to_blame, length) for one in series),
            AFTER: sum(len(one) % length for one in series),
        }
        if not writer.labels:
            raise DataError(f"No entity has {length} rows with values for an observation; use a smaller length.")
        about = {"name": name, "title": name, "variables": list(variables), "length": length}
        left_out = {reason: count for reason, count in left_out.items() if count}
        writer.finish(about | {"left_out": left_out, "sources": {}, "tsadc": version("tsadc")})
    if AFTER in left_out:
        _tell_after(left_out[AFTER], sum(map(len, series)), length)
    return load(out)


def _tell_after(rows: int, total: int, length: int) -> None:
    warnings.warn(
        f"{rows} of {total} rows come after the last whole observation of {length} rows of their entity and are left "
        "out.",
        TsadcNotice,
        stacklevel=3,
    )


def _check(labels: Any, length: Any, reading: Reading) -> None:
    whole = isinstance(length, (int, np.integer)) and not isinstance(length, bool)
    require(whole and length >= 8, "length", "a whole number of at least 8 rows", length)
    wanted = "the name of one column, or a dict of entities with their labels"
    require(isinstance(labels, (str, Mapping)), "labels", wanted, labels)
    if not isinstance(labels, str):
        return
    for used, as_what in ((reading.time, "time"), (reading.entity, "entity")):
        require(labels != used, "labels", f"another column than that of the {as_what}", labels)
    taken = labels in (reading.columns or ())
    require(not taken, "labels", "a column that is none of the variables in `columns`", labels)


def _every_kind(marked: Collection[_Marked]) -> list[str]:
    kinds = sorted({kind for one in marked for kind in one.kinds if kind})
    if not kinds:
        raise DataError(
            "No row is labelled anomalous, but without anomalies nothing can be measured; check the labels."
        )
    if all(kind for one in marked for kind in one.kinds):
        named = ", ".join(map(repr, kinds[:MOST])) + (", ..." if len(kinds) > MOST else "")
        raise DataError(
            f"Every row is labelled anomalous, as {named}, but some must be normal; name the word for normal rows by "
            "`normal`, or check the labels."
        )
    return kinds


def _blamed(
    blame: Mapping[str, Sequence[str]], kinds: Sequence[str], variables: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """The variables to blame for each kind, none where that is not known."""
    wanted = "a dict of kinds with lists of variables"
    require(isinstance(blame, Mapping) and not any(isinstance(o, str) for o in blame.values()), "blame", wanted, blame)
    for kind, names in blame.items():
        if kind not in kinds:
            raise DataError(f"`blame` names the kind {kind!r}, which no row has{nearest(kind, kinds)}")
        for one in names:
            if one not in variables:
                raise DataError(f"`blame` names the variable {one!r}, which is none{nearest(one, variables)}")
    return {kind: tuple(blame.get(kind, ())) for kind in kinds}


def _entities(data: Any) -> dict[str, Any]:
    if isinstance(data, Mapping):
        return {str(entity): one for entity, one in data.items()}
    if isinstance(data, (list, tuple)) and data and all(isinstance(one, (str, Path)) for one in data):
        files = [Path(one) for one in data]
        return dict(zip(entity_names(files), files, strict=True))
    return {Path(data).stem if isinstance(data, (str, Path)) else "series": data}


def _marked(
    data: Any, labels: str | Mapping[str, Any], entity: str, length: int, reading: Reading, normal: Collection[str]
) -> _Marked:
    source = str(data) if isinstance(data, (str, Path)) else f"The data of {entity!r}"
    frame, repeated = _frame(data, source, length, reading)
    if isinstance(labels, str):
        columns = [str(column) for column in frame.columns]
        if labels not in columns:
            raise no_column(labels, columns, source)
        place = columns.index(labels)
        return _Marked(frame.drop(columns=frame.columns[place]), _kinds(frame.iloc[:, place], normal))
    if entity not in labels:
        raise DataError(
            f"The labels name {', '.join(map(repr, labels))}, but there is also an entity {entity!r}; label it."
        )
    kinds = np.repeat(_kinds(pd.Series(np.asarray(labels[entity])), normal), repeated)
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


def _kinds(labels: pd.Series, normal: Collection[str]) -> NDArray[np.object_]:
    if pd.api.types.is_numeric_dtype(labels):
        return np.where(labels.fillna(0).to_numpy(dtype=float) != 0, KIND, "").astype(object)
    plain = ["" if pd.isna(one) else str(one).strip() for one in labels]
    kinds = {one: "" if one.casefold() in normal else KIND if one.casefold() in YES else one for one in set(plain)}
    return np.array([kinds[one] for one in plain], dtype=object)


def _series(frames: Mapping[str, pd.DataFrame], kinds: Sequence[str], reading: Reading) -> tuple[Series, ...]:
    marks = tuple(f"{MARK}{kind}" for kind in kinds)
    if reading.columns is not None:
        reading = replace(reading, columns=(*reading.columns, *marks))
    whole = frames if reading.entity is None else pd.concat(frames.values(), ignore_index=True)
    series = as_series(whole, reading=reading)
    names = tuple(name for name in series[0].names if name not in marks)
    return match(series, (*names, *marks))


def _add(writer: Writer, series: Series, kinds: Mapping[str, tuple[str, ...]], length: int) -> int:
    """Write the observations, with what is to blame for each kind; how many have no value at all, and are left out."""
    left_out = 0
    for start, rows in cut(np.asarray(series.values), length):
        values, marks = rows[:, : -len(kinds)], rows[:, -len(kinds) :]
        if np.isnan(values).all():
            left_out += 1
            continue
        spans = [
            Span(*run, kind, blamed) for i, (kind, blamed) in enumerate(kinds.items()) for run in runs(marks[:, i] > 0)
        ]
        writer.add(series.entity, series.entity, Piece(values, start, tuple(spans)))
    return left_out
