"""Fast forms against loops over the measured cells."""

import numpy as np
import pytest

from tsadc.detectors.ensemble import features
from tsadc.detectors.ensemble.features import Correlations, contributions_of, sampled, silent


@pytest.fixture(scope="module")
def z() -> np.ndarray:
    """Five variables with gaps; 3 is constant, 4 was never measured."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(5, 60)).astype(np.float32) + np.arange(5, dtype=np.float32)[:, None]
    values[1] += 2 * values[0]
    values[3] = 0.7
    values[:3][rng.random((3, 60)) < 0.2] = np.nan
    values[4] = np.nan
    return values


def test_correlations_against_a_slow_definition(z):
    actual = iter(Correlations(5)(z))
    for i in range(5):
        for j in range(i + 1, 5):
            pairs = [(a, b) for a, b in zip(z[i], z[j], strict=True) if not np.isnan(a + b)]
            if 4 in (i, j):
                assert np.isnan(next(actual))
            elif 3 in (i, j):
                assert next(actual) == 0
            else:
                expected = np.arctanh(np.corrcoef(np.array(pairs, dtype=float).T)[0, 1])
                assert next(actual) == pytest.approx(expected, abs=1e-6)


def test_correlations_without_gaps_against_those_of_numpy():
    values = np.random.default_rng(1).normal(size=(4, 30)).cumsum(axis=1) + 1e4
    expected = np.arctanh(np.corrcoef(values)[np.triu_indices(4, 1)])
    np.testing.assert_allclose(Correlations(4)(values), expected, rtol=1e-9)
    assert np.isnan(Correlations(4)(values[:, :2])).all()


def test_correlations_are_bounded_and_do_not_depend_on_size():
    x = np.random.default_rng(2).normal(size=50)
    values = np.stack([x, 1e25 * x + 1e26, -x, np.full(50, 1e29)])
    top = np.arctanh(0.995)
    np.testing.assert_allclose(Correlations(4)(values), [top, -top, 0, -top, 0, 0])


def test_with_too_few_common_steps_a_correlation_is_nan():
    values = np.full((2, 20), np.nan)
    values[0, :11], values[1, 9:] = np.arange(11), np.arange(11)
    assert np.isnan(Correlations(2)(values)).all()
    values[1, 8] = -1
    assert Correlations(2)(values)[0] == pytest.approx(np.arctanh(0.995))


def test_a_contribution_is_the_mean_over_the_features_of_a_variable():
    deviation = np.array([1.0, 2.0, 6.0])
    np.testing.assert_allclose(contributions_of(deviation, Correlations(3).owners, 3), [1.5, 3.5, 4.0])
    np.testing.assert_allclose(contributions_of(deviation, (np.array([0, 1]), np.array([2, 2])), 4), [0, 0, 1.5, 0])


def test_the_sample_is_evenly_spaced_and_fits_into_memory(monkeypatch):
    assert sampled(7, 100).tolist() == list(range(7))
    monkeypatch.setattr(features, "MAX_OBSERVATIONS", 5)
    assert sampled(9, 100).tolist() == [0, 2, 4, 6, 8]
    monkeypatch.setattr(features, "MAX_FEATURE_VALUES", 300)
    assert sampled(9, 100).tolist() == [0, 4, 8]
    assert len(sampled(9, 1000)) == 1


def test_up_to_a_hundred_variables_every_pair_counts():
    first, second = np.triu_indices(100, 1)
    chosen = Correlations.choose(100, 3)
    assert chosen.first.tolist() == first.tolist()
    assert chosen.second.tolist() == second.tolist()
    assert chosen.state() == {}


@pytest.mark.parametrize(("variables", "pairs", "partners"), [(101, 4949, {98}), (200, 5000, {50}), (1000, 5000, {10})])
def test_with_more_variables_pairs_are_drawn(variables, pairs, partners):
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


def test_a_variable_is_silent_in_long_gaps_while_others_report():
    z = np.ones((3, 40))
    z[0, 5:13], z[0, 20:29], z[1, 31:] = np.nan, np.nan, np.nan  # 8 steps can be interpolated, 9 cannot
    z[2, :8] = np.nan
    z[:, 25] = np.nan
    expected = np.zeros((3, 40), dtype=bool)
    expected[0, 20:29], expected[1, 31:] = True, True
    expected[:, 25] = False  # nothing was measured
    np.testing.assert_array_equal(silent(z), expected)
    z[2, 8] = np.nan
    expected[2, :9] = True
    np.testing.assert_array_equal(silent(z), expected)
