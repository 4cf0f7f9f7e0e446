import numpy as np

from tsadc.data.task import answers, subsample
from tsadc.series import Clock, Labelled, Series, Truth

MINUTE = 60_000_000_000


def test_answers_are_of_the_observations_a_detector_cuts() -> None:
    series = Series(np.zeros((25, 2)), ("a", "b"), entity="e")
    truth = (Truth("e", 9, 11, "x", ()), Truth("e", 12, 13, "y", ()))
    found = answers(Labelled((series,), truth), 10)
    assert found.kinds == (("x",), ("x", "y"), ())
    assert found.entities == ("e",) * 3
    assert found.labels.tolist() == [True, True, False]


def test_events_count_rows_over_all_series_and_name_the_variables_to_blame() -> None:
    series = tuple(Series(np.zeros((rows, 3)), ("a", "b", "c"), entity=name) for name, rows in (("e", 20), ("f", 10)))
    truth = (Truth("f", 2, 5, "x", ("c", "a")), Truth("e", 0, 4, "x", ()), Truth("e", 7, 9, "y", ("b",)))
    found = answers(Labelled(series, truth), 10)
    events = [(event.start, event.stop, event.blamed.tolist()) for event in found.events]
    assert events == [(0, 4, [False] * 3), (7, 9, [False, True, False]), (22, 25, [True, False, True])]


def test_some_observations_are_taken_evenly() -> None:
    values = np.arange(10.0)[:, None, None] * np.ones((1, 4, 2))
    assert subsample(values, 4, 4)[:, 0, 0].tolist() == [0, 3, 6, 9]
    assert subsample(values, 4, 99).shape == values.shape


def test_observations_of_series_are_taken_whole() -> None:
    """Ten rows of which an observation of four begins at row 2, as the clock says; and eight rows without dates."""
    late = Clock(start=2 * MINUTE, interval=MINUTE, dated=True)
    series = (
        Series(np.arange(10.0)[:, None], ("a",), late, "first"),
        Series(100 + np.arange(8.0)[:, None], ("a",), Clock(), "second"),
    )
    first, second = subsample(series, 4, 3)
    assert first.values.ravel().tolist() == [2, 3, 4, 5]
    assert second.values.ravel().tolist() == [100, 101, 102, 103, 104, 105, 106, 107]
    assert [one.values[0, 0] for one in subsample(series, 4, 2)] == [2, 104]
    assert (first.entity, second.entity) == ("first", "second")
    assert first.clock.every == MINUTE
    assert first.observation == 4
    assert sum(len(one) for one in subsample(series, 4, 99)) == 16


def test_padded_observations_are_taken_where_so_much_of_them_is_enough() -> None:
    """Rows 3, 7 and 11 of an entity were not measured; the last observation lacks two rows, as the series is over."""
    values = np.arange(14.0)[:, None]
    values[3::4] = np.nan
    series = (Series(values, ("a",)),)
    assert subsample(series, 4, 99) == ()
    [found] = subsample(series, 4, 99, 0.5)
    np.testing.assert_array_equal(found.values, values[:12])
    [one] = subsample(series, 4, 1, 0.75)
    np.testing.assert_array_equal(one.values, values[:4])
    assert subsample(series, 4, 99, 0.8) == ()
