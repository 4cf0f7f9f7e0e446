"""Range novelty against its definition, one window at a time."""

import numpy as np
import pytest

from tsadc.config import update
from tsadc.detectors.classical import range_novelty
from tsadc.detectors.classical.range_novelty import RangeNovelty
from tsadc.errors import ConfigError

LENGTH, WINDOW = 40, 8


def noise(rows: int, seed: int) -> np.ndarray:
    """Three variables; the second changes its spread from time to time."""
    rng = np.random.default_rng(seed)
    spread = np.repeat(rng.choice([0.5, 2.0], rows // 20), 20)[:, None] ** [0, 1, 0]
    return rng.uniform(-1, 1, size=(rows, 3)) * spread


def make(**settings: object) -> RangeNovelty:
    return RangeNovelty(config=update(RangeNovelty.Config(length=LENGTH, window=WINDOW), settings))


def windows(z: np.ndarray) -> np.ndarray:
    """Return the range (window, variable) of each window of rows (time, variable)."""
    return np.stack([np.ptp(z[i : i + WINDOW], axis=0) for i in range(len(z) - WINDOW + 1)])


@pytest.mark.parametrize("most", [1000, 50])
def test_a_clean_history_against_the_definition(most):
    history = noise(50 * LENGTH, 0)
    detector = make(history="clean", bank=most).fit(history)
    held = np.sort(np.random.default_rng(0).permutation(50)[:10])
    z = detector.scaler_("series", history).astype(np.float32).reshape(50, LENGTH, 3)
    train = np.delete(z, held, axis=0)
    scale = np.ptp(train.reshape(-1, 3), axis=0)
    ranges = np.concatenate([windows(values) for values in train])
    chosen = np.unique(np.linspace(0, len(ranges) - 1, min(most, len(ranges))).round().astype(int))
    bank = ranges[chosen] / scale
    np.testing.assert_allclose(detector.bank_, np.sort(bank, axis=0), rtol=1e-6)
    new = noise(LENGTH, 1)
    new[10:14, 1] = 0.0
    new[30, 2] = 4.0
    values = windows(detector.scaler_("series", new).astype(np.float32)) / scale
    distances = np.abs(values[:, None] - bank).min(axis=1)
    rows = [np.linalg.norm(distances, axis=1)[max(row - WINDOW + 1, 0) : row + 1].mean() for row in range(LENGTH)]
    result = detector.detect(new)
    np.testing.assert_allclose(result.timeline["score"], rows, rtol=1e-4, atol=1e-6)
    cells = [distances[max(row - WINDOW + 1, 0) : row + 1].mean(axis=0) for row in range(LENGTH)]
    np.testing.assert_allclose(result.variables.to_numpy(), cells, rtol=1e-4, atol=1e-6)


def slow_trim(z: np.ndarray, starts: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return scale and ranges of the kept part of observations (observation, time, variable) that start at `starts`."""
    ranges = np.concatenate([windows(values) for values in z])
    each = LENGTH - WINDOW + 1
    row = np.array([start + i for start in starts for i in range(each)])
    kept, kept_rows = np.full(len(ranges), True), np.full(z.shape[:2], True)
    for _ in range(2):
        r = ranges / np.ptp(z[kept_rows], axis=0)
        score = np.empty(len(r))
        for i in range(len(r)):
            allowed = kept & (np.abs(row - row[i]) >= WINDOW)
            score[i] = np.linalg.norm(np.abs(r[i] - r[allowed]).min(axis=0))
        rows = np.empty(z.shape[:2])
        for place, scores in enumerate(score.reshape(len(z), each)):
            rows[place] = [scores[max(k - WINDOW + 1, 0) : k + 1].mean() for k in range(LENGTH)]
        kept, kept_rows = score <= np.quantile(score, 0.7), rows <= np.quantile(rows, 0.7)
    return np.ptp(z[kept_rows], axis=0), ranges[kept]


def test_a_dirty_history_against_the_definition():
    history = noise(20 * LENGTH, 2)
    detector = make().fit(history)
    held = np.sort(np.random.default_rng(0).permutation(20)[:4])
    kept = np.setdiff1d(np.arange(20), held)
    z = detector.scaler_("series", history).astype(np.float32).reshape(20, LENGTH, 3)
    scale, ranges = slow_trim(z[kept], (kept * LENGTH).tolist())
    np.testing.assert_allclose(detector.scale_, scale, rtol=1e-6)
    np.testing.assert_allclose(detector.bank_, np.sort(ranges / scale, axis=0), rtol=1e-5)


def test_anomalies_in_a_dirty_history_are_not_taken_for_normal():
    history = noise(100 * LENGTH, 3)
    history[np.r_[200:240, 1000:1040, 2500:2540, 3300:3340], 2] *= 4.0
    new = noise(20 * LENGTH, 4)
    new[7 * LENGTH + 5 : 7 * LENGTH + 25, 2] *= 4.0
    dirty, clean = (make(history=kind).fit(history).decision_function(new) for kind in ("dirty", "clean"))
    assert dirty.argmax() == 7
    assert dirty[7] / np.median(dirty) > 2 * clean[7] / np.median(clean)


def test_a_range_that_is_too_small_is_novel_too():
    detector = make(history="clean").fit(noise(50 * LENGTH, 5))
    new = noise(10 * LENGTH, 6)
    new[6 * LENGTH + 8 : 6 * LENGTH + 30, 0] = 0.3
    result = detector.detect(new)
    assert result.observations["score"].argmax() == 6
    assert next(iter(result.worst(1).iloc[0]["variables"])) == "variable_0"


def test_a_range_over_few_rows_is_a_lower_bound():
    detector = make(history="clean").fit(noise(50 * LENGTH, 7))
    z = np.zeros((3, LENGTH), dtype=np.float32)
    z[:, 3:] = np.nan  # of each window at most 3 of 8 rows
    assert (detector._distances(z)[np.isfinite(detector._distances(z))] == 0).all()
    z[1, 2] = 50.0
    top = detector.bank_[-1, 1]
    assert detector._distances(z)[1, 0] == pytest.approx(50.0 / detector.scale_[1] - top)


def test_a_variable_that_is_rarely_measured_is_judged_by_the_range_of_all_rows():
    history = noise(50 * LENGTH, 8)
    history[np.arange(len(history)) % 4 > 0, 2] = np.nan  # a quarter of every window
    detector = make(history="clean").fit(history)
    assert np.isnan(detector.bank_[:, 2]).all()
    new = noise(5 * LENGTH, 9)
    new[np.arange(len(new)) % 4 > 0, 2] = np.nan
    assert (detector.detect(new).variables.to_numpy()[::4, 2] < 0.1).all()
    new[2 * LENGTH + 20, 2] = 9.0
    assert detector.decision_function(new).argmax() == 2
    assert np.isfinite(make().fit(history).decision_function(new)).all()


def test_a_long_history_is_thinned_before_it_is_trimmed(monkeypatch):
    monkeypatch.setattr(range_novelty, "MAX_SCORED", 100)
    detector = make().fit(noise(100 * LENGTH, 10))
    assert len(detector.bank_) == 70
    new = noise(10 * LENGTH, 11)
    new[3 * LENGTH + 12, 2] = 8.0
    assert detector.decision_function(new).argmax() == 3


def test_settings_out_of_range():
    with pytest.raises(ConfigError, match="`bank` must be at least 1"):
        RangeNovelty.Config(bank=0)
    with pytest.raises(ConfigError, match="`history` must be"):
        make(history="filthy")
