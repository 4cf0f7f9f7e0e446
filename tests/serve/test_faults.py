"""Killed, stopped, badly configured: nothing acknowledged is lost, and no alert is doubled or forgotten."""

import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import sqlalchemy as sa
import uvicorn
from live import INTERVAL, LENGTH, NAMES, START, PostgreSQL, Served, as_json, batch, wait_for
from starlette.middleware.exceptions import ExceptionMiddleware

import tsadc
from tsadc.series import Clock
from tsadc.serve import schema
from tsadc.serve.config import Server
from tsadc.serve.guard import Guard
from tsadc.serve.metrics import Problems
from tsadc.serve.protocol import PatientProtocol
from tsadc.serve.queries import Queries
from tsadc.serve.rows import RowBatch
from tsadc.serve.store import Store, StoreError

Serve = Callable[..., Served]
ENTITIES = 5
ROWS = 10 * LENGTH
FAULT = (6 * LENGTH, 8 * LENGTH)


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()


def send(served: Served, entity: int, first: int, acknowledged: dict[tuple[str, int], list[float]]) -> bool:
    """Send a few rows; remember those that were acknowledged."""
    rows = batch(f"pump {entity}", first, 20, seed=entity, fault=FAULT if entity == 0 else None)
    try:
        if served.push(rows).status_code != 200:
            return False
    except (httpx.HTTPError, RuntimeError):
        return False
    for tick, values in zip(rows.times.tolist(), rows.values.tolist(), strict=True):
        acknowledged[rows.entity, tick] = values
    return True


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_killed_under_load_nothing_acknowledged_is_lost(
    kind: str, serve: Serve, live_model: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = "store.sqlite"
    if kind == "postgresql":
        server: PostgreSQL = request.getfixturevalue("postgresql")
        url = server.new_database()
    served = serve(url)
    acknowledged: dict[tuple[str, int], list[float]] = {}
    timers: list[threading.Timer] = []
    kills = [0.3, 1.2] if kind == "sqlite" else [0.6]
    for first in range(0, ROWS, 20):
        for entity in range(ENTITIES):
            if kills and first >= ROWS // 3 * (3 - len(kills)) and entity == 2:
                timers.append(threading.Timer(kills.pop(), kill, [served.process]))
                timers[-1].start()
            while not send(served, entity, first, acknowledged):
                if served.process.poll() is not None:
                    served.kill()
                    served.start()
        time.sleep(0.05)
    for timer in timers:
        timer.join()
    if served.process.poll() is not None:
        served.kill()
        served.start()
    served.scored()
    took = served.stop()
    assert took < 10
    store = Store(Server(store=url if kind == "postgresql" else str(tmp_path / url)).url)
    entity, row = schema.entities.c, schema.rows.c
    with store.reading() as connection:
        query = sa.select(entity.name, row.time, row.data).join(schema.rows, row.entity == entity.id)
        stored = {(name, tick): np.frombuffer(bytes(data)).tolist() for name, tick, data in connection.execute(query)}
    assert len(acknowledged) == ENTITIES * ROWS
    assert stored == acknowledged
    values = np.array([stored["pump 0", START + i * INTERVAL] for i in range(ROWS)])
    series = tsadc.Series(values, NAMES, Clock(START, INTERVAL, dated=True), "pump 0")
    found = tsadc.load(live_model).detect(series)
    kept = [own for own in Queries(store).episodes(entity="pump 0")["episodes"] if not own["withdrawn"]]
    assert [own["interval"] for own in kept][::-1] == found.intervals["id"].tolist()
    assert [own["score"] for own in kept][::-1] == found.intervals["score"].tolist()
    store.close()


def test_scoring_that_dies_is_started_again(serve: Serve) -> None:
    served = serve()
    served.scored()
    os.kill(served.client.get("/v1/health").json()["scoring"]["pids"][0], signal.SIGKILL)
    served.push(batch("pump 0", 0, 3 * LENGTH))
    wait_for(lambda: served.client.get("/v1/health").json()["scoring"]["restarts"] == 1)
    served.scored()
    health = served.client.get("/v1/health").json()
    assert any("Scoring ended" in own["problem"] for own in health["problems"])
    assert served.client.get("/v1/entities/pump 0").json()["scores"]["final"].count(True) == 3
    served.kill()
    wait_for(lambda: not Path(f"/proc/{health['scoring']['pids'][0]}").exists())  # it ends with its parent


def test_a_bad_configuration_leaves_the_old_one_in_force(serve: Serve) -> None:
    served = serve()
    file = served.file
    good = file.read_text()
    file.write_text(good + "colour = 3\n")
    served.process.send_signal(signal.SIGHUP)
    said = wait_for(lambda: served.client.get("/v1/health").json()["problems"])
    assert "The old configuration stays in force: There is no setting `model.plant.colour`" in said[0]["problem"]
    assert served.push(batch("pump 0", 0, 1)).status_code == 200
    file.write_text(good + 'entities = ["pump*"]\n')
    served.process.send_signal(signal.SIGHUP)
    # Another name each time: an entity that came before the reload keeps its model.
    names = (f"fan {number}" for number in itertools.count())
    wait_for(lambda: served.push(batch(next(names), 0, 1)).status_code == 400)
    assert served.push(batch("pump 1", 0, 1)).status_code == 200
    assert served.stop() < 10
    assert served.process.returncode == 0


def test_changes_are_sent_as_they_happen(serve: Serve) -> None:
    served = serve()
    with served.client.stream("GET", "/v1/changes") as stream:
        lines = stream.iter_lines()
        first = [next(lines) for _ in range(3)]
        assert first[1] == "event: changes"
        served.push(batch("pump 0", 0, 2 * LENGTH))
        changed = next(line for line in lines if line.startswith("data:"))
    assert '"entities": ["pump 0"]' in changed
    assert served.stop() < 10


def acknowledged_rows(store: Store) -> int:
    with store.reading() as connection:
        return connection.scalar(sa.select(sa.func.count()).select_from(schema.rows)) or 0


def push_until(served: Served, status: int, first: int, most: int = 400) -> int:
    """Send requests of 100 rows until one is answered with a status; return the next row that is to be sent."""
    for number in range(first, first + most * 100, 100):
        answer = served.push(batch("pump 0", number, 100))
        if answer.status_code == status:
            return number if status != 200 else number + 100
        assert answer.status_code in (200, 503)
        if answer.status_code == 503:
            assert answer.headers["Retry-After"]
            assert "The store" in answer.json()["error"]
    raise AssertionError(f"no request was answered with {status}")


def test_a_database_that_is_restarted_under_load_loses_nothing(serve: Serve, postgresql: PostgreSQL) -> None:
    url = postgresql.new_database()
    served = serve(url)
    next_row = push_until(served, 200, 0)
    postgresql.stop()
    try:
        assert push_until(served, 503, next_row) == next_row
        assert served.client.get("/v1/health").json()["status"] == "failing"
    finally:
        postgresql.start()
    wait_for(lambda: served.push(batch("pump 0", next_row, 100)).status_code == 200)
    served.scored()
    wait_for(lambda: served.client.get("/v1/health").json()["status"] == "ok")
    other = Store(Server(store=url).url)
    assert acknowledged_rows(other) == next_row + 100
    with pytest.raises(StoreError, match="Another `tsadc serve` uses the store"):  # the lock was taken again
        other.own()
    other.close()


def test_a_full_disk_refuses_rows_and_loses_none(serve: Serve, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", disk], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        served = serve(str(disk / "store.sqlite"))
        next_row = push_until(served, 503, 0)
        assert next_row > 0
        wait_for(
            lambda: any("disk is full" in own["problem"] for own in served.client.get("/v1/health").json()["problems"])
        )
        subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
        wait_for(lambda: served.push(batch("pump 0", next_row, 100)).status_code == 200)
        served.scored()
        assert served.stop() < 10
        store = Store(Server(store=str(disk / "store.sqlite")).url)
        assert acknowledged_rows(store) == next_row + 100
        store.close()
    finally:
        served.kill()
        subprocess.run(["umount", disk], check=True)


def test_slow_clients_delay_nobody(serve: Serve) -> None:
    served = serve()
    host, port = served.client.base_url.host, served.client.base_url.port
    assert port is not None
    body = b"POST /v1/rows HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
    with contextlib.ExitStack() as slow:
        for sent in (b"", b"POST /v1/rows HT", body):
            for _ in range(20):
                slow.enter_context(socket.create_connection((host, port))).sendall(sent)
        assert served.push(batch("pump 0", 0, 10)).status_code == 200
        assert served.stop() < 10


@pytest.fixture
def hasty() -> Iterator[Any]:
    """The address of a server that reads the body of a request, and waits for a quarter of a second only."""

    class Hasty(PatientProtocol):
        patience = 0.25

    class HastyGuard(Guard):
        patience = 0.25

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    app = HastyGuard(ExceptionMiddleware(answer), Server(), {}, Problems())
    listening = socket.create_server(("127.0.0.1", 0))
    settings = uvicorn.Config(app, http=Hasty, lifespan="off", log_level="warning", timeout_keep_alive=60)
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    yield listening.getsockname()
    server.should_exit = True
    thread.join()


def heard(address: Any, *sent: bytes) -> list[bytes]:
    """Send parts, each after an answer to the one before; return the answers until the server closes."""
    answers = []
    with socket.create_connection(address, timeout=30) as connection:
        for part in sent:
            connection.sendall(part)
            answers.append(connection.recv(10_000))
        while answers[-1]:
            answers.append(connection.recv(10_000))
    return answers


HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize("sent", [b"", b"P", HEAD])
def test_a_connection_without_a_whole_head_is_closed(hasty: Any, sent: bytes) -> None:
    assert heard(hasty, sent) == [b""]


def test_half_a_second_request_does_not_keep_a_connection_open(hasty: Any) -> None:
    first, *rest = heard(hasty, HEAD + b"\r\n", HEAD)
    assert first.startswith(b"HTTP/1.1 204")
    assert rest == [b""]


@pytest.mark.parametrize("path", [b"/v1/rows", b"/v1/mutes"])
def test_a_body_that_does_not_arrive_is_answered_and_its_connection_closed(hasty: Any, path: bytes) -> None:
    head = b"POST " + path + b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
    answer = b"".join(heard(hasty, head))
    assert answer.startswith(b"HTTP/1.1 503")
    assert b"The body did not arrive within 0.25 s" in answer


def test_a_connection_that_asks_may_stay(hasty: Any) -> None:
    with socket.create_connection(hasty, timeout=30) as connection:
        for _ in range(2):
            connection.sendall(HEAD + b"\r\n")
            assert connection.recv(1000).startswith(b"HTTP/1.1 204")
            time.sleep(0.4)


def test_a_storm_of_missing_values_is_survived(serve: Serve) -> None:
    served = serve()
    for first in range(0, 20 * LENGTH, LENGTH):
        rows = batch("pump 0", first, LENGTH)
        if 3 * LENGTH <= first < 12 * LENGTH:
            rows = RowBatch("test", "pump 0", NAMES, rows.times, np.full_like(rows.values, np.nan))
        content = json.dumps(as_json(rows))  # with NaN, as Python writes it
        assert served.client.post("/v1/rows", content=content).status_code == 200
    served.scored()
    health = served.client.get("/v1/health").json()
    assert health["status"] == "ok"
    assert health["scoring"]["restarts"] == 0
    scores = served.client.get("/v1/entities/pump 0").json()["scores"]
    assert scores["end"][-1] == (START + 20 * LENGTH * INTERVAL) / 1e6
    assert scores["anomalous"][-1] is False
