"""`tsadc explain` says why a moment is unusual, or refuses in one sentence."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest

from terminal import faulty, frame, tsadc


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explain")
    frame(2400).to_csv(folder / "history.csv", index=False)
    faulty().to_csv(folder / "new.csv", index=False)
    settings = ["--length", "40", "--set", "kernels=16"]
    assert tsadc("fit", folder / "history.csv", "--out", folder / "model", *settings).code == 0
    return folder


def explain(files: Path, at: str, *more: str):
    return tsadc("explain", files / "model", files / "new.csv", "--at", at, *more)


def test_a_fault_is_explained_with_numbers_and_its_counterfactual(files: Path) -> None:
    answer = explain(files, "2026-01-01 05:10")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0].startswith("new, Thu 1 Jan 2026, 0")
    assert lines[1].startswith("b 6")
    assert "High for 30 min." in lines[1]
    assert lines[2].startswith("Score ")
    assert lines[3].split() == ["variable", "share", "measured", "usual"]
    assert lines[4].split()[0] == "b"
    otherwise = re.fullmatch(r"With b as usual during .+, the score would be ([\d.]+): (.+)\.", lines[-2])
    assert otherwise
    score, threshold = map(float, re.findall(r"[\d.]+\d", lines[2])[:2])
    assert float(otherwise[1]) < score / 3
    assert (otherwise[2] == "below the threshold") == (float(otherwise[1]) <= threshold)
    assert lines[-1] == "Nothing similar in the history, or in this entity before."


def test_what_happened_before_is_named_and_is_in_the_json(files: Path, tmp_path: Path) -> None:
    history = frame(2400)
    history.loc[1210:1239, "b"] += 5
    history.to_csv(tmp_path / "pump.csv", index=False)
    later = faulty()
    later["time"] += pd.Timedelta("30 days")
    later.to_csv(tmp_path / "new.csv", index=False)
    settings = ["--length", "40", "--set", "kernels=16"]
    assert tsadc("fit", tmp_path / "pump.csv", "--out", tmp_path / "model", *settings).code == 0
    told = tsadc("explain", tmp_path / "model", tmp_path / "new.csv", "--at", "2026-01-31 05:10")
    episodes = told.out[told.out.index("Similar before:") :].splitlines()[1:]
    assert re.fullmatch(
        r"  pump, Thu 1 Jan 2026, 20:.+ \(\d+\W+min\), in the history: level, \d+\W+ similar", episodes[0]
    )
    found = json.loads(tsadc("detect", tmp_path / "new.csv", "--model", tmp_path / "model", "--json").out)
    (interval,) = [item for item in found["intervals"] if item["start"] <= "2026-01-31T05:10" < item["end"]]
    first = interval["similar"][0]
    assert first["start"].startswith("2026-01-01T20:")
    assert (first["entity"], first["origin"], first["kind"]) == ("pump", "history", "level")
    assert 0.7 <= first["similarity"] <= 1
    assert all(item["similar"] is not None for item in found["intervals"])


def test_a_normal_moment_is_in_no_interval(files: Path) -> None:
    answer = explain(files, "2026-01-01 08:00")
    assert answer.code == 0
    assert "08:00: in no unusual interval. Its score is " in answer.out
    assert "The nearest unusual interval is Thu 1 Jan 2026, 0" in answer.out


@pytest.mark.parametrize(
    ("at", "more", "said"),
    [
        ("noon", [], "--at needs a time such as '2026-03-01 12:30', but got 'noon'."),
        ("2027-01-01", [], "'new' has rows from 2026-01-01 00:00:00 to 2026-01-01 09:59:00, but --at is 2027-01-01"),
        ("2026-01-01 05:00", ["--of-entity", "pump"], "The data has no entity 'pump', only new"),
    ],
)
def test_what_cannot_be_explained_is_refused_in_one_sentence(files: Path, at: str, more: list[str], said: str) -> None:
    answer = explain(files, at, *more)
    assert answer.code == 2
    assert said in answer.err
    assert len(answer.err.strip().splitlines()) == 1


def test_a_date_with_two_meanings_is_refused(files: Path) -> None:
    answer = explain(files, "01/02/2026 05:10")
    assert answer.code == 2
    assert "--at needs a time such as '2026-03-01 12:30', but got '01/02/2026 05:10'." in answer.err
