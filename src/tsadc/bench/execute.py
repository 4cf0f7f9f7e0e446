"""Execute benchmark jobs: fit on unlabelled data, score without labels, measure with them. A job that fails gets a
record with its error, never a number."""

from __future__ import annotations

import tempfile
import time
import traceback
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tsadc.bench import points
from tsadc.bench.job import Job, Record, digest, identity
from tsadc.bench.machine import circumstances, peak, reset_peak
from tsadc.bench.measure import DIGITS, UNDEFINED, Arrays, arrays, check_order, measure
from tsadc.data.task import Data, RowTasks, Task, subsample
from tsadc.detectors import find
from tsadc.detectors.base import Detector
from tsadc.errors import ModelFileError
from tsadc.series import Booleans

NOTICES = 5  # kept in a record, at most


@dataclass
class Stopwatch:
    """Adds up the time, and the processor time, of what runs inside `running`."""

    seconds: float = 0.0
    cpu: float = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        seconds, cpu = time.perf_counter(), time.process_time()
        yield
        self.seconds += time.perf_counter() - seconds
        self.cpu += time.process_time() - cpu


def execute(job: Job, task: Task | RowTasks, training: Path | None = None) -> tuple[Record, Arrays]:
    """Run one job and return its flat record and its scores.

    `training` is a file that keeps the training of a network after every epoch. A job continues from it, so that a
    killed run loses little, and jobs that differ only in what is made of the network's residuals train it once. It is
    not used for a `RowTasks`, which trains a network for each of its series.
    """
    if isinstance(task, RowTasks):
        return execute_rows(job, task)
    kept: dict[str, Any] = {"checkpoint": training, "resume": True} if training is not None and job.network else {}
    trained_before = _seconds_kept(training) if training is not None and job.network else 0.0

    reset_peak()
    fitting, scoring = Stopwatch(), Stopwatch()
    detector = find(job.detector)(config=job.config())
    with fitting.running():
        detector.fit(_limited(job, task.train), validation=task.validation, **kept)
    if task.history is not None:
        detector.adapt(task.history)
    with scoring.running():
        result = detector.detect(task.test)

    table = result.observations
    check_order(table, task.answers)
    record = {
        **_costs(fitting, scoring, len(table), trained_before),
        "epoch_seconds": _epoch_seconds(detector),
        **network_size(detector, task.test),
        "threshold": float(result.threshold),
        **measure(table, task.answers),
    }
    scores = arrays(table, task.answers, result.threshold)
    if job.by_row:
        by_row = points.rows(result, task.answers)
        record |= points.measure(by_row, job.by_row)
        scores |= by_row
    return record, scores


def execute_rows(job: Job, task: RowTasks) -> tuple[Record, Arrays]:
    """Fit and score each series of the task, and measure the scores of rows only.

    The record has the means over series, the values of each series in the order of the task (`each_series`), and the
    means over its parts."""
    reset_peak()
    fitting, scoring = Stopwatch(), Stopwatch()
    observations, scores, flags = 0, [], []
    for series in task.series:
        detector = find(job.detector)(config=job.config())
        with fitting.running():
            detector.fit(_limited(job, (series.train,)))
        with scoring.running():
            result = detector.detect(series.series)
        observations += len(result.scores)
        scores.append(result.timeline["score"].to_numpy(float))
        flags.append(result.timeline["anomalous"].to_numpy(bool))
    by_row = points.rows_of_tasks(task.series, scores, flags)
    each = points.by_series(by_row, points.TSB)
    listed = {name: [values[name] for values in each] for name in points.TSB}
    record = {
        **_costs(fitting, scoring, observations),
        "observations": observations,
        "entities": len(task.series),
        **UNDEFINED,
        **points.measure(by_row, {*job.by_row, *points.TSB}),
        "each_series": listed,
        "parts": {
            part: {name: _mean(values, inside) for name, values in listed.items()}
            for part, inside in task.parts.items()
        },
        "kinds": {},
    }
    return record, by_row


def _limited(job: Job, train: Data) -> Data:
    if job.observations is None:
        return train
    config = job.config()
    return subsample(train, config.length, job.observations, config.coverage)


def _costs(fitting: Stopwatch, scoring: Stopwatch, observations: int, trained_before: float = 0.0) -> Record:
    return {
        "fit_seconds": round(trained_before + fitting.seconds, 2),
        "fit_cpu_seconds": round(fitting.cpu, 2),
        "shared_seconds": round(trained_before, 2),
        "score_seconds": round(scoring.seconds / observations, 5),
        "score_cpu_seconds": round(scoring.cpu / observations, 5),
        "peak_bytes": peak(),
    }


def _mean(values: Sequence[float | None], inside: Booleans) -> float | None:
    chosen = [value for value, kept in zip(values, inside, strict=True) if kept and value is not None]
    return round(float(np.mean(chosen)), DIGITS) if chosen else None


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
                record["notices"] = _listed({str(notice.message) for notice in notices})
            yield job, record, scores
        training.unlink(missing_ok=True)


def _listed(notices: Collection[str]) -> list[str]:
    """Return the first notices, and how many there are besides: each of many series may give its own."""
    rest = len(notices) - NOTICES
    return [*sorted(notices)[:NOTICES], *([f"and {rest} more"] if rest > 0 else [])]


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
    from tsadc.nn.operation_counter import OperationCounter  # needs torch, like what it counts

    with OperationCounter() as counted:
        detector.decision_function(observation)
    return round(counted.flops) or None


def _seconds_kept(file: Path) -> float:
    """Return the seconds that a kept training took so far; remove a damaged file."""
    from tsadc.nn import checkpoint  # needs torch, which not every detector does

    try:
        _, record = checkpoint.read(file)
    except ModelFileError:
        file.unlink(missing_ok=True)
        return 0.0
    return float(sum(epoch["seconds"] for epoch in record["epochs"]))


def _epoch_seconds(detector: Detector) -> float | None:
    history = getattr(detector, "history_", None)
    return round(float(np.mean([epoch.seconds for epoch in history.epochs])), 3) if history else None
