"""`tsadc bench run --engine ray`: jobs that share a training are a task, and this machine keeps their records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tsadc.bench.execute import beginning, run
from tsadc.bench.job import Job, Record
from tsadc.bench.measure import Arrays
from tsadc.bench.records import Store
from tsadc.bench.run import batches, trainings
from tsadc.cluster.engine import connect


def run_on_cluster(jobs: Sequence[Job], raw: Path, store: Store, address: str | None) -> Iterator[tuple[Job, Record]]:
    """Yield jobs with their records, in the order in which they finish. All nodes need the data, at the same path."""
    with connect(address) as cluster:
        for batch, outcome in cluster.map(run_batch, cluster.share(raw.absolute()), batches(jobs)):
            why: Record = {"error": str(outcome.error), "error_at": "unknown"}
            failed = [(job, beginning(job, raw) | why, Arrays()) for job in batch]
            for job, record, scores in outcome.value or failed:
                store.keep(record, scores)
                yield job, record


def run_batch(raw: Path, batch: list[Job]) -> list[tuple[Job, Record, Arrays]]:
    """Run the jobs of a batch; the task of a worker."""
    return [finished for group in trainings(batch) for finished in run(group, raw)]
