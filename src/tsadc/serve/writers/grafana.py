"""Events of episodes -> annotations in Grafana, through its HTTP API.

An episode is one annotation with the tag `episode:FINGERPRINT`. It is made when the episode begins and gets its end and
its text later; it is found by its tag, so that sending an event again does not make a second one."""

from __future__ import annotations

import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tsadc.serve.endpoint import Endpoint
from tsadc.serve.writers import EpisodeEvent
from tsadc.serve.writers.event_text import blamed, sentence

PATH = "/api/annotations"
MILLISECOND = 10**6


@dataclass(frozen=True)
class Settings(Endpoint):
    """Grafana, and where the annotations are shown.

    Parameters
    ----------
    url, token_variable, timeout
        See `Endpoint`. The address without a path, such as http://localhost:3000. The token is that of a service
        account with the permission `annotations:write`.
    dashboard : str, default ""
        UID of a dashboard. Without it, annotations belong to the organisation and any dashboard can query their tags.
    tags : tuple of str, default ("tsadc",)
        Tags of all annotations.
    """

    dashboard: str = ""
    tags: tuple[str, ...] = ("tsadc",)


class Grafana:
    """Keeps one annotation per episode, also of muted ones, which get the tag `muted`."""

    def __init__(self, name: str, settings: Settings) -> None:
        self.name, self.settings = name, settings

    def send(self, events: Sequence[EpisodeEvent]) -> None:
        for event in {event.fingerprint: event for event in events}.values():
            content = annotation(event, self.settings)
            known = self._known(event)
            if known is None:
                self.settings.request(PATH, content)
            else:
                changed = {name: content[name] for name in ("time", "timeEnd", "tags", "text")}
                self.settings.request(f"{PATH}/{known}", changed, "PATCH")

    def _known(self, event: EpisodeEvent) -> int | None:
        query = urllib.parse.urlencode({"tags": f"episode:{event.fingerprint}", "limit": 1, "type": "annotation"})
        found = self.settings.request(f"{PATH}?{query}", method="GET")
        if isinstance(found, list) and found and isinstance(found[0], dict) and isinstance(found[0].get("id"), int):
            return int(found[0]["id"])
        return None


def annotation(event: EpisodeEvent, settings: Settings) -> dict[str, Any]:
    """Return an event in Grafana's format of annotations; times are milliseconds since 1970."""
    lines = [
        sentence(event),
        blamed(event),
        f"Severity {event.severity:.0f}" + (", open" * (event.transition != "resolved")),
    ]
    tags = [*settings.tags, f"entity:{event.entity}", f"episode:{event.fingerprint}", *["muted"] * event.muted]
    content: dict[str, Any] = {
        "time": event.start // MILLISECOND,
        "timeEnd": event.end // MILLISECOND,
        "tags": tags,
        "text": "\n".join(line for line in lines if line),
    }
    return {**content, "dashboardUID": settings.dashboard} if settings.dashboard else content


def create(name: str, settings: Settings) -> Grafana:
    """Return the writer."""
    settings.check(name)
    return Grafana(name, settings)
