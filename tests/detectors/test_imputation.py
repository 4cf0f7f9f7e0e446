"""Imputation: the fast solution equals the joint Gaussian, bands hold what they promise, and gaps do no harm."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tsadc.detectors.ensemble.linear import gram_matrix
from tsadc.detectors.imputation import DEVIATIONS, Autoregression, Imputer, _segments
from tsadc.scale import Scaler
from tsadc.series import Booleans, Floats, Series


def coupled(rows: int, seed: int = 0, variables: int = 4) -> Floats:
    """A slow common signal, which each variable shows at its own size and with a little noise."""
    generator = np.random.default_rng(seed)
    common = np.convolve(generator.normal(size=rows + 50), np.hanning(51), mode="valid")[:rows] / 4
    sizes = np.linspace(1.0, 2.0, variables)
    return np.asarray(10 + common[:, None] * sizes + 0.1 * generator.normal(size=(rows, variables)))


def fitted(values: Floats, **options: Any) -> tuple[Series, Imputer]:
    series = Series(values, tuple(f"v{k}" for k in range(values.shape[1])), **options)
    return series, Imputer.fit([series], Scaler.fit([series], Scaler.Config()))


def dense(model: Autoregression, z: Floats, hidden: Booleans) -> tuple[Floats, Floats]:
    """The definition: all equations e_t as one matrix over the padded series, conditioned on what is known."""
    order, (rows, variables) = model.order, z.shape
    margin = 2 * order
    total = rows + 2 * margin
    equations = np.zeros(((total + order) * variables, total * variables))
    for time in range(total + order):
        for lag, matrix in enumerate(model.filters):
            if 0 <= time - lag < total:
                rows_of, columns_of = time * variables, (time - lag) * variables
                equations[rows_of : rows_of + variables, columns_of : columns_of + variables] = matrix
    unknown = np.zeros((total, variables), dtype=bool)
    unknown[order:-order] = True
    unknown[margin:-margin] = hidden
    known = np.zeros((total, variables))
    known[margin:-margin] = np.where(hidden, 0.0, z)
    cells = unknown.ravel()
    constant = np.tile(model.offset, total + order) - equations @ known.ravel()
    precision = equations[:, cells].T @ equations[:, cells]
    mean, deviation = np.full((2, total * variables), np.nan)
    mean[cells] = np.linalg.solve(precision, equations[:, cells].T @ constant)
    deviation[cells] = np.sqrt(np.diag(np.linalg.inv(precision)))
    inside = slice(margin * variables, -margin * variables)
    return tuple(np.where(hidden, part[inside].reshape(z.shape), np.nan) for part in (mean, deviation))  # type: ignore


@pytest.mark.parametrize("pattern", ["points", "block", "variable", "rows", "ends"])
def test_the_blockwise_solution_is_the_conditional_gaussian(pattern: str) -> None:
    z = coupled(40, variables=3) - 10
    model = Autoregression.fit(gram_matrix([coupled(2000, 1, 3).T - 10], range(4)), 3)
    hidden = np.zeros(z.shape, dtype=bool)
    if pattern == "points":
        hidden = np.random.default_rng(0).random(z.shape) < 0.2
    elif pattern == "block":
        hidden[5:22, 1] = True
    elif pattern == "variable":
        hidden[:, 2] = True
    elif pattern == "rows":
        hidden[10:21] = True
    else:
        hidden[:4], hidden[-3:, 0] = True, True
    mean, deviation, _ = model.impute(np.where(hidden, np.nan, z), hidden)
    # Far from hidden cells the definition knows more: that what lies beyond the ends is unknown. So near ends only.
    expected_mean, expected_deviation = dense(model, z, hidden)
    np.testing.assert_allclose(mean, expected_mean, atol=2e-3)
    np.testing.assert_allclose(deviation, expected_deviation, atol=2e-3)


def test_a_hidden_variable_is_imputed_from_the_others_and_a_band_holds_90_percent() -> None:
    values = coupled(4000)
    series, imputer = fitted(values)
    generator = np.random.default_rng(1)
    hidden = generator.random(values.shape) < 0.03
    hidden[1000:1400, 2] = True
    hidden[3000:3020] = True
    new = replace(series, values=coupled(4000, seed=9))
    found = imputer.impute(new, hidden)
    error = np.abs(found.values - new.values)
    assert np.isnan(found.values[~hidden]).all()
    assert np.isnan(found.deviation[~hidden]).all()
    assert error[1000:1400, 2].mean() < 0.15  # the noise is 0.1, the signal 1.2
    assert 0.85 < (error <= DEVIATIONS * found.deviation)[hidden].mean() < 0.95


def test_draws_have_the_conditional_mean_and_covariance() -> None:
    z = coupled(40, variables=3) - 10
    model = Autoregression.fit(gram_matrix([coupled(2000, 1, 3).T - 10], range(4)), 3)
    hidden = np.zeros(z.shape, dtype=bool)
    hidden[10:21, :2] = True
    mean, deviation, draws = model.impute(np.where(hidden, np.nan, z), hidden, 20_000, np.random.default_rng(0))
    np.testing.assert_allclose(draws.mean(axis=0), mean[hidden], atol=0.03 * deviation[hidden].max())
    np.testing.assert_allclose(draws.std(axis=0), deviation[hidden], rtol=0.03)
    # Neighbours are drawn together: conditioned on one draw of the others, the last row has the same mean.
    first = np.where(hidden, np.nan, z)
    first[hidden] = draws[0]
    last = np.zeros(z.shape, dtype=bool)
    last[20, :2] = True
    expected, narrow, _ = model.impute(np.where(last, np.nan, first), last)
    assert np.abs(draws[0][-2:] - expected[last]).max() < 4 * narrow[last].max() < 4 * deviation[20, :2].max()


def test_draws_of_hidden_cells_cover_what_was_measured() -> None:
    series, imputer = fitted(coupled(4000))
    hidden = np.random.default_rng(1).random((4000, series.values.shape[1])) < 0.03
    hidden[1000:1400, 2] = True
    new = replace(series, values=coupled(4000, seed=9))
    found = imputer.impute(new, hidden, 20, np.random.default_rng(0))
    assert found.draws.shape == (20, hidden.sum())
    inside = (found.draws.min(axis=0) <= new.values[hidden]) & (new.values[hidden] <= found.draws.max(axis=0))
    assert 0.85 < inside.mean() < 0.95  # 19 of 21 gaps between 20 draws
    again = imputer.impute(new, hidden, 20, np.random.default_rng(0))
    np.testing.assert_array_equal(again.draws, found.draws)


def test_what_is_hidden_is_not_looked_at() -> None:
    values = coupled(1500)
    series, imputer = fitted(values)
    hidden = np.zeros(values.shape, dtype=bool)
    hidden[700:720, 1:3] = True
    spoilt = np.where(hidden, 1e6, values)
    expected = imputer.impute(series, hidden)
    found = imputer.impute(replace(series, values=spoilt), hidden)
    np.testing.assert_array_equal(found.values, expected.values)
    np.testing.assert_array_equal(found.deviation, expected.deviation)


def test_gaps_in_the_history_do_little_harm() -> None:
    values = coupled(3000)
    generator = np.random.default_rng(2)
    gaps = generator.random(values.shape) < 0.1
    _, imputer = fitted(np.where(gaps, np.nan, values))
    series, whole = fitted(values)
    hidden = np.zeros(values.shape, dtype=bool)
    hidden[::20, 0] = True
    errors = [np.nanmean(np.abs(each.impute(series, hidden).values - values)) for each in (whole, imputer)]
    assert errors[1] < 1.1 * errors[0]


def test_one_variable_and_constants_and_separate_observations() -> None:
    wave = np.sin(np.arange(3000) / 15)[:, None]
    series, imputer = fitted(wave)
    hidden = np.zeros(wave.shape, dtype=bool)
    hidden[1500:1510] = True
    assert np.abs(imputer.impute(series, hidden).values - wave)[hidden].max() < 0.05
    series, imputer = fitted(np.hstack([wave, np.full_like(wave, 3.0)]))
    hidden = np.zeros((3000, 2), dtype=bool)
    hidden[1500:1510] = True
    np.testing.assert_allclose(imputer.impute(series, hidden).values[1500:1510, 1], 3.0, atol=1e-6)
    series, imputer = fitted(wave, observation=100)
    assert _segments(series)[:2] == [(0, 100), (100, 200)]
    found = imputer.impute(series, np.arange(3000)[:, None] == 100)
    assert np.isfinite(found.values[100, 0])


def test_an_entity_has_its_own_model() -> None:
    first, second = coupled(2000), coupled(2000, 1)
    second[:, 1] = 20 - second[:, 1]  # the other way round
    names = ("a", "b", "c", "d")
    both = [Series(first, names, entity="first"), Series(second, names, entity="second")]
    imputer = Imputer.fit(both, Scaler.fit(both, Scaler.Config()))
    hidden = np.zeros(first.shape, dtype=bool)
    hidden[900:1000, 1] = True
    for series in both:
        assert np.nanmean(np.abs(imputer.impute(series, hidden).values - series.values)) < 0.2


def test_the_same_seed_gives_the_same_bits() -> None:
    series, imputer = fitted(coupled(1200))
    _, again = fitted(coupled(1200))
    hidden = np.zeros(series.values.shape, dtype=bool)
    hidden[::7, 1] = True
    np.testing.assert_array_equal(imputer.impute(series, hidden).values, again.impute(series, hidden).values)
