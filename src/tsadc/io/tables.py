"""Files -> Series, whatever their format: one entity per file, or as a column says."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pandas as pd

from tsadc.errors import DataError, TsadcNotice
from tsadc.io.arrays import read_npy, read_npz
from tsadc.io.columnar import read_arrow, read_parquet
from tsadc.io.columns import Columns
from tsadc.io.delimited import read_delimited
from tsadc.io.entities import Part, by_entity, to_series
from tsadc.io.files import RECORDINGS, ending, entity_names, expand
from tsadc.io.frames import parts_of
from tsadc.io.reading import PLAIN, Reading, same_step, spell
from tsadc.io.stream import open_rows
from tsadc.series import Series
from tsadc.variables import match, unnamed

READERS: dict[str, Callable[[Path], pd.DataFrame]] = {
    ".csv": read_delimited,
    ".tsv": read_delimited,
    ".csv.gz": read_delimited,
    ".tsv.gz": read_delimited,
    ".parquet": read_parquet,
    ".arrow": read_arrow,
    ".feather": read_arrow,
}
ARRAYS: dict[str, Callable[[Path, str, Reading], list[Part]]] = {".npy": read_npy, ".npz": read_npz}
ENDINGS = (*READERS, *ARRAYS, *RECORDINGS)


def read(paths: str | Path | Sequence[str | Path], reading: Reading = PLAIN) -> tuple[Series, ...]:
    """One Series per file, its entity the file's name without the ending (or its path, where names repeat), unless
    `reading` names a column that tells it. A folder stands for the files in it, a pattern for those it matches."""
    files = expand(paths, ENDINGS)
    bad = Bad(reading.skip_bad)
    parts: list[Part] = []
    for file, name in zip(files, entity_names(files), strict=True):
        with bad.kept():
            parts += read_parts(file, name, reading)
    parts = _same_order(_alike(parts, bad), bad)
    series: list[Series] = []
    for some in by_entity(parts):
        with bad.kept():
            series.append(to_series(some, reading))
    where = {part.entity: part.source for part in parts}
    series = _as_often(series, where, bad) if reading.skip_bad else series
    _tell_zones(series, where)
    bad.report(len(files), anything=bool(series))
    names = series[0].names
    return tuple(match([one], names)[0] if set(one.names) == set(names) else one for one in series)


def read_parts(path: Path, entity: str, reading: Reading = PLAIN) -> list[Part]:
    """What one file holds: of one entity, or of several."""
    form = ending(path)
    if form in READERS and not reading.stream:
        frame = read_frame(path, reading)
        return parts_of(frame, entity, str(path), reading)
    with _readable(path, ENDINGS):
        if reading.stream:
            return [Part(entity, str(path), open_rows(path, entity, reading))]
        if form in ARRAYS:
            _refuse_rate(path, reading)
            return ARRAYS[form](path, entity, reading)
        return [Part(entity, str(path), _read_recording(path, entity, reading))]


def read_frame(path: Path, reading: Reading = PLAIN) -> pd.DataFrame:
    """A file of rows and columns as a pandas frame, whatever its format."""
    with _readable(path, READERS):
        _refuse_rate(path, reading)
        reader = READERS[ending(path)]
        # Entities are names even where they look like numbers: 007 is not 7.
        return read_delimited(path, reading.entity) if reader is read_delimited else reader(path)


@contextmanager
def _readable(path: Path, endings: Collection[str]) -> Iterator[None]:
    if path.is_dir():
        raise DataError(f"{path} is a folder, but a file was expected; name the files in it.")
    if not path.is_file():
        raise DataError(f"There is no file {path}.")
    if ending(path) not in endings:
        raise DataError(f"{path} should end in {', '.join(endings)}, which is how its format is known.")
    try:
        yield
    except PermissionError:
        raise DataError(f"{path} may not be read: permission denied.") from None


def _refuse_rate(path: Path, reading: Reading) -> None:
    if reading.rate is not None:
        raise DataError(
            f"{path} is not a recording, so it has no rate to change; use --every (in Python every) instead."
        )


def _read_recording(path: Path, entity: str, reading: Reading) -> Series:
    from tsadc.io.recording import read_recording

    if reading.time or reading.entity or reading.every:
        raise DataError(f"{path} is a recording with a clock of its own; use it without time, entity and every.")
    return read_recording(path).to_series(entity, reading.rate, reading.columns, reading.rename)


class Bad:
    """What could not be used: an error at once, or kept for a notice if the rest is wanted all the same."""

    def __init__(self, skip: bool) -> None:
        self._skip, self._sentences = skip, list[str]()

    @contextmanager
    def kept(self) -> Iterator[None]:
        try:
            yield
        except DataError as error:
            if not self._skip:
                raise
            self._sentences.append(str(error))

    def report(self, files: int, *, anything: bool) -> None:
        if not anything:
            raise DataError(f"None of {files} file(s) can be used; of the first: {self._sentences[0]}")
        if self._sentences:
            warnings.warn(f"{len(self._sentences)} left out: {' '.join(self._sentences)}", TsadcNotice, stacklevel=3)


def _alike(parts: list[Part], bad: Bad) -> list[Part]:
    """The parts that have the variables most files have; their order does not matter. Bare arrays have no names, and
    count by how many variables they have."""
    named = [part for part in parts if not _is_bare(part)]
    per_file = {part.source: part for part in named or parts}.values()
    if not per_file:
        return parts
    usual = Counter(frozenset(part.names) for part in per_file).most_common(1)[0][0]
    example = next(part for part in per_file if set(part.names) == usual)
    wrong: set[str] = set()
    for part in parts:
        fits = len(part.names) == len(usual) if _is_bare(part) else set(part.names) == usual
        if not fits and part.source not in wrong:
            wrong.add(part.source)
            with bad.kept():
                raise _other_columns(part, example)
    return [part for part in parts if part.source not in wrong]


def _is_bare(part: Part) -> bool:
    return part.names == unnamed(len(part.names))


def _same_order(parts: list[Part], bad: Bad) -> list[Part]:
    """The parts whose dates are written like those of most files: 03/04/2024 cannot be both April and March."""
    orders = {part.source: part.content.order for part in parts if isinstance(part.content, Columns)}
    told = Counter(order for order in orders.values() if order)
    if len(told) < 2:
        return parts
    usual = told.most_common(1)[0][0]
    example = next(source for source, order in orders.items() if order == usual)
    wrong = {source for source, order in orders.items() if order not in ("", usual)}
    for source in sorted(wrong):
        with bad.kept():
            raise DataError(
                f"{source} has dates with the {orders[source]}, but those of {example} have the {usual}; write all "
                "dates alike, such as 2024-01-31."
            )
    return [part for part in parts if part.source not in wrong]


def _tell_zones(series: Sequence[Series], where: Mapping[str, str]) -> None:
    bare = [one.entity for one in series if one.clock.dated and one.clock.timezone is None]
    zoned = [one.entity for one in series if one.clock.dated and one.clock.timezone is not None]
    if bare and zoned:
        warnings.warn(
            f"{where[bare[0]]} does not say in which time zone its times are, while {where[zoned[0]]} does; the "
            "former were taken for UTC.",
            TsadcNotice,
            stacklevel=3,
        )


def _as_often(series: list[Series], where: Mapping[str, str], bad: Bad) -> list[Series]:
    """The series with the sampling interval that most have, where they tell it: a model needs one."""
    told = Counter(one.clock.every for one in series if one.clock.every)
    usual = told.most_common(1)[0][0] if told else None
    out = []
    for one in series:
        with bad.kept():
            if one.clock.every and usual and one.clock.every != usual:
                raise DataError(
                    f"{where[one.entity]} is sampled every {spell(one.clock.every)}, but most are every "
                    f"{spell(usual)}; {same_step(usual)}."
                )
            out.append(one)
    return out


def _other_columns(part: Part, example: Part) -> DataError:
    if _is_bare(part):
        return DataError(
            f"{part.source} has {len(part.names)} variables, but {example.source} has {len(example.names)}; all files "
            "must have the same."
        )
    lacks = [name for name in example.names if name not in part.names]
    adds = [name for name in part.names if name not in example.names]
    how = [f"{verb} {_some(names)}" for verb, names in (("lacks", lacks), ("adds", adds)) if names]
    return DataError(
        f"{part.source} has other variables than {example.source}: it {' and '.join(how)}; pick those that all "
        "files share with --columns, in Python columns=[...]."
    )


def _some(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")
