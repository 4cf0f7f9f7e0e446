import numpy as np
import pytest

from tsadc.detectors.classical.mahalanobis import Mahalanobis
from tsadc.detectors.store import load
from tsadc.errors import TsadcNotice

LENGTH = 20
MIXING = np.array([[1, 0.9, 0, 0], [0, 0.3, 0, 0], [0, 0, 1, -0.5], [0, 0, 0, 0.8]])


def mixed(rows: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, 4)) @ MIXING


@pytest.fixture(scope="module")
def detector() -> Mahalanobis:
    history = mixed(200 * LENGTH, 0)
    history[: 30 * LENGTH] = [30.0, -30.0, 20.0, 20.0]  # a contaminated minority
    return Mahalanobis(length=LENGTH, contamination=0.2).fit(history)


def test_distances_are_those_of_the_clean_part(detector):
    """Up to the added noise and the sampling error."""
    clean = mixed(LENGTH, 1)
    precision = np.linalg.inv(MIXING.T @ MIXING)
    expected = np.sqrt(np.einsum("ti,ij,tj->t", clean, precision, clean))
    actual = detector.detect(clean).timeline["score"].to_numpy()
    assert np.corrcoef(actual, expected)[0, 1] > 0.97
    assert np.median(actual / expected) == pytest.approx(1, abs=0.15)


def test_the_distance_is_that_of_the_stored_precision(detector):
    new = mixed(LENGTH, 2)
    new[4, 1] = np.nan
    z = detector.scaler_("series", new)
    result = detector.detect(new)
    for t in (0, 4, 11):
        centred = np.nan_to_num(z[t] - detector.center_)
        assert result.timeline["score"][t] == pytest.approx(np.sqrt(centred @ detector.precision_ @ centred), rel=1e-4)
    # Given the others, a variable is normal with variance 1 / precision_kk around the value they predict.
    centred, precision, k = z[0] - detector.center_, detector.precision_, 1
    others = [0, 2, 3]
    predicted = -precision[k, others] @ centred[others] / precision[k, k]
    expected = abs(centred[k] - predicted) * np.sqrt(precision[k, k])
    assert result.variables.to_numpy()[0, k] == pytest.approx(expected, rel=1e-4)


def test_an_unusual_combination_of_usual_values_ranks_first(detector):
    new = mixed(10 * LENGTH, 3)
    new[130, :2] = [1.5, -1.5]
    result = detector.detect(new)
    assert result.observations["score"].argmax() == 6
    assert result.timeline["score"].argmax() == 130
    assert set(np.argsort(result.variables.iloc[130])[-2:]) == {0, 1}


def test_gaps_constant_and_redundant_variables_and_a_saved_model(tmp_path):
    history = mixed(40 * LENGTH, 4)
    history[:, 2] = 8.0
    history[:, 3] = history[:, 0] - history[:, 1]
    history[10:25] = np.nan
    with pytest.warns(TsadcNotice, match="Constant throughout the history"):
        detector = Mahalanobis(length=LENGTH).fit(history)
    new = history[2 * LENGTH : 8 * LENGTH].copy()
    new[:, 1] = np.nan
    new[50, 2] = 9.0
    scores = detector.decision_function(new)
    assert np.isfinite(scores).all()
    assert scores.argmax() == 2
    detector.save(tmp_path / "model")
    assert load(tmp_path / "model").decision_function(new).tobytes() == scores.tobytes()


def test_more_variables_than_steps():
    history = np.random.default_rng(5).normal(size=(48, 60))
    detector = Mahalanobis(length=8).fit(history)
    assert np.isfinite(detector.decision_scores_).all()
    assert np.linalg.eigvalsh(detector.precision_).min() > 0
