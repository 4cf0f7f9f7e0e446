"""Stored rows -> verdicts and episodes, in processes of their own: `python -m tsadc.serve.scoring`.

Each process scores the entities of its shards (parts by the number of the entity), so that processes share nothing but
the store.

Rows are read in the order of their sequence, pushed into the stream of their model, and everything that follows from
them is written together with the sequence reached, in one transaction. From time to time the state of a stream is
written, too. After a crash, each entity continues from its state: the rows between the state and the sequence reached
are pushed again, and what follows from them is dropped, because it is in the store already. A stream depends on its
rows alone, so every verdict is made once, and is the same as without the crash.

The parent writes the settings as a line of JSON to the standard input, then a line whenever rows have come. When the
input ends, because the parent stops or dies, the process writes its states and ends."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from tsadc.detectors.store import read_settings
from tsadc.errors import ConfigError, DataError, TsadcError
from tsadc.io.calendar import Calendar
from tsadc.series import Floats
from tsadc.serve import schema
from tsadc.serve.config import SHARDS, Config, live_clock
from tsadc.serve.episodes import Episodes, read_mutes
from tsadc.serve.lifecycle import Quiet, silence
from tsadc.serve.misfits import Misfit, Pace, not_learnt, other_rate, other_units, refused
from tsadc.serve.store import AWAKE, FORGOTTEN, LOOKED, Store, StoreError
from tsadc.serve.stored_rows import LEAST, part_of, rows_between

if TYPE_CHECKING:
    from tsadc.detectors.base import Detector
    from tsadc.detectors.streaming import LiveInterval, LiveVerdict, StreamUpdate

AT_ONCE = 20_000  # rows of a transaction, at most
PAUSE = 0.1  # seconds between transactions, so that each has some rows
IDLE = 0.5
SHOWN = 2.0  # seconds after which the list of entities shows new rows
MOST_SAVING = 5.0  # seconds for the states at the end
HOUSEKEEPING = 15.0
OUTAGE = 60.0  # seconds without housekeeping, after which rows may have been missed
MOST_STATES = 50  # per transaction: entities that began together are all due at once, and a state is large
MOST_EXAMINED = 20  # observations per transaction
AT_START = 3  # observations that are pushed again if an entity has no usable state
DELETED = 5_000  # rows of a transaction of housekeeping
MOST_DELETING = 5.0  # seconds
MOST_FORGOTTEN = 100  # entities at once
RETURN = 3600.0  # seconds after an outage in which no entity is forgotten, so that all can send again
SECOND = 10**9
SCORE_COLUMNS = ("start", "score", "threshold", "anomalous", "severity", "coverage", "final")


@dataclass(frozen=True)
class Settings:
    """What the process needs to know, as plain data.

    Attributes
    ----------
    url : str
        The store.
    models : dict of str to dict
        Folder, `reorder`, `seconds` and `provisional` of each model.
    writers : list of str
        Names of the writers.
    calendars : list of str
    keep_days, forget_days, expire_minutes : float
    number, processes : int
        Which of how many scoring processes this is.
    """

    url: str
    models: Mapping[str, Mapping[str, Any]]
    writers: Sequence[str]
    calendars: Sequence[str]
    keep_days: float
    forget_days: float
    expire_minutes: float
    number: int = 0
    processes: int = 1

    @classmethod
    def of(cls, config: Config, number: int = 0) -> Settings:
        """Return the part of the configuration that a scoring process needs."""
        models = {name: asdict(model) for name, model in config.models.items()}
        server = config.server
        return cls(
            server.url,
            models,
            list(config.writers),
            list(server.calendars),
            server.keep_days,
            server.forget_days,
            server.expire_minutes,
            number,
            server.processes,
        )


@dataclass
class _Entity:
    """An entity in memory. `pushed` counts the rows since its state was written, `shown` is when the list of entities
    last showed it, and `verdict` is the one that the list does not show yet. `inherited` are the intervals that
    a new model holds to be open, until the episodes of the former one are taken over; None otherwise."""

    id: int
    name: str
    model: str
    pace: Pace
    pushed: int = 0
    sequence: int = 0
    latest: int = 0
    shown: float = 0.0
    verdict: LiveVerdict | None = None
    inherited: list[LiveInterval] | None = None


@dataclass
class _Changes:
    """What a batch of rows has decided."""

    scores: list[dict[str, Any]] = field(default_factory=list)
    intervals: list[tuple[_Entity, Sequence[Any]]] = field(default_factory=list)
    entities: dict[int, _Entity] = field(default_factory=dict)
    examined: list[tuple[_Entity, LiveVerdict]] = field(default_factory=list)


class Model:
    """A model in use: its detector and its stream."""

    def __init__(
        self, name: str, folder: str, reorder: int = 0, seconds: float = 0.0, provisional: bool = True
    ) -> None:
        from tsadc.detectors.store import load

        self.name, self.folder, self.reorder = name, folder, reorder
        self.detector: Detector = load(Path(folder))
        self.clock = live_clock(name, self.detector.clock_, seconds)
        self.stream = self.detector.stream(every=None if provisional else 0, reorder=reorder, clock=self.clock)
        self.variables = self.detector.variables_
        self.length: int = self.detector.settings.length
        self.digest = model_digest(Path(folder))

    @property
    def span(self) -> int:
        """Nanoseconds of an observation."""
        return self.length * self.clock.interval

    @property
    def late(self) -> int:
        """Nanoseconds that a row may lie behind the latest one at most, to be accepted."""
        return (self.reorder + 2) * self.clock.interval


def load_models(settings: Settings) -> dict[str, Model]:
    """Load the models in use; raise if the service cannot use one."""
    for model in settings.models.values():
        if source := read_settings(Path(model["folder"])).get("source"):
            raise ConfigError(
                f"The model {model['folder']} was fitted by {str(source)[:200]!r}, and the service runs no detector of "
                "your own; fit it with a detector of tsadc or of an installed package."
            )
    return {
        name: Model(name, model["folder"], model["reorder"], model["seconds"], model["provisional"])
        for name, model in settings.models.items()
    }


def model_digest(folder: Path) -> str:
    """Return a digest by which this model differs from a refitted one."""
    settings = read_settings(folder)
    return f"{settings['detector']}-{str(settings['arrays'])[:16]}"


class Scoring:
    """Scores the rows of a store, those of the entities of its shards."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.shards = range(settings.number, SHARDS, settings.processes)
        self.store = Store(settings.url, migrate=False)
        self.models = load_models(settings)
        calendar = Calendar.read(*settings.calendars)
        zones = {name: model.clock.timezone for name, model in self.models.items()}
        self.episodes = Episodes(self.store, settings.writers, Quiet((), calendar, zones))
        self._entities: dict[int, _Entity] = {}
        self._unshown: dict[int, _Entity] = {}  # those that have changed since the list of entities shows them
        self.misfits: list[Misfit] = []
        self.scored = [0] * SHARDS  # the sequence up to which rows of each shard are scored; every step reads it
        self._rested = 0.0

    def step(self) -> int:
        """Score the next rows and write what follows from them; return their number."""
        # Of the shards of this process. Their numbers differ by `processes`, and the first is `number`.
        query = sa.text(
            "SELECT sequence, entity, time, data FROM rows WHERE sequence > :s AND entity % :shards % :processes = "
            ":number ORDER BY sequence LIMIT :most"
        )
        chosen = {"shards": SHARDS, "processes": self.settings.processes, "number": self.settings.number}
        with self.store.reading() as connection:
            # From the store: a commit may have taken effect although its answer was lost.
            self.scored = self.store.scored(connection)
            least = min(self.scored[shard] for shard in self.shards)
            reached = connection.scalar(sa.select(sa.func.max(schema.rows.c.sequence))) or 0
            found = connection.execute(query, {"s": least, "most": AT_ONCE, **chosen}).all()
            if found:
                sequences, numbers, times, cells = zip(*found, strict=True)
                self._know(connection, sorted(set(numbers)))
        if not found:
            self._rest(reached, reached > least)
            return 0
        # Unless there are more, all rows up to `reached` are scored then, also if the last ones are of other shards.
        reached = sequences[-1] if len(found) == AT_ONCE else max(reached, sequences[-1])
        changes = _Changes()
        order = np.array(sequences)
        for entity, places in _by_entity(np.array(numbers)):
            new = places[order[places] > self.scored[entity % SHARDS]]  # shards of different processes before
            if len(new):
                self._push(self._entities[entity], sequences, times, cells, new, changes)
        try:
            self._write(changes, reached)
        except StoreError:
            self._lose()
            raise
        self._examine(changes)
        return len(found)

    def _rest(self, reached: int, behind: bool) -> None:
        """Bring the list of entities up to date, and record that every row up to `reached` is scored."""
        behind = behind and time.monotonic() - self._rested > IDLE
        if self._unshown or behind:
            try:
                with self.store.writing() as connection:
                    self._summarise(connection, self._next_change(connection), time.time(), 0.0)
                    self._set_scored(connection, reached)
            except StoreError:
                self._lose()
                raise
            self._rested = time.monotonic()

    def _lose(self) -> None:
        """Discard decisions that were not written; the streams restart from their stored states."""
        self._entities.clear()
        self._unshown.clear()

    def _next_change(self, connection: Connection) -> int:
        """Return the number of a change; from here to the commit, no other process writes what scoring decides. Raise
        if one has scored rows of the same shards since they were read, as one of a service that was killed may."""
        change = self.store.next_change(connection)
        scored = self.store.scored(connection)
        if any(scored[shard] != self.scored[shard] for shard in self.shards):
            raise StoreError(f"Another process has scored rows in {self.store.place}; they are read again.")
        return change

    def _set_scored(self, connection: Connection, reached: int) -> None:
        self.store.set_scored(connection, {shard: max(self.scored[shard], reached) for shard in self.shards})

    def _is_own(self, entity: Any) -> Any:
        """Return the condition that this process scores an entity, given the column of its number."""
        return entity % SHARDS % self.settings.processes == self.settings.number

    def _know(self, connection: Connection, numbers: Sequence[int]) -> None:
        """Load entities that are not in memory, and bring their streams to where the verdicts in the store end."""
        new = [number for number in numbers if number not in self._entities]
        table, state = schema.entities.c, schema.states.c
        for first in range(0, len(new), 500):
            chosen = new[first : first + 500]
            query = (
                sa.select(
                    table.id,
                    table.name,
                    table.model,
                    table.first_time,
                    state.sequence,
                    state.time,
                    state.model.label("judge"),
                    state.data,
                )
                .outerjoin(schema.states, state.entity == table.id)
                .where(table.id.in_(chosen))
            )
            for row in connection.execute(query).all():
                entity = _Entity(row.id, row.name, row.model, Pace(self.models[row.model].clock.interval))
                self._continue(connection, entity, row.first_time, row.sequence, row.time, row.judge, row.data)
                self._entities[row.id] = entity
                model = self.models[entity.model]
                if model.detector.unknown_entities([entity.name]):
                    self.misfits.append(not_learnt(entity.name, entity.model, model.folder))

    def _continue(
        self,
        connection: Connection,
        entity: _Entity,
        first: int,
        sequence: int | None,
        least: int,
        judge: str,
        data: Any,
    ) -> None:
        """Restore the stream of an entity and push the rows that it has seen since."""
        model = self.models[entity.model]
        model.stream.forget(entity.name)
        if sequence is None:
            sequence, least = 0, first - model.late
        else:
            try:
                if judge != model.digest:
                    raise DataError(f"The state of {entity.name!r} belongs to another model.")
                model.stream.restore(entity.name, bytes(data))
                entity.sequence, entity.latest = sequence, least
            except DataError:  # the state of another model, or of another version of tsadc
                entity.inherited, sequence = [], 0
                least -= AT_START * model.span
        stored = rows_between(connection, entity.id, least)
        order, scored = np.argsort(stored.sequences), self.scored[entity.id % SHARDS]
        seen = stored.at(order[(stored.sequences[order] > sequence) & (stored.sequences[order] <= scored)])
        if len(seen):
            update = model.stream.push_many(entity.name, seen.times, seen.values(len(model.variables)))
            if entity.inherited is not None:
                latest = {interval.id: interval for interval in update.intervals}
                entity.inherited = [
                    interval for interval in latest.values() if interval.open and not interval.withdrawn
                ]
            entity.sequence, entity.latest = int(seen.sequences[-1]), int(seen.times.max())
            entity.pushed = len(seen)

    def _push(
        self,
        entity: _Entity,
        sequences: Sequence[int],
        times: Sequence[int],
        cells: Sequence[bytes],
        places: NDArray[np.intp],
        changes: _Changes,
    ) -> None:
        model = self.models[entity.model]
        chosen = places.tolist()
        own_times = np.array([times[i] for i in chosen], dtype=np.int64)
        values = _values([cells[i] for i in chosen], len(model.variables))
        before = dict(model.stream.counts)
        update: StreamUpdate = model.stream.push_many(entity.name, own_times, values)
        self._compare(entity, own_times, before)
        entity.sequence = sequences[chosen[-1]]
        entity.latest = max(entity.latest, int(own_times.max()))
        entity.pushed += len(chosen)
        changes.entities[entity.id] = self._unshown[entity.id] = entity
        for verdict in update.verdicts:
            entity.verdict = verdict
            if verdict.final and verdict.anomalous and len(changes.examined) < MOST_EXAMINED:
                changes.examined.append((entity, verdict))
            changes.scores.append(
                {"entity": entity.id, "end": verdict.end, **{name: getattr(verdict, name) for name in SCORE_COLUMNS}}
            )
        if update.intervals:
            changes.intervals.append((entity, update.intervals))

    def _compare(self, entity: _Entity, times: NDArray[np.int64], before: Mapping[str, int]) -> None:
        """Note which rows do not fit the clock of their model."""
        model = self.models[entity.model]
        pace, after = model.clock.interval, model.stream.counts
        self.misfits += refused(before, after, entity.name, entity.model, pace)
        if seen := entity.pace.add(times):
            self.misfits.append(other_rate(entity.name, entity.model, seen, pace))

    def _examine(self, changes: _Changes) -> None:
        """Look at the rows of anomalous observations for a change of units."""
        for entity, verdict in changes.examined:
            model = self.models[entity.model]
            with self.store.reading() as connection:
                rows = rows_between(connection, entity.id, verdict.start, verdict.end)
            if len(rows):
                self.misfits += other_units(rows.series(entity.name, model.variables, model.clock), model.detector)

    def _write(self, changes: _Changes, reached: int) -> None:
        now = time.time()
        inheriting = [entity for entity in changes.entities.values() if entity.inherited is not None]
        due = [entity for entity in changes.entities.values() if entity.pushed >= self.models[entity.model].length]
        due.sort(key=lambda entity: -entity.pushed)
        saved = [*inheriting, *[entity for entity in due if entity.inherited is None][:MOST_STATES]]
        states = [self._state(entity) for entity in saved]
        with self.store.writing() as connection:
            change = self._next_change(connection)
            if changes.scores:
                unique = {
                    (score["entity"], score["end"]): score for score in changes.scores
                }  # the final verdict comes last
                connection.execute(
                    self.store.upsert(schema.scores, ["entity", "end"], SCORE_COLUMNS), list(unique.values())
                )
            if changes.intervals:
                self.episodes.quiet.mutes = read_mutes(connection)
            for entity in inheriting:
                self.episodes.take_over(connection, entity.id, entity.name, entity.inherited or (), change, now)
            for entity, intervals in changes.intervals:
                self.episodes.apply(connection, entity.id, entity.name, entity.model, intervals, change, now)
            self._summarise(connection, change, now, SHOWN)
            if states:
                connection.execute(
                    self.store.upsert(schema.states, ["entity"], ["sequence", "time", "model", "data"]), states
                )
            self._set_scored(connection, reached)
        for entity in saved:
            entity.pushed, entity.inherited = 0, None

    def _summarise(self, connection: Connection, change: int, now: float, least: float) -> None:
        """Bring the list of entities up to date: those with a new verdict, and those shown `least` seconds ago."""
        due = [entity for entity in self._unshown.values() if entity.verdict is not None or now - entity.shown >= least]
        for judged in (False, True):
            chosen = [_summary(entity, change, now) for entity in due if (entity.verdict is not None) is judged]
            if chosen:
                connection.execute(
                    sa.update(schema.entities).where(schema.entities.c.id == sa.bindparam("number")), chosen
                )
        for entity in due:
            entity.shown, entity.verdict = now, None
            del self._unshown[entity.id]

    def _state(self, entity: _Entity) -> dict[str, Any]:
        model = self.models[entity.model]
        least = entity.latest - model.late
        data = model.stream.state(entity.name)
        return {"entity": entity.id, "sequence": entity.sequence, "time": least, "model": model.digest, "data": data}

    def save(self) -> None:
        """Write the states of all streams, so that the next start need not push rows again."""
        changed = [entity for entity in self._entities.values() if entity.pushed]
        last = time.monotonic() + MOST_SAVING
        for first in range(0, len(changed), 100):
            if time.monotonic() > last:
                break
            states = [self._state(entity) for entity in changed[first : first + 100]]
            with self.store.writing() as connection:
                connection.execute(
                    self.store.upsert(schema.states, ["entity"], ["sequence", "time", "model", "data"]), states
                )

    def housekeeping(self) -> None:
        """Expire episodes of silent entities; delete what is older than `keep_days`, counted from now or from the
        entity's latest row, whichever is earlier, so that old history that is sent today is kept; and forget entities
        that are silent for long."""
        now = time.time()
        with self.store.writing() as connection:
            self.episodes.quiet.mutes = read_mutes(connection)

            def silent(model: str) -> float:
                return silence(self.settings.expire_minutes, self.models[model].clock.interval)

            awake = self._awake(connection, now)
            own = self._is_own(schema.episodes.c.entity)
            self.episodes.expire(connection, own, silent, awake, now, lambda: self.store.next_change(connection))
        kept = 86_400 * self.settings.keep_days
        oldest, span = now - kept, int(kept * SECOND)
        self._delete_rows(int(oldest * SECOND), span)
        entity, score, sent = schema.entities.c, schema.scores.c, schema.outbox.c
        with self.store.reading() as connection:
            known = entity.last_time.is_not(None) & self._is_own(entity.id)
            latest = connection.execute(sa.select(entity.id, entity.last_time).where(known))
            bounds = [{"e": number, "t": min(int(oldest * SECOND), last - span)} for number, last in latest]
        for first in range(0, len(bounds), 500):
            with self.store.writing() as connection:  # entity by entity, as the index of scores is by entity
                old_scores = sa.delete(schema.scores).where(
                    (score.entity == sa.bindparam("e")) & (score.end < sa.bindparam("t"))
                )
                connection.execute(old_scores, bounds[first : first + 500])
        if self.settings.number == 0:  # one process is enough, and two could wait for each other
            of_no_writer = sent.writer.not_in(self.settings.writers) & (sent.created < oldest)
            with self.store.writing() as connection:
                connection.execute(sa.delete(schema.outbox).where((sent.delivered < oldest) | of_no_writer))
        if now - awake > RETURN:
            self._forget(now)

    def _awake(self, connection: Connection, now: float) -> float:
        """Return since when no outage of this process or of its store has kept rows away, in seconds since 1970."""
        awake, looked = (f"{name} {self.settings.number}" for name in (AWAKE, LOOKED))
        if now - self.store.progress(connection, looked) > OUTAGE:
            self.store.set_progress(connection, awake, int(now))
        self.store.set_progress(connection, looked, int(now))
        return self.store.progress(connection, awake)

    def _forget(self, now: float) -> None:
        """Delete entities that have sent nothing for `forget_days`, for a few seconds at most: first their rows, which
        may be many, then the rest at once. Ingest learns of it by the counter."""
        entity, row = schema.entities.c, schema.rows.c
        with self.store.reading() as connection:
            scored = self.store.scored(connection)
        unscored = sa.select(row.entity).where(row.sequence > min(scored[shard] for shard in self.shards))
        is_silent = (
            self._is_own(entity.id)
            & (entity.last_seen < now - 86_400 * self.settings.forget_days)
            & entity.id.not_in(unscored)
            & entity.id.not_in(sa.select(schema.pending.c.entity))
        )
        query = sa.select(entity.id, entity.name, entity.model).where(is_silent)
        with self.store.reading() as connection:
            silent = connection.execute(query.limit(MOST_FORGOTTEN)).all()
        last = time.monotonic() + MOST_DELETING
        for number, name, model in silent:
            first = LEAST
            while time.monotonic() < last:
                with self.store.reading() as connection:
                    rows = rows_between(connection, number, first, most=DELETED)
                if not len(rows):
                    break
                with self.store.writing() as connection:
                    self._delete_sequences(connection, rows.sequences.tolist())
                first = int(rows.times[-1]) + 1
            else:
                return
            with self.store.writing() as connection:
                if connection.execute(query.where(entity.id == number)).one_or_none() is None:
                    continue  # it has sent a row just now
                episodes = sa.select(schema.episodes.c.id).where(schema.episodes.c.entity == number)
                connection.execute(sa.delete(schema.outbox).where(schema.outbox.c.episode.in_(episodes)))
                for table in (schema.episodes, schema.scores, schema.states, schema.proposals):
                    connection.execute(sa.delete(table).where(table.c.entity == number))
                connection.execute(sa.delete(schema.entities).where(entity.id == number))
                self.store.increase(connection, FORGOTTEN)
            self._entities.pop(number, None)
            self._unshown.pop(number, None)
            self.models[model].stream.forget(name)

    def _delete_sequences(self, connection: Connection, sequences: Sequence[int]) -> None:
        row = sa.delete(schema.rows).where(schema.rows.c.sequence == sa.bindparam("s"))
        connection.execute(row, [{"s": sequence} for sequence in sequences])

    def _delete_rows(self, oldest: int, span: int) -> None:
        """Delete old rows, for a few seconds at most. They are looked for by the index and without a lock."""
        row, state = schema.rows.c, schema.states.c
        # A row is kept as long as the state of its entity does not reflect it.
        old = (
            sa.select(row.sequence)
            .join(schema.states, state.entity == row.entity)
            .where((row.part <= part_of(oldest)) & (row.time < oldest) & (row.sequence <= state.sequence))
            .where(self._is_own(row.entity))
            .where(row.time < state.time - span)
            .order_by(row.part)
            .limit(DELETED)
        )
        last = time.monotonic() + MOST_DELETING
        while time.monotonic() < last:
            with self.store.reading() as connection:
                found = list(connection.scalars(old))
            if found:
                with self.store.writing() as connection:
                    self._delete_sequences(connection, found)
            if len(found) < DELETED:
                break


