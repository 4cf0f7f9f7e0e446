"""Published figures of the same experiment, as the table [published] of a plan gives them.

    [published]
    source               where the figures were published
    differs              how the experiment differs from ours, in a sentence or two
    data                 their data sets, each with the name or names of ours; "" for none
    metrics              their metrics, each with the name of ours; "" for none
    [[published.methods]]
    name                 what the publication calls the method
    ours                 the label or labels that it is compared with
    ...                  by the name of one of their data sets: a figure for each metric, nan where there is none

Figures are in the units of our metrics. Without figures, `source` and `differs` suffice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tsadc.bench.metrics import METRICS
from tsadc.config import nearest
from tsadc.errors import ConfigError

KEYS = ("source", "differs", "data", "metrics", "methods")
OWN = ("name", "ours")  # keys of a method; its other keys are data sets


@dataclass(frozen=True)
class PublishedMethod:
    """The published figures of one method: data set -> one figure for each metric."""

    name: str
    ours: tuple[str, ...]
    figures: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True)
class Published:
    """Published figures, and the data, metrics and labels of ours that they are compared with."""

    source: str
    differs: str
    data: Mapping[str, tuple[str, ...]]
    metrics: Mapping[str, str]
    methods: tuple[PublishedMethod, ...]

    def check(self, data: Iterable[str], labels: Iterable[str]) -> None:
        """Raise if it names data or a label that the plan lacks, or an unknown metric."""
        known_data, known_labels = sorted(set(data)), sorted(set(labels))
        for name, ours in self.data.items():
            _require_known(ours, known_data, f"published.data.{name}", "data")
        for name, metric in self.metrics.items():
            _require_known((metric,) if metric else (), METRICS, f"published.metrics.{name}", "metric")
        for i, method in enumerate(self.methods):
            _require_known(method.ours, known_labels, f"published.methods[{i}].ours", "label")


def parse(table: Any) -> Published:
    """Parse the table [published] of a plan. `Published.check` compares it with the plan."""
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
        raise ConfigError(f"`published.data.{reserved}` needs another name: `{reserved}` is a key of every method.")
    tables = table.get("methods", [])
    if not isinstance(tables, list) or not all(isinstance(method, Mapping) for method in tables):
        raise ConfigError(f"`published.methods` must be tables, each under [[published.methods]], but got {tables!r}.")
    methods = tuple(_method(method, f"published.methods[{i}]", data, metrics) for i, method in enumerate(tables))
    names = [method.name for method in methods]
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise ConfigError(f"`published.methods` has two called {twice!r}; give each a name of its own.")
    return Published(source, differs, data, {name: "".join(ours) for name, ours in metrics.items()}, methods)


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"`{where}` must be a text that is not empty, but got {value!r}.")
    return value.strip()


def _names(table: Mapping[str, Any], key: str) -> dict[str, tuple[str, ...]]:
    """Return their names, each with those of ours."""
    given = table.get(key, {})
    if not isinstance(given, Mapping):
        raise ConfigError(f"`published.{key}` must be a table of their names and ours, but got {given!r}.")
    return {name: _several(ours, f"published.{key}.{name}") for name, ours in given.items()}


def _several(value: Any, where: str) -> tuple[str, ...]:
    names = value if isinstance(value, list) else [value]
    if not all(isinstance(name, str) for name in names):
        raise ConfigError(f"`{where}` must be a name or a list of names, but got {value!r}.")
    return tuple(name for name in names if name)


def _method(table: Mapping[str, Any], where: str, data: Iterable[str], metrics: Collection[str]) -> PublishedMethod:
    known = list(data)
    figures = {key: value for key, value in table.items() if key not in OWN}
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
    return PublishedMethod(
        _text(table.get("name", ""), f"{where}.name"),
        _several(table.get("ours", ""), f"{where}.ours"),
        {name: tuple(map(float, values)) for name, values in figures.items()},
    )


def _require_known(names: Sequence[str], known: Sequence[str], where: str, what: str) -> None:
    wrong = next((name for name in names if name not in known), None)
    if wrong is not None:
        raise ConfigError(f"`{where}` names {wrong!r}, but there is no such {what}{nearest(wrong, known)}")
