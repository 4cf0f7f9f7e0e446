import numpy as np
import pytest

from tsadc.detectors.classical.log_energy import LogEnergy


@pytest.fixture(scope="module")
def history() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(40, 30, 3))


def test_steps_score_alike_and_variables_share_in_the_deviation(history):
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
    blame = result.variables.to_numpy().reshape(2, 30, 3)
    np.testing.assert_array_equal(np.isnan(blame), np.isnan(new))
    u = detector.standard_("series", detector.features_(detector.scaler_("series", new[1]).T))
    np.testing.assert_allclose(blame[1, 0], np.abs(u), rtol=1e-5)
    assert (blame[1, 1:4] == blame[1, 0]).all()
    assert blame[1, 0].argmax() == 2
    assert result.expected is None
