"""The outbox -> writers. Each writer has a thread and sends its events in order, so a slow or dead one delays no other.

An event stays in the outbox until its writer has accepted it. After a failure the writer waits, twice as long each
time, and then tries the same events again; a receiver may therefore see an event twice, but never out of order. Events
that the receiver refuses for good are set aside for an hour, together with the later ones of the same episode, so that
they do not hold up other episodes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from tsadc.errors import TsadcError
from tsadc.serve.endpoint import Refused
from tsadc.serve.writers import DeliveryError, EpisodeEvent, Writer

log = logging.getLogger("tsadc.serve")
POLL = 0.5  # seconds between looks into an empty outbox
FIRST_WAIT, MOST_WAIT = 1.0, 300.0  # seconds after a failure
SET_ASIDE = 3600.0  # seconds
BATCH = 100  # events that are sent at once


class Outbox(Protocol):
    """What delivery needs of the store."""

    def due(self, writer: str, now: float, limit: int) -> list[tuple[int, EpisodeEvent]]: ...

    def delivered(self, numbers: Sequence[int]) -> None: ...

    def postpone(self, numbers: Sequence[int], until: float, error: str) -> None: ...

    def open_events(self, writer: str) -> list[EpisodeEvent]: ...


class Delivery:
    """Sends the events of the outbox.

    Parameters
    ----------
    outbox : Outbox
    writers : sequence of Writer
        A writer with an attribute `remind` gets the open episodes again after that many seconds.
    turns : dict of str to Lock
        A lock for each writer that has had a thread. It is shared by all deliveries of an outbox, so that a writer
        which is still busy when the next delivery begins gets no event a second time.
    complain : callable
        Called with the name of a writer and a sentence about its failure.
    """

    def __init__(
        self,
        outbox: Outbox,
        writers: Sequence[Writer],
        turns: dict[str, threading.Lock],
        complain: Callable[[str, str], None],
    ) -> None:
        self.outbox, self.writers, self.turns, self.complain = outbox, writers, turns, complain

    def run(self, stop: threading.Event) -> None:
        """Deliver until `stop` is set, and the writers that are busy then are done."""
        threads = [
            threading.Thread(target=self._serve, args=(writer, stop), name=f"writer {writer.name}", daemon=True)
            for writer in self.writers
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _serve(self, writer: Writer, stop: threading.Event) -> None:
        with self.turns.setdefault(writer.name, threading.Lock()):
            self._deliver(writer, stop)

    def _deliver(self, writer: Writer, stop: threading.Event) -> None:
        wait = FIRST_WAIT
        remind = getattr(writer, "remind", None)
        # Reminded at once: the receiver may have forgotten its alerts while the service was down.
        reminded = -float("inf")
        size = BATCH
        while not stop.is_set():
            pause = POLL
            try:
                events = self.outbox.due(writer.name, time.time(), size)
                if events:
                    failure = self._send(writer, events)
                    if failure is None:
                        wait, pause, size = FIRST_WAIT, 0.0, BATCH
                    elif isinstance(failure, Refused) and len(events) > 1:
                        pause, size = 0.0, len(events) // 2  # until the one that is refused is alone
                    elif isinstance(failure, Refused):
                        pause, size = 0.0, BATCH
                    else:
                        pause = failure.retry_after if failure.retry_after is not None else wait
                        pause, wait = min(pause, MOST_WAIT), min(2 * wait, MOST_WAIT)
                elif remind is not None and time.monotonic() - reminded >= remind:
                    if current := self.outbox.open_events(writer.name):
                        writer.send(current)
                    reminded, wait = time.monotonic(), FIRST_WAIT
            except Exception as error:  # a fault in one writer must not end its delivery
                if not isinstance(error, TsadcError):
                    log.exception("Writer %s failed", writer.name)
                self.complain(writer.name, f"The writer {writer.name!r} failed: {error}")
                pause, wait = wait, min(2 * wait, MOST_WAIT)
            if pause:
                stop.wait(pause)

    def _send(self, writer: Writer, events: Sequence[tuple[int, EpisodeEvent]]) -> DeliveryError | None:
        """Send events and enter what became of them into the outbox; return why it failed."""
        numbers = [number for number, _ in events]
        try:
            writer.send([event for _, event in events])
        except Exception as error:
            failure = error if isinstance(error, DeliveryError) else DeliveryError(f"{type(error).__name__}: {error}")
            if not isinstance(error, TsadcError):
                log.exception("Writer %s failed", writer.name)
            alone = isinstance(failure, Refused) and len(events) == 1
            # The others are due at once, and the thread waits: so they stay in order, also over a restart.
            self.outbox.postpone(numbers, time.time() + SET_ASIDE if alone else 0.0, str(failure))
            aside = f"sets aside an event of {events[0][1].entity!r} for an hour" if alone else "failed"
            self.complain(writer.name, f"The writer {writer.name!r} {aside}: {failure}")
            return failure
        self.outbox.delivered(numbers)
        return None
