"""The options of reading on the command line, and those that a model remembers."""

import json
import sqlite3
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from terminal import frame, tsadc, untouched
from tsadc.cli.reading import requested_reading
from tsadc.errors import ConfigError, ModelFileError, TsadcNotice
from tsadc.io.reading import Reading, to_remember

NIGHTLY = ("--missing", "-200,Bad", "--exclude", "note", "--entity-name", "pump", "--decimal", ",")


def export(path: Path, seed: int, start: str, columns: str = "abcd") -> Path:
    """Write rows as a plant exports them: semicolons, decimal commas, sentinels, a column of notes."""
    table = frame(seed=seed)[["time", *columns]]
    table["time"] += pd.Timestamp(start) - table["time"].iloc[0]
    table["a"] = table["a"].where(np.arange(len(table)) % 50 > 0, -200.0)
    table.assign(note="x").to_csv(path, sep=";", decimal=",", index=False)
    return path


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plant")
    one, two = export(folder / "1.csv", 0, "2026-01-01 00:00"), export(folder / "2.csv", 1, "2026-01-01 10:00")
    answer = tsadc("fit", one, two, *NIGHTLY, "--out", folder / "model", "--length", "40")
    assert answer.code == 0, answer.err
    export(folder / "3.csv", 2, "2026-01-01 20:00")
    return folder


def test_a_model_remembers_how_its_history_was_read(plant):
    stored = json.loads((plant / "model" / "config.json").read_text())["provenance"]["reading"]
    assert stored == {"exclude": ["note"], "missing": [-200.0, "Bad"], "decimal": ",", "entity_name": "pump"}


def test_new_data_is_read_like_the_history_and_a_notice_says_so(plant, tmp_path):
    answer = tsadc("detect", plant / "3.csv", "--model", plant / "model", "--out", tmp_path / "found")
    assert answer.code == 0, answer.err
    said = (
        "note: The data is read like the model's history: --exclude note --missing -200,Bad --decimal , --entity-name"
    )
    assert said in " ".join(answer.err.split())
    assert set(pd.read_csv(tmp_path / "found" / "observations.csv")["entity"]) == {"pump"}
    given = tsadc(
        "detect", plant / "3.csv", "--model", plant / "model", "--out", tmp_path / "again", *NIGHTLY
    )  # fmt: skip
    assert "read like" not in given.err
    for name in ("observations.csv", "intervals.csv"):
        assert (tmp_path / "again" / name).read_text() == (tmp_path / "found" / name).read_text()


def test_an_option_overrides_what_the_model_remembers(plant, tmp_path):
    answer = tsadc(
        "detect", plant / "3.csv", "--model", plant / "model", "--out", tmp_path / "found", "--entity-from", "(.)"
    )  # fmt: skip
    assert answer.code == 0, answer.err
    assert "--entity-name" not in answer.err
    assert "does not know" in answer.err or set(pd.read_csv(tmp_path / "found" / "observations.csv")["entity"]) == {3}
    refused = tsadc("adapt", plant / "3.csv", "--model", plant / "model", "--out", tmp_path / "m", "--decimal", ";")
    assert "`decimal` must be a point or a comma" in refused.err


def test_a_new_entity_is_adapted_under_its_own_name(plant, tmp_path):
    answer = tsadc("adapt", plant / "3.csv", "--model", plant / "model", "--out", tmp_path / "model")
    assert answer.code == 0, answer.err
    assert answer.out.startswith("Adapted to 3;")


def test_a_missing_variable_is_a_notice_and_with_strict_a_refusal(plant, tmp_path):
    lacking = export(tmp_path / "4.csv", 3, "2026-01-02 06:00", columns="abd")
    words = ("detect", lacking, "--model", plant / "model", "--out", tmp_path / "found")
    answer = tsadc(*words)
    assert answer.code == 0, answer.err
    assert "'pump' lacks 1 of the 4 expected variables: c; it counts as not measured" in " ".join(answer.err.split())
    with untouched(tmp_path / "found"):
        refused = tsadc(*words[:-1], tmp_path / "strict", "--strict")
    assert refused.code == 2
    assert "lacks 1 of the 4 expected variables: c; add the column" in " ".join(refused.err.split())
    assert not (tmp_path / "strict").exists()


def test_a_history_without_a_variable_of_the_model_is_adapted_to_unless_strict(plant, tmp_path):
    lacking = export(tmp_path / "4.csv", 3, "2026-01-02 06:00", columns="abd")
    words = ("adapt", lacking, "--model", plant / "model", "--out")
    answer = tsadc(*words, tmp_path / "adapted")
    assert answer.code == 0, answer.err
    assert "'4' lacks 1 of the 4 expected variables: c; it counts as not measured" in " ".join(answer.err.split())
    assert answer.out.startswith("Adapted to 4;")
    refused = tsadc(*words, tmp_path / "strict", "--strict")
    assert refused.code == 2
    assert "lacks 1 of the 4 expected variables: c; add the column" in " ".join(refused.err.split())
    assert not (tmp_path / "strict").exists()


def test_what_is_remembered_and_what_is_not():
    reading = Reading(time="ts", missing=[-1, "x"], sql="sqlite://", query="select 1", skip_bad=True, stream=False)
    assert to_remember(reading) == {"time": "ts", "missing": [-1.0, "x"]}
    with pytest.warns(TsadcNotice, match="--time ts --missing '-1,x'|--time ts --missing -1,x"):
        again = requested_reading({"columns": "a", "dayfirst": None, "stream": False}, to_remember(reading))
    assert (again.time, again.missing, again.columns) == ("ts", (-1.0, "x"), ("a",))
    with pytest.warns(TsadcNotice, match="--monthfirst"):
        assert requested_reading({}, {"dayfirst": False}).dayfirst is False
    assert requested_reading({"dayfirst": False}).dayfirst is False
    with pytest.raises(ConfigError, match="`every` must be a length of time"):
        requested_reading({"every": "soon"}, {"every": "1min"})


