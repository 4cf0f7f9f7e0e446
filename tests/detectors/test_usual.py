"""What is usual is learnt as defined, from the normal part of the history, and a band contains what is normal."""

import numpy as np
import pytest

import tsadc
from tsadc.detectors.ensemble.features import interpolated
from tsadc.detectors.usual import (
    LEVELS,
    MIN_SIZE,
    OF_WINDOWS,
    Usual,
    longest_run,
    normal_places,
    window_measures,
    window_of,
)
from tsadc.series import Clock, Series
from tsadc.windows import cut

NAMES = ("flow", "speed", "valve")


def history(rows: int = 2400, seed: int = 0) -> Series:
    """Flow follows speed; the valve moves on its own."""
    generator = np.random.default_rng(seed)
    speed = np.cumsum(generator.normal(size=rows)) * 0.1 + np.sin(np.arange(rows) / 9)
    flow = 30 + 2 * speed + 0.2 * generator.normal(size=rows)
    values = np.stack([flow, speed, generator.normal(size=rows)], axis=1)
    values[100:104, 0] = np.nan
    return Series(values, NAMES, Clock(0, 60 * 10**9, dated=True), "pump")


def by_definition(z, rest, window):
    """The measures of every window, one at a time."""
    out = np.empty((len(OF_WINDOWS), len(z), z.shape[1] - window + 1))
    for k in range(len(z)):
        for start in range(out.shape[2]):
            x, r = z[k, start : start + window], rest[k, start : start + window]
            line = np.polyval(np.polyfit(np.arange(window), x, 1), np.arange(window))
            spread = np.log(MIN_SIZE + np.sqrt(np.mean((x - line) ** 2)))
            pace = np.log(MIN_SIZE + np.sqrt(np.mean(np.diff(x) ** 2))) - spread
            out[:, k, start] = r.mean(), spread, pace, np.log(MIN_SIZE + r.std())
    return out


def test_window_measures_are_those_of_the_definition():
    generator = np.random.default_rng(1)
    z, rest = generator.normal(size=(2, 3, 40)).cumsum(axis=2)
    np.testing.assert_allclose(window_measures(z, rest, 9), by_definition(z, rest, 9), rtol=1e-6, atol=1e-8)


def test_quantiles_are_those_of_all_normal_windows():
    observations = cut([history()], 60).observations
    usual = Usual.fit(observations, lambda entity, z: None)
    pieces = [interpolated(observations.read(i)) for i in range(len(observations))]
    window = window_of(60)
    measures = np.concatenate([by_definition(z, z, window)[:, :, :: window // 2] for z in pieces], axis=2)
    own = usual.of("pump")
    for number, name in enumerate(OF_WINDOWS):
        np.testing.assert_allclose(own.of(name), np.quantile(measures[number], LEVELS, axis=1), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(own.of("value"), np.quantile(np.concatenate(pieces, axis=1), LEVELS, axis=1), rtol=1e-4)
    assert own.partners[0, 0] == 1
    assert np.tanh(own.correlations[0, 0, 1]) > 0.9
    assert own.run.tolist() == [1, 1, 1]
    assert usual.of("unknown") is usual.pooled


def test_the_longest_run_is_counted_in_rows():
    assert longest_run(np.array([[1.0, 1, 2, 2, 2, 3], [5, 5, 5, 5, 5, 5], [1, 2, 3, 4, 5, 6]])).tolist() == [3, 6, 1]


def test_gaps_are_interpolated_and_nothing_jumps():
    z = np.array([[1.0, np.nan, 3.0, np.nan], [np.nan, np.nan, np.nan, np.nan]])
    assert interpolated(z).tolist() == [[1, 2, 3, 3], [0, 0, 0, 0]]


def test_the_highest_scores_do_not_count_as_normal():
    assert normal_places(np.array([3.0, 1, 9, 2, 8]), 0.4).tolist() == [0, 1, 3]
    assert len(normal_places(np.zeros(4), 0.25)) == 4


@pytest.fixture(scope="module")
def detector():
    return tsadc.Ensemble(length=60, config=tsadc.Ensemble.Config(kernels=16)).fit(history())


def test_the_band_follows_the_other_variables_and_holds_normal_values(detector):
    (part,) = detector.detect(history(1200, seed=0)).parts
    lower, upper = part.band
    values = part.series.values
    inside = (values >= lower) & (values <= upper) | np.isnan(values)
    assert inside.mean(axis=0).min() > 0.95
    own = detector.usual_.of("pump")
    assert own.predicts.tolist() == [True, True, False]
    assert np.median(upper[:, 0] - lower[:, 0]) < 0.3 * np.ptp(np.nanquantile(values[:, 0], [0.01, 0.99]))


def test_the_band_is_continuous_over_missing_rows_and_absent_in_long_gaps(detector):
    series = history(1200)
    values = series.values.copy()
    values[300:303] = np.nan
    values[610:635] = np.nan
    result = detector.detect(Series(values, NAMES, series.clock, "pump"))
    lower, _ = result.parts[0].band
    assert np.isfinite(lower[295:310]).all()
    steps = np.abs(np.diff(lower[:, 0]))
    assert steps[299:304].max() <= np.nanmax(steps[:290])
    assert np.isnan(lower[610:635]).all()
    frame = result.usual
    assert list(frame.columns[:3]) == [("flow", "lower"), ("flow", "upper"), ("speed", "lower")]
    np.testing.assert_array_equal(frame["flow", "lower"].to_numpy(), lower[:, 0])


def test_what_is_usual_is_stored_with_the_model(detector, tmp_path):
    detector.save(tmp_path / "model")
    again = tsadc.load(tmp_path / "model")
    new = history(600, seed=5)
    before, after = detector.detect(new).usual, again.detect(new).usual
    np.testing.assert_array_equal(before.to_numpy(), after.to_numpy())


def test_an_adapted_entity_has_a_band_of_its_own(detector, tmp_path):
    detector.save(tmp_path / "model")
    other = history(1200, seed=7)
    shifted = Series(other.values + 100, NAMES, other.clock, "other")
    again = tsadc.load(tmp_path / "model").adapt(shifted)
    (part,) = again.detect(shifted).parts
    assert (part.band[0][:, 2] > 90).all()
