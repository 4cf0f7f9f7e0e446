"""The life of an episode: when it is announced, when it is muted, and what its name is."""

import datetime
import time
from collections.abc import Sequence
from typing import Any

import pandas as pd
import pytest
import sqlalchemy as sa

from tsadc.detectors.streaming import LiveInterval
from tsadc.io.calendar import Calendar, Planned
from tsadc.serve import schema
from tsadc.serve.episodes import Episodes
from tsadc.serve.lifecycle import Mute, Quiet, advance
from tsadc.serve.store import Store

MINUTE = 60 * 10**9
HOUR = 60 * MINUTE
DAY = 24 * HOUR
NOON = int(pd.Timestamp("2026-07-01T12:00Z").value)


def interval(start: int = NOON, end: int = NOON + HOUR, **changes: Any) -> LiveInterval:
    given = {"score": 3.0, "severity": 90.0, "return_period": 1.0, "kind": "level", "reason": "", "evidence": "level"}
    state = {"id": "bcdfghjk", "variables": {"flow": 1.0}, "open": True, "final": False}
    return LiveInterval(entity="pump", start=start, end=end, **{**given, **state, **changes})


def told(quiets: Sequence[Quiet], intervals: Sequence[LiveInterval]) -> list[tuple[str, bool]]:
    """Return what is emitted about intervals that come one by one, each at a time with its own mutes."""
    known: dict[str, Any] = {}
    emitted: list[tuple[str, bool]] = []
    for quiet, item in zip(quiets, intervals, strict=True):
        advance(known, [item], "pump", "m", quiet, 0.0, lambda episode, what: emitted.append((what, episode["muted"])))
    return emitted


def at(text: str) -> int:
    return int(pd.Timestamp(text).value)


def work(start: str, end: str, **changes: Any) -> Planned:
    return Planned(datetime.datetime.fromisoformat(start), datetime.datetime.fromisoformat(end), **changes)


def test_an_episode_is_announced_when_its_mute_has_ended() -> None:
    muted, loud = Quiet([Mute("*", "*", None)]), Quiet()
    assert told([muted, loud, loud], [interval()] * 3) == [("opened", True), ("opened", False)]
    closed = interval(open=False, final=True)
    assert told([muted, loud], [interval(), closed]) == [("opened", True), ("opened", False), ("resolved", False)]
    withdrawn = interval(withdrawn=True)
    assert told([muted, loud], [interval(), withdrawn]) == [("opened", True), ("resolved", False)]


def test_an_episode_that_returns_is_announced_again() -> None:
    loud = [Quiet()] * 3
    expected = [("opened", False), ("resolved", False), ("opened", False)]
    assert told(loud, [interval(), interval(withdrawn=True), interval()]) == expected


def test_planned_work_mutes_an_episode_if_it_covers_half_of_it() -> None:
    quiet = Quiet(calendar=Calendar((work("2026-07-01T12:00+00:00", "2026-07-01T13:00+00:00"),)))

    def covers(start: int, end: int) -> bool:
        return quiet.covers("pump", "m", start, end, ["flow"], 0.0)

    assert covers(NOON, NOON + HOUR)
    assert covers(NOON, NOON + 2 * HOUR)
    assert not covers(NOON, NOON + 2 * HOUR + 1)
    assert covers(NOON - 10 * MINUTE, NOON + 50 * MINUTE)
    assert not covers(NOON + 59 * MINUTE, NOON + 7 * DAY)  # it begins in the work and goes on for a week
    assert not covers(NOON + HOUR, NOON + 2 * HOUR)


def test_entries_of_a_calendar_that_overlap_count_once() -> None:
    entries = [work("2026-07-01T12:00+00:00", f"2026-07-01T12:{minute}+00:00") for minute in (10, 20, 25)]
    quiet = Quiet(calendar=Calendar(tuple(entries)))
    assert not quiet.covers("pump", "m", NOON, NOON + HOUR, ["flow"], 0.0)
    assert quiet.covers("pump", "m", NOON, NOON + 50 * MINUTE, ["flow"], 0.0)


