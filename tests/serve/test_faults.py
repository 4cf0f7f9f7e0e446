"""Killed, stopped, badly configured: nothing acknowledged is lost, and no alert is doubled or forgotten."""

import itertools
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np
import pytest
import sqlalchemy as sa
from live import INTERVAL, LENGTH, NAMES, START, PostgreSQL, Served, batch, wait_for

import tsadc
from tsadc.series import Clock
from tsadc.serve import schema
from tsadc.serve.config import Server
from tsadc.serve.queries import Queries
from tsadc.serve.store import Store

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
    os.kill(served.client.get("/v1/health").json()["scoring"]["pid"], signal.SIGKILL)
    served.push(batch("pump 0", 0, 3 * LENGTH))
    wait_for(lambda: served.client.get("/v1/health").json()["scoring"]["restarts"] == 1)
    served.scored()
    health = served.client.get("/v1/health").json()
    assert any("Scoring ended" in own["problem"] for own in health["problems"])
    assert served.client.get("/v1/entities/pump 0").json()["scores"]["final"].count(True) == 3
    served.kill()
    wait_for(lambda: not Path(f"/proc/{health['scoring']['pid']}").exists())  # it ends with its parent


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
