"""Rows -> the store. A row is acknowledged when it is on the disk, and stored once however often it is sent.

All senders share one thread that writes: what has come while it wrote is written together next (a group commit). Rows
that are complete get a sequence number, in which order they are scored. Rows of which more values may follow wait in
the table `pending` for the rest, and later rows of the same entity wait behind them, so that they are judged in the
order of time. No row waits longer than `server.wait`; the rows before it are then handed over with it."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from tsadc.errors import DataError, listed
from tsadc.series import Floats
from tsadc.serve import schema
from tsadc.serve.config import SHARDS, Config
from tsadc.serve.metrics import Problems, log
from tsadc.serve.rows import Overloaded, RowBatch, RowTable
from tsadc.serve.store import FORGOTTEN, Store, StoreError
from tsadc.serve.stored_rows import CELL, PART, part_of

AT_ONCE = 20_000  # rows of a commit
IDLE = 0.25  # seconds
MOST_COLUMNS = 10_000  # combinations of variables that are remembered
MOST_NOTES = 10
STOPPED = "The service is stopping; send the rows again in a moment."
SECOND = 10**9
EARLIEST = 365 * 86_400 * SECOND  # 1971: times near 0 come from a clock that is not set, or have another unit


@dataclass
class Receipt:
    """What became of the rows of a request.

    Attributes
    ----------
    stored, repeated, filled : int
        Rows that are new, that the store had already, and that the store had without some values, now added.
    notes : list of str
        What was left out, one sentence each.
    """

    stored: int = 0
    repeated: int = 0
    filled: int = 0
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class _Part:
    """Rows in the columns of the model of their entities, in order of time."""

    entities: Sequence[str]
    model: str
    times: NDArray[np.int64]
    values: Floats
    partial: bool


@dataclass(eq=False)
class _Waiting:
    """A row that is not handed over yet: whether more values of it are waited for, and whether `pending` has it."""

    data: bytes
    incomplete: bool
    is_stored: bool = False


@dataclass(frozen=True, eq=False)
class _Request:
    source: str
    parts: Sequence[_Part]
    rows: int
    receipt: Receipt
    done: Future[Receipt]


class Ingest:
    """Takes rows from all readers.

    Parameters
    ----------
    store : Store
    config : Config
    variables : mapping of str to tuple of str
        The variables of each model.
    problems : Problems
        Where refused rows are counted.
    committed : callable
        Called after every commit of new rows.
    """

    def __init__(
        self,
        store: Store,
        config: Config,
        variables: Mapping[str, Sequence[str]],
        problems: Problems,
        committed: Callable[[], None] = lambda: None,
    ) -> None:
        self.store, self.config, self.variables = store, config, dict(variables)
        self.problems, self.committed = problems, committed
        self.backlog = 0
        self.counts: Counter[tuple[str, str]] = Counter()  # rows by source and outcome
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._waiting, self._count = 0, threading.Lock()
        self._stopped = False
        self._outdated = False  # whether memory has what a failed transaction has changed
        self._columns: dict[tuple[str, tuple[str, ...]], tuple[Any, Any, str]] = {}
        self._load()
        self._thread = threading.Thread(target=self._run, name="ingest", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Store what was accepted, and stop. What cannot be stored is refused."""
        with self._count:
            self._stopped = True
        self._requests.put(None)
        self._thread.join()
        while not self._requests.empty():
            if (request := self._requests.get()) is not None:
                request.done.set_exception(StoreError(STOPPED))

    def use(self, config: Config, variables: Mapping[str, Sequence[str]]) -> None:
        """Use another configuration from now on."""
        self.config, self.variables, self._columns = config, dict(variables), {}

    def submit(self, batch: RowBatch) -> Receipt:
        """Store rows of a reader and return when they are on the disk. Rows with an unusable time are left out,
        because a reader cannot correct and resend them.

        Raises
        ------
        DataError
            If the rows cannot be used.
        Overloaded
            If too many rows wait.
        StoreError
            If the store cannot be used now.
        """
        return self.offer([batch], repeatable=False).result()

    def offer(self, batches: Iterable[RowBatch | RowTable], *, repeatable: bool = True) -> Future[Receipt]:
        """Like `submit` for several batches, but return at once; errors of the store come with the result. A request
        that is `repeatable` is refused as a whole because of one unusable time, unless its rows are partial: those
        senders drop what is refused."""
        receipt = Receipt()
        tables = [RowTable.of(batch) if isinstance(batch, RowBatch) else batch for batch in batches if len(batch)]
        timely = [self._timely(table, receipt, repeatable and not table.partial) for table in tables]
        if tables and not any(map(len, timely)):
            raise DataError(receipt.notes[0])
        parts = _joined([part for table in timely if len(table) for part in self._parts(table, receipt)])
        rows = sum(len(part.times) for part in parts)
        done: Future[Receipt] = Future()
        done.set_running_or_notify_cancel()  # rows that were handed over are stored, also if nobody waits any longer
        if not rows:
            done.set_result(receipt)
            return done
        if self.backlog > self.config.server.backlog:
            behind = f"Scoring is {self.backlog:,} rows behind, so new rows are refused"
            self.problems.add("backlog", f"{behind}; if that lasts while scoring runs, raise `server.processes`.")
            raise Overloaded(f"{self.backlog:,} rows wait to be scored; send these again later.", 10.0)
        with self._count:
            if self._stopped:
                raise Overloaded(STOPPED, 5.0)
            if self._waiting and self._waiting + rows > self.config.server.rows:
                self.problems.add("queue", "Rows came faster than the store takes them, so some requests were refused.")
                raise Overloaded(f"{self._waiting:,} rows wait to be stored; send these again later.")
            self._check_room({name for part in parts for name in part.entities})
            self._waiting += rows
            self._requests.put(_Request(tables[0].source, parts, rows, receipt, done))
        return done

    def _parts(self, table: RowTable, receipt: Receipt) -> Iterator[_Part]:
        """Yield the rows of a table for each model. What a sender cannot choose, because it sends all that it has, is
        left out with a note."""
        if len(table) > 1 and not (table.times[1:] >= table.times[:-1]).all():
            table = _chosen(table, np.argsort(table.times, kind="stable"))
        models = {name: self._models.get(name) or self.config.model_of(name) for name in dict.fromkeys(table.entities)}
        for model in dict.fromkeys(models.values()):
            rows = table
            if len(set(models.values())) > 1:
                rows = _chosen(table, np.flatnonzero([models[name] == model for name in table.entities]))
            if model is None:
                sentence = f"No model judges the entity {rows.entities[0]!r}; see `entities` of [model.*]."
                self._leave_out(rows, receipt, "entity", sentence)
                continue
            places, given, unknown = self._columns_of(model, rows.names)
            if not len(places):
                has = f"the model {model!r}, which has {listed(self.variables[model])}"
                sentence = f"None of the variables {listed(rows.names)} of {rows.entities[0]!r} is known to {has}."
                if not rows.names:
                    sentence = f"Rows of {rows.entities[0]!r} have no values; send some of those of {has}."
                self._leave_out(rows, receipt, "variables", sentence)
                continue
            if unknown:
                self.problems.add("variables", f"Rows of {rows.entities[0]!r}: {unknown}", about=unknown)
                _note(receipt, unknown)
            values = np.full((len(rows), len(self.variables[model])), np.nan)
            values[:, places] = rows.values[:, given]
            yield _Part(rows.entities, model, rows.times, values, rows.partial)

    def _leave_out(self, table: RowTable, receipt: Receipt, reason: str, sentence: str) -> None:
        if not table.partial:
            raise self.problems.refusal(reason, sentence)
        self.problems.add(reason, sentence)
        _note(receipt, sentence)

    def _check_room(self, entities: set[str]) -> None:
        """Refuse new entities if there are too many, as when a sender makes up names; otherwise count them."""
        most, new = self.config.server.entities, entities - self._names
        if new and len(self._names) + len(new) > most:
            named = f"{min(new)!r}" + (f" and {len(new) - 1:,} more" if len(new) > 1 else "")
            known = f"There may be at most {most:,} entities, and {len(self._names):,} are known already"
            raise self.problems.refusal("entities", f"{known}; {named} would be too many (`server.entities`).")
        self._names |= new

    def _columns_of(self, model: str, names: tuple[str, ...]) -> tuple[Any, Any, str]:
        """Return the places of variables among those of a model, their places in the table, and a note on others."""
        key = model, names
        if key not in self._columns:
            if len(self._columns) > MOST_COLUMNS:
                self._columns.clear()
            self._columns[key] = self._matched(model, names)
        return self._columns[key]

    def _matched(self, model: str, names: tuple[str, ...]) -> tuple[Any, Any, str]:
        known = {name: place for place, name in enumerate(self.variables[model])}
        given = [i for i, name in enumerate(names) if name in known]
        unknown = [name for name in names if name not in known]
        verb = "is" if len(unknown) == 1 else "are"
        note = f"{listed(unknown)} {verb} unknown to the model {model!r}, and left out." if unknown else ""
        return np.array([known[names[i]] for i in given], dtype=np.intp), np.array(given, dtype=np.intp), note

    def _timely(self, table: RowTable, receipt: Receipt, refuse: bool) -> RowTable:
        """Return the rows with a time that can be right. The others are refused, or left out with a note."""
        latest = (time.time() + self.config.server.future) * SECOND
        if int(table.times.min()) >= EARLIEST and int(table.times.max()) <= latest:
            return table
        wrong = {"future": table.times > latest, "time": table.times < EARLIEST}
        for reason, rows in wrong.items():
            if not rows.any():
                continue
            worst = int(table.times.argmax() if reason == "future" else table.times.argmin())
            lies = f"{_ahead(int(table.times[worst]))} in the future" if reason == "future" else "before 1971"
            advice = "correct the clock of the sender, or its unit of time."
            name, others = table.entities[worst], {table.entities[i] for i in np.flatnonzero(rows).tolist()}
            if refuse:
                stamp = np.datetime64(int(table.times[worst]), "ns").astype("datetime64[s]")
                raise self.problems.refusal(reason, f"The row of {name!r} at {stamp}Z lies {lies}; {advice}", name)
            who = repr(name) if len(others) == 1 else f"{len(others)} entities, such as {name!r},"
            sentence = f"Rows of {who} that lie {lies} are left out; {advice}"
            self.problems.add(reason, sentence, int(rows.sum()), name)
            _note(receipt, sentence)
        return _chosen(table, np.flatnonzero(~(wrong["future"] | wrong["time"])))

    def _load(self) -> None:
        """Read from the store what is kept in memory: entities, their latest times, and the last sequence."""
        entity, row = schema.entities.c, schema.rows.c
        with self.store.reading() as connection:
            known = connection.execute(sa.select(entity.id, entity.name, entity.model)).all()
            self._ids = {name: number for number, name, _ in known}
            self._models = {name: model for _, name, model in known}  # an entity stays with its model
            self._names = set(self._ids)
            latest = connection.execute(sa.select(row.entity, sa.func.max(row.time)).group_by(row.entity))
            self._latest: dict[int, int] = {number: int(tick) for number, tick in latest}
            scored = self.store.scored(connection)
            shard = row.entity % SHARDS
            last = sa.select(shard, sa.func.max(row.sequence)).where(row.sequence > min(scored)).group_by(shard)
            self._last = [0] * SHARDS  # sequence of the latest row of each shard
            for number, sequence in connection.execute(last):
                self._last[number] = sequence
            self._forgotten = self.store.progress(connection, FORGOTTEN)
            self._sequence = max(connection.scalar(sa.select(sa.func.max(row.sequence))) or 0, *scored)
            self._pending: dict[int, dict[int, _Waiting]] = {}  # by entity and time
            waiting = schema.pending.c
            for number, time_, data in connection.execute(sa.select(waiting.entity, waiting.time, waiting.data)):
                incomplete = bool(np.isnan(np.frombuffer(data, CELL)).any())
                self._pending.setdefault(number, {})[time_] = _Waiting(bytes(data), incomplete, is_stored=True)

    def _run(self) -> None:
        looked = 0.0
        while not (self._stopped and (self._outdated or self._requests.empty())):
            requests = self._take()
            try:
                if requests or (self._pending and time.monotonic() - looked > IDLE):
                    self._write(requests)
                if time.monotonic() - looked > IDLE:
                    looked = time.monotonic()
                    with self.store.reading() as connection:
                        self.backlog = self._behind(self.store.scored(connection))
            except StoreError as error:
                self.problems.add("store", str(error))
                time.sleep(IDLE)
            except Exception as error:  # a mistake in this program must not end the thread that all senders need
                log.exception("Storing rows failed")
                self.problems.add("store", f"Storing rows failed: {type(error).__name__}: {error}")
                time.sleep(IDLE)

    def _behind(self, scored: Sequence[int]) -> int:
        """Return how many rows came since the oldest one that waits to be scored, those of other shards included."""
        waiting = [reached for reached, last in zip(scored, self._last, strict=True) if reached < last]
        return self._sequence - min(waiting) if waiting else 0

    def _take(self) -> list[_Request]:
        """Return the requests that wait, up to the size of a commit."""
        requests: list[_Request] = []
        rows = 0
        try:
            while rows < AT_ONCE:
                request = self._requests.get(timeout=IDLE) if not requests else self._requests.get_nowait()
                if request is None:
                    break
                requests.append(request)
                rows += request.rows
        except queue.Empty:
            pass
        return requests

    def _write(self, requests: Sequence[_Request]) -> None:
        """Write requests in one transaction, then acknowledge them."""
        try:
            before = self._sequence
            with self.store.writing() as connection:
                self._forget(connection)
                group = _Group(self, connection)
                for request in requests:
                    for part in request.parts:
                        group.add(part, request.receipt)
                if self._pending:
                    group.release()
                group.flush()
            if self._sequence > before:
                self.committed()
        except Exception as error:
            known = isinstance(error, StoreError)
            for request in requests:
                request.done.set_exception(error if known else StoreError("The rows could not be stored."))
            self._reload()
            raise
        else:
            for request in requests:
                for outcome in ("stored", "repeated", "filled"):
                    self.counts[request.source, outcome] += getattr(request.receipt, outcome)
                request.done.set_result(request.receipt)
        finally:
            with self._count:
                self._waiting -= sum(request.rows for request in requests)

    def _forget(self, connection: Connection) -> None:
        """Forget entities that scoring has deleted, as they have sent nothing for long."""
        # As `store.progress`, which takes longer: every transaction asks this.
        query = f"SELECT value FROM progress WHERE name = '{FORGOTTEN}'"
        forgotten = connection.exec_driver_sql(query).scalar() or 0
        if forgotten == self._forgotten:
            return
        known = set(connection.scalars(sa.select(schema.entities.c.id)))
        for name in [name for name, number in self._ids.items() if number not in known]:
            self._latest.pop(self._ids.pop(name), None)
            self._models.pop(name, None)
            with self._count:
                self._names.discard(name)
        self._forgotten = forgotten

    def _reload(self) -> None:
        """Forget what a failed transaction has changed in memory; wait for the store until the service stops."""
        self._outdated = True
        while self._outdated:
            try:
                self.store.renew()
                self._load()
                self._outdated = False
            except StoreError as error:
                self.problems.add("store", str(error))
                if self._stopped:
                    return
                time.sleep(1.0)


