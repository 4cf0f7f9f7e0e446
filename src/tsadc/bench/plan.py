"""A plan says what to compare with what: data sets with their splits, detectors with their settings, seeds.

    title, note      what it is about
    seeds            "report" or "choose": those of each data set; or numbers
    metrics          what its tables show
    [budget]         epochs and observations for every detector with a network
    [[data]]         name of a protocol and its `split`, or `folder` and `manifest` of data of one's own; `epochs`
    [[detectors]]    name, preset, scoring, label, `set`: settings, `grid`: settings with lists of values
    [published]      what others published of it: see `published`

A list in `split` or `grid` makes a variant of each of its values, several lists all their combinations. A setting that
the preset has anyway is dropped, so that equal cells of several plans are equal.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from tsadc.bench import points, published
from tsadc.bench.cell import Cell, flat
from tsadc.bench.metrics import METRICS
from tsadc.bench.own import Own
from tsadc.bench.published import Published
from tsadc.config import build, merge, nearest, read_toml, require, to_mapping, update
from tsadc.data import catalogue
from tsadc.data.protocols import Protocol
from tsadc.detectors import find
from tsadc.detectors.residual import ResidualDetector
from tsadc.detectors.settings import Common
from tsadc.detectors.threshold import refuse_unused
from tsadc.errors import ConfigError

TABLES = ("split", "set", "grid")  # of an entry, with names of their own
T = TypeVar("T")
Seeds = Literal["report", "choose"] | tuple[int, ...]


@dataclass(frozen=True)
class Budget:
    """For every detector with a network; None: as its settings say, and all there are."""

    epochs: int | None = None
    observations: int | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            require(value is None or value > 0, name, "positive", value)


@dataclass(frozen=True)
class Data:
    """One data set, a protocol by its name or a prepared folder with a manifest, and its options. `epochs` are those of
    networks on it, instead of the budget's."""

    name: str = ""
    folder: str = ""
    manifest: str = ""
    seeds: Seeds | None = None
    epochs: int | None = None
    split: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require(self.epochs is None or self.epochs > 0, "epochs", "positive", self.epochs)

    @property
    def own(self) -> Own | None:
        return Own(Path(self.folder), Path(self.manifest)) if self.folder else None

    @property
    def protocol(self) -> Protocol:
        return self.own.protocol(self.name) if self.own else catalogue.find(self.name, "benchmark")

    def splits(self) -> list[dict[str, float]]:
        lists = {name: value if isinstance(value, list) else [value] for name, value in flat(self.split)}
        for name, values in lists.items():
            require_once(f"split.{name}", values)
        return [self.protocol.check(chosen) for chosen in combinations(lists)]


@dataclass(frozen=True)
class Entry:
    """One detector, of which `scoring` and `grid` make variants."""

    name: str = ""
    preset: str = "default"
    label: str = ""
    scoring: tuple[Literal["fused", "own"], ...] = ()
    set: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, Any] = field(default_factory=dict)

    @property
    def network(self) -> bool:
        return issubclass(find(self.name), ResidualDetector)

    def variants(self, budget: Budget) -> list[tuple[dict[str, Any], str]]:
        """Settings that differ from the preset's, and what the row is called. A budget, which all have, is not said."""
        asked = [
            *(["scoring"] if self.scoring else []),
            *(f"{key}.scoring" for key in ("set", "grid") if "scoring" in vars(self)[key]),
        ]
        if asked and not self.network:
            raise ConfigError(f"`{asked[0]}` of {self.name} must be left out: a detector without a network has none.")
        lists = dict(flat(self.grid)) | ({"scoring": list(self.scoring)} if self.scoring else {})
        for name, values in lists.items():
            if not isinstance(values, list) or not values:
                raise ConfigError(f"`grid.{name}` of {self.name} must be a list of values, but got {values!r}.")
            require_once("scoring" if name == "scoring" and self.scoring else f"grid.{name}", values)
        base = find(self.name).Config.preset(self.preset)
        shorter = {"training": {"epochs": budget.epochs}} if self.network and budget.epochs else {}
        varied = [name for name, values in lists.items() if len(values) > 1]
        out = []
        for chosen in combinations(lists):
            settings = dict(self.set)
            for name, value in chosen.items():
                settings = merge(settings, nested(name, value))
            if not {"threshold.method", "contamination"} & set(varied):
                config = update(base, settings)
                refuse_unused(config.threshold, config.contamination != "auto", settings.get("threshold", {}))
            words = [self.label, *(f"{name}={chosen[name]}" for name in varied)]
            plain = Cell("", self.name, 0, self.preset, differing(base, settings)).row
            out.append((differing(base, merge(shorter, settings)), " ".join(words) if self.label else plain))
        return out


