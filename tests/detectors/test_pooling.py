import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tsadc.detectors.pooling import root_mean_square, sliding, top_mean

cells = hnp.arrays(
    np.float32,
    hnp.array_shapes(min_dims=2, max_dims=2, max_side=6),
    elements=st.just(np.nan) | st.floats(0, 1e6, width=32),
)


@given(cells, st.integers(1, 8))
def test_top_mean_against_a_slow_definition(array, count):
    expected = []
    for step in array.T:
        largest = sorted((x for x in step.tolist() if not np.isnan(x)), reverse=True)[:count]
        expected.append(sum(largest) / len(largest) if largest else np.nan)
    found = top_mean(array, count)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-30)


def test_an_overflow_is_the_largest_and_not_a_gap():
    assert top_mean(np.array([[np.inf], [1.0]], dtype=np.float32), 3).tolist() == [np.inf]


@given(cells)
def test_root_mean_square_against_a_slow_definition(array):
    known = [float(x) ** 2 for x in array.ravel() if not np.isnan(x)]
    expected = [np.nan if np.isnan(step).all() else (sum(known) / len(known)) ** 0.5 for step in array.T]
    found = root_mean_square(array)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-30)


@given(st.sampled_from([np.add, np.fmax, np.fmin, np.maximum]), st.integers(1, 40), st.integers(0, 30), st.booleans())
def test_sliding_against_a_loop(function, window, further, gaps):
    values = np.random.default_rng(further).integers(-50, 50, size=(2, window + further)).astype(np.float64)
    if gaps:
        values[:, ::3] = np.nan
    found = sliding(function, values, window)
    for start in range(further + 1):
        np.testing.assert_array_equal(found[:, start], function.reduce(values[:, start : start + window], axis=1))
    assert found.shape == (2, further + 1)


def test_wild_values_do_not_overflow():
    assert root_mean_square(np.array([[1e30, np.nan]], dtype=np.float32))[0] == np.float32(1e30)
