"""Train detectors on data that `tsadc.Decontaminator` has cleaned: how much of what dirty data costs comes back?

    python benchmarks/cleaning.py                       # all jobs; records that are there are kept
    python benchmarks/cleaning.py --data plant --eta 0.2
    python benchmarks/cleaning.py --table FILE          # write the table of the records

Each detector is trained four times and scores the same test part:

    dirty       the history, a share eta of which is anomalous
    expected    the same, what the Decontaminator suspects replaced by what was to be expected
    drop        the same, without the rows that it suspects (without the observations, if they are separate)
    clean       the history with eta 0

The Decontaminator has its default settings: the ensemble, level 0.5, 5 folds. No label chose them. Networks have the
preset `tiny` and their own scoring, and train for 5 epochs on at most 200 observations. The table has the average
precision (AP), and the share of the lost AP that cleaning brings back: (cleaned - dirty) / (clean - dirty), over all
detectors that lose more than 0.01.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tsadc.atomic import write_file
from tsadc.bench.execute import execute
from tsadc.bench.job import Job
from tsadc.data.task import Data, Task
from tsadc.detectors.cleaning import Decontaminator, Fill
from tsadc.detectors.ensemble.detector import Ensemble

DATA = ("plant", "sleep", "ludb")
ETAS = (0.1, 0.2, 0.3)
DETECTORS = ("isolation-forest", "pca", "lstm-ae", "s4-ae", "usad", "ensemble")
NETWORKS = ("lstm-ae", "s4-ae", "usad")
FILLS: tuple[Fill, ...] = ("expected", "drop")
LOST = 0.01  # of AP: a smaller loss is noise
RESULTS = Path(__file__).parent / "results" / "cleaning.jsonl"
Key = tuple[str, str, float, str, int]


def job(data: str, detector: str, eta: float, seed: int) -> Job:
    if detector not in NETWORKS:
        return Job(data, detector, seed, split={"eta": eta})
    settings = {"scoring": "own", "training": {"epochs": 5}}
    return Job(data, detector, seed, preset="tiny", overrides=settings, split={"eta": eta}, observations=200)


def histories(data: str, eta: float, seed: int, raw: Path, wanted: Sequence[str]) -> Iterator[tuple[str, Task]]:
    """Yield the task with each of the `wanted` histories."""
    task = _task(data, eta, seed, raw)
    if "dirty" in wanted:
        yield "dirty", task
    fills = [fill for fill in FILLS if fill in wanted]
    if fills:
        length = job(data, "ensemble", eta, seed).protocol.length
        cleaner = Decontaminator(Ensemble(length=length, seed=seed)).fit(task.train)
        for fill in fills:
            cleaner.fill = fill
            yield fill, replace(task, train=cleaner.transform(task.train))


def _task(data: str, eta: float, seed: int, raw: Path) -> Task:
    task = job(data, "ensemble", eta, seed).task(raw)
    assert isinstance(task, Task)
    return task


def measured(task: Task, asked: Job) -> float:
    """Return the AP of a detector that is trained on the history of the task."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        record, _ = execute(replace(asked, observations=_limit(asked, task.train)), task)
    return round(float(record["ap"]), 4)


def _limit(asked: Job, train: Data) -> int | None:
    """Separate observations need no limit if there are few."""
    few = isinstance(train, np.ndarray) and len(train) <= (asked.observations or 0)
    return None if few else asked.observations


def run(data: str, eta: float, seed: int, detectors: Sequence[str], raw: Path) -> None:
    known = {_key(record) for record in load()}

    def missing(history: str, share: float) -> list[str]:
        return [detector for detector in detectors if (data, history, share, detector, seed) not in known]

    wanted = [history for history in ("dirty", *FILLS) if missing(history, eta)]
    for history, task in histories(data, eta, seed, raw, wanted):
        for detector in missing(history, eta):
            keep(data, history, eta, detector, seed, measured(task, job(data, detector, eta, seed)))
    if missing("clean", 0.0):
        task = _task(data, 0.0, seed, raw)
        for detector in missing("clean", 0.0):
            keep(data, "clean", 0.0, detector, seed, measured(task, job(data, detector, 0.0, seed)))


