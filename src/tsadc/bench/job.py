"""The cells of one training become records of plain data and the arrays of their scores. What fails becomes a record
with its error, never a number."""

from __future__ import annotations

import copy
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

from tsadc.bench import fitting, points
from tsadc.bench.cell import Cell, Record, digest, identity
from tsadc.bench.fitting import Fitted, epoch_seconds, network_size
from tsadc.bench.machine import circumstances, forget_peak, peak
from tsadc.bench.measure import Arrays, arrays, check_order, measure
from tsadc.data.task import Task


def run(cells: Sequence[Cell], raw: Path, folder: Path | None = None) -> Iterator[tuple[Cell, Record, Arrays]]:
    """The records of cells that share their training, one after another; a network is trained once. In `folder` its
    training survives a kill."""
    rows = list(dict.fromkeys(cell.row for cell in cells))
    known = identity(cells[0], raw)
    origin = [known[key] for key in ("source", "draws", "tsadc")]
    name = digest([cells[0].training, *origin])
    with tempfile.TemporaryDirectory() if folder is None else nullcontext(folder) as place:
        file = Path(place) / f"{name}.safetensors"
        for row in rows:
            yield from _row([cell for cell in cells if cell.row == row], raw, file, origin)
        file.unlink(missing_ok=True)


def _row(
    cells: Sequence[Cell], raw: Path, file: Path, origin: Sequence[str | int]
) -> Iterator[tuple[Cell, Record, Arrays]]:
    """Cells that share all that is fitted."""
    fitted: Fitted | None = None
    failure: Exception | None = None
    forget_peak()
    for cell in cells:
        record = beginning(cell, raw)
        found: Arrays = {}
        with warnings.catch_warnings(record=True) as notices:
            warnings.simplefilter("always")
            try:
                if failure is not None:
                    raise failure
                task = cell.task(raw)
                if fitted is None:
                    try:
                        fitted = fitting.fit(cell, task, file, origin)
                    except Exception as error:
                        failure = error  # of all cells of this training, unlike those of their own data
                        raise
                measured, found = _judge(cell, fitted, task)
                record |= measured
            except Exception as error:
                record["error"] = _describe(error)
        if notices:
            record["notices"] = sorted({str(notice.message) for notice in notices})
        yield cell, record, found


def beginning(cell: Cell, raw: Path) -> Record:
    """What a record says before anything is run."""
    return identity(cell, raw) | circumstances() | ({"label": cell.label} if cell.label else {})


def _judge(cell: Cell, fitted: Fitted, task: Task) -> tuple[Record, Arrays]:
    """Score without labels, then measure with them."""
    # Another protocol may score with the same training, and must not find it adapted.
    detector = fitted.detector if task.history is None else copy.deepcopy(fitted.detector).adapt(task.history)
    started, cpu = time.perf_counter(), time.process_time()
    result = detector.detect(task.test)
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    table = result.observations
    check_order(table, task.answers)
    record = {
        "fit_seconds": round(fitted.seconds, 2),
        "fit_cpu_seconds": round(fitted.cpu, 2),
        "shared_seconds": round(fitted.network_seconds, 2),
        "epoch_seconds": epoch_seconds(detector),
        "train": detector.provenance_["data"],
        **({} if fitted.cleaning is None else {"cleaned": fitted.cleaning}),
        "score_seconds": round(seconds / len(table), 5),
        "score_cpu_seconds": round(cpu / len(table), 5),
        "peak_bytes": peak(),
        **network_size(detector, task.test),
        "threshold": float(result.threshold),
        **measure(table, task.answers, result.threshold),
    }
    kept = arrays(table, task.answers, result.threshold)
    if cell.by_row:
        by_row = points.rows(result, task.answers)
        record["points"] = points.measure(by_row) if by_row else None
        kept |= by_row
    return record, kept


def _describe(error: Exception) -> dict[str, str]:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(frame.filename).name}:{frame.lineno}"
    return {"type": type(error).__name__, "message": str(error), "where": where}
