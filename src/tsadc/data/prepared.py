"""Prepared data sets: the folder format, how it is written and how it is read.

    observations/ENTITY.npy   (observation, time, variable) as float32, NaN where nothing was observed
    labels.json               per entity, the labels of its observations and the true anomalies
    about.json                settings, counts, and hashes of the sources

Callers of `Writer` write through `tsadc.atomic.new_folder`, so the folder appears whole or not at all. The series that
are read from it carry no labels.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tsadc.config import parse_json
from tsadc.data.dataset import Piece, Span
from tsadc.errors import DataError
from tsadc.series import Booleans, Clock, Labelled, Observations, Place, Series, Truth

FORMAT = 1
ABOUT, LABELS, ARRAYS = "about.json", "labels.json", "observations"
Selection = Mapping[str, Sequence[int]]  # entity -> its selected observations, ascending


@dataclass(frozen=True, slots=True)
class Label:
    """The origin of an observation and the kinds of anomaly in it; an observation without kinds is normal."""

    record: str
    start: int
    part: str
    kinds: tuple[str, ...]


@dataclass(frozen=True)
class Prepared:
    """A prepared data set on disk, as returned by `prepare`, `prepare_own` and `load`.

    Rows of an entity are numbered consecutively across its observations.

    Attributes
    ----------
    folder
        Path of the folder.
    about
        The content of `about.json`.
    labels
        For each entity, one `Label` per observation.
    truth
        For each entity, its true anomalies.
    """

    folder: Path
    about: dict[str, Any]
    labels: dict[str, tuple[Label, ...]]
    truth: dict[str, tuple[Truth, ...]]

    def __len__(self) -> int:
        return sum(len(labels) for labels in self.labels.values())

    @property
    def name(self) -> str:
        """The name of the data set."""
        return str(self.about["name"])

    @property
    def entities(self) -> tuple[str, ...]:
        """The names of the entities."""
        return tuple(self.labels)

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables."""
        return tuple(self.about["variables"])

    @property
    def length(self) -> int:
        """The number of rows of an observation."""
        return int(self.about["length"])

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of anomaly that occur."""
        return tuple(sorted({kind for labels in self.labels.values() for label in labels for kind in label.kinds}))

    @property
    def all_observations(self) -> Selection:
        """All observations of all entities."""
        return {entity: range(len(labels)) for entity, labels in self.labels.items()}

    def anomalous(self, entity: str) -> Booleans:
        """Return whether each observation of an entity is anomalous."""
        return np.array([bool(label.kinds) for label in self.labels[entity]], dtype=bool)

    def values(self, entity: str) -> np.memmap[Any, np.dtype[np.float32]]:
        """Return the observations of an entity (observation, time, variable), memory-mapped."""
        file = self.folder / ARRAYS / f"{entity}.npy"
        shape = (len(self.labels[entity]), self.length, len(self.variables))
        try:
            values: np.memmap[Any, np.dtype[np.float32]] = np.load(file, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError):
            raise DataError(f"{file} is missing or truncated; prepare the data set again.") from None
        if values.shape != shape or values.dtype != np.float32:
            raise DataError(f"{file} should hold {shape} float32 values, but holds {values.shape} {values.dtype}.")
        return values

    def series(self, selection: Selection | None = None) -> tuple[Series, ...]:
        """Return one series per entity: its selected observations (None: all) laid end to end, without labels.

        Values are copied only if some observations of the entity are left out."""
        selection = self._or_all(selection)
        out = []
        for entity, indices in selection.items():
            values = self.values(entity)
            picked = values if len(indices) == len(values) else values[np.asarray(indices, dtype=int)]
            rows = picked.reshape(-1, len(self.variables))
            out.append(Series(rows, self.variables, Clock(), entity, self.length))
        return tuple(out)

    def observations(self, selection: Selection | None = None) -> Observations:
        """Return the selected observations (None: all), which are read from disk on access."""
        selection = self._or_all(selection)
        series = self.series({entity: range(len(self.labels[entity])) for entity in selection})
        places = [Place(n, i * self.length) for n, indices in enumerate(selection.values()) for i in indices]
        return Observations(series, tuple(places), self.length)

    def labelled(self, selection: Selection | None = None) -> Labelled:
        """Return the series of the selected observations (None: all) with their truth, for evaluation."""
        selection = self._or_all(selection)
        truth = [part for entity, indices in selection.items() for part in self._truth_within(entity, indices)]
        return Labelled(self.series(selection), tuple(truth))

    def fingerprint(self, entity: str) -> str:
        """Return the SHA-256 of the observations on disk and the loaded labels of an entity."""
        with open(str(self.values(entity).filename), "rb") as file:
            digest = hashlib.file_digest(file, "sha256")
        digest.update(_labels_json(self.labels[entity], self.truth[entity]).encode())
        return digest.hexdigest()

    def _or_all(self, selection: Selection | None) -> Selection:
        return self.all_observations if selection is None else selection

    def _truth_within(self, entity: str, indices: Sequence[int]) -> Iterator[Truth]:
        """Yield the truth of an entity if only the observations `indices` remain. The rest of an anomaly is contiguous,
        because the anomaly covered every observation between its first and its last."""
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
    """Load a prepared data set.

    Parameters
    ----------
    folder
        A folder that `tsadc data prepare`, `prepare` or `prepare_own` has written.

    Returns
    -------
    Prepared
        The data set. Values are read from disk on access.

    Raises
    ------
    DataError
        If `folder` is not a prepared data set, or was written by a newer version.

    Examples
    --------
    >>> from tsadc.data import load
    >>> load("prepared/smd").entities  # doctest: +SKIP
    """
    folder = Path(folder)
    if folder.is_file():
        raise DataError(f"{folder} is a file, but the folder of a prepared data set was expected.")
    if not folder.is_dir():
        raise DataError(
            f"There is no folder {folder}; expected a prepared data set, which `tsadc data prepare` or "
            "`tsadc.data.prepare_own` writes."
        )
    if not (folder / ABOUT).is_file():
        raise DataError(f"{folder} is not a prepared data set: it has no {ABOUT}.")
    about, stored = _read_json(folder / ABOUT), _read_json(folder / LABELS)
    if not isinstance(about.get("format"), int) or "length" not in about:
        raise DataError(f"{folder / ABOUT} was not written by tsadc.")
    if about["format"] > FORMAT:
        raise DataError(f"{folder} has format {about['format']}, but this version reads up to {FORMAT}; upgrade tsadc.")
    try:
        labels = {
            entity: tuple(
                Label(record, start, part, tuple(kinds)) for record, start, part, kinds in content["observations"]
            )
            for entity, content in stored.items()
        }
        truth = {
            entity: tuple(
                Truth(entity, start, stop, kind, tuple(variables)) for start, stop, kind, variables in content["truth"]
            )
            for entity, content in stored.items()
        }
    except (KeyError, TypeError, ValueError):
        raise DataError(f"{folder / LABELS} was not written by tsadc.") from None
    for entity in labels:
        _check_entity_name(entity, folder / LABELS)
    return Prepared(folder, about, labels, truth)


class Writer:
    """Write a prepared data set observation by observation, so that memory never holds more than one.

    Callers pass the temporary folder of `tsadc.atomic.new_folder`."""

    def __init__(self, folder: Path, length: int, variables: Sequence[str]) -> None:
        self.folder, self.shape = folder, (length, len(variables))
        self.labels: dict[str, list[Label]] = {}
        self.truth: dict[str, list[Truth]] = {}
        self.coverage = 1.0  # the least share of rows with any value in an observation
        (folder / ARRAYS).mkdir()

    def add(self, entity: str, record: str, piece: Piece) -> None:
        """Append an observation to its entity."""
        values = np.ascontiguousarray(piece.values, dtype="<f4")
        if values.shape != self.shape:
            raise DataError(f"An observation of {record} should have shape {self.shape}, but has {values.shape}.")
        _check_entity_name(entity, f"The record {record}")
        self.coverage = min(self.coverage, float(np.isfinite(values).any(axis=1).mean()))
        labels, truth = self.labels.setdefault(entity, []), self.truth.setdefault(entity, [])
        follows = bool(labels) and (labels[-1].record, labels[-1].part) == (record, piece.part)
        follows = follows and labels[-1].start + self.shape[0] == piece.start
        first = len(labels) * self.shape[0]
        for span in piece.spans:
            _extend(truth, entity, first, span, follows)
        kinds = tuple(sorted({span.kind for span in piece.spans}))
        labels.append(Label(record, piece.start, piece.part, kinds))
        with open(self._raw(entity), "ab") as file:
            file.write(values.tobytes())

    def finish(self, about: dict[str, Any]) -> None:
        """Complete the arrays, then write the labels and `about` with counts and hashes."""
        self._write_arrays()
        self._write_labels()
        content = {"format": FORMAT, **about, "coverage": self.coverage, "entities": self._entities(about)}
        text = json.dumps(content, indent=1, ensure_ascii=False)
        (self.folder / ABOUT).write_text(text + "\n", encoding="utf-8")

    def _write_arrays(self) -> None:
        """Put a header before the values of each entity."""
        for entity, labels in self.labels.items():
            header = {"descr": "<f4", "fortran_order": False, "shape": (len(labels), *self.shape)}
            with open(self._raw(entity), "rb") as values, open(self._raw(entity).with_suffix(".npy"), "wb") as out:
                np.lib.format.write_array_header_1_0(out, header)
                shutil.copyfileobj(values, out)
            self._raw(entity).unlink()

    def _write_labels(self) -> None:
        lines = [
            f"{json.dumps(entity)}: {_labels_json(labels, self.truth[entity])}"
            for entity, labels in self.labels.items()
        ]
        (self.folder / LABELS).write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")

    def _entities(self, about: dict[str, Any]) -> dict[str, Any]:
        """Return counts and a hash of the content for each entity."""
        labels_of = {entity: tuple(labels) for entity, labels in self.labels.items()}
        truth_of = {entity: tuple(truth) for entity, truth in self.truth.items()}
        written = Prepared(self.folder, about, labels_of, truth_of)
        return {
            entity: {
                "observations": len(labels),
                "anomalous": sum(bool(label.kinds) for label in labels),
                "content": written.fingerprint(entity),
            }
            for entity, labels in self.labels.items()
        }

    def _raw(self, entity: str) -> Path:
        return self.folder / ARRAYS / f"{entity}.raw"


def _extend(truth: list[Truth], entity: str, first: int, span: Span, follows: bool) -> None:
    """Add a span; an anomaly that continues from one observation into the next is one anomaly."""
    start, stop = first + span.start, first + span.stop
    if follows and start == first:
        for i, old in enumerate(truth):
            if (old.stop, old.kind, old.variables) == (start, span.kind, span.variables):
                truth[i] = Truth(entity, old.start, stop, span.kind, span.variables)
                return
    truth.append(Truth(entity, start, stop, span.kind, span.variables))


def _check_entity_name(entity: str, source: str | Path) -> None:
    """Raise if a name cannot be the name of a file, or would lead out of the folder."""
    if entity in ("", ".", "..") or any(mark in entity for mark in "/\\\0"):
        raise DataError(f"{source} names an entity {entity!r}, which cannot be the name of a file; rename it.")


def _labels_json(labels: Sequence[Label], truth: Sequence[Truth]) -> str:
    """Return the labels of an entity as one line of JSON, which is written and hashed."""
    observations = [[label.record, label.start, label.part, list(label.kinds)] for label in labels]
    anomalies = [[anomaly.start, anomaly.stop, anomaly.kind, list(anomaly.variables)] for anomaly in truth]
    return json.dumps({"observations": observations, "truth": anomalies}, ensure_ascii=False)


def _read_json(file: Path) -> dict[str, Any]:
    try:
        content = parse_json(file.read_bytes())
    except (OSError, ValueError):
        raise DataError(f"{file} is missing, truncated or not JSON; prepare the data set again.") from None
    if not isinstance(content, dict):
        raise DataError(f"{file} was not written by tsadc.")
    return content
