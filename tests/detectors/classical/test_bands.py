import itertools

import numpy as np
import pytest

from tsadc.detectors.classical.bands import BandPowers
from tsadc.detectors.ensemble.features import BANDS, Bands
from tsadc.detectors.store import load
from tsadc.errors import ConfigError, TsadcNotice

LENGTH = 128


def waves(count: int, seed: int, period: float = 16.0) -> np.ndarray:
    """Three waves of one size whose phases are drawn anew in each observation."""
    rng = np.random.default_rng(seed)
    phase = rng.uniform(0, 2 * np.pi, size=(count, 1, 3))
    time = np.arange(LENGTH)[None, :, None]
    return np.sin(2 * np.pi * time / period + phase) + 0.1 * rng.normal(size=(count, LENGTH, 3))


@pytest.fixture(scope="module")
def detector() -> BandPowers:
    return BandPowers(length=LENGTH).fit(waves(40, 0))


@pytest.mark.parametrize("change", ["rhythm", "weak"])
def test_an_unusual_spectrum_ranks_first(detector, change):
    new = waves(12, 1)
    if change == "rhythm":
        new[7, :, 2] = waves(1, 2, period=6.0)[0, :, 2]
    else:
        new[7, :, 2] *= 0.1
    result = detector.detect(new)
    assert result.observations["score"].argmax() == 7
    assert result.observations["anomalous"][7]
    assert result.variables.to_numpy().reshape(12, LENGTH, 3)[7, 0].argmax() == 2
    np.testing.assert_array_equal(result.observations["power_score"], result.observations["score"])


def test_contaminated_training(detector):
    history = waves(60, 3)
    history[:9, :, 1] = waves(9, 4, period=6.0)[:, :, 1]
    found = BandPowers(length=LENGTH).fit(np.random.default_rng(0).permutation(history))
    new = waves(12, 5)
    new[4, :, 1] = waves(1, 6, period=6.0)[0, :, 1]
    assert found.decision_function(new).argmax() == 4
    shuffled = np.random.default_rng(0).permutation(history)
    trusting = BandPowers(length=LENGTH, config=BandPowers.Config(keep=1.0)).fit(shuffled)
    kept, untrimmed = found.decision_function(new), trusting.decision_function(new)
    assert kept[4] / np.median(kept) > 2 * untrimmed[4] / np.median(untrimmed)


def test_gaps_a_constant_variable_and_a_saved_model(tmp_path):
    history = waves(40, 7)
    history[:, :, 1] = -2.0
    history[3, 10:30] = np.nan
    with pytest.warns(TsadcNotice, match="Constant throughout the history"):
        detector = BandPowers(length=LENGTH).fit(history)
    new = waves(6, 8)
    new[:, :, 1] = -2.0
    new[2, :, 0] = np.nan
    new[3, :60] = np.nan
    new[4, 50:70, 1] = -1.0
    scores = detector.decision_function(new)
    assert np.isfinite(scores).all()
    assert scores.argmax() == 4
    detector.save(tmp_path / "model")
    assert load(tmp_path / "model").decision_function(new).tobytes() == scores.tobytes()


def test_settings_out_of_range():
    with pytest.raises(ConfigError, match="`neighbours` must be at least 1"):
        BandPowers.Config(neighbours=0)
    for wrong in (0.0, 1.1):
        with pytest.raises(ConfigError, match="`keep` must be above 0 and at most 1"):
            BandPowers.Config(keep=wrong)


@pytest.fixture(scope="module")
def z() -> np.ndarray:
    """Three variables with gaps; 1 is constant, 2 was never measured."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(3, 60)).astype(np.float32)
    values[0, rng.random(60) < 0.2] = np.nan
    values[1], values[2] = 0.7, np.nan
    return values


def slow_bands(row: np.ndarray) -> list[float]:
    length, row = len(row), row.copy()
    known = np.flatnonzero(~np.isnan(row))
    for first, second in itertools.pairwise(known):
        if 1 < second - first <= 9:  # at most 8 steps are missing between them
            row[first:second] = np.linspace(row[first], row[second], second - first + 1)[:-1]
    window = [0.5 - 0.5 * np.cos(2 * np.pi * i / length) for i in range(length)]
    weight = sum(w**2 for w, x in zip(window, row, strict=True) if not np.isnan(x))
    power = [0.0] * BANDS
    for k in range(length):  # both signs of the frequency
        terms = [w * x * np.exp(-2j * np.pi * k * i / length) for i, (w, x) in enumerate(zip(window, row, strict=True))]
        frequency = min(k, length - k) / length
        band = 0
        while band < BANDS - 1 and frequency <= 0.25 / 2**band:
            band += 1
        power[band] += abs(np.nansum(terms)) ** 2 / (length * weight)
    return [np.log(1e-3 + p) for p in power]


@pytest.mark.parametrize("length", [60, 59, 8])
def test_bands_against_a_slow_transform(z, length):
    found = Bands(3, length)(z[:, :length]).reshape(3, BANDS)
    for k in range(2):
        np.testing.assert_allclose(found[k], slow_bands(z[k, :length].astype(float)), rtol=1e-5, atol=1e-6)
    assert np.isnan(found[2]).all()


def test_the_bands_of_a_wave_and_of_a_level():
    time = np.arange(512)
    waves = np.stack([np.cos(2 * np.pi * time * f) for f in (3 / 8, 3 / 16, 3 / 32, 3 / 64, 3 / 128, 3 / 256)])
    found = Bands(6, 512)(waves).reshape(6, BANDS)
    np.testing.assert_allclose(np.diag(found), np.log(0.501), atol=1e-3)
    assert found[~np.eye(6, dtype=bool)].max() < np.log(2e-3)
    level = Bands(1, 512)(np.full((1, 512), 2.0))
    np.testing.assert_allclose(level, np.log([0.001] * 5 + [4.001]), atol=1e-6)


def test_power_does_not_depend_on_how_much_was_measured():
    noise = np.random.default_rng(1).normal(size=(1, 4096))
    gaps = np.where(np.arange(4096) < 2048, np.nan, noise)
    np.testing.assert_allclose(Bands(1, 4096)(gaps), Bands(1, 4096)(noise), atol=0.2)
