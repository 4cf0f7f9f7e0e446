"""Packs: a pack is one `.npz` file with an open data set, already resampled, used in place of the files of its archive.
`docs/guides/datasets.md` says how to make them."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsadc.errors import DataError


@dataclass(frozen=True)
class Pack:
    """The arrays of a pack. Each is read once, on first access."""

    file: Path
    _read: dict[str, NDArray[Any]] = field(default_factory=dict)

    def __getitem__(self, key: str) -> NDArray[Any]:
        if key not in self._read:
            try:
                with open(self.file, "rb") as file, np.load(file, allow_pickle=False) as arrays:
                    self._read[key] = arrays[key]
            except KeyError:
                raise DataError(f"{self.file} has no array {key!r}.") from None
            except (OSError, ValueError, zipfile.BadZipFile):
                raise DataError(f"{self.file} is damaged or not an .npz file.") from None
        return self._read[key]

    def find(self, key: str, name: str) -> int:
        """Return the position of `name` in an array of names."""
        positions = np.flatnonzero(self[key].astype(str) == name)
        if len(positions) != 1:
            raise DataError(f"{self.file} should name {name} once in {key!r}, but names it {len(positions)} times.")
        return int(positions[0])


def open_pack(raw: Path, name: str) -> Pack | None:
    """Return the pack `name` if `raw` is that file or a folder that holds it, else None."""
    file = raw if raw.name == name else raw / name
    return _pack(file, file.stat().st_mtime_ns) if file.is_file() else None


def require_pack(raw: Path, name: str) -> Pack:
    """Return the pack `name` as `open_pack` does, or raise a DataError that names it."""
    pack = open_pack(raw, name)
    if pack is None:
        raise DataError(f"{raw} has no {name}; set TSADC_DATA to the folder that holds it.")
    return pack


@lru_cache(maxsize=1)
def _pack(file: Path, changed: int) -> Pack:
    """Return the pack. `changed`, the time of the last change, is only part of the cache's key: a changed file is read
    again."""
    return Pack(file)
