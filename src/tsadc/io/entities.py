"""Rows -> entities -> Series: a table is divided by the column that names the entity, the rows of one entity are joined
across files, and each entity is put on its clock."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from tsadc.errors import DataError, TooShortError, notice
from tsadc.io.clock import onto_grid, regular
from tsadc.io.columns import Columns, split_columns
from tsadc.io.long import pivot
from tsadc.io.reading import DEFAULT, Reading, increments
from tsadc.series import Clock, Floats, Series

MAX_SOURCES = 3  # in a message


@dataclass(frozen=True)
class Part:
    """The rows of one entity in one source: columns without a clock yet, or a finished Series."""

    entity: str
    source: str
    content: Columns | Series

    @property
    def names(self) -> tuple[str, ...]:
        return self.content.names


def from_frame(frame: pd.DataFrame, entity: str, source: str, reading: Reading = DEFAULT) -> list[Part]:
    """Divide a pandas frame into the rows of each entity. Table files and data frames in memory both enter here.

    All rows belong to `entity`, unless `reading` names a column with entities."""
    if len(frame) == 0:
        raise TooShortError(f"{source} has a header but no rows; add rows of measurements.")
    if reading.long is not None:
        wide = pivot(frame, source, reading)
        # A column of the long table that is excluded was left out with all others that are not used.
        excluded = tuple(name for name in reading.exclude if name in wide.columns or name not in frame.columns)
        frame = wide
        reading = replace(reading, long=None, time=reading.long[0], missing=(), exclude=excluded)
    columns = split_columns(frame, source, reading)
    if columns.entities is None:
        return [Part(entity, source, columns)]
    codes, names = pd.factorize(columns.entities)
    order = np.argsort(codes, kind="stable")
    rows_by_entity = np.split(order, np.cumsum(np.bincount(codes))[:-1])
    return [
        Part(
            str(name),
            source,
            replace(
                columns,
                times=None if columns.times is None else columns.times[rows],
                values=columns.values[rows],
                entities=None,
            ),
        )
        for name, rows in zip(names, rows_by_entity, strict=True)
    ]


def by_entity(parts: Iterable[Part]) -> list[list[Part]]:
    """Group the parts by entity, in the order in which the entities first appear."""
    groups: dict[str, list[Part]] = {}
    for part in parts:
        groups.setdefault(part.entity, []).append(part)
    return list(groups.values())


def notice_notes(parts: Iterable[Part]) -> None:
    """Say once what was assumed about the form of the sources, for all that share it."""
    sources: dict[tuple[str, ...], dict[str, None]] = {}
    for part in parts:
        if isinstance(part.content, Columns) and part.content.notes:
            sources.setdefault(part.content.notes, {})[part.source] = None
    for notes, found in sources.items():
        first, *others = found
        more = f" and {len(others)} more" if others else ""
        notice(f"{first}{more}: {'; '.join(notes)}.")


def widened(part: Part, names: tuple[str, ...]) -> Part:
    """Return the part with all variables `names`; those that it lacks are NaN."""
    values = np.full((len(part.content.values), len(names)), np.nan)
    for place, name in enumerate(names):
        if name in part.names:
            values[:, place] = part.content.values[:, part.names.index(name)]
    return replace(part, content=replace(part.content, values=values, names=names))


def renamed(part: Part, entity: str) -> Part:
    """Return the part under another entity's name."""
    content = replace(part.content, entity=entity) if isinstance(part.content, Series) else part.content
    return Part(entity, part.source, content)


def to_series(parts: list[Part], reading: Reading = DEFAULT) -> Series:
    """Put the parts of one entity on one clock."""
    entity = parts[0].entity
    only = parts[0].content if len(parts) == 1 else None
    if isinstance(only, Series):
        values = only.values if reading.stream else increments(only.values, only.names, reading, only.observation)
        return replace(only, values=values)
    columns = _join(parts, reading)
    sources = list(dict.fromkeys(part.source for part in parts))
    source = " and ".join(sources) if len(sources) <= MAX_SOURCES else f"{sources[0]} and {len(sources) - 1} more files"
    if len(parts) > 1 or (reading.entity is not None and entity != source):
        source = f"Entity {entity!r} of {source[0].lower() + source[1:] if source.startswith('The data') else source}"
    if columns.times is None:
        if reading.every is not None:
            raise DataError(
                f"{source} has no time column, so `every` cannot be used; name the column with --time (in Python: "
                "Reading(time=...)), or leave out `every`."
            )
        return _series(columns, columns.values, Clock(), entity, reading)
    if reading.interval is not None:
        values, clock = onto_grid(columns.times, columns.values, reading.interval, source)
    else:
        values, clock = regular(columns.times, columns.values, source, columns.texts)
    return _series(columns, values, clock, entity, reading)


def _series(columns: Columns, values: Floats, clock: Clock, entity: str, reading: Reading) -> Series:
    return Series(increments(values, columns.names, reading), columns.names, clock, entity, units=columns.units)


def _join(parts: list[Part], reading: Reading) -> Columns:
    """Join the rows of all parts, the earliest part first."""
    timed = []
    for number, part in enumerate(parts):
        content = _dated_rows(part.content, reading)
        if len(parts) == 1 and content is not None:
            return content
        if content is None or content.times is None:
            raise _unordered(parts, max(number, 1), reading)
        timed.append((part, content, content.times))
    timed.sort(key=lambda item: item[2].as_unit("ns").asi8.min())
    for (first, _, before), (second, _, after) in itertools.pairwise(timed):
        if (before.tz is None) != (after.tz is None):
            raise DataError(
                f"{_in_both(first, second)}, but only one of them has times with a time zone; write both with one."
            )
        if before.max() >= after.min() and reading.every is None:
            several = "" if reading.entity is not None else "give each its own entity if they are two, "
            raise DataError(
                f"{_in_both(first, second)}, and their times overlap at {after.min()}; {several}remove the overlap "
                "from one of them, or average both with --every (in Python: Reading(every=...))."
            )
    names, zone = parts[0].names, timed[0][2].tz
    values = [content.values[:, [content.names.index(name) for name in names]] for _, content, _ in timed]
    stamps = [times.as_unit("ns") if zone is None else times.as_unit("ns").tz_convert(zone) for *_, times in timed]
    joined = pd.DatetimeIndex(stamps[0].append(stamps[1:]))
    return Columns(joined, np.concatenate(values), names, units=timed[0][1].units, texts=timed[0][1].texts)


def _dated_rows(content: Columns | Series, reading: Reading) -> Columns | None:
    """Return columns as they are, and a finished Series with dates, such as a recording, as columns again."""
    if isinstance(content, Columns):
        return content
    if not content.clock.dated or reading.stream:
        return None
    return Columns(pd.DatetimeIndex(content.clock.at(range(len(content)))), content.values, content.names)


def _unordered(parts: list[Part], number: int, reading: Reading) -> DataError:
    both = _in_both(parts[0], parts[number])
    if reading.stream:
        return DataError(f"{both}, which cannot be joined with --stream; read them without it.")
    bare = [part.source for part in parts if _is_bare(part)]
    if len(bare) < len(parts):
        return DataError(f"{both}, but {bare[0]} has no column of times; add it there.")
    return DataError(f"{both}, and without a time column their order is unknown; give each its own entity name.")


def _is_bare(part: Part) -> bool:
    content = part.content
    return content.times is None if isinstance(content, Columns) else not content.clock.dated


def _in_both(first: Part, second: Part) -> str:
    return f"Entity {first.entity!r} is in both {first.source} and {second.source}"
