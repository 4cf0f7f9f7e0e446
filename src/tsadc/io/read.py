"""Files -> Series. Each format has one reader; all files must have the same variables and write dates alike."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import pandas as pd

from tsadc.errors import DataError, TooShortError, notice
from tsadc.io.arrays import read_npy, read_npz
from tsadc.io.columnar import read_arrow, read_parquet
from tsadc.io.columns import Columns
from tsadc.io.delimited import read_delimited
from tsadc.io.entities import Part, by_entity, from_frame, notice_notes, renamed, to_series, widened
from tsadc.io.excel import read_excel
from tsadc.io.files import RECORDINGS, ending, entity_names, expand, partition_entity, partitions
from tsadc.io.reading import DEFAULT, Reading, how_to_resample, spell
from tsadc.io.sql import ENTITY, read_query
from tsadc.io.stream import open_rows
from tsadc.series import Series
from tsadc.variables import match, unnamed

TABLES: dict[str, Callable[[Path, Reading], pd.DataFrame]] = {
    ".csv": read_delimited,
    ".tsv": read_delimited,
    ".csv.gz": read_delimited,
    ".tsv.gz": read_delimited,
    ".txt": read_delimited,
    ".dat": read_delimited,
    ".parquet": read_parquet,
    ".arrow": read_arrow,
    ".feather": read_arrow,
    ".xlsx": read_excel,
    ".xlsm": read_excel,
}
ARRAYS: dict[str, Callable[[Path, str, Reading], list[Part]]] = {".npy": read_npy, ".npz": read_npz}
ENDINGS = (*TABLES, *ARRAYS, *RECORDINGS)


def read(
    paths: str | Path | Sequence[str | Path] = (), reading: Reading = DEFAULT, **options: Any
) -> tuple[Series, ...]:
    """Read files, or the result of a database query, into series, one per entity.

    Parameters
    ----------
    paths : str, Path, or sequence of them
        Files, folders (all readable files in them) or patterns such as ``"data/*.csv"``. The ending determines the
        format: .csv, .tsv (also .gz), .txt and .dat (text; not if only their folder is named), .xlsx, .xlsm, .parquet,
        .arrow, .feather, .npy, .npz, .hea (WFDB), .edf, .h5, .hdf5, .mat. A folder may be partitioned:
        ``entity=7/date=2024-01-01/part.parquet``. None with the option `sql`.
    reading : Reading, optional
        Options, such as the names of the time and entity columns. By default each file is one entity, named after the
        file, and its time column is found automatically. See `help(tsadc.Reading)`.
    options : keyword arguments
        Options of `Reading`, such as ``missing=[-200]``; they override those of `reading`.

    Returns
    -------
    tuple of Series
        One series per entity, in the order of the files, all with the same variables in the same order. Values have
        shape (time, variable); NaN means not measured.

    Raises
    ------
    DataError
        If a file cannot be read, its rows are not regularly sampled, or the files have different variables. The
        message says how to fix it.
    ConfigError
        If an option is unknown or out of range.

    Examples
    --------
    >>> import pandas as pd
    >>> import tsadc
    >>> times = pd.date_range("2024-01-01", periods=4, freq="1min")
    >>> table = pd.DataFrame({"time": times, "flow": [1.0, 1.2, 1.1, 1.3], "pressure": [7, 8, 7, 9]})
    >>> table.to_csv("pump.csv", index=False)
    >>> [pump] = tsadc.read("pump.csv")
    >>> pump.entity, pump.names, pump.values.shape
    ('pump', ('flow', 'pressure'), (4, 2))
    >>> [coarse] = tsadc.read("pump.csv", every="2min", columns=["pressure", "flow"])
    >>> coarse.values.tolist()
    [[7.5, 1.1], [8.0, 1.2000000000000002]]
    """
    reading = Reading(**{**vars(reading), **options}) if options else reading
    skipped = Skipped(reading.skip_bad)
    parts, empty = list[Part](), list[tuple[Path, str | None, TooShortError]]()
    given = [] if reading.sql is not None and not _count(paths) else expand(paths, ENDINGS)
    if reading.sql is not None:
        if given:
            raise DataError("Both files and a database were given; read one of them at a time.")
        parts = _read_database(reading)
    for file, name in zip(given, entity_names(given), strict=True):
        with skipped.errors():
            own, entity = own_reading(file, paths, reading)
            try:
                read_here = read_parts(file, name, own)
            except TooShortError as error:
                empty.append((file, None if own.entity is not None else entity or name, error))
                continue
            parts += read_here if entity is None else [renamed(part, entity) for part in read_here]
    for file, owner, why in empty:
        with skipped.errors():
            _skip_empty(file, owner, why, {part.entity for part in parts})
    notice_notes(parts)
    parts = _same_date_order(_same_variables(parts, skipped, reading), skipped)
    series: list[Series] = []
    for parts_of_entity in by_entity(parts):
        with skipped.errors():
            series.append(to_series(parts_of_entity, reading))
    sources = {part.entity: part.source for part in parts}
    series = _same_interval(series, sources, skipped) if reading.skip_bad else series
    _notice_unlike(series, sources)
    skipped.report(len(given), anything=bool(series))
    names = series[0].names
    return tuple(match([item], names)[0] if set(item.names) == set(names) else item for item in series)


def _skip_empty(file: Path, owner: str | None, why: TooShortError, known: Set[str]) -> None:
    """Notice that a file has no rows, if its entity has rows elsewhere; otherwise raise. Where a column names the
    entities, the file belongs to none."""
    if not known or (owner is not None and owner not in known):
        raise why
    notice(f"{file} has no rows and was left out.")


def _count(paths: str | Path | Sequence[str | Path]) -> int:
    return 1 if isinstance(paths, (str, Path)) else len(paths)


def _read_database(reading: Reading) -> list[Part]:
    """Return the result of the query, which holds one entity or several, like a table file."""
    if reading.entity_from is not None:
        raise DataError("A database has no file name to take the entity from; use --entity or --entity-name.")
    return from_frame(read_query(reading), reading.entity_name or ENTITY, "The result of the query", reading)


def _partition(keys: Mapping[str, str], folder: str, reading: Reading) -> str | None:
    """Return the entity of a file in a partitioned folder. Without a key that names it, the folder is one entity."""
    if not keys or (reading.entity is not None and reading.entity not in keys):
        return None
    return partition_entity(keys, reading.entity) or folder


def own_reading(file: Path, paths: str | Path | Sequence[str | Path], reading: Reading) -> tuple[Reading, str | None]:
    """Return the options for one of the files that `paths` name, and the entity that its partition, `entity_name` or
    `entity_from` name; None if its parts keep their own."""
    folder = paths if isinstance(paths, (str, Path)) else paths[0]
    return partition_reading(str(file), partitions(paths, file), Path(folder).resolve().name, reading)


def partition_reading(file: str, keys: Mapping[str, str], folder: str, reading: Reading) -> tuple[Reading, str | None]:
    """Return the same as `own_reading` for a file anywhere, by the keys of its partition and the name of the folder
    that is partitioned."""
    own = replace(reading, entity=None) if reading.entity in keys else reading
    if reading.entity_from is None:
        return own, reading.entity_name or _partition(keys, folder, reading)
    found = re.search(reading.entity_from, PurePath(file).name)
    if found is None or not found[1]:
        raise DataError(
            f"{file} has a name without {reading.entity_from!r}, in which its entity was expected; correct the "
            "pattern of --entity-from (in Python: Reading(entity_from=...)), or rename the file."
        )
    return own, found[1]


def read_parts(path: Path, entity: str, reading: Reading = DEFAULT) -> list[Part]:
    """Read one file, which holds one entity or several."""
    if ending(path) in TABLES and not reading.stream:
        return from_frame(read_frame(path, reading), entity, str(path), reading)
    with _check_file(path, ENDINGS):
        if reading.stream:
            return [Part(entity, str(path), open_rows(path, entity, reading))]
        if ending(path) in ARRAYS:
            _refuse_rate(path, reading)
            return ARRAYS[ending(path)](path, entity, reading)
        from tsadc.io.recording import read_recording, recording_to_series

        return [Part(entity, str(path), recording_to_series(read_recording(path), entity, reading))]


def read_frame(path: Path, reading: Reading = DEFAULT) -> pd.DataFrame:
    """Read a table file of any format as a pandas frame."""
    with _check_file(path, TABLES):
        _refuse_rate(path, reading)
        return TABLES[ending(path)](path, reading)


@contextmanager
def _check_file(path: Path, endings: Collection[str]) -> Iterator[None]:
    if path.is_dir():
        raise DataError(f"{path} is a folder, but a file was expected; name the files in it.")
    if not path.is_file():
        raise DataError(f"There is no file {path}; check the name.")
    if ending(path) not in endings:
        raise DataError(f"{path} should end in {', '.join(endings)}, because the ending determines the format.")
    try:
        yield
    except PermissionError:
        raise DataError(f"{path} cannot be read: permission denied.") from None


def _refuse_rate(path: Path, reading: Reading) -> None:
    if reading.rate is not None:
        raise DataError(
            f"{path} is not a recording, so --rate cannot be used; resample it with --every (in Python: "
            "Reading(every=...))."
        )


class Skipped:
    """Collects the errors of files that are skipped, if `skip` is set; otherwise the first error is raised."""

    def __init__(self, skip: bool) -> None:
        self._skip, self._messages = skip, list[str]()

    @contextmanager
    def errors(self) -> Iterator[None]:
        try:
            yield
        except DataError as error:
            if not self._skip:
                raise
            self._messages.append(str(error))

    def report(self, files: int, *, anything: bool) -> None:
        if not anything:
            raise DataError(f"None of {files} file(s) can be used; the first problem: {self._messages[0]}")
        if self._messages:
            notice(f"{len(self._messages)} left out: {' '.join(self._messages)}")


def _same_variables(parts: list[Part], skipped: Skipped, reading: Reading) -> list[Part]:
    """Keep the parts with the variables that most files have, in any order. Arrays without names are compared by their
    number of variables. If a file has the variables of all others, these may lack up to half of them."""
    full = max(parts, key=lambda part: len(part.names), default=None)
    if full is not None and not reading.strict and not reading.stream and _mostly_alike(parts, full):
        return _all_widened(parts, full)
    named = [part for part in parts if not _is_unnamed(part)]
    per_file = {part.source: part for part in named or parts}.values()
    if not per_file:
        return parts
    usual = Counter(frozenset(part.names) for part in per_file).most_common(1)[0][0]
    example = next(part for part in per_file if set(part.names) == usual)
    wrong: set[str] = set()
    for part in parts:
        fits = len(part.names) == len(usual) if _is_unnamed(part) else set(part.names) == usual
        if not fits and part.source not in wrong:
            wrong.add(part.source)
            with skipped.errors():
                raise _other_variables(part, example)
    return [part for part in parts if part.source not in wrong]


def _mostly_alike(parts: list[Part], full: Part) -> bool:
    names = set(full.names)
    return not _is_unnamed(full) and all(
        set(part.names) <= names and 2 * len(part.names) >= len(names) for part in parts
    )


def _all_widened(parts: list[Part], full: Part) -> list[Part]:
    """Give all parts the variables of the one that has most, and say which files lack some."""
    lacking = {part.source: [name for name in full.names if name not in part.names] for part in parts}
    for source, missing in {source: missing for source, missing in lacking.items() if missing}.items():
        counts = "it counts" if len(missing) == 1 else "they count"
        notice(f"{source} lacks {_listed(missing)}, which {full.source} has; {counts} as not measured there.")
    return [widened(part, full.names) if len(part.names) < len(full.names) else part for part in parts]


def _is_unnamed(part: Part) -> bool:
    return part.names == unnamed(len(part.names))


def _other_variables(part: Part, example: Part) -> DataError:
    if _is_unnamed(part):
        return DataError(
            f"{part.source} has {len(part.names)} variables, but {example.source} has {len(example.names)}; all files "
            "must have the same variables."
        )
    missing = [name for name in example.names if name not in part.names]
    extra = [name for name in part.names if name not in example.names]
    differences = [f"{verb} {_listed(names)}" for verb, names in (("lacks", missing), ("adds", extra)) if names]
    return DataError(
        f"{part.source} has other variables than {example.source}: it {' and '.join(differences)}; keep those that all "
        "files share with --columns (in Python: Reading(columns=[...]))."
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")


def _same_date_order(parts: list[Part], skipped: Skipped) -> list[Part]:
    """Keep the parts whose dates are written as in most files: 03/04/2024 cannot be both April and March."""
    orders = {part.source: part.content.date_order for part in parts if isinstance(part.content, Columns)}
    count = Counter(order for order in orders.values() if order)
    if len(count) < 2:
        return parts
    usual = count.most_common(1)[0][0]
    example = next(source for source, order in orders.items() if order == usual)
    wrong = {source for source, order in orders.items() if order not in ("", usual)}
    for source in sorted(wrong):
        with skipped.errors():
            raise DataError(
                f"{source} has dates with the {orders[source]}, but those of {example} have the {usual}; write all "
                "dates alike, or read all of them with --dayfirst or --monthfirst (in Python: Reading(dayfirst=...))."
            )
    return [part for part in parts if part.source not in wrong]


def _same_interval(series: list[Series], sources: Mapping[str, str], skipped: Skipped) -> list[Series]:
    """Keep the series with the sampling interval that most have: a model needs a single one."""
    count = Counter(item.clock.every for item in series if item.clock.every)
    usual = count.most_common(1)[0][0] if count else None
    kept = []
    for item in series:
        with skipped.errors():
            if item.clock.every and usual and item.clock.every != usual:
                raise DataError(
                    f"{sources[item.entity]} is sampled every {spell(item.clock.every)}, but most files every "
                    f"{spell(usual)}; {how_to_resample(usual, recording=True)}."
                )
            kept.append(item)
    return kept


def _notice_unlike(series: Sequence[Series], sources: Mapping[str, str]) -> None:
    """Name a series without values, without times or without a time zone among others that have them."""
    clocks = [(item.clock, sources[item.entity]) for item in series]
    dated = [(clock, source) for clock, source in clocks if clock.dated]
    # An array never has times, so that its user knows; a table may have a column that was not recognised.
    bare = next((source for clock, source in clocks if not clock.dated and ending(Path(source)) in TABLES), None)
    if dated and bare is not None:
        clock, source = dated[0]
        notice(
            f"{bare} has no times, but {source} has; its rows are taken to be as far apart, {spell(clock.interval)}. "
            "If it has a column of times, name it with --time (in Python: Reading(time=...))."
        )
    naive = next((source for clock, source in dated if clock.timezone is None), None)
    zoned = next((source for clock, source in dated if clock.timezone is not None), None)
    if naive and zoned:
        notice(
            f"The times of {naive} have no time zone, but those of {zoned} have one; times without a zone were read as "
            "UTC."
        )
    if len(series) > 1:
        for item in series:
            if isinstance(item.values, np.ndarray) and np.isnan(item.values).all():
                notice(f"{sources[item.entity]} has no value in any variable; check it, or leave it out.")
