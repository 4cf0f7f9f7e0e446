"""Events reach each writer in order, whatever becomes of the other writers."""

import threading
import time
from collections.abc import Callable, Sequence

import pytest

from serve.programs import wait_until
from serve.test_writers import event
from tsadc.serve import delivery
from tsadc.serve.delivery import Delivery
from tsadc.serve.endpoint import Refused
from tsadc.serve.writers import DeliveryError, EpisodeEvent


class Outbox:
    """An outbox in memory: for each writer, events by number."""

    def __init__(self, events: Sequence[EpisodeEvent], writers: Sequence[str]) -> None:
        self.waiting = {writer: dict(enumerate(events)) for writer in writers}
        self.later: dict[tuple[str, int], float] = {}
        self.errors: list[str] = []
        self.open: list[EpisodeEvent] = []
        self.asked: dict[str, str] = {}  # by thread
        self.broken = False

    def due(self, writer: str, now: float, limit: int) -> list[tuple[int, EpisodeEvent]]:
        if self.broken:
            raise RuntimeError("the store is away")
        self.asked[threading.current_thread().name] = writer
        due = [(n, item) for n, item in self.waiting[writer].items() if self.later.get((writer, n), 0) <= now]
        return due[:limit]

    def delivered(self, numbers: Sequence[int]) -> None:
        writer = self.asked[threading.current_thread().name]
        for number in numbers:
            del self.waiting[writer][number]

    def postpone(self, numbers: Sequence[int], until: float, error: str) -> None:
        writer = self.asked[threading.current_thread().name]
        self.errors.append(error)
        self.later.update({(writer, number): until for number in numbers})

    def open_events(self, writer: str) -> list[EpisodeEvent]:
        return self.open


class Writer:
    """Notes what it gets, and fails as often as `failures` says."""

    def __init__(self, name: str, *failures: Exception) -> None:
        self.name = name
        self.failures = list(failures)
        self.got: list[str] = []
        self.tries: list[float] = []

    def send(self, events: Sequence[EpisodeEvent]) -> None:
        self.tries.append(time.monotonic())
        if self.failures:
            raise self.failures.pop(0)
        self.got += [item.fingerprint for item in events]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "POLL", 0.01)
    monkeypatch.setattr(delivery, "FIRST_WAIT", 0.05)


def deliver(
    outbox: Outbox,
    *writers: Writer,
    turns: dict[str, threading.Lock] | None = None,
    complain: Callable[[str, str], None] = lambda writer, sentence: None,
) -> threading.Event:
    stop = threading.Event()
    delivery = Delivery(outbox, writers, {} if turns is None else turns, complain)
    threading.Thread(target=delivery.run, args=(stop,), daemon=True).start()
    return stop


class Hanging(Writer):
    """Sends nothing until it is released."""

    def __init__(self, name: str, release: threading.Event) -> None:
        super().__init__(name)
        self.release, self.is_busy = release, threading.Event()

    def send(self, events: Sequence[EpisodeEvent]) -> None:
        self.is_busy.set()
        self.release.wait(30)
        super().send(events)


def test_an_event_that_is_under_way_is_not_sent_again_by_the_next_delivery() -> None:
    outbox, turns, release = Outbox([event()], ["w"]), {}, threading.Event()
    old, new = Hanging("w", release), Writer("w")
    first = deliver(outbox, old, turns=turns)
    assert old.is_busy.wait(30)
    first.set()  # the configuration is read again
    second = deliver(outbox, new, turns=turns)
    time.sleep(0.05)  # time enough for the new one to send, if it did
    release.set()
    wait_until(lambda: not outbox.waiting["w"])
    outbox.waiting["w"][1] = event(number=2)
    wait_until(lambda: not outbox.waiting["w"])
    second.set()
    assert (old.got, new.got) == (["f1"], ["f2"])


def test_a_hanging_writer_delays_no_other() -> None:
    events = [event(number=i) for i in range(250)]
    outbox = Outbox(events, ["hangs", "works"])
    release = threading.Event()
    hanging, works = Hanging("hangs", release), Writer("works")
    stop = deliver(outbox, hanging, works)
    wait_until(lambda: not outbox.waiting["works"])
    assert works.got == [item.fingerprint for item in events]
    assert hanging.got == []
    release.set()
    wait_until(lambda: not outbox.waiting["hangs"])
    stop.set()
    assert hanging.got == works.got


def test_after_failures_the_same_events_come_in_order_and_later_each_time() -> None:
    outbox = Outbox([event(number=i) for i in range(3)], ["w"])
    writer = Writer("w", *[DeliveryError("away")] * 3, DeliveryError("busy", retry_after=0.3), ValueError("fault"))
    complaints: list[tuple[str, str]] = []
    stop = deliver(outbox, writer, complain=lambda *complaint: complaints.append(complaint))
    wait_until(lambda: not outbox.waiting["w"])
    stop.set()
    assert writer.got == ["f0", "f1", "f2"]
    assert outbox.errors == ["away", "away", "away", "busy", "ValueError: fault"]
    assert complaints == [("w", f"The writer 'w' failed: {error}") for error in outbox.errors]
    pauses = [later - earlier for earlier, later in zip(writer.tries, writer.tries[1:], strict=False)]
    for pause, least in zip(pauses, (0.05, 0.1, 0.2, 0.3, 0.4), strict=False):
        assert pause >= least


def test_an_event_that_is_refused_for_good_does_not_hold_up_the_others() -> None:
    outbox = Outbox([event(number=i) for i in range(10)], ["w"])

    class Particular(Writer):
        def send(self, events: Sequence[EpisodeEvent]) -> None:
            if any(item.fingerprint == "f4" for item in events):
                raise Refused("not this one")
            super().send(events)

    writer = Particular("w")
    stop = deliver(outbox, writer)
    wait_until(lambda: len(outbox.waiting["w"]) == 1)
    stop.set()
    assert writer.got == [f"f{i}" for i in range(10) if i != 4]
    assert list(outbox.waiting["w"]) == [4]
    assert outbox.later["w", 4] > time.time() + 3000  # it is kept, for another attempt


def test_a_store_that_fails_for_a_while_stops_nothing() -> None:
    outbox = Outbox([event()], ["w"])
    outbox.broken = True
    writer = Writer("w")
    stop = deliver(outbox, writer)
    time.sleep(0.1)
    outbox.broken = False
    wait_until(lambda: writer.got == ["f1"])
    stop.set()


def test_open_episodes_are_repeated_for_a_writer_that_wants_it() -> None:
    outbox = Outbox([event(number=1)], ["w"])
    outbox.open = [event("updated", number=2)]
    writer = Writer("w", DeliveryError("away"))
    writer.remind = 0.1
    stop = deliver(outbox, writer)
    wait_until(lambda: writer.got.count("f2") >= 3)
    stop.set()
    assert writer.got[0] == "f1"  # what is new goes first
    assert writer.got.count("f1") == 1
