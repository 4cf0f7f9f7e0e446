"""`tsadc clean`: the audited files come out again, with suspect cells changed and everything else as it was."""

import shutil
from pathlib import Path

import pandas as pd
import pytest

from terminal import Answer, frame, tsadc, untouched

LENGTH = 40
FAULT = slice(1200, 1240)


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with history/pump.csv, which has a fault in b and a column of text, and its audit."""
    folder = tmp_path_factory.mktemp("clean")
    table = frame(rows=2400)
    table.loc[FAULT.start : FAULT.stop - 1, "b"] += 12.0
    table = table.round(dict.fromkeys("abcd", 3)).assign(note="ok; fine")
    (folder / "history").mkdir()
    table.to_csv(folder / "history" / "pump.csv", index=False, lineterminator="\r\n")
    answer = tsadc("audit", folder / "history", "--length", LENGTH, "--detector", "robust-z", "--out", folder / "audit")
    assert answer.code == 0, answer.err
    return folder


@pytest.fixture
def folder(audited: Path, tmp_path: Path) -> Path:
    shutil.copytree(audited, tmp_path / "work")
    return tmp_path / "work"


def clean(folder: Path, *options: object, out: str = "cleaned") -> Answer:
    return tsadc("clean", folder / "history", "--audit", folder / "audit", "--out", folder / out, *options)


def lines(file: Path) -> list[str]:
    return file.read_bytes().decode().split("\r\n")


def test_suspect_cells_change_and_no_other_character(folder: Path) -> None:
    answer = clean(folder, "--level", "0.9")
    assert answer.code == 0, answer.err
    before, after = lines(folder / "history" / "pump.csv"), lines(folder / "cleaned" / "pump.csv")
    changed = [i - 1 for i, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    assert changed == list(range(FAULT.start, FAULT.stop))
    for i in changed:
        old, new = before[i + 1].split(","), after[i + 1].split(",")
        assert [k for k in range(len(old)) if old[k] != new[k]] == [2]  # b
        assert abs(float(new[2])) < 2
    table = pd.read_csv(folder / "cleaned" / "changes.csv")
    assert table[["entity", "variables", "cells", "change"]].values.tolist() == [["pump", "b", 40, "expected"]]
    assert "40 cells changed in 1 suspect interval" in answer.out


def test_cells_become_missing_or_rows_are_left_out(folder: Path) -> None:
    assert clean(folder, "--level", "0.9", "--fill", "nan").code == 0
    assert pd.read_csv(folder / "cleaned" / "pump.csv")["b"].isna().sum() == 40
    assert clean(folder, "--level", "0.9", "--fill", "drop", out="dropped").code == 0
    before, after = lines(folder / "history" / "pump.csv"), lines(folder / "dropped" / "pump.csv")
    assert after == before[: FAULT.start + 1] + before[FAULT.stop + 1 :]
    assert (folder / "dropped" / "changes.csv").read_bytes().startswith(b"\xef\xbb\xbfid,")
    table = pd.read_csv(folder / "dropped" / "changes.csv")
    assert table[["variables", "cells", "change"]].values.tolist() == [["a; b; c; d", 160, "drop"]]


def test_bands_and_draws_of_the_imputed_cells_are_written_on_request(folder: Path) -> None:
    answer = clean(folder, "--level", "0.9", "--samples", 20)
    assert answer.code == 0, answer.err
    assert "bands.csv" in answer.out
    bands = pd.read_csv(folder / "cleaned" / "bands.csv")
    assert list(bands.columns[:7]) == ["entity", "time", "variable", "measured", "expected", "low", "high"]
    assert [name for name in bands if name.startswith("draw_")] == [f"draw_{i}" for i in range(1, 21)]
    assert (bands["variable"].unique().tolist(), len(bands)) == (["b"], 40)
    written = pd.read_csv(folder / "cleaned" / "pump.csv")["b"].to_numpy()[FAULT]
    assert abs(bands["expected"].to_numpy() - written).max() < 0.001
    # What would have been measured: the fault was added to it.
    truth = pd.read_csv(folder / "history" / "pump.csv")["b"].to_numpy()[FAULT] - 12
    assert ((bands["low"] <= truth) & (truth <= bands["high"])).mean() >= 0.75
    draws = bands.filter(like="draw_").to_numpy()
    assert ((draws.min(axis=1) <= truth) & (truth <= draws.max(axis=1))).mean() >= 0.75
    assert "leave one of them out" in clean(folder, "--samples", 5, "--fill", "nan", out="other").refusal
    assert not (folder / "other").exists()


@pytest.mark.parametrize("decision", ["keep", "drop", "fix"])
def test_an_edited_review_decides(folder: Path, decision: str) -> None:
    file = folder / "audit" / "review.csv"
    review = pd.read_csv(file)
    review["decision"] = "keep"
    review.loc[review["probability"].idxmax(), ["decision", "variables"]] = [decision, "b"]
    review["comment"] = "seen"
    review.to_csv(file, index=False)
    assert clean(folder).code == 0
    before, after = lines(folder / "history" / "pump.csv"), lines(folder / "cleaned" / "pump.csv")
    if decision == "drop":
        assert after == before[: FAULT.start + 1] + before[FAULT.stop + 1 :]
    else:
        different = sum(old != new for old, new in zip(before, after, strict=True))
        assert different == (40 if decision == "fix" else 0)
    assert (
        "was edited, so its decisions count and --level has no meaning"
        in clean(folder, "--level", 0.9, out="b").refusal
    )


def test_a_review_that_a_spreadsheet_saved_unchanged_decides_nothing(folder: Path) -> None:
    assert clean(folder).code == 0
    file = folder / "audit" / "review.csv"
    review = pd.read_csv(file, dtype=str, keep_default_na=False)
    review.to_csv(file, index=False, sep=";", encoding="utf-8-sig", lineterminator="\r\n")
    answer = clean(folder, out="again")
    assert answer.code == 0, answer.err
    assert lines(folder / "again" / "pump.csv") == lines(folder / "cleaned" / "pump.csv")


def test_cleaning_and_a_review_are_not_combined(folder: Path) -> None:
    review = folder / "audit" / "review.csv"
    answer = tsadc("fit", folder / "history", "--out", folder / "m", "--length", LENGTH, "--clean", "--review", review)
    assert "also what --review keeps; give one of the two" in answer.refusal


def test_parquet_stays_parquet(folder: Path) -> None:
    table = pd.read_csv(folder / "history" / "pump.csv", parse_dates=["time"])
    (folder / "history" / "pump.csv").unlink()
    table.to_parquet(folder / "history" / "pump.parquet", index=False)
    assert clean(folder, "--level", "0.9").code == 0
    new = pd.read_parquet(folder / "cleaned" / "pump.parquet")
    assert (new != table).sum().to_dict() == {"time": 0, "a": 0, "b": 40, "c": 0, "d": 0, "note": 0}


def test_a_truncated_table_of_intervals_is_refused(folder: Path) -> None:
    file = folder / "audit" / "intervals.csv"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:-1]))
    intervals = len(lines) - 1
    answer = clean(folder)
    refusal = " ".join(answer.err.split())
    assert answer.code == 2
    assert f"each of the {intervals} intervals of the audit, but gives {intervals - 1}; restore it" in refusal
    assert not (folder / "cleaned").exists()


def test_bad_input_is_refused_and_nothing_is_written(folder: Path) -> None:
    history = folder / "history" / "pump.csv"
    with untouched(folder):
        assert (
            "is no folder that `tsadc audit` has written"
            in tsadc("clean", history, "--audit", folder / "history", "--out", folder / "x").refusal
        )
        assert "history exists already" in clean(folder, out="history").refusal
        assert "must be 'expected', 'nan' or 'drop', but got 'mean'" in clean(folder, "--fill", "mean").refusal
        assert "must be above 0 and at most 1, but got 2.0" in clean(folder, "--level", 2).refusal
        assert "is an audit of other data" in clean(folder, "--columns", "a,b").err
    text = history.read_text()
    history.write_text(
        text.replace(text.splitlines()[5], text.splitlines()[5].replace("ok", "ok").replace(".", ".1", 1))
    )
    answer = clean(folder)
    assert answer.code == 2
    assert "is an audit of other data" in answer.err
    assert not (folder / "cleaned").exists()