@dataclass(frozen=True)
class Plan:
    """What to compare with what."""

    title: str = ""
    note: str = ""
    seeds: Seeds = "report"
    metrics: tuple[str, ...] = ("auroc", "ap", "f1")
    budget: Budget = field(default_factory=Budget)
    data: tuple[Data, ...] = ()
    detectors: tuple[Entry, ...] = ()
    published: Published | None = None

    def cells(self) -> list[Cell]:
        """Every cell once; what no detector or data set could be asked for is refused."""
        found: dict[tuple[str, str, int], Cell] = {}
        for data in self.data:
            budget = replace(self.budget, epochs=data.epochs or self.budget.epochs)
            variants = [(entry, *one) for entry in self.detectors for one in entry.variants(budget)]
            for split, seed, (entry, settings, label) in itertools.product(
                data.splits(), self.seeds_of(data), variants
            ):
                taken = self.budget.observations if entry.network else None
                cell = Cell(data.name, entry.name, seed, entry.preset, settings, split, taken, data.own)
                cell = replace(cell, label="" if cell.row == label else label, by_row=self.by_row)
                cell.config()
                known = found.setdefault((cell.column, cell.row, seed), cell)
                if known.label != cell.label:
                    raise ConfigError(f"{cell.row} occurs twice, with several labels; keep one of them.")
                if known.own != cell.own:
                    raise ConfigError(f"Two data sets are called {cell.data!r}; give each a name of its own.")
        called: dict[tuple[str, str, int], Cell] = {}
        for cell in found.values():
            name = cell.label or cell.row
            if called.setdefault((cell.column, name, cell.seed), cell) is not cell:
                raise ConfigError(f"Two detectors are called {name!r}; give each a label of its own.")
        return list(found.values())

    @property
    def by_row(self) -> tuple[str, ...]:
        """The measures of rows that it asks for."""
        return tuple(name for name in self.metrics if name in points.NAMES)

    def absent(self, raw: Path) -> dict[str, str]:
        """The data sets that are not there, and the file each of them needs."""
        named = [catalogue.find(data.name, "benchmark") for data in self.data if not data.folder]
        return {one.name: one.source for one in named if not catalogue.present(one, raw)}

    def seeds_of(self, data: Data) -> tuple[int, ...]:
        asked = self.seeds if data.seeds is None else data.seeds
        if not isinstance(asked, str):
            return asked
        return data.protocol.report if asked == "report" else data.protocol.choose

    def check(self) -> None:
        """Refuse what `cells` could not make sense of."""
        for name in ("data", "detectors"):
            if not getattr(self, name):
                raise ConfigError(f"it names no {name}; add a table [[{name}]] with a name.")
        for i, data in enumerate(self.data):
            if bool(data.folder) != bool(data.manifest):
                raise ConfigError(f"`data[{i}]` needs both folder and manifest, or neither.")
            if data.folder and (data.name in catalogue.PROTOCOLS or not data.name or set(data.name) & set("/\\+")):
                raise ConfigError(
                    f"`data[{i}].name` must be a name of its own without / \\ +, not that of a known data set, but got "
                    f"{data.name!r}."
                )
            for name, value in flat(data.split):
                require(value != [], f"data[{i}].split.{name}", "a value or a list of some", value)
        require(len(self.metrics) > 0, "metrics", "some of those the guide names", list(self.metrics))
        wrong = next((name for name in self.metrics if name not in METRICS), None)
        if wrong is not None:
            raise ConfigError(f"There is no metric {wrong!r}{nearest(wrong, METRICS)}")
        for seeds in (self.seeds, *(data.seeds for data in self.data)):
            numbers = [] if seeds is None or isinstance(seeds, str) else [len(seeds) - 1, *seeds]
            require(min(numbers, default=0) >= 0, "seeds", "report, choose or numbers from 0", seeds)
            require_once("seeds", [] if seeds is None or isinstance(seeds, str) else seeds)
        require_once("metrics", self.metrics)


