"""Each fault does what its name says and nothing else; the schedule touches exactly as many windows as it was told."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import lfilter

from tsadc.data.faults import KINDS, Signal, inject, schedule
from tsadc.data.faults import decoupled as decouple
from tsadc.data.faults import waveform as reshape

LENGTH, START, STOP = 60, 500, 600


@pytest.fixture
def smooth() -> Signal:
    shocks = np.random.default_rng(3).standard_normal(2000)
    return Signal.of(20 + lfilter([1], [1, -0.9], shocks), LENGTH)


@pytest.fixture
def oscillating() -> Signal:
    noise = 0.05 * np.random.default_rng(4).standard_normal(2000)
    return Signal.of(5 + np.sin(2 * np.pi * np.arange(2000) / 11) + noise, LENGTH)


def apply(kind: str, signal: Signal, seed: int = 0, start: int = START, stop: int = STOP) -> np.ndarray:
    return KINDS[kind].fault(signal, start, stop, np.random.default_rng(seed))


def test_spread_is_the_standard_deviation_of_a_gaussian() -> None:
    assert Signal.of(7 * np.random.default_rng(0).standard_normal(100_000), LENGTH).spread == pytest.approx(7, rel=0.02)


@pytest.mark.parametrize(("start", "stop"), [(0, 10), (500, 640), (1990, 2000)])
def test_trend_is_the_mean_of_the_rows_around(smooth: Signal, start: int, stop: int) -> None:
    slow = [smooth.values[max(i - 30, 0) : i + 31].mean() for i in range(start, stop)]
    np.testing.assert_allclose(smooth.trend(start, stop), slow)
    np.testing.assert_allclose(smooth.fluctuation(start, stop) + slow, smooth.values[start:stop])


@pytest.mark.parametrize("seed", range(5))
def test_spike_stands_out_on_one_side(smooth: Signal, seed: int) -> None:
    heights = (apply("spike", smooth, seed, 500, 504) - smooth.values[500:504]) / smooth.spread
    assert (np.sign(heights) == np.sign(heights[0])).all()
    assert (np.abs(heights) >= 3).all()
    assert (np.abs(heights) <= 9).all()


@pytest.mark.parametrize("seed", range(5))
def test_level_shift_is_one_offset(smooth: Signal, seed: int) -> None:
    offsets = (apply("level shift", smooth, seed) - smooth.values[START:STOP]) / smooth.spread
    np.testing.assert_allclose(offsets, offsets[0])
    assert 2.5 <= abs(offsets[0]) <= 5


def test_stuck_repeats_the_last_reading(smooth: Signal) -> None:
    assert (apply("stuck", smooth) == smooth.values[START - 1]).all()
    assert (apply("stuck", smooth, start=0, stop=20) == smooth.values[0]).all()


@pytest.mark.parametrize("seed", range(5))
def test_decoupled_keeps_the_marginals_and_memory_and_loses_the_course(smooth: Signal, seed: int) -> None:
    true, false = smooth.values[START:STOP], apply("decoupled", smooth, seed)
    # Away from the fade at the edges, every value is one of the true ones, in another order.
    inner = false[4:-4]
    assert np.isin(inner, true).all()
    assert len(np.unique(inner)) == len(inner)
    assert abs(np.corrcoef(true, false)[0, 1]) < 0.35
    assert np.corrcoef(false[1:], false[:-1])[0, 1] > 0.6
    largest_step = np.abs(np.diff(smooth.values)).max()
    assert abs(false[0] - smooth.values[START - 1]) < largest_step
    assert abs(false[-1] - smooth.values[STOP]) < largest_step


def test_decoupled_is_drawn_anew(smooth: Signal) -> None:
    one, other = (decouple(smooth, START, STOP, np.random.default_rng(seed)) for seed in (1, 2))
    assert not np.array_equal(one, other)


def test_waveform_changes_frequency_or_shape_at_the_same_amplitude(oscillating: Signal) -> None:
    start, stop = 500, 720
    true = oscillating.fluctuation(start, stop)
    turns = set()
    for seed in range(12):
        false = reshape(oscillating, start, stop, np.random.default_rng(seed)) - oscillating.trend(start, stop)
        assert false.std() == pytest.approx(true.std(), rel=0.03)
        assert np.abs(false).max() < 1.15 * np.abs(true).max()
        power = np.abs(np.fft.rfft(false)) ** 2
        ratio = np.argmax(power) / 20  # 220 rows hold 20 turns of 11 rows
        if abs(ratio - 1) < 0.05:
            assert np.quantile(np.abs(false), 0.9) / false.std() < 1.25  # a sine has 1.40, a square wave 1
            turns.add("flat")
        else:
            assert 1.45 <= max(ratio, 1 / ratio) <= 2.3
            turns.add("faster" if ratio > 1 else "slower")
    assert turns == {"flat", "faster", "slower"}


@pytest.mark.parametrize("seed", range(5))
def test_quiet_shrinks_the_fluctuation_alone(smooth: Signal, seed: int) -> None:
    shrunk = (apply("quiet", smooth, seed) - smooth.trend(START, STOP)) / smooth.fluctuation(START, STOP)
    np.testing.assert_allclose(shrunk, shrunk[0])
    assert 0.1 <= shrunk[0] <= 0.25


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("start", "stop"), [(0, 5), (0, 60), (1940, 2000), (1996, 2000)])
def test_every_kind_works_at_both_ends(kind: str, start: int, stop: int, oscillating: Signal) -> None:
    for seed in range(4):
        false = apply(kind, oscillating, seed, start, stop)
        assert false.shape == (stop - start,)
        assert np.isfinite(false).all()


@settings(max_examples=60, deadline=None)
@given(data=st.data(), windows=st.integers(2, 60), length=st.integers(30, 200), seed=st.integers(0, 1000))
def test_schedule_touches_exactly_the_windows_asked_for(
    data: st.DataObject, windows: int, length: int, seed: int
) -> None:
    touched = data.draw(st.integers(0, windows))
    kinds = data.draw(st.lists(st.sampled_from(list(KINDS)), min_size=1, unique=True))
    spans = schedule(windows, length, touched, kinds, np.random.default_rng(seed))
    hits = np.zeros(windows * length, dtype=int)
    for span in spans:
        assert 0 <= span.start < span.stop <= windows * length
        longest = 5 if KINDS[span.kind].brief else length
        assert span.stop - span.start <= longest
        hits[span.start : span.stop] += 1
    assert hits.max(initial=0) <= 1
    assert hits.reshape(windows, length).any(axis=1).sum() == touched
    assert list(spans) == sorted(spans, key=lambda span: span.start)
    counts = Counter(span.kind for span in spans)
    assert max(counts[kind] for kind in kinds) - min(counts[kind] for kind in kinds) <= 1


def test_inject_leaves_everything_else_alone() -> None:
    generator = np.random.default_rng(5)
    clean = generator.standard_normal((6000, 7))
    spans = schedule(60, 100, 30, list(KINDS), generator)
    faulty, hit = inject(clean, spans, [2, 4], [0, 1, 2, 3, 4, 6], 100, generator)
    expected = np.zeros(clean.shape, dtype=bool)
    for span, columns in zip(spans, hit, strict=True):
        assert 1 <= len(set(columns)) == len(columns) <= 4
        assert set(columns) <= ({2, 4} if span.kind == "waveform" else {0, 1, 2, 3, 4, 6})
        expected[span.start : span.stop, columns] = True
    assert (faulty == clean)[~expected].all()
    assert (faulty != clean)[expected].mean() > 0.95
