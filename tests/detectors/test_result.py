import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsadc.detectors.events import Events
from tsadc.detectors.result import BLAMED, INTERVALS, LEAST_SHARE, Evidence, Result, assemble, join
from tsadc.detectors.threshold import Normal, Threshold
from tsadc.series import Clock, Observations, Series
from tsadc.windows import cut, section

NAMES = tuple("abcdefg")
# Of normal observations a quarter scores above 0, and e times fewer with every 0.5 more.
THRESHOLD = Threshold(1.0, 0.5, Normal(np.array([-3.0, -2.0, -1.0, 0.0, 0.5]), 0.0), per_week=168)
DATED = Clock(pd.Timestamp("2024-01-01 00:03").value, 60 * 10**9, dated=True, timezone="Europe/Berlin")


def observe(rows: int, clock: Clock, length: int = 6, seed: int = 0, entities: int = 1) -> Observations:
    rng = np.random.default_rng(seed)
    every = [Series(rng.normal(size=(rows, len(NAMES))), NAMES, clock, f"m{i}") for i in range(entities)]
    return cut(every, length).observations


def judge(observations: Observations, seed: int, quiet: float = 0.6) -> list[Evidence]:
    """Evidence at random, NaN wherever nothing was measured."""
    rng = np.random.default_rng(seed)
    out = []
    for i in range(len(observations)):
        measured = ~np.isnan(observations.read(i)).all(axis=0)
        # Three levels: ordinary, unusual but below the threshold, above it; some observations have nothing above it.
        level = rng.random(observations.length)
        high = rng.uniform(1.1, 9, observations.length) if rng.random() < 0.8 else 0.9
        steps = np.where(level < quiet, 0.2, np.where(level < quiet + 0.2, 0.7, high))
        steps = np.where(measured, steps, np.nan).astype(np.float32)
        blame = np.where(measured, rng.exponential(size=(len(NAMES), observations.length)) ** 3, np.nan)
        causes = np.where(measured, rng.integers(0, 2, observations.length), np.nan)
        score = float(np.nanmax(steps))
        views = {"level": score, "shape": score / 2}
        out.append(Evidence(score, views, steps, blame.astype(np.float32), causes.astype(np.float32)))
    return out


def gather(observations: Observations, evidence: list[Evidence], merge: int = 3) -> Result:
    parts = []
    for number, chosen in enumerate(observations.by_series()):
        own = section(observations, number, chosen, 0, len(observations.series[number]))
        found = [evidence[i] for i in chosen]
        parts.append(assemble(own, found, THRESHOLD, Events(merge, 1), np.zeros(len(found)), ("level",)))
    return join(parts, observations.series)


def slow_rows(observations: Observations, arrays: list[np.ndarray], number: int) -> list:
    """What each row of a series got, looked up row by row."""
    out = []
    for row in range(len(observations.series[number])):
        found = [
            arrays[i][..., row - place.start]
            for i, place in enumerate(observations.places)
            if place.series == number and place.start <= row < place.start + observations.length
        ]
        out.append(found[0] if found else np.full(arrays[0].shape[:-1], np.nan))
    return out


def slow_flags(observations: Observations, evidence: list[Evidence], number: int) -> list:
    """1 for each row of an observation above the threshold."""
    above = [np.full(observations.length, float(e.score > THRESHOLD.value)) for e in evidence]
    return slow_rows(observations, above, number)


def slow_intervals(steps: list[float], merge: int, flagged: list[float]) -> list[tuple[int, int]]:
    """From every row above the threshold both ways while rows, of observations above the threshold, stay above the
    median; then every hole of fewer than `merge` rows filled."""
    warm = [step > THRESHOLD.middle and flag == 1 for step, flag in zip(steps, flagged, strict=True)]
    filled = [False] * len(steps)
    for row, step in enumerate(steps):
        if warm[row] and step > THRESHOLD.value:
            for direction in (1, -1):
                at = row
                while 0 <= at < len(steps) and warm[at]:
                    filled[at] = True
                    at += direction
    hot = [row for row, flag in enumerate(filled) if flag]
    for one, two in itertools.pairwise(hot):
        if two - one - 1 < merge:
            filled[one : two + 1] = [True] * (two - one + 1)
    out, start = [], None
    for row, flag in enumerate([*filled, False]):
        if flag and start is None:
            start = row
        elif not flag and start is not None:
            out.append((start, row))
            start = None
    return out


