"""One cell of a benchmark: a detector with its settings and a seed on a data set, and what decides its numbers."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from tsadc.bench.own import Own
from tsadc.config import to_mapping, update
from tsadc.data import catalogue
from tsadc.data.packs import open_pack
from tsadc.data.protocols import VERSION, Protocol
from tsadc.data.task import Task
from tsadc.detectors import find
from tsadc.detectors.residual import ResidualConfig, ResidualDetector
from tsadc.detectors.settings import Common
from tsadc.errors import ConfigError, DataError

FORMAT = 1
Record = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """`overrides` are settings on top of the preset, as `config.parse_assignments` gives them; `split` the options of
    the data set; `observations` how many of the training part are used, None: all. `own` says where data lies that is
    no protocol's. `label` is how a plan calls the row; `by_row` are the measures of `points` that it asks for.
    These two decide no number."""

    data: str
    detector: str
    seed: int
    preset: str = "default"
    overrides: Mapping[str, Any] = field(default_factory=dict)
    split: Mapping[str, Any] = field(default_factory=dict)
    observations: int | None = None
    own: Own | None = None
    label: str = ""
    by_row: tuple[str, ...] = ()

    @property
    def row(self) -> str:
        """What is compared: the detector, its preset and what was changed in it."""
        changed = [f"{name}={value}" for name, value in flat(self.overrides)]
        changed += [] if self.observations is None else [f"observations={self.observations}"]
        return " ".join([self.detector if self.preset == "default" else f"{self.detector}:{self.preset}", *changed])

    @property
    def column(self) -> str:
        """What it is compared on: the data set and its options."""
        return " ".join([self.data, *(f"{name}={value:g}" for name, value in flat(self.split))])

    @property
    def protocol(self) -> Protocol:
        return self.own.protocol(self.data) if self.own else catalogue.find(self.data, "benchmark")

    @property
    def network(self) -> bool:
        """Whether the detector trains one."""
        return issubclass(find(self.detector), ResidualDetector)

    @property
    def training(self) -> str:
        """Cells of the same training need it once. A network does not depend on what is made of its residuals."""
        where = self.protocol.trains_as or self.data
        return digest(
            [where, dict(self.split), self.detector, self.observations, essential(self.detector, self.config())]
        )

    def config(self) -> Common:
        """Every setting; of these the data set decides the length, and the coverage where records are padded."""
        base = find(self.detector).Config.preset(self.preset)
        given: dict[str, Any] = {"length": self.protocol.length, "seed": self.seed}
        taken = sorted(set(given) & set(self.overrides))
        if taken:
            raise ConfigError(f"`{taken[0]}` comes with the data set and the seeds; leave it out of the settings.")
        padded = {"coverage": self.own.coverage} if self.own else {}
        config: Common = update(base, {**padded, **given, **self.overrides})
        return config

    def task(self, raw: Path) -> Task:
        if self.own:
            return self.own.protocol(self.data).build(raw, self.seed)
        return catalogue.draw(self.data, raw, self.seed, tuple(flat(self.split)))


def essential(name: str, config: Common) -> dict[str, Any]:
    """The settings that the training of a network depends on, of a detector without one all of them."""
    detector = find(name)
    if issubclass(detector, ResidualDetector) and isinstance(config, ResidualConfig):
        return detector.weight_settings(config)
    return to_mapping(config)


def flat(settings: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Nested settings as (dotted name, value)."""
    return [
        pair
        for name, value in sorted(settings.items())
        for pair in (flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else [(f"{prefix}{name}", value)])
    ]


def identity(cell: Cell, raw: Path) -> Record:
    """What decides the numbers, and its hash: a record with another one is of something else."""
    source = cell.own.digest if cell.own else source_digest(raw, cell.protocol.source)
    content = {**specified(cell), "source": source}
    return content | {"hash": digest(content)}


def specified(cell: Cell) -> Record:
    """What decides the numbers apart from the data."""
    content = {
        "format": FORMAT,
        "data": cell.data,
        "draws": VERSION,
        "detector": cell.detector,
        "preset": cell.preset,
        "overrides": dict(cell.overrides),
        "seed": cell.seed,
        "settings": to_mapping(cell.config()),
        "tsadc": importlib.metadata.version("tsadc"),
    }
    if cell.split:
        content["split"] = cell.protocol.check(cell.split)
    if cell.observations is not None:
        content["taken"] = cell.observations
    return content


def digest(content: Any) -> str:
    """A short hash of plain data."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def source_digest(raw: Path, source: str) -> str:
    """SHA-256 of the pack, empty for what is simulated."""
    pack = open_pack(raw, source) if source else None
    if source and pack is None:
        raise DataError(f"{raw} has no {source}; set TSADC_DATA to the folder that holds it.")
    return _digest(pack.file, pack.file.stat().st_mtime_ns) if pack else ""


@lru_cache(maxsize=8)
def _digest(file: Path, changed: int) -> str:
    with open(file, "rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
