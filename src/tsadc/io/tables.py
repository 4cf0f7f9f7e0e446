"""Files -> Series, whatever their format: one entity per file, or as a column says."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pandas as pd

from tsadc.errors import DataError, TsadcNotice
from tsadc.io.arrays import read_npy, read_npz
from tsadc.io.columnar import read_arrow, read_parquet
from tsadc.io.delimited import EXACT as EXACT
from tsadc.io.delimited import read_delimited
from tsadc.io.entities import Part, by_entity, to_series
from tsadc.io.files import ending, entity_names, expand
from tsadc.io.frames import parts_of
from tsadc.io.reading import PLAIN, Reading
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
RECORDINGS = (".hea", ".edf", ".h5", ".hdf5", ".mat")
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
    parts = _alike(parts, bad)
    series: list[Series] = []
    for some in by_entity(parts):
        with bad.kept():
            series.append(to_series(some, reading))
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
        raise DataError(f"{path} is not a recording, so it has no rate to change; use every instead.")


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
    """The parts that have the variables most files have; their order does not matter, and bare arrays have no names."""
    named = [part for part in parts if part.names != unnamed(len(part.names))]
    if not named:
        return parts
    usual = Counter(frozenset(part.names) for part in {part.source: part for part in named}.values()).most_common(1)[0][
        0
    ]
    example = next(part for part in named if set(part.names) == usual)
    wrong: set[str] = set()
    for part in named:
        if set(part.names) != usual and part.source not in wrong:
            wrong.add(part.source)
            with bad.kept():
                raise _other_columns(part, example)
    return [part for part in parts if part.source not in wrong]


def _other_columns(part: Part, example: Part) -> DataError:
    lacks = [name for name in example.names if name not in part.names]
    adds = [name for name in part.names if name not in example.names]
    how = [f"{verb} {_some(names)}" for verb, names in (("lacks", lacks), ("adds", adds)) if names]
    return DataError(
        f"{part.source} has other variables than {example.source}: it {' and '.join(how)}; pick with columns those "
        "that all files share."
    )


def _some(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")
