"""What the API shows, read from the store. Times of rows are ISO 8601 in objects, and milliseconds since 1970 in the
long arrays of charts."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from tsadc.errors import DataError
from tsadc.series import Clock
from tsadc.serve import schema
from tsadc.serve.charting import MILLISECOND, Chart
from tsadc.serve.config import live_clock
from tsadc.serve.episodes import as_shown
from tsadc.serve.store import CHANGED, Store
from tsadc.serve.stored_rows import LEAST, extent

if TYPE_CHECKING:
    from tsadc.detectors.base import Detector

MOST_CHANGED = 500  # names in one message about changes
STATES = ("open", "acknowledged", "muted", "level", "ok", "unscored")  # of an entity


class NotFound(DataError):
    """There is nothing of this name."""


def iso(tick: int | None) -> str | None:
    """Return the time of a row as text, in UTC."""
    if tick is None:
        return None
    text = pd.Timestamp(tick, unit="ns", tz="UTC").isoformat().replace("+00:00", "")
    return (text.rstrip("0").rstrip(".") if "." in text else text) + "Z"


def moment(seconds: float | None) -> str | None:
    """Return a time of the service as text, in UTC."""
    return None if seconds is None else iso(round(seconds * 1000) * MILLISECOND)


def tick_of(text: str, what: str) -> int:
    """Return the nanoseconds of a time that a client gave: ISO 8601, or milliseconds since 1970."""
    try:
        if not text[:1].isdigit() and text[:1] != "-":  # pandas knows "now" and "NaT"
            raise ValueError
        stamp = pd.Timestamp(float(text), unit="ms") if _is_number(text) else pd.Timestamp(text)
        if pd.isna(stamp):
            raise ValueError
        stamp = stamp.tz_localize("UTC") if stamp.tzinfo is None else stamp.tz_convert("UTC")
        return int(stamp.as_unit("ns").value)
    except (ValueError, OverflowError, TypeError):
        shown = text[:40]
        raise DataError(f"`{what}` must be a time such as 2026-03-01T12:30:00Z, but got {shown!r}.") from None


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


@dataclass(frozen=True)
class Page:
    """Which part of a list is asked for."""

    limit: int = 100
    offset: int = 0


class Queries:
    """Reads the store for the API, and writes what people say.

    Parameters
    ----------
    store : Store
    seconds : callable, optional
        Returns `seconds` of [model.*], by the name of the model.
    """

    def __init__(self, store: Store, seconds: Callable[[str], float] = lambda _: 0.0) -> None:
        self.store, self.seconds = store, seconds
        self._detectors: dict[str, Detector] = {}
        self._loading = threading.Lock()

    def entities(self, search: str = "", state: str = "", page: Page = Page()) -> dict[str, Any]:
        """Return entities, those with the most severe open episode first, then those at a new level, how many are in
        each state, and how many proposals wait for a decision."""
        entity = _entities()
        query = sa.select(entity)
        if search:
            query = query.where(entity.c.name.icontains(search, autoescape=True))
        if state:
            if state not in STATES:
                raise DataError(f"`state` must be one of {', '.join(STATES)}, but got {state[:40]!r}.")
            query = query.where(entity.c.state == state)
        order = sa.func.coalesce(entity.c.open_severity, -1.0).desc(), sa.case((entity.c.state == "level", 0), else_=1)
        with self.store.reading() as connection:
            total = connection.scalar(sa.select(sa.func.count()).select_from(query.subquery()))
            states = connection.execute(sa.select(entity.c.state, sa.func.count()).group_by(entity.c.state)).all()
            waiting = open_proposals(connection)
            rows = connection.execute(query.order_by(*order, entity.c.name).limit(page.limit).offset(page.offset))
            found = [_entity(dict(row)) for row in rows.mappings()]
        counts = dict.fromkeys(STATES, 0) | {row.state: row[1] for row in states}
        return {"total": total, "counts": counts, "proposals": waiting, "entities": found}

    def entity(
        self, name: str, first: str | None, last: str | None, limit: int = 500, most_points: int | None = None
    ) -> dict[str, Any]:
        """Return one entity with its latest scores, oldest first; those that end in a period, if one is given. With
        `most_points`, all scores of the period: if there are more, each point is the highest of several."""
        entity, score = _entities(), schema.scores.c
        with self.store.reading() as connection:
            row = connection.execute(sa.select(entity).where(entity.c.name == name)).mappings().one_or_none()
            if row is None:
                raise NotFound(f"There is no entity {name[:200]!r}.")
            chosen = score.entity == row["id"]
            if first:
                chosen &= score.end > tick_of(first, "from")
            if last:
                chosen &= score.start < tick_of(last, "to")
            if most_points is None:
                query = sa.select(schema.scores).where(chosen).order_by(score.end.desc()).limit(limit)
                scores = connection.execute(query).mappings().all()[::-1]
                total = len(scores)
            else:
                final = sa.select(score.end).where((score.entity == row["id"]) & score.final)
                settled = connection.scalar(final.order_by(score.end.desc()).limit(1))
                if settled is not None:  # provisional verdicts before that are superseded
                    chosen &= score.final | (score.end > settled)
                extremes = sa.select(sa.func.count(), sa.func.min(score.end), sa.func.max(score.end)).where(chosen)
                total, least, most = connection.execute(extremes).one()
                query = sa.select(schema.scores).where(chosen).order_by(score.end)
                if total > most_points:
                    query = _highest(chosen, least, (most - least) // most_points + 1)
                scores = connection.execute(query).mappings().all()
        chart = {
            "start": [verdict["start"] / MILLISECOND for verdict in scores],
            "end": [verdict["end"] / MILLISECOND for verdict in scores],
            **{
                column: [verdict[column] for verdict in scores]
                for column in ("score", "threshold", "anomalous", "severity", "final")
            },
        }
        model = self.models(row["model"])
        return {
            **_entity(dict(row)),
            "names": model[0]["variables"] if model else [],
            "verdicts": total,
            "scores": chart,
        }

    def rows(
        self, name: str, first: str | None, last: str | None, most_points: int, chosen: Sequence[str]
    ) -> dict[str, Any]:
        """Return the values of an entity with the usual band. If there are more rows than points, each point has the
        lowest and the highest value of several rows."""
        entity = schema.entities.c
        with self.store.reading() as connection:
            row = connection.execute(sa.select(schema.entities).where(entity.name == name)).mappings().one_or_none()
            if row is None:
                raise NotFound(f"There is no entity {name[:200]!r}.")
            detector, clock = self._detector(row["model"])
            unknown = [variable for variable in chosen if variable not in detector.variables_]
            if unknown:
                raise DataError(f"The model has no variable {unknown[0][:200]!r}.")
            end = tick_of(last, "to") if last else _latest(connection, dict(row)) + 1
            usual = end - 4 * detector.settings.length * clock.interval
            start = max(tick_of(first, "from") if first else usual, LEAST + 1)  # LEAST is NaT
            shown = list(dict.fromkeys(chosen)) or detector.variables_
            found = Chart(detector, clock, name, shown, most_points).read(connection, row["id"], start, end)
        return {
            "entity": name,
            "from": iso(start),
            "to": iso(end),
            "interval": clock.interval / MILLISECOND,
            **found,
        }

    def _detector(self, model: str) -> tuple[Detector, Clock]:
        """Return the model in use, loaded when it is first needed."""
        from tsadc.detectors.store import load

        current = self.models(model)
        if not current:
            raise NotFound(f"There is no model {model!r}.")
        key = str(current[0]["digest"])
        with self._loading:
            if key not in self._detectors:
                self._detectors = {key: load(Path(current[0]["folder"])), **dict(list(self._detectors.items())[:3])}
            detector = self._detectors[key]
        return detector, live_clock(model, detector.clock_, self.seconds(model))

    def episodes(
        self,
        entity: str = "",
        state: str = "",
        page: Page = Page(),
    ) -> dict[str, Any]:
        """Return episodes, the latest first."""
        episode, owner = schema.episodes.c, schema.entities.c
        query = sa.select(schema.episodes, owner.name).join(schema.entities, owner.id == episode.entity)
        if entity:
            query = query.where(owner.name == entity)
        if state == "acknowledged":
            query = query.where((episode.state == "open") & episode.acknowledged.is_not(None))
        elif state in ("open", "resolved", "expired"):
            query = query.where(episode.state == state)
        elif state:
            raise DataError(f"`state` must be open, acknowledged, resolved or expired, but got {state[:40]!r}.")
        with self.store.reading() as connection:
            total = connection.scalar(sa.select(sa.func.count()).select_from(query.subquery()))
            ordered = query.order_by(episode.start.desc(), episode.id).limit(page.limit).offset(page.offset)
            return {"total": total, "episodes": [_episode(dict(row)) for row in connection.execute(ordered).mappings()]}

    def episode(self, name: str) -> dict[str, Any]:
        """Return one episode."""
        episode, owner = schema.episodes.c, schema.entities.c
        query = sa.select(schema.episodes, owner.name).join(schema.entities, owner.id == episode.entity)
        with self.store.reading() as connection:
            row = connection.execute(query.where(episode.id == name)).mappings().one_or_none()
        if row is None:
            raise NotFound(f"There is no episode {name[:200]!r}.")
        return _episode(dict(row))

    def acknowledge(self, name: str, by: str) -> dict[str, Any]:
        """Say that somebody takes care of an episode."""
        return self._say(name, acknowledged=time.time(), acknowledged_by=by)

    def judge(self, name: str, verdict: str, note: str, by: str) -> dict[str, Any]:
        """Keep the verdict of a person about an episode."""
        return self._say(name, verdict=verdict, verdict_note=note, verdict_by=by, verdict_time=time.time())

    def _say(self, name: str, **values: Any) -> dict[str, Any]:
        with self.store.writing() as connection:
            change = self.store.next_change(connection)
            update = sa.update(schema.episodes).where(schema.episodes.c.id == name).values(**values, changed=change)
            connection.execute(update)
        return self.episode(name)

    def mutes(self) -> list[dict[str, Any]]:
        """Return the mutes, latest first."""
        with self.store.reading() as connection:
            rows = connection.execute(sa.select(schema.mutes).order_by(schema.mutes.c.id.desc())).mappings().all()
        return [{**row, "until": moment(row["until"]), "created": moment(row["created"])} for row in rows]

    def mute(self, entity: str, variable: str, until: float | None, note: str, by: str) -> dict[str, Any]:
        """Add a mute."""
        now = time.time()
        values = {"entity": entity, "variable": variable, "until": until, "note": note, "by": by, "created": now}
        with self.store.writing() as connection:
            number = connection.execute(
                sa.insert(schema.mutes).values(**values).returning(schema.mutes.c.id)
            ).scalar_one()
        return {"id": number, **values, "until": moment(until), "created": moment(now)}

    def unmute(self, number: int) -> None:
        """Remove a mute."""
        with self.store.writing() as connection:
            if not connection.execute(sa.delete(schema.mutes).where(schema.mutes.c.id == number)).rowcount:
                raise NotFound(f"There is no mute {number}.")

    def models(self, name: str = "") -> list[dict[str, Any]]:
        """Return the history of models, those in use first."""
        table = schema.models.c
        query = sa.select(schema.models).order_by(sa.case((table.state == "current", 0), else_=1), table.id.desc())
        with self.store.reading() as connection:
            rows = connection.execute(query.where(table.name == name) if name else query).mappings().all()
        return [{**row, "since": moment(row["since"]), "until": moment(row["until"])} for row in rows]

    def changes(self, since: int | None) -> dict[str, Any] | None:
        """Return the entities and episodes that have changed; None if nothing has. Without `since`, only the number of
        the latest change."""
        entity, episode = schema.entities.c, schema.episodes.c
        with self.store.reading() as connection:
            number = self.store.progress(connection, CHANGED)
            if since is None:
                return {"number": number, "entities": [], "episodes": [], "more": False}
            if number == since:
                return None
            changed = sa.select(entity.name).where(entity.changed > since).limit(MOST_CHANGED + 1)
            names = list(connection.scalars(changed))
            ids = list(connection.scalars(sa.select(episode.id).where(episode.changed > since).limit(MOST_CHANGED + 1)))
        more = max(len(names), len(ids)) > MOST_CHANGED
        return {"number": number, "entities": names[:MOST_CHANGED], "episodes": ids[:MOST_CHANGED], "more": more}


def _entities() -> sa.Subquery:
    """Return all entities with their state, their worst open episode, and the start of a new level if its proposal is
    open. Muted episodes count only if every open episode of the entity is muted."""
    entity, episode = schema.entities.c, schema.episodes.c
    loud = episode.muted.is_(False)
    open_ = (
        sa.select(
            episode.entity,
            sa.func.sum(sa.case((loud, 1), else_=0)).label("open_episodes"),
            sa.func.sum(sa.case((loud & episode.acknowledged.is_(None), 1), else_=0)).label("unseen"),
            sa.func.max(sa.case((loud, episode.severity))).label("open_severity"),
        )
        .where(episode.state == "open")
        .group_by(episode.entity)
        .subquery()
    )
    proposal = schema.proposals.c
    level = (
        sa.select(proposal.entity, sa.func.max(proposal.since).label("level_since"))
        .where(proposal.state == "open")
        .group_by(proposal.entity)
        .subquery()
    )
    state = sa.case(
        (open_.c.entity.is_(None) & level.c.entity.is_not(None), "level"),
        (open_.c.entity.is_(None) & entity.score.is_(None), "unscored"),
        (open_.c.entity.is_(None), "ok"),
        (open_.c.unseen > 0, "open"),
        (open_.c.open_episodes > 0, "acknowledged"),
        else_="muted",
    )
    known = (schema.entities, open_.c.open_episodes, open_.c.open_severity, level.c.level_since)
    query = sa.select(*known, state.label("state")).outerjoin(open_, open_.c.entity == entity.id)
    return query.outerjoin(level, level.c.entity == entity.id).subquery()


def open_proposals(connection: Connection) -> int:
    """Return how many proposals of a new normal wait for a decision."""
    query = sa.select(sa.func.count()).where(schema.proposals.c.state == "open").select_from(schema.proposals)
    return connection.scalar(query) or 0


def _highest(chosen: sa.ColumnElement[bool], least: int, size: int) -> sa.Select[Any]:
    """Return the verdicts that lie furthest above their thresholds, one for each `size` of time from `least` on, with
    the beginning and the end of all that they stand for; provisional ones apart from final ones."""
    score = schema.scores.c
    point = (score.final, (score.end - least) // size)
    excess = score.score - score.threshold
    ranked = (
        sa.select(
            *(score[name] for name in ("score", "threshold", "anomalous", "severity", "final")),
            sa.func.min(score.start).over(partition_by=point).label("start"),
            sa.func.max(score.end).over(partition_by=point).label("end"),
            sa.func.row_number().over(partition_by=point, order_by=excess.desc()).label("rank"),
        )
        .where(chosen)
        .subquery()
    )
    return sa.select(ranked).where(ranked.c.rank == 1).order_by(ranked.c.end)


def _entity(row: Mapping[str, Any]) -> dict[str, Any]:
    kept = ("name", "model", "state", "open_severity", "score", "threshold", "severity", "anomalous")
    return {
        **{name: row[name] for name in kept},
        "open_episodes": int(row["open_episodes"] or 0),
        "level_since": iso(row["level_since"]),
        "last_time": iso(row["last_time"]),
        "last_seen": moment(row["last_seen"]),
        "variables": row["variables"] or {},
    }


def _episode(row: Mapping[str, Any]) -> dict[str, Any]:
    kept = (
        *("id", "interval", "model", "score", "severity", "alarm_score", "alarm_severity", "present_score", "kind"),
        *("reason", "evidence", "variables", "return_period", "withdrawn", "muted", "acknowledged_by"),
        *("verdict", "verdict_note", "verdict_by"),
    )
    return {
        "entity": row["name"],
        "state": as_shown(row),
        **{name: iso(row[name]) for name in ("start", "end", "alarm_time")},
        **{name: moment(row[name]) for name in ("opened", "resolved", "acknowledged", "verdict_time")},
        **{name: row[name] for name in kept},
    }


def _latest(connection: Connection, entity: Mapping[str, Any]) -> int:
    """Return the time of the latest row of an entity, also if it is not scored yet."""
    known = entity["first_time"] if entity["last_time"] is None else entity["last_time"]
    newer = extent(connection, entity["id"], known)
    return known if newer is None else newer.last
