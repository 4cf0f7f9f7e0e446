"""A replay over history raises the alarms that the service would have raised, at the same rows."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from terminal import ALONE, tsadc, untouched
from tsadc.detectors.classical.robust_z import RobustZ
from tsadc.errors import ConfigError, DataError
from tsadc.io.calendar import Calendar, Planned
from tsadc.series import Clock, Series
from tsadc.serve import backtest
from tsadc.serve.backtest import WEEK, Alarm, Backtest, Rules, replay, rules_of
from tsadc.serve.backtest_page import summary
from tsadc.serve.config import Config, Model, Server
from tsadc.serve.lifecycle import Quiet, advance

LENGTH, MINUTE = 20, 60 * 10**9
START = 1_780_000_000 * 10**9 // WEEK * WEEK + 4 * 24 * 60 * MINUTE  # a Monday
FAULTS = ((305, 331), (1000, 1004), (1604, 1606), (1950, 2000))


def noise(rows: int, seed: int, entity: str = "pump", faults: tuple[tuple[int, int], ...] = ()) -> Series:
    values = np.random.default_rng(seed).standard_normal((rows, 3))
    for first, stop in faults:
        values[first:stop, 1] += 9
    return Series(values, ("a", "b", "c"), Clock(START, MINUTE, dated=True), entity)


@pytest.fixture(scope="module")
def fitted() -> RobustZ:
    detector = RobustZ(config=RobustZ.Config(length=LENGTH, threshold={"method": "tail", "share": 0.003}))
    return detector.fit([noise(6000, 0), noise(6000, 1, "fan")])


@pytest.fixture(scope="module")
def rows() -> Series:
    return noise(2000, 2, faults=FAULTS)


@pytest.fixture(scope="module")
def found(fitted: RobustZ, rows: Series) -> Backtest:
    return replay(fitted, [rows])


def alarms(result: Backtest) -> list[Alarm]:
    """Return the alarms that the final verdict confirms."""
    return [alarm for alarm in result.alarms if not alarm.withdrawn]


def row(tick: int) -> int:
    return (tick - START) // MINUTE


def test_alarms_are_those_of_rows_that_come_one_by_one(fitted: RobustZ, rows: Series, found: Backtest) -> None:
    stream, known, opened = fitted.stream(), {}, []
    for i, values in enumerate(np.asarray(rows.values)):
        tick = rows.clock.tick(i)
        intervals = stream.push("pump", tick, values).intervals
        advance(
            known,
            intervals,
            "pump",
            "",
            Quiet(),
            0.0,
            lambda episode, what, at=tick: opened.append((what, at, episode)),
        )
    expected = [
        (at, episode["start"], episode["end"], episode["state"]) for what, at, episode in opened if what == "opened"
    ]
    assert [(alarm.time, alarm.start, alarm.end, alarm.state) for alarm in found.alarms] == expected
    assert len(expected) >= len(FAULTS)


@pytest.mark.parametrize("piece", [1, 7, 100])
def test_the_size_of_pieces_changes_nothing(
    fitted: RobustZ, rows: Series, found: Backtest, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backtest, "PIECE", piece)
    again = replay(fitted, [rows])
    assert again.alarms == found.alarms
    assert again.entities[0].verdicts == found.entities[0].verdicts


def test_confirmed_alarms_are_the_intervals_of_detect(fitted: RobustZ, rows: Series, found: Backtest) -> None:
    intervals = fitted.detect([rows]).intervals
    ended = [alarm for alarm in alarms(found) if alarm.state == "resolved"]
    spans = [(pd.Timestamp(alarm.start), pd.Timestamp(alarm.end), alarm.score) for alarm in ended]
    assert spans == list(intervals[["start", "end", "score"]].itertuples(index=False, name=None))[: len(ended)]
    assert [alarm.state for alarm in alarms(found)] == ["resolved"] * len(ended) + ["open"]  # the last fault goes on
    for first, stop in FAULTS:
        [alarm] = [own for own in alarms(found) if row(own.start) < stop and row(own.end) > first]
        assert first <= row(alarm.time) < stop + LENGTH
        assert (row(alarm.time) + 1) % (LENGTH // 4) == 0  # verdicts are made four times in an observation
        assert alarm.delay == alarm.time - alarm.start


def test_a_later_beginning_changes_no_later_alarm(fitted: RobustZ, rows: Series, found: Backtest) -> None:
    start, end = rows.clock.tick(990), rows.clock.tick(1800)
    part = replay(fitted, [rows], start=start, end=end)
    assert part.alarms == [alarm for alarm in found.alarms if start <= alarm.time < end]
    assert part.weeks == (end - start) / WEEK
    assert [(own.rows, own.length) for own in part.entities] == [(810, 810)]
    assert sum(part.by_week(part.alarms).values()) == len(part.alarms) > 0


def test_alarms_are_counted_by_week_and_entity(fitted: RobustZ) -> None:
    parts = [noise(12_000, 3, faults=((300, 320), (11_000, 11_020))), noise(12_000, 4, "fan", ((400, 420),))]
    found = replay(fitted, parts)
    strong = [alarm for alarm in alarms(found) if alarm.severity > 99]
    assert [(alarm.entity, row(alarm.start) // 100) for alarm in strong] == [("pump", 3), ("fan", 4), ("pump", 110)]
    assert list(found.by_week(strong).items()) == [(START, 2), (START + WEEK, 1)]
    assert found.weeks == pytest.approx(12_000 / 10_080)


def test_planned_work_mutes_and_is_not_counted(fitted: RobustZ, rows: Series, found: Backtest) -> None:
    planned = Planned(rows.clock.tick(300), rows.clock.tick(340), ticks=True)
    muted = replay(fitted, [rows], Rules(quiet=Quiet((), Calendar((planned,)))))
    assert [alarm.muted for alarm in alarms(muted)] == [row(alarm.start) in range(300, 340) for alarm in alarms(found)]
    assert len(muted.sent) == len(found.sent) - 1


def test_an_alarm_expires_in_a_silence_and_is_raised_again(fitted: RobustZ) -> None:
    series = noise(1000, 5, faults=((490, 760),))
    values = np.array(series.values)
    values[500:700] = np.nan
    silent = Series(values, series.names, series.clock, "pump")
    found = replay(fitted, [silent], Rules(expire_minutes=60))
    assert found.entities[0].rows == 800
    spans = [(own.state, own.kind, row(own.start), row(own.time)) for own in alarms(found) if own.severity > 99]
    # The end of an expired one is no alarm.
    assert spans == [
        ("resolved", "level", 490, 494),
        ("resolved", "missing", 500, 700),
        ("resolved", "level", 700, 719),
    ]
    lasting = replay(fitted, [noise(500, 5, faults=((490, 500),))], end=START + 570 * MINUTE)
    assert alarms(lasting)[-1].state == "expired"
    assert alarms(replay(fitted, [noise(500, 5, faults=((490, 500),))], end=START + 550 * MINUTE))[-1].state == "open"


def test_without_provisional_verdicts_alarms_come_later_and_all_are_confirmed(
    fitted: RobustZ, rows: Series, found: Backtest
) -> None:
    final = replay(fitted, [rows], Rules(provisional=False))
    assert [alarm.start for alarm in final.alarms] == [alarm.start for alarm in alarms(found)]
    assert not any(alarm.withdrawn for alarm in final.alarms)
    assert all((row(alarm.time) + 1) % LENGTH == 0 for alarm in final.alarms)
    assert all(late.time >= early.time for late, early in zip(final.alarms, alarms(found), strict=True))


def test_late_rows_are_waited_for(fitted: RobustZ, rows: Series, found: Backtest) -> None:
    assert replay(fitted, [rows], Rules(reorder=5)).alarms == found.alarms  # none is late
    values = np.array(rows.values)
    values[309] = np.nan  # a verdict is due after this row
    waited = replay(fitted, [Series(values, rows.names, rows.clock, "pump")], Rules(reorder=5))
    assert [row(own.time) for own in (alarms(found)[0], alarms(waited)[0])] == [309, 315]


@pytest.mark.parametrize(
    ("series", "options", "complaint"),
    [
        (Series(np.zeros((100, 3)), ("a", "b", "c")), {}, "needs the times of rows, but 'series' has none"),
        (
            noise(100, 0),
            {"start": START + 200 * MINUTE, "end": START + 300 * MINUTE},
            r"begin at 2026-06-01 03:20:00 \(--from\), but the data ends at 2026-06-01 01:40:00; begin earlier",
        ),
        (noise(100, 0), {"start": START + 100 * MINUTE}, r"begin at .* but the data ends at .*; begin earlier"),
        (
            noise(100, 0),
            {"end": START},
            r"end at 2026-06-01 00:00:00 \(--to\), but the data begins at 2026-06-01 00:00:00; end later",
        ),
        (Series(np.zeros((99, 3)), ("a", "b", "c"), Clock(0, 2 * MINUTE, dated=True)), {}, "a row every 2min, but"),
        (noise(100, 0), {"rules": Rules(judges=lambda entity: entity == "fan")}, "judge none of the entities"),
    ],
)
def test_what_cannot_be_replayed_is_refused(fitted: RobustZ, series: Series, options: dict, complaint: str) -> None:
    with pytest.raises(DataError, match=complaint):
        replay(fitted, [series], **options)


def test_the_rules_are_those_of_the_configured_model(tmp_path: Path) -> None:
    models = {"fans": Model(str(tmp_path / "fans"), ("fan*",), reorder=3), "rest": Model(str(tmp_path / "rest"))}
    config = Config(Server(expire_minutes=7), models)
    rules = rules_of(config, tmp_path / "fans", Quiet())
    assert (rules.reorder, rules.expire_minutes, rules.judges("fan 1"), rules.judges("pump")) == (3, 7, True, False)
    assert not rules_of(config, tmp_path / "rest", Quiet()).judges("fan 1")  # the first model that matches judges it
    with pytest.raises(ConfigError, match="is the folder of none of the models fans, rest"):
        rules_of(config, tmp_path / "other", Quiet())


@pytest.fixture
def files(fitted: RobustZ, rows: Series, tmp_path: Path) -> Path:
    fitted.save(tmp_path / "model")
    table = pd.DataFrame(np.asarray(rows.values), columns=list(rows.names))
    table.insert(0, "time", rows.clock.at(np.arange(len(rows))))
    table.to_csv(tmp_path / "pump.csv", index=False)
    return tmp_path


def test_the_command_writes_a_page_a_table_and_facts(files: Path, found: Backtest) -> None:
    answer = tsadc("backtest", files / "model", files / "pump.csv", "--out", files / "out")
    assert answer.code == 0
    assert answer.out.startswith(f"{len(found.sent)} alarms in 1 d 9 h.\n")
    table = pd.read_csv(files / "out" / "alarms.csv", encoding="utf-8-sig")
    assert [pd.Timestamp(time).value for time in table["time"]] == [alarm.time for alarm in found.alarms]
    assert table["delay_seconds"].tolist() == [alarm.delay / 1e9 for alarm in found.alarms]
    assert json.loads(table["variables"][0]) == pytest.approx(dict(found.alarms[0].variables), rel=1e-4)
    facts = json.loads((files / "out" / "backtest.json").read_text())
    assert (facts["alarms"], facts["entities"]["pump"]["by_week"]) == (len(found.sent), {"2026-06-01": len(found.sent)})
    page = (files / "out" / "index.html").read_text()
    assert page.count('class="mark"') == len(found.sent)
    again = tsadc("backtest", files / "model", files / "pump.csv", "--out", files / "out", "--from", "2026-06-01T16:00")
    assert again.code == 0
    shorter = json.loads((files / "out" / "backtest.json").read_text())
    assert (shorter["from"], shorter["alarms"] < facts["alarms"]) == ("2026-06-01T16:00:00Z", True)


def test_delays_are_those_of_confirmed_alarms_and_the_summary_says_so(found: Backtest) -> None:
    [part] = found.entities
    late = replace(part.alarms[0], withdrawn=True, time=part.alarms[0].first + 500 * MINUTE)
    longest = max(alarm.delay for alarm in part.alarms[1:]) // MINUTE
    some = summary(replace(found, entities=(replace(part, alarms=(late, *part.alarms[1:])),)))
    assert "Delay after the first anomalous row (without those that are withdrawn): median " in some
    assert f", at most {longest} min." in some
    assert "Delay after the first anomalous row: median " in summary(found)
    only = summary(replace(found, entities=(replace(part, alarms=(late,)),)))
    assert "Delay after the first anomalous row: none was confirmed." in only


def test_the_command_replays_the_configured_service(files: Path, found: Backtest) -> None:
    (files / "work.csv").write_text("entity,start,end\npump,2026-06-01T05:00:00Z,2026-06-01T06:00:00Z\n")
    (files / "config.toml").write_text('[server]\ncalendars = ["work.csv"]\n[model.plant]\nfolder = "model"\n')
    command = (
        "backtest",
        files / "model",
        files / "pump.csv",
        "--out",
        files / "out",
        "--config",
        files / "config.toml",
    )
    assert "1 more alarm is muted by planned work." in tsadc(*command).out
    (files / "config.toml").write_text('[model.plant]\nfolder = "model"\nentities = ["fan*"]\n')
    with untouched(files / "out"):
        assert "judge none of the entities" in tsadc(*command).refusal


def test_the_command_refuses_in_one_sentence(files: Path) -> None:
    model, data = files / "model", files / "pump.csv"
    (files / "other").mkdir()
    for words, complaint in (
        ((model, data, "--out", files / "other"), "is no earlier backtest"),
        ((model, data, "--out", files / "new", "--from", "soon"), "--from must be a time such as 2026-03-01"),
        ((model, data, "--out", files / "new", "--from", "2026-06-02", "--to", "2026-06-01"), "(--to); swap them"),
        ((model, data, "--out", files / "new", "--from", "2027"), "but the data ends at 2026-06-02"),
        ((model, data, "--out", files / "new", "--config", files / "none.toml"), "none.toml"),
        ((files / "none", data, "--out", files / "new"), "none"),
    ):
        with untouched(files):
            assert complaint in tsadc("backtest", *words).refusal


def test_no_package_of_the_service_is_needed(files: Path) -> None:
    blocked = "import sys; sys.modules.update(dict.fromkeys(('sqlalchemy', 'fastapi', 'alembic', 'uvicorn')))"
    words = ["tsadc", "backtest", *(str(files / name) for name in ("model", "pump.csv")), "--out", str(files / "out")]
    code = f"{blocked}; sys.argv = {words!r}; from tsadc.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=ALONE, check=False)
    assert (done.returncode, done.stderr) == (0, "")
