"""Fast forms against loops over the cells that were measured."""

import itertools

import numpy as np
import pytest

from tsadc.detectors.ensemble import features
from tsadc.detectors.ensemble.features import BANDS, Bands, Correlations, Energy, Extent, affordable, blame
from tsadc.series import Observations, Place, Series


@pytest.fixture(scope="module")
def z() -> np.ndarray:
    """Five variables with gaps; 3 stands still, 4 was never measured."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(5, 60)).astype(np.float32) + np.arange(5, dtype=np.float32)[:, None]
    values[1] += 2 * values[0]
    values[3] = 0.7
    values[:3][rng.random((3, 60)) < 0.2] = np.nan
    values[4] = np.nan
    return values


def known(row: np.ndarray) -> list[float]:
    return [float(x) for x in row if not np.isnan(x)]


def test_energy_is_the_log_of_the_standard_deviation(z):
    expected = [np.log(0.01 + np.std(known(row))) for row in z[:3]]
    np.testing.assert_allclose(Energy(5)(z), [*expected, np.log(0.01), np.nan], rtol=1e-6)


def test_extent_against_a_slow_definition(z):
    found = Extent(5)(z).reshape(5, 5)
    for k, row in enumerate(z[:4]):
        values = known(row)
        changes = [float(b) - float(a) for a, b in itertools.pairwise(row) if not np.isnan(a + b)]
        size = np.sqrt(np.mean(np.square(changes)))
        levels = np.arcsinh([np.mean(values), min(values), max(values)])
        spreads = np.log([0.01 + np.std(values), 0.01 + size])
        np.testing.assert_allclose(found[:, k], [*levels, *spreads], rtol=1e-5, atol=1e-6)
    assert np.isnan(found[:, 4]).all()


def slow_bands(row: np.ndarray) -> list[float]:
    length = len(row)
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
    found = Bands(5, length)(z[:, :length]).reshape(5, BANDS)
    for k in range(4):
        np.testing.assert_allclose(found[k], slow_bands(z[k, :length].astype(float)), rtol=1e-5, atol=1e-6)
    assert np.isnan(found[4]).all()


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


def test_correlations_against_a_slow_definition(z):
    found = iter(Correlations(5)(z))
    for i in range(5):
        for j in range(i + 1, 5):
            pairs = [(a, b) for a, b in zip(z[i], z[j], strict=True) if not np.isnan(a + b)]
            if 4 in (i, j):
                assert np.isnan(next(found))
            elif 3 in (i, j):
                assert next(found) == 0
            else:
                expected = np.arctanh(np.corrcoef(np.array(pairs, dtype=float).T)[0, 1])
                assert next(found) == pytest.approx(expected, abs=1e-6)


def test_correlations_are_bounded_and_do_not_mind_size():
    x = np.random.default_rng(2).normal(size=50)
    values = np.stack([x, 1e25 * x + 1e26, -x, np.full(50, 1e29)])
    top = np.arctanh(0.995)
    np.testing.assert_allclose(Correlations(4)(values), [top, -top, 0, -top, 0, 0])


def test_too_few_steps_in_common_say_nothing():
    values = np.full((2, 20), np.nan)
    values[0, :11], values[1, 9:] = np.arange(11), np.arange(11)
    assert np.isnan(Correlations(2)(values)).all()
    values[1, 8] = -1
    assert Correlations(2)(values)[0] == pytest.approx(np.arctanh(0.995))


def test_blame_is_the_mean_over_the_features_of_a_variable():
    deviation = np.array([1.0, 2.0, 6.0])
    np.testing.assert_allclose(blame(deviation, Correlations(3).owners, 3), [1.5, 3.5, 4.0])
    np.testing.assert_allclose(blame(np.arange(12.0), Bands(2, 16).owners, 2), [2.5, 8.5])
    np.testing.assert_allclose(blame(deviation, (np.array([0, 1]), np.array([2, 2])), 4), [0, 0, 1.5, 0])


def observed(count: int) -> Observations:
    series = Series(np.zeros((count * 8, 2)), ("a", "b"))
    return Observations((series,), tuple(Place(0, 8 * i) for i in range(count)), 8)


def test_training_observations_are_evenly_spread(monkeypatch):
    assert affordable(observed(7), 100).places == observed(7).places
    monkeypatch.setattr(features, "MOST_OBSERVATIONS", 5)
    assert [place.start // 8 for place in affordable(observed(9), 100).places] == [0, 2, 4, 6, 8]
    monkeypatch.setattr(features, "MOST_CELLS", 300)
    assert [place.start // 8 for place in affordable(observed(9), 100).places] == [0, 4, 8]
    assert len(affordable(observed(9), 1000)) == 1


def test_up_to_a_hundred_variables_every_pair_counts():
    first, second = np.triu_indices(100, 1)
    chosen = Correlations.choose(100, 3)
    assert chosen.first.tolist() == first.tolist()
    assert chosen.second.tolist() == second.tolist()
    assert chosen.state() == {}


@pytest.mark.parametrize(("variables", "pairs", "partners"), [(101, 4949, {98}), (200, 5000, {50}), (1000, 5000, {10})])
def test_of_more_variables_some_pairs_are_drawn(variables, pairs, partners):
    chosen = Correlations.choose(variables, 3)
    assert len(set(zip(chosen.first.tolist(), chosen.second.tolist(), strict=True))) == len(chosen.first) == pairs
    assert (chosen.first < chosen.second).all()
    owners = np.concatenate([chosen.first, chosen.second])
    assert set(np.bincount(owners, minlength=variables).tolist()) == partners
    assert Correlations.choose(variables, 3).first.tobytes() == chosen.first.tobytes()
    assert Correlations.choose(variables, 4).first.tobytes() != chosen.first.tobytes()
    again = Correlations.restore(chosen.state(), variables)
    z = np.random.default_rng(0).normal(size=(variables, 30))
    z[chosen.second[7]] = z[chosen.first[7]]
    assert again(z).tobytes() == chosen(z).tobytes()
    assert chosen(z)[7] == pytest.approx(np.arctanh(0.995))
    expected = np.corrcoef(z[chosen.first[9]], z[chosen.second[9]])[0, 1]
    assert chosen(z)[9] == pytest.approx(np.arctanh(expected))


def test_there_may_be_more_variables_than_pairs():
    chosen = Correlations.choose(6000, 0)
    assert len(chosen.first) == 5000
    assert np.bincount(np.concatenate([chosen.first, chosen.second])).max() == 2
