"""`tsadc fit --engine ray`: tasks summarise the history of each entity, and this machine fits the model to all of them.

    base      the entities that the views are fitted to: a sample of each is part of the summary
    rest      all others, of which only statistics are needed; a second pass learns their baselines

The first entities, in the random order of `Rule.number`, are summarised first. With their statistics, a task knows
that its own entity belongs to the rest, and sends a few kilobytes instead of its history."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsadc.atomic import refuse_existing
from tsadc.cli.cluster_detect import report_entities
from tsadc.cli.cluster_notices import Noted, notice_first
from tsadc.cli.examination import check_history
from tsadc.cli.workflow import trained
from tsadc.cluster.engine import Cluster, Outcome, connect
from tsadc.cluster.models import ModelFiles, loaded_model, model_files, refuse_own
from tsadc.cluster.partitions import FileGroup, check_options, group_files, named_files, read_group
from tsadc.detectors import parts
from tsadc.detectors.base import Detector, ProgressCallback
from tsadc.detectors.planned import masked
from tsadc.detectors.summary import MIN_QUOTA, Baselines, Summary, merge
from tsadc.errors import ConfigError, DataError, listed, notice
from tsadc.io.calendar import Calendar
from tsadc.io.reading import Reading
from tsadc.series import Series
from tsadc.show.words import count


@dataclass(frozen=True)
class FitJob:
    """What all tasks of the first pass share: the unfitted detector, the calendar, and, apart from the first task, the
    variables and the summary of the base without its sample."""

    detector: Detector
    calendar: Calendar | None
    variables: tuple[str, ...] | None = None
    labels: tuple[str, ...] = ()
    base: NDArray[np.uint8] | None = None


@dataclass(frozen=True)
class BaselineJob:
    """What all tasks of the second pass share: a fitted model, its digest, and the entities of the rest."""

    digest: str
    model: ModelFiles
    rest: frozenset[str]
    calendar: Calendar | None
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Summarised:
    """What a task of the first pass returns: a summary, and columns that look like labels."""

    summary: NDArray[np.uint8]
    labels: tuple[str, ...]


def fit_on_cluster(
    detector: Detector,
    data: Sequence[Path],
    reading: Reading,
    out: Path,
    *,
    address: str | None,
    remembered: Mapping[str, Any],
    calendar: Calendar | None = None,
    progress: ProgressCallback | None = None,
) -> str:
    """Train the detector on the entities of partitioned Parquet files, save it to `out` and return a summary."""
    check_request(detector, reading, out)
    named = named_files(data)
    with connect(address) as cluster:
        groups = group_files(cluster, named, replace(reading, skip_bad=False))
        fit = _Fit(cluster, detector, calendar, reading.skip_bad, len(groups), progress)
        summary = fit.summary(groups)
        parts.fit_summary(detector, summary)
        if summary.rest:
            parts.add_baselines(detector, fit.baselines(groups, frozenset(summary.rest)))
    fit.notice_all()
    if remembered:
        detector.provenance_["reading"] = dict(remembered)
    detector.save(out)
    return trained(detector, out)


def check_request(detector: Detector, reading: Reading, out: Path) -> None:
    """Raise if the model cannot be written, or not be trained on a cluster."""
    refuse_existing(out)
    check_options(reading)
    refuse_own(detector)
    if not detector.mergeable and not hasattr(detector.settings, "training"):
        raise ConfigError(
            f"{detector.name} cannot be fitted on a cluster, which fits the ensemble and detectors with a network; "
            "leave out --engine ray, or choose another detector."
        )


class _Fit:
    """Both passes over the groups. `left_out` has the sentences about those that cannot be used."""

    def __init__(
        self,
        cluster: Cluster,
        detector: Detector,
        calendar: Calendar | None,
        skip_bad: bool,
        total: int,
        progress: ProgressCallback | None,
    ) -> None:
        self._cluster, self._detector, self._calendar, self._skip_bad = cluster, detector, calendar, skip_bad
        self._done, self._total, self._progress = 0, total, progress
        self.left_out, self.labels = dict[str, str](), tuple[str, ...]()
        self.notices = list[Noted]()

    def summary(self, groups: Sequence[FileGroup]) -> Summary:
        """Return the summary of all groups: the first pass."""
        job, waiting = FitJob(self._detector, self._calendar), list(groups)
        first: Summarised | None = None
        while first is None:  # the first group that can be used decides the variables
            if not waiting:
                name, why = next(iter(self.left_out.items()))
                raise DataError(f"None of {len(groups)} groups of files can be used; {name!r}: {why}")
            first = next(self._values(summarise_group, job, [waiting.pop(0)]), None)
        whole = _summary(first.summary)
        rule, self.labels = whole.rule, first.labels
        job = replace(job, variables=rule.names, labels=first.labels)
        waiting.sort(key=lambda group: min(rule.number(entity) for entity in group.entities))
        most = -(-rule.most // MIN_QUOTA)  # entities that fill the sample, even if each has the least
        for found in self._values(summarise_group, job, waiting[:most]):
            whole = merge([whole, _summary(found.summary)])
        bare = replace(whole, entities={name: own.without_sample() for name, own in whole.entities.items()})
        job = replace(job, base=_bytes(bare.to_bytes()))
        rest = [_summary(found.summary) for found in self._values(summarise_group, job, waiting[most:])]
        return merge([whole, *rest]) if rest else whole

    def baselines(self, groups: Sequence[FileGroup], rest: frozenset[str]) -> list[Baselines]:
        """Return the baselines of the rest, the entities without a sample: the second pass."""
        chosen = [group for group in groups if rest.intersection(group.entities)]
        self._done, self._total = 0, len(chosen)
        files = model_files(self._detector)
        digest = hashlib.sha256(b"".join(content.tobytes() for content in files.values())).hexdigest()
        job = BaselineJob(digest, files, rest, self._calendar, self.labels)
        return list(self._values(group_baselines, job, chosen))

    def _values(self, function: Any, job: Any, groups: Sequence[FileGroup]) -> Iterator[Any]:
        """Yield what the function returns for each group that can be used."""
        if not groups:
            return
        for group, outcome in self._cluster.map(function, self._cluster.share(job), groups):
            self._done += 1
            report_entities(self._progress, self._done, self._total)
            self.notices.append((group.entities, outcome.notices))
            if outcome.value is not None:
                yield outcome.value
            else:
                self._refuse(group, outcome)

    def _refuse(self, group: FileGroup, outcome: Outcome[Any]) -> None:
        if not self._skip_bad:
            raise DataError(
                f"{listed(group.entities)} cannot be learnt from: {outcome.error} Correct the data, or leave out what "
                "is bad with --skip-bad; nothing was written."
            )
        self.left_out |= dict.fromkeys(group.entities, str(outcome.error))

    def notice_all(self) -> None:
        """Issue what the tasks noticed, and name what was left out."""
        if self.left_out:
            name, why = next(iter(self.left_out.items()))
            number = count(len(self.left_out), "entity", "entities")
            notice(f"{number} left out: {listed(sorted(self.left_out))}; {name!r}: {why}")
        notice_first(self.notices, "tsadc info shows those of a file")


def summarise_group(job: FitJob, group: FileGroup) -> Summarised:
    """Read the files of a group and summarise their entities; the task of a worker."""
    series = _history(group, job.labels, job.calendar, job.detector.settings.length)
    kept = job.variables or group.reading.columns or ()
    checked = check_history(series, [], job.detector, kept=kept)
    labels = job.labels if job.variables else tuple(sorted(set(series[0].names) - set(checked[0].names)))
    summary = parts.summarise(job.detector, list(checked), variables=job.variables, kept=False)
    if job.base is not None:
        own = set(summary.entities)
        whole = merge([_summary(job.base), summary])
        summary = replace(whole, entities={name: entity for name, entity in whole.entities.items() if name in own})
    return Summarised(_bytes(summary.to_bytes()), labels)


def group_baselines(job: BaselineJob, group: FileGroup) -> Baselines:
    """Read the files of a group again and return what is usual for its entities of the rest; the task of a worker."""
    detector = loaded_model(job.digest, job.model)
    every = _history(group, job.labels, job.calendar, detector.settings.length)
    return parts.baselines(detector, [series for series in every if series.entity in job.rest])


def _history(group: FileGroup, labels: tuple[str, ...], calendar: Calendar | None, length: int) -> tuple[Series, ...]:
    """Return the series of a group, without columns that are labels, and without planned work."""
    reading = group.reading
    if labels:
        reading = replace(reading, exclude=(*reading.exclude, *labels), may_lack=(*reading.may_lack, *labels))
    with tempfile.TemporaryDirectory(prefix="tsadc-") as folder:
        series, _ = read_group(replace(group, reading=reading), Path(folder))
    return series if calendar is None else masked(series, calendar, length)


def _bytes(data: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(data, dtype=np.uint8)


def _summary(data: NDArray[np.uint8]) -> Summary:
    return Summary.from_bytes(data.tobytes())
