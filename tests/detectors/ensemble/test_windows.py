import numpy as np
import pytest

from tsadc.detectors.ensemble.features import KINDS, Windows
from tsadc.detectors.ensemble.views import WindowBaseline

LENGTH = 103


def observation(seed: int, variables: int = 4) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(variables, LENGTH))


def test_windows_reach_from_the_first_step_to_the_last():
    windows = Windows(LENGTH)
    assert windows.width == 10
    assert windows.starts[0] == 0
    assert windows.starts[-1] == LENGTH - 10
    assert np.diff(windows.starts).max() == 5
    assert len(Windows(8)) == 1


def test_features_against_a_slow_definition():
    windows, z, rest = Windows(LENGTH), observation(0), observation(1)
    z[1, 20:24] = np.nan
    rest[1, 20:24] = np.nan
    actual = windows.features(z, rest)
    assert actual.shape == (len(KINDS), 4, len(windows))
    for k in range(4):
        for i, start in enumerate(windows.starts):
            piece, other = z[k, start : start + 10], rest[k, start : start + 10]
            before = rest[k, start - 1] if start else np.nan
            change = np.diff(np.concatenate([[before], other]))
            expected = [np.nanstd(piece), np.sqrt(np.nanmean(other**2)), np.sqrt(np.nanmean(change**2))]
            np.testing.assert_allclose(actual[:, k, i], np.log(1e-3 + np.array(expected)))


def test_a_window_with_less_than_half_of_its_values_has_no_features():
    windows, z = Windows(LENGTH), observation(2)
    z[0, 0:6] = np.nan
    actual = windows.features(z, z)
    assert np.isnan(actual[:, 0, 0]).all()
    assert np.isfinite(actual[:, 1:]).all()
    assert np.isfinite(actual[:, 0, 2:]).all()


def test_a_step_gets_the_largest_value_of_its_windows():
    windows = Windows(LENGTH)
    values = np.random.default_rng(3).normal(size=(2, len(windows)))
    actual = windows.to_steps(values, LENGTH)
    for step in range(LENGTH):
        inside = (windows.starts <= step) & (step < windows.starts + windows.width)
        np.testing.assert_array_equal(actual[:, step], values[:, inside].max(axis=1))


@pytest.fixture(scope="module")
def trained() -> tuple[Windows, WindowBaseline, np.ndarray]:
    windows = Windows(LENGTH)
    features = np.stack([windows.features(observation(i), observation(i)) for i in range(30)])
    return windows, WindowBaseline.fit(features, ["a"] * 25 + ["b"] * 5, np.arange(30) != 3), features


def test_windows_in_which_a_variable_varies_less_stand_out(trained):
    windows, baseline, _ = trained
    z = observation(50)
    z[2, 40:60] *= 0.02
    u = baseline("a", windows.features(z, z))
    variable, window = np.unravel_index(u[0].argmax(), u[0].shape)
    assert variable == 2
    assert 36 <= windows.starts[window] <= 54
    calm = WindowBaseline.scores(baseline("a", windows.features(observation(51), observation(51))))
    assert (WindowBaseline.scores(u).max(axis=1) > calm.max(axis=1)).all()


def test_scores_are_logs_of_the_mean_of_the_three_largest():
    u = np.abs(np.random.default_rng(4).normal(size=(3, 5, 2)))
    expected = [[np.log(0.1 + np.mean(sorted(u[k, :, w])[-3:])) for w in range(2)] for k in range(3)]
    np.testing.assert_allclose(WindowBaseline.scores(u), expected, rtol=1e-6)


def test_an_entity_needs_observations_not_windows_for_a_centre(trained):
    _, baseline, features = trained
    assert list(baseline.standardiser.entities) == ["a"]
    windows = features.shape[-1]
    kept = np.delete(features[:25], 3, axis=0).transpose(0, 3, 1, 2).reshape(24 * windows, -1)
    np.testing.assert_allclose(baseline.standardiser.entities["a"], np.median(kept, axis=0), atol=0.05)


def test_adapting_and_the_state(trained):
    windows, baseline, features = trained
    again = WindowBaseline.restore(baseline.state("x"), "x")
    shifted = features[:8] + 1.0
    assert again("new", shifted[0]).tobytes() == baseline("new", shifted[0]).tobytes()
    again.adapt("new", shifted)
    assert again("new", shifted[0]).mean() < baseline("new", shifted[0]).mean() / 2
    centre = again.standardiser.entities["new"].reshape(3, 4)
    np.testing.assert_allclose(centre, np.median(shifted.transpose(1, 2, 0, 3).reshape(3, 4, -1), axis=2))
    assert len(windows) == features.shape[-1]
