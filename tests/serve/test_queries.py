"""What the API reads from the store, on each database: states of entities, and scores of a period."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from live import LENGTH, NAMES, waves

import tsadc
from tsadc.errors import DataError
from tsadc.series import Clock
from tsadc.serve import schema
from tsadc.serve.queries import Page, Queries
from tsadc.serve.store import Store
from tsadc.serve.stored_rows import PART, part_of, rows_between

SECOND = 10**9
# entity: (severity, muted, acknowledged) of each open episode
OPEN: dict[str, list[tuple[float, bool, bool]]] = {
    "calm": [],
    "new": [],
    "acknowledged": [(99.0, False, True)],
    "muted": [(100.0, True, False)],
    "open": [(50.0, False, False), (98.0, False, True), (100.0, True, False)],
}


def add(store: Store) -> None:
    """Store the entities, their episodes and ten scores of the first one."""
    episode: dict[str, Any] = {"model": "m", "state": "open", "start": 0, "end": SECOND, "score": 1.0, "events": 1}
    episode |= {"alarm_score": 1.0, "alarm_severity": 1.0, "alarm_time": 0, "opened": 0.0, "announced": 0.0}
    episode |= {"kind": "", "reason": "", "evidence": "", "variables": {}, "withdrawn": False, "changed": 0}
    score = {"threshold": 1.0, "anomalous": False, "severity": 0.0, "coverage": 1.0, "final": True}
    with store.writing() as connection:
        for number, (name, episodes) in enumerate(OPEN.items(), 1):
            own = {"first_time": 0, "score": None if name == "new" else 0.5}
            connection.execute(schema.entities.insert().values(id=number, name=name, model="m", **own))
            for k, (severity, muted, seen) in enumerate(episodes):
                own = {"id": f"{name} {k}", "interval": f"{name} {k}", "entity": number, "severity": severity}
                own |= {"muted": muted, "acknowledged": 1.0 if seen else None}
                connection.execute(schema.episodes.insert().values(**episode, **own))
        for k in range(10):
            times = {"entity": 1, "start": k * SECOND, "end": (k + 1) * SECOND, "score": float(k)}
            connection.execute(schema.scores.insert().values(**times, **score))


def test_entities_have_the_state_of_their_worst_open_episode(store: Store) -> None:
    add(store)
    queries = Queries(store)
    found = queries.entities()
    assert [(own["name"], own["state"]) for own in found["entities"]] == [
        ("acknowledged", "acknowledged"),
        ("open", "open"),
        ("calm", "ok"),
        ("muted", "muted"),
        ("new", "unscored"),
    ]
    assert [own["open_severity"] for own in found["entities"]] == [99.0, 98.0, None, None, None]
    assert [own["open_episodes"] for own in found["entities"]] == [1, 2, 0, 0, 0]
    assert found["counts"] == {"open": 1, "acknowledged": 1, "muted": 1, "ok": 1, "unscored": 1}


def test_search_and_state_choose_entities_but_all_are_counted(store: Store) -> None:
    add(store)
    queries = Queries(store)
    for state in ("open", "acknowledged", "muted", "ok", "unscored"):
        found = queries.entities(state=state)
        assert [own["state"] for own in found["entities"]] == [state]
        assert sum(found["counts"].values()) == 5
    assert queries.entities(search="M")["total"] == 2
    assert [own["name"] for own in queries.entities(page=Page(2, 1))["entities"]] == ["open", "calm"]
    with pytest.raises(DataError, match="must be one of open, acknowledged, muted, ok, unscored, but got 'odd'"):
        queries.entities(state="odd")


def test_the_scores_of_an_entity_are_those_that_meet_the_period(store: Store) -> None:
    add(store)
    queries = Queries(store)
    assert queries.entity("calm", None, None)["scores"]["score"] == [float(k) for k in range(10)]
    assert queries.entity("calm", None, None, limit=3)["scores"]["score"] == [7.0, 8.0, 9.0]
    assert queries.entity("calm", "2500", "1970-01-01T00:00:05Z")["scores"]["score"] == [2.0, 3.0, 4.0]
    assert queries.entity("open", None, None)["state"] == "open"


def test_rows_of_an_entity_are_found_in_every_part(store: Store) -> None:
    """The definition is a query without parts."""
    times = [-3 * PART - 1, -PART, 0, 1, PART - 1, PART, 5 * PART + 7, 900 * PART, 900 * PART + 1]
    row = schema.rows.c
    with store.writing() as connection:
        for entity in (1, 2, 3):
            connection.execute(schema.entities.insert().values(id=entity, name=str(entity), model="m", first_time=0))
        known = [(entity, time) for time in reversed(times) for entity in (1, 2) if entity == 1 or time > 0]
        for sequence, (entity, time) in enumerate(known):
            values = {"sequence": sequence, "part": part_of(time), "entity": entity, "time": time}
            connection.execute(schema.rows.insert().values(**values, data=np.array([sequence, time / 2]).tobytes()))
    with store.reading() as connection:
        for entity in (1, 2, 3):
            for first in (*times, -(2**62), 2**62):
                for last in (*times, 2**62):
                    inside = (row.entity == entity) & (row.time >= first) & (row.time < last)
                    expected = connection.execute(sa.select(row.sequence, row.time).where(inside).order_by(row.time))
                    found = rows_between(connection, entity, first, last)
                    assert list(zip(found.sequences, found.times, strict=True)) == [tuple(own) for own in expected]
        assert rows_between(connection, 1, most=2).values(2).tolist() == [[14, -1.5 * PART - 0.5], [13, -PART / 2]]


def test_rows_of_a_model_without_times_are_as_far_apart_as_the_settings_say(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "undated"
    history = tsadc.Series(waves(np.arange(30 * LENGTH)), NAMES, Clock(), "pump")
    tsadc.Ensemble(length=LENGTH).fit(history).save(folder)
    ticks = 60 * SECOND * np.arange(1, 4)
    with store.writing() as connection:
        model = {"name": "m", "folder": str(folder), "digest": "d", "variables": list(NAMES), "state": "current"}
        connection.execute(schema.models.insert().values(**model, since=0.0, note=""))
        connection.execute(schema.entities.insert().values(id=1, name="pump", model="m", first_time=int(ticks[0])))
        for number, tick in enumerate(ticks.tolist()):
            row = {"sequence": number, "part": part_of(tick), "entity": 1, "time": tick}
            connection.execute(schema.rows.insert().values(**row, data=np.full(len(NAMES), float(number)).tobytes()))
    shown = Queries(store, {"m": 60.0}.get).rows("pump", None, None, 100, ["flow"])
    assert shown["interval"] == 60_000
    assert shown["times"] == [60_000.0, 120_000.0, 180_000.0]
    assert shown["variables"]["flow"]["min"] == [0.0, 1.0, 2.0]
