"""Measure what fitting in parts costs per entity and per row, from 100 to 10,000 simulated entities.

    make bench-scale                            # some minutes of one core; resumes where it was interrupted
    python benchmarks/scale_entities.py         # makes the table from the records only

Each number of entities is fitted in a process of its own: every partition of 250 entities is summarised, the summaries
are merged, the ensemble is fitted to the result, and entities that it was not fitted to are adapted in a second pass:
the first 300 of them, as each takes the same time. Entities are simulated when they are needed, and that is not timed.
They are small (K = 4, five observations of 24 rows, 8 random convolutions per dilation), because the subject is how the
cost grows with their number. What rows and entities of a real size cost (K = 38, L = 600, as in the data set SMD) is
measured with few of them, and the text below the tables multiplies it. Times are processor seconds of one thread.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from tsadc import Ensemble
from tsadc.atomic import write_file
from tsadc.detectors import parts
from tsadc.detectors.summary import Summary, merge
from tsadc.errors import TsadcNotice
from tsadc.series import Clock, Series
from tsadc.show.markdown import table

HERE = Path(__file__).parent
RECORDS, PAGE = HERE / "results" / "scale.json", HERE.parent / "docs" / "tables" / "scale.md"
MINUTE = 60 * 10**9
ENTITIES = (100, 1_000, 10_000)
PARTITION = 250  # entities
VARIABLES, LENGTH, OBSERVATIONS, KERNELS = 4, 24, 5, 8
ROW_VARIABLES, ROW_LENGTH = 38, 600
ROW_COUNTS = (24_000, 96_000, 384_000, 525_600)  # of an entity
SECOND_PASS = 300  # entities
ADAPTED = 3  # entities whose adaptation is timed at K = 38
YEAR = 525_600  # rows of a minute
T = TypeVar("T")


def machine(number: int, rows: int, variables: int) -> Series:
    """Return a simulated entity: waves that share their phase, noise, and a level of its own."""
    rng = np.random.default_rng(number)
    phase = np.cumsum(rng.normal(0.2, 0.05, rows))[:, None]
    waves = np.sin(phase * rng.uniform(0.2, 2.0, variables)) * rng.uniform(0.5, 2.0, variables)
    values = rng.normal(0, 10, variables) + waves + 0.2 * rng.standard_normal((rows, variables))
    names = tuple(f"v{k}" for k in range(variables))
    return Series(values.astype(np.float32), names, Clock(0, MINUTE, dated=True), f"machine-{number:05d}")


class Timer:
    """Adds up the processor seconds of named steps."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def __call__(self, name: str, run: Callable[[], T]) -> T:
        started = time.process_time()
        result = run()
        self.seconds[name] = self.seconds.get(name, 0.0) + time.process_time() - started
        return result


def partitions(count: int) -> Iterator[list[Series]]:
    for first in range(0, count, PARTITION):
        numbers = range(first, min(first + PARTITION, count))
        yield [machine(number, LENGTH * OBSERVATIONS, VARIABLES) for number in numbers]


def fit_in_parts(count: int) -> dict[str, Any]:
    """Fit to `count` entities in partitions and return what each step costs."""
    timer, detector = Timer(), Ensemble(length=LENGTH, config=Ensemble.Config(kernels=KERNELS))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    summary: Summary | None = None
    for own in partitions(count):
        part = timer("summarise", lambda own=own: parts.summarise(detector, own, kept=False))
        known = [part] if summary is None else [summary, part]
        summary = timer("merge", lambda known=known: merge(known))
    assert summary is not None
    timer("fit", lambda: parts.fit_summary(detector, summary))
    rest, found = set(summary.rest[:SECOND_PASS]), []
    for own in partitions(count) if rest else []:
        missing = [series for series in own if series.entity in rest]
        if missing:
            found.append(timer("adapt", lambda missing=missing: parts.baselines(detector, missing)))
        if sum(len(part.learnt["scores"]) for part in found) == len(rest):
            break
    timer("add", lambda: parts.add_baselines(detector, found))
    return {
        "entities": count,
        "rows": summary.rows,
        "fitted_to": len(summary.shared),
        "rest": len(summary.rest),
        "adapted": len(rest),
        "seconds": timer.seconds,
        "peak_mb": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024,
        "summary_mb": sum(piece.values.nbytes for piece in summary.series(summary.entities)) / 2**20,
    }


