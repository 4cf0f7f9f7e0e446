"""Events of episodes as text and plain data, for all writers."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable
from typing import Any

from tsadc.serve.writers import EpisodeEvent


def to_alert(events: Iterable[EpisodeEvent]) -> list[EpisodeEvent]:
    """Leave out what is muted. The end of an episode is always sent: it may have been muted after it began."""
    return [event for event in events if not event.muted or event.transition == "resolved"]


def iso(time: int) -> str:
    """Return nanoseconds since 1970 as text, in UTC with milliseconds."""
    moment = datetime.datetime.fromtimestamp(time // 10**9, datetime.UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time % 10**9 // 10**6:03d}Z"


def sentence(event: EpisodeEvent) -> str:
    """Return what happened, for a person."""
    text = event.reason or "Its values are unusual."
    return f"{event.entity}: {text}"


def blamed(event: EpisodeEvent, most: int = 5) -> str:
    """Return the variables with the largest shares, for a person."""
    return ", ".join(f"{name} ({share:.0%})" for name, share in list(event.variables.items())[:most])


def as_json(event: EpisodeEvent) -> dict[str, Any]:
    """Return an event as plain data with readable times."""
    return {
        "episode": event.id,
        "fingerprint": event.fingerprint,
        "transition": event.transition,
        "entity": event.entity,
        "start": iso(event.start),
        "end": iso(event.end),
        "severity": event.severity,
        "score": event.score if math.isfinite(event.score) else None,
        "kind": event.kind,
        "reason": event.reason,
        "variables": dict(event.variables),
        "model": event.model,
        "muted": event.muted,
    }
