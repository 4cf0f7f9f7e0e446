"""Rows above the threshold become events; the memory of the variables decides how close two of them may be."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsadc.config import build
from tsadc.detectors.ensemble.detector import Ensemble
from tsadc.detectors.events import Events, autocovariance, memory
from tsadc.detectors.settings import Common
from tsadc.errors import ConfigError
from tsadc.series import Series
from tsadc.windows import cut


def autoregressive(rows: int, factor: float, seed: int) -> np.ndarray:
    """A process whose autocorrelation falls by `factor` with every row."""
    noise = np.random.default_rng(seed).normal(size=rows)
    values = np.zeros(rows)
    for i in range(1, rows):
        values[i] = factor * values[i - 1] + noise[i]
    return values


def test_autocovariance_against_a_loop():
    z = np.random.default_rng(0).normal(size=(3, 20))
    z[1, 4:9] = np.nan
    centred = np.nan_to_num(z - np.nanmean(z, axis=1, keepdims=True))
    slow = [[sum(row[i] * row[i + lag] for i in range(20 - lag)) for lag in range(20)] for row in centred]
    np.testing.assert_allclose(autocovariance(z), slow, atol=1e-10)


@pytest.mark.parametrize(("factor", "expected"), [(0.0, 1), (0.9, 10), (0.98, 50)])
def test_memory_is_where_the_autocorrelation_falls_below_one_in_e(factor, expected):
    values = np.stack([autoregressive(60_000, factor, seed) for seed in range(3)], axis=1)
    observations = cut([Series(values / values.std(axis=0), ("a", "b", "c"))], 1000).observations
    assert memory(observations) == pytest.approx(expected, rel=0.25, abs=0.5)


def test_variables_that_never_change_have_no_memory():
    observations = cut([Series(np.ones((200, 2)), ("a", "b"))], 20).observations
    assert memory(observations) == 1


@pytest.mark.parametrize(
    ("known", "length", "expected"), [(1, 100, 5), (20, 100, 20), (90, 100, 50), (None, 100, 5), (1, 8, 2), (3, 8, 3)]
)
def test_gaps_are_merged_within_the_memory_but_not_beyond_half_an_observation(known, length, expected):
    assert Events.of(Events.Config(), known, length).merge == expected
    assert Events.of(Events.Config(merge=7), known, length).merge == 7


def test_events_by_hand():
    #                  0    1    2    3    4    5    6    7    8    9
    steps = np.array([0.6, 2.0, 0.6, 0.1, 0.1, 3.0, 0.1, 0.7, 0.1, 2.0])
    assert Events(1, 1).find(steps, threshold=1.0, middle=0.5) == [(0, 3), (5, 6), (9, 10)]
    assert Events(3, 1).find(steps, threshold=1.0, middle=0.5) == [(0, 6), (9, 10)]
    assert Events(3, 2).find(steps, threshold=1.0, middle=0.5) == [(0, 6)]
    assert Events(9, 1).find(steps, threshold=1.0, middle=0.5) == [(0, 10)]
    assert Events(9, 1).find(steps, threshold=5.0, middle=0.5) == []


@given(st.integers(0, 999), st.integers(1, 6), st.integers(1, 4))
def test_events_are_apart_long_enough_and_cover_what_is_above_the_threshold(seed, merge, minimum):
    steps = np.random.default_rng(seed).normal(size=40)
    found = Events(merge, minimum).find(steps, threshold=1.0, middle=0.0)
    assert all(stop - start >= minimum for start, stop in found)
    assert all(after[0] - before[1] >= merge for before, after in itertools.pairwise(found))
    covered = {row for start, stop in Events(merge, 1).find(steps, 1.0, 0.0) for row in range(start, stop)}
    assert set(np.flatnonzero(steps > 1.0)) <= covered


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"merge": 0}, "`event.merge` must be at least 1 row, or auto, but got 0"),
        ({"minimum": 0}, "`event.minimum` must be at least 1 row, but got 0"),
        ({"merge": 60}, "`event.merge` must be less than the 60 rows of an observation, but got 60"),
    ],
)
def test_settings_that_are_wrong(settings, sentence):
    with pytest.raises(ConfigError, match=sentence):
        build(Common, {"length": 60, "event": settings})


def test_one_closed_valve_is_one_event():
    """A valve that is closed for five minutes, one row a second, with observations of a minute."""
    rng = np.random.default_rng(1)

    def flow(rows: int) -> np.ndarray:
        speed = np.sin(np.arange(rows) / 40) + 0.1 * rng.normal(size=rows)
        return np.stack([speed, 30 + 2 * speed + 0.1 * rng.normal(size=rows), rng.normal(size=rows)], axis=1)

    detector = Ensemble(length=60, config=Ensemble.Config(kernels=8)).fit(flow(6000))
    new = flow(1800)
    new[700:1000, 1] *= 0.7
    found = detector.detect(new).intervals
    overlapping = found[(found["start"] < 1000) & (found["end"] > 700)]
    assert len(overlapping) == 1
    assert next(iter(overlapping["variables"].iloc[0])) == "variable_1"
    assert len(found) <= 2


def test_separate_observations_have_events_of_their_own():
    rng = np.random.default_rng(2)
    detector = Ensemble(length=60, config=Ensemble.Config(kernels=8)).fit(rng.normal(size=(40, 60, 3)))
    new = rng.normal(size=(10, 60, 3))
    new[4, 40:, 1] += 12
    new[5, :20, 1] += 12
    found = detector.detect(new).intervals[["start", "end"]].to_numpy().tolist()
    assert [300 in range(start + 1, end) for start, end in found].count(True) == 0
    assert {start // 60 for start, _ in found} >= {4, 5}
