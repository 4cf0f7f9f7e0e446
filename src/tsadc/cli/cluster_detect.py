"""`tsadc detect --engine ray`: each entity is read, judged and written by a task of its own.

Ray's tasks and not Ray Data: an entity must be whole before it can be judged, and is so in its files. Ray Data would
cut them into blocks and send all rows through its object store to put them together again."""

from __future__ import annotations

import hashlib
import io
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import tsadc
from tsadc.cli.cluster_notices import notice_first
from tsadc.cli.examination import check_new
from tsadc.cli.workflow import MAX_WORST, Unusual, describe_interval, refuse_inside, summarise
from tsadc.cluster import storage
from tsadc.cluster.engine import Outcome, connect
from tsadc.cluster.manifest import (
    PART,
    Entity,
    Manifest,
    check_folder,
    check_name,
    finish,
    fits_path,
    folder_name,
    start,
)
from tsadc.cluster.models import ModelFiles, loaded_model, model_files
from tsadc.cluster.partitions import FileGroup, check_options, group_files, named_files, read_group
from tsadc.cluster.storage import address_of
from tsadc.config import require
from tsadc.detectors.base import Detector, ProgressCallback, ScoringProgress
from tsadc.detectors.result import worst
from tsadc.errors import DataError, TooShortError, TsadcError, collected_notices, listed, notice
from tsadc.io.calendar import Calendar
from tsadc.io.reading import Reading
from tsadc.series import Series
from tsadc.show import words
from tsadc.show.chance import count_scored, false_alarms
from tsadc.show.result_files import MANIFEST, TABLES, tables
from tsadc.show.words import count
from tsadc.variables import match

TIMES = {"intervals": "start", "timeline": "time", "observations": "start"}  # the column that decides the date
UNDATED = "undated"
PARTITIONS = {"day": "%Y-%m-%d", "month": "%Y-%m-01"}  # the date of a folder


@dataclass(frozen=True)
class DetectJob:
    """What all tasks of a detection share. `model` holds the files of the model; its name in the tables is `name`."""

    digest: str
    model: ModelFiles
    name: str
    out: str
    calendar: Calendar | None
    strict: bool
    partition: str
    continued: bool


def detect_on_cluster(
    detector: Detector,
    data: Sequence[Path],
    reading: Reading,
    out: Path,
    *,
    model: str,
    address: str | None,
    partition: str = "day",
    force: bool = False,
    calendar: Calendar | None = None,
    progress: ProgressCallback | None = None,
) -> tuple[str, bool]:
    """Judge the entities of partitioned Parquet files on a cluster, and write tables by date and entity to `out`.

    Return a summary, and whether anything is unusual or drifts."""
    check_options(reading)
    require(partition in PARTITIONS, "--partition", "day or month", partition)
    place, files = address_of(out), model_files(detector)
    named = named_files(data)
    refuse_inside(out, data, "the data")
    check_folder(place, force=force)
    with connect(address) as cluster:
        groups = group_files(cluster, named, replace(reading, skip_bad=False))
        digest = _digest(files, groups, (model, partition, calendar, replace(reading, skip_bad=False)))
        manifest = Manifest(tsadc.__version__, model, digest, tuple(address_of(path) for path in data))
        before = start(place, manifest, force=force)
        done = {(name, entity.inputs) for name, entity in (before or {}).items()}
        todo = [group for group in groups if not {(name, group.inputs) for name in group.entities} <= done]
        again = {name for group in todo for name in group.entities}
        manifest.entities = {name: entity for name, entity in (before or {}).items() if name not in again}
        job = DetectJob(digest, files, model, place, calendar, reading.strict, partition, before is not None)
        total = sum(len(group.entities) for group in groups)
        report_entities(progress, len(manifest.entities), total)
        for group, outcome in cluster.map(judge, cluster.share(job), todo):
            _take(manifest, group, outcome)
            report_entities(progress, len(manifest.entities) + len(manifest.left_out), total)
    planned = {entity for group in groups for entity in group.entities}
    lost = planned - set(manifest.entities) - set(manifest.left_out)
    assert not lost, f"neither judged nor refused: {lost}"
    manifest.complete = not manifest.left_out
    manifest.write(place)
    if manifest.left_out:
        entity, why = next(iter(sorted(manifest.left_out.items())))
        number = count(len(manifest.left_out), "entity", "entities")
        if not (reading.skip_bad and manifest.entities):
            rest = f"the results of the others are in {place}" if manifest.entities else "there are no results"
            raise DataError(
                f"{number} of {total} could not be judged; {entity!r}: {why} Correct the data and run the same command "
                f"again, which continues, or leave out what is bad with --skip-bad; {rest}."
            )
        notice(f"{number} left out: {listed(sorted(manifest.left_out))}; {entity!r}: {why}")
    _notice_all(manifest)
    return _summary(detector, manifest, place)


