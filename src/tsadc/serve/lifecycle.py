"""The life of an episode: intervals of a stream -> episodes as people handle them, in memory.

    state      meaning
    open       the anomaly goes on; "acknowledged" if somebody has said so
    resolved   it ended, or the final verdict did not confirm it (`withdrawn`)
    expired    its entity stopped sending rows

An interval is first provisional; the final interval that confirms it continues the same episode. The score and severity
at the time of the alarm stay beside the latest ones. `episodes.py` keeps episodes in the store, `backtest.py` replays
them over history, by the same rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd

from tsadc.io.calendar import Calendar
from tsadc.series import Clock
from tsadc.serve.patterns import matches
from tsadc.serve.writers import Transition

if TYPE_CHECKING:
    from tsadc.detectors.streaming import LiveInterval

STEP = 10.0  # severity by which an open episode must rise to be announced again
SILENT = 3  # rows that fail to come before an entity counts as silent, at least
SECOND = 10**9
Episode = dict[str, Any]
Emit = Callable[[Episode, Transition], None]


@dataclass(frozen=True)
class Mute:
    """Alerts of entities and variables that match patterns are not sent. `until` is in seconds, None without end."""

    entity: str
    variable: str
    until: float | None

    def covers(self, entity: str, variables: Iterable[str], now: float) -> bool:
        """Return whether an episode is muted. If the mute names a variable, all blamed variables must match."""
        if (self.until is not None and now >= self.until) or not matches(entity, self.entity):
            return False
        blamed = list(variables)
        return self.variable in ("", "*") or (bool(blamed) and all(matches(name, self.variable) for name in blamed))


@dataclass
class Quiet:
    """When alerts are not sent: mutes, and planned work."""

    mutes: Sequence[Mute] = ()
    calendar: Calendar = field(default_factory=Calendar)

    def covers(self, entity: str, start: int, end: int, variables: Sequence[str], now: float) -> bool:
        """Return whether an episode is muted; by planned work, if that overlaps it."""
        if any(mute.covers(entity, variables, now) for mute in self.mutes):
            return True
        clock = Clock(0, 1, dated=True)
        for entry in self.calendar.entries:
            rows = entry.rows(clock) if entry.entity in ("", "*", entity) else None
            about = not entry.variables or (bool(variables) and set(variables) <= set(entry.variables))
            if rows is not None and about and rows[0] < end and rows[1] > start:
                return True
        return False


def silence(expire_minutes: float, interval: int) -> float:
    """Return after how many seconds without a row the episodes of an entity expire; `interval` is that of its rows in
    nanoseconds."""
    return max(60 * expire_minutes, SILENT * interval / SECOND)


def advance(
    known: dict[str, Episode],
    intervals: Sequence[LiveInterval],
    name: str,
    model: str,
    quiet: Quiet,
    now: float,
    emit: Emit,
) -> dict[str, Episode]:
    """Bring the episodes of an entity up to date with intervals, in the order in which the stream gave them.

    Parameters
    ----------
    known : dict
        The episodes that these intervals may continue, by the `id` of their latest interval. It is brought up to date.
    intervals : sequence of LiveInterval
    name, model : str
        The entity and its model.
    quiet : Quiet
    now : float
        In seconds since 1970.
    emit : callable
        Called with an episode and what has happened to it.

    Returns
    -------
    dict
        The episodes that are new or have changed, by their own `id`.
    """
    changed: dict[str, Episode] = {}
    for interval in intervals:
        before = [known.pop(key) for key in (interval.id, *interval.replaces) if key in known]
        if not before and interval.withdrawn:
            continue
        for surplus in before[1:]:  # several provisional intervals have become one
            end(surplus, now, withdrawn=True)
            emit(surplus, "resolved")
            changed[surplus["id"]] = surplus
        episode = before[0] if before else _new(model, interval, now)
        state = episode["state"] if before else None
        _update(episode, interval, now)
        opened = state is None or (state == "expired" and episode["state"] == "open")
        episode["muted"] = quiet.covers(name, episode["start"], episode["end"], list(episode["variables"]), now)
        if opened:
            episode["announced"] = episode["severity"]
            emit(episode, "opened")
        if episode["state"] == "resolved" and state in (None, "open"):
            emit(episode, "resolved")
        elif not opened and episode["severity"] >= episode["announced"] + STEP:
            episode["announced"] = episode["severity"]
            emit(episode, "updated")
        known[interval.id] = changed[episode["id"]] = episode
    return changed


def expire(episode: Episode, now: float) -> None:
    """End an episode whose entity is silent."""
    episode |= {"state": "expired", "resolved": now}


def _new(model: str, interval: LiveInterval, now: float) -> Episode:
    return {
        "id": interval.id,
        "model": model,
        "start": interval.start,
        "state": "open",
        "alarm_score": interval.score,
        "alarm_severity": interval.severity,
        "alarm_time": interval.end,
        "opened": now,
        "resolved": None,
        "events": 0,
        "withdrawn": False,
        "severity": 0.0,
    }


def _update(episode: Episode, interval: LiveInterval, now: float) -> None:
    """Take over what the stream says now."""
    if interval.withdrawn:
        episode["interval"] = interval.id
        end(episode, now, withdrawn=True)
        return
    ended = not interval.open and not interval.provisional
    episode |= {
        "interval": interval.id,
        "state": "resolved" if ended else "open",
        "resolved": (episode["resolved"] or now) if ended else None,
        "start": interval.start,
        "end": interval.end,
        "score": interval.score,
        "severity": interval.severity,
        "kind": interval.kind,
        "reason": interval.reason,
        "evidence": interval.evidence,
        "variables": dict(interval.variables),
        "return_period": _seconds(interval.return_period),
        "withdrawn": False,
    }


def end(episode: Episode, now: float, withdrawn: bool) -> None:
    """End an episode."""
    episode |= {"state": "resolved", "resolved": episode["resolved"] or now, "withdrawn": withdrawn}


def _seconds(period: pd.Timedelta | float) -> float | None:
    seconds = period.total_seconds() if isinstance(period, pd.Timedelta) else float(period)
    return seconds if math.isfinite(seconds) else None
