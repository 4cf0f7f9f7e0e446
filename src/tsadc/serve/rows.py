"""Rows as readers hand them over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tsadc.errors import DataError, TsadcError
from tsadc.series import Floats
from tsadc.wording import count

MOST_NAME = 200  # characters in the name of an entity or variable
Ticks = NDArray[np.int64]


class Overloaded(TsadcError):
    """More rows came than can be stored now; the sender should try again after `retry_after` seconds."""

    def __init__(self, message: str, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


@dataclass(frozen=True, eq=False)
class RowBatch:
    """Rows of one entity.

    Attributes
    ----------
    source : str
        Name of the reader, for counters and messages.
    entity : str
    names : tuple of str
        The variables.
    times : (row,) int64
        Nanoseconds since 1970 in UTC, in any order.
    values : (row, variable) float64
        NaN where a value is missing.
    partial : bool, default False
        Whether more values of the same rows may follow, as Prometheus and MQTT send them. Such a row is stored at once
        but scored only when all variables have a value, or after a while.
    """

    source: str
    entity: str
    names: tuple[str, ...]
    times: Ticks
    values: Floats
    partial: bool = False

    def __post_init__(self) -> None:
        _check(self, [self.entity])

    def __len__(self) -> int:
        return len(self.times)


@dataclass(frozen=True, eq=False)
class RowTable:
    """Rows of several entities that have the same variables, which is faster than a batch for each.

    Attributes
    ----------
    source, names, times, values, partial
        As in `RowBatch`.
    entities : list of str
        The entity of each row.
    """

    source: str
    entities: list[str]
    names: tuple[str, ...]
    times: Ticks
    values: Floats
    partial: bool = False

    def __post_init__(self) -> None:
        _check(self, self.entities)
        if len(self.entities) != len(self.times):
            needed, given = count(len(self.times), "row", "rows"), count(len(self.entities), "name", "names")
            raise DataError(f"`entities` must have a name for each row, but has {given} for {needed}.")

    def __len__(self) -> int:
        return len(self.times)

    @classmethod
    def of(cls, batch: RowBatch) -> RowTable:
        """Return the rows of one entity as a table."""
        entities = [batch.entity] * len(batch)
        return cls(batch.source, entities, batch.names, batch.times, batch.values, batch.partial)


def _check(rows: RowBatch | RowTable, entities: Sequence[str]) -> None:
    """Bring times and values into their types, and refuse what does not fit together."""
    object.__setattr__(rows, "times", np.ascontiguousarray(rows.times, dtype=np.int64))
    object.__setattr__(rows, "values", np.ascontiguousarray(rows.values, dtype=np.float64))
    for entity in dict.fromkeys(entities):
        check_name("an entity", entity)
    _check_variables(rows.names)
    if rows.values.shape != (len(rows.times), len(rows.names)):
        times, given = count(len(rows.times), "time", "times"), count(len(rows.values), "row", "rows")
        raise DataError(f"`values` must have a row for each time, but has {given} for {times}.")


@lru_cache(maxsize=1024)  # senders use the same ones all the time
def _check_variables(names: tuple[str, ...]) -> None:
    for name in names:
        check_name("a variable", name)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"The variable {twice!r} is given twice; each variable needs a name of its own.")


def check_name(what: str, name: str) -> None:
    """Raise a `DataError` unless the name of an entity or variable is usable."""
    if not is_name(name):
        shown = repr(name[:40]) + ("..." if len(name) > 40 else "")
        raise DataError(
            f"The name of {what} must have 1 to {MOST_NAME} printable characters, not only blanks, but got {shown}."
        )


def is_name(name: str) -> bool:
    """Return whether the name of an entity or variable is usable."""
    return bool(name.strip()) and len(name) <= MOST_NAME and name.isprintable()
