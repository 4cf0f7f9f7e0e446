"""`tsadc watch` says the same as the service, on the terminal."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from live import INTERVAL, LENGTH, NAMES, START, batch

import tsadc
from tsadc.errors import DataError
from tsadc.series import Clock
from tsadc.serve.config import Model
from tsadc.serve.watch import Watch, watch_lines

FAULT = (5 * LENGTH, 6 * LENGTH)
ROWS = batch("pump 0", 0, 9 * LENGTH, fault=FAULT)
FRAME = pd.DataFrame(ROWS.values, columns=list(NAMES)).assign(
    time=pd.to_datetime(ROWS.times, utc=True), entity="pump 0"
)


@pytest.fixture
def said(live_model: Path) -> tuple[Watch, list[dict[str, Any]]]:
    changes: list[dict[str, Any]] = []
    return Watch(Model(folder=str(live_model)), changes.append), changes


def confirmed(changes: list[dict[str, Any]]) -> list[str]:
    taken_back = {own["id"] for own in changes if own["withdrawn"]}
    return [own["transition"] for own in changes if own["id"] not in taken_back]


def as_csv() -> list[str]:
    return FRAME.to_csv(index=False, date_format="%Y-%m-%dT%H:%M:%SZ").splitlines()


def as_json() -> list[str]:
    times = FRAME["time"].dt.strftime("%Y-%m-%dT%H:%M:%SZ")
    rows = zip(times, ROWS.values.tolist(), strict=True)
    return [
        json.dumps({"entity": "pump 0", "time": time, "values": dict(zip(NAMES, row, strict=True))})
        for time, row in rows
    ]


@pytest.mark.parametrize("lines", [as_csv(), as_json()])
def test_lines_open_and_end_the_episode_of_detect(
    said: tuple[Watch, list[dict[str, Any]]], live_model: Path, lines: list[str]
) -> None:
    watch, changes = said
    watch_lines(watch, lines)
    assert confirmed(changes)[0] == "opened"
    assert confirmed(changes)[-1] == "resolved"
    series = tsadc.Series(ROWS.values, NAMES, Clock(START, INTERVAL, dated=True), "pump 0")
    [interval] = tsadc.load(live_model).detect(series).intervals.to_dict("records")
    last = [own for own in changes if not own["withdrawn"]][-1]
    assert (last["start"], last["reason"]) == (interval["start"].isoformat() + "Z", interval["reason"])


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (["a,b", "1,2"], "a header with `time`"),
        (["time,flow", "2026-01-01T00:00:00Z,1,2"], "Line 2 has 3 cells"),
        (["time,flow", "2026-01-01T00:00:00Z,high"], "not a number"),
        (["time,colour", "2026-01-01T00:00:00Z,1"], "None of the variables colour is known"),
    ],
)
def test_lines_that_cannot_be_used_are_refused(
    said: tuple[Watch, list[dict[str, Any]]], lines: list[str], sentence: str
) -> None:
    with pytest.raises(DataError, match=sentence):
        watch_lines(said[0], lines)
