"""Destinations of alerts: each sends the changes of episodes to one kind of receiver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from tsadc.errors import TsadcError

Transition = Literal["opened", "updated", "resolved"]


class DeliveryError(TsadcError):
    """A receiver did not accept events. `retry_after` is in how many seconds it asks to be tried again, None if it did
    not say."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


@dataclass(frozen=True)
class EpisodeEvent:
    """One change of an episode, as it is sent to a receiver.

    Attributes
    ----------
    id : str
        Name of the episode.
    fingerprint : str
        Equal for all events of an episode, so that a receiver can join them.
    transition : {"opened", "updated", "resolved"}
    entity : str
    start, end : int
        Nanoseconds since 1970 in UTC; `end` is exclusive, and grows while the episode is open.
    severity : float
        From 0 to 100.
    score : float
        The highest score of the episode at the time of the event.
    kind, reason : str
        What kind of anomaly it is, and why, as one sentence.
    variables : dict of str to float
        The blamed variables with their shares, largest first.
    model : str
        Name of the model.
    muted : bool
        Whether a mute or a calendar covers the episode; writers of alerts skip it, unless it has ended.
    """

    id: str
    fingerprint: str
    transition: Transition
    entity: str
    start: int
    end: int
    severity: float
    score: float
    kind: str = ""
    reason: str = ""
    variables: Mapping[str, float] = field(default_factory=dict)
    model: str = ""
    muted: bool = False


class Writer(Protocol):
    """A receiver of events. `send` returns when all of them were accepted and raises `DeliveryError` otherwise; the
    same events may be sent again after an error."""

    name: str

    def send(self, events: Sequence[EpisodeEvent]) -> None: ...