@dataclass(frozen=True)
class JudgedGroup:
    """What became of the entities of a group: those that were judged, and the sentences why others could not be."""

    done: tuple[Entity, ...]
    refused: Mapping[str, str]


def judge(job: DetectJob, group: FileGroup) -> JudgedGroup:
    """Read the files of a group, judge its entities and write their tables; the task of a worker."""
    detector = loaded_model(job.digest, job.model)
    if job.continued:
        _remove_tables(job.out, group.entities)
    done, refused = list[Entity](), dict[str, str]()
    with tempfile.TemporaryDirectory(prefix="tsadc-") as folder, collected_notices() as notices:
        series, rows = read_group(group, Path(folder))
        for own in series:
            try:
                check_name(own.entity)
                done.append(_judge_entity(job, detector, own, rows[own.entity], group))
            except TsadcError as error:
                refused[own.entity] = str(error)
                _remove_tables(job.out, [own.entity])
    done = [replace(entity, notices=tuple(notices)) for entity in done]
    for entity in done:  # last, so that a group is done as a whole
        finish(job.out, job.digest, entity)
    return JudgedGroup(tuple(done), refused)


def _remove_tables(out: str, entities: Sequence[str]) -> None:
    """Remove what was written of entities that are not done: their data may be corrected before they are."""
    written = [entity for entity in entities if fits_path(entity)]
    for table in TABLES:
        for date in storage.names_in(storage.join(out, table)):
            for entity in written:
                place = storage.join(out, table, date, f"entity={folder_name(entity)}")
                if storage.names_in(place):
                    storage.remove_folder(place)


def _judge_entity(job: DetectJob, detector: Detector, series: Series, rows: int, group: FileGroup) -> Entity:
    files = tuple(file.address for file in group.files)
    matched = match([series], detector.variables_, strict=True) if job.strict else (series,)
    check_new(matched, [], detector)
    known = Entity(series.entity, files, group.inputs, rows, len(series))
    parts = list[list[pd.DataFrame]]()
    intervals, drift, expected = list[pd.DataFrame](), list[str](), 0.0
    try:
        for part in detector.detect_parts(matched, calendar=job.calendar):
            parts.append(list(tables(part, job.name)))
            intervals.append(part.intervals)
            drift += [words.drift(found) for found in part.drift]
            expected += part.false_alarms
    except TooShortError as error:
        known = replace(known, too_short=str(error))
    else:
        written = {
            table: _write(job, series.entity, table, own)
            for table, own in zip(TABLES, zip(*parts, strict=True), strict=True)
        }
        found = pd.concat([table for table in intervals if len(table)] or intervals[:1], ignore_index=True)
        severe = tuple(
            (_finite(interval["severity"]), _finite(interval["score"]), describe_interval(interval))
            for interval in worst(found, MAX_WORST).to_dict("records")
        )
        known = replace(
            known,
            rows_out=written["timeline"].rows,
            observations=written["observations"].rows,
            intervals=written["intervals"].rows,
            parts=sum(table.parts for table in written.values()),
            size=sum(table.size for table in written.values()),
            scored=count_scored(found),
            expected=expected,
            worst=severe,
            drift=" ".join(drift) or None,
        )
        if known.rows_out != known.rows_on_clock:
            raise DataError(
                f"{series.entity!r} has {known.rows_on_clock} rows, but {known.rows_out} were written; run it again."
            )
    return known


def _finite(number: float) -> float:
    """Return the number, or 0 for an interval without a score: JSON has no NaN."""
    return float(number) if np.isfinite(number) else 0.0