class _Group:
    """The rows of one transaction."""

    def __init__(self, ingest: Ingest, connection: Connection) -> None:
        self.ingest, self.connection = ingest, connection
        self.inserts: list[tuple[int, int, int, int, bytes]] = []
        self.waits: dict[tuple[int, int], bytes | None] = {}  # changes of `pending` by entity and time; None: deleted

    def add(self, part: _Part, receipt: Receipt) -> None:
        """Add rows. Complete ones that are later than all others of their entity are new, unless some of its rows wait
        for values; others are compared."""
        ingest, latest, sequence, inserts = self.ingest, self.ingest._latest, self.ingest._sequence, self.inserts
        times = part.times.tolist()
        numbers = [
            ingest._ids.get(name) or self._entity(name, part.model, tick)
            for name, tick in zip(part.entities, times, strict=True)
        ]
        compared: dict[int, list[int]] = {}
        waiting, last = ingest._pending, ingest._last
        may_wait = set(np.flatnonzero(np.isnan(part.values).any(axis=1)).tolist()) if part.partial else ()
        rows = zip(numbers, times, _cells(part.values), strict=True)
        for place, (entity, tick, data) in enumerate(rows):
            if (
                tick > latest.get(entity, -1)
                and place not in may_wait
                and entity not in waiting
                and entity not in compared  # its earlier rows come first
            ):
                sequence += 1  # as `_insert`, which takes longer
                inserts.append((sequence, tick // PART, entity, tick, data))
                latest[entity] = tick
                last[entity % SHARDS] = sequence
            else:
                compared.setdefault(entity, []).append(place)
        ingest._sequence = sequence
        receipt.stored += len(numbers) - sum(map(len, compared.values()))
        for entity, places in compared.items():
            self._merge(entity, part.times[places], part.values[places], part.partial, receipt)

    def _entity(self, name: str, model: str, first: int) -> int:
        """Add an entity whose first row has this time; return its number."""
        insert = sa.insert(schema.entities).values(name=name, model=model, first_time=first)
        number = int(self.connection.execute(insert.returning(schema.entities.c.id)).scalar_one())
        self.ingest._ids[name], self.ingest._models[name] = number, model
        self.ingest._names.add(name)
        return number

    def _insert(self, entity: int, tick: int, data: bytes) -> None:
        """Add a row that is not in the store."""
        ingest = self.ingest
        ingest._sequence += 1
        self.inserts.append((ingest._sequence, part_of(tick), entity, tick, data))
        ingest._last[entity % SHARDS] = ingest._sequence
        ingest._latest[entity] = max(tick, ingest._latest.get(entity, tick))

    def _merge(self, entity: int, times: NDArray[np.int64], rows: Floats, may_wait: bool, receipt: Receipt) -> None:
        """Add rows of an entity of which the store may have some, or some values."""
        latest = self.ingest._latest.get(entity, -1)
        stored = self._stored(entity, [time_ for time_ in times.tolist() if time_ <= latest])
        waiting = self.ingest._pending.setdefault(entity, {})
        changed: set[int] = set()
        for time_, values in zip(times.tolist(), rows, strict=True):
            before = waiting.get(time_)
            old = stored.get(time_) or (before.data if before else None)
            merged, is_new = (values, True) if old is None else _filled(np.frombuffer(old, CELL), values)
            if not is_new:
                receipt.repeated += 1
                continue
            data = merged.astype(CELL).tobytes()
            if old is None:
                receipt.stored += 1
            else:
                receipt.filled += 1
            if time_ in stored:
                self._fill(entity, time_, data)
                stored[time_] = data
            else:
                incomplete = may_wait and bool(np.isnan(merged).any())
                waiting[time_] = _Waiting(data, incomplete, before is not None and before.is_stored)
                changed.add(time_)
        self._hand_over(entity, changed)

    def _fill(self, entity: int, time_: int, data: bytes) -> None:
        """Replace the values of a row that is in the store."""
        row = schema.rows.c
        where = (row.part == part_of(time_)) & (row.entity == entity) & (row.time == time_)
        self.connection.execute(sa.update(schema.rows).where(where).values(data=data))

    def _hand_over(self, entity: int, changed: Iterable[int] = ()) -> None:
        """Insert the rows of an entity that wait for no values, in order of time, up to the first that does. A row
        older than those already handed over does not hold up the others. Store those that have `changed` and still
        wait."""
        waiting = self.ingest._pending[entity]
        latest = self.ingest._latest.get(entity, -1)
        held = min((time_ for time_, row in waiting.items() if row.incomplete and time_ > latest), default=None)
        ready = sorted(time_ for time_, row in waiting.items() if not row.incomplete and (held is None or time_ < held))
        for time_ in ready:
            row = waiting.pop(time_)
            self._insert(entity, time_, row.data)
            if row.is_stored:
                self.waits[entity, time_] = None
        for time_ in changed:
            if time_ in waiting:
                self.waits[entity, time_] = waiting[time_].data
                waiting[time_].is_stored = True
        if not waiting:
            del self.ingest._pending[entity]

    def _stored(self, entity: int, times: Sequence[int]) -> dict[int, bytes]:
        """Return those rows of an entity with these times that may be scored already."""
        found: dict[int, bytes] = {}
        if times:
            self.flush()
        row = schema.rows.c
        for first in range(0, len(times), 500):
            chosen = times[first : first + 500]
            where = (row.entity == entity) & row.time.in_(chosen) & row.part.in_({part_of(time_) for time_ in chosen})
            for time_, data in self.connection.execute(sa.select(row.time, row.data).where(where)):
                found[time_] = bytes(data)
        return found

    def release(self) -> None:
        """Hand over rows whose missing values have not come in time, and those before them, in order of time."""
        self.flush()
        pending = schema.pending.c
        due = pending.since <= time.time() - self.ingest.config.server.wait
        query = sa.select(pending.entity, sa.func.max(pending.time)).where(due).group_by(pending.entity)
        for entity, last in self.connection.execute(query).all():
            waiting = self.ingest._pending[entity]
            for time_, row in waiting.items():
                row.incomplete &= time_ > last
            self._drop_stored(entity)
            self._hand_over(entity)

    def _drop_stored(self, entity: int) -> None:
        """Fill rows that are in the store although they wait, instead of inserting them a second time."""
        waiting, latest = self.ingest._pending[entity], self.ingest._latest.get(entity, -1)
        for time_, data in self._stored(entity, [time_ for time_ in waiting if time_ <= latest]).items():
            values = np.frombuffer(waiting.pop(time_).data, CELL)
            self._fill(entity, time_, _filled(np.frombuffer(data, CELL), values)[0].tobytes())
            self.waits[entity, time_] = None

    def flush(self) -> None:
        """Send the rows to the database. The driver does it faster than SQLAlchemy, and PostgreSQL in one statement."""
        self._flush_waits()
        if self.inserts and self.ingest.store.is_sqlite:
            self.connection.exec_driver_sql(
                "INSERT INTO rows (sequence, part, entity, time, data) VALUES (?, ?, ?, ?, ?)", self.inserts
            )
        elif self.inserts:
            self.connection.exec_driver_sql(
                "INSERT INTO rows (sequence, part, entity, time, data) "
                "SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::integer[], %s::bigint[], %s::bytea[])",
                tuple(list(column) for column in zip(*self.inserts, strict=True)),
            )
        self.inserts = []

    def _flush_waits(self) -> None:
        if not self.waits:
            return
        now, pending = time.time(), schema.pending.c
        places = [{"e": entity, "t": time_} for (entity, time_), data in self.waits.items() if data is None]
        if places:
            where = (pending.entity == sa.bindparam("e")) & (pending.time == sa.bindparam("t"))
            self.connection.execute(sa.delete(schema.pending).where(where), places)
        kept = [
            {"entity": entity, "time": time_, "since": now, "data": data}
            for (entity, time_), data in self.waits.items()
            if data is not None
        ]
        if kept:
            self.connection.execute(self.ingest.store.upsert(schema.pending, ["entity", "time"], ["data"]), kept)
        self.waits = {}


def _joined(parts: Sequence[_Part]) -> list[_Part]:
    """Join the parts of a request that have the same model, in order of time, in which rows are numbered."""
    groups: dict[tuple[str, bool], list[_Part]] = {}
    for part in parts:
        groups.setdefault((part.model, part.partial), []).append(part)
    return [same[0] if len(same) == 1 else _in_order(same) for same in groups.values()]


def _in_order(parts: Sequence[_Part]) -> _Part:
    times = np.concatenate([part.times for part in parts])
    values = np.concatenate([part.values for part in parts])
    entities = [name for part in parts for name in part.entities]
    order = np.argsort(times, kind="stable")
    return replace(parts[0], entities=[entities[i] for i in order.tolist()], times=times[order], values=values[order])


def _chosen(table: RowTable, places: Any) -> RowTable:
    entities = [table.entities[i] for i in places.tolist()]
    return replace(table, entities=entities, times=table.times[places], values=table.values[places])


def _ahead(tick: int) -> str:
    """Say how far a time lies in the future, roughly, so that the sentence stays the same from row to row."""
    minutes = round((tick / SECOND - time.time()) / 60)
    return f"{max(minutes, 1)} min" if minutes < 120 else f"{minutes / 60:,.0f} h"


def _note(receipt: Receipt, sentence: str) -> None:
    if sentence not in receipt.notes and len(receipt.notes) < MOST_NOTES:
        receipt.notes.append(sentence)


def _cells(values: Floats) -> list[bytes]:
    """Return each row as bytes."""
    data, width = values.astype(CELL).tobytes(), values.shape[1] * CELL.itemsize
    return [data[first : first + width] for first in range(0, len(data), width)]


def _filled(old: Floats, new: Floats) -> tuple[Floats, bool]:
    """Return a row with the values of `new` where `old` has none, and whether there are any."""
    places = np.isnan(old) & ~np.isnan(new)
    return np.where(places, new, old), bool(places.any())
