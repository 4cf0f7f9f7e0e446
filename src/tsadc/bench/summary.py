"""Records by row and column, over their seeds. Tables and pages are made from this."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tsadc.bench.cell import Cell, Record
from tsadc.bench.metrics import COSTS, value_of
from tsadc.bench.records import cell_of
from tsadc.data.catalogue import PROTOCOLS
from tsadc.data.protocols import CHOOSING
from tsadc.errors import DataError

Read = Callable[[Record, str], float | None]


@dataclass(frozen=True)
class Summary:
    """What one row got on one column. `records` are in the order of their seeds, failures among them."""

    row: str
    column: str
    data: str
    split: Mapping[str, float]
    records: tuple[Record, ...]

    @property
    def fine(self) -> tuple[Record, ...]:
        return tuple(one for one in self.records if "error" not in one)

    @property
    def network(self) -> bool:
        """Whether it is trained by gradients."""
        return any("training" in one["settings"] for one in self.records)

    def values(self, metric: str, read: Read = value_of) -> list[float]:
        """Of the seeds that have one."""
        found = [read(one, metric) for one in self.fine]
        return [value for value in found if value is not None]

    def mean(self, metric: str, read: Read = value_of) -> float | None:
        values = self.values(metric, read)
        return float(np.mean(values)) if values else None

    def deviation(self, metric: str) -> float | None:
        """Standard deviation over seeds."""
        values = self.values(metric)
        return float(np.std(values, ddof=1)) if len(values) > 1 else None


def summarise(records: Sequence[Record], choosing: bool = False) -> list[Summary]:
    """Of the seeds for reporting, or of those for choosing; by column in the order of data sets, then by row."""
    kept = [one for one in records if (one["seed"] >= CHOOSING) == choosing]
    if not kept:
        raise DataError(f"There are no records of seeds for {'choosing' if choosing else 'reporting'}; run some first.")
    cells = [(cell_of(one), one) for one in sorted(kept, key=lambda one: int(one["seed"]))]
    several = _shared_labels([cell for cell, _ in cells])
    groups: dict[tuple[str, str], list[Record]] = {}
    for cell, one in cells:
        row = cell.row if cell.label in several else cell.label or cell.row
        groups.setdefault((row, cell.column), []).append(one)
    out = [
        Summary(row, column, some[0]["data"], some[0].get("split", {}), tuple(some))
        for (row, column), some in groups.items()
    ]
    return sorted(out, key=lambda one: (_place(one.data), one.data, sorted(one.split.items()), one.row))


def _shared_labels(cells: Sequence[Cell]) -> set[str]:
    """Labels under which a folder holds several settings for one seed, as when a plan was changed between two runs."""
    times = Counter((cell.label, cell.column, cell.seed) for cell in cells if cell.label)
    return {label for (label, _, _), count in times.items() if count > 1}


def _place(data: str) -> int:
    names = list(PROTOCOLS)
    return names.index(data) if data in names else len(names)


def columns(summaries: Sequence[Summary]) -> list[str]:
    return list(dict.fromkeys(one.column for one in summaries))


def rows(summaries: Sequence[Summary], metric: str = "auroc") -> list[str]:
    """Those with a network first, then as `ranked`."""
    trained = {one.row for one in summaries if one.network}
    return sorted(ranked(summaries, metric), key=lambda row: row not in trained)


def ranked(summaries: Sequence[Summary], metric: str) -> list[str]:
    """By the mean of a metric over columns, best first; of costs the least."""
    means: dict[str, list[float]] = {}
    for one in summaries:
        mean = one.mean(metric)
        means.setdefault(one.row, []).extend([] if mean is None else [mean])
    sign = 1 if metric in COSTS else -1
    return sorted(means, key=lambda row: (sign * float(np.mean(means[row])) if means[row] else 0.0, row))


class Grid:
    """Summaries by row and column; rows as `rows` orders them by a metric."""

    def __init__(self, summaries: Sequence[Summary], metric: str = "auroc") -> None:
        self.summaries = summaries
        self.columns, self.rows = columns(summaries), rows(summaries, metric)
        self._cells = {(one.row, one.column): one for one in summaries}

    def get(self, row: str, column: str) -> Summary:
        """One without records where there is none."""
        return self._cells.get((row, column)) or Summary(row, column, "", {}, ())

    def of(self, column: str) -> list[Summary]:
        return [one for one in self.summaries if one.column == column]

    def best(self, column: str, metric: str) -> float | None:
        """The highest mean on a column."""
        return max((mean for one in self.of(column) if (mean := one.mean(metric)) is not None), default=None)

    def whole(self, column: str) -> Summary:
        """Every record on a column, whoever made it."""
        return Summary("", column, "", {}, tuple(record for one in self.of(column) for record in one.records))


def complete(summaries: Sequence[Summary], metric: str) -> tuple[list[str], list[str], list[list[float]]]:
    """Data sets, the rows that have a value on all of them in every split, and values (data set, row): splits of one
    data set are no independent cases, so their mean counts."""
    means = {(one.row, one.column): one.mean(metric) for one in summaries}
    have = columns(summaries)
    full = [row for row in rows(summaries, metric) if all(means.get((row, column)) is not None for column in have)]
    cases = list(dict.fromkeys(one.data for one in summaries))
    table = [
        [float(np.mean([one.mean(metric) for one in summaries if (one.row, one.data) == (row, data)])) for row in full]
        for data in cases
    ]
    return cases, full, table
