"""docs/walk.md is true: its files exist, and data goes the way it says, one noun after the other."""

import re
from pathlib import Path

import numpy as np
import pandas as pd

import tsadc
from tsadc.io.read import read
from tsadc.scale import Scaler
from tsadc.show import write
from tsadc.windows import cut

ROOT = Path(__file__).parents[1]


def test_every_file_of_the_walk_exists():
    source = ROOT / "src" / "tsadc"
    named = re.findall(r"`([\w/]+(?:\.py|/))`", (ROOT / "docs/walk.md").read_text())
    assert len(named) > 15
    assert [name for name in named if not (source / name).exists()] == []


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
