"""Rows that do not fit their model: each is a sentence for whoever can fix the sender, and is counted."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from live import INTERVAL, LENGTH, NAMES, START, batch, wait_for

import tsadc
from tsadc.series import Clock
from tsadc.serve import schema
from tsadc.serve.config import Config, Model, Server
from tsadc.serve.ingest import Ingest
from tsadc.serve.metrics import Problems, exposition
from tsadc.serve.misfits import MANY, Pace
from tsadc.serve.rows import RowBatch
from tsadc.serve.scoring import Scoring, Settings
from tsadc.serve.service import Service
from tsadc.serve.store import Store


@pytest.fixture
def local(live_model: Path, tmp_path: Path) -> Config:
    server = Server(store=str(tmp_path / "store.sqlite"), port=0, keep_days=10_000, future=1e9)
    return Config(server, {"plant": Model(folder=str(live_model))})


def said(config: Config, *batches: RowBatch) -> list[Any]:
    """Store batches, each in a request of its own, score them, and return what does not fit."""
    store = Store(config.server.url)
    ingest = Ingest(store, config, {"plant": tuple(batches[0].names)}, Problems())
    for rows in batches:
        ingest.submit(rows)
    ingest.close()
    scoring = Scoring(Settings.of(config))
    while scoring.step():
        pass
    with store.reading() as connection:  # nothing that was acknowledged is lost
        stored = connection.scalar(sa.select(sa.func.count()).select_from(schema.rows))
    assert stored == len({(rows.entity, time) for rows in batches for time in rows.times.tolist()})
    scoring.store.close()
    store.close()
    return scoring.misfits


def test_rows_that_fit_are_not_mentioned(local: Config) -> None:
    assert said(local, batch("pump 0", 0, LENGTH), batch("pump 0", 3 * LENGTH, 2 * LENGTH)) == []


def test_a_clock_that_jumped_ahead_and_back_is_named(local: Config) -> None:
    [late] = said(local, batch("pump 0", 0, 10), batch("pump 0", 200, 1), batch("pump 0", 10, 30))
    assert (late.reason, late.rows) == ("late", 30)
    assert "Rows of 'pump 0' are older than others that came before" in late.sentence
    assert "correct the clock of the sender" in late.sentence


@pytest.mark.parametrize(
    ("step", "reason", "sentence"),
    [
        (INTERVAL // 2, "off_clock", "lie between the rows of the model 'plant', which has one every 1s"),
        (10 * INTERVAL, "rate", "come every 10s, but the model 'plant' was fitted on one every 1s"),
    ],
)
def test_rows_at_another_rate_are_named(local: Config, step: int, reason: str, sentence: str) -> None:
    rows = batch("pump 0", 0, 2 * MANY)
    found = said(local, RowBatch("test", "pump 0", NAMES, START + step * np.arange(len(rows)), rows.values))
    assert {own.reason for own in found} == {reason}
    assert sentence in found[0].sentence


def test_another_pace_is_noticed_over_one_or_several_pushes() -> None:
    times = np.cumsum([1] * 5 + [3] * (MANY + 3) + [1] + [4] * MANY)
    single, together = Pace(1), Pace(1)
    assert [own for time in times if (own := single.add(np.array([time])))] == [3, 4]
    assert together.add(times[: 4 + MANY]) is None
    assert together.add(times[4 + MANY : 7 + MANY]) == 3


def test_infinite_values_are_named(local: Config) -> None:
    rows = batch("pump 0", 0, 3)
    values = rows.values.copy()
    values[1, 2] = np.inf
    [found] = said(local, RowBatch("test", "pump 0", NAMES, rows.times, values))
    assert (found.reason, found.rows, found.sentence) == (
        "infinite_values",
        1,
        "Infinite values of 'pump 0' count as missing.",
    )


def test_a_change_of_units_is_named_where_it_alarms(local: Config, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    warm = 20 + generator.normal(size=(40 * LENGTH, 3))
    clock = Clock(START - 40 * LENGTH * INTERVAL, INTERVAL, dated=True)
    folder = tmp_path / "model"
    tsadc.Ensemble(length=LENGTH).fit(tsadc.Series(warm, NAMES, clock, "oven")).save(folder)
    config = Config(local.server, {"plant": Model(folder=str(folder), provisional=False)})
    values = 20 + generator.normal(size=(4 * LENGTH, 3))
    values[2 * LENGTH :, 0] = 32 + 1.8 * values[2 * LENGTH :, 0]
    found = said(config, RowBatch("test", "oven", NAMES, START + np.arange(4 * LENGTH) * INTERVAL, values))
    assert {own.reason for own in found} == {"unit"}
    assert "°C and °F" in found[0].sentence
    assert "(flow - 32) / 1.8" in found[0].sentence


def test_the_service_says_and_counts_what_does_not_fit(local: Config) -> None:
    service = Service(local)
    try:
        for rows in (batch("pump 0", 100, 1), batch("pump 0", 0, 30)):
            service.ingest.submit(rows)
        problems = wait_for(service.problems.recent)
        assert [(own.reason, own.count) for own in problems] == [("late", 30)]
        assert service.health()["problems"][0]["problem"].startswith("Rows of 'pump 0' are older")
        assert b'tsadc_problems_total{reason="late"} 30.0' in exposition(service)
    finally:
        service.close()