def cost_of_rows() -> dict[str, Any]:
    """Return what a row costs to summarise, and an entity to adapt to, at K = 38 and L = 600."""
    detector, summarised = Ensemble(length=ROW_LENGTH), {}
    for rows in ROW_COUNTS:
        series, timer = machine(0, rows, ROW_VARIABLES), Timer()
        timer("summarise", lambda series=series: parts.summarise(detector, iter([series]), kept=False))
        summarised[rows] = timer.seconds["summarise"]
    history = [machine(number, 40 * ROW_LENGTH, ROW_VARIABLES) for number in range(4)]
    parts.fit_summary(detector, parts.summarise(detector, history))
    timer, scored = Timer(), machine(0, 40 * ROW_LENGTH, ROW_VARIABLES)
    for number in range(ADAPTED):
        series = history[number]
        timer("adapt", lambda series=series: parts.baselines(detector, series))
    timer("score", lambda: detector.decision_function(scored))
    return {
        "summarise": summarised,
        "adapt": timer.seconds["adapt"] / ADAPTED,
        "score": timer.seconds["score"] / 40,
    }


def measured(part: str) -> dict[str, Any]:
    """Measure one part in a process of its own."""
    command = [sys.executable, __file__, "--part", part]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return found


def rendered(records: dict[str, Any]) -> str:
    """Return the page of the tables."""
    lines = []
    for record in (records[str(count)] for count in ENTITIES if str(count) in records):
        seconds, count = record["seconds"], record["entities"]
        shares = [1000 * seconds.get(step, 0.0) / count for step in ("summarise", "merge")]
        adapted = 1000 * seconds.get("adapt", 0.0) / max(record["adapted"], 1)
        once = sum(seconds.get(step, 0.0) for step in ("summarise", "merge", "fit"))
        total = once + adapted * record["rest"] / 1000
        numbers = [f"{shares[0]:.1f}", f"{shares[1]:.2f}", f"{adapted:.1f}" if record["adapted"] else "-"]
        sizes = [f"{record['peak_mb']:,.0f}", f"{record['summary_mb']:.1f}"]
        lines.append(
            [f"{count:,}", f"{record['fitted_to']:,}", *numbers, f"{seconds['fit']:.0f}", f"{total:,.0f}", *sizes]
        )
    head = [
        "entities",
        "fitted to",
        "summarise, ms",
        "merge, ms",
        "adapt, ms",
        "fit, s",
        "all, s",
        "peak, MB",
        "sample, MB",
    ]
    page = [
        "What fitting in parts costs, by the number of entities: processor time per entity of each step, the fit to\n"
        "the sample as a whole, the total (the second pass extrapolated from 300 entities), the memory beyond that\n"
        "of the imports, and the size of the sample.",
        table(head, lines),
    ]
    if "rows" in records:
        cost = records["rows"]
        rates = {int(rows): 1e6 * seconds / int(rows) for rows, seconds in cost["summarise"].items()}
        year = YEAR * list(rates.values())[-1] / 1e6 + cost["adapt"]
        scoring = YEAR / ROW_LENGTH * cost["score"]
        page += [
            f"What a row costs to summarise, K = {ROW_VARIABLES}, by the rows of an entity.",
            table(["rows", "µs a row"], [[f"{count:,}", f"{rate:.1f}"] for count, rate in rates.items()]),
            f"With K = {ROW_VARIABLES} and L = {ROW_LENGTH}, adapting to an entity costs {cost['adapt']:.2f} s, and "
            f"scoring an observation {1000 * cost['score']:.1f} ms.\nExtrapolated to 10,000 entities with a year of "
            f"minutes each: {10_000 * year / 3600:.0f} core hours for a fit and {10_000 * scoring / 3600:.0f} core\n"
            "hours for scoring the year, without reading the data.",
        ]
    return "\n\n".join(page) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", action="store_true", help="measure what has no record yet")
    parser.add_argument("--entities", type=int, nargs="*", default=ENTITIES, help="numbers of entities to measure")
    parser.add_argument("--out", type=Path, default=RECORDS)
    parser.add_argument("--table", type=Path, default=PAGE)
    parser.add_argument("--part", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.part is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TsadcNotice)
            found = cost_of_rows() if options.part == "rows" else fit_in_parts(int(options.part))
        print(json.dumps(found))
        return 0
    records: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    for part in ["rows", *map(str, options.entities)] if options.run else []:
        if part not in records:
            records[part] = measured(part)
            write_file(options.out, (json.dumps(records, indent=1) + "\n").encode())
    write_file(options.table, rendered(records).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
