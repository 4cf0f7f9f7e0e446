"""The store: SQLite (write-ahead log) or PostgreSQL, brought up to date by migrations when it is opened.

One service uses a store at a time. Within it, ingest, scoring, delivery and people write to columns of their own, see
`schema.py`. Every commit is on the disk before it is acknowledged."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.config import Config as AlembicConfig
from alembic.util import CommandError
from filelock import FileLock, Timeout
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from tsadc.errors import TsadcError
from tsadc.serve import schema
from tsadc.serve.config import SHARDS
from tsadc.serve.writers import EpisodeEvent

BUSY = 20.0  # seconds that a SQLite connection waits for another one that writes
LOG_PAGES = 8_000  # of SQLite's log, 32 MB: a page that changes often is copied into the database less often
LOCK = 7_351_924  # number of the advisory lock in PostgreSQL
SCORED, CHANGED, AWAKE, LOOKED, FORGOTTEN = "scored", "changed", "awake", "looked", "forgotten"


class StoreError(TsadcError):
    """The store cannot be used now; the same request may succeed later."""


class Store:
    """A connection to the tables.

    Parameters
    ----------
    url : str
        As SQLAlchemy writes it.
    migrate : bool, default True
        Whether to create the tables or bring them up to date first.

    Raises
    ------
    StoreError
        If the store cannot be opened.
    """

    def __init__(self, url: str, *, migrate: bool = True) -> None:
        self.engine = _engine(url)
        self.is_sqlite = self.engine.dialect.name == "sqlite"
        own = self.engine.url.set(
            drivername="postgresql", query={}
        ).render_as_string()  # as it was written, without secrets
        self.place = str(self.engine.url.database) if self.is_sqlite else own
        self._lock: Any = None
        if self.is_sqlite and Path(self.place).is_dir():
            raise StoreError(
                f"The store {self.place} is a folder; name a file in it, such as {self.place}/tsadc.sqlite."
            )
        if migrate:
            try:
                self.migrate()
            except BaseException:
                self.engine.dispose()
                raise

    def close(self) -> None:
        """Close all connections and give up the lock."""
        if isinstance(self._lock, Connection):
            with contextlib.suppress(SQLAlchemyError):
                self._lock.scalar(sa.select(sa.func.pg_advisory_unlock(LOCK)))  # now, not when the server notices
                self._lock.close()
        elif self._lock is not None:
            self._lock.release()
        self._lock = None
        self.engine.dispose()

    def own(self) -> None:
        """Refuse if another service uses the store."""
        another = f"Another `tsadc serve` uses the store {self.place}; stop it, or use another store."
        if self.is_sqlite:
            lock = FileLock(f"{self.engine.url.database}.lock", timeout=0, thread_local=False)
            try:
                lock.acquire()
            except Timeout:
                raise StoreError(another) from None
            self._lock = lock
        else:
            with self.failing_clearly():
                connection = self.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
                if not connection.scalar(sa.select(sa.func.pg_try_advisory_lock(LOCK))):
                    connection.close()
                    raise StoreError(another)
            self._lock = connection

    def renew(self) -> None:
        """Take the lock again if it was lost, as when PostgreSQL was restarted; refuse if another service has it."""
        if not isinstance(self._lock, Connection):
            return
        try:
            self._lock.scalar(sa.select(1))
        except SQLAlchemyError:
            with contextlib.suppress(SQLAlchemyError):
                self._lock.close()
            self.own()

    def migrate(self) -> None:
        """Create the tables, or bring them up to date."""
        config = AlembicConfig()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
        with self.writing() as connection:
            if not self.is_sqlite:  # two processes that start at the same time
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(LOCK + 1)))
            config.attributes["connection"] = connection
            try:
                command.upgrade(config, "head")
            except CommandError:
                raise StoreError(
                    f"The store {self.place} was made by a later version of tsadc; upgrade tsadc."
                ) from None

    @contextlib.contextmanager
    def writing(self) -> Iterator[Connection]:
        """Return a connection in a transaction that is committed at the end."""
        with self.failing_clearly(), self.engine.connect() as connection:
            connection.execution_options(writes=True)
            with connection.begin():
                yield connection

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """Return a connection that sees one state of the store."""
        with self.failing_clearly(), self.engine.connect() as connection:
            if not self.is_sqlite:  # whose transactions see one state anyway
                connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    @contextlib.contextmanager
    def failing_clearly(self) -> Iterator[None]:
        """Turn errors of the database into a `StoreError` of one sentence, without the password of the URL."""
        try:
            yield
        except (DBAPIError, PoolTimeout) as error:
            said = error.orig if isinstance(error, DBAPIError) else error.args[0]  # all connections are in use
            reason = " ".join(str(said).split())
            if password := self.engine.url.password:
                reason = reason.replace(str(password), "(hidden)")
            raise StoreError(f"The store {self.place} cannot be used: {reason}.") from None

    def upsert(self, table: sa.Table, keys: Sequence[str], updated: Sequence[str]) -> Any:
        """Return an INSERT that replaces the columns `updated` of a row that has the same keys; if `updated` is empty,
        an existing row is left unchanged."""
        insert = (sqlite.insert if self.is_sqlite else postgresql.insert)(table)
        if not updated:
            return insert.on_conflict_do_nothing(index_elements=list(keys))
        return insert.on_conflict_do_update(
            index_elements=list(keys), set_={name: getattr(insert.excluded, name) for name in updated}
        )

    def progress(self, connection: Connection, name: str) -> int:
        """Return a counter; 0 if it was never set."""
        value = connection.scalar(sa.select(schema.progress.c.value).where(schema.progress.c.name == name))
        return int(value or 0)

    def set_progress(self, connection: Connection, name: str, value: int) -> None:
        """Set a counter."""
        connection.execute(self.upsert(schema.progress, ["name"], ["value"]), {"name": name, "value": value})

    def scored(self, connection: Connection) -> list[int]:
        """Return for each shard the sequence up to which its rows are scored."""
        counter = schema.progress.c
        query = sa.select(counter.name, counter.value).where(counter.name.in_([_scored(i) for i in range(SHARDS)]))
        reached = {name: value for name, value in connection.execute(query)}  # noqa: C416 -- rows are no plain tuples
        return [reached.get(_scored(shard), 0) for shard in range(SHARDS)]

    def set_scored(self, connection: Connection, reached: Mapping[int, int]) -> None:
        """Set the sequence up to which the rows of some shards are scored."""
        values = [{"name": _scored(shard), "value": sequence} for shard, sequence in reached.items()]
        connection.execute(self.upsert(schema.progress, ["name"], ["value"]), values)

    def next_change(self, connection: Connection) -> int:
        """Return the number of a change. Changes are numbered in the order of their commits, as the row stays locked
        until then."""
        return self.increase(connection, CHANGED)

    def increase(self, connection: Connection, name: str) -> int:
        """Add 1 to a counter, which stays locked until the commit; return its value."""
        statement = self.upsert(schema.progress, ["name"], [])
        connection.execute(statement, {"name": name, "value": 0})
        counter = schema.progress.c
        update = sa.update(schema.progress).where(counter.name == name).values(value=counter.value + 1)
        return int(connection.execute(update.returning(counter.value)).scalar_one())

    # Positions of readers

    def position(self, reader: str, key: str) -> str | None:
        """Return what a reader has remembered under `key`."""
        table = schema.positions.c
        with self.reading() as connection:
            where = (table.reader == reader) & (table.key == key)
            value = connection.scalar(sa.select(table.value).where(where))
        return None if value is None else str(value)

    def set_position(self, reader: str, key: str, value: str) -> None:
        """Remember a position of a reader."""
        with self.writing() as connection:
            statement = self.upsert(schema.positions, ["reader", "key"], ["value"])
            connection.execute(statement, {"reader": reader, "key": key, "value": value})

    def keep_positions(self, reader: str, keys: Container[str]) -> None:
        """Forget the positions of a reader under all other keys."""
        table = schema.positions.c
        with self.reading() as connection:
            known = connection.scalars(sa.select(table.key).where(table.reader == reader))
            gone = [key for key in known if key not in keys]
        for part in _parts(gone):
            with self.writing() as connection:
                where = (table.reader == reader) & table.key.in_(part)
                connection.execute(sa.delete(schema.positions).where(where))

    # Events for writers

    def due(self, writer: str, now: float, limit: int) -> list[tuple[int, EpisodeEvent]]:
        """Return the oldest events that a writer has not delivered and that may be tried now. Those of an episode
        with an event that must wait come after it."""
        table = schema.outbox.c
        undelivered = (table.writer == writer) & table.delivered.is_(None)
        waiting = sa.select(table.episode).where(undelivered & (table.next_try > now))
        due = undelivered & table.episode.not_in(waiting)
        query = sa.select(table.id, table.event).where(due).order_by(table.id).limit(limit)
        with self.reading() as connection:
            return [(number, EpisodeEvent(**event)) for number, event in connection.execute(query)]

    def delivered(self, numbers: Sequence[int]) -> None:
        """Mark events as delivered."""
        with self.writing() as connection:
            for part in _parts(numbers):
                update = sa.update(schema.outbox).where(schema.outbox.c.id.in_(part))
                connection.execute(update.values(delivered=time.time(), error=None))

    def postpone(self, numbers: Sequence[int], until: float, error: str) -> None:
        """Keep events for a later attempt, and why this one failed."""
        table = schema.outbox.c
        with self.writing() as connection:
            for part in _parts(numbers):
                update = sa.update(schema.outbox).where(table.id.in_(part))
                connection.execute(update.values(next_try=until, error=error[:500], attempts=table.attempts + 1))

    def open_events(self, writer: str) -> list[EpisodeEvent]:
        """Return the latest delivered event of every open episode that is not muted, for a receiver that must be
        reminded."""
        table, episode = schema.outbox.c, schema.episodes.c
        latest = (
            sa.select(sa.func.max(table.id))
            .join(schema.episodes, episode.id == table.episode)
            .where((table.writer == writer) & table.delivered.is_not(None))
            .where((episode.state == "open") & episode.muted.is_(False))
            .group_by(table.episode)
        )
        query = sa.select(table.event).where(table.id.in_(latest)).order_by(table.id)
        with self.reading() as connection:
            events = [EpisodeEvent(**event) for event in connection.scalars(query)]
        return [event for event in events if event.transition != "resolved"]

    def undelivered(self) -> dict[str, tuple[int, str | None]]:
        """Return for each writer how many events wait, and the latest error: that of the oldest due event, which is
        in every attempt, or, if all were set aside, that of the last one."""
        table = schema.outbox.c
        waiting = table.delivered.is_(None)
        order = (table.next_try > 0, table.next_try.desc(), table.id)
        latest = sa.select(table.error).where(waiting & table.error.is_not(None)).order_by(*order).limit(1)
        with self.reading() as connection:
            counts = connection.execute(
                sa.select(table.writer, sa.func.count()).where(waiting).group_by(table.writer)
            ).all()
            return {
                writer: (count, connection.scalar(latest.where(table.writer == writer))) for writer, count in counts
            }


def _scored(shard: int) -> str:
    return f"{SCORED} {shard}"


def _parts(items: Sequence[Any], size: int = 500) -> Iterator[Sequence[Any]]:
    for first in range(0, len(items), size):
        yield items[first : first + size]


def _engine(url: str) -> Engine:
    parsed = sa.engine.make_url(url)
    if parsed.get_backend_name() != "sqlite":
        arguments: Mapping[str, Any] = {"connect_timeout": 5, "application_name": "tsadc"}
        return sa.create_engine(parsed, pool_pre_ping=True, connect_args=arguments, pool_size=8, max_overflow=16)
    if parsed.database and not os.access(Path(parsed.database).resolve().parent, os.W_OK):
        raise StoreError(f"The folder of the store {parsed.database} does not exist or is not writable; create it.")
    engine = sa.create_engine(parsed, connect_args={"timeout": BUSY}, pool_size=8, max_overflow=16)

    @sa.event.listens_for(engine, "connect")
    def prepare(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # transactions begin below, not when the driver sees fit
        settings = ("journal_mode = WAL", "synchronous = FULL", "cache_size = -65536", "temp_store = MEMORY")
        for setting in (*settings, f"wal_autocheckpoint = {LOG_PAGES}"):
            connection.execute(f"PRAGMA {setting}")

    @sa.event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A transaction that writes takes its turn at once; if it began by reading, it could be refused later.
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine
