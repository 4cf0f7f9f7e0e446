"""Detection night after night: a folder of results that grows, and answers for scripts."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from tsadc.atomic import locked_folder, new_folder, replaced_folder
from tsadc.detectors import feedback
from tsadc.detectors.base import Detector
from tsadc.detectors.drift import Drift
from tsadc.detectors.events import Events
from tsadc.detectors.missing import LONGER, Missing, missing_runs
from tsadc.detectors.result import Result, assemble, with_missing
from tsadc.detectors.store import SETTINGS, read_settings
from tsadc.detectors.threshold import Threshold, observations_per_week
from tsadc.errors import DataError, OutputError, TooShortError, TsadcNotice, listed
from tsadc.series import Booleans, Observations, Series
from tsadc.show.html import is_page
from tsadc.show.result_files import TABLES
from tsadc.show.result_update import PIECES, is_results, merge_tables
from tsadc.variables import match
from tsadc.windows import section

Existing = Literal["refuse", "replace", "update"]  # what becomes of results that are there already


@contextlib.contextmanager
def results_folder(out: Path, series: Sequence[Series], existing: Existing, merge: int = 0) -> Iterator[Path]:
    """Yield a temporary folder for new tables, which become the folder `out`, or part of it, when the block ends.

    Of results that are updated, events that are closer than `merge` rows become one."""
    if existing == "refuse":
        with new_folder(out) as folder:
            yield folder
        return
    with locked_folder(out):
        _check(out, existing)
        if existing == "replace":
            with replaced_folder(out) as folder:
                yield folder
        else:
            with _updated_folder(out, series, merge) as folder:
                yield folder


@contextlib.contextmanager
def _updated_folder(out: Path, series: Sequence[Series], merge: int) -> Iterator[Path]:
    undated = next((item.entity for item in series if not item.clock.dated), None)
    if undated is not None:
        raise DataError(
            f"--update orders results by time, but {undated!r} has no dates; name its column with --time, or write "
            "each result to a folder of its own."
        )
    with replaced_folder(out) as merged:
        new = merged / ".new"
        new.mkdir()
        yield new
        within = merge * max((item.clock.interval for item in series), default=0)
        merge_tables(out, new, merged, parquet=out.suffix == ".parquet", within=within)
        _carry_over(new, merged)  # first, as a new report replaces an old one
        shutil.rmtree(new)
        if out.exists():
            _carry_over(out, merged)


def _check(out: Path, existing: Existing) -> None:
    """Raise if `out` is there but is something other than results of the same format."""
    if not out.exists():
        return
    if not is_results(out):
        does = "--force replaces" if existing == "replace" else "--update adds to"
        raise OutputError(f"{out} exists and is no folder of results, but {does} only those; choose another name.")
    if existing == "replace":
        other = sorted(file.name for file in out.iterdir() if not _is_ours(file))
        if other:
            raise OutputError(f"{out} also holds {listed(other)}, which --force would remove; move it elsewhere first.")
    ending = "parquet" if out.suffix == ".parquet" else "csv"
    if existing == "update" and not (out / f"{TABLES[0]}.{ending}").is_file():
        raise OutputError(f"{out} holds tables of another format than .{ending}; choose another folder.")


def _is_ours(file: Path) -> bool:
    tables = {f"{table}.{ending}" for table in (*TABLES, PIECES) for ending in ("csv", "parquet")}
    return file.is_file() and (file.name in tables or is_page(file))


def _carry_over(folder: Path, merged: Path) -> None:
    """Give `merged` the files that only `folder` has, such as reports, also in subfolders; linked, not copied."""
    for file in folder.iterdir():
        place = merged / file.name
        if file.is_dir() and not file.is_symlink():
            place.mkdir(exist_ok=True)
            _carry_over(file, place)
        elif not place.exists():
            try:
                os.link(file, place, follow_symlinks=False)
            except (OSError, NotImplementedError):  # some file systems have no links
                shutil.copy2(file, place, follow_symlinks=False)


def silent_ends(detector: Detector, series: Sequence[Series]) -> Iterator[tuple[Result, int]]:
    """Yield results with one sensor, or several, that is silent at an end of a series, for too short a time to be an
    event, and how many nanoseconds an event lasts at least. The next file may have the rest of it."""
    usual, length = detector.usual_, detector.settings.length
    if usual is None or not usual.knows_gaps:
        return
    per_week = observations_per_week(detector.clock_, length)
    threshold = Threshold(detector.threshold_, detector.middle_, detector.normal_, per_week)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TsadcNotice)  # the detection itself issues them
        matched = match(series, detector.variables_)
    every = Observations(matched, (), length)
    for number, own in enumerate(matched):
        if own.entity not in usual.entities and len(detector.scaler_.entities) > 1:
            continue
        learnt = usual.of(own.entity)
        shortest = max(length, detector.settings.event.minimum)
        for alone, rows in ((True, shortest), (False, max(shortest, LONGER * learnt.gap + 1))):
            for first, stop in dict.fromkeys([(0, min(rows, len(own))), (max(0, len(own) - rows), len(own))]):
                piece = section(every, number, [], first, stop)
                for run in _at_an_end(piece.series[0], learnt.present, alone, (first == 0, stop == len(own))):
                    if run.stop - run.start < rows:
                        empty = assemble(piece, [], threshold, Events(1, 1), np.zeros(0), detector.view_names)
                        yield with_missing(empty, [run], threshold), rows * own.clock.interval


def _at_an_end(series: Series, present: Booleans, alone: bool, ends: tuple[bool, bool]) -> list[Missing]:
    """Return where some variables alone, or all together, are missing at the start or the end of a series."""
    filled = np.asarray(np.isfinite(series.values).any(axis=1))
    measured = np.flatnonzero(filled) if alone else np.arange(len(series))
    if not len(measured):
        return []
    runs = [run for run in missing_runs(series, present, 0, 1) if bool(filled[run.start]) == alone]
    at_start, at_end = ends
    return [run for run in runs if (at_start and run.start == measured[0]) or (at_end and run.stop == measured[-1] + 1)]


@dataclass(frozen=True)
class Detected:
    """What a detection found: the summary for the terminal, intervals, drift, and whether there was enough data."""

    summary: str
    intervals: pd.DataFrame
    drift: tuple[Drift, ...] = ()
    judged: bool = True


def nothing_to_judge(error: TooShortError) -> Detected:
    """Return the answer to data with too few rows, such as a day that has just begun: there is nothing to write."""
    return Detected(f"Nothing to judge yet, and nothing was written: {error}", pd.DataFrame(), judged=False)


def identity(model: Path) -> str:
    """Return the name by which results refer to a model: its detector, and a digest of all that it has learnt; if it
    has verdicts, `+` and a digest of them."""
    content = (model / SETTINGS).read_bytes()  # with the digest of the arrays
    name = f"{read_settings(model)['detector']}-{hashlib.sha256(content).hexdigest()[:8]}"
    verdicts = model / feedback.FILE
    return f"{name}+{hashlib.sha256(verdicts.read_bytes()).hexdigest()[:4]}" if verdicts.is_file() else name


def as_json(detected: Detected, threshold: float, out: Path | None, report: Path | None, model: str = "") -> str:
    """Return the answer as one JSON object, with times in ISO 8601 and null for what is not known."""
    rows = [{str(name): _plain(value) for name, value in row.items()} for row in detected.intervals.to_dict("records")]
    written = {"out": out, "report": report} if detected.judged else {"out": None, "report": None}
    answer = {
        "summary": detected.summary,
        "judged": detected.judged,
        "found": len(rows),
        "threshold": threshold,
        "model": model,
        **{name: None if path is None else str(path) for name, path in written.items()},
        "intervals": rows,
        "drift": [_plain(asdict(drift)) for drift in detected.drift],
    }
    return json.dumps(answer, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, pd.Timestamp | pd.Timedelta):
        return value.isoformat()
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
