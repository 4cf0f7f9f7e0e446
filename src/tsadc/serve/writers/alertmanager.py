"""Events of episodes -> alerts of Prometheus Alertmanager, through its API of version 2.

An alert is known by its labels, so they never change during an episode: `alertname`, `entity`, `model` and `episode`,
the fingerprint of the episode. What changes (severity, reason, blamed variables) is in the annotations. Alertmanager
drops an alert that is not repeated; therefore open episodes are sent again every `remind` seconds, with an end that
lies four times as far ahead. If the service ends, its alerts resolve by themselves after that."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tsadc.config import require
from tsadc.serve.endpoint import Endpoint
from tsadc.serve.writers import EpisodeEvent
from tsadc.serve.writers.event_text import blamed, iso, sentence, to_alert

PATH = "/api/v2/alerts"
SECOND = 10**9
OWN_LABELS = ("alertname", "entity", "model", "episode")


@dataclass(frozen=True)
class Settings(Endpoint):
    """Alertmanager, and the labels of its alerts.

    Parameters
    ----------
    url, token_variable, timeout
        See `Endpoint`. The address without a path, such as http://localhost:9093.
    alertname : str, default "Anomaly"
        Label `alertname` of all alerts.
    labels : tuple of pairs
        Further labels, such as ``[["team", "plant"]]``, for the routes of Alertmanager.
    page : str, default ""
        Address of the service's page, for links in notifications.
    remind : float, default 60
        Seconds after which open episodes are sent again.
    """

    alertname: str = "Anomaly"
    labels: tuple[tuple[str, str], ...] = ()
    page: str = ""
    remind: float = 60.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require(bool(self.alertname), "alertname", "a name", self.alertname)
        require(1 <= self.remind <= 3600, "remind", "from 1 to 3600 seconds", self.remind)
        for name, _ in self.labels:
            usable = name.isidentifier() and name.isascii() and name not in OWN_LABELS
            require(usable, "labels", f"pairs of a name like team, not {', '.join(OWN_LABELS)}, and a text", name)


class Alertmanager:
    """Sends events as alerts. Of muted episodes, only the end is sent, as they may have been announced before."""

    def __init__(self, name: str, settings: Settings) -> None:
        self.name, self.settings = name, settings
        self.remind = settings.remind

    def send(self, events: Sequence[EpisodeEvent]) -> None:
        latest = {event.fingerprint: event for event in to_alert(events)}  # an alert has one state
        if latest:
            now = time.time_ns()
            self.settings.request(PATH, [alert(event, self.settings, now) for event in latest.values()])


def alert(event: EpisodeEvent, settings: Settings, now: int) -> dict[str, Any]:
    """Return an event as Alertmanager takes it. `now` is in nanoseconds since 1970."""
    resolved = event.transition == "resolved"
    # An alert may not end before it starts, and one that ends in the future is not resolved.
    start = min(event.start, now - SECOND)
    end = max(min(event.end, now), start + 1) if resolved else now + int(4 * settings.remind * SECOND)
    annotations = {
        "summary": sentence(event),
        "severity": f"{event.severity:.0f}",
        "score": f"{event.score:.4g}",
        "kind": event.kind,
        "variables": blamed(event),
        "start": iso(event.start),
    }
    found: dict[str, Any] = {
        "labels": {
            "alertname": settings.alertname,
            "entity": event.entity,
            "model": event.model,
            "episode": event.fingerprint,
            **dict(settings.labels),
        },
        "annotations": {name: text for name, text in annotations.items() if text},
        "startsAt": iso(start),
        "endsAt": iso(end),
    }
    found["labels"] = {name: text for name, text in found["labels"].items() if text}
    if settings.page:
        found["generatorURL"] = settings.page
    return found


def create(name: str, settings: Settings) -> Alertmanager:
    """Return the writer."""
    settings.check(name)
    return Alertmanager(name, settings)
