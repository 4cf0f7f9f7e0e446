"""Readers hand over what is new, once, and go on where they stopped."""

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Container
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pandas as pd
import pytest

from serve.programs import Receiver, wait_until
from tsadc.config import build
from tsadc.errors import ConfigError, DataError
from tsadc.serve.readers import Reader, folder, mqtt, prometheus, sql
from tsadc.serve.rows import RowBatch
from tsadc.serve.store import StoreError

SECOND = 10**9
START = 1_700_000_000 * SECOND


class Sink:
    """Notes rows and positions; `run` reads until a condition holds."""

    def __init__(self) -> None:
        self.batches: list[RowBatch] = []
        self.positions: dict[str, str] = {}
        self.get, self.set = self.positions.get, self.positions.__setitem__

    def submit(self, batch: RowBatch) -> None:
        self.batches.append(batch)

    def keep_only(self, keys: Container[str]) -> None:
        for key in [key for key in self.positions if key not in keys]:
            del self.positions[key]

    @property
    def rows(self) -> list[tuple[str, int, dict[str, float]]]:
        return [
            (batch.entity, (int(tick) - START) // SECOND, dict(zip(batch.names, row, strict=True)))
            for batch in self.batches
            for tick, row in zip(batch.times, batch.values.tolist(), strict=True)
        ]

    def run(self, reader: Reader, until: Callable[[], Any]) -> None:
        stop = threading.Event()
        errors: list[BaseException] = []

        def read() -> None:
            try:
                reader.run(self.submit, self, stop)
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        try:
            wait_until(lambda: errors or until(), 20)
        finally:
            stop.set()
            thread.join(10)
        if errors:
            raise errors[0]


def table(first: int, rows: int, **columns: float) -> pd.DataFrame:
    times = pd.to_datetime(START + np.arange(first, first + rows) * SECOND)
    values = {name: np.arange(first, first + rows) + value for name, value in columns.items()}
    return pd.DataFrame({"time": times, **values})


def test_lines_that_are_appended_are_read_once(tmp_path: Path) -> None:
    path = tmp_path / "pump.csv"
    text = table(0, 30, flow=0.5, pressure=100).to_csv(index=False)
    lines = text.splitlines(keepends=True)
    path.write_text("".join(lines[:11]) + lines[11][:7])  # ten rows and a part of the next
    sink = Sink()
    reader = folder.create("f", folder.Settings(path=str(tmp_path), every=0.02))
    sink.run(reader, lambda: len(sink.rows) == 10)
    path.write_text("".join(lines[:21]))
    sink.run(reader, lambda: len(sink.rows) == 20)
    path.write_text(text)
    again = folder.create("f", folder.Settings(path=str(tmp_path), every=0.02))  # the service is started again
    sink.run(again, lambda: len(sink.rows) == 30)
    assert sink.rows == [("pump", i, {"flow": i + 0.5, "pressure": i + 100.0}) for i in range(30)]
    assert json.loads(sink.positions["pump.csv"])["bytes"] == len(text)


@pytest.mark.parametrize("columns", [1, 60])  # the header of 60 is longer than the first bytes that are compared
def test_a_file_that_replaces_a_shorter_one_is_read_from_its_beginning(tmp_path: Path, columns: int) -> None:
    """As a daily export under one name."""
    path, names = tmp_path / "export.csv", [f"{k:0100d}" for k in range(columns)]

    def export(first: int, rows: int) -> None:
        table(first, rows, **dict.fromkeys(names, 0.5)).to_csv(path, index=False)

    export(0, 100)
    sink = Sink()
    reader = folder.create("f", folder.Settings(path=str(tmp_path), every=0.02))
    sink.run(reader, lambda: len(sink.rows) == 100)
    export(1000, 101)
    sink.run(reader, lambda: len(sink.rows) == 201)
    export(2000, 101)  # as large as before
    sink.run(reader, lambda: len(sink.rows) == 302)
    times = [*range(100), *range(1000, 1101), *range(2000, 2101)]
    assert sink.rows == [("export", time, dict.fromkeys(names, time + 0.5)) for time in times]


def test_positions_that_earlier_versions_stored_are_used(tmp_path: Path) -> None:
    text = table(0, 30, flow=0.5).to_csv(index=False)
    (tmp_path / "pump.csv").write_text(text)
    sink = Sink()
    sink.set("pump.csv", json.dumps({"bytes": len("".join(text.splitlines(keepends=True)[:21]))}))
    sink.run(folder.create("f", folder.Settings(path=str(tmp_path), every=0.02)), lambda: len(sink.rows) == 10)
    assert sink.rows == [("pump", i, {"flow": i + 0.5}) for i in range(20, 30)]


def test_rows_that_the_service_refuses_are_skipped_unless_it_stops(tmp_path: Path) -> None:
    table(0, 3, flow=0.0).to_csv(tmp_path / "a.csv", index=False)
    table(0, 2, flow=0.0).to_csv(tmp_path / "b.csv", index=False)

    class Refusing(Sink):
        def submit(self, batch: RowBatch) -> None:
            if batch.entity == "a":
                raise DataError("The rows are in the future.")
            super().submit(batch)

    sink = Refusing()
    settings = folder.Settings(path=str(tmp_path), every=0.02)
    sink.run(folder.create("f", settings), lambda: len(sink.positions) == 2)
    assert [entity for entity, _, _ in sink.rows] == ["b", "b"]
    stop, kept = threading.Event(), Sink()

    def stopping(_: RowBatch) -> None:
        stop.set()
        raise DataError("The service is stopping.")

    with pytest.raises(DataError, match="stopping"):
        folder.create("f", settings).run(stopping, kept, stop)
    assert kept.positions == {}


def test_a_file_is_read_again_after_an_error_of_the_store(tmp_path: Path) -> None:
    table(0, 3, flow=0.0).to_csv(tmp_path / "a.csv", index=False)

    def fail(*_: str) -> None:
        raise StoreError("The store cannot be used now.")

    reader = folder.create("f", folder.Settings(path=str(tmp_path), every=0.02))
    for broken in ("get", "set"):
        sink = Sink()
        setattr(sink, broken, fail)
        with pytest.raises(StoreError):
            sink.run(reader, lambda: False)
    sink = Sink()
    sink.run(reader, lambda: sink.positions)
    assert len(sink.rows) == 3


def test_a_large_text_file_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "PART", 3000)
    monkeypatch.setattr(folder, "CHUNK", 500)
    table(0, 400, flow=0.0, x=1.0).to_csv(tmp_path / "a.csv", index=False, sep=";", decimal=",")
    sink = Sink()
    sink.run(folder.create("f", folder.Settings(path=str(tmp_path), every=0.02)), lambda: len(sink.rows) == 400)
    assert sink.rows == [("a", i, {"flow": float(i), "x": i + 1.0}) for i in range(400)]