def read(file: str | Path) -> Plan:
    """The plan in a TOML file, checked; paths in it count from its folder."""
    file = Path(file)
    content = read_toml(file, "plan")
    entries = {name: content.pop(name, []) for name in ("data", "detectors")}
    others = content.pop("published", None)
    try:
        plan = build(Plan, content)
        data = [_entry(Data, one, f"data[{i}]") for i, one in enumerate(_tables(entries, "data"))]
        detectors = [_entry(Entry, one, f"detectors[{i}]") for i, one in enumerate(_tables(entries, "detectors"))]
        plan = replace(plan, data=tuple(_placed(one, file.parent) for one in data), detectors=tuple(detectors))
        plan.check()
        cells = plan.cells()
        if others is not None:
            found = published.parse(others)
            found.check((cell.column for cell in cells), (cell.label or cell.row for cell in cells))
            plan = replace(plan, published=found)
    except ConfigError as error:
        raise ConfigError(f"The plan {file} cannot be run: {error}") from None
    return plan


def _placed(data: Data, beside: Path) -> Data:
    folder, manifest = (str(beside / place) if place else "" for place in (data.folder, data.manifest))
    return replace(data, folder=folder, manifest=manifest)


def _tables(entries: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    given = entries[name]
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise ConfigError(f"`{name}` must be tables, each under [[{name}]], but got {given!r}.")
    return given


def _entry(cls: type[T], table: Mapping[str, Any], where: str) -> T:
    """Tables in it have names that are not ours, and are taken as they are."""
    own = {name: table[name] for name in TABLES if name in table and name in cls.__dataclass_fields__}  # type: ignore[attr-defined]
    for name, value in own.items():
        if not isinstance(value, dict):
            raise ConfigError(f"`{where}.{name}` must be a table, but got {value!r}.")
    plain = {name: value for name, value in table.items() if name not in own}
    for name, value in plain.items():
        if value == [] or (isinstance(value, str) and not value.strip()):
            raise ConfigError(f"`{where}.{name}` must not be empty, but got {value!r}; leave it out instead.")
    return replace(build(cls, plain, where), **own)  # type: ignore[type-var]


def require_once(name: str, values: Sequence[Any]) -> None:
    """Refuse a list that says something twice."""
    twice = [one for i, one in enumerate(values) if one in values[:i]]
    if twice:
        raise ConfigError(f"`{name}` must name each value once, but has {twice[0]!r} twice; leave one out.")


def combinations(lists: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """One value of each list, in every way."""
    return [dict(zip(lists, values, strict=True)) for values in itertools.product(*lists.values())]


def nested(name: str, value: Any) -> dict[str, Any]:
    """`a.b` and 1 -> `{"a": {"b": 1}}`."""
    for part in reversed(name.split(".")):
        value = {part: value}
    return dict(value)


def differing(base: Common, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Of the settings those that are not as in `base` anyway."""
    before, after = (dict(flat(to_mapping(one))) for one in (base, update(base, settings)))
    out: dict[str, Any] = {}
    for name, _ in flat(settings):
        if before[name] != after[name]:
            out = merge(out, nested(name, after[name]))
    return out