class Written(NamedTuple):
    """A table of an entity: its rows, its files, and their bytes together."""

    rows: int
    parts: int
    size: int


def _write(job: DetectJob, entity: str, table: str, parts: Sequence[pd.DataFrame]) -> Written:
    """Write a table of an entity, one file for each date."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    frame = pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)
    times = frame[TIMES[table]]
    dated = pd.api.types.is_datetime64_any_dtype(times)
    dates = times.dt.strftime(PARTITIONS[job.partition]) if dated else pd.Series(UNDATED, index=frame.index)
    rows = pa.Table.from_pandas(frame.drop(columns="entity"), preserve_index=False)
    # A column without any value has no type of its own; the files of other entities have texts there.
    rows = rows.cast(pa.schema([_typed(field) for field in rows.schema]))
    rows_of, sizes = list[int](), list[int]()
    for date, places in frame.groupby(dates, sort=True).indices.items():
        part, buffer = rows.take(pa.array(np.sort(places))), io.BytesIO()
        pq.write_table(part, buffer)
        folders = f"date={date}", f"entity={folder_name(entity)}"
        storage.write(storage.join(job.out, table, *folders, PART), buffer.getvalue())
        rows_of.append(part.num_rows)
        sizes.append(buffer.tell())
    return Written(sum(rows_of), len(sizes), sum(sizes))


def _typed(field: Any) -> Any:
    import pyarrow as pa

    return field.with_type(pa.string()) if pa.types.is_null(field.type) else field


def _digest(files: ModelFiles, groups: Iterable[FileGroup], options: tuple[Any, ...]) -> str:
    """Return a digest of all that results depend on: an interrupted job continues only if it is the same."""
    whole = hashlib.sha256(f"{tsadc.__version__}\n{options!r}\n".encode())
    for name, content in files.items():
        whole.update(name.encode())
        whole.update(content.tobytes())
    for group in groups:
        whole.update(repr((group.entities, [file.address for file in group.files])).encode())
    return whole.hexdigest()[:16]


def _take(manifest: Manifest, group: FileGroup, outcome: Outcome[JudgedGroup]) -> None:
    """Note what became of a group."""
    if outcome.value is None:
        manifest.left_out |= dict.fromkeys(group.entities, str(outcome.error))
    else:
        manifest.entities |= {entity.entity: entity for entity in outcome.value.done}
        manifest.left_out |= outcome.value.refused


def report_entities(progress: ProgressCallback | None, done: int, total: int) -> None:
    """Report how many entities are done."""
    if progress is not None:
        progress(ScoringProgress(done, total, "entities"))


def _notice_all(manifest: Manifest) -> None:
    """Issue what the tasks noticed, and name entities that are too short."""
    short = sorted(name for name, entity in manifest.entities.items() if entity.too_short)
    if short:
        have = "entity has" if len(short) == 1 else "entities have"
        notice(f"{len(short)} {have} too few rows for an observation and no results: {listed(short)}.")
    notice_first(
        (([entity.entity], entity.notices) for entity in manifest.entities.values()), f"`notices` in {MANIFEST}"
    )


def _summary(detector: Detector, manifest: Manifest, place: str) -> tuple[str, bool]:
    entities = manifest.entities.values()
    severe = sorted((one for entity in entities for one in entity.worst), key=lambda one: (-one[0], -one[1]))
    affected = sum(entity.intervals > 0 for entity in entities)
    found = Unusual(sum(entity.intervals for entity in entities), affected, [text for _, _, text in severe[:MAX_WORST]])
    drift = [entity.drift for entity in entities if entity.drift is not None]
    share = detector.normal_.above(detector.threshold_)
    scored, expected = sum(entity.scored for entity in entities), sum(entity.expected for entity in entities)
    chance = false_alarms(scored, expected, share, detector.settings.length, detector.clock_)
    said = summarise(found, len(manifest.entities), detector.threshold_, chance, drift)
    rows = sum(entity.rows_out for entity in entities)
    amount = f"{count(len(entities), 'entity', 'entities')}, {rows} rows"
    wrote = f"Wrote {', '.join(TABLES)} and {MANIFEST} to {place}: {amount}."
    return f"{said}\n{wrote}", found.intervals > 0 or bool(drift)
