"""NumPy's files -> Series: .npy left on disk and mapped into memory, .npz with one array per entity. Nothing pickled is
ever loaded."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsadc.errors import DataError, TsadcNotice
from tsadc.io.entities import Part
from tsadc.io.frames import from_array
from tsadc.io.reading import Reading, reason


def read_npy(path: Path, entity: str, reading: Reading) -> list[Part]:
    """(time, variable) or (observation, time, variable)."""
    try:
        values = np.load(path, mmap_mode="r", allow_pickle=False)
    except PermissionError:
        raise
    except Exception as error:  # a damaged file can fail anywhere
        raise _damaged(path, "NPY", error) from None
    if not isinstance(values, np.ndarray):
        values.close()
        raise DataError(f"{path} is an NPZ file by its content; give it the ending .npz.")
    series = from_array(values, entity, str(path), reading=reading, names=names_beside(path))
    return [Part(entity, str(path), series)]


def names_beside(path: Path) -> list[str] | None:
    """The variables' names where the array is one of a prepared data set, whose `about.json` has them."""
    about = path.parent.parent / "about.json"
    if path.parent.name != "observations" or not about.is_file():
        return None
    try:
        names = json.loads(about.read_text(encoding="utf-8"))["variables"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    listed = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return names if listed and len(set(names)) == len(names) else None


def read_npz(path: Path, entity: str, reading: Reading) -> list[Part]:
    """A single array is the file's entity; of several each is one, named by its key. Arrays of another kind, such as
    labels, are left out."""
    try:
        # Opened here, because NumPy leaves a file open that it cannot read.
        with open(path, "rb") as file:
            found = np.load(file, allow_pickle=False)
            names = getattr(found, "files", None)
            arrays: dict[str, NDArray[Any]] = {"": found} if names is None else {name: found[name] for name in names}
    except PermissionError:
        raise
    except Exception as error:  # a damaged file can fail anywhere
        raise _damaged(path, "NPZ", error) from None
    if len(arrays) == 1:
        (array,) = arrays.values()
        return [Part(entity, str(path), from_array(array, entity, str(path), reading=reading))]
    kept = {name: array for name, array in arrays.items() if array.ndim in (2, 3) and array.dtype.kind in "biuf"}
    others = [name for name in arrays if name not in kept]
    if not kept:
        raise DataError(f"{path} should hold arrays of shape (time, variable), one per entity, but has none.")
    if others:
        shown = ", ".join(others[:5]) + (", ..." if len(others) > 5 else "")
        warnings.warn(f"{path} holds arrays that are not series, left out: {shown}.", TsadcNotice, stacklevel=4)
    return [
        Part(name, str(path), from_array(array, name, f"{path}, array {name!r}", reading=reading))
        for name, array in kept.items()
    ]


def _damaged(path: Path, form: str, error: Exception) -> DataError:
    if "allow_pickle" in str(error) or "Python objects" in str(error):
        return DataError(f"{path} holds Python objects or is no {form} file at all; save plain numbers with NumPy.")
    return DataError(f"{path} is not a readable {form} file: {reason(error)}.")
