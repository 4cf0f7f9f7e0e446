"""What the service decides equals `detect`, also if scoring dies at any moment; episodes go as people expect."""

import contextlib
import dataclasses
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from live import INTERVAL, LENGTH, NAMES, START, batch

import tsadc
from tsadc.errors import ConfigError, DataError
from tsadc.series import Clock
from tsadc.serve import schema, scoring
from tsadc.serve.config import Config, live_clock
from tsadc.serve.ingest import Ingest
from tsadc.serve.metrics import Problems
from tsadc.serve.queries import Queries
from tsadc.serve.rows import RowBatch
from tsadc.serve.scoring import Scoring, Settings
from tsadc.serve.store import AWAKE, LOOKED, Store, StoreError
from tsadc.serve.writers import EpisodeEvent

FAULT = (5 * LENGTH + 11, 6 * LENGTH + 25)


@pytest.fixture
def ingest(store: Store, config: Config) -> Iterator[Ingest]:
    ingest = Ingest(store, config, {"plant": NAMES}, Problems())
    yield ingest
    ingest.close()


def settings(config: Config, **changes: Any) -> Settings:
    return Settings(**{**vars(Settings.of(config)), "writers": ["pager"], **changes})


def run(score: Scoring) -> int:
    """Score everything that waits, and close."""
    steps = 0
    while score.step():
        steps += 1
    score.store.close()
    return steps


def table(store: Store, name: str) -> list[Any]:
    """Return the rows of a table without what depends on the time of day, or on how many rows there were before."""
    own = schema.metadata.tables[name]
    leave_out = ("opened", "resolved", "created", "changed", *(["id"] if name == "outbox" else []))
    columns = [column for column in own.c if column.name not in leave_out]
    with store.reading() as connection:
        return sorted(map(repr, connection.execute(sa.select(*columns)).all()))


def feed(ingest: Ingest, count: int = 12 * LENGTH, at_once: int = 7, fault: tuple[int, int] | None = FAULT) -> None:
    for first in range(0, count, at_once):
        own = min(at_once, count - first)
        batches = [batch("pump 0", first, own, fault=fault), batch("pump 1", first, own, seed=1)]
        ingest.offer(batches)
    ingest.offer(batches).result()


def confirmed(store: Store, state: str = "") -> list[dict[str, Any]]:
    """Return the episodes that the final verdict has not taken back."""
    return [own for own in Queries(store).episodes(state=state)["episodes"] if not own["withdrawn"]]


def events(store: Store) -> list[tuple[int, EpisodeEvent]]:
    """Return the events of the confirmed episode that wait to be sent."""
    [episode] = confirmed(store)
    return [own for own in store.due("pager", time.time(), 100) if own[1].id == episode["id"]]


def whole(rows: Sequence[RowBatch]) -> tsadc.Series:
    clock = Clock(START, INTERVAL, dated=True)
    return tsadc.Series(np.concatenate([own.values for own in rows]), NAMES, clock, rows[0].entity)


def test_scores_and_episodes_equal_those_of_detect(
    store: Store, ingest: Ingest, config: Config, live_model: Path
) -> None:
    feed(ingest)
    assert run(Scoring(settings(config))) > 0
    parts = [batch("pump 0", first, min(7, 12 * LENGTH - first), fault=FAULT) for first in range(0, 12 * LENGTH, 7)]
    found = tsadc.load(live_model).detect(whole(parts))
    with store.reading() as connection:
        score = schema.scores.c
        mine = sa.select(score.score).where((score.entity == 1) & score.final.is_(True)).order_by(score.end)
        assert list(connection.scalars(mine)) == found.scores.tolist()
    [episode] = confirmed(store)
    [interval] = found.intervals.to_dict("records")
    assert episode["interval"] == interval["id"]
    assert (episode["score"], episode["severity"]) == (interval["score"], interval["severity"])
    assert (episode["kind"], episode["reason"], episode["variables"]) == (
        interval["kind"], interval["reason"], interval["variables"],
    )  # fmt: skip
    assert episode["start"] == interval["start"].isoformat() + "Z"
    assert episode["state"] == "resolved"


