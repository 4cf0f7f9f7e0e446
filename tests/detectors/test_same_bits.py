"""Threads make a detector faster and nothing else."""

import numpy as np
import pytest
from cores import cores

from tsadc import TSADC, Series


def machine(rows: int) -> Series:
    rng = np.random.default_rng(0)
    values = np.sin(np.arange(rows)[:, None] / np.array([3.0, 5.0, 9.0])) + 0.1 * rng.standard_normal((rows, 3))
    values[rng.random(values.shape) < 0.02] = np.nan
    values[rows // 2 : rows // 2 + 9, 1] += 4
    return Series(values, ("a", "b", "c"))


@pytest.mark.parametrize("masks", [4, 0])
def test_the_same_scores_to_the_bit_whatever_the_threads(masks: int) -> None:
    """Fitted with dropout."""
    settings = {
        "length": 24,
        "decontaminator": {"channels": 4, "blocks": 1, "state": 4, "dropout": 0.2},
        "dependencies": {"features": 4, "state": 4, "graphs": 2, "dropout": 0.2},
        "inference": {"masks": masks, "steps": 1 if masks else 3},
        "training": {"epochs": 1, "batch": 5},
    }
    series, found = machine(240), []
    for threads in (1, 2, 3):
        with cores(threads):
            detector = TSADC(config=TSADC.Config.with_settings(**settings)).fit(series)
            found.append((detector.threshold_, detector.decision_function(series), detector.detect(series)))
    threshold, scores, result = found[0]
    assert np.isfinite(scores).all()
    for other in found[1:]:
        assert other[0] == threshold
        np.testing.assert_array_equal(other[1], scores)
        assert other[2].intervals.equals(result.intervals)