@given(st.integers(4, 40), st.sampled_from([Clock(), DATED]), st.integers(0, 999), st.integers(1, 5), st.integers(1, 2))
def test_intervals_against_a_slow_loop(rows, clock, seed, merge, entities):
    observations = observe(rows, clock, entities=entities)
    evidence = judge(observations, seed)
    result = gather(observations, evidence, merge)
    expected = []
    for number, series in enumerate(observations.series):
        steps = slow_rows(observations, [e.steps for e in evidence], number)
        blame = slow_rows(observations, [e.contributions for e in evidence], number)
        causes = slow_rows(observations, [e.causes for e in evidence], number)
        for start, stop in slow_intervals(steps, merge, slow_flags(observations, evidence, number)):
            worst = max(range(start, stop), key=lambda row: -1 if np.isnan(steps[row]) else steps[row])
            weight = np.nansum(np.square(np.array(blame[start:stop], dtype=np.float64)), axis=0)
            expected.append((series, start, stop, steps[worst], causes[worst], weight / weight.sum()))
    assert len(result.intervals) == len(expected)
    for (_, row), (series, start, stop, score, cause, share) in zip(result.intervals.iterrows(), expected, strict=True):
        times = series.clock.at([start, stop])
        assert (row["entity"], row["start"], row["end"]) == (series.entity, times[0], times[1])
        assert row["score"] == score
        above = 0.25 * np.exp(-score / 0.5)
        assert row["severity"] == pytest.approx(100 * np.exp(-168 * above))
        rows = row["return_period"] if clock is not DATED else row["return_period"] / pd.Timedelta("1min")
        assert rows == pytest.approx(6 / above if clock is not DATED else min(6 / above, 100 * 365.25 * 1440))
        assert row["evidence"] == ("level", "shape")[int(cause)]
        top = sorted(range(len(NAMES)), key=lambda k: -share[k])[:BLAMED]
        named = [k for k in top if share[k] >= LEAST_SHARE + 0.002 or k == top[0]]
        assert list(row["variables"])[: len(named)] == [NAMES[k] for k in named]
        for k in named:
            assert share[k] - 0.0011 <= row["variables"][NAMES[k]] <= share[k] + 1e-6


@given(st.integers(4, 40), st.integers(0, 999))
def test_shares_never_exceed_the_whole_and_fall(rows, seed):
    observations = observe(rows, DATED)
    for shares in gather(observations, judge(observations, seed)).intervals["variables"]:
        assert 0 < sum(shares.values()) <= 1 + 1e-12
        assert len(shares) <= BLAMED
        assert list(shares.values()) == sorted(shares.values(), reverse=True)


def blame_of(*weights: float) -> dict[str, float]:
    """The shares of an interval of one step in which each variable contributed the root of its weight."""
    series = Series(np.zeros((8, len(weights))), NAMES[: len(weights)])
    steps = np.zeros(8, dtype=np.float32)
    steps[3] = 2
    contributions = np.tile(np.sqrt(np.array(weights, dtype=np.float32))[:, None], 8)
    evidence = Evidence(2.0, {"level": 2.0}, steps, contributions, np.zeros(8, dtype=np.float32))
    return gather(cut([series], 8).observations, [evidence]).intervals["variables"][0]


def test_who_is_blamed():
    assert blame_of(3, 1, 0) == {"a": 0.75, "b": 0.25}
    assert blame_of(1, 100, 1) == {"b": 0.98}
    assert blame_of(1, 1, 1) == {"a": 0.333, "b": 0.333, "c": 0.333}
    assert list(blame_of(1, 1, 1, 1, 1, 1, 1)) == list("abcde")
    assert blame_of(0, 0) == {}


