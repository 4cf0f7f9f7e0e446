"""One cell of a benchmark: a detector with a preset and a seed on a protocol. It becomes one record of plain data and
the arrays of its scores. What fails becomes a record with its error, never a number."""

from __future__ import annotations

import copy
import hashlib
import importlib.metadata
import json
import platform
import subprocess
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tsadc.bench import protocols
from tsadc.bench.protocols import Answers, Task
from tsadc.config import to_mapping, update
from tsadc.data.packs import open_pack
from tsadc.detectors import find
from tsadc.detectors.base import Detector
from tsadc.detectors.settings import Common
from tsadc.errors import ConfigError, DataError
from tsadc.evaluate.bootstrap import Interval, intervals
from tsadc.evaluate.ranking import all_positive_f1, auroc, average_precision, cut, oracle_f1
from tsadc.series import Booleans, Floats

FORMAT = 1
DIGITS = 5
PACKAGES = ("tsadc", "torch", "numpy", "scipy", "scikit-learn")
Record = dict[str, Any]
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Cell:
    """`overrides` are settings on top of the preset, as `config.parse_assignments` gives them."""

    data: str
    detector: str
    seed: int
    preset: str = "default"
    overrides: Mapping[str, Any] = field(default_factory=dict)

    @property
    def row(self) -> str:
        """What is compared: the detector, its preset and what was changed in it."""
        changed = [f"{name}={value}" for name, value in flat(self.overrides)]
        return " ".join([self.detector if self.preset == "default" else f"{self.detector}:{self.preset}", *changed])

    @property
    def training(self) -> tuple[str, int, str]:
        """Cells of the same training need it once."""
        return protocols.find(self.data).trains_as or self.data, self.seed, self.row

    def config(self) -> Common:
        """Every setting; of these the data set decides the length only."""
        base = find(self.detector).Config.preset(self.preset)
        given = {"length": protocols.find(self.data).length, "seed": self.seed}
        taken = sorted(set(given) & set(self.overrides))
        if taken:
            raise ConfigError(f"`{taken[0]}` comes with the data set and the seeds; leave it out of the settings.")
        config: Common = update(base, {**given, **self.overrides})
        return config


