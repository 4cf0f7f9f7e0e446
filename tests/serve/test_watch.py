"""`tsadc watch` says the same as the service, on the terminal."""

import io
import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from live import INTERVAL, LENGTH, NAMES, START, batch, waves

import tsadc
from tsadc.cli import serve
from tsadc.errors import ConfigError, DataError, TsadcNotice
from tsadc.series import Clock
from tsadc.serve.config import Model
from tsadc.serve.watch import Watch, watch_folder, watch_lines

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
    watch_lines(watch, lines, "pump 0", pytest.fail)
    assert watch.left_out() == ""
    assert confirmed(changes)[0] == "opened"
    assert confirmed(changes)[-1] == "resolved"
    series = tsadc.Series(ROWS.values, NAMES, Clock(START, INTERVAL, dated=True), "pump 0")
    [interval] = tsadc.load(live_model).detect(series).intervals.to_dict("records")
    last = [own for own in changes if not own["withdrawn"]][-1]
    assert (last["start"], last["reason"]) == (interval["start"].isoformat() + "Z", interval["reason"])


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (["a,b", "1,2"], "a header with `time` and commas, .* but got 'a,b'"),
        (["a\rb", "1,2"], "a carriage return inside"),
        (["time,colour"], "None of the variables colour is known to the model, which has flow"),
        (["time,entity"], "no values"),
    ],
)
def test_a_header_that_cannot_be_used_is_refused(
    said: tuple[Watch, list[dict[str, Any]]], lines: list[str], sentence: str
) -> None:
    with pytest.raises(DataError, match=sentence):
        watch_lines(said[0], lines, "pump 0", pytest.fail)


WRONG_CELLS = {
    "2026-01-01T00:00:00Z,1,2": "It has 3 cells, but the header has 5.",
    "2026-01-01T00:00:00Z,1,\r2,3,a": "It has a carriage return inside",
    "1,2,high,2026-01-01T00:00:00Z,a": "The value 'high' of 'speed' is not a number.",
    "1,2,3,soon,a": "The time 'soon' is not ISO 8601",
    '"1,2,3,2026-01-01T00:00:00Z,a': "It has 1 cell, but",
}
WRONG_JSON = {
    "[1": 'It must be JSON such as {"entity": "pump", "time"',
    '{"rows": []}': 'as in {"entity": "pump", "time"',
    '{"entity": "a", "time": 5, "values": {"flow": 1}}': "The time 5 looks like seconds",
    '{"entity": "a", "time": "2026-01-01", "values": {"flow": "x"}}': "The value 'x' of 'flow' must be a number",
    '{"entity": "a", "time": "2026-01-01", "values": {"x": 1}}': "None of the variables x is known",
    '{"entity": "a", "time": "2026-01-01", "values": {}}': "It has no values; send some",
}


@pytest.mark.parametrize(("lines", "wrong"), [(as_csv(), WRONG_CELLS), (as_json(), WRONG_JSON)])
def test_a_line_that_cannot_be_used_is_named_and_the_others_are_judged(
    said: tuple[Watch, list[dict[str, Any]]], lines: list[str], wrong: dict[str, str]
) -> None:
    complaints: list[str] = []
    watch_lines(said[0], [*lines[:100], *wrong, "", *lines[100:]], "pump 0", complaints.append)
    assert "opened" in confirmed(said[1])
    for number, (complaint, sentence) in enumerate(zip(complaints, wrong.values(), strict=True), start=101):
        assert complaint.startswith(f"Line {number} is left out: ")
        assert sentence in complaint


