"""Arrays and NumPy files -> Series. A .npy file holds one array, a .npz file one array per entity. Nothing pickled is
ever loaded."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tsadc.config import parse_json
from tsadc.errors import DataError, notice
from tsadc.io.columns import check_width, find_infinite
from tsadc.io.entities import Part
from tsadc.io.limits import STREAM, check_numbers
from tsadc.io.reading import DEFAULT, Reading, choose, reason, without_missing
from tsadc.series import Clock, Floats, Series
from tsadc.variables import unnamed

HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def read_npy(path: Path, entity: str, reading: Reading) -> list[Part]:
    """Read an array of shape (time, variable) or (observation, time, variable)."""
    # Only the map's shape is used. A file that is truncated while its map is in use ends the process (SIGBUS).
    check_numbers(open_npy(path).size, str(path), STREAM)
    series = from_array(_load_npy(path), entity, str(path), reading=reading, names=names_beside(path))
    return [Part(entity, str(path), series)]


def open_npy(path: Path) -> NDArray[Any]:
    """Map the array in the file into memory, without reading it."""
    return _load_npy(path, "r")


def _load_npy(path: Path, mode: Literal["r"] | None = None) -> NDArray[Any]:
    try:
        values = np.load(path, mmap_mode=mode, allow_pickle=False)
    except PermissionError:
        raise
    except Exception as error:  # a damaged file can fail anywhere
        raise _damaged(path, "NPY", error) from None
    if not isinstance(values, np.ndarray):
        values.close()
        raise DataError(f"{path} is an NPZ file by its content; rename it to end in .npz.")
    return values


def read_npz(path: Path, entity: str, reading: Reading) -> list[Part]:
    """Read one array as the entity `entity`, or several as entities named by their keys. Arrays that cannot be series,
    such as labels, are left out."""
    try:
        # Opened here, because NumPy leaves a file open that it cannot read.
        with open(path, "rb") as file:
            _check_npz(file, path)
            content = np.load(file, allow_pickle=False)
            keys = getattr(content, "files", None)
            arrays: dict[str, NDArray[Any]] = (
                {"": content} if keys is None else {key: np.asarray(content[key]) for key in keys}
            )
    except (PermissionError, DataError):
        raise
    except Exception as error:  # a damaged file can fail anywhere
        raise _damaged(path, "NPZ", error) from None
    if len(arrays) == 1:
        (array,) = arrays.values()
        return [Part(entity, str(path), from_array(array, entity, str(path), reading=reading))]
    kept = {name: array for name, array in arrays.items() if array.ndim in (2, 3) and array.dtype.kind in "biuf"}
    others = [name for name in arrays if name not in kept]
    if not kept:
        raise DataError(
            f"{path} should hold one array of numbers of shape (time, variable) per entity, but has none; save "
            "such arrays with numpy.savez."
        )
    if others:
        shown = ", ".join(others[:5]) + (", ..." if len(others) > 5 else "")
        notice(f"{path} has arrays that are not series and were left out: {shown}.")
    return [
        Part(name, str(path), from_array(array, name, f"{path}, array {name!r}", reading=reading))
        for name, array in kept.items()
    ]


def _check_npz(file: IO[bytes], path: Path) -> None:
    """Raise unless the arrays fit into memory together."""
    count = 0
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            for entry in archive.infolist():
                with archive.open(entry) as content:
                    count += entry.file_size // _item_size(content)
        check_numbers(count, f"{path}, unpacked,")
    file.seek(0)


def _item_size(content: IO[bytes]) -> int:
    """Return the bytes per number that the header of an array declares; 1 if NumPy will not read it as numbers."""
    try:
        version = np.lib.format.read_magic(content)
        return max(1, int(HEADERS[version](content)[2].itemsize))
    except (KeyError, ValueError):
        return 1


def from_array(
    data: Any,
    entity: str,
    source: str,
    length: int | None = None,
    reading: Reading = DEFAULT,
    names: Sequence[str] | None = None,
) -> Series:
    """Make a Series of numbers of shape (time, variable), or (observation, time, variable) with the observations laid
    end to end; `names` are the names of the variables, if known."""
    given = _floats(data, source)
    values = _rows(given, length, reading.coverage, source)
    names = tuple(names) if names and len(names) == values.shape[1] else unnamed(values.shape[1])
    if reading.time or reading.entity or reading.every:
        raise DataError(f"{source} is an array without times and column names; leave out time, entity and every.")
    if reading.columns or reading.rename or reading.exclude or reading.difference:
        order, names = choose(names, reading, source)
        values = values[:, order]
    observation = given.shape[1] if given.ndim == 3 else None
    return Series(without_missing(values, reading), names, Clock(), entity, observation)


def names_beside(path: Path) -> list[str] | None:
    """Return the names of the variables if the array belongs to a prepared data set, whose `about.json` lists them."""
    about = path.parent.parent / "about.json"
    if path.parent.name != "observations" or not about.is_file():
        return None
    try:
        names = parse_json(about.read_bytes())["variables"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    listed = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return names if listed and len(set(names)) == len(names) else None


def _rows(values: Floats, length: int | None, coverage: float | None, source: str) -> Floats:
    """Check the values and return them as (time, variable)."""
    if values.ndim == 3:
        if length is not None and values.shape[1] != length:
            raise DataError(
                f"{source} has observations of {values.shape[1]} time steps, but the detector's length is {length}; "
                f"use length={values.shape[1]}, or pass the series as (time, variable)."
            )
        measured = np.isfinite(values).any(axis=2).mean(axis=1) if values.size else np.ones(0)
        sparse = np.flatnonzero(measured < (coverage or 0))
        if len(sparse):
            raise DataError(
                f"{source}: less than {coverage:.0%} of the time steps of observation {sparse[0]} were measured, so it "
                "would get no score; leave it out."
            )
        values = values.reshape(values.shape[0] * values.shape[1], values.shape[2])
    if values.ndim != 2:
        raise DataError(
            f"{source} should have shape (time, variable) or (observation, time, variable), but has {values.shape}."
        )
    if len(values) == 0:
        raise DataError(f"{source} has no rows; add rows of measurements.")
    if values.shape[1] == 0:
        raise DataError(f"{source} has no variable; pass one column for each.")
    check_width(values.shape[1], source)
    if cell := find_infinite(values):
        raise DataError(
            f"{source}: variable {cell[1]} is infinite at row {cell[0]}; use NaN where nothing was measured."
        )
    return values


def _floats(data: Any, source: str) -> Floats:
    if isinstance(data, (str, PurePath)):
        raise DataError(
            f"{source} should be a data frame or an array, but is the text {str(data)!r}; if it names a file, pass "
            f"tsadc.read({str(data)!r})."
        )
    if isinstance(data, (list, tuple)) and any(hasattr(item, "columns") for item in data):
        raise DataError(f"{source} is a list of data frames; pass a dict that maps entity names to frames.")
    try:
        values = np.asanyarray(data)
        if values.dtype.kind not in "biufOUS":
            raise TypeError(f"its type is {values.dtype}")
        if values.dtype.kind in "US":
            values = values.astype(object)  # whose errors quote the text as it was given
        values = values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        cause = str(error).split(". ")[0].rstrip(".")
        raise DataError(
            f"{source} should be a data frame or an array of numbers, but is a {type(data).__name__}: {cause}."
        ) from None
    return np.asarray(np.ma.filled(values, np.nan))


def _damaged(path: Path, form: str, error: Exception) -> DataError:
    if "allow_pickle" in str(error) or "Python objects" in str(error):
        return DataError(f"{path} holds Python objects or is not an {form} file; save plain numbers with NumPy.")
    return DataError(f"{path} is not a readable {form} file: {reason(error)}.")
