"""Merge the tables of a new detection into those of earlier ones, so that a folder of results grows night after night.

    the same observation   those of one entity that overlap: with dates, the same rows always fall into the same one
    the winner             the observation that spans more of its rows; of equals, the new one

The observation at the end of a file is often incomplete. The next file has the rest of it, or all of it if the files
overlap. Rows and intervals within the span of a new winner come from the new tables, all others stay as they were, so
merging the same tables twice changes nothing. Text of earlier CSV files is kept as it is, to the last digit.

An event that goes on in the next file is found in pieces, one per file. The table `pieces` keeps them, and the table
`intervals` is made from it by joining those that one file would have given as one interval. A night that is judged
again so replaces its own pieces only. Sensors that stop reporting have intervals of their own, which may overlap
others; such a piece belongs to the file in which it begins. At the ends of a file, those that are silent for too short
a time to be an event are pieces, too (the table `ends`): on both sides of midnight, they may be one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tsadc.detectors.result import MISSING, id_of
from tsadc.errors import OutputError, notice
from tsadc.series import Clock
from tsadc.show.result_files import ENDS, LEAST, TABLES, bare
from tsadc.wording import duration

Ticks = NDArray[np.int64]  # nanoseconds since 1970, UTC
KEYS = {
    **{table: ["start", "end"] for table in ("intervals", "pieces", "observations")},
    "timeline": ["time"],
}
PIECES = "pieces"  # the intervals before they are joined
WITHIN = "joins_within"  # of a piece: the one before it is part of the same event if it ends less than this earlier


@dataclass(frozen=True)
class Spans:
    """The spans of time of one entity that its new observations decide: sorted, without overlap."""

    starts: Ticks
    ends: Ticks

    def contain(self, times: Ticks) -> NDArray[np.bool_]:
        """Return for each time whether it lies in a span."""
        before = np.searchsorted(self.starts, times, side="right") - 1
        return (before >= 0) & (times < self.ends[np.maximum(before, 0)])

    def inside(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the parts of [start, end) that lie in a span."""
        cut = zip(np.maximum(self.starts, start).tolist(), np.minimum(self.ends, end).tolist(), strict=True)
        return [(first, last) for first, last in cut if first < last]

    def outside(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the parts of [start, end) that lie in no span."""
        edges = [start, *(edge for part in self.inside(start, end) for edge in part), end]
        return [(first, last) for first, last in zip(edges[::2], edges[1::2], strict=True) if first < last]


def is_results(folder: Path) -> bool:
    """Return whether the folder holds the tables of a detection, in either format."""
    return any(all((folder / f"{table}.{ending}").is_file() for table in TABLES) for ending in ("csv", "parquet"))


def merge_tables(old: Path, new: Path, into: Path, *, parquet: bool, within: int = 0) -> None:
    """Write the three tables of `new`, merged with those of `old` if there are any, into the folder `into`.

    New intervals continue earlier ones that end less than `within` nanoseconds before them."""
    ending = "parquet" if parquet else "csv"
    tables: dict[str, tuple[pd.DataFrame, pd.DataFrame]] = {}
    for table in TABLES:
        added = _read(new / f"{table}.{ending}", parquet)
        if table == "intervals":
            ends = new / f"{ENDS}.{ending}"
            if ends.is_file():
                added = _stack(added, _read(ends, parquet), columns=added.columns)
                ends.unlink()
            added = added.assign(**{WITHIN: str(pd.Timedelta(within, "ns"))})
        has_pieces = table == "intervals" and (old / f"{PIECES}.{ending}").is_file()
        stored = old / f"{PIECES if has_pieces else table}.{ending}"
        earlier = _read(stored, parquet) if old.exists() else added.iloc[:0]
        tables[table] = _with_ticks(earlier, KEYS[table], old), _with_ticks(added, KEYS[table], new)
    _say_if_judged_by_another(*tables["observations"], old)
    observations, spans = _merge_observations(*tables["observations"])
    pieces = _merge_pieces(*tables["intervals"], spans, tables["observations"][1], tables["timeline"][1])
    intervals = _named(_joined(pieces, old), old)
    timeline = _merge_timeline(*tables["timeline"], spans)
    merged = {
        "observations": observations,
        "timeline": _marked(timeline, intervals, parquet=parquet),
        "intervals": intervals,
        PIECES: _named(pieces, old),
    }
    for table, frame in merged.items():
        first = f"{KEYS[table][0]}_ticks"
        frame = frame.sort_values([first, "entity"], kind="stable", ignore_index=True)
        frame = frame.drop(columns=[name for name in frame if str(name).endswith("_ticks")])
        file = into / f"{table}.{ending}"
        if parquet:
            frame.to_parquet(file, index=False)
        else:
            frame.to_csv(file, index=False)


def _read(file: Path, parquet: bool) -> pd.DataFrame:
    try:
        return pd.read_parquet(file) if parquet else pd.read_csv(file, dtype=str, keep_default_na=False)
    except (OSError, ValueError):  # of a damaged file, too
        raise OutputError(
            f"{file} cannot be read as a table of results, so nothing can be added; choose another folder."
        ) from None


def _with_ticks(table: pd.DataFrame, keys: list[str], folder: Path) -> pd.DataFrame:
    """Return the table with its times as numbers, in columns of their own."""
    if not {"entity", *keys} <= set(table):
        raise OutputError(f"{folder} does not hold tables of results, so nothing can be added; choose another folder.")
    try:
        return table.assign(**{f"{key}_ticks": ticks(table[key]) for key in keys})
    except ValueError:
        raise OutputError(f"{folder} has results without dates, to which none can be added; choose another.") from None


def ticks(times: pd.Series) -> Ticks:
    """Return times of a table as numbers; raise a ValueError if they are row numbers."""
    if pd.api.types.is_numeric_dtype(times) and len(times):
        raise ValueError
    parsed = pd.to_datetime(times.astype(object), utc=True, format=None if _are_stamps(times) else "ISO8601")
    return pd.DatetimeIndex(parsed).as_unit("ns").asi8


def _are_stamps(times: pd.Series) -> bool:
    return pd.api.types.is_datetime64_any_dtype(times) or any(isinstance(time, pd.Timestamp) for time in times[:1])


def _merge_observations(old: pd.DataFrame, new: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, Spans]]:
    """Return the merged observations, and by entity the spans that the new ones among them decide."""
    kept, won, spans = [old[~old["entity"].isin(new["entity"].unique())]], [], {}
    for entity, added in new.groupby("entity", sort=False):
        earlier = old[old["entity"] == entity].sort_values("start_ticks")
        duration = (added["end_ticks"] - added["start_ticks"]).to_numpy()
        winners = added[_longest_overlapped(added, earlier) <= duration].sort_values("start_ticks")
        spans[str(entity)] = _spans(winners)
        kept.append(earlier[_longest_overlapped(earlier, winners) == 0])
        won.append(winners)
    return _stack(*kept, *won, columns=new.columns), spans


def _longest_overlapped(some: pd.DataFrame, others: pd.DataFrame) -> Ticks:
    """Return for each of `some` the duration of the longest of `others` that it overlaps, 0 if there is none."""
    starts, ends = others["start_ticks"].to_numpy(), others["end_ticks"].to_numpy()  # sorted, without overlap
    longest = np.zeros(len(some), dtype=np.int64)
    for i, (start, end) in enumerate(zip(some["start_ticks"], some["end_ticks"], strict=True)):
        first, last = np.searchsorted(ends, start, side="right"), np.searchsorted(starts, end, side="left")
        longest[i] = (ends[first:last] - starts[first:last]).max(initial=0)
    return longest


def _spans(observations: pd.DataFrame) -> Spans:
    """Return the spans of rows of a table in the order of their starts; those that touch or overlap become one."""
    starts, ends = observations["start_ticks"].to_numpy(), observations["end_ticks"].to_numpy()
    ends = np.maximum.accumulate(ends)
    apart = np.flatnonzero(starts[1:] > ends[:-1])
    return Spans(np.append(starts[:1], starts[apart + 1]), np.append(ends[apart], ends[-1:]))


def _merge_timeline(old: pd.DataFrame, new: pd.DataFrame, spans: dict[str, Spans]) -> pd.DataFrame:
    """Return the old rows that no new observation covers, and the new rows of all other times."""
    decided = np.zeros(len(old), dtype=bool)
    for entity, own in spans.items():
        rows = (old["entity"] == entity).to_numpy()
        decided[rows] = own.contain(old.loc[rows, "time_ticks"].to_numpy())
    kept = old[~decided]
    known = pd.MultiIndex.from_frame(kept[["entity", "time_ticks"]])
    added = new[~pd.MultiIndex.from_frame(new[["entity", "time_ticks"]]).isin(known)]
    return _stack(kept, added, columns=new.columns)


def _merge_pieces(
    old: pd.DataFrame, new: pd.DataFrame, spans: dict[str, Spans], observations: pd.DataFrame, timeline: pd.DataFrame
) -> pd.DataFrame:
    """Return the parts of old pieces outside the spans and of new ones inside them; of sensors that stop reporting,
    all new pieces, and the old ones that do not begin within the new file."""
    rows = timeline.groupby("entity")["time_ticks"]
    first_row, last_row = rows.min().to_dict(), rows.max().to_dict()
    edges = {
        (entity, tick): time
        for key in ("start", "end")
        for entity, tick, time in zip(*(observations[name] for name in ("entity", f"{key}_ticks", key)), strict=True)
    }
    nowhere = _spans(new.iloc[:0])
    parts: list[dict[str, Any]] = []
    for table, pieces in ((old, Spans.outside), (new, Spans.inside)):
        for row in table.to_dict("records"):
            known = {str(name): value for name, value in row.items()}
            if row["evidence"] == MISSING:
                begins = (
                    first_row.get(row["entity"], np.inf) <= row["start_ticks"] <= last_row.get(row["entity"], -np.inf)
                )
                if table is new or not begins:
                    parts.append(known)
                continue
            for start, end in pieces(spans.get(row["entity"], nowhere), row["start_ticks"], row["end_ticks"]):
                first = row["start"] if start == row["start_ticks"] else edges[row["entity"], start]
                last = row["end"] if end == row["end_ticks"] else edges[row["entity"], end]
                parts.append({**known, "start": first, "end": last, "start_ticks": start, "end_ticks": end})
    return pd.DataFrame(parts, columns=list(dict.fromkeys([*new.columns, *old.columns])))


def _joined(pieces: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Return the intervals: pieces of one event and one model become one, with the evidence of the highest score."""
    joined: list[dict[str, Any]] = []
    latest: dict[tuple[str, str], int] = {}  # positions in `joined`, by entity and by the sensors that are missing
    for piece in _with_numbers(pieces, folder).sort_values("start_ticks", kind="stable").to_dict("records"):
        part = {str(name): value for name, value in piece.items()}
        key = str(part["entity"]), str(part["variables"]) if part["evidence"] == MISSING else ""
        before = joined[latest[key]] if key in latest else None
        if before is None or not _goes_on(before, part):
            latest[key] = len(joined)
            joined.append(part)
            continue
        higher = part if part["score_number"] > before["score_number"] else before
        longer = part if part["end_ticks"] > before["end_ticks"] else before
        begin = {name: before[name] for name in ("start", "start_ticks")}
        joined[latest[key]] = {**higher, **begin, **{name: longer[name] for name in ("end", "end_ticks")}}
        if part["evidence"] == MISSING:
            joined[latest[key]]["reason"] = _with_duration(joined[latest[key]])
    events = [event for event in joined if event["end_ticks"] - event["start_ticks"] >= event[LEAST]]
    return pd.DataFrame(events, columns=[name for name in pieces.columns if name not in (WITHIN, LEAST)])


def _named(intervals: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Return the intervals with their names, which follow from where they begin; results of earlier versions have
    none."""
    columns = (intervals[key] for key in ("entity", "start_ticks", "evidence", "variables"))
    try:
        names = [
            id_of(bare(str(entity)), int(start), str(evidence), json.loads(shares))
            for entity, start, evidence, shares in zip(*columns, strict=True)
        ]
    except (ValueError, TypeError):
        raise OutputError(f"{PIECES} in {folder} is damaged, so nothing can be added; choose another folder.") from None
    others = [name for name in intervals.columns if name != "id"]
    return intervals.assign(id=pd.Series(names, index=intervals.index, dtype=object))[["id", *others]]


def _with_duration(event: Mapping[str, Any]) -> str:
    """Return the reason of a sensor that stopped reporting with the duration of all its pieces."""
    said, _, _ = str(event["reason"]).rpartition(" for ")
    nanoseconds = Clock(0, 1, dated=True)
    return f"{said} for {duration(nanoseconds, event['end_ticks'] - event['start_ticks'])}."


def _with_numbers(pieces: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Return the pieces with the numbers that joining needs, or raise an `OutputError` if they are damaged."""
    try:
        within, least = (_nanoseconds(pieces[name]) if name in pieces else 0 for name in (WITHIN, LEAST))
        scores = pd.to_numeric(pieces["score"])
        pd.to_numeric(pieces["model_threshold"].replace("", None)) if "model_threshold" in pieces else None
    except (ValueError, TypeError):
        raise OutputError(f"{PIECES} in {folder} is damaged, so nothing can be added; choose another folder.") from None
    return pieces.assign(**{WITHIN: within, LEAST: least}, score_number=scores)


def _nanoseconds(durations: pd.Series) -> Ticks:
    known = pd.to_timedelta(durations.replace("", None)).fillna(pd.Timedelta(0))
    return pd.TimedeltaIndex(known).as_unit("ns").asi8


def _goes_on(before: dict[str, Any], part: dict[str, Any]) -> bool:
    """Return whether a piece belongs to the event of the one before it. Scores of two models cannot be compared."""
    distance = part["start_ticks"] - before["end_ticks"]
    return (distance <= 0 or distance < part[WITHIN]) and _judge(before) == _judge(part)


def _judge(row: Mapping[Any, Any]) -> tuple[str, float]:
    """Return the model of a row and its threshold; results of earlier versions name none."""
    model, threshold = row.get("model"), row.get("model_threshold")
    if not isinstance(model, str) or model == "" or threshold is None or threshold == "":
        return "", 0.0
    return model, float(threshold)


def _say_if_judged_by_another(old: pd.DataFrame, new: pd.DataFrame, folder: Path) -> None:
    """Issue a notice if the latest results of an entity are of another model or threshold than the new ones."""
    if old.empty or new.empty:
        return
    now = _judge(new.iloc[0].to_dict())
    own = old[old["entity"].isin(new["entity"].unique())].sort_values("end_ticks").groupby("entity").tail(1)
    others = dict.fromkeys(judge for judge in map(_judge, own.to_dict("records")) if judge[0] and judge != now)
    if others:
        before = next(reversed(others))
        same = before[0] == now[0]
        notice(
            f"The latest results in {folder} are of the model {before[0]} with the threshold {before[1]:.4g}, the new "
            f"ones of {'the same model' if same else now[0]} with {now[1]:.4g}; "
            f"{'' if same else 'their scores cannot be compared, and '}the columns `model` and `model_threshold` say "
            "what each row was judged by."
        )


def _marked(timeline: pd.DataFrame, intervals: pd.DataFrame, *, parquet: bool) -> pd.DataFrame:
    """Return the timeline with `anomalous` for the rows in intervals, also for those between two joined pieces."""
    inside = np.zeros(len(timeline), dtype=bool)
    for entity, own in intervals.groupby("entity", sort=False):
        rows = (timeline["entity"] == entity).to_numpy()
        inside[rows] = _spans(own.sort_values("start_ticks")).contain(timeline.loc[rows, "time_ticks"].to_numpy())
    return timeline.assign(anomalous=inside if parquet else inside.astype(str))


def _stack(*tables: pd.DataFrame, columns: pd.Index) -> pd.DataFrame:
    """Return the rows of all tables, with `columns` first; pandas warns of empty tables, so these are left out."""
    filled = [table for table in tables if len(table)] or [tables[0]]
    every = list(dict.fromkeys([*columns, *(name for table in filled for name in table.columns)]))
    return pd.concat(filled, ignore_index=True).reindex(columns=every)
