"""Gather records by label and data over their seeds. Tables, figures and pages are made from these summaries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tsadc.bench.job import Job, Record
from tsadc.bench.metrics import COSTS, value_of
from tsadc.bench.records import job_of
from tsadc.data.catalogue import PROTOCOLS
from tsadc.data.protocols import CHOOSING
from tsadc.errors import DataError

Read = Callable[[Record, str], float | None]


@dataclass(frozen=True)
class Summary:
    """The records of one label on one data set. `data` is the data set with its options, `dataset` its bare name;
    `records` are in the order of their seeds and include failures."""

    label: str
    data: str
    dataset: str
    split: Mapping[str, float]
    records: tuple[Record, ...]

    @property
    def fine(self) -> tuple[Record, ...]:
        """The records without an error."""
        return tuple(record for record in self.records if "error" not in record)

    @property
    def network(self) -> bool:
        """Whether the detector trains a network."""
        return any(job_of(record).network for record in self.records)

    def values(self, metric: str, read: Read = value_of) -> list[float]:
        """Return the metric of each seed that has it."""
        values = [read(record, metric) for record in self.fine]
        return [value for value in values if value is not None]

    def mean(self, metric: str, read: Read = value_of) -> float | None:
        """Return the mean over seeds, or None if no seed has the metric."""
        values = self.values(metric, read)
        return float(np.mean(values)) if values else None

    def deviation(self, metric: str) -> float | None:
        """Return the standard deviation over seeds, or None with fewer than two of them."""
        values = self.values(metric)
        return float(np.std(values, ddof=1)) if len(values) > 1 else None


def summarise(records: Sequence[Record], choosing: bool = False) -> list[Summary]:
    """Summarise the seeds for reporting, or those for choosing settings. Data sets are in the order of the catalogue,
    then labels in alphabetical order."""
    kept = [record for record in records if (record["seed"] >= CHOOSING) == choosing]
    if not kept:
        raise DataError(f"There are no records of seeds for {'choosing' if choosing else 'reporting'}; run some first.")
    pairs = [(job_of(record), record) for record in sorted(kept, key=lambda record: int(record["seed"]))]
    ambiguous = _ambiguous_labels([job for job, _ in pairs])
    groups: dict[tuple[str, str], list[Record]] = {}
    for job, record in pairs:
        label = job.variant if job.label in ambiguous else job.label
        groups.setdefault((label, job.data), []).append(record)
    summaries = [
        Summary(label, data, group[0]["dataset"], group[0].get("split", {}), tuple(group))
        for (label, data), group in groups.items()
    ]
    return sorted(
        summaries, key=lambda each: (_order(each.dataset), each.dataset, sorted(each.split.items()), each.label)
    )


def _ambiguous_labels(jobs: Sequence[Job]) -> set[str]:
    """Return the labels that stand for several settings, as after a plan was changed between two runs."""
    times = Counter((job.label, job.data, job.seed) for job in jobs)
    return {label for (label, _, _), count in times.items() if count > 1}


def _order(dataset: str) -> int:
    names = list(PROTOCOLS)
    return names.index(dataset) if dataset in names else len(names)


def data_of(summaries: Sequence[Summary]) -> list[str]:
    """Return the data of the summaries in their order, each once."""
    return list(dict.fromkeys(summary.data for summary in summaries))


def labels_of(summaries: Sequence[Summary], metric: str = "auroc") -> list[str]:
    """Return the labels as `ranked` orders them, those with a network first."""
    trained = {summary.label for summary in summaries if summary.network}
    return sorted(ranked(summaries, metric), key=lambda label: label not in trained)


def ranked(summaries: Sequence[Summary], metric: str) -> list[str]:
    """Return the labels by their mean over data sets, the best first: the highest, or the lowest cost."""
    means: dict[str, list[float]] = {}
    for summary in summaries:
        mean = summary.mean(metric)
        means.setdefault(summary.label, []).extend([] if mean is None else [mean])
    sign = 1 if metric in COSTS else -1
    return sorted(means, key=lambda label: (sign * float(np.mean(means[label])) if means[label] else 0.0, label))


class Grid:
    """Summaries by label and data; `labels_of` orders the labels by a metric."""

    def __init__(self, summaries: Sequence[Summary], metric: str = "auroc") -> None:
        self.summaries = summaries
        self.data, self.labels = data_of(summaries), labels_of(summaries, metric)
        self._summaries = {(summary.label, summary.data): summary for summary in summaries}

    def get(self, label: str, data: str) -> Summary:
        """Return the summary; one without records if the job was not run."""
        return self._summaries.get((label, data)) or Summary(label, data, "", {}, ())

    def of(self, data: str) -> list[Summary]:
        """Return the summaries of all labels on the data."""
        return [summary for summary in self.summaries if summary.data == data]

    def best(self, data: str, metric: str) -> float | None:
        """Return the highest mean on the data."""
        return max((mean for summary in self.of(data) if (mean := summary.mean(metric)) is not None), default=None)

    def whole(self, data: str) -> Summary:
        """Return one summary of all records on the data."""
        return Summary("", data, "", {}, tuple(record for summary in self.of(data) for record in summary.records))


def complete(summaries: Sequence[Summary], metric: str) -> tuple[list[str], list[str], list[list[float]]]:
    """Return the data sets with the metric, the labels with a value on every one in every split, and the values (data
    set, label). Splits of one data set are not independent, so they are averaged."""
    summaries = _with_metric(summaries, metric)
    means = {(summary.label, summary.data): summary.mean(metric) for summary in summaries}
    every = data_of(summaries)
    full = [
        label for label in labels_of(summaries, metric) if all(means.get((label, data)) is not None for data in every)
    ]
    datasets = list(dict.fromkeys(summary.dataset for summary in summaries))
    table = [
        [
            float(
                np.mean(
                    [
                        summary.mean(metric)
                        for summary in summaries
                        if (summary.label, summary.dataset) == (label, dataset)
                    ]
                )
            )
            for label in full
        ]
        for dataset in datasets
    ]
    return datasets, full, table


def _with_metric(summaries: Sequence[Summary], metric: str) -> list[Summary]:
    """Return the summaries of data sets on which at least one record has the metric, or every job failed: data sets
    that score rows only have no metrics of observations."""
    lacking = {summary.data for summary in summaries if summary.fine} - {
        summary.data for summary in summaries if summary.values(metric)
    }
    return [summary for summary in summaries if summary.data not in lacking]
