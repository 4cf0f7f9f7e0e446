"""Execute benchmark jobs: fit on unlabelled data, score without labels, measure with them. A job that fails gets a
record with its error, never a number."""

from __future__ import annotations

import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from tsadc.bench import points
from tsadc.bench.job import Job, Record, digest, identity
from tsadc.bench.machine import circumstances, peak, reset_peak
from tsadc.bench.measure import Arrays, arrays, check_order, measure
from tsadc.data.task import Data, Task, subsample
from tsadc.detectors import find
from tsadc.detectors.base import Detector
from tsadc.errors import ModelFileError
from tsadc.nn import checkpoint
from tsadc.nn.operation_counter import OperationCounter


def execute(job: Job, task: Task, training: Path | None = None) -> tuple[Record, Arrays]:
    """Run one job and return its flat record and its scores.

    `training` is a file that keeps the training of a network after every epoch. A job continues from it, so that a
    killed run loses little, and jobs that differ only in what is made of the network's residuals train it once.
    """
    config = job.config()
    train = task.train
    if job.observations is not None:
        train = subsample(train, config.length, job.observations, config.coverage)
    kept: dict[str, Any] = {"checkpoint": training, "resume": True} if training is not None and job.network else {}
    trained_before = _seconds_kept(training) if training is not None and job.network else 0.0

    reset_peak()
    detector = find(job.detector)(config=config)
    started, cpu = time.perf_counter(), time.process_time()
    detector.fit(train, validation=task.validation, **kept)
    fit_seconds, fit_cpu = time.perf_counter() - started, time.process_time() - cpu
    if task.history is not None:
        detector.adapt(task.history)

    started, cpu = time.perf_counter(), time.process_time()
    result = detector.detect(task.test)
    score_seconds, score_cpu = time.perf_counter() - started, time.process_time() - cpu

    table = result.observations
    check_order(table, task.answers)
    record = {
        "fit_seconds": round(trained_before + fit_seconds, 2),
        "fit_cpu_seconds": round(fit_cpu, 2),
        "shared_seconds": round(trained_before, 2),
        "epoch_seconds": _epoch_seconds(detector),
        "score_seconds": round(score_seconds / len(table), 5),
        "score_cpu_seconds": round(score_cpu / len(table), 5),
        "peak_bytes": peak(),
        **network_size(detector, task.test),
        "threshold": float(result.threshold),
        **measure(table, task.answers, result.threshold),
    }
    scores = arrays(table, task.answers, result.threshold)
    if job.by_row:
        by_row = points.rows(result, task.answers)
        record |= points.measure(by_row)
        scores |= by_row
    return record, scores


def run(jobs: Sequence[Job], raw: Path, folder: Path | None = None) -> Iterator[tuple[Job, Record, Arrays]]:
    """Execute jobs that share one training, and yield their records; `folder` keeps the training in case of a kill."""
    known = identity(jobs[0], raw)
    name = digest([jobs[0].training, known["source"], known["code"]])
    with tempfile.TemporaryDirectory() if folder is None else nullcontext(folder) as place:
        training = Path(place) / f"{name}.safetensors"
        for job in jobs:
            record, scores = beginning(job, raw), Arrays()
            with warnings.catch_warnings(record=True) as notices:
                warnings.simplefilter("always")
                try:
                    measured, scores = execute(job, job.task(raw), training)
                    record |= measured
                except Exception as error:
                    record |= describe(error)
            if notices:
                record["notices"] = sorted({str(notice.message) for notice in notices})
            yield job, record, scores
        training.unlink(missing_ok=True)


def beginning(job: Job, raw: Path) -> Record:
    """Return the part of a record that is known before its job runs."""
    return identity(job, raw) | circumstances()


def describe(error: Exception) -> Record:
    """Return the part of a record that says why its job failed."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return {"error": f"{type(error).__name__}: {error}", "error_at": f"{Path(frame.filename).name}:{frame.lineno}"}


def network_size(detector: Detector, test: Data) -> dict[str, int | None]:
    """Return the number of parameters, and the floating-point operations to score one observation. Both are None
    without a network; operations also if no observation lies within a series, or if threads share the work, as only one
    is counted."""
    network = getattr(detector, "network_", None)
    if network is None:
        return {"parameters": None, "flops": None}
    return {"parameters": sum(weights.numel() for weights in network.parameters()), "flops": _flops(detector, test)}


def _flops(detector: Detector, test: Data) -> int | None:
    observation = subsample(test, detector.settings.length, 1, detector.settings.coverage)
    if not len(observation):
        return None
    with OperationCounter() as counted:
        detector.decision_function(observation)
    return round(counted.flops) or None


def _seconds_kept(file: Path) -> float:
    """Return the seconds that a kept training took so far; remove a damaged file."""
    try:
        _, record = checkpoint.read(file)
    except ModelFileError:
        file.unlink(missing_ok=True)
        return 0.0
    return float(sum(epoch["seconds"] for epoch in record["epochs"]))


def _epoch_seconds(detector: Detector) -> float | None:
    history = getattr(detector, "history_", None)
    return round(float(np.mean([epoch.seconds for epoch in history.epochs])), 3) if history else None
