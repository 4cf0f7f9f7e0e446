"""Small machines with dates and gaps, and the comparison of models that were fitted to them in parts."""

from functools import cache

import numpy as np
import pytest

from tsadc import Ensemble, Series
from tsadc.detectors import parts, summary
from tsadc.detectors.ensemble import features
from tsadc.series import Clock

MINUTE = 60 * 10**9
NAMES = ("a", "b", "c")
LENGTH = 24
ENTITIES = 5


def machine(number: int, rows: int) -> Series:
    rng = np.random.default_rng(number)
    waves = np.sin(np.arange(rows)[:, None] / np.array([3.0, 5.0, 9.0])) * (1 + number) + number
    values = waves + 0.1 * rng.normal(size=waves.shape)
    if number == 1:  # one with gaps is enough
        values[rng.random(values.shape) < 0.02] = np.nan
    values[100:110, 1] += 5
    return Series(values, NAMES, Clock(number * 7 * MINUTE, MINUTE, dated=True), f"machine-{number}")


@cache
def machines() -> tuple[Series, ...]:
    return tuple(machine(number, rows=160 + 40 * number) for number in range(ENTITIES))


def limit(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(features, "MAX_OBSERVATIONS", most)
    for module in (summary, parts):
        monkeypatch.setattr(module, "MIN_QUOTA", 6)


def unfitted() -> Ensemble:
    return Ensemble(length=LENGTH, config=Ensemble.Config(kernels=4))


def learnt(detector: Ensemble) -> dict[str, np.ndarray]:
    """Everything that a model consists of, apart from the scores of its history."""
    assert detector.usual_ is not None
    assert detector.episodes_ is not None
    statistics = [detector.scaler_.pooled, *detector.scaler_.entities.values()]
    return {
        **detector._state(),
        **detector.usual_.state(),
        **detector.episodes_.state(),
        "scores": np.sort(detector.decision_scores_[detector._learnt_from]),
        "validation": np.sort(detector.validation_scores_),
        "threshold": np.array([detector.threshold_, detector.middle_, detector.memory_]),
        "center": np.stack([own.center for own in statistics]),
        "scale": np.stack([own.scale for own in statistics]),
        "entities": np.array(list(detector.scaler_.entities)),
        "data": np.array(str(detector.provenance_["data"])),
    }


def assert_same(first: Ensemble, second: Ensemble) -> None:
    one, other = learnt(first), learnt(second)
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)
