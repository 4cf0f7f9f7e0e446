"""The rows of one entity, read from the store in the order of time.

Rows arrive from all entities at nearly the same time, so an index by entity and time would change one page of the
database per row. The index begins with `part` instead, half a minute of time: rows that arrive together lie on a few
pages. An entity is found in each part that has rows of anybody."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from tsadc.io.clock import MAX_JITTER
from tsadc.series import Clock, Floats, Series
from tsadc.serve.rows import Ticks

PART = 32 * 10**9  # nanoseconds; a change needs a migration
CELL = np.dtype("<f8")
LEAST, MOST = -(2**63), 2**63 - 1

# Each part is found by one search in the index, so that parts without rows cost nothing.
_PARTS = """
WITH RECURSIVE parts(part) AS (
    SELECT min(part) FROM rows WHERE part >= :first_part
    UNION ALL
    SELECT (SELECT min(later.part) FROM rows AS later WHERE later.part > parts.part)
    FROM parts WHERE parts.part < :last_part
)
SELECT {columns} FROM parts CROSS JOIN rows AS found
WHERE found.part = parts.part AND found.entity = :entity AND found.time >= :first AND found.time < :last
"""
_BETWEEN = _PARTS.format(columns="found.sequence, found.time, found.data") + "ORDER BY found.time LIMIT :most"
_EXTENT = _PARTS.format(columns="count(*), min(found.time), max(found.time)")


@dataclass(frozen=True, eq=False)
class StoredRows:
    """Rows of an entity.

    Attributes
    ----------
    sequences, times : (row,) int64
    cells : list of bytes
        The values of each row.
    """

    sequences: Ticks
    times: Ticks
    cells: list[bytes]

    def __len__(self) -> int:
        return len(self.cells)

    def values(self, width: int) -> Floats:
        """Return the values (row, variable)."""
        return np.frombuffer(b"".join(self.cells), CELL).reshape(-1, width)

    def series(self, entity: str, names: tuple[str, ...], clock: Clock) -> Series:
        """Return the rows as a series on a clock, NaN where none is stored; of two rows at the same place the first
        counts, and a first row that jitters is taken to be on time, as in a stream."""
        start = start_of(int(self.times[0]), clock.interval)
        places = places_of(self.times, start, clock.interval)
        values = np.full((int(places[-1]) + 1, len(names)), np.nan)
        values[places[::-1]] = self.values(len(names))[::-1]
        return Series(values, names, replace(clock, start=start), entity)

    def at(self, places: Ticks) -> StoredRows:
        """Return the rows at these places."""
        return StoredRows(self.sequences[places], self.times[places], [self.cells[i] for i in places.tolist()])


@dataclass(frozen=True)
class Extent:
    """How many rows there are, and the times of the first and the last one."""

    rows: int
    first: int
    last: int


def start_of(first: int, interval: int) -> int:
    """Return where a clock begins whose first row came at `first`."""
    nearest = (first + interval // 2) // interval * interval
    return nearest if abs(first - nearest) <= MAX_JITTER * interval else first


def places_of(times: Ticks, start: int, interval: int) -> Ticks:
    """Return the places of times on a clock."""
    return (times - start + interval // 2) // interval


def part_of(time: int) -> int:
    """Return the part in which a time lies."""
    return time // PART


def rows_between(
    connection: Connection, entity: int, first: int = LEAST, last: int = MOST, most: int = MOST
) -> StoredRows:
    """Return at most `most` rows of an entity with times in [first, last), in the order of time."""
    found = connection.execute(sa.text(_BETWEEN), {"most": most, **_limits(entity, first, last)}).all()
    sequences, times = (np.array([row[i] for row in found], dtype=np.int64) for i in (0, 1))
    return StoredRows(sequences, times, [bytes(row[2]) for row in found])


def extent(connection: Connection, entity: int, first: int = LEAST, last: int = MOST) -> Extent | None:
    """Return the extent of the rows of an entity with times in [first, last); None if there are none."""
    rows, begin, end = connection.execute(sa.text(_EXTENT), _limits(entity, first, last)).one()
    return Extent(rows, begin, end) if rows else None


def pieces_between(
    connection: Connection, entity: int, first: int, last: int, most: int, interval: int
) -> Iterator[StoredRows]:
    """Yield the rows of an entity with times in [first, last), in the order of time, in pieces of at most `most`.
    `interval` is the usual time from row to row."""
    span = most * interval
    while first < last:
        found = rows_between(connection, entity, first, min(first + span, last), most)
        if len(found):
            yield found
        if len(found) == most:
            first, span = int(found.times[-1]) + 1, most * interval
        else:  # over rows that are far apart, with long strides
            first, span = first + span, span if 2 * len(found) >= most else 2 * span


def _limits(entity: int, first: int, last: int) -> dict[str, int]:
    return {
        "entity": entity,
        "first": first,
        "last": last,
        "first_part": part_of(first),
        "last_part": part_of(last),
    }