@pytest.mark.parametrize("stored", [["x"], {"mising": [1]}, {"missing": 5}, {"every": "soon"}])
def test_a_damaged_memory_is_refused(stored):
    with pytest.raises(ModelFileError, match="The model does not say how its history was read"):
        requested_reading({}, stored)


def test_a_command_without_data_says_what_to_name(tmp_path):
    for words in (("fit", "--out", tmp_path / "model"), ("info",)):
        assert "No data file was given; name a file, a folder or a pattern" in tsadc(*words).refusal


def test_a_database_needs_no_files(tmp_path):
    with sqlite3.connect(tmp_path / "plant.db") as connection:
        frame().to_sql("log", connection, index=False)
    connection.close()
    source = ("--sql", f"sqlite:///{tmp_path / 'plant.db'}", "--query", "select * from log")
    answer = tsadc("info", *source, "--length", "40")
    assert answer.code == 0, answer.err
    assert "1: query" in " ".join(answer.out.split())


def test_zero_and_empty_options_are_given_options():
    assert requested_reading({"skip_rows": 0}).skip_rows == 0
    stored = {"missing": [-200.0], "columns": ["a"], "time": "ts", "skip_rows": 3, "entity": "pump"}
    given = {"missing": "", "columns": "", "time": "", "skip_rows": 0, "entity": ""}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert requested_reading(given, stored) == Reading(skip_rows=0)


def test_a_query_is_data_for_refit_and_a_day_that_has_just_begun_for_detect(tmp_path):
    with sqlite3.connect(tmp_path / "plant.db") as connection:
        frame().to_sql("log", connection, index=False)
    connection.close()
    source = ("--sql", f"sqlite:///{tmp_path / 'plant.db'}", "--query")
    fitting = ("--out", tmp_path / "model", "--length", "40", "--detector", "robust-z", "--contamination", "0.1")
    assert tsadc("fit", *source, "select * from log", *fitting).code == 0
    answer = tsadc("refit", tmp_path / "model", *source, "select * from log", "--out", tmp_path / "again")
    assert answer.code == 0, answer.err
    assert "--rollback needs no data" in tsadc("refit", tmp_path / "model", *source, "select 1", "--rollback").refusal
    for rows in (0, 1):
        query = f"select * from log limit {rows}"
        answer = tsadc("detect", *source, query, "--model", tmp_path / "model", "--out", tmp_path / "found")
        assert answer.code == 0, answer.err
        assert answer.out.startswith("Nothing to judge yet, and nothing was written: ")


def test_explain_reads_new_data_like_the_history(plant):
    answer = tsadc("explain", plant / "model", plant / "3.csv", "--at", "2026-01-01 22:00")
    assert answer.code == 0, answer.err
    assert answer.out.startswith("pump, ")
    assert "read like the model's history: --exclude note" in " ".join(answer.err.split())


@pytest.mark.parametrize("command", ["detect", "adapt"])
def test_extra_variables_are_noticed_once(plant, tmp_path, command):
    export(tmp_path / "3.csv", 2, "2026-01-01 20:00")
    table = pd.read_csv(tmp_path / "3.csv", sep=";", decimal=",")
    table.assign(level=table["b"]).to_csv(tmp_path / "3.csv", sep=";", decimal=",", index=False)
    answer = tsadc(
        command, tmp_path / "3.csv", "--model", plant / "model", "--out", tmp_path / "found", "--strict"
    )  # fmt: skip
    assert answer.code == 0, answer.err
    assert " ".join(answer.err.split()).count("has extra variables, which were left out: level.") == 1


def test_a_notice_repeats_options_so_that_they_can_be_typed() -> None:
    stored = {"missing": [999999999.0, -0.5, "No, thanks"], "exclude": ["RH, %", "b"], "rate": 100.0, "decimal": ","}
    with pytest.warns(TsadcNotice) as caught:
        requested_reading({}, stored)
    assert str(caught[0].message) == (
        "The data is read like the model's history: --missing '999999999,-0.5,\"No, thanks\"' --exclude '\"RH, %\",b' "
        "--rate 100 --decimal ,."
    )


def test_options_that_are_repeated_add_up(tmp_path):
    data = frame().assign(note=1.0, id=range(600))
    data.to_csv(tmp_path / "pump.csv", index=False)
    words = ("--exclude", "note", "--exclude", "id,d", "--missing", "-200", "--missing", "Bad")
    answer = tsadc("fit", tmp_path / "pump.csv", *words, "--out", tmp_path / "model", "--length", "40")
    assert answer.code == 0, answer.err
    stored = json.loads((tmp_path / "model" / "config.json").read_text())
    assert stored["variables"] == ["a", "b", "c"]
    assert stored["provenance"]["reading"]["missing"] == [-200.0, "Bad"]


def test_a_name_that_ends_like_a_whole_number_is_written_as_it_is():
    with pytest.warns(TsadcNotice, match=r"--sheet 'Export 2\.0' --missing -200"):
        requested_reading({}, {"sheet": "Export 2.0", "missing": [-200.0]})


def test_an_alarm_budget_beside_another_method_is_refused(plant, tmp_path):
    words = ("--alarms", "1/week", "--set", "threshold.method=balanced", "--out", tmp_path / "found")
    with untouched(tmp_path):
        refusal = tsadc("detect", plant / "3.csv", "--model", plant / "model", *words).refusal
    assert "`threshold.method` is set to balanced; leave one of them out." in refusal
