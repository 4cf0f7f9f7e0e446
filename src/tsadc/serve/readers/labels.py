"""Labels -> entity and variable: how series of Prometheus and lines of Influx become columns of a model.

A series of Prometheus is a name with labels, such as ``node_load1{instance="web-1:9100", job="node"}``. One label names
the entity. The name, with the other labels in braces and sorted, is the variable: here ``node_load1`` of the entity
``web-1:9100``, and ``node_filesystem_free_bytes{mountpoint="/"}`` if there are several series of that name per entity.
Labels that are the same in all series of an entity, like `job`, belong in `ignore`. The rule depends on one series
alone, never on others, so that a variable has the same name in every request and in the history of the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tsadc.config import require
from tsadc.series import Floats
from tsadc.serve.rows import MOST_NAME, RowBatch, Ticks

Codes = NDArray[np.int64]
SKIPPED = -1  # in place of the code of an entity
MOST_KEY = 10_000  # bytes of a key that is remembered, so that strange requests do not fill the memory


@dataclass(frozen=True)
class LabelMapping:
    """How labels become an entity and a variable.

    Parameters
    ----------
    entity : str
        Label whose value is the name of the entity: `instance` for Prometheus, `host` for Telegraf.
    ignore : sequence of str
        Labels that are not part of the name of a variable.
    keep : sequence of str, optional
        If given, only these labels are part of the name of a variable, and all others are ignored.
    rename : tuple of pairs
        New names for some of the variables, for example ``[["node_load1", "load"]]``.
    """

    entity: str = "instance"
    ignore: tuple[str, ...] = ("job",)
    keep: tuple[str, ...] | None = None
    rename: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        require(bool(self.entity.strip()), "entity", "the name of a label", self.entity)

    def variable(self, name: str, labels: Iterable[tuple[str, str]]) -> str:
        """Return the variable of a series with these labels."""
        return self.renamed(name + self.suffix(labels))

    def suffix(self, labels: Iterable[tuple[str, str]]) -> str:
        """Return what labels add to the name of a variable."""
        if self.keep is None:
            kept = [pair for pair in labels if pair[0] != self.entity and pair[0] not in self.ignore]
        else:
            kept = [pair for pair in labels if pair[0] in self.keep]
        return "{" + ",".join(f'{label}="{_escaped(value)}"' for label, value in sorted(kept)) + "}" if kept else ""

    def renamed(self, name: str) -> str:
        """Return the name of a variable in the model."""
        return dict(self.rename).get(name, name)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def is_short(*parts: bytes) -> bool:
    """Return whether a key of these parts is short enough to be remembered."""
    return sum(map(len, parts)) <= MOST_KEY


class SeriesIndex:
    """The entities and variables that have been seen, by the bytes of a series' name and labels.

    Senders repeat the same series in every request, so that their labels are decoded once.

    Attributes
    ----------
    codes : dict of bytes to (int, int)
        Position of the entity and of the variable of a series, or `SKIPPED` and the position of the
        reason in `reasons` if the series cannot be used.
    entities, variables, reasons : dict of str to int
        Positions, in order.
    """

    MOST = 100_000  # series, entities and variables that are remembered between requests

    def __init__(self, mapping: LabelMapping) -> None:
        self.mapping = mapping
        self.forget()

    def forget(self) -> None:
        self.codes: dict[bytes, tuple[int, int]] = {}
        self.entities: dict[str, int] = {}
        self.variables: dict[str, int] = {}
        self.reasons: dict[str, int] = {}

    def begin(self) -> bool:
        """Forget all series if they are too many, and return whether that was so. Codes are valid until then."""
        if max(len(self.codes), len(self.entities), len(self.variables)) <= self.MOST:
            return False
        self.forget()
        return True

    def add(self, key: bytes, name: str, labels: Sequence[tuple[str, str]]) -> tuple[int, int]:
        """Return the codes of a series, and remember them if `key` is short and not empty."""
        return self.add_all([(key, name)], labels)[0]

    def add_all(self, series: Iterable[tuple[bytes, str]], labels: Sequence[tuple[str, str]]) -> list[tuple[int, int]]:
        """Return the codes of series, given as key and name, that have the same labels."""
        # What is cut off belongs to names that are too long in any case.
        entity = next((value for label, value in labels if label == self.mapping.entity), "")[:MOST_KEY]
        suffix = self.mapping.suffix(labels)[:MOST_KEY]
        return [self._add(key, entity, self.mapping.renamed(name + suffix)) for key, name in series]

    def _add(self, key: bytes, entity: str, variable: str) -> tuple[int, int]:
        reason = ""
        if not entity.strip():
            reason = f"series without the label {self.mapping.entity!r}, which names the entity"
        elif not variable.strip():
            reason = "series without a name"
        elif len(variable) > MOST_NAME or len(entity) > MOST_NAME:
            reason = f"series whose entity or variable has a name of more than {MOST_NAME} characters"
        elif not variable.isprintable() or not entity.isprintable():
            reason = "series whose entity or variable has unprintable characters in its name"
        if reason:
            codes = (SKIPPED, _position(self.reasons, reason))
        else:
            codes = (_position(self.entities, entity), _position(self.variables, variable))
        if key and is_short(key):
            self.codes[key] = codes
        return codes


def _position(names: dict[str, int], name: str) -> int:
    return names.setdefault(name, len(names))


@dataclass(frozen=True)
class Decoded:
    """The rows of a request, and the number of values that were left out, by reason.

    Attributes
    ----------
    batches : list of RowBatch
        Without cells that are missing: rows of the same variables are in one batch.
    skipped : Counter
        Number of values left out, by reason.
    """

    batches: list[RowBatch]
    skipped: Counter[str] = field(default_factory=Counter)

    @property
    def values(self) -> int:
        """Number of values in all batches."""
        return sum(batch.values.size for batch in self.batches)


def to_batches(
    source: str,
    index: SeriesIndex,
    entities: Codes,
    variables: Codes,
    times: Ticks,
    values: Floats,
    *,
    partial: bool = True,
) -> Decoded:
    """Return single values as rows.

    Parameters
    ----------
    source : str
    index : SeriesIndex
        What the codes mean.
    entities, variables : (value,) int64
        Codes of the entity and of the variable of each value.
    times : (value,) int64
        Nanoseconds.
    values : (value,) float64
        Missing and infinite values are left out. Of several values of one variable at one time, the last counts.
    partial : bool, default True
        Whether more values of the same rows may follow in another request.
    """
    skipped: Counter[str] = Counter()
    known_entities, known_variables, reasons = list(index.entities), list(index.variables), list(index.reasons)
    usable = entities != SKIPPED
    if not usable.all():
        for code, count in enumerate(np.bincount(variables[~usable])):
            if count:
                skipped[reasons[code]] += int(count)
    missing = usable & ~np.isfinite(values)
    if missing.any():
        skipped["missing or infinite values"] += int(missing.sum())
        usable &= ~missing
    kept = np.flatnonzero(usable)
    order = kept[np.lexsort((variables[kept], times[kept], entities[kept]))]
    entities, times, variables, values = entities[order], times[order], variables[order], values[order]
    new_row = np.ones(len(order), dtype=np.bool_)
    new_row[1:] = (entities[1:] != entities[:-1]) | (times[1:] != times[:-1])
    last = np.ones(len(order), dtype=np.bool_)
    last[:-1] = new_row[1:] | (variables[1:] != variables[:-1])
    if not last.all():
        skipped["repeated values of a variable at one time"] += int((~last).sum())
        # The first value of a row may be one of those that are repeated; the row then begins at its last repetition.
        rows = np.cumsum(new_row)[last]
        entities, times, variables, values = entities[last], times[last], variables[last], values[last]
        new_row = np.diff(rows, prepend=0) > 0
    starts = np.flatnonzero(new_row)
    groups: dict[tuple[int, bytes], list[int]] = {}
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(values)], strict=False):
        groups.setdefault((int(entities[start]), variables[start:stop].tobytes()), []).append(start)
    batches = []
    for (entity, key), first in groups.items():
        columns = np.frombuffer(key, dtype=np.int64)
        cells = values[np.array(first)[:, None] + np.arange(len(columns))]
        names = tuple(known_variables[code] for code in columns.tolist())
        batches.append(RowBatch(source, known_entities[entity], names, times[first], cells, partial))
    return Decoded(batches, skipped)
