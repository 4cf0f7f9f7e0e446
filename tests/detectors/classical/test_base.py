"""What several classical detectors share: features of whole observations, nearest neighbours, adaptation."""

import itertools

import numpy as np
import pytest

from tsadc.detectors import find
from tsadc.detectors.classical.base import Extent
from tsadc.detectors.classical.log_energy import Energy, LogEnergy
from tsadc.errors import ConfigError, TsadcNotice

LENGTH = 32


@pytest.fixture(scope="module")
def z() -> np.ndarray:
    """Five variables with gaps; 3 is constant, 4 was never measured."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(5, 60)).astype(np.float32) + np.arange(5, dtype=np.float32)[:, None]
    values[3] = 0.7
    values[:3][rng.random((3, 60)) < 0.2] = np.nan
    values[4] = np.nan
    return values


def measured_values(row: np.ndarray) -> list[float]:
    return [float(x) for x in row if not np.isnan(x)]


def test_energy_is_the_log_of_the_standard_deviation(z):
    expected = [np.log(0.01 + np.std(measured_values(row))) for row in z[:3]]
    np.testing.assert_allclose(Energy(5)(z), [*expected, np.log(0.01), np.nan], rtol=1e-6)


def test_extent_against_a_slow_definition(z):
    actual = Extent(5)(z).reshape(5, 5)
    for k, row in enumerate(z[:4]):
        values = measured_values(row)
        changes = [float(b) - float(a) for a, b in itertools.pairwise(row) if not np.isnan(a + b)]
        size = np.sqrt(np.mean(np.square(changes)))
        levels = np.arcsinh([np.mean(values), min(values), max(values)])
        spreads = np.log([0.01 + np.std(values), 0.01 + size])
        np.testing.assert_allclose(actual[:, k], [*levels, *spreads], rtol=1e-5, atol=1e-6)
    assert np.isnan(actual[:, 4]).all()


@pytest.fixture(scope="module")
def history() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(40, 30, 3))


def test_steps_have_the_same_score_and_variables_the_mean_deviation_of_their_features(history):
    detector = LogEnergy(length=30).fit(history)
    new = history[:2].copy()
    new[1, :, 2] *= 6
    new[1, 4:7, 0] = np.nan
    new[1, 10] = np.nan
    result = detector.detect(new)
    steps = result.timeline["score"].to_numpy().reshape(2, 30)
    measured = np.isfinite(new).any(axis=2)
    np.testing.assert_array_equal(np.isnan(steps), ~measured)
    scores = result.observations["score"].to_numpy()
    np.testing.assert_array_equal(steps[measured], np.repeat(scores, measured.sum(axis=1)))
    contributions = result.variables.to_numpy().reshape(2, 30, 3)
    np.testing.assert_array_equal(np.isnan(contributions), np.isnan(new))
    u = detector.standardiser_("series", detector.features_(detector.scaler_("series", new[1]).T))
    np.testing.assert_allclose(contributions[1, 0], np.abs(u), rtol=1e-5)
    assert (contributions[1, 1:4] == contributions[1, 0]).all()
    assert contributions[1, 0].argmax() == 2
    assert result.expected is None


def made(scale: float, seed: int, count: int = 20) -> np.ndarray:
    """Noise whose second variable is `scale` times as smooth as the first."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(count, LENGTH, 2))
    values[:, :, 1] = np.cumsum(values[:, :, 1], axis=1) * scale
    return values.reshape(-1, 2)


@pytest.mark.parametrize("name", ["bands", "convolutions", "log-energy", "isolation-forest"])
def test_an_adapted_entity_is_measured_by_its_own_history(name: str) -> None:
    detector = find(name)(length=LENGTH).fit({f"unit-{i}": made(1.0, i) for i in range(4)})
    # As if sampled three times as densely: other shapes and spectra, even after normalisation.
    own = np.repeat(made(1.0, 9, 30), 3, axis=0)
    history, new = {"slow": own[: 60 * LENGTH]}, {"slow": own[60 * LENGTH :]}
    with pytest.warns(TsadcNotice, match="pooled statistics: slow"):
        before = detector.decision_function(new)
    usual = detector.standardiser_.entities.copy()
    detector.adapt(history)
    assert set(detector.standardiser_.entities) - set(usual) == {"slow"}
    assert all(np.array_equal(detector.standardiser_.entities[unit], usual[unit]) for unit in usual)
    assert np.median(detector.decision_function(new)) < np.median(before)


def test_after_a_short_history_an_entity_keeps_the_common_centre() -> None:
    detector = find("bands")(length=LENGTH).fit({f"unit-{i}": made(1.0, i) for i in range(4)})
    detector.adapt({"new": made(1.0, 5, 4)})
    assert "new" not in detector.standardiser_.entities


@pytest.mark.parametrize(("name", "value"), [("neighbours", 0), ("keep", 0.0), ("keep", 1.5)])
@pytest.mark.parametrize("detector", ["bands", "convolutions"])
def test_settings_are_refused(detector: str, name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=name):
        find(detector).Config(**{name: value})