def keep(data: str, history: str, eta: float, detector: str, seed: int, ap: float) -> None:
    record = {"data": data, "history": history, "eta": eta, "detector": detector, "seed": seed, "ap": ap}
    write_file(RESULTS, "".join(json.dumps(one) + "\n" for one in [*load(), record]).encode())
    print(json.dumps(record), flush=True)


def load() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def _key(record: dict[str, Any]) -> Key:
    return record["data"], record["history"], record["eta"], record["detector"], record["seed"]


def table(records: Sequence[dict[str, Any]]) -> str:
    """Return AP by data, eta and detector, and the shares that come back."""
    ap = {_key(record): record["ap"] for record in records}
    seeds = sorted({record["seed"] for record in records})
    lines = ["# Cleaned training data", "", _about(seeds), ""]
    back: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for data in DATA:
        rows = []
        for eta in ETAS:
            for detector in DETECTORS:
                mean = {
                    history: _mean(
                        [ap.get((data, history, eta if history != "clean" else 0.0, detector, s)) for s in seeds]
                    )
                    for history in ("dirty", *FILLS, "clean")
                }
                if mean["dirty"] is None or all(mean[fill] is None for fill in FILLS):
                    continue
                cells = ["" if value is None else f"{value:.3f}" for value in mean.values()]
                rows.append(f"| {eta} | {detector} | {' | '.join(cells)} |")
                if mean["clean"] is not None:
                    for fill in FILLS:
                        if mean[fill] is not None:
                            pair = mean[fill] - mean["dirty"], mean["clean"] - mean["dirty"]
                            back.setdefault((data, fill), []).append(pair)
        if rows:
            lines += [
                f"| {data}: eta | detector | dirty | expected | drop | clean |",
                "|---|---|---|---|---|---|",
                *rows,
                "",
            ]
    lines += [
        "| | fill | mean change of AP | detectors that lost more than 0.01 | share of their loss that comes back |"
    ]
    lines += ["|---|---|---|---|---|"]
    for (data, way), found in back.items():
        lost = [(gained, loss) for gained, loss in found if loss > LOST]
        share = f"{sum(g for g, _ in lost) / sum(loss for _, loss in lost):.0%}" if lost else "nothing lost"
        mean_change = np.mean([gained for gained, _ in found])
        lines.append(f"| {data} | {way} | {mean_change:+.3f} | {len(lost)} of {len(found)} | {share} |")
    return "\n".join(lines) + "\n"


def _mean(values: Sequence[float | None]) -> Any:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _about(seeds: Sequence[int]) -> str:
    return (
        "AP of detectors trained on a dirty history, on the same cleaned by `tsadc.Decontaminator` (`expected`, "
        f"`drop`), and on a clean one. `python benchmarks/cleaning.py`, seeds {', '.join(map(str, seeds))}; its "
        "docstring explains the histories. Networks are tiny: 5 epochs on at most 200 observations."
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Train detectors on data that the Decontaminator has cleaned.")
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA[:2]))
    parser.add_argument("--eta", nargs="+", type=float, default=list(ETAS))
    parser.add_argument("--detectors", nargs="+", choices=DETECTORS, default=list(DETECTORS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--raw", type=Path, default=Path(os.environ.get("TSADC_DATA") or "."), help="the data sets")
    parser.add_argument("--table", type=Path, metavar="FILE", help="only write the records as a table to this file")
    options = parser.parse_args(arguments)
    if options.table:
        write_file(options.table, table(load()).encode())
        return
    for seed in options.seeds:
        for data in options.data:
            for eta in options.eta:
                run(data, eta, seed, options.detectors, options.raw)


if __name__ == "__main__":
    main()
