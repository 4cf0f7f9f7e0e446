"""Principal components against a singular value decomposition of all training steps."""

import numpy as np
import pytest

from tsadc.detectors.classical.pca import PrincipalComponents
from tsadc.detectors.store import load
from tsadc.errors import ConfigError, TsadcNotice

LENGTH = 20


def mixed(rows: int, seed: int) -> np.ndarray:
    """Five variables made of two causes."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, 2)) @ np.array([[1, 1, 0, 2, 1], [0, 1, 1, -1, 2.0]]) + 0.1 * rng.normal(
        size=(rows, 5)
    )


@pytest.fixture(scope="module")
def history() -> np.ndarray:
    return mixed(50 * LENGTH, 0)


@pytest.fixture(scope="module")
def detector(history) -> PrincipalComponents:
    return PrincipalComponents(length=LENGTH, contamination=0.05).fit(history)


def test_residuals_against_a_decomposition_of_all_steps(detector, history):
    held = np.sort(np.random.default_rng(0).permutation(50)[:10])
    train = np.delete(history.reshape(50, LENGTH, 5), held, axis=0).reshape(-1, 5)
    z = detector.scaler_("series", train)
    center = z.mean(axis=0)
    _, values, directions = np.linalg.svd(z - center, full_matrices=False)
    share = np.cumsum(values**2) / np.sum(values**2)
    count = next(i + 1 for i, explained in enumerate(share) if explained >= 0.9)
    assert len(detector.components_) == count == 2
    new = mixed(LENGTH, 1)
    apart = detector.scaler_("series", new) - center
    residual = np.abs(apart - apart @ directions[:count].T @ directions[:count])
    result = detector.detect(new)
    np.testing.assert_allclose(result.variables.to_numpy(), residual, atol=1e-4)
    steps = np.sort(residual, axis=1)[:, -3:].mean(axis=1)
    np.testing.assert_allclose(result.timeline["score"], steps, atol=1e-4)
    assert result.observations["score"][0] == pytest.approx(steps.max(), abs=1e-4)


def test_a_variable_that_goes_its_own_way_is_found_within_its_usual_range(detector):
    new = mixed(10 * LENGTH, 2)
    new[105, 3] = -new[105, 3] + 1.5
    result = detector.detect(new)
    assert result.observations["score"].argmax() == 5
    assert result.observations["anomalous"][5]
    assert result.variables.iloc[105].argmax() == 3
    assert abs(new[105, 3]) < np.abs(new[:, 3]).max()


def test_gaps_a_constant_variable_and_a_saved_model(history, tmp_path):
    still = history.copy()
    still[:, 1] = 4.0
    still[30:50] = np.nan
    with pytest.warns(TsadcNotice, match="Constant throughout the history"):
        detector = PrincipalComponents(length=LENGTH).fit(still)
    new = still[: 5 * LENGTH].copy()
    new[30:50] = history[30:50]
    new[:, 1] = 4.0
    new[:, 0] = np.nan
    new[70, 1] = 5.0
    scores = detector.decision_function(new)
    assert np.isfinite(scores).all()
    assert scores.argmax() == 3
    detector.save(tmp_path / "model")
    assert load(tmp_path / "model").decision_function(new).tobytes() == scores.tobytes()


def test_missing_values_do_not_turn_the_components(history, detector):
    gaps = np.where(np.random.default_rng(5).random(history.shape) < 0.3, np.nan, history)
    found = PrincipalComponents(length=LENGTH, contamination=0.05).fit(gaps)
    assert found.components_.shape == detector.components_.shape
    # Cosines of the angles between the two planes.
    cosines = np.linalg.svd(found.components_ @ detector.components_.T)[1]
    assert cosines.min() > 0.995


def test_one_direction_is_always_left_unexplained():
    values = np.random.default_rng(3).normal(size=(400, 1)) @ np.array([[1.0, 2.0]])
    detector = PrincipalComponents(length=LENGTH, config=PrincipalComponents.Config(explained=0.999999)).fit(values)
    assert detector.components_.shape == (1, 2)


def test_settings_out_of_range():
    for wrong in (0.0, 1.0):
        with pytest.raises(ConfigError, match="`explained` must be between 0 and 1"):
            PrincipalComponents.Config(explained=wrong)
