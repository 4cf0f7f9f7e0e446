import itertools

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from tsadc.io.clock import regular
from tsadc.series import Clock, Observations, Place, Series
from tsadc.windows import cut, first_start, runs, stitch

UNDATED = Clock()
clocks = st.builds(
    Clock,
    start=st.integers(-(10**18), 2 * 10**18),
    interval=st.integers(1, 10**12),
    dated=st.booleans(),
)


def noise(rows: int, clock: Clock = UNDATED, entity: str = "m", seed: int = 0, gaps: float = 0.0) -> Series:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(rows, 3)).astype(np.float32)
    values[rng.random(rows) < gaps] = np.nan
    return Series(values, ("a", "b", "c"), clock, entity)


@given(clocks, st.integers(1, 60), st.integers(1, 20), st.integers(0, 99))
def test_cutting_then_stitching_gives_the_series_back(clock, rows, length, seed):
    one = noise(rows, clock, seed=seed)
    observations = cut([one], length, minimum=0).observations
    pieces = [observations.read(i) for i in range(len(observations))]
    np.testing.assert_array_equal(stitch(observations, pieces, 0), one.values.T)


@given(clocks, st.lists(st.integers(1, 40), min_size=1, max_size=3), st.integers(1, 20))
def test_every_row_belongs_to_exactly_one_observation(clock, sizes, length):
    every = [noise(rows, clock, f"m{i}") for i, rows in enumerate(sizes)]
    observations = cut(every, length, minimum=0).observations
    for number, one in enumerate(every):
        count = np.zeros(len(one), dtype=int)
        for place in observations.places:
            if place.series == number:
                count[max(place.start, 0) : place.start + length] += 1
        assert (count == 1).all()


@given(clocks, st.integers(1, 60), st.integers(1, 20), st.floats(0, 1), st.integers(0, 99))
def test_what_is_kept_has_enough_rows_and_the_rest_is_counted(clock, rows, length, minimum, seed):
    one = noise(rows, clock, seed=seed, gaps=0.4)
    whole, part = cut([one], length, minimum=0), cut([one], length, minimum)
    measured = ~np.isnan(one.values).all(axis=1)
    enough = [
        place
        for place in whole.observations.places
        if sum(measured[r] for r in range(place.start, place.start + length) if 0 <= r < rows) / length >= minimum
    ]
    assert list(part.observations.places) == enough
    assert len(part.left_out) == len(whole.observations) - len(enough)


@given(clocks, st.integers(1, 20), st.integers(0, 59), st.integers(1, 60))
def test_a_dated_cut_does_not_depend_on_the_span_asked_for(clock, length, first, count):
    clock = Clock(clock.start, clock.interval, dated=True)
    one = noise(60, clock)
    last = min(first + count, 60)
    part = Series(one.values[first:last], one.names, Clock(clock.start + first * clock.interval, clock.interval, True))
    starts = {place.start for place in cut([one], length, minimum=0).observations.places}
    inside = [place.start + first for place in cut([part], length, minimum=0).observations.places]
    assert set(inside) <= starts
    whole = {s for s in starts if s >= first and s + length <= last}
    assert whole <= set(inside)


@given(st.integers(0, 2 * 10**9), st.integers(1, 20))
def test_observations_begin_at_multiples_of_their_span_since_1970(minute, length):
    interval = 60 * 10**9
    clock = Clock(minute * interval, interval, dated=True)
    assert (clock.start + first_start(clock, length) * interval) % (length * interval) == 0
    assert -length < first_start(clock, length) <= 0


@given(st.integers(0, 10**6), st.integers(2, 20), st.sampled_from([0, 0.3, 0.5, 0.7]), st.integers(0, 99))
def test_requests_with_jitter_align_whatever_their_first_timestamp(minute, length, phase, seed):
    interval = 60 * 10**9
    rng = np.random.default_rng(seed)
    ticks = (minute + phase + np.arange(80)) * interval + rng.uniform(-0.04, 0.04, 80) * interval
    times = pd.DatetimeIndex(ticks.astype(np.int64).astype("datetime64[ns]"))
    values = rng.normal(size=(80, 2))

    def starts(first: int) -> set[int]:
        filled, clock = regular(times[first:], values[first:], "The data")
        assert clock.interval == interval
        return {p.start + first for p in cut([Series(filled, ("a", "b"), clock)], length, 0).observations.places}

    whole = starts(0)
    assert all(starts(first) <= whole for first in (1, 7, 20))


def test_without_dates_observations_count_from_the_first_row():
    assert [p.start for p in cut([noise(10, Clock(start=3))], 4, 0).observations.places] == [0, 4, 8]


def test_half_of_the_rows_is_enough():
    kept = cut([noise(10)], 4)
    assert [p.start for p in kept.observations.places] == [0, 4, 8]
    assert len(kept.left_out) == 0
    kept = cut([noise(9)], 4)
    assert [p.start for p in kept.observations.places] == [0, 4]
    assert len(kept.left_out) == 1


def test_a_series_too_short_gives_no_observation():
    kept = cut([noise(3)], 10)
    assert len(kept.observations) == 0
    assert len(kept.left_out) == 1


def test_stitch_fills_rows_that_nothing_covers():
    observations = Observations((noise(5), noise(4)), (Place(0, 2), Place(1, -1)), 2)
    pieces = [np.array([1.0, 2.0]), np.array([3.0, 4.0])]
    np.testing.assert_array_equal(stitch(observations, pieces, 0, fill=-1), [-1, -1, 1, 2, -1])
    np.testing.assert_array_equal(stitch(observations, pieces, 1), [4, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(stitch(Observations((noise(2),), (), 2), [], 0), [np.nan, np.nan])


@given(st.lists(st.booleans()))
def test_runs_against_a_slow_definition(flags):
    found = runs(np.array(flags, dtype=bool))
    assert [i for start, stop in found for i in range(start, stop)] == [i for i, flag in enumerate(flags) if flag]
    assert all(start < stop for start, stop in found)
    assert all(stop < start for (_, stop), (start, _) in itertools.pairwise(found))