@pytest.mark.parametrize("at_once", [40, 300])
def test_a_crash_at_any_moment_changes_nothing(
    store: Store, ingest: Ingest, config: Config, monkeypatch: pytest.MonkeyPatch, at_once: int, live_model: Path
) -> None:
    monkeypatch.setattr(scoring, "AT_ONCE", at_once)
    undisturbed, expected = decided(store, ingest, config)
    steps = 0
    for number in range(undisturbed):
        score = Scoring(settings(config))
        if number % 3 == 1:  # the transaction does not come through
            monkeypatch.setattr(score.store, "set_scored", failing)
            with pytest.raises(StoreError):
                score.step()
            monkeypatch.undo()
            monkeypatch.setattr(scoring, "AT_ONCE", at_once)
        steps += score.step() > 0
        score.store.close()  # and dies
    assert steps == undisturbed
    assert decisions(store) == expected


def test_a_commit_whose_answer_is_lost_doubles_nothing(
    store: Store, ingest: Ingest, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "AT_ONCE", 40)
    undisturbed, expected = decided(store, ingest, config)
    score = Scoring(settings(config))
    commit, lost = score.store.writing, 0

    @contextlib.contextmanager
    def losing_the_answer() -> Iterator[Any]:
        with commit() as connection:
            yield connection
        raise StoreError("The connection is gone.")

    for number in range(undisturbed):
        if number % 2:
            assert score.step() > 0
            continue
        with monkeypatch.context() as patched:
            patched.setattr(score.store, "writing", losing_the_answer)
            with pytest.raises(StoreError, match="gone"):
                score.step()
        lost += 1
    assert lost > 2
    assert score.step() == 0
    score.store.close()
    assert decisions(store) == expected


def test_several_processes_decide_the_same_as_one_also_if_their_number_changes(
    store: Store, ingest: Ingest, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "AT_ONCE", 40)
    monkeypatch.setattr(scoring, "IDLE", -1.0)
    _, expected = decided(store, ingest, config)
    for processes, steps in ((3, 4), (2, 3), (1, 5), (4, 100)):  # the processes do not come equally far
        for number in range(processes):
            score = Scoring(settings(config, number=number, processes=processes))
            for _ in range(steps + 2 * number):
                score.step()
            own = {entity % scoring.SHARDS % processes for entity in score._entities}
            assert own <= {number}
            score.store.close()
    assert decisions(store) == expected
    with store.reading() as connection:
        reached = store.scored(connection)
    assert set(reached) == {ingest._sequence}  # nothing waits, also in shards without an entity


