import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tsadc.errors import DataError
from tsadc.io.resample import REACH, _lowpass, rational, resample

RATES = [(500, 100), (256, 200), (100, 250), (1, 100), (360, 250), (512, 100)]


def sine(frequency: float, rate: float, seconds: float = 20) -> np.ndarray:
    return np.sin(2 * np.pi * frequency * np.arange(round(seconds * rate)) / rate + 0.3)


@pytest.mark.parametrize(("rate", "to"), RATES)
def test_a_tone_below_both_nyquist_frequencies_is_as_if_sampled_anew(rate: float, to: float) -> None:
    frequency = 0.8 * min(rate, to) / 2
    seconds = 4 * REACH / min(rate, to) + 5
    out = resample(sine(frequency, rate, seconds), rate, to)
    edge = math.ceil(REACH * to / min(rate, to))
    np.testing.assert_allclose(out[edge:-edge], sine(frequency, to, seconds)[edge : len(out) - edge], atol=1e-2)


@pytest.mark.parametrize(("rate", "to"), [(500, 100), (256, 200), (512, 100)])
@pytest.mark.parametrize("times_nyquist", [1.0, 1.05, 1.25])
def test_a_tone_above_the_new_nyquist_frequency_is_suppressed(rate: float, to: float, times_nyquist: float) -> None:
    out = resample(sine(times_nyquist * to / 2, rate), rate, to)
    assert np.abs(out[REACH:-REACH]).max() < 10 ** (-55 / 20)


@pytest.mark.parametrize(("rate", "to"), RATES)
def test_a_level_and_a_drift_stay_what_they_are(rate: float, to: float) -> None:
    np.testing.assert_allclose(resample(np.full(500, 37.5), rate, to), 37.5, rtol=1e-12)
    drift = 3 + 0.25 * np.arange(500) / rate
    expected = 3 + 0.25 * np.arange(math.ceil(500 * to / rate)) / to
    np.testing.assert_allclose(resample(drift, rate, to), expected, rtol=1e-2 / min(rate, to))


@pytest.mark.parametrize("times", [2, 7, 100])
def test_towards_a_multiple_of_the_rate_the_old_samples_are_kept(times: int) -> None:
    values = np.random.default_rng(1).normal(size=300)
    np.testing.assert_allclose(resample(values, 1, times)[::times], values, rtol=1e-9)


def test_against_the_definition() -> None:
    """A new sample is the old ones weighted by the filter, whose taps lie on the grid of both rates."""
    values = np.random.default_rng(0).normal(size=200)
    up, down = 25, 32
    taps = up * _lowpass(Fraction(up, down))
    middle = len(taps) // 2
    out = resample(values, 256, 200)
    for j in (60, 61, 80, 95):
        lags = j * down - np.arange(200) * up
        near = np.abs(lags) <= middle
        assert out[j] == pytest.approx(float(values[near] @ taps[middle + lags[near]]), abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 300), st.integers(1, 50), st.integers(1, 50))
def test_the_length_is_exact_and_nothing_measured_gets_lost(length: int, rate: int, to: int) -> None:
    out = resample(np.linspace(1, 2, length), rate, to)
    assert len(out) == math.ceil(Fraction(length * to, rate))
    assert np.isfinite(out).all()


def test_equal_rates_change_nothing() -> None:
    values = np.array([1.0, np.nan, 3.0])
    assert resample(values, 100, 100) is values
    assert resample(values, 99.999_999, 100) is values
    assert len(resample(np.array([]), 100, 50)) == 0


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 199), st.integers(1, 120), st.sampled_from([(5, 1), (2, 1), (1, 2), (1, 3), (4, 3), (3, 4)]))
def test_a_gap_stays_where_it_was(start: int, width: int, rates: tuple[int, int]) -> None:
    rate, to = rates
    values = np.full(200, 2.0)
    values[start : start + width] = np.nan
    out = resample(values, rate, to)
    half = Fraction(max(rate, to), to) / 2 if rate > to else Fraction(1, 2)
    for j in range(len(out)):
        centre = Fraction(j * rate, to)
        lost = measured = Fraction(0)
        for i in range(max(0, math.floor(centre) - 6), min(200, math.ceil(centre) + 7)):
            share = min(i + Fraction(1, 2), centre + half) - max(i - Fraction(1, 2), centre - half)
            if share > 0:
                lost, measured = (lost + share, measured) if np.isnan(values[i]) else (lost, measured + share)
        if lost + measured:
            assert np.isnan(out[j]) == (lost > measured)
    np.testing.assert_allclose(out[np.isfinite(out)], 2.0, rtol=1e-12)


def test_a_gap_changes_only_what_the_filter_reaches() -> None:
    values = sine(3, 500)
    gappy = values.copy()
    gappy[4000:4500] = np.nan
    whole, out = resample(values, 500, 100), resample(gappy, 500, 100)
    far = np.r_[0 : 800 - REACH - 1, 900 + REACH + 1 : len(out)]
    np.testing.assert_allclose(out[far], whole[far], atol=1e-12)
    assert np.isnan(out[801:899]).all()
    assert np.isfinite(out[np.r_[0:800, 901 : len(out)]]).all()


def test_nothing_measured_at_all_and_a_single_sample() -> None:
    assert np.isnan(resample(np.full(10, np.nan), 500, 100)).tolist() == [True, True]
    assert np.isnan(resample(np.array([np.inf]), 1, 2)).all()
    assert resample(np.array([7.0]), 1, 3).tolist() == [7.0, 7.0, 7.0]


@pytest.mark.parametrize(
    ("rate", "to", "expected"),
    [
        (500, 100, Fraction(1, 5)),
        (256, 200, Fraction(25, 32)),
        (99.9, 100, Fraction(1000, 999)),
        (1 / 30, 1, Fraction(30)),
        (100 / 3, 100, Fraction(3)),
    ],
)
def test_the_ratio_is_that_of_the_rates_as_written(rate: float, to: float, expected: Fraction) -> None:
    assert rational(rate, to, 10**7) == expected


def test_an_odd_ratio_drifts_by_less_than_a_tenth_of_a_sample() -> None:
    ratio = rational(99.987_654_321, 100, 10**6)
    assert abs(float(ratio) - 100 / 99.987_654_321) * 10**6 < 0.1
    with pytest.raises(DataError, match=r"99\.9877 Hz cannot be resampled to 100 Hz"):
        rational(99.987_654_321, 100, 10**12)


@pytest.mark.parametrize("to", [0, -1, math.nan, math.inf])
def test_impossible_rates_are_refused(to: float) -> None:
    with pytest.raises(DataError, match="must be positive numbers"):
        resample(np.ones(5), 10, to)
