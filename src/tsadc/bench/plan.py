"""A benchmark plan in a TOML file: the detectors, settings, data sets and seeds to compare.

    title, note      what the plan is about
    seeds            "report" or "choose": the seeds of each data set for either purpose; or a list of numbers
    metrics          the metrics of its tables
    [budget]         epochs and observations for every detector with a network
    [[data]]         name of a known data set and its `split`, or `folder` and `manifest` of your own data; `epochs`
    [[detectors]]    name, preset, scoring, label, `set`: settings, `grid`: settings with lists of values
    [published]      published figures of the same experiment: see `published`

A list in `split` or `grid` makes one variant per value; several lists make all combinations. Settings that equal the
preset are dropped, so that equal jobs of different plans are equal.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from tsadc.bench import points, published
from tsadc.bench.job import Job, flat, trains_network
from tsadc.bench.metrics import METRICS
from tsadc.bench.own import Own
from tsadc.bench.published import Published
from tsadc.config import build, merge, nearest, read_toml, require, to_mapping, update
from tsadc.data import catalogue
from tsadc.data.protocols import Protocol
from tsadc.detectors import find
from tsadc.detectors.settings import Common
from tsadc.detectors.threshold import refuse_unused
from tsadc.errors import ConfigError

FREE_TABLES = ("split", "set", "grid")  # of an entry; their keys are not fields of a class here
T = TypeVar("T")
Seeds = Literal["report", "choose"] | tuple[int, ...]


@dataclass(frozen=True)
class Budget:
    """Limits for every detector with a network; None keeps its settings and all observations."""

    epochs: int | None = None
    observations: int | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            require(value is None or value > 0, name, "positive", value)


@dataclass(frozen=True)
class Data:
    """A data set with its options: a known one by name, or a prepared folder with a manifest. `epochs` replaces the
    budget's for networks on this data."""

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
        """Where the user's own data lies; None for a known data set."""
        return Own(Path(self.folder), Path(self.manifest)) if self.folder else None

    @property
    def protocol(self) -> Protocol:
        """How the data set is drawn."""
        return self.own.protocol(self.name) if self.own else catalogue.find(self.name, "benchmark")

    def splits(self) -> list[dict[str, float]]:
        """Return the options of each variant."""
        lists = {name: value if isinstance(value, list) else [value] for name, value in flat(self.split)}
        for name, values in lists.items():
            require_once(f"split.{name}", values)
        return [self.protocol.check(chosen) for chosen in combinations(lists)]


@dataclass(frozen=True)
class Entry:
    """A detector; `scoring` and `grid` make variants of it."""

    renamed_settings: ClassVar[Mapping[str, str]] = {"head": "is now called `scoring` (fused or own)"}

    name: str = ""
    preset: str = "default"
    label: str = ""
    scoring: tuple[Literal["fused", "own"], ...] = ()
    set: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, Any] = field(default_factory=dict)

    @property
    def network(self) -> bool:
        """Whether the detector trains a network."""
        return trains_network(find(self.name))

    def variants(self, budget: Budget) -> list[tuple[dict[str, Any], str]]:
        """Return the changed settings of each variant, and its label. The label omits the budget, which all share."""
        requested = [
            *(["scoring"] if self.scoring else []),
            *(f"{key}.scoring" for key in ("set", "grid") if "scoring" in vars(self)[key]),
        ]
        if requested and not self.network:
            raise ConfigError(
                f"`{requested[0]}` of {self.name} must be left out: it is a setting of detectors with a network."
            )
        lists = dict(flat(self.grid)) | ({"scoring": list(self.scoring)} if self.scoring else {})
        for name, values in lists.items():
            if not isinstance(values, list) or not values:
                raise ConfigError(f"`grid.{name}` of {self.name} must be a list of values, but got {values!r}.")
            require_once("scoring" if name == "scoring" and self.scoring else f"grid.{name}", values)
        base = find(self.name).Config.preset(self.preset)
        shorter = {"training": {"epochs": budget.epochs}} if self.network and budget.epochs else {}
        varied = [name for name, values in lists.items() if len(values) > 1]
        variants = []
        for chosen in combinations(lists):
            settings = dict(self.set)
            for name, value in chosen.items():
                settings = merge(settings, nested(name, value))
            if not {"threshold.method", "contamination"} & set(varied):
                config = update(base, settings)
                refuse_unused(config.threshold, config.contamination != "auto", settings.get("threshold", {}))
            label = " ".join([self.label, *(f"{name}={chosen[name]}" for name in varied)]) if self.label else ""
            variant = Job("", self.name, 0, self.preset, differing(base, settings)).variant
            variants.append((differing(base, merge(shorter, settings)), label or variant))
        return variants


