"""`tsadc fit --detector tsadc --engine ray --workers N`: processes on a cluster train one network together.

Each process reads the whole history and computes its share of each batch; the gradients are summed over all
(`nn/runtime/distributed.py`). So the batch is that of one process, and so are the losses, up to rounding."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tsadc.atomic import new_folder
from tsadc.cli.cluster_fit import check_request
from tsadc.cli.examination import check_history
from tsadc.cli.workflow import trained
from tsadc.cluster.engine import connect
from tsadc.cluster.models import ModelFiles, model_files
from tsadc.cluster.partitions import FileGroup, group_files, named_files, read_group
from tsadc.detectors.base import Detector, ProgressCallback
from tsadc.detectors.store import load
from tsadc.errors import ConfigError, DataError, notice
from tsadc.io.calendar import Calendar
from tsadc.io.reading import Reading
from tsadc.series import Series


@dataclass(frozen=True)
class TrainJob:
    """What all processes share: the unfitted detector, the files, and what the model remembers."""

    detector: Detector
    groups: Sequence[FileGroup]
    calendar: Calendar | None
    remembered: Mapping[str, Any]


def train_on_cluster(
    detector: Detector,
    data: Sequence[Path],
    reading: Reading,
    out: Path,
    workers: int,
    *,
    address: str | None,
    remembered: Mapping[str, Any],
    progress: ProgressCallback,
    calendar: Calendar | None = None,
) -> str:
    """Train the network of a detector in `workers` processes, save it to `out` and return a summary."""
    if not hasattr(detector.settings, "training"):
        raise ConfigError(f"--workers trains a network, but {detector.name} has none; leave it out.")
    if workers < 1:
        raise ConfigError(f"--workers must be at least 1, but got {workers}.")
    if reading.skip_bad:
        raise ConfigError(
            "--skip-bad does not go together with training a network on a cluster, where all processes need the same "
            "data; leave it out, and name only files that can be used."
        )
    check_request(detector, reading, out)
    named = named_files(data)
    with connect(address) as cluster:
        groups = group_files(cluster, named, reading)
        job = cluster.share(TrainJob(detector, groups, calendar, remembered))
        outcome = cluster.together(train_member, job, workers, progress)
    for text in outcome.notices:
        notice(text)
    if outcome.value is None:
        raise DataError(f"The network cannot be trained: {outcome.error}")
    with new_folder(out) as folder:
        for name, content in outcome.value.items():
            (folder / name).write_bytes(content.tobytes())
    return trained(load(out), out)


def train_member(job: TrainJob, rank: int, report: ProgressCallback) -> ModelFiles | None:
    """Read the history and train with all others; the task of a worker. Rank 0 returns the model."""
    series = list[Series]()
    with tempfile.TemporaryDirectory(prefix="tsadc-") as folder:
        for group in job.groups:
            series += read_group(group, Path(folder))[0]
    kept = job.groups[0].reading.columns or ()
    history = check_history(tuple(series), [], job.detector, kept=kept)

    def report_epoch(now: Any) -> None:  # an update is not worth a message to another machine
        if getattr(now, "epoch_ended", False):
            report(now)

    job.detector.fit(history, calendar=job.calendar, progress=report_epoch)
    if job.remembered:
        job.detector.provenance_["reading"] = dict(job.remembered)
    return model_files(job.detector) if rank == 0 else None
