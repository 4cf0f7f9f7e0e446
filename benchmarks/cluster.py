"""Measure what `--engine ray` costs per row, per entity and per task, and extrapolate to 10,000 machines and a year.

    make bench-cluster   # a few minutes of one core; writes benchmarks/results/cluster.json and docs/tables/cluster.md

The tasks of a worker are called in this process and timed in processor seconds of one thread, which other work on the
machine hardly changes: for each number of rows one warm-up and three runs, of which the table has the median. The
driver is timed with Ray on this machine and tasks that return at once: processor seconds of its process per task.
"""

from __future__ import annotations

import json
import operator
import resource
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scale_entities import YEAR, machine

from tsadc import Ensemble
from tsadc.atomic import write_file
from tsadc.cli.cluster_detect import DetectJob, judge
from tsadc.cli.cluster_fit import BaselineJob, FitJob, group_baselines, summarise_group
from tsadc.cluster.engine import connect
from tsadc.cluster.models import loaded_model, model_files
from tsadc.cluster.partitions import FileGroup, read_group
from tsadc.cluster.storage import local_file
from tsadc.errors import TsadcNotice
from tsadc.io.reading import Reading
from tsadc.show.markdown import table

HERE = Path(__file__).parent
RECORDS, PAGE = HERE / "results" / "cluster.json", HERE.parent / "docs" / "tables" / "cluster.md"
VARIABLES, LENGTH = 40, 600
DAYS = (7, 21)
MACHINES = 10_000
PRICE = 0.0408  # USD per core-hour: 0.0816 USD for 2 cores (AWS m7g.large, Linux, on demand, us-east-1, June 2026)
TASKS = 2_000
RUNS = 3
STEPS = ("read", "detect", "summarise", "baselines")
PUT = 0.005 / 1000  # USD per file that is written (AWS S3, us-east-1)


def seconds(action: Callable[[], object]) -> float:
    """Return the median processor seconds of an action, after one run that is not counted."""
    action()
    taken = []
    for _ in range(RUNS):
        start = time.process_time()
        action()
        taken.append(time.process_time() - start)
    return statistics.median(taken)


def written(folder: Path, days: int) -> FileGroup:
    """Write an entity as Parquet and return its group of files."""
    series = machine(1, days * 1440, VARIABLES)
    frame = pd.DataFrame(series.values, columns=list(series.names))
    frame.insert(0, "time", pd.date_range("2026-01-01", periods=len(frame), freq="1min"))
    file = folder / f"{series.entity}-{days}.parquet"
    frame.to_parquet(file)
    return FileGroup((series.entity,), (local_file(file),), Reading(entity_name=series.entity))


def measure() -> dict[str, Any]:
    detector = Ensemble(length=LENGTH).fit({f"machine-{i:05d}": machine(i, 24_000, VARIABLES) for i in range(3)})
    record: dict[str, Any] = {"variables": VARIABLES, "length": LENGTH, "days": {}}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        job = DetectJob("measure", model_files(detector), "model", str(folder / "out"), None, False, "day", False)
        record["model_bytes"] = sum(content.size for content in job.model.values())
        start = time.process_time()
        loaded_model(job.digest, job.model)
        record["load"] = time.process_time() - start
        for days in DAYS:
            group = written(folder, days)
            adapting = BaselineJob(job.digest, job.model, frozenset(group.entities), None, ())
            record["days"][str(days)] = {
                "rows": days * 1440,
                "bytes": group.files[0].size,
                "read": seconds(lambda group=group: read_group(group, folder)),
                "detect": seconds(lambda group=group: judge(job, group)),
                "summarise": seconds(lambda group=group: summarise_group(FitJob(Ensemble(length=LENGTH), None), group)),
                "baselines": seconds(lambda group=group, job=adapting: group_baselines(job, group)),
            }
        record["year"] = of_a_year(job, folder)
        found = list((folder / "out").rglob("*.parquet"))
        record["files_out"], record["bytes_out"] = len(found), sum(file.stat().st_size for file in found)
    with connect(None) as cluster:
        shared = cluster.share(np.zeros(1))
        list(cluster.map(operator.getitem, shared, [0] * 50))
        start = time.process_time()
        done = sum(1 for _ in cluster.map(operator.getitem, shared, [0] * TASKS))
        record["driver"] = (time.process_time() - start) / done
    return record


def of_a_year(job: DetectJob, folder: Path) -> dict[str, float]:
    """Return the processor seconds and the peak memory of judging an entity of a year, once."""
    group = written(folder, 365)
    elsewhere = replace(job, out=str(folder / "year"))
    start = time.process_time()
    judge(elsewhere, group)
    taken = time.process_time() - start
    return {
        "detect": taken,
        "bytes": group.files[0].size,
        "peak": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }


def page(record: dict[str, Any]) -> str:
    """Return the tables: what was measured, and what follows for many machines."""
    short, long = (record["days"][str(days)] for days in DAYS)

    def per_row(step: str) -> float:
        return float((long[step] - short[step]) / (long["rows"] - short["rows"]))

    rows = [
        [
            step,
            *(f"{own[step]:.2f}" for own in (short, long)),
            f"{1e6 * per_row(step):.1f}",
            f"{1 / per_row(step):,.0f}",
        ]
        for step in STEPS
    ]
    heads = ["step", *(f"{days} days, s" for days in DAYS), "us per row", "rows per s and core"]
    measured = table(heads, rows)
    hours = {step: MACHINES * (long[step] + per_row(step) * (YEAR - long["rows"])) / 3600 for step in STEPS}
    fit = hours["summarise"] + hours["baselines"]
    cost = [
        [name, f"{own:,.0f}", f"{60 * own / 256:.0f}", f"{own * PRICE:.2f}"]
        for name, own in (("detect", hours["detect"]), ("fit, both passes", fit))
    ]
    passes = table(["10,000 machines x 1 year", "core-hours", "minutes with 256 cores", "USD"], cost)
    files = {"day": MACHINES * 365 * record["files_out"] / DAYS[-1], "month": MACHINES * 12 * 3}
    puts = table(
        ["results by", "files of a year, at most", "USD for writing them to S3"],
        [[name, f"{number:,.0f}", f"{number * PUT:.2f}"] for name, number in files.items()],
    )
    limit = 1 / record["driver"]
    year = record["year"]
    predicted = hours["detect"] * 3600 / MACHINES
    whole = (
        f"An entity of a year, judged once: {year['detect']:.0f} s ({predicted:.0f} s by extrapolation), "
        f"{year['bytes'] / 1e6:.0f} MB of Parquet, and at most {year['peak'] / 1e9:.1f} GB of memory."
    )
    kept = f"{record['files_out']} files with {record['bytes_out'] / 1e6:.1f} MB"
    return (
        f"K = {record['variables']}, L = {record['length']}, one row a minute; processor seconds of one thread. "
        f"`detect` and `summarise` include `read`.\n\n{measured}\n\n{passes}\n\n{puts}\n\n"
        f"At {PRICE} USD per core-hour. Loading a model of {record['model_bytes'] / 1e6:.0f} MB takes a process "
        f"{record['load']:.1f} s. The driver takes {1e3 * record['driver']:.1f} ms per task, so that it starts at most "
        f"{limit:,.0f} tasks a second. An entity of {DAYS[-1]} days is {long['bytes'] / 1e6:.1f} MB of Parquet, and "
        f"its results are {kept}. {whole}\n"
    )


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TsadcNotice)
        found = measure()
    write_file(RECORDS, (json.dumps(found, indent=1) + "\n").encode())
    write_file(PAGE, page(found).encode())
    print(page(found))
