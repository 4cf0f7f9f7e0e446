"""Read the tables that `tsadc detect --out` wrote, here or on a cluster: intervals with what their strongest
observation scores, and the scores around them.

Folders of earlier versions have no names of intervals, so they are made from where the intervals begin."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pandas as pd

from tsadc.config import parse_json
from tsadc.detectors.feedback import COLUMN, Judged
from tsadc.detectors.result import MISSING, id_of
from tsadc.errors import DataError, listed, notice
from tsadc.series import Clock, Floats
from tsadc.show.result_files import MANIFEST, TABLES, bare
from tsadc.show.result_update import Ticks, is_results, ticks
from tsadc.show.words import Times, count

OFFSET = re.compile(r"[+-]\d\d:\d\d$")  # of a time in a time zone
UNITS = (60 * 10**9, 10**9, 10**6, 1)  # nanoseconds
SUFFIX = "_score"  # of the columns of views
AROUND = 1.0  # how much of its duration is shown before and after an interval
FEWEST_ROWS = 40  # shown before and after a short one
EMPTY = {  # columns of tables without rows: a cluster writes no file for them
    "intervals": ["entity", "start", "end"],
    "timeline": ["entity", "time", "score"],
    "observations": ["entity", "start", "end", "score", "threshold"],
}


@dataclass(frozen=True, eq=False)
class Stored:
    """An interval of a folder of results.

    Attributes
    ----------
    judged : Judged
    model : str
        The model that found it, by its identity.
    start, end : str
        Times as they are written in the tables.
    severity : float
    excess : float
        How far its strongest observation lies above its threshold.
    kind, reason : str
    variables : dict of str to float
        Shares of the blame.
    """

    judged: Judged
    model: str
    start: str
    end: str
    severity: float
    excess: float
    kind: str
    reason: str
    variables: Mapping[str, float]

    @property
    def when(self) -> str:
        """The time of the interval; with a time zone as it is written in the tables."""
        judged = self.judged
        if judged.dated and not OFFSET.search(self.start):
            # As fine as the times are.
            unit = next(unit for unit in UNITS if judged.start % unit == 0 == judged.end % unit)
            return Times(Clock(judged.start, unit, dated=True)).span(0, (judged.end - judged.start) // unit)
        return f"{self.start} to {self.end}" if judged.dated else f"rows {self.start} to {self.end}"

    @property
    def duration(self) -> str:
        """How long it lasts."""
        lasting = self.judged.end - self.judged.start
        return Times(Clock(0, 1, dated=True)).duration(lasting) if self.judged.dated else count(lasting, "row", "rows")


@dataclass(frozen=True, eq=False)
class StoredResults:
    """The intervals of a folder of results, and the scores of its rows."""

    folder: Path
    intervals: tuple[Stored, ...]
    timeline: pd.DataFrame  # entity, ticks, score

    def scores_around(self, interval: Stored) -> tuple[Floats, int, int]:
        """Return the scores of the rows around an interval, and where in them it begins and ends."""
        rows = self.timeline[self.timeline["entity"] == interval.judged.entity]
        ticks = rows["ticks"].to_numpy()
        first, last = np.searchsorted(ticks, [interval.judged.start, interval.judged.end]).tolist()
        around = max(FEWEST_ROWS, int(AROUND * (last - first)))
        begin, end = max(first - around, 0), min(last + around, len(rows))
        return rows["score"].to_numpy()[begin:end], first - begin, last - begin


def read_results(folder: Path) -> StoredResults:
    """Return the results in a folder."""
    if _of_cluster(folder):
        intervals, timeline, observations = (_by_entity(folder / name) for name in TABLES)
    elif folder.is_dir() and is_results(folder):
        ending = "parquet" if (folder / f"{TABLES[0]}.parquet").is_file() else "csv"
        intervals, timeline, observations = (_table(folder / f"{name}.{ending}") for name in TABLES)
    else:
        raise DataError(f"{folder} is no folder of results; name one that `tsadc detect --out` wrote.")
    try:
        dated = _dated([*intervals["start"], *timeline["time"].head(1)])
        rows = timeline.assign(
            entity=timeline["entity"].map(_text),
            ticks=_ticks(timeline["time"], dated),
            score=pd.to_numeric(timeline["score"], errors="coerce"),
        )
        scored = observations.assign(
            entity=observations["entity"].map(_text),
            first=_ticks(observations["start"], dated),
            last=_ticks(observations["end"], dated),
            score=pd.to_numeric(observations["score"]),
            threshold=pd.to_numeric(observations["threshold"]),
        )
        starts, ends = (_ticks(intervals[key], dated) for key in ("start", "end"))
        records = intervals.to_dict("records")
        stored = [
            _stored({str(key): value for key, value in row.items()}, int(start), int(end), dated, scored)
            for row, start, end in zip(records, starts, ends, strict=True)
        ]
    except (KeyError, ValueError, TypeError, AttributeError):
        raise DataError(f"The tables in {folder} are damaged or edited; detect again with --force.") from None
    return StoredResults(folder, tuple(stored), rows[["entity", "ticks", "score"]])


def _stored(row: Mapping[str, Any], start: int, end: int, dated: bool, observations: pd.DataFrame) -> Stored:
    entity, evidence = _text(row["entity"]), _text(row["evidence"])
    shares = {str(name): float(share) for name, share in json.loads(row["variables"]).items()}
    name = id_of(entity, start, evidence, shares)
    inside = (observations["entity"] == entity) & (observations["first"] < end) & (observations["last"] > start)
    near = observations[inside]
    score, excess, views = 0.0, 0.0, dict[str, float]()
    others: list[dict[str, float]] = []
    scored = evidence != MISSING and len(near) > 0
    if scored:
        rows = [{str(key): value for key, value in observation.items()} for observation in near.to_dict("records")]
        best, *rest = sorted(rows, key=lambda row: row["threshold"] - row["score"])
        views = _views(best)
        score, excess = float(best["score"]) - views.pop(COLUMN, 0.0), float(best["score"] - best["threshold"])
        for observation in rest:
            added = _views(observation)
            if observation["score"] - added.pop(COLUMN, 0.0) > observation["threshold"]:
                others.append(added)
    return Stored(
        Judged(name, entity, start, end, dated, score, views, scored, others),
        _text(row.get("model", "")),
        str(row["start"]),
        str(row["end"]),
        float(row["severity"]),
        excess,
        _text(row["kind"]),
        _text(row["reason"]),
        shares,
    )


def _views(observation: Mapping[str, Any]) -> dict[str, float]:
    """Return what each view adds to the score of an observation."""
    return {key.removesuffix(SUFFIX): float(observation[key]) for key in observation if key.endswith(SUFFIX)}


def _of_cluster(folder: Path) -> bool:
    """Return whether a cluster wrote the results; raise if it has not finished, and notice what it left out."""
    try:
        manifest = parse_json((folder / MANIFEST).read_bytes())
    except (OSError, ValueError):
        return False
    if not isinstance(manifest, dict) or not {"job", "complete", "entities"} <= set(manifest):
        return False
    left_out, judged = manifest.get("left_out"), manifest["entities"]
    if not manifest["complete"] and not (left_out and judged):
        raise DataError(f"{folder} holds the results of an unfinished job; run its `tsadc detect` again to finish it.")
    if left_out:
        number = count(len(left_out), "entity", "entities")
        notice(f"{folder} lacks {number} that could not be judged: {listed(sorted(left_out))}.")
    return True


def _by_entity(table: Path) -> pd.DataFrame:
    """Return a table that a cluster wrote by date and entity; the rows of an entity are in order of time."""
    parts = [
        _table(file).assign(entity=unquote(file.parent.name.removeprefix("entity=")))
        for file in sorted(table.glob("date=*/entity=*/part.parquet"))
    ]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=EMPTY[table.name])


def _table(file: Path) -> pd.DataFrame:
    try:
        if file.suffix == ".parquet":
            return pd.read_parquet(file, partitioning=None)
        return pd.read_csv(file, dtype=str, keep_default_na=False)
    except (OSError, ValueError, ImportError):
        raise DataError(f"{file} cannot be read as a table of results; detect again with --force.") from None


def _text(value: Any) -> str:
    return bare(str(value))


def _dated(times: list[Any]) -> bool:
    """Return whether the tables have dates; otherwise rows are numbered."""
    return any(isinstance(time, pd.Timestamp) or (isinstance(time, str) and not time.isdigit()) for time in times)


def _ticks(times: pd.Series, dated: bool) -> Ticks:
    return ticks(times) if dated else pd.to_numeric(times).to_numpy(dtype=np.int64)
