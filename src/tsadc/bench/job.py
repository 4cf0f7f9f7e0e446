"""A benchmark job: one detector with its settings and a seed on one data set, and what decides its numbers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from tsadc.bench.own import Own, parts
from tsadc.bench.source import reference, source_hash
from tsadc.config import merge, to_mapping, update
from tsadc.data import catalogue
from tsadc.data.packs import open_pack
from tsadc.data.protocols import Protocol
from tsadc.data.task import RowTasks, Task
from tsadc.detectors import find
from tsadc.detectors.settings import Common
from tsadc.errors import ConfigError, DataError

Record = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """A detector with its settings and a seed on a data set.

    `overrides` are settings on top of the preset, as `config.parse_assignments` returns them. `split` holds options of
    the data set. `observations` limits the training part; None uses all of it. `own` locates data that is not a known
    data set. `label` is the job's name in tables: the plan's label, otherwise the variant. `by_row` names the metrics
    of `points` that the plan shows. The last two do not change any number.
    """

    dataset: str
    detector: str
    seed: int
    preset: str = "default"
    overrides: Mapping[str, Any] = field(default_factory=dict)
    split: Mapping[str, Any] = field(default_factory=dict)
    observations: int | None = None
    own: Own | None = None
    label: str = ""
    by_row: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.label:
            object.__setattr__(self, "label", self.variant)

    @property
    def variant(self) -> str:
        """The detector, its preset and its changed settings."""
        changed = [f"{name}={value}" for name, value in flat(self.overrides)]
        changed += [] if self.observations is None else [f"observations={self.observations}"]
        return " ".join([self.detector if self.preset == "default" else f"{self.detector}:{self.preset}", *changed])

    @property
    def data(self) -> str:
        """The data set and its options."""
        return " ".join([self.dataset, *(f"{name}={value:g}" for name, value in flat(self.split))])

    @property
    def key(self) -> tuple[str, str, int]:
        """Data, variant and seed: unique among the jobs of a plan."""
        return self.data, self.variant, self.seed

    @property
    def protocol(self) -> Protocol:
        """How the data set is drawn."""
        return self.own.protocol(self.dataset) if self.own else catalogue.find(self.dataset, "benchmark")

    @property
    def network(self) -> bool:
        """Whether the detector trains a network."""
        return trains_network(find(self.detector))

    @property
    def scoring(self) -> str:
        """How the residuals of the network become scores; empty without a network."""
        config = update(find(self.detector).Config.preset(self.preset), self.overrides)
        return str(getattr(config, "scoring", ""))

    @property
    def training(self) -> str:
        """A key that is equal for jobs that can share one training, such as those that differ in scoring only."""
        trained_on = self.protocol.trains_as or self.dataset
        return digest(
            [trained_on, dict(self.split), self.detector, self.observations, essential(self.detector, self.config())]
        )

    def config(self) -> Common:
        """Return all settings. The data set decides the length, and the coverage if its records are padded. Benchmarks
        count missed anomalies like false alarms, so their threshold is balanced unless the plan says otherwise."""
        base = find(self.detector).Config.preset(self.preset)
        given: dict[str, Any] = {"length": self.protocol.length, "seed": self.seed}
        taken = sorted(set(given) & set(self.overrides))
        if taken:
            raise ConfigError(f"`{taken[0]}` comes with the data set and the seeds; leave it out of the settings.")
        padded = {"coverage": self.own.coverage} if self.own else {}
        chosen = {"threshold": {"method": "balanced"}} if base.threshold.method == "auto" else {}
        config: Common = update(base, merge({**padded, **given, **chosen}, self.overrides))
        return config

    def task(self, raw: Path) -> Task | RowTasks:
        """Draw the training and test parts of this seed."""
        if self.own:
            return self.own.protocol(self.dataset).build(raw, self.seed)
        return catalogue.draw(self.dataset, raw, self.seed, tuple(flat(self.split)))


def essential(name: str, config: Common) -> dict[str, Any]:
    """Return the settings that the training of a network depends on; all settings for a detector without one."""
    detector: Any = find(name)
    settings: dict[str, Any] = detector.weight_settings(config) if trains_network(detector) else to_mapping(config)
    return settings


def trains_network(detector: type[Any]) -> bool:
    """Return whether a detector is a `ResidualDetector`, without importing that class, which needs torch."""
    return hasattr(detector, "weight_settings")


def flat(settings: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Return nested settings as (dotted name, value), sorted by name."""
    return [
        pair
        for name, value in sorted(settings.items())
        for pair in (flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else [(f"{prefix}{name}", value)])
    ]


def identity(job: Job, raw: Path) -> Record:
    """Return the part of a record that says which job it belongs to, and hashes of everything that decides its numbers:
    the settings, the source code and the data. A record with another hash is stale."""
    source = job.own.digest if job.own else source_digest(raw, job.protocol.source)
    return {
        "dataset": job.dataset,
        **({"split": dict(job.split)} if job.split else {}),
        "detector": job.detector,
        **({"preset": job.preset} if job.preset != "default" else {}),
        **({"overrides": dict(job.overrides)} if job.overrides else {}),
        **({"limit": job.observations} if job.observations is not None else {}),
        "seed": job.seed,
        "label": job.label,
        "settings": settings_hash(job),
        "code": code_hash(job),
        "source": source[:16],
    }


def settings_hash(job: Job) -> str:
    """Return a hash of the data set, its options and all settings of the detector."""
    settings = to_mapping(job.config())
    return digest([job.dataset, job.protocol.check(job.split), job.observations, job.detector, settings])


def code_hash(job: Job) -> str:
    """Return a hash of the code that fits, scores and measures the job and draws its data."""
    drawing = parts if job.own else job.protocol.build
    return source_hash([reference(find(job.detector)), reference(drawing), ("tsadc.bench.execute", "execute")])


def digest(content: Any) -> str:
    """Return a short hash of plain data."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def source_digest(raw: Path, source: str) -> str:
    """Return the SHA-256 of the data pack; an empty string for simulated data."""
    pack = open_pack(raw, source) if source else None
    if source and pack is None:
        raise DataError(f"{raw} has no {source}; set TSADC_DATA to the folder that holds it.")
    return _digest(pack.file, pack.file.stat().st_mtime_ns) if pack else ""


@lru_cache(maxsize=8)
def _digest(file: Path, changed: int) -> str:
    with open(file, "rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
