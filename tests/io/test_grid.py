import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsadc.errors import DataError, TsadcNotice
from tsadc.io.clock import onto_grid

MINUTE = 60 * 10**9
numbers = st.floats(-1e6, 1e6) | st.just(np.nan)


def stamps(ticks: object, zone: str | None = None) -> pd.DatetimeIndex:
    times = pd.DatetimeIndex(np.asarray(ticks, dtype=np.int64).astype("datetime64[ns]"))
    return times.tz_localize("UTC").tz_convert(zone) if zone else times


def slow_grid(ticks: list[int], values: np.ndarray, every: int) -> tuple[np.ndarray, int]:
    """Cell by cell: the mean of what was measured from its tick up to the next."""
    first, last = min(ticks) // every, max(ticks) // every
    out = np.full((last - first + 1, values.shape[1]), np.nan)
    for cell in range(first, last + 1):
        for k in range(values.shape[1]):
            inside = [
                values[i, k]
                for i, tick in enumerate(ticks)
                if cell * every <= tick < (cell + 1) * every and not np.isnan(values[i, k])
            ]
            if inside:
                out[cell - first, k] = sum(inside) / len(inside)
    return out, first * every


@given(
    rows=st.lists(st.tuples(st.integers(0, 3000), numbers, numbers), min_size=1, max_size=40),
    start=st.integers(-(10**9), 2 * 10**9),
    every=st.sampled_from([1, 7, 60, 100, 997]),
)
@pytest.mark.filterwarnings("ignore::tsadc.errors.TsadcNotice")
def test_every_value_lands_in_its_cell(rows, start, every):
    # A zone keeps rows in any order from being taken for a wall clock.
    if 3001 // every > 100 * len(rows):
        return
    ticks = [(start + second) * 10**9 for second, *_ in rows]
    values = np.array([row[1:] for row in rows])
    found, clock = onto_grid(stamps(ticks, "UTC"), values, every * 10**9, "The data")
    expected, first = slow_grid(ticks, values, every * 10**9)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-9)
    assert (clock.start, clock.interval, clock.dated, clock.timezone) == (first, every * 10**9, True, "UTC")


def test_a_finer_grid_leaves_the_cells_between_unobserved():
    values = np.array([[1.0, 5.0], [2.0, 6.0]])
    found, clock = onto_grid(stamps([0, MINUTE]), values, MINUTE // 4, "The data")
    np.testing.assert_array_equal(found[:, 0], [1, np.nan, np.nan, np.nan, 2])
    assert clock.interval == MINUTE // 4


def test_ticks_are_multiples_of_the_step_since_1970_in_utc_whatever_the_zone():
    times = pd.DatetimeIndex(["2024-06-01 10:07", "2024-06-01 10:44"]).tz_localize("Asia/Kolkata")
    found, clock = onto_grid(times, np.array([[1.0], [3.0]]), 60 * MINUTE, "The data")
    assert [str(time) for time in clock.at([0, 1])] == ["2024-06-01 09:30:00+05:30", "2024-06-01 10:30:00+05:30"]
    assert found.tolist() == [[1], [3]]


def test_single_values_stay_as_they_are_to_the_bit():
    values = np.random.default_rng(0).normal(size=(50, 3))
    found, _ = onto_grid(stamps(np.arange(50) * MINUTE + 17), values, MINUTE, "The data")
    assert found.tobytes() == values.tobytes()


def test_a_single_row_is_enough():
    found, clock = onto_grid(stamps([90 * 10**9]), np.array([[1.0, np.nan]]), MINUTE, "The data")
    np.testing.assert_array_equal(found, [[1, np.nan]])
    assert clock.start == MINUTE


def test_duplicates_are_averaged_and_rows_out_of_order_are_said():
    found, _ = onto_grid(stamps([0, MINUTE, MINUTE, 2 * MINUTE]), np.array([[0.0], [1], [2], [5]]), MINUTE, "The data")
    assert found[:, 0].tolist() == [0, 1.5, 5]
    with pytest.warns(TsadcNotice, match=r"The data is not sorted by time: 1 row\(s\) are earlier than the row before"):
        found, _ = onto_grid(stamps([MINUTE, 2 * MINUTE, 0]), np.array([[1.0], [2], [0]]), MINUTE, "The data")
    assert found[:, 0].tolist() == [0, 1, 2]


def test_a_grid_of_hardly_anything_is_a_mistake():
    times = pd.DatetimeIndex(["2023-01-01 00:00", "2024-01-01 00:00", "2024-01-01 00:01"])
    with pytest.raises(DataError) as caught:
        onto_grid(times, np.zeros((3, 2)), MINUTE, "The data")
    assert str(caught.value) == (
        "The data has 3 rows, which would become 525602 at every 1min; the widest gap ends at 2024-01-01 00:00:00: "
        "correct that time, or use a longer step."
    )


def test_a_repeated_hour_is_refused_and_not_averaged():
    wall = pd.date_range("2024-10-26 22:00", periods=500, freq="min", tz="Europe/Berlin").tz_localize(None)
    with pytest.raises(DataError, match=r"repeats an hour at row 300 .* daylight saving time ends; write times in UTC"):
        onto_grid(wall, np.zeros((500, 2)), 5 * MINUTE, "The data")


def irregular(seed: int, zone: str, mean: float = 60.0) -> pd.DatetimeIndex:
    """Five days of a log around the end of summer in Berlin, as the wall clock of `zone` tells them."""
    seconds = np.cumsum(np.random.default_rng(seed).exponential(mean, int(5 * 86400 / mean)))
    times = pd.DatetimeIndex(pd.Timestamp("2024-10-25", tz="UTC") + pd.to_timedelta(seconds, unit="s"))
    return times.tz_convert(zone).tz_localize(None)


def is_refused(times: pd.DatetimeIndex) -> bool:
    try:
        onto_grid(times, np.zeros((len(times), 2)), 5 * MINUTE, "The data")
    except DataError as error:
        return "repeats an hour" in str(error)
    return False


@pytest.mark.filterwarnings("ignore::tsadc.errors.TsadcNotice")
@pytest.mark.parametrize("mean", [5.0, 60.0])
def test_a_repeated_hour_is_refused_in_irregular_logs_too(mean):
    for seed in range(40):
        wall = irregular(seed, "Europe/Berlin", mean)
        assert is_refused(wall), seed
        assert is_refused(wall[::-1]), seed  # newest first
        assert is_refused(wall.insert(100, wall[100])), seed


@pytest.mark.filterwarnings("ignore::tsadc.errors.TsadcNotice")
def test_a_duplicate_elsewhere_does_not_hide_a_repeated_hour():
    wall = pd.date_range("2024-10-26 12:00", periods=1500, freq="min", tz="Europe/Berlin").tz_localize(None)
    assert is_refused(wall.insert(40, wall[40]))


@pytest.mark.filterwarnings("ignore::tsadc.errors.TsadcNotice")
@pytest.mark.parametrize("seed", range(30))
def test_other_disorder_is_put_in_order(seed):
    rng = np.random.default_rng(seed)
    for times in (irregular(seed, "UTC"), pd.date_range("2024-10-25", periods=5000, freq="min")):
        count = len(times)
        # Rows that came late by up to three hours, rows in no order at all, and whole blocks in another order.
        late = np.arange(count) + (rng.random(count) < 0.02) * rng.uniform(0, 180, count)
        blocks = np.array_split(np.arange(count), rng.integers(3, 30))
        rng.shuffle(blocks)
        for order in (np.argsort(late, kind="stable"), rng.permutation(count), np.concatenate(blocks)):
            assert not is_refused(times[order])
