"""Sources of rows: each turns one format or protocol into `RowBatch`es."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container
from threading import Event
from typing import Protocol, runtime_checkable

from tsadc.errors import DataError
from tsadc.serve.rows import RowBatch

log = logging.getLogger("tsadc.serve")

Submit = Callable[[RowBatch], None]  # returns when the rows are stored
Complain = Callable[[str], None]  # with a sentence


class Positions(Protocol):
    """How far a reader has come, kept in the store, by names that the reader chooses."""

    def get(self, key: str) -> str | None: ...

    def set(self, key: str, value: str) -> None: ...

    def keep_only(self, keys: Container[str]) -> None: ...


class Reader(Protocol):
    """A source that is asked for rows. `run` returns when `stop` is set; if it raises, it is run again after a
    while."""

    name: str

    def run(self, submit: Submit, positions: Positions, stop: Event) -> None: ...


@runtime_checkable
class Complaining(Protocol):
    """A reader that leaves out what it cannot read, calls `complain` with a sentence about it, and goes on."""

    complain: Complain


def hand_over(batch: RowBatch, submit: Submit, stop: Event, reader: str) -> None:
    """Submit rows. Those that are refused, because no model knows their variables for example, are logged and skipped,
    as the reader would only read them again; the error of a service that stops is raised, so that they are kept."""
    try:
        submit(batch)
    except DataError as error:
        if stop.is_set():
            raise
        log.warning("Reader %s: rows of %s are skipped: %s", reader, batch.entity, error)