def flat(settings: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Nested settings as (dotted name, value)."""
    return [
        pair
        for name, value in sorted(settings.items())
        for pair in (flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else [(f"{prefix}{name}", value)])
    ]


def identity(cell: Cell, raw: Path) -> Record:
    """What decides the numbers, and its hash: a record with another one is of something else."""
    content = {
        "format": FORMAT,
        "data": cell.data,
        "source": source_digest(raw, protocols.find(cell.data).source),
        "draws": protocols.VERSION,
        "detector": cell.detector,
        "preset": cell.preset,
        "overrides": dict(cell.overrides),
        "seed": cell.seed,
        "settings": to_mapping(cell.config()),
        "tsadc": importlib.metadata.version("tsadc"),
    }
    return content | {"hash": hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]}


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


def run(cells: Sequence[Cell], raw: Path) -> Iterator[tuple[Cell, Record, Arrays]]:
    """The records of cells that share their training, one after another; training happens once."""
    fitted: Detector | None = None
    failure: Exception | None = None
    seconds = 0.0
    for cell in cells:
        record = identity(cell, raw) | _circumstances()
        arrays: Arrays = {}
        with warnings.catch_warnings(record=True) as notices:
            warnings.simplefilter("always")
            try:
                if failure is not None:
                    raise failure
                task = protocols.draw(cell.data, raw, cell.seed)
                if fitted is None:
                    fitted, seconds = _fit(cell, task)
                found, arrays = _judge(fitted, task)
                record |= {"fit_seconds": round(seconds, 2), **found}
            except Exception as error:
                failure = error if fitted is None else None
                record["error"] = _describe(error)
        if notices:
            record["notices"] = sorted({str(notice.message) for notice in notices})
        yield cell, record, arrays


def _fit(cell: Cell, task: Task) -> tuple[Detector, float]:
    started = time.perf_counter()
    detector = find(cell.detector)(config=cell.config()).fit(task.train)
    return detector, time.perf_counter() - started


def _judge(fitted: Detector, task: Task) -> tuple[Record, Arrays]:
    """Score without labels, then measure with them."""
    # Another protocol may score with the same training, and must not find it adapted.
    detector = fitted if task.history is None else copy.deepcopy(fitted).adapt(task.history)
    started = time.perf_counter()
    result = detector.detect(task.test)
    seconds = time.perf_counter() - started
    table = result.observations
    _check_order(table, task.answers)
    record = {
        "train": detector.provenance_["data"],
        "score_seconds": round(seconds / len(table), 5),
        "threshold": float(result.threshold),
        **measure(table, task.answers, result.threshold),
    }
    return record, _arrays(table, task.answers, result.threshold)


def measure(table: pd.DataFrame, answers: Answers, threshold: float) -> Record:
    """The scores of observations against the answers: of all, of named parts, of each view and of each kind."""
    labels, scores, entities = answers.labels, table["score"].to_numpy(float), np.asarray(answers.entities)
    views = [name.removesuffix("_score") for name in table.columns if name.endswith("_score")]
    by_view = {name: _ranking(labels, table[f"{name}_score"].to_numpy(float)) for name in views}
    by_kind = {}
    for kind in sorted({kind for kinds in answers.kinds for kind in kinds}):
        chosen = np.array([kind in kinds for kinds in answers.kinds], dtype=bool)
        either = chosen | ~labels
        by_kind[kind] = {"observations": int(chosen.sum()), **_ranking(chosen[either], scores[either])}
    parts = {
        name: _measure(labels[inside], scores[inside], entities[inside], threshold)
        for name, inside in answers.parts.items()
    }
    return {**_measure(labels, scores, entities, threshold), "parts": parts, "views": by_view, "kinds": by_kind}


def _measure(labels: Booleans, scores: Floats, entities: NDArray[np.str_], threshold: float) -> Record:
    found = cut(labels, scores > threshold)
    within = intervals(labels, scores, entities)
    return {
        "observations": len(labels),
        "entities": len(set(entities.tolist())),
        "prevalence": round(float(labels.mean()), DIGITS),
        **_ranking(labels, scores),
        "auroc_interval": _rounded(within.auroc),
        "ap_interval": _rounded(within.average_precision),
        "precision": round(found.precision, DIGITS),
        "recall": round(found.recall, DIGITS),
        "f1": round(found.f1, DIGITS),
        "flagged": round(float((scores > threshold).mean()), DIGITS),
        "all_positive_f1": round(all_positive_f1(labels), DIGITS),
        "oracle_f1": round(oracle_f1(labels, scores), DIGITS),
    }


def _ranking(labels: Booleans, scores: Floats) -> dict[str, float]:
    return {"auroc": round(auroc(labels, scores), DIGITS), "ap": round(average_precision(labels, scores), DIGITS)}


def _rounded(within: Interval | None) -> list[float] | None:
    return None if within is None else [round(end, DIGITS) for end in within]


def _check_order(table: pd.DataFrame, answers: Answers) -> None:
    if tuple(table["entity"]) != answers.entities:
        raise DataError(
            f"The detector scored {len(table)} observations, but there are answers to {len(answers.entities)}, or of "
            "other entities; scores cannot be measured."
        )


def _arrays(table: pd.DataFrame, answers: Answers, threshold: float) -> Arrays:
    scores = {name: table[name].to_numpy(np.float32) for name in table.columns if name.endswith("_score")}
    return {
        "score": table["score"].to_numpy(np.float64),
        "anomalous": answers.labels,
        "entity": np.array(answers.entities),
        "kinds": np.array(["|".join(kinds) for kinds in answers.kinds]),
        "threshold": np.array(threshold),
        **scores,
    }


def _describe(error: Exception) -> dict[str, str]:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(frame.filename).name}:{frame.lineno}"
    return {"type": type(error).__name__, "message": str(error), "where": where}


def _circumstances() -> Record:
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {"versions": {"python": platform.python_version(), **versions}, "commit": commit()}


@lru_cache(maxsize=1)
def commit() -> str | None:
    """The commit of the code, with a plus sign if files were changed since; None outside of a repository."""
    folder = Path(__file__).parents[1]
    try:
        name, changed = (
            subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True, timeout=20).stdout
            for words in (["rev-parse", "--short=12", "HEAD"], ["status", "--porcelain", "--untracked-files=no", "."])
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return name.strip() + ("+" if changed.strip() else "")
