import numpy as np
import pytest

from tsadc.detectors.classical.convolutions import RandomConvolutions
from tsadc.detectors.store import load
from tsadc.errors import ConfigError, TsadcNotice

LENGTH, PERIOD = 120, 20


def beats(count: int, seed: int, *, backwards: bool = False) -> np.ndarray:
    """Three variables that rise slowly and fall at once, or the other way round: the spectrum is the same."""
    rng = np.random.default_rng(seed)
    phase = rng.integers(0, PERIOD, size=(count, 1, 3))
    tooth = (np.arange(LENGTH)[None, :, None] + phase) % PERIOD / PERIOD
    return (1 - tooth if backwards else tooth) + 0.03 * rng.normal(size=(count, LENGTH, 3))


@pytest.fixture(scope="module")
def detector() -> RandomConvolutions:
    return RandomConvolutions(length=LENGTH).fit(beats(40, 0))


@pytest.mark.parametrize("change", ["backwards", "silent"])
def test_unusual_shapes_rank_first(detector, change):
    new = beats(12, 1)
    new[8, :, 1] = beats(1, 2, backwards=True)[0, :, 1] if change == "backwards" else 0.5
    result = detector.detect(new)
    assert result.observations["score"].argmax() == 8
    assert result.observations["anomalous"][8]
    assert result.variables.to_numpy().reshape(12, LENGTH, 3)[8, 0].argmax() == 1


def test_gaps_a_constant_variable_and_a_saved_model(tmp_path):
    history = beats(40, 3)
    history[:, :, 2] = 0.0
    history[5, 20:50, :2] = np.nan
    with pytest.warns(TsadcNotice, match="Constant throughout the history"):
        detector = RandomConvolutions(length=LENGTH, config=RandomConvolutions.Config(kernels=32)).fit(history)
    new = beats(6, 4)
    new[:, :, 2] = 0.0
    new[1, :, 0] = np.nan
    new[2, :40] = np.nan
    new[4, ::3, 2] = 0.5
    scores = detector.decision_function(new)
    assert np.isfinite(scores).all()
    assert scores.argmax() == 4
    detector.save(tmp_path / "model")
    assert load(tmp_path / "model").decision_function(new).tobytes() == scores.tobytes()


def test_another_seed_draws_other_kernels():
    first, second = (RandomConvolutions(length=LENGTH, seed=seed).fit(beats(10, 5)).features_ for seed in (0, 1))
    assert not np.array_equal(first.weights, second.weights)


def test_settings_out_of_range():
    with pytest.raises(ConfigError, match="`kernels` must be at least 1"):
        RandomConvolutions.Config(kernels=0)
    with pytest.raises(ConfigError, match="`neighbours` must be at least 1"):
        RandomConvolutions.Config(neighbours=0)
    with pytest.raises(ConfigError, match="`keep` must be above 0 and at most 1"):
        RandomConvolutions.Config(keep=0)
