"""`tsadc audit --engine ray`: each fold is trained for and judged by a task of its own.

This machine reads the history, sends it to the cluster once, and trains the two models for comparison itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tsadc.cluster.engine import connect
from tsadc.cluster.models import refuse_own
from tsadc.detectors.audit import JudgedFold, Plan, Runner, judge_fold
from tsadc.detectors.base import Detector
from tsadc.errors import DataError


def on_cluster(detector: Detector, address: str | None) -> Runner:
    """Return what judges the folds of an audit on the cluster at an address; raise if its nodes lack the detector."""
    refuse_own(detector)

    def run(detector: Detector, planned: Plan) -> Iterable[JudgedFold]:
        return _judged(type(detector)(config=detector.settings), planned, address)

    return run


def _judged(unfitted: Detector, planned: Plan, address: str | None) -> Iterator[JudgedFold]:
    with connect(address) as cluster:
        job = cluster.share((unfitted, planned))
        for number, outcome in cluster.map(judge, job, range(len(planned.folds))):
            if outcome.value is None:
                raise DataError(f"Fold {number + 1} of {len(planned.folds)} cannot be judged: {outcome.error}")
            yield outcome.value


def judge(job: tuple[Detector, Plan], number: int) -> JudgedFold:
    """Judge a fold; the task of a worker."""
    return judge_fold(*job, number)
