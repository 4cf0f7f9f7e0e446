"""Names of intervals: stable as an event grows, distinct, and safe in a spreadsheet."""

import numpy as np
import pandas as pd
import pytest

from tsadc.detectors.classical.robust_z import RobustZ
from tsadc.detectors.interval_id import LENGTH, LETTERS, interval_id
from tsadc.detectors.result import MISSING, id_of


def test_a_name_is_eight_letters_that_are_neither_a_word_nor_a_number() -> None:
    names = [interval_id("pump", i) for i in range(2000)]
    assert len(set(names)) == len(names)
    assert {len(name) for name in names} == {LENGTH}
    assert set("".join(names)) == set(LETTERS)
    assert not set(LETTERS) & set("aeiou0123456789")


def test_the_parts_are_kept_apart() -> None:
    assert interval_id("a", "b") != interval_id("ab")
    assert interval_id("a", 1, 2) != interval_id("a", 12)


def test_a_missing_sensor_that_begins_with_another_interval_has_its_own_name() -> None:
    assert id_of("pump", 5, "level", ["flow"]) == interval_id("pump", 5)
    assert id_of("pump", 5, MISSING, ["flow"]) != id_of("pump", 5, MISSING, ["heat"])


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_an_interval_keeps_its_name_as_it_grows_and_in_parts(zone: str | None) -> None:
    values = np.random.default_rng(0).normal(size=(1200, 2))
    values[700:760, 0] += 12
    frame = pd.DataFrame(values, index=pd.date_range("2026-01-01", periods=1200, freq="min", tz=zone))
    detector = RobustZ(length=60).fit(frame[:600])
    short, whole = detector.detect(frame[600:720]).intervals, detector.detect(frame[600:]).intervals
    assert short["id"].iloc[0] == whole["id"].iloc[0]
    assert short["end"].iloc[0] < whole["end"].iloc[0]
    parts = [name for part in detector.detect_parts(frame[600:], rows=120) for name in part.intervals["id"]]
    assert parts == whole["id"].tolist()
    start = pd.Timestamp(whole["start"].iloc[0])
    assert whole["id"].iloc[0] == interval_id("series", (start if zone else start.tz_localize("UTC")).value)
