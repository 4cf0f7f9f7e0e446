import numpy as np
import pytest

from tsadc.detectors.classical import base
from tsadc.detectors.classical.sub_pca import SubsequencePCA
from tsadc.detectors.store import load
from tsadc.errors import ConfigError

LENGTH, WINDOW = 40, 8


def waves(rows: int, seed: int, period: float = 20.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.sin(2 * np.pi * np.arange(rows)[:, None] / period + np.arange(3)) + 0.05 * rng.normal(size=(rows, 3))


@pytest.fixture(scope="module")
def detector() -> SubsequencePCA:
    return SubsequencePCA(length=LENGTH, config=SubsequencePCA.Config(window=WINDOW)).fit(waves(50 * LENGTH, 0))


def test_scores_against_a_decomposition_of_all_windows(detector):
    held = np.sort(np.random.default_rng(0).permutation(50)[:10])
    train = np.delete(waves(50 * LENGTH, 0).reshape(50, LENGTH, 3), held, axis=0)
    z = [detector.scaler_("series", values).T for values in train]
    windows = np.stack([one[:, i : i + WINDOW].ravel() for one in z for i in range(LENGTH - WINDOW + 1)])
    center = windows.mean(axis=0)
    variance, directions = np.linalg.eigh(np.cov(windows.T))
    count = int(np.searchsorted(np.cumsum(variance[::-1]) / variance.sum(), 0.9)) + 1
    directions = directions[:, ::-1][:, :count]
    assert len(detector.components_) == count == 2  # a sine and a cosine
    new = waves(LENGTH, 1)
    values = detector.scaler_("series", new).T
    centred = np.stack([values[:, i : i + WINDOW].ravel() for i in range(LENGTH - WINDOW + 1)]) - center
    distance = np.linalg.norm(centred - centred @ directions @ directions.T, axis=1)
    rows = [distance[max(row - WINDOW + 1, 0) : row + 1].mean() for row in range(LENGTH)]
    np.testing.assert_allclose(detector.detect(new).timeline["score"], rows, rtol=1e-4)


def test_a_rhythm_within_the_usual_range_is_found(detector, tmp_path):
    new = waves(10 * LENGTH, 2)
    new[4 * LENGTH + 10 : 4 * LENGTH + 30] = waves(20, 3, period=7.0)
    result = detector.detect(new)
    assert result.observations["score"].argmax() == 4
    assert result.observations["anomalous"][4]
    assert 4 * LENGTH + 5 < result.timeline["score"].argmax() < 4 * LENGTH + 35
    detector.save(tmp_path / "model")
    again = load(tmp_path / "model").decision_function(new)
    assert again.tobytes() == result.observations["score"].to_numpy().tobytes()


def test_chunks_do_not_change_scores(detector, monkeypatch):
    new = waves(3 * LENGTH, 4)
    expected = detector.decision_function(new)
    monkeypatch.setattr(base, "CHUNK_VALUES", 1)
    np.testing.assert_allclose(detector.decision_function(new), expected, rtol=1e-6)


def test_memory_is_bounded(monkeypatch):
    fitted = []
    monkeypatch.setattr(base, "MAX_WINDOW_VALUES", 30 * 3 * WINDOW)
    monkeypatch.setattr(SubsequencePCA, "_fit_windows", lambda self, windows: fitted.append(windows))
    monkeypatch.setattr(SubsequencePCA, "_expected", lambda self, windows, measured: 0 * windows)
    SubsequencePCA(length=LENGTH, config=SubsequencePCA.Config(window=WINDOW)).fit(waves(50 * LENGTH, 0))
    assert fitted[0].shape == (30, 3 * WINDOW)


def test_settings_out_of_range():
    for wrong in (0.0, 1.0):
        with pytest.raises(ConfigError, match="`explained` must be between 0 and 1"):
            SubsequencePCA.Config(explained=wrong)
