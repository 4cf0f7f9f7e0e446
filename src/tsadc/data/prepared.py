"""A prepared data set is a folder: `observations/ENTITY.npy` (observation, time, variable) as float32 with NaN where
nothing was observed, `labels.json` with the truth, and `about.json`, which says where everything came from. The folder
appears whole or not at all. Labels stay here: the series that come out of it carry none."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsadc.errors import DataError
from tsadc.series import Booleans, Clock, Labelled, Observations, Place, Series, Truth

FORMAT = 1
ABOUT, LABELS, ARRAYS = "about.json", "labels.json", "observations"
Chosen = Mapping[str, Sequence[int]]  # entity -> its observations, ascending


@dataclass(frozen=True, slots=True)
class Label:
    """Where an observation comes from, and the kinds of anomaly in it; without any it is normal."""

    record: str
    start: int
    part: str
    kinds: tuple[str, ...]


@dataclass(frozen=True)
class Prepared:
    """A prepared data set on disk. Rows of an entity count through its observations, laid end to end."""

    folder: Path
    about: dict[str, Any]
    labels: dict[str, tuple[Label, ...]]
    truth: dict[str, tuple[Truth, ...]]

    def __len__(self) -> int:
        return sum(len(labels) for labels in self.labels.values())

    @property
    def name(self) -> str:
        return str(self.about["name"])

    @property
    def entities(self) -> tuple[str, ...]:
        return tuple(self.labels)

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(self.about["variables"])

    @property
    def length(self) -> int:
        return int(self.about["length"])

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of anomaly that occur."""
        return tuple(sorted({kind for labels in self.labels.values() for label in labels for kind in label.kinds}))

    @property
    def every(self) -> Chosen:
        return {entity: range(len(labels)) for entity, labels in self.labels.items()}

    def anomalous(self, entity: str) -> Booleans:
        return np.array([bool(label.kinds) for label in self.labels[entity]], dtype=bool)

    def values(self, entity: str) -> NDArray[np.float32]:
        """The observations of an entity (observation, time, variable), memory-mapped."""
        file = self.folder / ARRAYS / f"{entity}.npy"
        shape = (len(self.labels[entity]), self.length, len(self.variables))
        try:
            values: NDArray[np.float32] = np.load(file, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError):
            raise DataError(f"{file} is missing or truncated; prepare the data set anew.") from None
        if values.shape != shape or values.dtype != np.float32:
            raise DataError(f"{file} should hold {shape} float32 values, but holds {values.shape} {values.dtype}.")
        return values

    def series(self, chosen: Chosen | None = None) -> tuple[Series, ...]:
        """The chosen observations of each entity laid end to end. Only runs that are not whole are copied."""
        chosen = self.every if chosen is None else chosen
        out = []
        for entity, indices in chosen.items():
            values = self.values(entity)
            picked = values if len(indices) == len(values) else values[np.asarray(indices, dtype=int)]
            rows = picked.reshape(-1, len(self.variables))
            out.append(Series(rows, self.variables, Clock(), entity, self.length))
        return tuple(out)

    def observations(self, chosen: Chosen | None = None) -> Observations:
        """The chosen observations, read from disk only when asked for."""
        chosen = self.every if chosen is None else chosen
        series = self.series({entity: self.every[entity] for entity in chosen})
        places = [Place(n, i * self.length) for n, indices in enumerate(chosen.values()) for i in indices]
        return Observations(series, tuple(places), self.length)

    def labelled(self, chosen: Chosen | None = None) -> Labelled:
        """The series of `chosen` with their truth, for evaluation."""
        chosen = self.every if chosen is None else chosen
        truth = [moved for entity, indices in chosen.items() for moved in self._moved(entity, indices)]
        return Labelled(self.series(chosen), tuple(truth))

    def fingerprint(self, entity: str) -> str:
        """SHA-256 of an entity's observations and labels as they lie on disk now."""
        self.values(entity)
        with open(self.folder / ARRAYS / f"{entity}.npy", "rb") as file:
            digest = hashlib.file_digest(file, "sha256")
        digest.update(plain(self.labels[entity], self.truth[entity]).encode())
        return digest.hexdigest()

    def _moved(self, entity: str, indices: Sequence[int]) -> Iterator[Truth]:
        """The truth of an entity when only the observations `indices` remain. What is left of an anomaly hangs
        together, as it reached over every observation between its first and its last."""
        for truth in self.truth[entity]:
            spans = []
            for position, index in enumerate(indices):
                shift = (position - index) * self.length
                first = max(truth.start, index * self.length) + shift
                last = min(truth.stop, (index + 1) * self.length) + shift
                spans += [(first, last)] if first < last else []
            if spans:
                yield Truth(entity, spans[0][0], spans[-1][1], truth.kind, truth.variables)


def load(folder: str | Path) -> Prepared:
    """The prepared data set in `folder`."""
    folder = Path(folder)
    if folder.is_file():
        raise DataError(f"{folder} is a file, but the folder of a prepared data set was expected.")
    if not folder.is_dir():
        raise DataError(
            f"There is no folder {folder}; that of a prepared data set was expected, which `tsadc data prepare` or "
            "`tsadc.data.prepare_own` writes."
        )
    if not (folder / ABOUT).is_file():
        raise DataError(f"{folder} is not a prepared data set: it has no {ABOUT}.")
    about, noted = _read_json(folder / ABOUT), _read_json(folder / LABELS)
    if not isinstance(about.get("format"), int) or "length" not in about:
        raise DataError(f"{folder / ABOUT} was not written by tsadc.")
    if about["format"] > FORMAT:
        raise DataError(f"{folder} has format {about['format']}, but this version reads up to {FORMAT}; upgrade tsadc.")
    try:
        labels = {
            entity: tuple(
                Label(record, start, part, tuple(kinds)) for record, start, part, kinds in one["observations"]
            )
            for entity, one in noted.items()
        }
        truth = {
            entity: tuple(Truth(entity, start, stop, kind, tuple(blamed)) for start, stop, kind, blamed in one["truth"])
            for entity, one in noted.items()
        }
    except (KeyError, TypeError, ValueError):
        raise DataError(f"{folder / LABELS} was not written by tsadc.") from None
    for entity in labels:
        check_entity(entity, folder / LABELS)
    return Prepared(folder, about, labels, truth)


def check_entity(entity: str, source: str | Path) -> None:
    """Refuse a name that cannot be a file's, or that would lead out of the folder."""
    if entity in ("", ".", "..") or any(mark in entity for mark in "/\\\0"):
        raise DataError(f"{source} names an entity {entity!r}, which cannot be the name of a file; rename it.")


def plain(labels: Sequence[Label], truth: Sequence[Truth]) -> str:
    """The labels of an entity as one line of JSON: what is written, and what is hashed."""
    observations = [[label.record, label.start, label.part, list(label.kinds)] for label in labels]
    anomalies = [[one.start, one.stop, one.kind, list(one.variables)] for one in truth]
    return json.dumps({"observations": observations, "truth": anomalies}, ensure_ascii=False)


def _read_json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise DataError(f"{file} is missing, truncated or not JSON; prepare the data set anew.") from None
    if not isinstance(content, dict):
        raise DataError(f"{file} was not written by tsadc.")
    return content
