"""Rows that do not fit their model: too late, off its clock, at another rate or in another unit.

They are stored and judged as far as possible. What is wrong is said in a sentence, for whoever can fix the sender."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tsadc.detectors.base import Detector
from tsadc.errors import listed
from tsadc.io.doctor import examine
from tsadc.io.reading import spell
from tsadc.series import Series
from tsadc.serve.rows import Ticks
from tsadc.wording import count

SPARSE = 1.5  # intervals between two rows, beyond which a row is missing
REASONS = ("late", "repeated", "off_clock", "infinite_values")
MANY = 20  # rows in a row that are this far apart: another rate, not a gap


class Misfit(NamedTuple):
    """A reason, which is counted, a sentence, and to how many rows it applies."""

    reason: str
    sentence: str
    rows: int = 1


def refused(
    before: Mapping[str, int], after: Mapping[str, int], entity: str, model: str, pace: int
) -> Iterator[Misfit]:
    """Yield what a stream did not use of the rows of an entity, from its counts before and after."""
    if all(after[reason] == before[reason] for reason in REASONS):
        return
    every = f"the model {model!r}, which has one every {spell(pace)}"
    sentences = {
        "late": f"Rows of {entity!r} are older than others that came before, and are not judged; correct the clock of "
        f"the sender, send rows in order, or set `reorder` of [model.{model}].",
        "repeated": f"Several rows of {entity!r} fall on the same row of {every}; the first of them counts.",
        "off_clock": f"Rows of {entity!r} lie between the rows of {every}, and are not judged; send them at its times, "
        "or fit a model on rows like these.",
        "infinite_values": f"Infinite values of {entity!r} count as missing.",
    }
    for reason in REASONS:
        if rows := after[reason] - before[reason]:
            yield Misfit(reason, sentences[reason], rows)


def not_learnt(entity: str, model: str, folder: str) -> Misfit:
    """Return that the model has not learnt an entity, and how to add it."""
    return Misfit(
        "new_entity",
        f"The model {model!r} has not learnt {entity!r}, so its rows are judged by the statistics of all entities, "
        f"which may give false alarms; add its history: tsadc adapt HISTORY --model {folder} --out NEW.",
    )


def not_judged(counts: Mapping[str, int], unknown: Sequence[str], pace: int) -> str:
    """Return a sentence about what a stream did not use of all rows, from its counts; empty if it used all."""
    why = {
        "future": "in the future (correct the clock of the sender)",
        "late": "older than others that came before (send rows in order)",
        "repeated": "on the same row of the model as another",
        "off_clock": f"between the rows of the model, which has one every {spell(pace)}",
    }
    parts = [f"{count(counts[reason], 'row', 'rows')} {text}" for reason, text in why.items() if counts[reason]]
    if infinite := counts["infinite_values"]:
        parts.append(count(infinite, "infinite value", "infinite values"))
    if unknown:
        parts.append(f"{'column' if len(unknown) == 1 else 'columns'} {listed(unknown)}, unknown to the model")
    return f"Not judged: {'; '.join(parts)}." if parts else ""


class Pace:
    """Notices that the rows of an entity keep coming further apart than those of its model."""

    def __init__(self, interval: int) -> None:
        self.interval = interval
        self._latest: int | None = None
        self._sparse = 0

    def add(self, times: Ticks) -> int | None:
        """Add rows; return the time between them if it has been too long for many rows, else None."""
        known, self._latest = self._latest, int(times[-1])
        if known is not None and self._latest - known <= SPARSE * self.interval * len(times):  # on average near enough
            self._sparse = 0
            return None
        steps = np.diff(times if known is None else np.append(known, times))
        near = np.flatnonzero(steps <= SPARSE * self.interval)
        self._sparse = len(steps) - 1 - int(near[-1]) if len(near) else self._sparse + len(steps)
        if self._sparse < MANY:
            return None
        self._sparse = 0
        return int(np.median(steps))


def other_rate(entity: str, model: str, seen: int, pace: int) -> Misfit:
    """Say that rows come too seldom."""
    return Misfit(
        "rate",
        f"Rows of {entity!r} come every {spell(seen)}, but the model {model!r} was fitted on one every {spell(pace)}, "
        "so most rows count as missing; send all rows, or fit a model on rows like these.",
    )


def other_units(series: Series, detector: Detector) -> Iterator[Misfit]:
    """Yield the variables of an anomalous observation that look as if their unit had changed."""
    for finding in examine(series, detector).findings:
        if finding.code == "mixed-units":
            yield Misfit("unit", finding.sentence)
