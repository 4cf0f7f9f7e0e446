"""Review files: what a person has decided about each suspected interval of a history.

    decision   what a detector learns from the interval
    keep       everything: it is normal
    drop       nothing
    fix        everything but the variables to blame, whose values count as not measured

A review file is a CSV table with a line per interval (`Audit.review`). It may be edited in a spreadsheet: decisions,
variables and comments. `id` is a digest of entity, start and end, so that times that were changed are noticed."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tsadc.detectors.interval_id import interval_id
from tsadc.errors import DataError, listed
from tsadc.io.delimited import read_texts
from tsadc.series import Booleans, Clock, Series

DECISIONS = ("keep", "drop", "fix")
COLUMNS = ("id", "entity", "start", "end", "decision")  # those without which nothing can be decided
YEAR_FIRST = re.compile(r"\d{4}-\d\d-\d\d")


class Part(NamedTuple):
    """A part of a series: rows [start, stop) of the variables `columns`, by position, of series `number`."""

    number: int
    start: int
    stop: int
    columns: tuple[int, ...]


def marked(series: Sequence[Series], parts: Iterable[Part]) -> tuple[Booleans, ...]:
    """Return for each series which cells (time, variable) lie in one of the parts."""
    cells = tuple(np.zeros((len(item), len(item.names)), dtype=bool) for item in series)
    for part in parts:
        cells[part.number][part.start : part.stop, list(part.columns)] = True
    return cells


def cleared(series: Sequence[Series], cells: Sequence[Booleans]) -> tuple[Series, ...]:
    """Return the series with the cells as not measured."""
    return tuple(
        replace(item, values=np.where(marks, np.nan, item.values)) if marks.any() else item
        for item, marks in zip(series, cells, strict=True)
    )


@dataclass(frozen=True)
class Decision:
    """What was decided about rows [start, stop) of series `number`.

    Attributes
    ----------
    id : str
    number : int
        Position of the series.
    start, stop : int
        Rows.
    decision : str
        "keep", "drop" or "fix".
    variables : tuple of str
        Those to blame.
    comment : str
    line : int
        Of the file, counted from 1, for messages.
    """

    id: str
    number: int
    start: int
    stop: int
    decision: str
    variables: tuple[str, ...]
    comment: str
    line: int

    def part(self, series: Sequence[Series]) -> Part:
        """Return the cells that it is about: the variables to blame if it is "fix", otherwise all of them."""
        names = series[self.number].names
        columns = tuple(k for k, name in enumerate(names) if name in self.variables or self.decision != "fix")
        return Part(self.number, self.start, self.stop, columns)


@dataclass(frozen=True)
class Review:
    """The decisions of a review file about a history.

    Attributes
    ----------
    decisions : tuple of Decision
        In the order of the file.
    digest : str
        Of the file.
    """

    decisions: tuple[Decision, ...]
    digest: str

    @property
    def counts(self) -> dict[str, int]:
        """How many intervals are kept, dropped and fixed."""
        made = [decision.decision for decision in self.decisions]
        return {name: made.count(name) for name in DECISIONS}

    def cells(self, series: Sequence[Series]) -> tuple[Booleans, ...]:
        """Return for each series which cells (time, variable) are not to be learnt from."""
        return marked(series, [decision.part(series) for decision in self.decisions if decision.decision != "keep"])

    def apply(self, series: Sequence[Series]) -> tuple[Series, ...]:
        """Return the series with the cells that are not to be learnt from as not measured."""
        return cleared(series, self.cells(series))

    def provenance(self, series: Sequence[Series]) -> dict[str, Any]:
        """Return what a model that was trained on the reviewed series remembers of the review."""
        cells = self.cells(series)
        rows = sum(int(marks.all(axis=1).sum()) for marks in cells)
        return {"digest": self.digest, **self.counts, "rows": rows, "cells": sum(int(marks.sum()) for marks in cells)}


def read_review(path: str | Path, series: Sequence[Series]) -> Review:
    """Read a review file about these series.

    Parameters
    ----------
    path : path
        A CSV file as `tsadc audit` writes it, with any separator that spreadsheets write.
    series : sequence of Series
        The history that it is about.

    Returns
    -------
    Review

    Raises
    ------
    DataError
        If a column is missing, a decision is unknown, times were edited, an interval is not in the data, or two lines
        contradict each other.

    Examples
    --------
    >>> import numpy as np
    >>> import tsadc
    >>> from tsadc.detectors.review import read_review
    >>> history = tsadc.Series(np.random.default_rng(0).normal(size=(6000, 3)), ("flow", "level", "power"))
    >>> history.values[3000:3060, 1] += 6
    >>> found = tsadc.audit(tsadc.Ensemble(length=60), history)
    >>> found.review().to_csv("review.csv", index=False)
    >>> review = read_review("review.csv", [history])
    >>> review.counts
    {'keep': 0, 'drop': 1, 'fix': 0}
    >>> (cleaned,) = review.apply([history])
    >>> np.isnan(cleaned.values).sum(axis=0).tolist()
    [60, 60, 60]
    """
    file = Path(path)
    if not file.is_file():
        raise DataError(f"There is no review file {file}; `tsadc audit` writes one, review.csv.")
    names, lines = read_texts(file)
    missing = [name for name in COLUMNS if name not in names]
    if missing:
        raise DataError(
            f"{file} needs the columns {', '.join(COLUMNS)}, but lacks {listed(missing)}; take review.csv of an audit."
        )
    by_id: dict[str, Decision] = {}
    for number, line in enumerate(lines, start=2):
        new = _decision(line, number, series, file)
        earlier = by_id.get(new.id)
        if earlier is not None and earlier.decision == new.decision == "fix" and earlier.variables != new.variables:
            raise DataError(
                f"Lines {earlier.line} and {new.line} of {file} name different variables of the same interval to be "
                "fixed; leave one of them out."
            )
        if earlier is not None and earlier.decision != new.decision:
            raise _contradiction(file, earlier, new)
        by_id.setdefault(new.id, new)
    decisions = tuple(by_id.values())
    _refuse_contradictions(decisions, file)
    return Review(decisions, hashlib.sha256(file.read_bytes()).hexdigest()[:16])


def _decision(line: dict[str, str], number: int, series: Sequence[Series], file: Path) -> Decision:
    where = f"Line {number} of {file}"
    decision = line["decision"].lower()
    if decision not in DECISIONS:
        came = f"but got {line['decision']!r}" if decision else "but it is empty"
        raise DataError(f"{where} needs a decision, {', '.join(DECISIONS[:-1])} or {DECISIONS[-1]}, {came}.")
    entity = line["entity"]
    entities = [item.entity for item in series]
    if entity not in entities:
        raise DataError(
            f"{where} is about the entity {entity!r}, but the data has only {listed(entities)}; give the "
            "data that was audited, and restore the name if a spreadsheet has changed it."
        )
    place = entities.index(entity)
    audited = series[place]
    start, stop = (_row(line[name], audited, where, name) for name in ("start", "end"))
    if line["id"] != interval_id(entity, audited.clock.tick(start), audited.clock.tick(stop)):
        raise DataError(
            f"{where} has the id {line['id']!r}, which does not belong to its entity, start and end, so one of them "
            "was edited; restore them from the audit, as only decision, variables and comment may be changed."
        )
    if not 0 <= start < stop <= len(audited):
        first, last = audited.clock.at([0, len(audited)])
        raise DataError(
            f"{where} is about {line['start']} to {line['end']} of {entity!r}, but the data has {first} to {last}; "
            "give the data that was audited."
        )
    names = _names(line.get("variables", ""))
    unknown = [name for name in names if name not in audited.names]
    if decision == "fix" and (unknown or not names):
        came = f"names {listed(unknown)}, which the data does not have" if unknown else "names none"
        raise DataError(
            f"{where} is to be fixed and needs the variables to blame, separated by semicolons, but {came}; use those "
            f"of the data: {listed(audited.names)}."
        )
    return Decision(line["id"], place, start, stop, decision, names, line.get("comment", ""), number)


def _row(text: str, series: Series, where: str, name: str) -> int:
    """Return the row at a time, or the row with a number; it may lie outside the series."""
    clock = series.clock
    example = "a time such as 2026-03-01T12:30:00" if clock.dated else "a row number"
    try:
        tick = _tick(text, clock)
    except (ValueError, TypeError):
        raise DataError(
            f"{where} needs {example} as `{name}`, but got {text!r}; restore it from the audit if a spreadsheet has "
            "changed it."
        ) from None
    row, rest = divmod(tick - clock.start, clock.interval)
    if rest:
        raise DataError(
            f"{where} has `{name}` {text}, at which {series.entity!r} has no row; restore it from the audit, and give "
            "the data that was audited."
        )
    return row


def _tick(text: str, clock: Clock) -> int:
    if not clock.dated:
        return int(text)
    if not YEAR_FIRST.match(text):  # 03/04/2026 has two meanings
        raise ValueError(text)
    moment = pd.Timestamp(text)
    if moment.tzinfo is None:
        moment = moment.tz_localize(clock.timezone or "UTC")
    return int(moment.as_unit("ns").value)


def names_text(names: Sequence[str]) -> str:
    """Write the names of variables into one cell, separated by semicolons; as JSON if a name contains one."""
    plain = not any(";" in name or name.startswith("[") or name != name.strip() for name in names)
    return "; ".join(names) if plain else json.dumps(list(names), ensure_ascii=False)


def _names(text: str) -> tuple[str, ...]:
    if text.startswith("["):
        try:
            return tuple(str(name) for name in json.loads(text))
        except (ValueError, TypeError):
            pass
    return tuple(name.strip() for name in text.split(";") if name.strip())


def _refuse_contradictions(decisions: Sequence[Decision], file: Path) -> None:
    """Raise if two intervals overlap and their decisions differ."""
    ordered = sorted(decisions, key=lambda decision: (decision.number, decision.start))
    for i, earlier in enumerate(ordered):
        for later in ordered[i + 1 :]:
            if later.number != earlier.number or later.start >= earlier.stop:
                break
            if later.decision != earlier.decision:
                raise _contradiction(file, earlier, later)


def _contradiction(file: Path, one: Decision, other: Decision) -> DataError:
    first, second = sorted((one, other), key=lambda decision: decision.line)
    return DataError(
        f"Lines {first.line} and {second.line} of {file} contradict each other about the same rows, {first.decision} "
        f"and {second.decision}; leave one of them out."
    )
