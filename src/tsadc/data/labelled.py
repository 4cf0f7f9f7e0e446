"""Prepare your own labelled data for a benchmark: from files of rows, data frames or arrays.

There is one label per row. A number other than 0 marks an anomaly of the kind `KIND`; a text is the kind itself, except
for the words in `NORMAL` and `YES`. On the way, labels are columns beside the variables, one for each kind, so that
resampling to a grid moves both alike."""

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
MARK = "label: "  # prefix of the column of a kind
NORMAL = ("", "0", "false", "no", "none", "normal", "ok")  # in upper or lower case
MOST = 6  # kinds in a message
YES = ("1", "true", "yes")  # anomalous, of the kind `KIND`
AFTER = "rows after the last whole observation"


@dataclass(frozen=True)
class _Marked:
    """A data frame without its labels, and the kind of each row, empty if it is normal."""

    frame: pd.DataFrame
    kinds: NDArray[np.object_]

    def columns(self, kinds: Sequence[str]) -> pd.DataFrame:
        """Return the frame with a column for each kind."""
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
    """Cut your own labelled data into observations of `length` rows and write them to a new folder.

    Parameters
    ----------
    data
        A file of rows (CSV, TSV, Parquet, Arrow) or several, each an entity; a pandas data frame; or a dict of entities
        with files, data frames or arrays, (time, variable) or (observation, time, variable).
    labels
        The name of the column with the labels, or a dict of entities with one label per row or, for arrays of
        observations, per observation. A number other than 0 marks an anomaly; a text is the kind of anomaly.
    out
        Folder to write, which must not exist.
    length
        Rows of an observation, at least 8.
    name
        Name of the data set, which its manifests repeat.
    reading
        How files and data frames are read: the columns of time and entity, a grid in time, which variables.
    normal
        Further words for a normal row. Empty, 0, false, no, none, normal and ok always mean normal.
    blame
        The variables to blame for each kind of anomaly, if known. Numeric labels have the kind "anomaly".

    Returns
    -------
    Prepared
        The data set in `out`.

    Raises
    ------
    DataError
        If data and labels do not match, or there are no normal or no anomalous rows.
    OutputError
        If `out` exists or cannot be written.

    Examples
    --------
    >>> from tsadc.data import prepare_own
    >>> prepare_own("machines.csv", "fault", "prepared", length=60)  # doctest: +SKIP
    """
    _check(labels, length, reading)
    words = {word.strip().casefold() for word in (*NORMAL, *([normal] if isinstance(normal, str) else normal))}
    marked = {
        entity: _marked(source, labels, entity, length, reading, words) for entity, source in _entities(data).items()
    }
    kinds = _every_kind(marked.values())
    every = _series({entity: rows.columns(kinds) for entity, rows in marked.items()}, kinds, reading)
    variables = every[0].names[: -len(kinds)]
    to_blame = _blamed(blame or {}, kinds, variables)
    with new_folder(Path(out)) as folder:
        writer = Writer(folder, length, variables)
        left_out = {
            "nothing measured": sum(_add(writer, series, to_blame, length) for series in every),
            AFTER: sum(len(series) % length for series in every),
        }
        if not writer.labels:
            raise DataError(f"No entity has {length} rows with values for an observation; use a smaller length.")
        about = {"name": name, "title": name, "variables": list(variables), "length": length}
        left_out = {reason: count for reason, count in left_out.items() if count}
        writer.finish(about | {"left_out": left_out, "sources": {}, "tsadc": version("tsadc")})
    if AFTER in left_out:
        _warn_of_rest(left_out[AFTER], sum(map(len, every)), length)
    return load(out)


def _warn_of_rest(rows: int, total: int, length: int) -> None:
    warnings.warn(
        f"{rows} of {total} rows are left out because they come after the last whole observation of {length} rows of "
        "their entity.",
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
    kinds = sorted({kind for rows in marked for kind in rows.kinds if kind})
    if not kinds:
        raise DataError(
            "At least one row must be labelled anomalous to measure anything, but none is; check the labels."
        )
    if all(kind for rows in marked for kind in rows.kinds):
        named = ", ".join(map(repr, kinds[:MOST])) + (", ..." if len(kinds) > MOST else "")
        raise DataError(
            f"At least one row must be normal, but all are labelled {named}; name the word for normal rows by "
            "`normal`, or check the labels."
        )
    return kinds


def _blamed(
    blame: Mapping[str, Sequence[str]], kinds: Sequence[str], variables: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Return the variables to blame for each kind; none if unknown."""
    wanted = "a dict of kinds with lists of variables"
    lists = isinstance(blame, Mapping) and not any(isinstance(names, str) for names in blame.values())
    require(lists, "blame", wanted, blame)
    for kind, names in blame.items():
        if kind not in kinds:
            raise DataError(f"`blame` has the kind {kind!r}, but no row is labelled so{nearest(kind, kinds)}")
        for name in names:
            if name not in variables:
                raise DataError(f"`blame` names {name!r}, which is not a variable{nearest(name, variables)}")
    return {kind: tuple(blame.get(kind, ())) for kind in kinds}


def _entities(data: Any) -> dict[str, Any]:
    if isinstance(data, Mapping):
        return {str(entity): source for entity, source in data.items()}
    if isinstance(data, (list, tuple)) and data and all(isinstance(file, (str, Path)) for file in data):
        files = [Path(file) for file in data]
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
    """Return the data as a frame, and how many rows share one label."""
    if isinstance(data, (str, Path)):
        return read_frame(Path(data), reading), 1
    if isinstance(data, pd.DataFrame):
        # A part of a larger frame keeps its row numbers, which are not times.
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
    words = ["" if pd.isna(label) else str(label).strip() for label in labels]
    kinds = {word: "" if word.casefold() in normal else KIND if word.casefold() in YES else word for word in set(words)}
    return np.array([kinds[word] for word in words], dtype=object)


def _series(frames: Mapping[str, pd.DataFrame], kinds: Sequence[str], reading: Reading) -> tuple[Series, ...]:
    marks = tuple(f"{MARK}{kind}" for kind in kinds)
    if reading.columns is not None:
        reading = replace(reading, columns=(*reading.columns, *marks))
    whole = frames if reading.entity is None else pd.concat(frames.values(), ignore_index=True)
    series = as_series(whole, reading=reading)
    names = tuple(name for name in series[0].names if name not in marks)
    return match(series, (*names, *marks))


def _add(writer: Writer, series: Series, kinds: Mapping[str, tuple[str, ...]], length: int) -> int:
    """Write the observations of a series; return how many have no value at all and are left out."""
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