def test_of_two_processes_with_the_same_rows_one_begins_again(
    store: Store, ingest: Ingest, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a service is killed and started again while its scoring process still ends a step."""
    monkeypatch.setattr(scoring, "AT_ONCE", 40)
    _, expected = decided(store, ingest, config)
    left, right = Scoring(settings(config)), Scoring(settings(config))
    write = left._write

    def write_late(*arguments: Any) -> None:
        right.step()
        write(*arguments)

    monkeypatch.setattr(left, "_write", write_late)
    for _ in range(3):
        with pytest.raises(StoreError, match="Another process has scored rows"):
            left.step()
    monkeypatch.undo()
    monkeypatch.setattr(scoring, "AT_ONCE", 40)
    right.store.close()
    run(left)
    assert decisions(store) == expected


def test_each_process_expires_and_forgets_its_own_entities(store: Store, ingest: Ingest, config: Config) -> None:
    ingest.submit(batch("pump 0", 0, 5 * LENGTH + LENGTH // 2, fault=(5 * LENGTH, 6 * LENGTH)))
    ingest.submit(batch("pump 1", 0, 5 * LENGTH + LENGTH // 2, seed=1, fault=(5 * LENGTH, 6 * LENGTH)))
    every = [Scoring(settings(config, number=number, processes=2, expire_minutes=1e-3)) for number in (0, 1)]
    for score in every:
        while score.step():
            pass
        score.housekeeping()  # from here on, the time counts
        with store.writing() as connection:
            store.set_progress(connection, f"{AWAKE} {score.settings.number}", 0)
    opened = confirmed(store, "open")
    assert [episode["entity"] for episode in opened] == ["pump 1", "pump 0"]
    with store.writing() as connection:
        connection.execute(sa.update(schema.entities).values(last_seen=1.0))
    every[1].housekeeping()
    [left] = confirmed(store, "open")
    assert left["entity"] == "pump 1"  # its number is 2
    every[0].housekeeping()
    assert confirmed(store, "open") == []
    for score in every:
        score.store.close()


def decisions(store: Store) -> dict[str, list[Any]]:
    """Return all that scoring has decided."""
    return {name: table(store, name) for name in ("scores", "episodes", "outbox")}


def decided(store: Store, ingest: Ingest, config: Config) -> tuple[int, dict[str, list[Any]]]:
    """Score rows without a fault, and forget that; return in how many steps, and what was decided."""
    feed(ingest)
    steps, found = run(Scoring(settings(config))), decisions(store)
    assert len(found["outbox"]) >= 2
    with store.writing() as connection:
        for name in ("outbox", "episodes", "scores", "states", "progress"):
            connection.execute(sa.delete(schema.metadata.tables[name]))
    return steps, found


def failing(*_: Any) -> None:
    raise StoreError("The disk is full.")


def test_states_are_written_at_the_end_and_rows_are_not_pushed_again(
    store: Store, ingest: Ingest, config: Config
) -> None:
    feed(ingest, 2 * LENGTH + 9)
    first = Scoring(settings(config))
    while first.step():
        pass
    first.save()
    with store.reading() as connection:
        saved = sorted(connection.scalars(sa.select(schema.states.c.sequence)))
    assert (len(saved), saved[-1]) == (2, max(first.scored))
    first.store.close()
    for seed in range(2):
        ingest.submit(batch(f"pump {seed}", 2 * LENGTH + 9, 1, seed=seed))
    second = Scoring(settings(config))
    assert second.step() == 2
    assert [entity.pushed for entity in second._entities.values()] == [1, 1]
    second.store.close()


def test_an_episode_opens_before_its_observation_is_complete(store: Store, ingest: Ingest, config: Config) -> None:
    score = Scoring(settings(config))
    ingest.submit(batch("pump 0", 0, 5 * LENGTH))
    while score.step():
        pass
    assert confirmed(store) == []
    ingest.submit(batch("pump 0", 5 * LENGTH, LENGTH // 2, fault=(5 * LENGTH, 6 * LENGTH)))
    run(score)
    [episode] = confirmed(store, "open")
    assert episode["variables"]["pressure"] > 0.5
    [(_, event)] = events(store)
    assert (event.transition, event.entity, event.id, event.muted) == ("opened", "pump 0", episode["id"], False)
    assert Queries(store).entities(state="open")["entities"][0]["name"] == "pump 0"


def test_every_event_is_sent_once_and_the_last_one_resolves(store: Store, ingest: Ingest, config: Config) -> None:
    feed(ingest)
    run(Scoring(settings(config)))
    sent = events(store)
    transitions = [event.transition for _, event in sent]
    assert transitions[0] == "opened"
    assert transitions[-1] == "resolved"
    assert transitions.count("opened") == transitions.count("resolved") == 1
    store.delivered([number for number, _ in sent])
    assert events(store) == []
    assert store.open_events("pager") == []


def test_a_failed_delivery_is_tried_later(store: Store, ingest: Ingest, config: Config) -> None:
    feed(ingest)
    run(Scoring(settings(config)))
    now = time.time()
    [number, *rest] = [number for number, _ in store.due("pager", now, 100)]
    store.postpone([number], now + 60, "The pager is off.")
    assert number not in [own for own, _ in store.due("pager", now, 100)]
    assert number in [own for own, _ in store.due("pager", now + 61, 100)]
    assert store.undelivered() == {"pager": (len(rest) + 1, "The pager is off.")}


def test_the_latest_error_of_a_writer_is_that_of_its_last_attempt(store: Store, ingest: Ingest, config: Config) -> None:
    feed(ingest)
    run(Scoring(settings(config)))
    now = time.time()
    [first, second, *rest] = [number for number, _ in store.due("pager", now, 100)]
    store.postpone([first, second, *rest], 0.0, "Z: it was off.")
    store.postpone([first, second], 0.0, "B: it is full.")
    assert store.undelivered()["pager"][1] == "B: it is full."
    store.postpone([first], now + 60, "Y: it refuses the first.")
    assert store.undelivered()["pager"][1] == "B: it is full."  # the others are tried on
    store.postpone([second, *rest], now + 120, "A: it refuses the others.")
    assert store.undelivered() == {"pager": (len(rest) + 2, "A: it refuses the others.")}


def test_events_of_an_episode_wait_for_the_earlier_one(store: Store) -> None:
    event = EpisodeEvent("", "", "opened", "pump 0", 0, 1, 1.0, 1.0, "", "", {}, "plant", False)
    wanted = [("a", "opened"), ("b", "opened"), ("a", "resolved"), ("b", "resolved")]
    with store.writing() as connection:
        for number, (episode, transition) in enumerate(wanted):
            content = dataclasses.asdict(dataclasses.replace(event, id=episode, transition=transition))
            own = {"writer": "pager", "episode": episode, "transition": transition, "number": number}
            connection.execute(sa.insert(schema.outbox).values(**own, event=content, created=0.0))

    def due(now: float) -> list[tuple[str, str]]:
        return [(event.id, event.transition) for _, event in store.due("pager", now, 100)]

    assert due(1.0) == wanted
    store.postpone([store.due("pager", 1.0, 1)[0][0]], 10.0, "refused")
    assert due(9.0) == [("b", "opened"), ("b", "resolved")]
    assert due(10.0) == wanted


def test_a_mute_is_kept_with_the_event_and_lifted_when_it_ends(store: Store, ingest: Ingest, config: Config) -> None:
    queries = Queries(store)
    mute = queries.mute("pump*", "", None, "", "")
    score = Scoring(settings(config))
    ingest.submit(batch("pump 0", 0, 5 * LENGTH + LENGTH // 2, fault=(5 * LENGTH, 6 * LENGTH)))
    while score.step():
        pass
    assert [event.muted for _, event in events(store)] == [True]
    assert queries.entities()["entities"][0]["state"] == "muted"
    queries.unmute(mute["id"])
    score.housekeeping()
    score.store.close()
    assert [event.muted for _, event in events(store)] == [True, False]
    assert queries.entities()["entities"][0]["state"] == "open"


def test_an_episode_expires_when_its_entity_falls_silent(store: Store, ingest: Ingest, config: Config) -> None:
    score = Scoring(settings(config, expire_minutes=1e-4))
    ingest.submit(batch("pump 0", 0, 5 * LENGTH + LENGTH // 2, fault=(5 * LENGTH, 6 * LENGTH)))
    while score.step():
        pass
    time.sleep(0.05)
    score.housekeeping()
    assert confirmed(store)[0]["state"] == "open"  # the next row is not due yet
    with store.writing() as connection:
        connection.execute(sa.update(schema.entities).values(last_seen=time.time() - 3.1 * INTERVAL / 1e9))
    for looked in (0, time.time() - scoring.OUTAGE - 1):  # the service or the store was away, so rows may still come
        with store.writing() as connection:
            store.set_progress(connection, f"{LOOKED} 0", int(looked))
        score.housekeeping()
        assert confirmed(store)[0]["state"] == "open"
    with store.writing() as connection:
        store.set_progress(connection, f"{AWAKE} 0", int(time.time()) - 4)
    score.housekeeping()
    score.store.close()
    [episode] = confirmed(store)
    assert episode["state"] == "expired"
    assert [event.transition for _, event in events(store)] == ["opened", "resolved"]


def test_planned_work_mutes(store: Store, ingest: Ingest, config: Config, tmp_path: Path) -> None:
    calendar = tmp_path / "work.csv"
    calendar.write_text("entity,start,end\npump 0,2026-01-01T00:00:00Z,2027-01-01T00:00:00Z\n")
    feed(ingest)
    run(Scoring(settings(config, calendars=[str(calendar)])))
    sent = events(store)
    assert len(sent) >= 2
    assert all(event.muted for _, event in sent)


def test_old_rows_and_scores_are_deleted_and_scoring_goes_on(store: Store, ingest: Ingest, config: Config) -> None:
    feed(ingest)
    score = Scoring(settings(config, keep_days=1e-6))
    while score.step():
        pass
    score.housekeeping()
    with store.reading() as connection:
        left = connection.scalar(sa.select(sa.func.count()).select_from(schema.rows))
        ends = connection.execute(
            sa.select(schema.scores.c.end, schema.entities.c.last_time).join(
                schema.entities, schema.entities.c.id == schema.scores.c.entity
            )
        ).all()
    assert ends
    assert all(end >= last for end, last in ends)
    assert 0 < left < 6 * LENGTH  # those that the states do not reflect
    score.store.close()
    ingest.submit(batch("pump 0", 12 * LENGTH, LENGTH))
    assert run(Scoring(settings(config))) == 1


def test_an_entity_that_is_silent_for_long_is_forgotten(store: Store, ingest: Ingest, config: Config) -> None:
    feed(ingest)
    ingest.use(dataclasses.replace(config, server=dataclasses.replace(config.server, entities=2)), {"plant": NAMES})
    score = Scoring(settings(config, forget_days=100))
    while score.step():
        pass
    score.save()

    def stored(entity: int) -> dict[str, int | None]:
        """Return how many rows of each table are about an entity."""
        tables = [table for table in schema.metadata.sorted_tables if "entity" in table.c and table is not schema.mutes]
        with store.reading() as connection:
            count = {
                table.name: connection.scalar(sa.select(sa.func.count()).where(table.c.entity == entity))
                for table in tables
            }
            count["outbox"] = connection.scalar(sa.select(sa.func.count()).select_from(schema.outbox))
        return count

    def be_silent(entity: int) -> None:
        with store.writing() as connection:
            silent = sa.update(schema.entities).where(schema.entities.c.id == entity)
            connection.execute(silent.values(last_seen=time.time() - 101 * 86_400))

    kept = {entity: stored(entity) for entity in (1, 2)}
    score.housekeeping()
    assert {entity: stored(entity) for entity in (1, 2)} == kept
    be_silent(1)
    score.housekeeping()
    assert stored(1) == kept[1]  # the service itself was silent until now
    with store.writing() as connection:
        store.set_progress(connection, f"{AWAKE} 0", int(time.time() - scoring.RETURN - 10))
    ingest.submit(batch("pump 0", 12 * LENGTH, 1))  # not scored yet
    score.housekeeping()
    assert stored(1)["scores"] == kept[1]["scores"]
    assert score.step() == 1
    be_silent(1)
    score.housekeeping()
    assert set(stored(1).values()) == {0}
    assert stored(2) == {**kept[2], "outbox": 0}
    assert list(score.models["plant"].stream.entities) == ["pump 1"]
    assert ingest.submit(batch("pump 0", 13 * LENGTH, LENGTH)).stored == LENGTH  # as if it were new
    with pytest.raises(DataError, match="at most 2 entities, and 2 are known already"):
        ingest.submit(batch("pump 2", 0, 1))
    ingest.submit(batch("pump 1", 12 * LENGTH, 1, seed=1))
    assert run(score) > 0
    shown = Queries(store).entity("pump 0", None, None)
    assert shown["scores"]["final"].count(True) == 1


def test_events_of_a_writer_that_was_removed_are_deleted(store: Store, ingest: Ingest, config: Config) -> None:
    feed(ingest)
    score = Scoring(settings(config))
    while score.step():
        pass
    score.housekeeping()
    assert store.undelivered()["pager"][0] >= 2
    with store.writing() as connection:
        connection.execute(sa.update(schema.outbox).values(created=time.time() - 86_400 * 20_000))
    score.housekeeping()  # they wait as long as there is such a writer
    assert store.undelivered()["pager"][0] >= 2
    score.store.close()
    score = Scoring(settings(config, writers=["other"]))
    score.housekeeping()
    score.store.close()
    assert store.undelivered() == {}


def test_rows_of_long_ago_that_are_pushed_now_stay(store: Store, ingest: Ingest, config: Config) -> None:
    feed(ingest)
    score = Scoring(settings(config, keep_days=30))

    def count() -> list[int | None]:
        with store.reading() as connection:
            tables = (schema.rows, schema.scores)
            return [connection.scalar(sa.select(sa.func.count()).select_from(table)) for table in tables]

    while score.step():
        pass
    before = count()
    score.housekeeping()
    score.store.close()
    assert before[0]
    assert count() == before


def test_a_model_without_times_needs_the_time_from_row_to_row() -> None:
    assert live_clock("plant", Clock(), 0.5) == Clock(0, 5 * 10**8, dated=True)
    assert live_clock("plant", Clock(pace=10**9), 0.0) == Clock(0, 10**9, dated=True)
    with pytest.raises(ConfigError, match="set `seconds` in"):
        live_clock("plant", Clock(), 0.0)
