"""docs/walk.md matches the code: its files and nouns exist, and data passes through them in this order."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tsadc
from tsadc.io.read import read
from tsadc.scale import Scaler
from tsadc.show import write
from tsadc.windows import cut

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "tsadc"
PAGE = (ROOT / "docs/walk.md").read_text()


def test_every_file_of_the_walk_exists():
    named = set(re.findall(r"`([\w/]+(?:\.py|/))`", PAGE)) - {"src/tsadc/", "tests/test_architecture.py"}
    assert len(named) > 40
    assert [name for name in named if not (SOURCE / name).exists()] == []


@pytest.mark.parametrize("command", ["fit", "detect", "bench run"])
def test_a_walk_has_at_most_twelve_steps_and_its_nouns_are_classes(command):
    (walk,) = re.findall(rf"^## `tsadc {command}`$(.*?)^## ", PAGE, flags=re.DOTALL | re.MULTILINE)
    steps = re.findall(r"^\| (\d+) \| .+? \| .+? \| (.+?) \|$", walk, flags=re.MULTILINE)
    assert [int(number) for number, _ in steps] == list(range(1, len(steps) + 1))
    assert 8 <= len(steps) <= 12
    code = "\n".join(file.read_text() for file in SOURCE.rglob("*.py"))
    nouns = {noun for _, out in steps for noun in re.findall(r"`([A-Z]\w+)`", out)}
    assert nouns <= set(re.findall(r"^ *class (\w+)", code, flags=re.MULTILINE))


def test_from_a_file_to_a_verdict(tmp_path):
    rows, generator = 1200, np.random.default_rng(3)
    load = np.sin(np.arange(rows) / 7)
    frame = pd.DataFrame({f"v{k}": (k + 1) * load + generator.normal(0, 0.1, rows) for k in range(4)})
    frame.insert(0, "time", pd.date_range("2026-03-01", periods=rows, freq="10s"))
    frame.loc[1110:1119, "v2"] += 12.0
    frame.iloc[:900].to_csv(tmp_path / "press.csv", index=False)

    (series,) = read([tmp_path / "press.csv"])
    assert series.entity == "press"
    observations = cut([series], 60).observations
    assert len(observations) == 15
    scaled = observations.scaled(Scaler.fit([series], Scaler.Config()))
    assert abs(np.median(scaled.read(0))) < 1

    detector = tsadc.TSADC(length=60, contamination=0.1, seed=1, config=tsadc.TSADC.Config.tiny()).fit(series)
    result = detector.detect({"press": frame.iloc[900:]})
    worst = result.worst(1).iloc[0]
    assert worst["entity"] == "press"
    assert worst["start"] <= frame["time"][1119]
    assert worst["end"] > frame["time"][1110]
    assert next(iter(worst["variables"])) == "v2"
    flagged = result.timeline.loc[result.timeline["anomalous"], "time"]
    assert flagged.isin(frame["time"][1110:1120]).sum() >= 8

    write(result, tmp_path / "report.html", title="The press")
    assert "v2" in (tmp_path / "report.html").read_text()