def test_planned_work_is_on_an_entity_and_on_variables() -> None:
    entry = work("2026-07-01T12:00+00:00", "2026-07-01T13:00+00:00", entity="pump", variables=("flow", "speed"))
    quiet = Quiet(calendar=Calendar((entry,)))
    assert quiet.covers("pump", "m", NOON, NOON + HOUR, ["flow"], 0.0)
    assert not quiet.covers("pump", "m", NOON, NOON + HOUR, ["flow", "pressure"], 0.0)
    assert not quiet.covers("pump", "m", NOON, NOON + HOUR, [], 0.0)
    assert not quiet.covers("fan", "m", NOON, NOON + HOUR, ["flow"], 0.0)


def test_a_calendar_without_time_zone_is_in_that_of_the_model() -> None:
    calendar = Calendar((work("2026-07-01T06:00", "2026-07-01T08:00"),))
    quiet = Quiet(calendar=calendar, zones={"berlin": "Europe/Berlin", "utc": None})
    six, eight = at("2026-07-01T06:00Z"), at("2026-07-01T08:00Z")
    assert quiet.covers("pump", "berlin", six - 2 * HOUR, eight - 2 * HOUR, ["flow"], 0.0)
    assert not quiet.covers("pump", "berlin", six, eight, ["flow"], 0.0)
    assert quiet.covers("pump", "utc", six, eight, ["flow"], 0.0)


def test_a_daily_event_of_decades_is_looked_up_fast() -> None:
    first = datetime.datetime(2000, 1, 1, 6, tzinfo=datetime.UTC)
    days = [first + datetime.timedelta(days=day) for day in range(18_000)]
    quiet = Quiet(calendar=Calendar(tuple(Planned(day, day + datetime.timedelta(hours=1)) for day in days)))
    start = at("2026-07-01T06:00Z")
    assert quiet.covers("pump", "m", start, start + HOUR, ["flow"], 0.0)
    began = time.process_time()
    found = [quiet.covers("pump", "m", start + k * HOUR, start + (k + 1) * HOUR, ["flow"], 0.0) for k in range(100)]
    assert found == [k % 24 == 0 for k in range(100)]
    assert time.process_time() - began < 2.0  # 15 s if each time is converted for each episode


@pytest.fixture
def entities(store: Store) -> tuple[int, int]:
    with store.writing() as connection:
        insert = sa.insert(schema.entities).returning(schema.entities.c.id)
        numbers = [
            connection.execute(insert.values(name=name, model="m", first_time=0)).scalar_one()
            for name in ("pump", "fan")
        ]
    return numbers[0], numbers[1]


def test_two_entities_may_have_intervals_of_the_same_name(store: Store, entities: tuple[int, int]) -> None:
    """Names have 32 bits; a hundred thousand of them make a collision likely."""
    episodes = Episodes(store, ["pager"], Quiet())
    for name, number in zip(("pump", "fan", "fan"), (*entities, entities[1]), strict=True):
        with store.writing() as connection:
            episodes.apply(connection, number, name, "m", [interval(reason=name)], 1, 0.0)
    with store.reading() as connection:
        rows = connection.execute(
            sa.select(schema.episodes.c.id, schema.episodes.c.entity, schema.episodes.c.reason)
        ).all()
        sent = connection.execute(sa.select(schema.outbox.c.episode, schema.outbox.c.event)).all()
    assert sorted((row.entity, row.reason) for row in rows) == sorted(zip(entities, ("pump", "fan"), strict=True))
    assert "bcdfghjk" in {row.id for row in rows}
    assert len({row.id for row in rows}) == 2
    assert sorted((row.event["entity"], row.event["transition"]) for row in sent) == [
        ("fan", "opened"),
        ("pump", "opened"),
    ]
