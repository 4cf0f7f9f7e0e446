"""Ridge regression against an explicit least-squares problem, one variable at a time."""

import numpy as np
import pytest

from tsadc.detectors.classical.ridge import Ridge
from tsadc.errors import ConfigError
from tsadc.io.memory import as_series
from tsadc.scale import Scaler
from tsadc.windows import cut

LENGTH, LAGS = 40, 2


@pytest.fixture(scope="module")
def history() -> np.ndarray:
    generator = np.random.default_rng(0)
    cause = np.cumsum(generator.normal(size=2000)) * 0.1
    return np.column_stack([cause, np.roll(cause, 1), -cause]) + generator.normal(0, 0.05, (2000, 3))


@pytest.fixture(scope="module")
def fitted(history) -> Ridge:
    return Ridge(length=LENGTH, config=Ridge.Config(lags=LAGS, penalty=0.01)).fit(history)


def rows(values: np.ndarray, k: int) -> np.ndarray:
    """Predictors of variable k: the others now and before, zero before the start, and 1."""
    time = values.shape[1]
    out = []
    for t in range(time):
        row = [values[j, t - lag] if t >= lag else 0.0 for lag in range(LAGS + 1) for j in range(3) if j != k]
        out.append([*row, 1.0])
    return np.array(out)


def test_weights_solve_the_penalised_problem(fitted, history):
    series = as_series(history)
    every = cut(series, LENGTH).observations.scaled(Scaler.fit(series, fitted.settings.scaler))
    held = np.sort(np.random.default_rng(0).permutation(len(every))[: round(0.2 * len(every))])
    values = [every.read(i).astype(float) for i in range(len(every)) if i not in held]
    for k in range(3):
        past = np.vstack([rows(z, k) for z in values])
        target = np.concatenate([z[k] for z in values])
        steps = sum(z.shape[1] for z in values)
        system = np.vstack([past, np.sqrt(0.01 * steps) * np.eye(past.shape[1])])
        solution = np.linalg.lstsq(system, np.concatenate([target, np.zeros(past.shape[1])]), rcond=None)[0]
        weights = fitted.weights_[[j for j in range(3 * (LAGS + 1) + 1) if j == 3 * (LAGS + 1) or j % 3 != k], k]
        np.testing.assert_allclose(rows(values[0], k) @ weights, rows(values[0], k) @ solution, atol=1e-6)


def test_a_variable_is_not_predicted_from_itself(fitted):
    for lag in range(LAGS + 1):
        for k in range(3):
            assert fitted.weights_[lag * 3 + k, k] == 0


def test_missing_values_do_not_weaken_dependencies():
    generator = np.random.default_rng(1)
    values = generator.normal(size=(4000, 1)).repeat(2, axis=1)
    complete = Ridge(length=LENGTH, config=Ridge.Config(lags=0)).fit(values)
    values[generator.random(4000) < 0.4, 1] = np.nan
    gaps = Ridge(length=LENGTH, config=Ridge.Config(lags=0)).fit(values)
    np.testing.assert_allclose(gaps.weights_[:2], complete.weights_[:2], atol=0.02)
    assert complete.weights_[0, 1] > 0.99
    residual = gaps.detect(values).variables.to_numpy()
    np.testing.assert_array_equal(np.isnan(residual), np.isnan(values))
    assert np.nanmax(residual[:, 1]) < 0.15


def test_a_variable_that_goes_its_own_way_is_found_within_its_usual_range(fitted, history):
    new = history[40:840].copy()
    new[400:440, 1] = history[1200:1240, 1]
    result = fitted.detect(new)
    assert result.observations["score"].idxmax() == 10
    assert next(iter(result.worst(1)["variables"].iloc[0])) == "variable_1"


def test_settings_out_of_range():
    with pytest.raises(ConfigError, match="`lags` must be zero or more"):
        Ridge.Config(lags=-1)
    with pytest.raises(ConfigError, match="`penalty` must be positive"):
        Ridge.Config(penalty=0)