def _summary(entity: _Entity, change: int, now: float) -> dict[str, Any]:
    """Return what the list of entities shows."""
    summary = {"number": entity.id, "last_time": entity.latest, "last_seen": now, "changed": change}
    verdict = entity.verdict
    if verdict is not None:
        shown = ("score", "threshold", "severity", "anomalous", "variables")
        summary |= {name: getattr(verdict, name) for name in shown}
    return summary


def _values(cells: Sequence[bytes], width: int) -> Floats:
    return np.frombuffer(b"".join(cells), "<f8").reshape(-1, width)


def _by_entity(numbers: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Yield each entity with the places of its rows, in order."""
    order = np.argsort(numbers, kind="stable")
    borders = np.flatnonzero(np.diff(numbers[order])) + 1
    for places in np.split(order, borders):
        yield int(numbers[places[0]]), places


def _say(misfit: Misfit) -> None:
    """Report a problem to the parent."""
    print(json.dumps(misfit), flush=True)


def main() -> None:
    """Score rows until the standard input ends."""
    for number in (signal.SIGINT, signal.SIGTERM):  # sent to the whole group of processes; the parent decides
        signal.signal(number, signal.SIG_IGN)
    scoring = Scoring(Settings(**json.loads(sys.stdin.readline())))
    print("ready", flush=True)
    descriptor = sys.stdin.fileno()
    cleaned = 0.0
    while True:
        try:
            rows = scoring.step()
            if time.monotonic() - cleaned > HOUSEKEEPING:
                cleaned = time.monotonic()
                scoring.housekeeping()
            wait = PAUSE if rows else IDLE
        except StoreError as error:
            _say(Misfit("scoring", str(error)))
            wait = 1.0
        for misfit in scoring.misfits:
            _say(misfit)
        scoring.misfits.clear()
        began = time.monotonic()
        readable, _, _ = select.select([descriptor], [], [], wait)
        if readable:
            if not os.read(descriptor, 65536):
                break
            time.sleep(max(0.0, PAUSE - (time.monotonic() - began)))
    scoring.save()


if __name__ == "__main__":
    try:
        main()
    except TsadcError as error:
        sys.exit(str(error))  # without a traceback: the last line is shown to people
