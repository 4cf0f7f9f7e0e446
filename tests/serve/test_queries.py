"""What the API reads from the store, on each database: states of entities, and scores of a period."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from live import LENGTH, NAMES, START, waves

import tsadc
from tsadc.errors import DataError
from tsadc.series import Clock
from tsadc.serve import charting, schema
from tsadc.serve.queries import Page, Queries, tick_of
from tsadc.serve.store import Store
from tsadc.serve.stored_rows import PART, Extent, extent, part_of, rows_between

SECOND = 10**9
# entity: (severity, muted, acknowledged) of each open episode
OPEN: dict[str, list[tuple[float, bool, bool]]] = {
    "calm": [],
    "new": [],
    "acknowledged": [(99.0, False, True)],
    "muted": [(100.0, True, False)],
    "open": [(50.0, False, False), (98.0, False, True), (100.0, True, False)],
    "moved": [],
}


def add(store: Store) -> None:
    """Store the entities, their episodes, proposals and ten scores of the first one."""
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
        level = {
            "lasting": True,
            "since": SECOND,
            "above": 9,
            "observations": 9,
            "variables": [],
            "created": 0.0,
            "by": "",
        }
        for number, state in ((1, "refused"), (5, "open"), (6, "open"), (2, "adapting")):
            connection.execute(schema.proposals.insert().values(entity=number, state=state, **level))
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
        ("moved", "level"),
        ("calm", "ok"),
        ("muted", "muted"),
        ("new", "unscored"),
    ]
    assert [own["open_severity"] for own in found["entities"]] == [99.0, 98.0, None, None, None, None]
    assert [own["open_episodes"] for own in found["entities"]] == [1, 2, 0, 0, 0, 0]
    since = {own["name"]: own["level_since"] for own in found["entities"] if own["level_since"]}
    assert since == {"open": "1970-01-01T00:00:01Z", "moved": "1970-01-01T00:00:01Z"}
    assert found["proposals"] == 2
    assert found["counts"] == {"open": 1, "acknowledged": 1, "muted": 1, "level": 1, "ok": 1, "unscored": 1}


def test_search_and_state_choose_entities_but_all_are_counted(store: Store) -> None:
    add(store)
    queries = Queries(store)
    for state in ("open", "acknowledged", "muted", "level", "ok", "unscored"):
        found = queries.entities(state=state)
        assert [own["state"] for own in found["entities"]] == [state]
        assert sum(found["counts"].values()) == 6
    assert queries.entities(search="M")["total"] == 3
    assert [own["name"] for own in queries.entities(page=Page(2, 1))["entities"]] == ["open", "moved"]
    with pytest.raises(DataError, match="must be one of open, acknowledged, muted, level, ok, unscored, but got 'odd'"):
        queries.entities(state="odd")


def test_the_scores_of_an_entity_are_those_that_meet_the_period(store: Store) -> None:
    add(store)
    queries = Queries(store)
    assert queries.entity("calm", None, None)["scores"]["score"] == [float(k) for k in range(10)]
    assert queries.entity("calm", None, None, limit=3)["scores"]["score"] == [7.0, 8.0, 9.0]
    assert queries.entity("calm", "2500", "1970-01-01T00:00:05Z")["scores"]["score"] == [2.0, 3.0, 4.0]
    assert queries.entity("open", None, None)["state"] == "open"


def test_of_many_scores_the_highest_of_each_point_is_shown(store: Store) -> None:
    add(store)
    early = {"entity": 1, "score": 9.5, "threshold": 1.0, "final": False}
    early |= {"anomalous": True, "severity": 0.0, "coverage": 1.0}
    with store.writing() as connection:
        for start in (3 * SECOND, 9 * SECOND):  # the first one is superseded
            times = {"start": start, "end": start + SECOND + 1}
            connection.execute(schema.scores.insert().values(**early, **times))
        second = schema.scores.c.end == 2 * SECOND
        connection.execute(sa.update(schema.scores).where(second).values(score=5.0, threshold=0.5, anomalous=True))
    queries = Queries(store)
    shown = queries.entity("calm", None, None, most_points=3)
    assert shown["verdicts"] == 11
    assert shown["scores"] == {
        "start": [0.0, 4000.0, 7000.0, 9000.0],
        "end": [4000.0, 7000.0, 10000.0, 10000.000001],
        "score": [5.0, 6.0, 9.0, 9.5],
        "threshold": [0.5, 1.0, 1.0, 1.0],
        "anomalous": [True, False, False, True],
        "severity": [0.0] * 4,
        "final": [True, True, True, False],
    }
    part = queries.entity("calm", "4500", "6000", most_points=3)
    assert (part["verdicts"], part["scores"]["score"]) == (2, [4.0, 5.0])
    assert queries.entity("new", None, None, most_points=3)["verdicts"] == 0


def add_rows(store: Store, folder: Path, ticks: Any, values: Any) -> None:
    """Store rows of the entity "pump" of a model."""
    with store.writing() as connection:
        model = {"name": "m", "folder": str(folder), "digest": "d", "variables": list(NAMES), "state": "current"}
        connection.execute(schema.models.insert().values(**model, since=0.0, note=""))
        connection.execute(schema.entities.insert().values(id=1, name="pump", model="m", first_time=int(ticks[0])))
        rows = [
            {"sequence": number, "part": part_of(tick), "entity": 1, "time": tick, "data": own.tobytes()}
            for number, (tick, own) in enumerate(zip(ticks.tolist(), values, strict=True))
        ]
        connection.execute(schema.rows.insert(), rows)


@pytest.mark.parametrize("rows", [10**6, 3])  # in one piece, and three rows at a time
def test_a_point_has_the_lowest_and_the_highest_of_its_rows(
    store: Store, live_model: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """The definition is a loop over the points."""
    monkeypatch.setattr(charting, "PIECE", rows * len(NAMES))
    places = np.concatenate([np.arange(100), 5000 + np.arange(0, 1400, 7)])
    ticks = START + places * SECOND + np.where(places % 3, 0, 10**7)  # some of them late
    values = waves(places)
    values[20, 1] = np.nan
    add_rows(store, live_model, ticks, values)
    points = 64
    shown = Queries(store).rows("pump", "0", None, points, ["pressure"])
    edges = np.linspace(0, places[-1] + 1, points + 1).astype(int)
    assert shown["times"] == [(START + edge * SECOND) / 1e6 for edge in edges[:-1]]
    assert (shown["rows"], shown["coverage"], list(shown["variables"])) == (300, 1.0, ["pressure"])
    for name, reduce in (("min", np.nanmin), ("max", np.nanmax)):
        for first, last, value in zip(edges, edges[1:], shown["variables"]["pressure"][name], strict=False):
            inside = values[(places >= first) & (places < last), 1]
            assert value == (pytest.approx(reduce(inside), rel=1e-6) if len(inside) else None)
    lower, upper = (shown["variables"]["pressure"][name] for name in ("lower", "upper"))
    usual = [(low, high) for low, high in zip(lower, upper, strict=True) if low is not None]
    assert len(usual) == sum(value is not None for value in shown["variables"]["pressure"]["min"])
    assert all(-2.5 < low < high < 2.5 for low, high in usual)


def test_of_more_rows_than_one_chart_reads_a_part_of_each_point_is_read(
    store: Store, live_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = np.arange(1000)
    add_rows(store, live_model, START + places * SECOND, np.repeat(places[:, None], len(NAMES), axis=1).astype(float))
    queries = Queries(store)
    every = {"min": [0, 250, 500, 750], "max": [249, 499, 749, 999]}
    part = {"min": [0, 250, 500, 750], "max": [49, 299, 549, 799]}
    for limit, most, coverage, expected in (
        ("MOST_ROWS", 1000, 1.0, every),
        ("MOST_ROWS", 200, 0.2, part),
        ("MOST_CELLS", 200 * len(NAMES), 0.2, part),
    ):
        with monkeypatch.context() as limited:
            limited.setattr(charting, limit, most)
            shown = queries.rows("pump", str(START // 10**6), None, 4, ["flow"])
        assert (shown["rows"], shown["coverage"]) == (1000, coverage)
        assert {name: shown["variables"]["flow"][name] for name in every} == expected
    monkeypatch.setattr(charting, "MOST_VALUES", 6)
    assert len(queries.rows("pump", "0", None, 600, [])["times"]) == 2  # of three variables


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
                    known_times = [own.time for own in connection.execute(sa.select(row.time).where(inside))]
                    ends = Extent(len(known_times), min(known_times), max(known_times)) if known_times else None
                    assert extent(connection, entity, first, last) == ends
        assert rows_between(connection, 1, most=2).values(2).tolist() == [[14, -1.5 * PART - 0.5], [13, -PART / 2]]


def test_rows_of_a_model_without_times_are_as_far_apart_as_the_settings_say(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "undated"
    history = tsadc.Series(waves(np.arange(30 * LENGTH)), NAMES, Clock(), "pump")
    tsadc.Ensemble(length=LENGTH).fit(history).save(folder)
    add_rows(store, folder, 60 * SECOND * np.arange(1, 4), np.repeat(np.arange(3.0)[:, None], len(NAMES), axis=1))
    shown = Queries(store, {"m": 60.0}.get).rows("pump", None, None, 100, ["flow"])
    assert shown["interval"] == 60_000
    assert shown["times"] == [60_000.0, 120_000.0, 180_000.0]
    assert shown["variables"]["flow"]["min"] == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("text", ["NaT", "now", "today", "nan", "", " ", "-", "+1", "noon", "1e300", "9999-01-01"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="`to` must be a time such as 2026-03-01T12:30:00Z, but got"):
        tick_of(text, "to")


def test_times_are_dates_or_milliseconds() -> None:
    expected = 1_772_368_200 * SECOND
    for text in ("2026-03-01T12:30:00Z", "2026-03-01 12:30", "2026-03-01T13:30+01:00", "1772368200000"):
        assert tick_of(text, "to") == expected
    assert tick_of("-1.5", "to") == -1_500_000