def test_a_row_in_the_future_does_not_end_the_watch_and_is_said_at_the_end(
    live_model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [header, *rows] = as_csv()
    ahead = "1,2,3,2199-01-01T00:00:00Z,pump 0"
    between = rows[1].replace("Z", ".5Z")
    monkeypatch.setattr("sys.stdin", [header + ",colour", *(row + ",1" for row in (*rows[:9], ahead, between, *rows))])
    serve.watch(live_model, "-", 5.0, 0.0, True, None, lambda _: None)
    shown = capsys.readouterr()
    assert '"transition": "opened"' in shown.out
    assert shown.err.startswith("tsadc: Not judged: 1 row in the future (correct the clock of the sender); 9 rows on ")
    assert "1 row between the rows of the model, which has one every 1s; column colour, unknown to" in shown.err


def test_lines_without_entity_are_of_the_one_that_is_named(said: tuple[Watch, list[dict[str, Any]]]) -> None:
    watch, changes = said
    watch_lines(watch, [line.rsplit(",", 1)[0] for line in as_csv()], "pump 0", pytest.fail)
    assert {change["entity"] for change in changes} == {"pump 0"}
    with pytest.warns(TsadcNotice, match="has not learnt 'pump 77', so its rows are judged by the statistics of all"):
        watch_lines(watch, [line.replace("pump 0", "pump 77") for line in as_csv()], "", pytest.fail)


def test_many_lines_that_cannot_be_used_are_counted(said: tuple[Watch, list[dict[str, Any]]]) -> None:
    complaints: list[str] = []
    seconds = [f"1,2,3,{1_780_000_000 + i},pump 0" for i in range(600)]
    watch_lines(said[0], [as_csv()[0], *seconds], "pump 0", complaints.append)
    assert complaints[0].startswith("Line 2 is left out: The time 1780000000 looks like seconds or milliseconds")
    assert len(complaints) == 21
    assert complaints[-1] == "580 more lines are left out."


def test_times_may_be_nanoseconds(said: tuple[Watch, list[dict[str, Any]]]) -> None:
    lines = [f"1,2,3,{START + i * INTERVAL},pump 0" for i in range(5)]
    watch_lines(said[0], [as_csv()[0], *lines], "pump 0", pytest.fail)
    assert said[0].model.stream.counts["rows"] == 5


def test_rows_at_another_rate_are_said_at_the_end(said: tuple[Watch, list[dict[str, Any]]]) -> None:
    [header, *rows] = as_csv()
    watch_lines(said[0], [header, *rows[::5]], "pump 0", pytest.fail)
    assert said[0].left_out().startswith("Rows of 'pump 0' come every 5s, but the model 'plant' was fitted on one")


def damaged_folder(folder: Path) -> None:
    """Write a whole file between two that cannot be read."""
    (folder / "a.csv").write_bytes(b"\x00\xff\x01\n")
    FRAME.drop(columns="entity").to_csv(folder / "pump 0.csv", index=False, date_format="%Y-%m-%dT%H:%M:%SZ")
    (folder / "z.csv").write_text("time,flow\n2026-01-01,Bad\n2026-01-02,2\n")


def test_a_damaged_file_is_named_and_the_others_are_judged(
    said: tuple[Watch, list[dict[str, Any]]], tmp_path: Path
) -> None:
    damaged_folder(tmp_path)
    complaints: list[str] = []
    stop = threading.Event()

    def complain(sentence: str) -> None:
        complaints.append(sentence)
        if len(complaints) == 1:
            (tmp_path / "d.csv").write_bytes(b"\x00\xff\x01\n")  # comes later, and is looked at all the same
        else:
            stop.set()

    watch_folder(said[0], tmp_path, 0.1, stop, complain)
    assert "opened" in confirmed(said[1])
    assert str(tmp_path / "a.csv") in complaints[0]
    assert str(tmp_path / "z.csv") in complaints[0]
    assert 'add `missing = ["Bad"]` to a reader of `tsadc serve`, as `tsadc watch` has no' in complaints[0]
    assert [str(tmp_path / name) in complaints[1] for name in ("a.csv", "d.csv")] == [False, True]


def test_the_command_goes_on_after_a_damaged_file_and_says_so_at_the_end(
    live_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged_folder(tmp_path)

    def print_error(sentence: str) -> None:
        assert "a.csv" in sentence
        raise KeyboardInterrupt  # by the person who reads it

    monkeypatch.setattr(serve, "print_error", print_error)
    with pytest.raises(DataError, match=r"Not all files could be read: .*a\.csv"):
        serve.watch(live_model, str(tmp_path), 0.1, 0.0, True, None, lambda _: None)
    assert '"transition": "opened"' in capsys.readouterr().out


def test_the_command_goes_on_after_a_damaged_line_and_says_so_at_the_end(
    live_model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = "\n".join([*as_csv()[:50], "\udcff,1,2,3,pump 0", *as_csv()[50:]]).encode(errors="surrogateescape")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines), encoding="utf-8", newline="\n"))
    with pytest.raises(DataError, match="Not all lines could be read: Line 51 is left out: The value"):
        serve.watch(live_model, "-", 5.0, 0.0, True, None, lambda _: None)
    shown = capsys.readouterr()
    assert '"transition": "opened"' in shown.out
    assert shown.err.startswith("tsadc: Line 51 is left out: The value")


def test_a_file_is_no_folder(live_model: Path, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("time,flow\n")
    with pytest.raises(DataError, match=r"rows\.csv is a file, but .* tsadc watch MODEL - < .*rows\.csv\."):
        serve.watch(live_model, str(file), 0.1, 0.0, True, None, lambda _: None)


def test_a_folder_that_does_not_exist_ends_the_command(live_model: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist; create it"):
        serve.watch(live_model, str(tmp_path / "none"), 0.1, 0.0, True, None, lambda _: None)


def test_a_model_without_times_needs_the_time_from_row_to_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "undated"
    history = tsadc.Series(waves(np.arange(30 * LENGTH)), NAMES, Clock(), "pump 0")
    tsadc.Ensemble(length=LENGTH).fit(history).save(folder)
    monkeypatch.setattr("sys.stdin", as_csv())
    with pytest.raises(ConfigError, match="--seconds of `tsadc watch`"):
        serve.watch(folder, "-", 5.0, 0.0, True, None, lambda _: None)
    serve.watch(folder, "-", 5.0, INTERVAL / 1e9, True, None, lambda _: None)
    assert '"transition": "opened"' in capsys.readouterr().out
