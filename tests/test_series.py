import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsadc import series as series_module
from tsadc.errors import DataError
from tsadc.series import Clock, Labelled, Observations, Place, Series, Truth


def series(rows: int = 10, entity: str = "m") -> Series:
    return Series(np.arange(2.0 * rows).reshape(rows, 2), ("a", "b"), entity=entity)


def test_a_clock_without_dates_counts_rows():
    assert Clock().at([0, 3, -2]).tolist() == [0, 3, -2]
    assert Clock(start=10, interval=5).at([0, 2]).tolist() == [10, 20]


def test_a_dated_clock_gives_timestamps_even_outside_the_series():
    start = pd.Timestamp("2024-03-31 00:00", tz="UTC")
    clock = Clock(start.value, 3600 * 10**9, dated=True)
    expected = pd.DatetimeIndex(["2024-03-30 23:00", "2024-03-31 00:00", "2024-03-31 05:00"])
    assert (clock.at([-1, 0, 5]) == expected).all()
    assert clock.at([0]).tz is None


def test_a_clock_keeps_its_interval_where_local_time_jumps():
    start = pd.Timestamp("2024-03-31 01:00", tz="Europe/Berlin")
    times = Clock(start.value, 3600 * 10**9, dated=True, timezone="Europe/Berlin").at([0, 1, 2])
    assert [str(t) for t in times] == [
        "2024-03-31 01:00:00+01:00",
        "2024-03-31 03:00:00+02:00",
        "2024-03-31 04:00:00+02:00",
    ]


@pytest.mark.parametrize("shape", [(3,), (3, 3), (2, 3, 2)])
def test_a_series_refuses_values_that_do_not_fit_its_names(shape):
    with pytest.raises(DataError, match=r"needs values of shape \(time, 2 variables\), but got"):
        Series(np.zeros(shape), ("a", "b"))


def test_series_are_compared_by_identity_and_can_be_keys():
    one, other = series(), series()
    assert one == one
    assert one != other
    assert {one: 1}[one] == 1


@given(start=st.integers(-5, 9), length=st.integers(1, 14), scaled=st.booleans())
def test_read_against_a_slow_definition(start, length, scaled):
    one = series()
    observations = Observations((one,), (Place(0, start),), length)
    if start + length <= 0:
        return
    if scaled:
        observations = observations.scaled(lambda entity, values: values * 10 + len(entity))
    expected = np.full((2, length), np.nan, dtype=np.float32)
    for step in range(length):
        if 0 <= start + step < len(one):
            expected[:, step] = one.values[start + step] * (10 if scaled else 1) + (1 if scaled else 0)
    np.testing.assert_array_equal(observations.read(0), expected)
    assert observations.read(0).dtype == np.float32


@given(start=st.integers(-20, 9), length=st.integers(6, 14), seed=st.integers(0, 999))
def test_coverage_against_a_slow_definition(start, length, seed):
    values = np.random.default_rng(seed).normal(size=(10, 2))
    values[values > 0.3] = np.nan
    observations = Observations((Series(values, ("a", "b")),), (Place(0, start),), length)
    measured = sum(
        any(np.isfinite(values[row, k]) for k in range(2)) for row in range(start, start + length) if 0 <= row < 10
    )
    assert observations.coverage(0) == measured / length


def test_take_and_batch_follow_the_order_asked_for():
    observations = Observations((series(entity="x"), series(entity="y")), (Place(0, 0), Place(1, 5), Place(0, 5)), 5)
    chosen = observations.take(np.array([2, 1]))
    assert [chosen.entity(i) for i in range(len(chosen))] == ["x", "y"]
    np.testing.assert_array_equal(
        observations.batch([1, 0]), np.stack([series().values[5:].T, series().values[:5].T]).astype(np.float32)
    )
    assert chosen.names == ("a", "b")
    assert Observations((), (), 5).names == ()


spans = st.tuples(st.sampled_from("xy"), st.integers(0, 19), st.integers(1, 6), st.sampled_from(["drift", "spike"]))


@given(st.lists(spans, max_size=4), st.sampled_from([None, "drift", "spike"]))
def test_touched_against_a_slow_definition(drawn, kind):
    every = (series(20, entity="x"), series(20, entity="y"))
    truth = tuple(Truth(entity, start, start + size, what, ("a",)) for entity, start, size, what in drawn)
    observations = Observations(every, tuple(Place(n, s) for n in range(2) for s in range(-3, 20, 5)), 5)
    expected = []
    for place in observations.places:
        rows = set(range(place.start, place.start + 5))
        expected.append(
            any(
                t.entity == every[place.series].entity and rows & set(range(t.start, t.stop))
                for t in truth
                if kind in (None, t.kind)
            )
        )
    assert Labelled(every, truth).touched(observations, kind).tolist() == expected


def test_a_wild_value_does_not_overflow():
    wild = Series(np.array([[1e300, -1e300], [1.0, np.nan]]), ("a", "b"))
    read = Observations((wild,), (Place(0, 0),), 2).read(0)
    np.testing.assert_array_equal(read, np.array([[1e30, 1], [-1e30, np.nan]], dtype=np.float32))


@given(rows=st.integers(0, 50), chunk=st.integers(1, 30))
def test_chunks_are_the_values_in_their_order(rows, chunk):
    one = series(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(series_module, "CHUNK_CELLS", chunk)
        chunks = list(one.chunks())
    assert all(0 < part.size <= max(chunk, 2) for part in chunks)
    np.testing.assert_array_equal(np.concatenate([np.empty((0, 2)), *chunks]), one.values)
