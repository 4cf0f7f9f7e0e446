"""Events of episodes -> a POST request with JSON to any address."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tsadc.serve.endpoint import Endpoint
from tsadc.serve.writers import EpisodeEvent
from tsadc.serve.writers.event_text import as_json, to_alert


@dataclass(frozen=True)
class Settings(Endpoint):
    """A receiver of `{"events": [...]}`; see `Endpoint` for the parameters."""


class Webhook:
    """Sends events; an answer with a status of 200 to 299 means that they were accepted.

    The same event may come twice after a failure; `fingerprint` and `transition` show it. Of muted episodes,
    only the end is sent, as they may have been announced before.
    """

    def __init__(self, name: str, settings: Settings) -> None:
        self.name, self.settings = name, settings

    def send(self, events: Sequence[EpisodeEvent]) -> None:
        if content := [as_json(event) for event in to_alert(events)]:
            self.settings.request(content={"events": content})


def create(name: str, settings: Settings) -> Webhook:
    """Return the writer."""
    settings.check(name)
    return Webhook(name, settings)
