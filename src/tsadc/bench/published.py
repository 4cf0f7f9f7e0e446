"""What others published of the same experiment, beside what the records say.

    [published]
    source           where it stands
    differs          what differs from what is run here, in a sentence or two
    data             their data sets, each with our column or columns; "" where we have none
    metrics          their metrics, each with ours; "" where we have none
    [[published.rows]]
    name             what they call it
    ours             our row or rows that it is compared with
    ...              by the name of one of their data sets: a figure for each metric, nan where there is none

Figures are in the units of our metrics. `source` and `differs` alone will do where there are no figures.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tsadc.bench.markdown import table
from tsadc.bench.metrics import METRICS, told
from tsadc.bench.summary import Grid, Summary
from tsadc.config import nearest
from tsadc.errors import ConfigError

KEYS = ("source", "differs", "data", "metrics", "rows")
OWN = ("name", "ours")  # of a row; its other keys are data sets
DASH, SLASH = "-", " / "


@dataclass(frozen=True)
class Row:
    """What was published of one method."""

    name: str
    ours: tuple[str, ...]
    figures: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True)
class Published:
    """What was published of all, and what of ours it is to be compared with."""

    source: str
    differs: str
    data: Mapping[str, tuple[str, ...]]
    metrics: Mapping[str, str]
    rows: tuple[Row, ...]

    def check(self, columns: Iterable[str], rows: Iterable[str]) -> None:
        """Refuse what names a column or row that the plan does not have, or a metric that there is none of."""
        every, known = sorted(set(columns)), sorted(set(rows))
        for data, ours in self.data.items():
            _found(ours, every, f"published.data.{data}", "column")
        for metric, mine in self.metrics.items():
            _found((mine,) if mine else (), METRICS, f"published.metrics.{metric}", "metric")
        for i, row in enumerate(self.rows):
            _found(row.ours, known, f"published.rows[{i}].ours", "row")


def parse(table: Any) -> Published:
    """The table [published] of a plan; what it says of ours is for `check`."""
    if not isinstance(table, Mapping):
        raise ConfigError(f"`published` must be a table, but got {table!r}.")
    wrong = next((key for key in table if key not in KEYS), None)
    if wrong is not None:
        raise ConfigError(f"There is no setting `published.{wrong}`{nearest(wrong, KEYS, 'published')}")
    source, differs = (_text(table.get(key, ""), f"published.{key}") for key in ("source", "differs"))
    data, metrics = (_names(table, key) for key in ("data", "metrics"))
    several = next((name for name, ours in metrics.items() if len(ours) > 1), None)
    if several is not None:
        raise ConfigError(
            f"`published.metrics.{several}` must be one metric of ours, but got {list(metrics[several])}."
        )
    reserved = next((name for name in data if name in OWN), None)
    if reserved is not None:
        raise ConfigError(f"`published.data.{reserved}` must be called otherwise: rows have a key of that name.")
    rows = table.get("rows", [])
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise ConfigError(f"`published.rows` must be tables, each under [[published.rows]], but got {rows!r}.")
    made = tuple(_row(row, f"published.rows[{i}]", data, metrics) for i, row in enumerate(rows))
    twice = next((row.name for i, row in enumerate(made) if row.name in {one.name for one in made[:i]}), None)
    if twice is not None:
        raise ConfigError(f"`published.rows` has two called {twice!r}; give each a name of its own.")
    return Published(source, differs, data, {name: "".join(ours) for name, ours in metrics.items()}, made)


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"`{where}` must be said in words, but got {value!r}.")
    return value.strip()


def _names(table: Mapping[str, Any], key: str) -> dict[str, tuple[str, ...]]:
    """Names of theirs, each with those of ours."""
    given = table.get(key, {})
    if not isinstance(given, Mapping):
        raise ConfigError(f"`published.{key}` must be a table of their names and ours, but got {given!r}.")
    return {name: _several(ours, f"published.{key}.{name}") for name, ours in given.items()}


def _several(value: Any, where: str) -> tuple[str, ...]:
    some = value if isinstance(value, list) else [value]
    if not all(isinstance(one, str) for one in some):
        raise ConfigError(f"`{where}` must be a name or a list of names, but got {value!r}.")
    return tuple(one for one in some if one)


def _row(row: Mapping[str, Any], where: str, data: Iterable[str], metrics: Collection[str]) -> Row:
    known = list(data)
    figures = {key: value for key, value in row.items() if key not in OWN}
    wrong = next((name for name in figures if name not in known), None)
    if wrong is not None:
        raise ConfigError(
            f"`{where}` has a data set {wrong!r} that published.data lacks{nearest(wrong, known) if known else '.'}"
        )
    for name, values in figures.items():
        numbers = isinstance(values, list) and all(type(value) in (int, float) for value in values)
        if not numbers or len(values) != len(metrics):
            raise ConfigError(
                f"`{where}.{name}` must be a list of {len(metrics)} numbers, one for each of "
                f"{', '.join(metrics) or 'published.metrics'}, but got {values!r}."
            )
    kept = {name: tuple(map(float, values)) for name, values in figures.items()}
    return Row(_text(row.get("name", ""), f"{where}.name"), _several(row.get("ours", ""), f"{where}.ours"), kept)


def _found(asked: Sequence[str], known: Sequence[str], where: str, what: str) -> None:
    wrong = next((name for name in asked if name not in known), None)
    if wrong is not None:
        raise ConfigError(f"`{where}` names {wrong!r}, but there is no such {what}{nearest(wrong, known)}")


def markdown(published: Published, summaries: Sequence[Summary]) -> str:
    """Theirs beside ours, and what differs."""
    if not published.rows:
        return f"Published: {published.source}. {published.differs}"
    return f"{lead(published)}\n\n{table(*compared(published, summaries))}\n\n{published.differs}"


def lead(published: Published) -> str:
    """How to read the table."""
    theirs, ours = SLASH.join(published.metrics), SLASH.join(mine or DASH for mine in published.metrics.values())
    return f"Published ({published.source}) beside ours: {theirs}, of ours the means over seeds of {ours}."


def compared(published: Published, summaries: Sequence[Summary]) -> tuple[list[str], list[list[str]]]:
    """A heading and lines. Whichever are more, rows or data sets, go down; a line for each of ours that one is compared
    with, and after each column of theirs those of ours."""
    found = Grid(summaries)
    rows = {row.name: row for row in published.rows}
    down: Mapping[str, tuple[str, ...]] = {name: row.ours for name, row in rows.items()}
    across, wide = published.data, len(published.data) > len(rows)
    down, across = (across, down) if wide else (down, across)
    head = ["data" if wide else "row", "ours"]
    for there, ours in across.items():
        head += [there, *(f"ours: {name}" for name in ours)]
    body = []
    for here, mine in itertools.chain(*([(name, one) for one in some or ("",)] for name, some in down.items())):
        line = [here, mine or DASH]
        for there, ours in across.items():
            row, data = (there, here) if wide else (here, there)
            line.append(_theirs(published, rows[row], data))
            line += [_ours(published, found.get(*((name, mine) if wide else (mine, name)))) for name in ours]
        body.append(line)
    return head, body


def _theirs(published: Published, row: Row, data: str) -> str:
    figures = row.figures.get(data)
    if figures is None:
        return DASH
    known = [None if math.isnan(figure) else figure for figure in figures]
    return SLASH.join(map(told, published.metrics.values(), known))


def _ours(published: Published, summary: Summary) -> str:
    if not summary.fine:
        return "failed" if summary.records else DASH
    values = SLASH.join(told(mine, summary.mean(mine) if mine else None) for mine in published.metrics.values())
    failed = len(summary.records) - len(summary.fine)
    return values + (f" ({failed} of {len(summary.records)} failed)" if failed else "")
