"""A query that is repeated -> rows. Its parameter `:after` is the latest time that has been read.

    SELECT time, machine, flow, pressure FROM measurements WHERE time >= :after ORDER BY time

With `>=`, rows that are written later with the same time are found too; rows that are read twice are stored once."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from threading import Event
from typing import Any

import pandas as pd

from tsadc.config import require
from tsadc.errors import ConfigError, DataError
from tsadc.io.sql import opened, safe
from tsadc.serve.readers import Positions, Submit, hand_over
from tsadc.serve.readers.tables import TableSettings, pace, to_batches

POSITION = "after"
PARAMETER = re.compile(r"(?<!:):after\b")
CHUNK = 10_000  # rows that are fetched at once


@dataclass(frozen=True)
class Settings(TableSettings):
    """The database and the query; for the other parameters see `TableSettings`.

    Parameters
    ----------
    url : str
        The database, as SQLAlchemy takes it, such as postgresql+psycopg://user@host/name.
    query : str
        The query. It must contain `:after`, and sort by time.
    start : str or float, default "1970-01-01 00:00:00"
        `:after` of the first query. Use a number if the times are numbers.
    every : float, default 10
        Seconds between queries.
    """

    url: str = ""
    query: str = ""
    start: float | str = "1970-01-01 00:00:00"
    every: float = 10.0

    def __post_init__(self) -> None:
        require(self.every > 0, "every", "above 0 seconds", self.every)
        usable = not self.query or PARAMETER.search(self.query) is not None
        require(usable, "query", "a query with `:after`, such as ... WHERE time >= :after ORDER BY time", self.query)


class Sql:
    """Repeats a query, which may not write."""

    def __init__(self, name: str, settings: Settings) -> None:
        self.name, self.settings = name, settings
        self._reading = settings.reading()

    def run(self, submit: Submit, positions: Positions, stop: Event) -> None:
        """Query until `stop` is set."""
        for _ in pace(stop, self.settings.every):
            stored = positions.get(POSITION)
            after = self.settings.start if stored is None else _value(json.loads(stored))
            for frame in self._frames(after):
                time = self._time_column(frame)
                for batch in to_batches(frame, 0, self.name, self.name, f"The query of {self.name!r}", self._reading):
                    hand_over(batch, submit, stop, self.name)
                latest = frame[time].max()
                if not pd.isna(latest):
                    positions.set(POSITION, json.dumps(_plain(latest)))

    def _frames(self, after: Any) -> Iterator[pd.DataFrame]:
        import sqlalchemy

        with opened(self.settings.url) as (connection, shown, password):
            query = sqlalchemy.text(self.settings.query)
            try:
                with closing(connection.execute(query, {"after": after})) as result:
                    names = list(result.keys())
                    while rows := result.fetchmany(CHUNK):
                        frame = pd.DataFrame.from_records([tuple(row) for row in rows], columns=names)
                        for name in names:
                            if frame[name].map(type).eq(Decimal).any():
                                frame[name] = frame[name].astype(float)
                        yield frame
            except sqlalchemy.exc.SQLAlchemyError as error:
                raise DataError(f"The query to {shown} failed: {safe(error, password)}; correct it.") from None

    def _time_column(self, frame: pd.DataFrame) -> str:
        name = self.settings.time or (self.settings.long[0] if self.settings.long else None)
        if name is None:
            raise ConfigError(f"The reader {self.name!r} needs `time`, the name of the column that `:after` refers to.")
        if name not in frame:
            raise DataError(f"The query of the reader {self.name!r} has no column {name!r}, only {list(frame)}.")
        return name


def _plain(value: Any) -> dict[str, Any]:
    """Return a time of the database as JSON."""
    if isinstance(value, (datetime.datetime, pd.Timestamp)):
        return {"time": value.isoformat()}
    return (
        {"number": value.item() if hasattr(value, "item") else value} if not isinstance(value, str) else {"text": value}
    )


def _value(stored: dict[str, Any]) -> Any:
    [(kind, value)] = stored.items()
    return datetime.datetime.fromisoformat(value) if kind == "time" else value


def create(name: str, settings: Settings) -> Sql:
    """Return the reader."""
    for needed, what in (("url", "the database"), ("query", "what it reads"), ("time", "the name of the time column")):
        if not getattr(settings, needed) and not (needed == "time" and settings.long):
            raise ConfigError(f"The reader {name!r} needs `{needed}`, {what}.")
    return Sql(name, settings)