@dataclass(frozen=True)
class BenchmarkPlan:
    """The data sets, detectors, settings and seeds to compare."""

    title: str = ""
    note: str = ""
    seeds: Seeds = "report"
    metrics: tuple[str, ...] = ("auroc", "ap", "f1")
    budget: Budget = field(default_factory=Budget)
    data: tuple[Data, ...] = ()
    detectors: tuple[Entry, ...] = ()
    published: Published | None = None

    def jobs(self) -> list[Job]:
        """Return every job once; raise if a detector or data set cannot do what is requested."""
        jobs: dict[tuple[str, str, int], Job] = {}
        for data in self.data:
            budget = replace(self.budget, epochs=data.epochs or self.budget.epochs)
            variants = [(entry, *variant) for entry in self.detectors for variant in entry.variants(budget)]
            for split, seed, (entry, settings, label) in itertools.product(
                data.splits(), self.seeds_of(data), variants
            ):
                taken = self.budget.observations if entry.network else None
                job = Job(
                    data.name, entry.name, seed, entry.preset, settings, split, taken, data.own, label, self.by_row
                )
                job.config()
                known = jobs.setdefault(job.key, job)
                if known.label != job.label:
                    raise ConfigError(f"{job.variant} occurs twice, with several labels; keep one of them.")
                if known.own != job.own:
                    raise ConfigError(f"Two data sets are called {job.dataset!r}; give each a name of its own.")
        labelled: dict[tuple[str, str, int], Job] = {}
        for job in jobs.values():
            if labelled.setdefault((job.data, job.label, job.seed), job) is not job:
                raise ConfigError(f"Two detectors are called {job.label!r}; give each a label of its own.")
        return list(jobs.values())

    @property
    def by_row(self) -> tuple[str, ...]:
        """The metrics of rows among `metrics`."""
        return tuple(name for name in self.metrics if name in points.NAMES)

    def absent(self, raw: Path) -> dict[str, str]:
        """Return the data sets that are not in the folder, each with the file it needs."""
        known = [catalogue.find(data.name, "benchmark") for data in self.data if not data.folder]
        return {protocol.name: protocol.source for protocol in known if not catalogue.present(protocol, raw)}

    def seeds_of(self, data: Data) -> tuple[int, ...]:
        """Return the seeds for one data set."""
        seeds = self.seeds if data.seeds is None else data.seeds
        if not isinstance(seeds, str):
            return seeds
        return data.protocol.report if seeds == "report" else data.protocol.choose

    def check(self) -> None:
        """Raise if the plan is incomplete or contradicts itself."""
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
                require(value != [], f"data[{i}].split.{name}", "a value or a list of values", value)
        require(len(self.metrics) > 0, "metrics", "a list of at least one metric", list(self.metrics))
        wrong = next((name for name in self.metrics if name not in METRICS), None)
        if wrong is not None:
            raise ConfigError(f"There is no metric {wrong!r}{nearest(wrong, METRICS)}")
        for seeds in (self.seeds, *(data.seeds for data in self.data)):
            if seeds is not None and not isinstance(seeds, str):
                valid = len(seeds) > 0 and min(seeds) >= 0
                require(valid, "seeds", "report, choose or numbers from 0", list(seeds))
                require_once("seeds", seeds)
        require_once("metrics", self.metrics)


def read(file: str | Path) -> BenchmarkPlan:
    """Read and check the plan in a TOML file. Paths in it are relative to its folder."""
    file = Path(file)
    content = read_toml(file, "plan")
    entries = {name: content.pop(name, []) for name in ("data", "detectors")}
    others = content.pop("published", None)
    try:
        plan = build(BenchmarkPlan, content)
        data = [_entry(Data, table, f"data[{i}]") for i, table in enumerate(_tables(entries, "data"))]
        detectors = [_entry(Entry, table, f"detectors[{i}]") for i, table in enumerate(_tables(entries, "detectors"))]
        plan = replace(plan, data=tuple(_relative(entry, file.parent) for entry in data), detectors=tuple(detectors))
        plan.check()
        jobs = plan.jobs()
        if others is not None:
            figures = published.parse(others)
            figures.check((job.data for job in jobs), (job.label for job in jobs))
            plan = replace(plan, published=figures)
    except ConfigError as error:
        raise ConfigError(f"The plan {file} cannot be run: {error}") from None
    return plan


def _relative(data: Data, parent: Path) -> Data:
    folder, manifest = (str(parent / path) if path else "" for path in (data.folder, data.manifest))
    return replace(data, folder=folder, manifest=manifest)


def _tables(entries: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    given = entries[name]
    if not isinstance(given, list) or not all(isinstance(table, dict) for table in given):
        raise ConfigError(f"`{name}` must be tables, each under [[{name}]], but got {given!r}.")
    return given


def _entry(cls: type[T], table: Mapping[str, Any], where: str) -> T:
    """Build a class from a table; the tables in `FREE_TABLES` are taken as they are."""
    fields = cls.__dataclass_fields__  # type: ignore[attr-defined]
    free = {name: table[name] for name in FREE_TABLES if name in table and name in fields}
    for name, value in free.items():
        if not isinstance(value, dict):
            raise ConfigError(f"`{where}.{name}` must be a table, but got {value!r}.")
    plain = {name: value for name, value in table.items() if name not in free}
    for name, value in plain.items():
        if value == [] or (isinstance(value, str) and not value.strip()):
            raise ConfigError(f"`{where}.{name}` must not be empty, but got {value!r}; leave it out instead.")
    return replace(build(cls, plain, where), **free)  # type: ignore[type-var]


def require_once(name: str, values: Sequence[Any]) -> None:
    """Raise if a value occurs twice."""
    twice = [value for i, value in enumerate(values) if value in values[:i]]
    if twice:
        raise ConfigError(f"`{name}` must name each value once, but has {twice[0]!r} twice; leave one out.")


def combinations(lists: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return every combination of one value per list."""
    return [dict(zip(lists, values, strict=True)) for values in itertools.product(*lists.values())]


def nested(name: str, value: Any) -> dict[str, Any]:
    """Return nested settings: `a.b` and 1 become `{"a": {"b": 1}}`."""
    for part in reversed(name.split(".")):
        value = {part: value}
    return dict(value)


def differing(base: Common, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that change `base`."""
    before, after = (dict(flat(to_mapping(config))) for config in (base, update(base, settings)))
    changed: dict[str, Any] = {}
    for name, _ in flat(settings):
        if before[name] != after[name]:
            changed = merge(changed, nested(name, after[name]))
    return changed
