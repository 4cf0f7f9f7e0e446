"""`detect_parts` is `detect`, cut where no interval is."""

import numpy as np
import pandas as pd
import pytest

from tsadc.detectors import find, verdicts

NOTICE = "ignore::tsadc.errors.TsadcNotice"


def series(rows: int, start: str | None, seed: int) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    frame = pd.DataFrame(generator.normal(size=(rows, 3)), columns=list("abc"))
    for at in generator.integers(0, rows - 30, size=rows // 150):
        frame.iloc[at : at + generator.integers(1, 30), generator.integers(3)] += 12
    if start is not None:
        frame.index = pd.date_range(start, periods=rows, freq="1min")
    return frame


@pytest.mark.filterwarnings(NOTICE)
@pytest.mark.parametrize("start", [None, "2026-01-01 00:13"])
@pytest.mark.parametrize("rows", [1, 200, 700, 10**9])
def test_parts_are_the_whole(start, rows):
    detector = find("robust-z")(length=50, contamination=0.2).fit(series(3000, start, 0))
    new = {"x": series(1990, start, 1), "y": series(20, start, 2), "z": series(1010, start, 3)}
    whole, parts = detector.detect(new), list(detector.detect_parts(new, rows=rows))
    if rows < 500:
        assert len(parts) > 6
    for name in ("intervals", "timeline", "observations"):
        tables = [getattr(part, name) for part in parts if len(getattr(part, name))]
        pd.testing.assert_frame_equal(pd.concat(tables, ignore_index=True), getattr(whole, name), check_freq=False)
    for name in ("variables", "expected"):
        tables = [table for part in parts if (table := getattr(part, name)) is not None]
        pd.testing.assert_frame_equal(pd.concat(tables), getattr(whole, name), check_freq=False)
    assert len(whole.intervals) > 8


@pytest.mark.filterwarnings(NOTICE)
def test_a_part_is_no_longer_than_asked_for_where_nothing_is_anomalous():
    detector = find("robust-z")(length=50, contamination=0.2).fit(series(3000, None, 0))
    quiet = np.zeros((5000, 3))
    assert {len(part.timeline) for part in detector.detect_parts(quiet, rows=500)} == {500}


@pytest.mark.slow
@pytest.mark.filterwarnings(NOTICE)
@pytest.mark.parametrize("rows", [1, 70, 200, 10**9])
def test_parts_are_the_whole_where_most_was_not_measured(rows):
    detector = find("robust-z")(length=50, contamination=0.2).fit(series(3000, None, 0))
    new = series(3000, "2026-01-01 00:13", 1)
    new.iloc[:400] = new.iloc[700:1500] = new.iloc[1600:2900] = np.nan
    new = {"x": new, "y": new[::-1].set_axis(new.index)}
    whole, parts = detector.detect(new), list(detector.detect_parts(new, rows=rows))
    for name in ("timeline", "observations"):
        tables = [getattr(part, name) for part in parts if len(getattr(part, name))]
        pd.testing.assert_frame_equal(pd.concat(tables, ignore_index=True), getattr(whole, name), check_freq=False)
    found = pd.concat([part.intervals for part in parts if len(part.intervals)], ignore_index=True)
    pd.testing.assert_frame_equal(found, whole.intervals, check_freq=False)
    assert len(found) > 1
    if rows == 200:
        assert max(len(part.timeline) for part in parts) <= 500


@pytest.mark.filterwarnings(NOTICE)
def test_an_anomaly_larger_than_memory_is_told_in_pieces(monkeypatch):
    detector = find("robust-z")(length=50, contamination=0.2).fit(series(3000, None, 0))
    wild = np.full((1000, 3), 40.0) + np.random.default_rng(0).normal(size=(1000, 3))
    whole = detector.detect(wild).intervals
    assert whole[["start", "end"]].to_numpy().tolist() == [[0, 1000]]
    assert len(list(detector.detect_parts(wild, rows=100))) == 1
    monkeypatch.setattr(verdicts, "MAX_PART_CELLS", 3 * 400 + 10)
    parts = list(detector.detect_parts(wild, rows=100))
    found = pd.concat([part.intervals for part in parts])
    assert found[["start", "end"]].to_numpy().tolist() == [[0, 400], [400, 800], [800, 1000]]
    assert found["score"].max() == whole["score"].item()
    assert sum(len(part.timeline) for part in parts) == 1000
