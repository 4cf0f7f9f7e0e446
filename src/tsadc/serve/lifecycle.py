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
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tsadc.detectors.interval_id import interval_id
from tsadc.io.calendar import ANY, Calendar, Planned
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


@dataclass(frozen=True)
class _Plan:
    """The entries of a calendar in order of time, in nanoseconds since 1970 in UTC. Their times are converted once, as
    that takes 10 µs each, and an event that is repeated daily without end has thousands."""

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    entries: Sequence[Planned]

    @classmethod
    def of(cls, calendar: Calendar, zone: str | None) -> _Plan:
        """Return the entries with dates; those without a time zone are in `zone`."""
        clock = Clock(0, 1, dated=True, timezone=zone)
        dated = [(rows, entry) for entry in calendar.entries if (rows := entry.rows(clock)) is not None]
        dated.sort(key=lambda timed: timed[0])
        spans = np.array([rows for rows, _ in dated], dtype=np.int64).reshape(-1, 2)
        return cls(spans[:, 0], spans[:, 1], [entry for _, entry in dated])

    def overlap(self, entity: str, variables: Sequence[str], start: int, end: int) -> int:
        """Return how many nanoseconds of [start, end) are planned work on an entity and all of these variables."""
        total, reached = 0, start
        for i in np.flatnonzero((self.starts < end) & (self.ends > start)).tolist():
            entry = self.entries[i]
            about = not entry.variables or (bool(variables) and set(variables) <= set(entry.variables))
            if about and entry.entity in (*ANY, entity):
                stop = min(int(self.ends[i]), end)
                total += max(stop - max(int(self.starts[i]), reached), 0)
                reached = max(reached, stop)
        return total


@dataclass
class Quiet:
    """When alerts are not sent: mutes, and planned work. `zones` has the time zone of each model's data, which
    applies to calendar entries without one; UTC for models that it lacks."""

    mutes: Sequence[Mute] = ()
    calendar: Calendar = field(default_factory=Calendar)
    zones: Mapping[str, str | None] = field(default_factory=dict)
    _plans: dict[str | None, _Plan] = field(default_factory=dict, init=False, repr=False)

    def covers(self, entity: str, model: str, start: int, end: int, variables: Sequence[str], now: float) -> bool:
        """Return whether an episode is muted: by a mute, or by planned work during at least half of it. So one that
        begins in the work and goes on is announced."""
        if any(mute.covers(entity, variables, now) for mute in self.mutes):
            return True
        zone = self.zones.get(model)
        if zone not in self._plans:
            self._plans[zone] = _Plan.of(self.calendar, zone)
        planned = self._plans[zone].overlap(entity, variables, start, end)
        return planned > 0 and 2 * planned >= end - start


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
    taken: Container[str] = (),
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
    taken : container of str
        Names that a new episode cannot have, because others have them.

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
        episode = before[0] if before else _new(name, model, interval, now, taken)
        state, was_muted = (episode["state"], episode["muted"]) if before else (None, False)
        _update(episode, interval, now)
        blamed = list(episode["variables"])
        episode["muted"] = quiet.covers(name, model, episode["start"], episode["end"], blamed, now)
        again = state not in (None, "open") and episode["state"] == "open"
        unmuted = state == "open" and was_muted and not episode["muted"] and not interval.withdrawn
        opened = state is None or again or unmuted
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


def _new(name: str, model: str, interval: LiveInterval, now: float, taken: Container[str]) -> Episode:
    # Names of intervals are short, so that two entities may have the same.
    own = f"{interval.id}-{interval_id(name, interval.start)}" if interval.id in taken else interval.id
    return {
        "id": own,
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
