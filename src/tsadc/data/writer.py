"""Write a prepared data set: observation after observation, so that memory never holds more than one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tsadc.data.dataset import Piece, Span
from tsadc.data.prepared import ABOUT, ARRAYS, FORMAT, LABELS, Label, Prepared, check_entity, plain
from tsadc.errors import DataError
from tsadc.series import Truth


class Writer:
    """Appends observations to their entities."""

    def __init__(self, folder: Path, length: int, variables: Sequence[str]) -> None:
        self.folder, self.shape = folder, (length, len(variables))
        self.labels: dict[str, list[Label]] = {}
        self.truth: dict[str, list[Truth]] = {}
        self.coverage = 1.0  # the least share of rows with any value in an observation
        (folder / ARRAYS).mkdir()

    def add(self, entity: str, record: str, piece: Piece) -> None:
        values = np.ascontiguousarray(piece.values, dtype="<f4")
        if values.shape != self.shape:
            raise DataError(f"An observation of {record} should have shape {self.shape}, but has {values.shape}.")
        check_entity(entity, f"The record {record}")
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
        """Give every array its header, then write the labels and `about`, completed by counts and hashes."""
        for entity, labels in self.labels.items():
            header = {"descr": "<f4", "fortran_order": False, "shape": (len(labels), *self.shape)}
            with open(self._raw(entity), "rb") as values, open(self._raw(entity).with_suffix(".npy"), "wb") as out:
                np.lib.format.write_array_header_1_0(out, header)
                shutil.copyfileobj(values, out)
            self._raw(entity).unlink()
        lines = [f"{json.dumps(e)}: {plain(labels, self.truth[e])}" for e, labels in self.labels.items()]
        (self.folder / LABELS).write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")
        labels_of = {entity: tuple(labels) for entity, labels in self.labels.items()}
        truth_of = {entity: tuple(truth) for entity, truth in self.truth.items()}
        written = Prepared(self.folder, about, labels_of, truth_of)
        entities = {
            entity: {
                "observations": len(labels),
                "anomalous": sum(bool(label.kinds) for label in labels),
                "content": written.fingerprint(entity),
            }
            for entity, labels in self.labels.items()
        }
        whole = json.dumps(
            {"format": FORMAT, **about, "coverage": self.coverage, "entities": entities}, indent=1, ensure_ascii=False
        )
        (self.folder / ABOUT).write_text(whole + "\n", encoding="utf-8")

    def _raw(self, entity: str) -> Path:
        return self.folder / ARRAYS / f"{entity}.raw"


def _extend(truth: list[Truth], entity: str, first: int, span: Span, follows: bool) -> None:
    """Add a span; what goes on over the border of two observations in a row is one anomaly."""
    start, stop = first + span.start, first + span.stop
    for i, old in enumerate(truth):
        if follows and old.stop == start == first and (old.kind, old.variables) == (span.kind, span.variables):
            truth[i] = Truth(entity, old.start, stop, span.kind, span.variables)
            return
    truth.append(Truth(entity, start, stop, span.kind, span.variables))
