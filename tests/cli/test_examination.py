"""Findings about data as a user meets them: in `tsadc info`, and before `fit` and `detect` work."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from terminal import frame, tsadc
from tsadc.cli.examination import _report
from tsadc.cli.inspection import sparkline
from tsadc.errors import TsadcNotice
from tsadc.io.doctor import Finding

WITHOUT_NETWORK = ("--detector", "robust-z", "--length", "40")


def write(data: pd.DataFrame, file: Path) -> Path:
    data.to_csv(file, index=False)
    return file


def flawed(seed: int = 0) -> pd.DataFrame:
    """A marker in `a`, a counter and a label."""
    data = frame(seed=seed).assign(hours=1000 + np.arange(600) // 7, anomaly=(np.arange(600) % 200 > 190).astype(int))
    data.loc[100:119, "a"] = -200
    return data


def notes(err: str) -> list[str]:
    return [line.removeprefix("tsadc: note: ") for line in err.splitlines()]


def test_info_shows_variables_then_findings_then_sizes(tmp_path: Path) -> None:
    answer = tsadc("info", write(flawed(), tmp_path / "pump.csv"), "--length", 40)
    lines = [line.rstrip() for line in answer.out.splitlines()]
    assert answer.code == 0
    assert max(map(len, lines)) <= 80
    assert re.fullmatch(r"variable +type +min +median +max +missing +over time", lines[0])
    assert re.fullmatch(r"hours +counter +1000 +1042 +1085 +0% +▁\S{8}█", lines[5])
    assert re.fullmatch(r"anomaly +label +0 +0 +1 +0% +\S+", lines[6])
    words = " ".join(answer.out.split())
    remedies = re.findall(r"→ (--\S+ \S+)", words)
    assert remedies == ["--missing -200", "--exclude anomaly", "--difference hours"]
    evidence = "warn The value -200 appears 20 times (3.3 % of the rows) in a"
    assert words.index(evidence) < words.index("entities 1: pump")
    assert "fit ensemble 15 observations of 40 rows" in words


def test_a_wide_terminal_has_room_for_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tsadc.cli.inspection.console.width", 180)
    data = frame().rename(columns={"a": "flow [l/min]"})
    head, first, *_ = tsadc("info", write(data, tmp_path / "pump.csv"), "--length", 40).out.splitlines()
    assert re.split(r"\s{2,}", head.strip()) == [
        "variable", "type", "unit", "min", "1 %", "median", "99 %", "max", "missing", "repeated", "resolution",
        "first value", "last value", "over time",
    ]  # fmt: skip
    assert re.search(r"^flow \[l/min\] +continuous +l/min +-1\.\d+.* 2026-01-01 00:00  2026-01-01 09:59  ", first)


def test_long_names_do_not_widen_the_table(tmp_path: Path) -> None:
    data = frame().rename(
        columns={"a": "the temperature of the bearing on the drive side of the main pump, in degrees"}
    )
    lines = tsadc("info", write(data, tmp_path / "pump.csv"), "--length", 40).out.splitlines()
    assert max(len(line.rstrip()) for line in lines[:5]) <= 80
    assert "…" in lines[1]
    assert "continuous" in lines[1]


def test_clean_data_is_called_so(tmp_path: Path) -> None:
    answer = tsadc("info", write(frame(), tmp_path / "pump.csv"), "--length", 40)
    assert "No problems were found." in answer.out
    assert answer.err == ""


def test_info_as_json(tmp_path: Path, model: Path) -> None:
    answer = tsadc("info", write(flawed(), tmp_path / "pump.csv"), "--json")
    found = json.loads(answer.out, parse_constant=pytest.fail)
    assert found["format"] == 1
    assert found["rows"] == 600
    assert [entity["name"] for entity in found["entities"]] == ["pump"]
    assert {variable["name"]: variable["kind"] for variable in found["variables"]} == {
        "a": "continuous", "b": "continuous", "c": "continuous", "d": "continuous",
        "hours": "counter", "anomaly": "label",
    }  # fmt: skip
    assert [finding["code"] for finding in found["findings"]] == ["marker", "label", "counter"]
    assert json.loads(tsadc("info", model, "--json").out)["entities"] == "2: left, right"


def test_fit_says_the_same_and_leaves_labels_out(tmp_path: Path) -> None:
    answer = tsadc("fit", write(flawed(), tmp_path / "pump.csv"), "--out", tmp_path / "model", *WITHOUT_NETWORK)
    assert answer.code == 0, answer.err
    said = notes(answer.err)
    assert said[0].endswith("Fix it with --missing -200.")
    assert said[1].endswith("Fix it with --difference hours.")
    assert said[2].startswith("Left out, because it looks like labels and not like sensors: anomaly.")
    settings = json.loads((tmp_path / "model" / "config.json").read_text())
    assert settings["variables"] == ["a", "b", "c", "d", "hours"]


def test_refit_does_not_learn_a_label_either(tmp_path: Path) -> None:
    file, model = write(frame().assign(anomaly=0), tmp_path / "pump.csv"), tmp_path / "model"
    assert tsadc("fit", file, "--out", model, *WITHOUT_NETWORK, "--contamination", 0.1).code == 0
    answer = tsadc("refit", model, file, "--window", "30d", "--out", tmp_path / "again")
    assert answer.code == 0, answer.err
    assert json.loads((tmp_path / "again" / "config.json").read_text())["variables"] == list("abcd")


def test_a_row_of_units_is_shown(tmp_path: Path) -> None:
    lines = frame().to_csv(index=False).splitlines()
    (tmp_path / "pump.csv").write_text("\n".join([lines[0], ",°C,bar,l/min,mm/s", *lines[1:]]))
    found = json.loads(tsadc("info", tmp_path / "pump.csv", "--json").out)
    assert [variable["unit"] for variable in found["variables"]] == ["°C", "bar", "l/min", "mm/s"]


def test_the_remedies_fix_what_was_found(tmp_path: Path) -> None:
    file = write(flawed(), tmp_path / "pump.csv")
    fixed = ("--missing", "-200", "--exclude", "anomaly", "--difference", "hours")
    found = json.loads(tsadc("info", file, "--json", *fixed).out)["findings"]
    assert {finding["code"] for finding in found} <= {"state"}
    answer = tsadc("fit", file, "--out", tmp_path / "model", *WITHOUT_NETWORK, *fixed)
    assert answer.err == ""


def test_a_label_that_is_named_is_kept(tmp_path: Path) -> None:
    file = write(flawed(), tmp_path / "pump.csv")
    answer = tsadc("fit", file, "--out", tmp_path / "model", *WITHOUT_NETWORK, "--columns", "b, c,anomaly")
    assert answer.code == 0
    assert json.loads((tmp_path / "model" / "config.json").read_text())["variables"] == ["b", "c", "anomaly"]
    assert "label" not in answer.err


def test_many_findings_are_cut_short(tmp_path: Path) -> None:
    data = frame()
    for i, marker in enumerate((-9999, 65535, -777, 888, 32767, -999)):
        data[f"v{i}"] = data["a"]
        data.loc[10 * i : 10 * i + 9, f"v{i}"] = marker
    file = write(data, tmp_path / "pump.csv")
    said = notes(tsadc("fit", file, "--out", tmp_path / "model", *WITHOUT_NETWORK).err)
    assert len(said) == 6
    assert all("Fix it with --missing" in line for line in said[:5])
    assert said[5] == f"1 more: tsadc info {file}"


def test_the_warnings_that_are_cut_short_are_counted_without_remarks() -> None:
    about = ((), (), "Seen.", "It follows.", "--fix")
    found = [Finding("marker", "warn", *about)] * 7 + [Finding("state", "note", *about)] * 4
    with pytest.warns(TsadcNotice) as said:
        _report(found, [])
    assert str(said[-1].message) == "2 more: tsadc info with the same --sql and --query"
    with pytest.warns(TsadcNotice) as said:
        _report(found, [Path("a b.csv"), Path("c.csv")])
    assert str(said[-1].message) == "2 more: tsadc info 'a b.csv' ..."


def test_detect_compares_with_the_model(tmp_path: Path) -> None:
    names = list("abcd")
    first, second = frame(), frame(seed=1)
    second[names] += 50
    model = tmp_path / "model"
    files = write(first, tmp_path / "0.csv"), write(second, tmp_path / "1.csv")
    assert tsadc("fit", *files, "--out", model, *WITHOUT_NETWORK).err == ""
    (tmp_path / "new").mkdir()
    new = write(second, tmp_path / "new" / "0.csv")
    answer = tsadc("detect", new, "--model", model, "--report", tmp_path / "report.html")
    assert notes(answer.err)[0].startswith(
        "0 does not look like entity '0' of the model: a, b, c and 1 more lie far from"
    )
    assert notes(answer.err)[0].endswith("it looks like entity '1'. Fix it with --entity-name 1.")
    page = (tmp_path / "report.html").read_text()
    assert '<section id="data">' in page
    assert "does not look like entity" in page
    same = tsadc("detect", new, "--model", model, "--report", tmp_path / "report.html", "--entity-name", "1")
    assert same.err == ""
    assert "No problems were found." in (tmp_path / "report.html").read_text()


def test_one_file_or_four_give_the_same_contamination(tmp_path: Path) -> None:
    seconds, generator = 12_600, np.random.default_rng(4)  # three and a half hours
    load = np.sin(np.arange(seconds) / 90)
    data = pd.DataFrame({name: (k + 1) * load + generator.normal(0, 0.2, seconds) for k, name in enumerate("abc")})
    data.insert(0, "time", pd.date_range("2026-03-01 08:00", periods=seconds, freq="1s"))
    for start in generator.integers(0, seconds - 60, 9):
        data.loc[start : start + 60, "b"] += 4
    whole = write(data, tmp_path / "pump.csv")
    parts = [write(data.iloc[i : i + 3600], tmp_path / f"pump_0{8 + i // 3600}.csv") for i in range(0, seconds, 3600)]
    (finding,) = json.loads(tsadc("info", *parts, "--json").out)["findings"]
    assert finding["evidence"].startswith("pump_08, pump_09, pump_010 and 1 more look like one machine in 4 files")
    assert finding["remedy"] == "--entity-name pump"
    shares = []
    for files, extra in (([whole], ()), (parts, ("--entity-name", "pump"))):
        model = tmp_path / f"model-{len(files)}"
        answer = tsadc("fit", *files, "--out", model, "--length", 60, *extra)
        assert answer.err == ""
        shares.append(json.loads((model / "config.json").read_text())["contamination"]["share"])
    assert shares[0] == pytest.approx(shares[1], abs=0.01)


def test_sparklines() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7], 8) == "▁▂▃▄▅▆▇█"
    assert sparkline([1, np.nan, 2], 8) == "▁ █"
    assert sparkline([5, 5], 8) == "▄▄"
    assert sparkline([0, 0, 8, 8], 2) == "▁█"
    assert sparkline([np.nan], 8) == ""


def test_adapt_says_what_is_wrong_with_the_data(tmp_path: Path) -> None:
    write(frame(2400), tmp_path / "pump.csv")
    assert tsadc("fit", tmp_path / "pump.csv", "--out", tmp_path / "model", *WITHOUT_NETWORK).code == 0
    other = write(flawed(seed=3).drop(columns=["hours", "anomaly"]), tmp_path / "other.csv")
    answer = tsadc("adapt", other, "--model", tmp_path / "model", "--out", tmp_path / "adapted")
    assert answer.code == 0
    assert any("The value -200 appears 20 times" in note for note in notes(answer.err))


def test_leaving_out_a_variable_of_the_model_is_not_advised(tmp_path: Path) -> None:
    write(frame(2400), tmp_path / "pump.csv")
    assert tsadc("fit", tmp_path / "pump.csv", "--out", tmp_path / "model", *WITHOUT_NETWORK).code == 0
    dead = frame(600, seed=4)
    dead.loc[200:, "b"] = np.nan
    new = write(dead, tmp_path / "new.csv")
    answer = tsadc("detect", new, "--model", tmp_path / "model", "--out", tmp_path / "found")
    assert "--exclude" not in answer.err
    assert any(note.endswith("Check the sensor and the export; the model needs it.") for note in notes(answer.err))
