"""Episodes in the store, and the events that writers are sent. `lifecycle.py` has the rules."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from tsadc.serve import schema
from tsadc.serve.lifecycle import Episode, Mute, Quiet, advance, end, expire
from tsadc.serve.store import Store
from tsadc.serve.writers import EpisodeEvent, Transition

if TYPE_CHECKING:
    from tsadc.detectors.streaming import LiveInterval

# The columns that scoring writes: those that stay as they are, and those that change. The others belong to people.
FIXED = ("id", "entity", "model", "alarm_score", "alarm_severity", "alarm_time", "opened")
WRITTEN = (
    *("interval", "state", "start", "end", "score", "severity", "resolved", "events", "announced", "kind", "reason"),
    *("evidence", "variables", "return_period", "withdrawn", "muted", "changed"),
)


class Episodes:
    """The episodes of all entities, changed within the transaction of scoring.

    Parameters
    ----------
    store : Store
    writers : sequence of str
        Names of the writers that are sent events.
    quiet : Quiet
    """

    def __init__(self, store: Store, writers: Sequence[str], quiet: Quiet) -> None:
        self.store, self.writers, self.quiet = store, writers, quiet

    def apply(
        self,
        connection: Connection,
        entity: int,
        name: str,
        model: str,
        intervals: Sequence[LiveInterval],
        change: int,
        now: float,
    ) -> None:
        """Bring the episodes of an entity up to date with intervals, in the order in which the stream gave them."""
        names = {key for interval in intervals for key in (interval.id, *interval.replaces)}
        table = schema.episodes.c
        query = sa.select(schema.episodes).where((table.entity == entity) & table.interval.in_(names))
        known = {row["interval"]: dict(row) for row in connection.execute(query).mappings()}
        taken = set(connection.scalars(sa.select(table.id).where(table.id.in_(names))))
        events: list[Episode] = []

        def emit(episode: Episode, transition: Transition) -> None:
            events.extend(self._events(episode, name, transition, now))

        changed = advance(known, intervals, name, model, self.quiet, now, emit, taken)
        self._write(
            connection, [{**episode, "entity": entity, "changed": change} for episode in changed.values()], events
        )

    def _write(self, connection: Connection, episodes: Sequence[Episode], events: Sequence[Episode]) -> None:
        if episodes:
            chosen = [{name: episode[name] for name in (*FIXED, *WRITTEN)} for episode in episodes]
            connection.execute(self.store.upsert(schema.episodes, ["id"], WRITTEN), chosen)
        if events:
            connection.execute(self.store.upsert(schema.outbox, ["writer", "episode", "number"], []), events)

    def take_over(
        self,
        connection: Connection,
        entity: int,
        name: str,
        intervals: Sequence[LiveInterval],
        change: int,
        now: float,
    ) -> None:
        """Let open episodes of a former model go on as the open `intervals` of the present one that they overlap; end
        the others."""
        table = schema.episodes.c
        query = sa.select(schema.episodes).where((table.entity == entity) & (table.state == "open"))
        events: list[Episode] = []
        changed = []
        for row in connection.execute(query.order_by(table.start)).mappings().all():
            episode = {**row, "changed": change}
            same = [
                interval
                for interval in intervals
                if interval.start < episode["end"] and interval.end > episode["start"]
            ]
            if same:
                episode["interval"] = same[0].id
                intervals = [interval for interval in intervals if interval is not same[0]]
            else:
                end(episode, now, withdrawn=False)
                events += self._events(episode, name, "resolved", now)
            changed.append(episode)
        self._write(connection, changed, events)

    def expire(
        self,
        connection: Connection,
        own: sa.ColumnElement[bool],
        silence: Callable[[str], float],
        awake: float,
        now: float,
        change: Callable[[], int],
    ) -> None:
        """Expire open episodes of entities that have sent nothing for the `silence` of their model, in seconds, and
        announce those whose mute has ended; of all episodes, those that `own` selects. The time before `awake`, when
        the service itself was away, does not count."""
        table, entity = schema.episodes.c, schema.entities.c
        query = (
            sa.select(schema.episodes, entity.name, entity.last_seen)
            .join(schema.entities, entity.id == table.entity)
            .where((table.state == "open") & own)
        )
        events: list[Episode] = []
        changed = []
        for row in connection.execute(query).mappings().all():
            episode = dict(row)
            name, seen = episode.pop("name"), episode.pop("last_seen")
            start, stop, variables = episode["start"], episode["end"], list(episode["variables"])
            muted = self.quiet.covers(name, episode["model"], start, stop, variables, now)
            if max(seen or 0.0, awake) < now - silence(episode["model"]):
                expire(episode, now)
                events += self._events(episode, name, "resolved", now)
            elif muted != episode["muted"]:
                episode["muted"] = muted
                if not muted:
                    events += self._events(episode, name, "opened", now)
            else:
                continue
            changed.append({**episode, "changed": change()})
        self._write(connection, changed, events)

    def _events(self, episode: Episode, entity: str, transition: Transition, now: float) -> list[Episode]:
        """Return the event of a transition, for every writer. Each has a number of its own, so that none is doubled."""
        event = EpisodeEvent(
            id=episode["id"],
            fingerprint=episode["id"],
            transition=transition,
            entity=entity,
            **{
                name: episode[name]
                for name in ("start", "end", "severity", "score", "kind", "reason", "variables", "model")
            },
            muted=episode["muted"],
        )
        number = episode["events"]
        episode["events"] += 1
        content = asdict(event)
        shared = {
            "episode": episode["id"],
            "transition": transition,
            "number": number,
            "event": content,
            "created": now,
        }
        return [{"writer": writer, **shared} for writer in self.writers]


def read_mutes(connection: Connection) -> list[Mute]:
    """Return the mutes that are in force."""
    table = schema.mutes.c
    in_force = table.until.is_(None) | (table.until > time.time())
    rows = connection.execute(sa.select(table.entity, table.variable, table.until).where(in_force))
    return [Mute(*row) for row in rows]


def as_shown(row: Mapping[str, Any]) -> str:
    """Return the state of an episode as people see it."""
    return "acknowledged" if row["state"] == "open" and row["acknowledged"] is not None else str(row["state"])
