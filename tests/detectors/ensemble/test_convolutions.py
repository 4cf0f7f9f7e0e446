"""Random convolutions against a loop over kernels, taps and steps."""

import numpy as np
import pandas as pd
import pytest

from tsadc.detectors.ensemble import features
from tsadc.detectors.ensemble.features import Convolutions
from tsadc.series import Observations, Place, Series

LENGTH, VARIABLES = 40, 4


def observations(values: np.ndarray, length: int = LENGTH) -> Observations:
    series = Series(values, tuple(f"v{k}" for k in range(values.shape[1])))
    return Observations((series,), tuple(Place(0, i) for i in range(0, len(values), length)), length)


@pytest.fixture(scope="module")
def train() -> Observations:
    return observations(np.random.default_rng(0).normal(size=(30 * LENGTH, VARIABLES)))


@pytest.fixture(scope="module")
def kernels(train) -> Convolutions:
    return Convolutions.fit(train.read, len(train), kernels=20, seed=3)


def slow_outputs(kernels: Convolutions, z: np.ndarray) -> np.ndarray:
    z = pd.DataFrame(z.T.astype(np.float64)).interpolate(limit_direction="both").to_numpy().T.astype(z.dtype)
    out = np.zeros((len(kernels.bias), z.shape[1]))
    for i, dilation in enumerate(kernels.dilations):
        for t in range(z.shape[1]):
            for channel, weights in zip(kernels.channels[i], kernels.weights[i], strict=True):
                for tap, weight in enumerate(weights):
                    at = t + (tap - 4) * dilation
                    if channel >= 0 and 0 <= at < z.shape[1] and not np.isnan(z[channel, at]):
                        out[i, t] += weight * np.clip(z[channel, at], -8, 8)
    return out


def test_features_against_a_slow_definition(kernels, train):
    z = train.read(3).copy()
    z[0, 5:9], z[1, 20], z[2, 11] = np.nan, 1e9, -1e9
    z[:, 30:33] = np.nan
    seen = np.r_[0:30, 33:LENGTH]
    share = (slow_outputs(kernels, z)[:, seen] > kernels.bias[:, None]).mean(axis=1)
    np.testing.assert_allclose(kernels(z), np.arcsin(np.sqrt(share)), atol=1e-12)


def test_channels_dilations_and_weights(kernels):
    assert kernels.dilations.tolist() == [1] * 20 + [2] * 20 + [4] * 20
    number = (kernels.channels >= 0).sum(axis=1)
    assert set(number) == {1, 2, 3}
    for channels, count in zip(kernels.channels, number, strict=True):
        assert len(set(channels[:count])) == count
    np.testing.assert_allclose(kernels.weights.sum(axis=2), 0, atol=1e-5)
    assert (kernels.weights[kernels.channels < 0] == 0).all()


def test_biases_are_quantiles_of_training_outputs(kernels, train):
    above = np.mean([np.sin(kernels(train.read(i))) ** 2 for i in range(len(train))], axis=0)
    assert above.min() > 0.02
    assert above.max() < 0.43
    assert np.ptp(above) > 0.25


def test_a_constant_level_gives_output_zero_away_from_the_ends(kernels):
    z = np.full((VARIABLES, LENGTH), 3.0, dtype=np.float32)
    outputs = kernels._outputs(kernels._padded(z), slice(0, LENGTH))
    for own, dilation in zip(outputs, kernels.dilations, strict=True):
        np.testing.assert_allclose(own[4 * dilation : -4 * dilation], 0, atol=1e-4)


def test_a_long_observation_is_measured_in_parts(monkeypatch, kernels, train):
    z = train.read(3).copy()
    z[:, 30:33] = np.nan
    whole = kernels(z)
    monkeypatch.setattr(features, "STEPS_AT_ONCE", 7)
    assert kernels(z).tobytes() == whole.tobytes()


def test_kernels_on_an_unmeasured_variable_give_nan(kernels, train):
    z = train.read(0).copy()
    z[2] = np.nan
    blind = (kernels.channels == 2).any(axis=1)
    assert 0 < blind.sum() < len(blind)
    np.testing.assert_array_equal(np.isnan(kernels(z)), blind)


@pytest.mark.parametrize(("length", "dilations"), [(8, [1]), (9, [1]), (17, [1, 2]), (600, [1, 2, 4, 8, 16, 32])])
def test_dilations_that_fit(length, dilations):
    train = observations(np.random.default_rng(1).normal(size=(5 * length, 2)), length)
    kernels = Convolutions.fit(train.read, len(train), kernels=3, seed=0)
    assert sorted(set(kernels.dilations)) == dilations
    assert (kernels.channels[:, 2] == -1).all()
    assert np.isfinite(kernels(train.read(0))).all()


def test_state_and_seed(kernels, train):
    again = Convolutions.restore(kernels.state(), VARIABLES)
    assert again(train.read(5)).tobytes() == kernels(train.read(5)).tobytes()
    assert Convolutions.fit(train.read, len(train), 20, 3).bias.tobytes() == kernels.bias.tobytes()
    assert Convolutions.fit(train.read, len(train), 20, 4).bias.tobytes() != kernels.bias.tobytes()