def test_files_that_are_gone_are_forgotten_unless_the_folder_is_empty(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        table(0, 2, flow=0.0).to_csv(tmp_path / f"{name}.csv", index=False)
    sink = Sink()
    reader = folder.Folder("f", folder.Settings(path=str(tmp_path), every=0.02))
    sink.run(reader, lambda: len(sink.positions) == 3)

    (tmp_path / "a.csv").unlink()
    sink.run(reader, lambda: "a.csv" not in sink.positions)

    def leave() -> bool:
        if (tmp_path / "b.csv").exists():
            (tmp_path / "b.csv").rename(tmp_path / ".b")
        return set(sink.positions) == {"c.csv"}

    sink.run(reader, leave)
    assert list(reader._seen) == [tmp_path / "c.csv"]
    (tmp_path / "c.csv").rename(tmp_path / ".c")
    end = time.monotonic() + 0.3  # several looks
    sink.run(reader, lambda: time.monotonic() > end)
    assert set(sink.positions) == {"c.csv"}
    assert len(sink.rows) == 6


def test_new_parquet_files_entities_and_a_damaged_file(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    frame = pd.concat([table(0, 3, flow=0.0).assign(machine="p1"), table(0, 2, flow=50.0).assign(machine="p2")])
    (tmp_path / "day").mkdir()
    frame.to_parquet(tmp_path / "day" / "1.parquet")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 is not all")
    (tmp_path / "notes.md").write_text("not a table")
    sink = Sink()
    reader = folder.create("f", folder.Settings(path=str(tmp_path), every=0.02, entity="machine"))
    with pytest.raises(DataError, match=r"bad\.parquet"):
        sink.run(reader, lambda: False)
    expected = [("p1", i, {"flow": float(i)}) for i in range(3)] + [("p2", i, {"flow": 50.0 + i}) for i in range(2)]
    assert sink.rows == expected
    table(9, 1, flow=0.0).assign(machine="p1").to_parquet(tmp_path / "day" / "2.parquet")
    sink.run(reader, lambda: len(sink.rows) == 6)  # the damaged file is not complained about again
    assert sink.rows[5:] == [("p1", 9, {"flow": 9.0})]


def test_settings_of_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs `path`"):
        folder.create("f", folder.Settings())
    with pytest.raises(DataError, match="does not exist; create it"):
        Sink().run(folder.create("f", folder.Settings(path=str(tmp_path / "absent"))), lambda: False)
    table(0, 3, flow=0.0).drop(columns="time").to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(DataError, match="has no time column, which live rows need"):
        Sink().run(folder.create("f", folder.Settings(path=str(tmp_path))), lambda: False)


def test_advice_about_a_table_names_the_setting_of_the_reader(tmp_path: Path) -> None:
    frame = table(0, 3, flow=0.0).astype({"flow": object})
    frame.loc[1, "flow"] = "Bad value"
    frame.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(
        DataError, match=r'if it means not measured, add `missing = \["Bad value"\]` to \[reader\.f\]\.$'
    ):
        Sink().run(folder.create("f", folder.Settings(path=str(tmp_path))), lambda: False)
    sink = Sink()
    sink.run(folder.create("f", folder.Settings(path=str(tmp_path), missing=("Bad value",))), lambda: sink.rows)
    assert [row["flow"] for _, _, row in sink.rows][::2] == [0.0, 2.0]


def test_a_file_in_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("time,flow\n")
    reader = folder.create("f", folder.Settings(path=str(tmp_path / "a.csv")))
    with pytest.raises(DataError, match=r'is a file; give the folder that it is in, and pattern = "a\.csv"'):
        Sink().run(reader, lambda: False)


@pytest.mark.parametrize("numbers", [False, True])
def test_a_query_is_repeated_from_its_latest_time(tmp_path: Path, numbers: bool) -> None:
    pytest.importorskip("sqlalchemy")
    database = sqlite3.connect(tmp_path / "plant.db")
    database.execute("CREATE TABLE m (time, machine, flow, pressure)")

    def insert(first: int, rows: int) -> None:
        for i in range(first, first + rows):
            time = START // SECOND + i if numbers else str(pd.Timestamp(START + i * SECOND))
            database.execute("INSERT INTO m VALUES (?, ?, ?, ?)", (time, f"p{i % 2}", i, None if i == 3 else i * 2))
        database.commit()

    insert(0, 6)
    query = "SELECT * FROM m WHERE time >= :after ORDER BY time"
    settings = build(
        sql.Settings,
        {"url": f"sqlite:///{tmp_path}/plant.db", "query": query, "time": "time", "entity": "machine", "every": 0.02}
        | ({"start": 0} if numbers else {}),
    )
    sink = Sink()

    def known() -> dict[tuple[str, int], tuple[float, ...]]:
        return {(entity, time): tuple(row.values()) for entity, time, row in sink.rows}

    sink.run(sql.create("s", settings), lambda: len(known()) == 6)
    insert(6, 3)
    sink.batches.clear()
    sink.run(sql.create("s", settings), lambda: len(known()) == 4)  # the latest again, and three new ones
    assert known() == {(f"p{i % 2}", i): (float(i), i * 2.0) for i in range(5, 9)}


def test_postgresql_is_a_source(postgresql: Any) -> None:
    import sqlalchemy as sa

    url = postgresql.new_database().replace("postgresql://", "postgresql+psycopg://")
    engine = sa.create_engine(url)
    sink = Sink()
    query = "SELECT at, machine, flow, level FROM m WHERE at >= :after ORDER BY at"
    reader = sql.create("s", sql.Settings(url=url, query=query, time="at", entity="machine", every=0.02))

    def insert(first: int, rows: int) -> None:
        times = pd.to_datetime(START + np.arange(first, first + rows) * SECOND, utc=True)
        with engine.begin() as connection:
            for i, at in enumerate(times.to_pydatetime(), first):
                row = {"at": at, "machine": f"p{i % 2}", "flow": i + 0.5, "level": None if i == 1 else i}
                connection.execute(sa.text("INSERT INTO m VALUES (:at, :machine, :flow, :level)"), row)

    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE m (at timestamptz, machine text, flow float8, level numeric)"))
    insert(0, 4)
    sink.run(reader, lambda: len(sink.rows) >= 4)
    insert(4, 2)
    sink.run(reader, lambda: any(time == 5 for _, time, _ in sink.rows))
    engine.dispose()
    known = {(entity, time): (row["flow"], row["level"]) for entity, time, row in sink.rows}
    assert np.isnan(known.pop(("p1", 1))[1])
    assert known == {(f"p{i % 2}", i): (i + 0.5, float(i)) for i in (0, 2, 3, 4, 5)}
    wrong = sql.create("s", sql.Settings(url=url, query="DELETE FROM m WHERE at > :after RETURNING at", time="at"))
    with pytest.raises(DataError, match="read-only transaction"):
        Sink().run(wrong, lambda: False)


def test_errors_of_a_query(tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    sqlite3.connect(tmp_path / "plant.db").execute("CREATE TABLE m (time, flow)")
    url = f"sqlite:///{tmp_path}/plant.db"
    with pytest.raises(ConfigError, match="must be a query with `:after`"):
        sql.Settings(url=url, query="SELECT * FROM m")
    with pytest.raises(ConfigError, match="needs `time`"):
        sql.create("s", sql.Settings(url=url, query="SELECT * FROM m WHERE time > :after"))
    for query, sentence in (
        ("SELECT * FROM absent WHERE time > :after", "no such table: absent"),
        ("DELETE FROM m WHERE time > :after", "readonly database"),
    ):
        with pytest.raises(DataError, match=sentence):
            Sink().run(sql.create("s", sql.Settings(url=url, query=query, time="time")), lambda: False)


def test_promql_is_asked_in_steps_from_where_it_stopped() -> None:
    asked = []

    def answer(method: str, path: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        given = {name: value[0] for name, value in parse_qs(urlsplit(path).query).items()}
        asked.append(given)
        first, last = float(given["start"]), float(given["end"])
        times = np.arange(first, last + 0.5)
        metrics = [{"instance": "a", "job": "node", "cpu": "0"}, {"instance": "b", "job": "node", "cpu": "0"}]
        if given["query"] == "up":
            metrics = [{"__name__": "up", "instance": "a"}]
        result = [{"metric": metric, "values": [[t, str(t % 7)] for t in times]} for metric in metrics]
        content = {"status": "success", "data": {"resultType": "matrix", "result": result}}
        return 200, {}, json.dumps(content).encode()

    with Receiver(answer) as receiver:
        given = {"url": receiver.url, "queries": [["cpu", "rate(x[1m])"], ["up", "up"]], "history": 5, "delay": 1}
        settings = build(prometheus.Settings, {**given, "step": 1}, "reader.p")
        sink = Sink()
        sink.run(prometheus.create("p", settings), lambda: len(asked) >= 4)
        before = int(sink.positions["until"])
        time.sleep(1.1)
        sink.run(prometheus.create("p", settings), lambda: int(sink.positions["until"]) > before)
    assert {batch.entity: batch.names for batch in sink.batches} == {
        "a": ('cpu{cpu="0"}', "up"),
        "b": ('cpu{cpu="0"}',),
    }
    own = sorted(time for entity, time, _ in sink.rows if entity == "a")
    assert own == list(range(own[0], own[-1] + 1))  # every second once
    assert all(row["up"] == (START // SECOND + time) % 7 for entity, time, row in sink.rows if entity == "a")
    assert not any(batch.partial for batch in sink.batches)


def test_rows_of_prometheus_are_in_order_of_time_though_values_are_missing() -> None:
    first = START // SECOND

    def answer(_: str, path: str, *__: Any) -> tuple[int, dict[str, str], bytes]:
        times = (0, 1, 2, 3) if "query=x" in path else (0, 2)
        values = [[first + own, str(own)] for own in times]
        data = {"resultType": "matrix", "result": [{"metric": {"instance": "a"}, "values": values}]}
        return 200, {}, json.dumps({"status": "success", "data": data}).encode()

    with Receiver(answer) as receiver:
        settings = prometheus.Settings(url=receiver.url, queries=(("x", "x"), ("y", "y")), step=1.0)
        [batch] = prometheus.create("p", settings).rows(START, START + 3 * SECOND)
    assert (batch.entity, batch.names, batch.partial) == ("a", ("x", "y"), False)
    assert ((batch.times - START) // SECOND).tolist() == [0, 1, 2, 3]
    assert np.array_equal(batch.values, [[0, 0], [1, np.nan], [2, 2], [3, np.nan]], equal_nan=True)


def test_a_long_time_without_numbers_does_not_stop_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query is 0/0 until a minute ago, for more steps than one request asks for."""
    monkeypatch.setattr(prometheus, "MOST_STEPS", 10)
    until = time.time() - 60

    def answer(_: str, path: str, *__: Any) -> tuple[int, dict[str, str], bytes]:
        given = {name: value[0] for name, value in parse_qs(urlsplit(path).query).items()}
        ticks = np.arange(float(given["start"]), float(given["end"]) + 0.5)
        values = [[tick, "NaN" if tick < until else "1"] for tick in ticks]
        data = {"resultType": "matrix", "result": [{"metric": {"instance": "a"}, "values": values}]}
        return 200, {}, json.dumps({"status": "success", "data": data}).encode()

    with Receiver(answer) as receiver:
        settings = prometheus.Settings(url=receiver.url, queries=(("x", "x"),), step=1.0, delay=0.0, history=120.0)
        sink = Sink()
        sink.run(prometheus.create("p", settings), lambda: len(sink.rows) >= 60)
    assert {row["x"] for _, _, row in sink.rows} == {1.0}
    assert sink.rows[0][1] + START // SECOND == np.ceil(until)


def test_errors_of_prometheus() -> None:
    bad = b'{"status":"error","error":"parse error"}'
    for status, content, sentence in ((400, bad, "answered 400.*parse error"), (200, b"{}", "does not answer like")):
        with Receiver(lambda *_: (status, {}, content)) as receiver:  # noqa: B023
            reader = prometheus.create("p", prometheus.Settings(url=receiver.url, queries=(("a", "up("),)))
            with pytest.raises(DataError, match=sentence):
                Sink().run(reader, lambda: False)
    result = [{"metric": {}, "values": [[0, "1"]]}]
    content = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}).encode()
    with Receiver(lambda *_: (200, {}, content)) as receiver:
        reader = prometheus.create("p", prometheus.Settings(url=receiver.url, queries=(("a", "sum(up)"),)))
        with pytest.raises(DataError, match="gave only series without the label 'instance', which names the entity"):
            Sink().run(reader, lambda: False)
    with pytest.raises(ConfigError, match="needs `url`, the address of Prometheus, and `queries`"):
        prometheus.create("p", prometheus.Settings())
    with pytest.raises(ConfigError, match=r"`reader\.p\.queries` must be pairs"):
        build(prometheus.Settings, {"queries": [["a", "x"], ["a", "y"]]}, "reader.p")


def test_messages_become_values() -> None:
    several, single = mqtt.Settings(topic="plant/{entity}/#"), mqtt.Settings(topic="{entity}/+/{variable}", every=10)
    now = START + 7 * SECOND + 5
    message = b'{"time": "2023-11-14T22:13:20Z", "flow": 1.5, "on": true, "note": "x", "gone": null, "huge": 1e999}'
    assert mqtt.decode("plant/p1/data", message, several, now) == [("p1", START, "flow", 1.5), ("p1", START, "on", 1.0)]
    assert mqtt.decode("p1/x/flow", b"2.5", single, now) == [("p1", START, "flow", 2.5)]
    for stamp in (START // SECOND, START // 10**6, START // 1000, START, float(START // SECOND)):
        payload = json.dumps({"time": stamp, "value": 3}).encode()
        assert mqtt.decode("p1/x/flow", payload, single, now) == [("p1", START, "flow", 3.0)]
    for topic, payload, settings in (
        ("plant/p1", b"[1]", several), ("plant/p1", b"\xff", several), ("plant//x", b"{}", several),
        ("plant/p1", b'{"time": "now", "a": 1}', several), ("p1/x/flow", b'"a"', single), ("p1/x/", b"1", single),
        ("plant/p1", b'{"time": 5, "a": 1}', several), ("plant/p1", b"[" * 100_000, several),
        ("p1/x/flow", b"1" * 5000, single),
    ):  # fmt: skip
        with pytest.raises(DataError) as error:
            mqtt.decode(topic, payload, settings, now)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(("payload", "got"), [(b"abc", "got 'abc'"), (b"", "it is empty"), (b"5,4", "got '5,4'")])
def test_a_message_that_cannot_be_read_is_named_with_its_topic(payload: bytes, got: str) -> None:
    for topic, expected in (
        ("plant/{entity}/{variable}", "a number such as 1.5"),
        ("plant/{entity}/#", "JSON such as"),
    ):
        with pytest.raises(DataError) as error:
            mqtt.decode("plant/p1/flow", payload, mqtt.Settings(topic=topic), START)
        assert str(error.value).startswith(f"A message of 'plant/p1/flow' should be {expected}")
        assert str(error.value).endswith(f", but {got}.")


def test_settings_of_mqtt() -> None:
    for topic in ("plant", "plant/{entity}/{entity}", "#/{entity}", "x{entity}"):
        with pytest.raises(ConfigError, match="`topic` must be a pattern"):
            mqtt.Settings(topic=topic)
    assert mqtt.Settings(topic="a/{entity}/+/{variable}").subscription == "a/+/+/+"
