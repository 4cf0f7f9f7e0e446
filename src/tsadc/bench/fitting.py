"""Fitting for a benchmark. A network is trained once for all cells that differ in what is made of its residuals, such
as the two heads; its training is kept in a file after every epoch, so that a run that was killed goes on within it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tsadc.bench import cleaned, lock
from tsadc.bench.cell import Cell, digest
from tsadc.bench.cleaned import Cleaned
from tsadc.config import to_mapping, update
from tsadc.data.task import Data, Task, subsample
from tsadc.detectors import find
from tsadc.detectors.base import Detector
from tsadc.detectors.tsadc.detector import TSADC
from tsadc.errors import ModelFileError
from tsadc.nn import checkpoint
from tsadc.nn.operation_counter import OperationCounter


@dataclass(frozen=True)
class Fitted:
    """`seconds` as if the detector had been fitted alone, `network_seconds` of these not spent now but before; `cpu`
    those of the processor that were spent now. Cleaning the data counts in neither; `cleaning` says what it did."""

    detector: Detector
    seconds: float
    cpu: float
    network_seconds: float
    cleaning: dict[str, Any] | None = None


def fit(cell: Cell, task: Task, file: Path | None = None, origin: Sequence[Any] = ()) -> Fitted:
    """`file` is where the training of a network is kept, and continued if it is there. `origin` tells data apart that
    bear one name."""
    config = cell.config()
    train = task.train
    if cell.observations is not None:
        train = subsample(train, config.length, cell.observations, config.coverage)
    cleaning = None
    if cell.split.get("cleaned"):
        made = _cleaned(cell, train, origin, None if file is None else file.parent)
        train, cleaning = made.data, {"share": made.share, "cells": made.count}
    before = 0.0
    keeping = {}
    if file is not None and cell.network:
        before = _before(file)
        keeping = {"checkpoint": file, "resume": True}
    started, cpu = time.perf_counter(), time.process_time()
    detector = find(cell.detector)(config=config)
    detector.fit(train, validation=task.validation, **keeping)  # type: ignore[arg-type]
    return Fitted(detector, time.perf_counter() - started + before, time.process_time() - cpu, before, cleaning)


def _cleaned(cell: Cell, train: Data, origin: Sequence[Any], folder: Path | None) -> Cleaned:
    """What the default TSAD-C makes of the training part, trained for as many epochs as the cell's own network; kept in
    the folder, where other detectors find it. Of several processes that need it one makes it, and the others wait."""
    own = cell.config()
    epochs = {"training": {"epochs": own.training.epochs}} if cell.network else {}  # type: ignore[attr-defined]
    config = update(TSADC.Config(), {"length": own.length, "coverage": own.coverage, **epochs})
    if folder is None:
        return cleaned.cleaned(train, config, cell.seed)
    source = [cell.data, dict(cell.split), cell.seed, cell.observations, to_mapping(config), *origin]
    file = folder / f"cleaned-{digest(source)}.npz"
    folder.mkdir(parents=True, exist_ok=True)
    with lock.in_turn(file.with_suffix(".lock")):
        return cleaned.kept(file, train) or cleaned.keep(file, cleaned.cleaned(train, config, cell.seed))


def _before(file: Path) -> float:
    """The seconds that a kept training took so far. A file that was damaged is removed."""
    try:
        _, record = checkpoint.read(file)
    except ModelFileError:
        file.unlink(missing_ok=True)
        return 0.0
    return float(sum(epoch["seconds"] for epoch in record["epochs"]))


def epoch_seconds(detector: Detector) -> float | None:
    """Of training, on average; None without a network."""
    history = getattr(detector, "history_", None)
    return round(float(np.mean([epoch.seconds for epoch in history.epochs])), 3) if history else None


def network_size(detector: Detector, test: Data) -> dict[str, int | None]:
    """Parameters, and floating-point operations of scoring one observation; None without a network, and of operations
    also where no observation lies wholly in a series, or where threads share the work, as only one is counted."""
    network = getattr(detector, "network_", None)
    if network is None:
        return {"parameters": None, "flops": None}
    return {"parameters": sum(one.numel() for one in network.parameters()), "flops": _flops(detector, test)}


def _flops(detector: Detector, test: Data) -> int | None:
    one = subsample(test, detector.settings.length, 1, detector.settings.coverage)
    if not len(one):
        return None
    with OperationCounter() as counted:
        detector.decision_function(one)
    return round(counted.flops) or None
