"""Rows are stored once, durably and completely, on SQLite and on PostgreSQL."""

import contextlib
import dataclasses
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from live import INTERVAL, NAMES, START, batch, wait_for

from tsadc.errors import DataError
from tsadc.serve import schema
from tsadc.serve.config import SHARDS, Config
from tsadc.serve.ingest import Ingest, _Group
from tsadc.serve.metrics import Problems
from tsadc.serve.rows import Overloaded, RowBatch
from tsadc.serve.service import Service
from tsadc.serve.store import Store, StoreError


@pytest.fixture
def ingest(store: Store, config: Config) -> Iterator[Ingest]:
    ingest = Ingest(store, config, {"plant": NAMES}, Problems())
    yield ingest
    ingest.close()


def stored(store: Store) -> dict[tuple[str, int], list[float]]:
    """Return the rows that may be scored, by entity and row number, in order of their sequence."""
    entity, row = schema.entities.c, schema.rows.c
    query = sa.select(entity.name, row.time, row.data).join(schema.rows, row.entity == entity.id).order_by(row.sequence)
    with store.reading() as connection:
        return {
            (name, (tick - START) // INTERVAL): np.frombuffer(bytes(data), "<f8").tolist()
            for name, tick, data in connection.execute(query)
        }


def waiting(store: Store) -> int:
    """Return how many rows wait for values, or behind one that does."""
    with store.reading() as connection:
        return connection.scalar(sa.select(sa.func.count()).select_from(schema.pending)) or 0


def one(entity: str, number: int, partial: bool = False, **values: float) -> RowBatch:
    cells = np.array([list(values.values())])
    return RowBatch("test", entity, tuple(values), np.array([START + number * INTERVAL]), cells, partial)


def at(*ticks: int, entity: str = "a", partial: bool = False) -> RowBatch:
    return RowBatch("test", entity, ("flow",), np.array(ticks), np.ones((len(ticks), 1)), partial)


def test_rows_are_stored_as_they_were_sent(store: Store, ingest: Ingest) -> None:
    rows = batch("a", 0, 5)
    assert ingest.submit(rows).stored == 5
    assert np.array_equal(list(stored(store).values()), rows.values)


def test_a_repeated_row_is_counted_and_the_first_one_stays(store: Store, ingest: Ingest) -> None:
    ingest.submit(batch("a", 0, 5))
    receipt = ingest.submit(batch("a", 3, 5, seed=9))
    assert (receipt.stored, receipt.repeated) == (3, 2)
    assert stored(store)["a", 3] == batch("a", 0, 5).values[3].tolist()
    assert len(stored(store)) == 8


def test_a_row_that_is_twice_in_a_request_is_stored_once(store: Store, ingest: Ingest) -> None:
    receipt = ingest.offer([batch("a", 0, 3), batch("a", 2, 2), batch("b", 0, 1)]).result()
    assert (receipt.stored, receipt.repeated) == (5, 1)
    assert len(stored(store)) == 5


def test_rows_out_of_order_are_put_in_order(store: Store, ingest: Ingest) -> None:
    rows = batch("a", 0, 4)
    order = [2, 0, 3, 1]
    ingest.submit(dataclasses.replace(rows, times=rows.times[order], values=rows.values[order]))
    assert [number for _, number in stored(store)] == [0, 1, 2, 3]


def test_columns_are_matched_by_name_and_unknown_ones_are_noted(store: Store, ingest: Ingest) -> None:
    receipt = ingest.submit(one("a", 0, speed=3.0, colour=7.0, flow=1.0))
    assert receipt.notes == ["colour is unknown to the model 'plant', and left out."]
    flow, pressure, speed = stored(store)["a", 0]
    assert (flow, speed) == (1.0, 3.0)
    assert np.isnan(pressure)


def test_values_that_come_later_fill_a_row(store: Store, ingest: Ingest) -> None:
    ingest.submit(one("a", 0, flow=1.0))
    receipt = ingest.submit(one("a", 0, flow=9.0, speed=3.0))
    assert (receipt.stored, receipt.filled) == (0, 1)
    assert stored(store)["a", 0][0] == 1.0
    assert stored(store)["a", 0][2] == 3.0


def test_a_partial_row_is_released_when_it_is_complete(store: Store, ingest: Ingest) -> None:
    ingest.submit(one("a", 0, partial=True, flow=1.0))
    ingest.submit(one("a", 0, partial=True, speed=3.0))
    assert stored(store) == {}
    ingest.submit(one("a", 0, partial=True, pressure=2.0))
    assert stored(store) == {("a", 0): [1.0, 2.0, 3.0]}
    assert ingest.submit(one("a", 0, partial=True, pressure=2.0)).repeated == 1


def test_a_partial_row_is_released_after_a_while_also_by_the_next_service(store: Store, config: Config) -> None:
    first = Ingest(store, config, {"plant": NAMES}, Problems())
    first.submit(one("a", 0, partial=True, flow=1.0))
    first.close()
    soon = dataclasses.replace(config, server=dataclasses.replace(config.server, wait=0.1))
    second = Ingest(store, soon, {"plant": NAMES}, Problems())
    last = time.monotonic() + 20
    while not stored(store):
        assert time.monotonic() < last
        time.sleep(0.05)
    second.close()
    assert stored(store)["a", 0][0] == 1.0


def test_later_rows_of_an_entity_wait_behind_a_partial_one(store: Store, ingest: Ingest) -> None:
    whole = {"pressure": 2.0, "speed": 3.0}
    ingest.submit(one("a", 0, partial=True, flow=1.0))
    ingest.submit(one("a", 1, partial=True, flow=1.0, **whole))
    ingest.submit(batch("a", 2, 2))
    ingest.submit(batch("b", 0, 1))  # others do not wait
    assert list(stored(store)) == [("b", 0)]
    assert ingest.submit(batch("a", 2, 2)).repeated == 2
    ingest.submit(one("a", 0, partial=True, **whole))
    assert list(stored(store)) == [("b", 0), ("a", 0), ("a", 1), ("a", 2), ("a", 3)]
    assert waiting(store) == 0


def test_a_row_waits_no_longer_than_the_settings_say_and_goes_with_those_before_it(
    store: Store, config: Config
) -> None:
    first = Ingest(store, config, {"plant": NAMES}, Problems())
    for number in (0, 1, 3):
        first.submit(one("a", number, partial=True, flow=1.0))
    first.submit(batch("a", 2, 1))
    first.close()
    second = schema.pending.c.time == START + INTERVAL
    with store.writing() as connection:  # the others came just now
        connection.execute(sa.update(schema.pending).where(second).values(since=0.0))
    other = Ingest(store, config, {"plant": NAMES}, Problems())
    other.submit(batch("b", 0, 1))
    assert list(stored(store)) == [("b", 0), ("a", 0), ("a", 1), ("a", 2)]
    assert waiting(store) == 1
    other.close()


def test_a_late_partial_row_holds_up_no_other(store: Store, ingest: Ingest) -> None:
    ingest.submit(batch("a", 5, 1))
    ingest.submit(one("a", 2, partial=True, flow=1.0))
    ingest.submit(batch("a", 6, 1))
    assert list(stored(store)) == [("a", 5), ("a", 6)]


def test_earlier_rows_of_a_request_come_first_also_if_they_are_late(store: Store, ingest: Ingest) -> None:
    ingest.submit(batch("a", 5, 1))
    ingest.submit(batch("a", 4, 4))
    assert list(stored(store)) == [("a", 5), ("a", 4), ("a", 6), ("a", 7)]


def test_a_whole_row_completes_the_one_that_waits(store: Store, ingest: Ingest) -> None:
    ingest.submit(one("a", 0, partial=True, flow=1.0))
    assert ingest.submit(one("a", 0, flow=9.0, pressure=2.0, speed=3.0)).filled == 1
    assert stored(store) == {("a", 0): [1.0, 2.0, 3.0]}
    assert waiting(store) == 0


def test_a_row_that_waits_in_one_transaction_with_the_whole_row(store: Store, ingest: Ingest) -> None:
    rows = [one("a", 0, partial=True, flow=1.0), one("a", 0, flow=9.0, pressure=2.0, speed=3.0)]
    ingest.offer(rows).result()
    assert stored(store) == {("a", 0): [1.0, 2.0, 3.0]}


def test_values_of_a_time_that_comes_twice_join_the_row_that_waits(store: Store, ingest: Ingest) -> None:
    ingest.submit(one("a", 0, partial=True, flow=1.0))
    ingest.offer([one("a", 0, pressure=2.0), one("a", 0, speed=3.0)]).result()
    assert stored(store) == {("a", 0): [1.0, 2.0, 3.0]}


def test_a_row_that_waits_although_it_is_stored_fills_it(store: Store, config: Config) -> None:
    soon = dataclasses.replace(config, server=dataclasses.replace(config.server, wait=0.0))
    first = Ingest(store, soon, {"plant": NAMES}, Problems())
    first.submit(one("a", 0, flow=1.0))
    first.submit(one("a", 2, flow=1.0))
    first.close()
    with store.writing() as connection:
        number = connection.scalar(sa.select(schema.entities.c.id))
        for row in (0, 1, 3):
            data = np.array([9.0, 2.0, np.nan]).tobytes()
            values = {"entity": number, "time": START + row * INTERVAL, "since": 0.0, "data": data}
            connection.execute(sa.insert(schema.pending).values(values))
    second = Ingest(store, soon, {"plant": NAMES}, Problems())
    second.submit(batch("b", 0, 1))
    second.close()
    found = stored(store)
    assert list(found) == [("a", 0), ("a", 2), ("b", 0), ("a", 1), ("a", 3)]
    assert [found["a", row][:2] for row in (0, 1, 3)] == [[1.0, 2.0], [9.0, 2.0], [9.0, 2.0]]


def test_rows_of_a_request_are_numbered_in_order_of_time(store: Store, ingest: Ingest) -> None:
    tables = [batch("a", 0, 1), batch("a", 2, 1), one("a", 1, flow=1.0), one("a", 3, speed=1.0), batch("b", 1, 1)]
    assert ingest.offer(tables).result().stored == 5
    assert [number for name, number in stored(store) if name == "a"] == [0, 1, 2, 3]


def test_another_service_continues_the_sequence(store: Store, config: Config) -> None:
    for first in (0, 3):
        ingest = Ingest(store, config, {"plant": NAMES}, Problems())
        ingest.submit(batch("a", first, 3))
        ingest.close()
    with store.reading() as connection:
        sequences = list(connection.scalars(sa.select(schema.rows.c.sequence).order_by(schema.rows.c.sequence)))
    assert sequences == [1, 2, 3, 4, 5, 6]


def test_many_senders_at_once_lose_nothing(store: Store, ingest: Ingest) -> None:
    def send(number: int) -> None:
        for first in range(0, 40, 4):
            ingest.submit(batch(f"e{number}", first, 4))

    threads = [threading.Thread(target=send, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(stored(store)) == {(f"e{number}", row) for number in range(8) for row in range(40)}


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (one("a", 0, colour=1.0), "None of the variables colour of 'a' is known"),
        (at(START, 2**62), "in the future; correct the clock"),
        (at(START, 0), "The row of 'a' at 1970-01-01T00:00:00Z lies before 1971; correct the clock of the sender"),
        (at(-1), "before 1971"),
    ],
)
def test_unusable_rows_of_a_client_are_refused(store: Store, ingest: Ingest, rows: RowBatch, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        ingest.offer([batch("b", 0, 1), rows])
    assert sum(ingest.problems.counts.values()) == 1
    assert stored(store) == {}


@pytest.mark.parametrize(("tick", "reason"), [(2**62, "future"), (0, "time"), (12, "time")])
def test_rows_with_a_wrong_clock_are_left_out_if_nobody_can_repeat_the_others(
    store: Store, ingest: Ingest, tick: int, reason: str
) -> None:
    read = ingest.submit(at(START, tick, START + INTERVAL))
    pushed = ingest.offer([one("b", 0, partial=True, flow=1, pressure=2, speed=3), at(tick, entity="c", partial=True)])
    for receipt in (read, pushed.result()):
        assert len(receipt.notes) == 1
        assert "are left out; correct the clock of the sender, or its unit of time" in receipt.notes[0]
    assert list(stored(store)) == [("a", 0), ("a", 1), ("b", 0)]
    assert ingest.problems.counts == {reason: 2}
    with pytest.raises(DataError, match="left out"):  # the sender hears of it if nothing is left
        ingest.offer([at(tick, tick, partial=True)])
    assert ingest.problems.counts == {reason: 4}


def test_what_prometheus_sends_besides_is_left_out(store: Store, ingest: Ingest) -> None:
    receipt = ingest.offer([one("a", 0, partial=True, up=1.0), batch("b", 0, 1)]).result()
    assert receipt.stored == 1
    assert "None of the variables up of 'a' is known" in receipt.notes[0]
    assert list(stored(store)) == [("b", 0)]


def test_a_flood_of_entities_is_refused(store: Store, config: Config) -> None:
    few = dataclasses.replace(config, server=dataclasses.replace(config.server, entities=2))
    ingest = Ingest(store, few, {"plant": NAMES}, Problems())
    for entity in ("a", "b"):
        with pytest.raises(DataError, match="None of the variables colour"):  # its new name does not count
            ingest.offer([batch(f"new {entity}", 0, 1), one("a", 0, colour=1.0)])
        ingest.submit(batch(entity, 0, 1))
    with pytest.raises(DataError, match="at most 2 entities, and 2 are known already; 'c' would be too many"):
        ingest.submit(batch("c", 0, 1))
    assert ingest.submit(batch("a", 1, 1)).stored == 1
    ingest.close()


def test_too_many_waiting_rows_are_refused_with_a_time_to_retry(store: Store, config: Config) -> None:
    few = dataclasses.replace(config, server=dataclasses.replace(config.server, rows=10))
    ingest = Ingest(store, few, {"plant": NAMES}, Problems())
    with store.writing() as connection:  # nothing else can be written now
        if not store.is_sqlite:
            connection.execute(sa.text("LOCK TABLE rows IN ACCESS EXCLUSIVE MODE"))
        offered = ingest.offer([batch("a", 0, 10)])
        with pytest.raises(Overloaded, match="rows wait to be stored") as refused:
            ingest.offer([batch("a", 10, 5)])
        assert refused.value.retry_after > 0
    assert offered.result(30).stored == 10
    ingest.close()


def test_rows_are_refused_while_scoring_is_far_behind(ingest: Ingest) -> None:
    ingest.backlog = 10**9
    with pytest.raises(Overloaded, match="rows wait to be scored"):
        ingest.offer([batch("a", 0, 1)])


def test_rows_are_refused_when_a_commit_fails_while_the_service_stops(
    store: Store, ingest: Ingest, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, going, writing = threading.Event(), threading.Event(), store.writing

    @contextlib.contextmanager
    def fail() -> Iterator[Any]:
        entered.set()
        assert going.wait(30)
        monkeypatch.setattr(store, "writing", writing)
        with writing() as connection:
            yield connection
            raise StoreError("The disk is away.")

    def lost() -> None:
        raise StoreError("The disk is away.")

    monkeypatch.setattr(store, "renew", lost)
    monkeypatch.setattr(store, "writing", fail)
    first = ingest.offer([batch("a", 0, 1)])
    assert entered.wait(30)
    second = ingest.offer([batch("a", 1, 1)])
    closing = threading.Thread(target=ingest.close)
    closing.start()
    wait_for(lambda: ingest._stopped)
    going.set()
    closing.join(30)
    assert str(first.exception(10)) == "The disk is away."
    assert str(second.exception(10)) == "The service is stopping; send the rows again in a moment."
    assert stored(store) == {}
    with pytest.raises(Overloaded, match="stopping"):
        ingest.offer([batch("a", 2, 1)])


def test_a_request_that_comes_while_the_service_stops_is_answered(
    store: Store, ingest: Ingest, monkeypatch: pytest.MonkeyPatch
) -> None:
    closing = threading.Thread(target=ingest.close)

    def stop(_: set[str]) -> None:
        closing.start()
        closing.join(0.5)

    monkeypatch.setattr(ingest, "_check_room", stop)
    assert ingest.offer([batch("a", 0, 3)]).result(10).stored == 3
    closing.join(10)
    assert list(stored(store)) == [("a", 0), ("a", 1), ("a", 2)]


def test_one_service_uses_a_store(store: Store, config: Config) -> None:
    store.own()
    other = Store(config.server.url)
    with pytest.raises(StoreError, match="Another `tsadc serve` uses the store"):
        other.own()
    store.close()
    other.own()
    other.close()


def test_a_store_in_use_is_not_migrated(store: Store, config: Config) -> None:
    store.own()
    with store.writing() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = 'refresh'"))
    with pytest.raises(StoreError, match="Another `tsadc serve` uses the store"):
        Service(config)
    with store.reading() as connection:
        assert connection.scalar(sa.text("SELECT version_num FROM alembic_version")) == "refresh"


def test_a_new_store_is_owned_before_it_has_tables(config: Config) -> None:
    store = Store(config.server.url, migrate=False)
    store.own()
    store.migrate()
    store.set_position("folder", "file", "10")
    assert store.position("folder", "file") == "10"
    store.close()


def test_reading_sees_one_state_of_the_store(store: Store) -> None:
    with store.reading() as connection:
        assert store.progress(connection, "counter") == 0
        with store.writing() as other:
            store.set_progress(other, "counter", 1)
        assert store.progress(connection, "counter") == 0
    with store.reading() as connection:
        assert store.progress(connection, "counter") == 1
    with store.writing() as connection:  # of a connection that was used for reading
        assert store.increase(connection, "counter") == 2


def test_migrations_make_the_tables_of_the_schema(store: Store) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    with store.reading() as connection:
        differences: list[Any] = compare_metadata(MigrationContext.configure(connection), schema.metadata)
    assert differences == []


def test_a_store_without_shards_goes_on_where_it_was(store: Store) -> None:
    with store.writing() as connection:
        connection.execute(sa.delete(schema.progress))
        for name in ("scored", "looked", "awake", "changed"):
            store.set_progress(connection, name, 7)
        connection.execute(sa.text("UPDATE alembic_version SET version_num = 'refresh'"))
    later = Store(store.engine.url.render_as_string(hide_password=False))
    with later.reading() as connection:
        assert later.scored(connection) == [7] * SHARDS
        assert [later.progress(connection, name) for name in ("scored", "looked", "changed")] == [0, 0, 7]
    later.close()


def test_rows_that_are_scored_do_not_wait_whatever_shards_have_none(store: Store, ingest: Ingest) -> None:
    ingest.submit(batch("pump 0", 0, 30))
    ingest.submit(batch("pump 1", 0, 20))
    assert ingest._behind([0] * SHARDS) == 50
    assert ingest._behind([0, 30, *[0] * (SHARDS - 2)]) == 50  # since the first row of pump 1, whose number is 2
    assert ingest._behind([0, 30, 40, *[0] * (SHARDS - 3)]) == 10
    assert ingest._behind([0, 30, 50, *[0] * (SHARDS - 3)]) == 0


def test_positions_of_readers_are_kept(store: Store) -> None:
    assert store.position("folder", "file") is None
    store.set_position("folder", "file", "10")
    store.set_position("folder", "file", "20")
    assert store.position("folder", "file") == "20"
    for key in ("gone", "gone too"):
        store.set_position("folder", key, "1")
        store.set_position("other", key, "2")
    store.keep_positions("folder", {"file", "new"})
    keys = ("file", "gone", "gone too")
    assert [store.position("folder", key) for key in keys] == ["20", None, None]
    assert [store.position("other", key) for key in keys] == [None, "2", "2"]


def test_a_store_of_a_later_version_is_refused(store: Store, config: Config) -> None:
    with store.writing() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = 'later'"))
    with pytest.raises(StoreError, match="later version of tsadc; upgrade"):
        Store(config.server.url)


def test_a_sender_that_does_not_wait_stops_nobody(store: Store, ingest: Ingest) -> None:
    """A request that took too long is cancelled by its handler."""
    offered = ingest.offer([batch("a", 0, 5)])
    assert not offered.cancel()
    assert ingest.submit(batch("b", 0, 5)).stored == 5
    assert len(stored(store)) == 10


def test_a_mistake_in_storing_ends_only_its_requests(
    store: Store, ingest: Ingest, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(_Group, "flush", lambda _: 1 / 0)
        with pytest.raises(StoreError, match="could not be stored"):
            ingest.submit(batch("a", 0, 5))
    assert ingest.submit(batch("a", 0, 5)).stored == 5
    assert "Storing rows failed: ZeroDivisionError" in str(ingest.problems.recent())


def test_rows_whose_commit_took_effect_although_its_answer_was_lost_are_stored_once(
    store: Store, ingest: Ingest, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = store.writing

    @contextlib.contextmanager
    def losing_the_answer() -> Iterator[Any]:
        with commit() as connection:
            yield connection
        raise StoreError("The connection is gone.")

    rows = [batch("a", 0, 5), one("b", 0, partial=True, flow=1.0)]
    with monkeypatch.context() as patched:
        patched.setattr(store, "writing", losing_the_answer)
        offered = ingest.offer(rows)
        with pytest.raises(StoreError, match="gone"):
            offered.result()
    assert ingest.offer(rows).result().repeated == 6
    assert ingest.submit(batch("a", 5, 1)).stored == 1
    assert ingest.submit(one("b", 0, partial=True, pressure=2.0, speed=3.0)).filled == 1
    assert list(stored(store)) == [*(("a", number) for number in range(6)), ("b", 0)]
    assert waiting(store) == 0
