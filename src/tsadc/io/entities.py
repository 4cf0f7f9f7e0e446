"""Rows -> entities: a table is divided by the column that names them, and what belongs to one entity is joined again,
over as many files as it lies in, before it is put on a clock."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from tsadc.errors import DataError
from tsadc.io.clock import regular
from tsadc.io.columns import Columns
from tsadc.io.grid import onto_grid
from tsadc.io.reading import PLAIN, Reading
from tsadc.series import Clock, Series


@dataclass(frozen=True)
class Part:
    """What one source holds of one entity: rows that wait for their clock, or a series that has it already."""

    entity: str
    source: str
    content: Columns | Series

    @property
    def names(self) -> tuple[str, ...]:
        return self.content.names


def divide(columns: Columns, entity: str, source: str) -> list[Part]:
    """The rows of each entity, in their order, entities in the order of their first row."""
    if columns.entities is None:
        return [Part(entity, source, columns)]
    codes, found = pd.factorize(columns.entities)
    order = np.argsort(codes, kind="stable")
    pieces = np.split(order, np.cumsum(np.bincount(codes))[:-1])
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
        for name, rows in zip(found, pieces, strict=True)
    ]


def assemble(parts: Iterable[Part], reading: Reading = PLAIN) -> tuple[Series, ...]:
    """One series per entity, in the order of their first part."""
    return tuple(to_series(some, reading) for some in by_entity(parts))


def by_entity(parts: Iterable[Part]) -> list[list[Part]]:
    """The parts of each entity, in the order of their first part."""
    out: dict[str, list[Part]] = {}
    for part in parts:
        out.setdefault(part.entity, []).append(part)
    return list(out.values())


def to_series(parts: list[Part], reading: Reading = PLAIN) -> Series:
    """The parts of one entity on one clock."""
    entity = parts[0].entity
    if len(parts) == 1 and isinstance(parts[0].content, Series):
        return parts[0].content
    columns = _join(parts, overlap=reading.every is not None)
    source = " and ".join(dict.fromkeys(part.source for part in parts))
    if len(parts) > 1 or (reading.entity is not None and entity != source):
        source = f"Entity {entity!r} of {source[0].lower() + source[1:] if source.startswith('The data') else source}"
    if columns.times is None:
        if reading.every is not None:
            raise DataError(f"{source} has no times, so it cannot be put on a grid; name the column of times.")
        return Series(columns.values, columns.names, Clock(), entity)
    if reading.interval is not None:
        values, clock = onto_grid(columns.times, columns.values, reading.interval, source)
    else:
        values, clock = regular(columns.times, columns.values, source)
    return Series(values, columns.names, clock, entity)


def _join(parts: list[Part], *, overlap: bool) -> Columns:
    """The rows of all parts, in the order of their times."""
    timed = []
    for number, part in enumerate(parts):
        if len(parts) == 1 and isinstance(part.content, Columns):
            return part.content
        if not isinstance(part.content, Columns) or part.content.times is None:
            pair = parts[:2] if number == 0 else [parts[0], part]
            raise DataError(f"{_both(*pair)}, but has no times there to be put in order by; give each its own name.")
        timed.append((part, part.content, part.content.times))
    timed.sort(key=lambda one: one[2].as_unit("ns").asi8.min())
    for (one, _, before), (two, _, after) in itertools.pairwise(timed):
        if (before.tz is None) != (after.tz is None):
            raise DataError(f"{_both(one, two)}, but only one of them says in which time zone its times are.")
        if before.max() >= after.min() and not overlap:
            raise DataError(f"{_both(one, two)}, at {after.min()} in both; keep one there, or average with --every.")
    names, zone = parts[0].names, timed[0][2].tz
    values = [content.values[:, [content.names.index(name) for name in names]] for _, content, _ in timed]
    stamps = [times.as_unit("ns") if zone is None else times.as_unit("ns").tz_convert(zone) for *_, times in timed]
    return Columns(pd.DatetimeIndex(stamps[0].append(stamps[1:])), np.concatenate(values), names)


def _both(one: Part, two: Part) -> str:
    return f"Entity {one.entity!r} comes in both {one.source} and {two.source}"
