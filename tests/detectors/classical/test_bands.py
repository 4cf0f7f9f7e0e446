import numpy as np
import pytest

from tsadc.detectors.classical.bands import BandPowers
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


@pytest.mark.parametrize("change", ["rhythm", "quiet"])
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
    kept, all_of_it = found.decision_function(new), trusting.decision_function(new)
    assert kept[4] / np.median(kept) > 2 * all_of_it[4] / np.median(all_of_it)


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