def test_an_interval_ends_where_the_next_row_begins():
    series = Series(np.zeros((8, 2)), ("a", "b"), DATED)
    observations = Observations((series,), cut([series], 8, 0).observations.places[:1], 8)
    first = -observations.places[0].start
    steps = np.full(8, 0.0, dtype=np.float32)
    steps[first : first + 2] = 3
    steps[:first] = np.nan
    blank = np.ones((2, 8), dtype=np.float32)
    result = gather(observations, [Evidence(3.0, {"level": 3.0}, steps, blank, np.zeros(8, dtype=np.float32))])
    assert [str(t) for t in result.intervals.loc[0, ["start", "end"]]] == [
        "2024-01-01 01:03:00+01:00",
        "2024-01-01 01:05:00+01:00",
    ]
    assert result.timeline["anomalous"].tolist() == [True] * 2 + [False] * 6


def test_an_interval_at_the_end_of_a_series_ends_one_row_after_it():
    observations = observe(12, Clock())
    evidence = judge(observations, 0, quiet=0.0)
    result = gather(observations, evidence)
    assert result.intervals[["start", "end"]].to_numpy().tolist() == [[0, 12]]


@pytest.mark.parametrize("clock", [Clock(), DATED])
def test_timeline_variables_and_expected_say_the_same_as_the_evidence(clock):
    observations = observe(20, clock, entities=2)
    evidence = judge(observations, 1)
    result = gather(observations, [replace(e, expected=8 * e.contributions) for e in evidence], merge=2)
    times = clock.at(np.arange(20))
    for number, series in enumerate(observations.series):
        timeline = result.timeline[result.timeline["entity"] == series.entity]
        assert timeline["time"].tolist() == times.tolist()
        steps = slow_rows(observations, [e.steps for e in evidence], number)
        np.testing.assert_array_equal(timeline["score"], steps)
        inside = np.zeros(20, dtype=bool)
        for start, stop in slow_intervals(steps, 2, slow_flags(observations, evidence, number)):
            inside[start:stop] = True
        np.testing.assert_array_equal(timeline["anomalous"], inside)
        blame = np.array(slow_rows(observations, [e.contributions for e in evidence], number))
        np.testing.assert_array_equal(result.variables.loc[series.entity], blame)
        np.testing.assert_array_equal(result.expected.loc[series.entity], 8 * blame)
        assert result.variables.loc[series.entity].index.tolist() == times.tolist()
    assert (result.threshold, result.series) == (1.0, observations.series)
    assert result.expected.columns.tolist() == list(NAMES)


def test_observations_say_where_they_lie_and_how_they_scored():
    observations = observe(14, DATED)
    evidence = judge(observations, 2)
    table = gather(observations, evidence).observations
    for i, (place, found) in enumerate(zip(observations.places, evidence, strict=True)):
        start, end = DATED.at([max(place.start, 0), min(place.start + 6, 14)])
        row = table.loc[i]
        assert (row["entity"], row["start"], row["end"]) == ("m0", start, end)
        assert row["coverage"] == observations.coverage(i)
        assert (row["score"], row["level_score"], row["shape_score"]) == (found.score, found.score, found.score / 2)
        assert row["anomalous"] == (found.score > 1)


def test_nothing_scored_gives_tables_with_nothing_in_them():
    series = (Series(np.zeros((5, 2)), ("a", "b"), DATED, "x"), Series(np.zeros((4, 2)), ("a", "b"), DATED, "y"))
    result = gather(Observations(series, (), 50), [])
    assert len(result.intervals) == len(result.observations) == len(result.worst()) == 0
    assert list(result.intervals.columns) == INTERVALS
    assert result.timeline["score"].isna().all()
    assert not result.timeline["anomalous"].any()
    assert result.variables.shape == (9, 2)
    assert list(result.view_scores) == ["level"]


def test_entities_on_different_clocks_share_a_result():
    series = (Series(np.zeros((6, 7)), NAMES, DATED, "x"), Series(np.zeros((6, 7)), NAMES, Clock(), "y"))
    observations = cut(series, 6, 0).observations
    result = gather(observations, judge(observations, 4, quiet=0.0))
    assert set(result.intervals["entity"]) == {"x", "y"}
    assert len(result.timeline) == 12


def test_the_worst_intervals_come_first():
    observations = observe(60, Clock())
    result = gather(observations, judge(observations, 5), merge=1)
    assert len(result.intervals) > 3
    assert result.worst(3)["score"].tolist() == sorted(result.intervals["score"], reverse=True)[:3]
