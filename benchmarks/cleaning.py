"""Train detectors on data that `tsadc.Decontaminator` has cleaned: how much of what dirty data costs comes back?

    python benchmarks/cleaning.py                       # runs what has no current record, then writes the table
    python benchmarks/cleaning.py --data plant --eta 0.2 --seeds 0 --detectors pca    # some of it
    python benchmarks/cleaning.py --table FILE          # only write the records as a table

Each detector is trained four times and scores the same test part:

    dirty       the history, a share eta of which is anomalous
    expected    the same, what the Decontaminator suspects replaced by what was to be expected
    drop        the same, without the rows that it suspects (without the observations, if they are separate)
    clean       the history with eta 0

The Decontaminator has its default settings: the ensemble, level 0.5, 5 folds. No label chose them. Networks have the
preset `tiny` and their own scoring, and train for 5 epochs, on the plant on at most 200 observations. These settings
are the same for all four histories. Every seed is another plant, or another draw of the observations.

`pca` takes as many components as explain 90 % of the variance, and anomalies add variance. `pca-half` always takes half
as many components as there are variables; it explains a result and counts in no summary.

The tables have the average precision (AP), what a dirty history costs (lost: clean - dirty) and the share of it that
cleaning brings back, (cleaned - dirty) / (clean - dirty). It is undefined for a detector that loses less than 0.01.

A record has the settings and hashes of a benchmark job (`tsadc.bench.job.identity`), a hash of the code that cleans
(`cleaner`) and a digest of the data that the detector was trained on (`trained_on`). It is stale if the code has
changed; if only the code that cleans has, and the cleaned data is the same, its AP is kept.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import ClassVar

import audit as audit_benchmark
import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from tsadc.atomic import write_file
from tsadc.bench.execute import execute
from tsadc.bench.job import Job, Record, identity
from tsadc.bench.machine import circumstances
from tsadc.bench.measure import check_order
from tsadc.bench.source import module_hash, reference, source_hash
from tsadc.data.task import Task
from tsadc.detectors.base import FitOptions
from tsadc.detectors.classical.pca import PrincipalComponents
from tsadc.detectors.cleaning import Decontaminator, Fill, audited, cells_of
from tsadc.detectors.ensemble.detector import Ensemble
from tsadc.detectors.provenance import digest
from tsadc.evaluate.ranking import average_precision
from tsadc.io.memory import as_series
from tsadc.series import Observations
from tsadc.show.markdown import table as markdown
from tsadc.windows import cut

HERE = Path(__file__).parent
RESULTS, PAGE = HERE / "results" / "cleaning", HERE.parent / "docs" / "tables" / "cleaning.md"
DATA = ("plant", "sleep", "ludb")
ETAS = (0.1, 0.2, 0.3)
DETECTORS = ("isolation-forest", "pca", "usad", "lstm-ae", "s4-ae", "ensemble")
NETWORKS = ("usad", "lstm-ae", "s4-ae")
EXPLAINING = ("pca-half",)  # shown, but in no summary
ALL = (*DETECTORS, *EXPLAINING)
FILLS: tuple[Fill, ...] = ("expected", "drop")
HISTORIES = ("dirty", *FILLS, "clean")
EPOCHS, OBSERVATIONS = 5, 200  # of networks
LOST = 0.01  # of AP: a smaller loss is noise
CONFIDENCE = 0.9  # of the intervals of means over seeds
HEAD = [*("eta", "detector"), *HISTORIES, *("lost", *(f"{fill} - dirty" for fill in FILLS))]
SUMMARY_HEAD = [*("data", "fill", "mean change", "that lose", "their loss comes back", "mean change of the others")]
CHANGED_HEAD = [*("data", "eta", "anomalous", "changed", "precision", "recall", "changed cells")]
ABOUT = (
    "AP of detectors trained on a dirty history, on the same cleaned by `tsadc.Decontaminator` (`expected`, `drop`), "
    f"and on a clean one. Made by `python benchmarks/cleaning.py`; its docstring explains the "
    f"histories. Networks are tiny: {EPOCHS} epochs, on the plant on at most {OBSERVATIONS} observations. Differences "
    f"are means over seeds with the half width of their {CONFIDENCE:.0%} interval (Student's t). lost: clean - dirty."
)
SUMMARY = (
    f"Detectors that lose: at how many of the detectors and etas a dirty history costs more than {LOST} AP, on average "
    "over seeds. The share of their loss that comes back is the sum of what cleaning gains by the sum of what was "
    "lost; in brackets the lowest and the highest of the seeds. Where nothing is lost it is undefined."
)
CHANGED = (
    "Observations of the history that cleaning changes anything of. Precision: the share of them that is anomalous; "
    "recall: the share of the anomalous ones that is changed. Labels are used for this table and AP only."
)
CLEANER = (
    *(f"tsadc.detectors.audit.{part}" for part in ("estimate", "findings", "folds", "judge", "run")),
    *("tsadc.detectors.cleaning", "tsadc.detectors.imputation"),
)
Key = tuple[str, str, float, str, int]  # data, history, eta, detector, seed
Floats = NDArray[np.float64]


class HalfOfTheComponents(PrincipalComponents):
    """PCA with half as many components as variables, whatever the variance that they explain."""

    name: ClassVar[str] = "pca-half"

    def _fit(self, train: Observations, validation: Observations, options: FitOptions) -> None:
        super()._fit(train, validation, options)
        assert len(self.components_) >= len(train.names) // 2
        self.components_ = self.components_[: len(train.names) // 2]


def job(data: str, detector: str, eta: float, seed: int) -> Job:
    """Return how a detector is trained and measured; its training part is exchanged for each history."""
    if detector in EXPLAINING:
        return Job(data, "pca", seed, overrides={"explained": 0.9999}, split={"eta": eta}, label=detector)
    if detector not in NETWORKS:
        return Job(data, detector, seed, split={"eta": eta}, label=detector)
    settings = {"scoring": "own", "training": {"epochs": EPOCHS}}
    limit = OBSERVATIONS if data == "plant" else None  # the others have fewer
    return Job(
        data, detector, seed, preset="tiny", overrides=settings, split={"eta": eta}, observations=limit, label=detector
    )


def run(data: str, eta: float, seed: int, detectors: Sequence[str], raw: Path) -> None:
    """Make the records of one history that are missing or stale, and those of its clean counterpart."""
    wanted = [history for history in ("dirty", *FILLS) if stale(data, history, eta, detectors, seed, raw)]
    for history, task, facts in histories(data, eta, seed, raw, wanted):
        measure(history, job(data, "ensemble", eta, seed), detectors, raw, task, facts)
    if stale(data, "clean", 0.0, detectors, seed, raw):
        measure("clean", job(data, "ensemble", 0.0, seed), detectors, raw, _task(data, 0.0, seed, raw), {})


def stale(data: str, history: str, eta: float, detectors: Sequence[str], seed: int, raw: Path) -> dict[str, Record]:
    """Return the detectors without a current record, each with its stale record, which is empty if there is none."""
    known, found = {_key(record): record for record in load()}, {}
    for detector in detectors:
        record = known.get((data, history, eta, detector, seed), {})
        if not (identity(job(data, detector, eta, seed), raw) | _cleaner(history)).items() <= record.items():
            found[detector] = record
    return found


def _cleaner(history: str) -> Record:
    """Return a hash of the code that the cleaned histories depend on."""
    if history not in FILLS:
        return {}
    return {"cleaner": module_hash(*CLEANER) + source_hash([reference(Ensemble)])}


def histories(data: str, eta: float, seed: int, raw: Path, wanted: Sequence[str]) -> Iterator[tuple[str, Task, Record]]:
    """Yield the task with each of the `wanted` histories, and how much of it was cleaned, and how rightly."""
    if not wanted:
        return
    task = _task(data, eta, seed, raw)
    if "dirty" in wanted:
        yield "dirty", task, {}
    fills = [fill for fill in FILLS if fill in wanted]
    if fills:
        length = job(data, "ensemble", eta, seed).protocol.length
        cleaner = Decontaminator(Ensemble(length=length, seed=seed)).fit(task.train)
        facts = _facts(cleaner, data, eta, seed, raw)
        for fill in fills:
            cleaner.fill = fill
            yield fill, replace(task, train=cleaner.transform(task.train)), facts


def _facts(cleaner: Decontaminator, data: str, eta: float, seed: int, raw: Path) -> Record:
    """Return the numbers of observations, of those that are anomalous, that are changed, and both, and the share of
    cells that are changed. Labels are used here only."""
    series = cleaner.audit_.series
    labelled, anomalous, length = audit_benchmark.history(data, eta, seed, raw)
    assert digest(as_series(labelled, length)) == cleaner.audit_.data["digest"]
    cells = cells_of(series, audited(cleaner.audit_, cleaner.level))
    pieces = cut(series, length).observations
    touched = np.array(
        [cells[place.series][max(place.start, 0) : place.start + length].any() for place in pieces.places]
    )
    return {
        "observations": len(touched),
        "anomalous": int(anomalous.sum()),
        "changed": int(touched.sum()),
        "hits": int((touched & anomalous).sum()),
        "changed_cells": round(float(np.concatenate([own.ravel() for own in cells]).mean()), 4),
    }


def measure(history: str, example: Job, detectors: Sequence[str], raw: Path, task: Task, facts: Record) -> None:
    """Train the detectors without a current record on the history of the task, and keep their records."""
    data, eta, seed = example.dataset, example.split["eta"], example.seed
    trained_on = digest(as_series(task.train, example.protocol.length))
    for detector, before in stale(data, history, eta, detectors, seed, raw).items():
        asked = job(data, detector, eta, seed)
        known = identity(asked, raw) | {"trained_on": trained_on}
        if known.items() <= before.items():  # only the code that cleans has changed, without effect
            result = {name: before[name] for name in ("ap", "cpu_seconds")}
        else:
            begun = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ap = _half(asked, task) if detector in EXPLAINING else execute(asked, task)[0]["ap"]
            result = {"ap": round(float(ap), 4), "cpu_seconds": round(time.process_time() - begun, 1)}
        keep({"history": history, **known, **_cleaner(history), **result, **facts, **circumstances()})


def _half(asked: Job, task: Task) -> float:
    detector = HalfOfTheComponents(config=asked.config()).fit(task.train)
    found = detector.detect(task.test).observations
    check_order(found, task.answers)
    return average_precision(task.answers.labels, found["score"].to_numpy(float))


def _task(data: str, eta: float, seed: int, raw: Path) -> Task:
    task = job(data, "ensemble", eta, seed).task(raw)
    assert isinstance(task, Task)
    return task


def keep(record: Record) -> None:
    """Add a record in place of the one with the same key."""
    data = record["dataset"]
    others = [other for other in load() if other["dataset"] == data and _key(other) != _key(record)]
    lines = "".join(json.dumps(each) + "\n" for each in [*others, record])
    write_file(RESULTS / f"{data}.jsonl", lines.encode())
    print(_key(record), record["ap"], record["cpu_seconds"], flush=True)


def load() -> list[Record]:
    """Return all records, which have a file per data set."""
    return [json.loads(line) for file in sorted(RESULTS.glob("*.jsonl")) for line in file.read_text().splitlines()]


def _key(record: Record) -> Key:
    return record["dataset"], record["history"], record["split"]["eta"], record["label"], record["seed"]


@dataclass(frozen=True, eq=False)
class Line:
    """The AP (seed, history) of a detector."""

    data: str
    eta: float
    detector: str
    ap: Floats

    @property
    def lost(self) -> Floats:
        """What the dirty history costs, by seed."""
        return self.ap[:, HISTORIES.index("clean")] - self.ap[:, 0]

    def gained(self, fill: Fill) -> Floats:
        """What cleaning changes, by seed."""
        return self.ap[:, HISTORIES.index(fill)] - self.ap[:, 0]

    @property
    def cells(self) -> list[str]:
        """Its line of the table."""
        changes = [self.lost, *(self.gained(fill) for fill in FILLS)]
        means = [f"{value:.3f}" for value in self.ap.mean(axis=0)]
        return [f"{self.eta:g}", self.detector, *means, *map(_interval, changes)]


def compared(records: Sequence[Record], data: Sequence[str]) -> tuple[list[int], list[Line]]:
    """Return the seeds for which every detector has a record of every history of the data sets, and its AP."""
    ap = {_key(record): record["ap"] for record in records}

    def keys(seed: int, name: str, eta: float, detector: str) -> list[Key]:
        return [(name, history, eta * (history != "clean"), detector, seed) for history in HISTORIES]

    cases = list(product(data, ETAS, ALL))
    seeds = sorted({seed for *_, seed in ap})
    seeds = [seed for seed in seeds if all(key in ap for case in cases for key in keys(seed, *case))]
    return seeds, [Line(*case, np.array([[ap[key] for key in keys(seed, *case)] for seed in seeds])) for case in cases]


def render(records: Sequence[Record]) -> str:
    """Return the tables in Markdown, of the data sets that have a seed with all records."""
    shown = [data for data in DATA if compared(records, [data])[0]]
    parts, summary, changed = [f"# Cleaned training data\n\n{ABOUT}"], [], []
    for data in shown:
        seeds, lines = compared(records, [data])
        title = f"## {data}, seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
        parts.append(f"{title}\n\n{markdown(HEAD, [line.cells for line in lines])}")
        changed += [_changed(data, eta, records, seeds) for eta in ETAS]
        summary += [_summary(data, fill, lines) for fill in FILLS]
    seeds, lines = compared(records, shown)
    summary += [_summary("all", fill, lines) for fill in FILLS if seeds]
    parts.append(f"## In short\n\n{SUMMARY}\n\n{markdown(SUMMARY_HEAD, summary)}")
    parts.append(f"## What is changed\n\n{CHANGED}\n\n{markdown(CHANGED_HEAD, changed)}")
    return "\n\n".join(parts) + "\n"


def _summary(data: str, fill: Fill, lines: Sequence[Line]) -> list[str]:
    lines = [line for line in lines if line.detector not in EXPLAINING]
    losing = [line for line in lines if line.lost.mean() > LOST]
    others = [line for line in lines if line.lost.mean() <= LOST]
    back = "undefined"
    if losing:
        gained = np.sum([line.gained(fill) for line in losing], axis=0)
        lost = np.sum([line.lost for line in losing], axis=0)
        shares = gained / lost
        back = f"{gained.sum() / lost.sum():.0%}"
        back += f" ({shares.min():.0%} to {shares.max():.0%})" if len(shares) > 1 else ""
    changes = [
        _interval(np.mean([line.gained(fill) for line in some], axis=0)) if some else "-" for some in (lines, others)
    ]
    return [data, fill, changes[0], f"{len(losing)} of {len(lines)}", back, changes[1]]


def _changed(data: str, eta: float, records: Sequence[Record], seeds: Sequence[int]) -> list[str]:
    by_seed = {record["seed"]: record for record in records if _key(record)[:3] == (data, FILLS[0], eta)}
    own = [by_seed[seed] for seed in seeds]
    observations, anomalous, changed, hits = (
        sum(record[name] for record in own) for name in ("observations", "anomalous", "changed", "hits")
    )
    shares = [anomalous / observations, changed / observations, hits / changed if changed else np.nan, hits / anomalous]
    shares.append(float(np.mean([record["changed_cells"] for record in own])))
    return [data, f"{eta:g}", *("-" if np.isnan(share) else f"{share:.3f}" for share in shares)]


def _interval(values: Floats) -> str:
    """Return the mean and the half width of its interval."""
    if len(values) < 2:
        return f"{values.mean():+.3f}"
    width = student.ppf((1 + CONFIDENCE) / 2, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return f"{values.mean():+.3f} ± {width:.3f}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Train detectors on data that the Decontaminator has cleaned.")
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--eta", nargs="+", type=float, default=list(ETAS))
    parser.add_argument("--detectors", nargs="+", choices=ALL, default=list(ALL))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--table", type=Path, metavar="FILE", help="only write the records as a table to this file")
    options = parser.parse_args(arguments)
    if options.table is None:
        raw = Path(os.environ.get("TSADC_DATA") or ".")
        for seed, data, eta in product(options.seeds, options.data, options.eta):
            run(data, eta, seed, options.detectors, raw)
    write_file(options.table or PAGE, render(load()).encode())


if __name__ == "__main__":
    main()
