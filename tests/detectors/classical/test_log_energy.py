import numpy as np
import pytest

from tsadc.detectors.classical.log_energy import LogEnergy
from tsadc.detectors.store import load
from tsadc.errors import TsadcNotice


@pytest.fixture(scope="module")
def history() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(60, 50, 4))


@pytest.fixture(scope="module")
def detector(history) -> LogEnergy:
    return LogEnergy(length=50).fit(history)


@pytest.mark.parametrize("factor", [4.0, 0.25])
def test_a_variable_that_varies_more_or_less_ranks_first(detector, factor):
    new = np.random.default_rng(1).normal(size=(20, 50, 4))
    new[13, :, 1] *= factor
    result = detector.detect(new)
    assert result.observations["score"].argmax() == 13
    assert result.observations["anomalous"][13]
    assert result.variables.to_numpy().reshape(20, 50, 4)[13, 0].argmax() == 1


def test_a_variable_without_values_does_not_count(detector, history):
    new = history[:1].copy()
    before = detector.decision_function(new)[0]
    z = detector.features_(detector.scaler_("series", new[0]).T)
    new[0, :, 2] = np.nan
    u = np.abs(detector.standardiser_("series", z))
    assert detector.decision_function(new)[0] == pytest.approx((4 * before - u[2]) / 4, rel=1e-5)


def test_a_constant_variable_and_a_saved_model(history, tmp_path):
    still = history.copy()
    still[:, :, 3] = 5.0
    with pytest.warns(TsadcNotice, match="Constant throughout the history"):
        detector = LogEnergy(length=50).fit(still)
    moving = still[:8].copy()
    moving[5, 20:30, 3] = 5.5
    scores = detector.decision_function(moving)
    assert np.isfinite(scores).all()
    assert scores.argmax() == 5
    detector.save(tmp_path / "model")
    assert load(tmp_path / "model").decision_function(moving).tobytes() == scores.tobytes()
