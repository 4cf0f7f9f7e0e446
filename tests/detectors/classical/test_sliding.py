"""What detectors with sliding windows share: windows, rows, and data that is short, constant or missing."""

import numpy as np
import pytest

from tsadc.detectors import find
from tsadc.detectors.classical.base import SlidingDetector, mean_over_windows, sliding, window_scores
from tsadc.errors import ConfigError, TsadcNotice

NAMES = ("moving-variance", "squared-difference", "kmeans-ad", "sub-pca", "range-novelty")
every = pytest.mark.parametrize("name", NAMES)


def waves(rows: int, seed: int, variables: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.sin(np.arange(rows)[:, None] / 5 + np.arange(variables)) + 0.1 * rng.normal(size=(rows, variables))


@pytest.mark.parametrize("window", [1, 2, 3, 7, 12, 13])
@pytest.mark.parametrize("function", [np.add, np.fmax, np.fmin])
def test_windows_against_one_at_a_time(function, window):
    values = np.random.default_rng(window).normal(size=(2, 3, 13))
    if function is not np.add:
        values[0, 1, 2:6] = np.nan
    expected = [function.reduce(values[..., i : i + window], axis=-1) for i in range(13 - window + 1)]
    np.testing.assert_allclose(sliding(function, values, window), np.stack(expected, axis=-1), rtol=1e-12, atol=1e-12)


def test_a_wild_value_leaves_windows_without_it_as_they_were():
    values = np.random.default_rng(0).random((1, 100))
    wild = values.copy()
    wild[0, 40] = 1e60
    found, expected = sliding(np.add, wild, 8), sliding(np.add, values, 8)
    outside = (np.arange(93) <= 32) | (np.arange(93) > 40)
    np.testing.assert_array_equal(found[0, outside], expected[0, outside])


def test_rows_are_the_mean_of_the_windows_that_cover_them():
    scores = np.random.default_rng(1).random((2, 9))
    scores[0, 3], scores[1, :4] = np.nan, np.nan
    found = mean_over_windows(scores, 4)
    for k in range(2):
        for row in range(12):
            covering = scores[k, max(row - 3, 0) : row + 1]
            known = covering[np.isfinite(covering)]
            assert found[k, row] == pytest.approx(known.mean() if len(known) else 0.0)


def test_a_window_is_scaled_up_for_variables_that_cannot_be_judged():
    found = window_scores(np.array([[3.0, 3.0, np.nan], [4.0, np.nan, np.nan]]))
    np.testing.assert_allclose(found, [5.0, 3.0 * np.sqrt(2), np.nan])


def test_a_window_has_at_most_half_the_rows_of_an_observation():
    config = SlidingDetector.Config
    assert [config(length=length, window=20).window_rows for length in (600, 40, 39, 8)] == [20, 20, 19, 4]
    with pytest.raises(ConfigError, match="`window` must be at least 2 rows, but got 1"):
        config(window=1)


@every
def test_a_row_is_judged_by_its_own_observation_alone(name):
    history, new = waves(1200, 0), waves(200, 1)
    detector = find(name)(length=40).fit(history)
    expected = detector.detect(new).timeline["score"]
    changed = new.copy()
    changed[80:120] = 50.0 * np.random.default_rng(2).normal(size=(40, 3))
    found = detector.detect(changed).timeline["score"]
    outside = np.r_[0:80, 120:200]
    np.testing.assert_array_equal(found[outside], expected[outside])
    assert found[80:120].max() > 3 * expected.max()


@every
def test_scores_of_rows_peak_at_the_anomaly(name):
    new = waves(300, 3)
    new[150:155, 1] += 5.0
    rows = find(name)(length=100).fit(waves(3000, 4)).detect(new).timeline["score"].to_numpy()
    window = find(name).Config(length=100).window_rows
    assert 150 - window < rows.argmax() < 155 + window
    assert rows[130:175].mean() > 1.5 * np.median(rows)


@every
@pytest.mark.parametrize("length", [8, 60])
def test_a_history_of_five_observations(name, length):
    detector = find(name)(length=length).fit(waves(5 * length, 5))
    new = waves(4 * length, 6)
    new[2 * length + 3, 1] += 30.0
    scores = detector.decision_function(new)
    assert np.isfinite(scores).all()
    assert scores.argmax() == 2


@every
def test_a_constant_variable_and_many_gaps(name):
    rng = np.random.default_rng(7)
    history = waves(3000, 8, variables=4)
    history[:, 1] = 2.0
    history[rng.random(history.shape) < 0.4] = np.nan
    with pytest.warns(TsadcNotice, match="Constant throughout the history"):
        detector = find(name)(length=60).fit(history)
    new = waves(300, 9, variables=4)
    new[:, 1] = 2.0
    new[rng.random(new.shape) < 0.4] = np.nan
    new[100:130, 3] = np.nan
    new[200:203, 1] = 3.0
    result = detector.detect(new)
    assert np.isfinite(result.observations["score"]).all()
    assert result.observations["score"].argmax() == 3
    assert next(iter(result.worst(1).iloc[0]["variables"])) == "variable_1"
