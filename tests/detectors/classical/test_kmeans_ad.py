import numpy as np
import pytest

from tsadc.detectors.classical.kmeans_ad import KMeansAD
from tsadc.detectors.store import load
from tsadc.errors import ConfigError

LENGTH, WINDOW = 40, 6


def waves(rows: int, seed: int, period: float = 20.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.sin(2 * np.pi * np.arange(rows)[:, None] / period + np.arange(3)) + 0.05 * rng.normal(size=(rows, 3))


@pytest.fixture(scope="module")
def detector() -> KMeansAD:
    return KMeansAD(length=LENGTH, config=KMeansAD.Config(window=WINDOW, clusters=8)).fit(waves(50 * LENGTH, 0))


def test_distances_from_the_nearest_center_over_what_was_measured(detector):
    z = detector.scaler_("series", waves(LENGTH, 1)).T.astype(np.float32)
    z[0, 4:9], z[1, 20:30] = np.nan, np.nan
    found = detector._distances(z)
    centers = detector.centers_.reshape(8, 3, WINDOW)
    for i in range(LENGTH - WINDOW + 1):
        window = z[:, i : i + WINDOW].astype(np.float64)
        squares = np.square(window - centers)
        chosen = squares[np.nansum(squares, axis=(1, 2)).argmin()]
        for k in range(3):
            known = chosen[k][np.isfinite(chosen[k])]
            expected = np.sqrt(known.mean() * WINDOW) if len(known) else np.nan
            assert found[k, i] == pytest.approx(expected, rel=1e-6, nan_ok=True)


def test_a_window_scores_its_euclidean_distance(detector):
    new = waves(LENGTH, 2)
    z = detector.scaler_("series", new).T.astype(np.float32)
    windows = np.stack([z[:, i : i + WINDOW].ravel() for i in range(LENGTH - WINDOW + 1)])
    distance = np.linalg.norm(windows[:, None] - detector.centers_, axis=2).min(axis=1)
    rows = [distance[max(row - WINDOW + 1, 0) : row + 1].mean() for row in range(LENGTH)]
    np.testing.assert_allclose(detector.detect(new).timeline["score"], rows, rtol=1e-4)


def test_an_order_of_rows_that_does_not_occur_is_found(detector, tmp_path):
    new = waves(10 * LENGTH, 3)
    new[4 * LENGTH + 10 : 4 * LENGTH + 30] = waves(20, 4, period=5.0)
    scores = detector.decision_function(new)
    assert scores.argmax() == 4
    assert scores[4] > detector.threshold_
    detector.save(tmp_path / "model")
    assert load(tmp_path / "model").decision_function(new).tobytes() == scores.tobytes()


def test_the_seed_decides_the_centers():
    history = waves(20 * LENGTH, 5)
    config = KMeansAD.Config(length=LENGTH, window=WINDOW)
    first, again, other = (KMeansAD(seed=seed, config=config).fit(history).centers_ for seed in (1, 1, 2))
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != other.tobytes()


def test_few_windows_have_few_clusters():
    detector = KMeansAD(length=8).fit(waves(40, 6))
    assert len(detector.centers_) == 4 * 5 // 10  # 4 training observations of 5 windows


def test_settings_out_of_range():
    with pytest.raises(ConfigError, match="`clusters` must be at least 1"):
        KMeansAD.Config(clusters=0)
