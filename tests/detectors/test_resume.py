"""Every detector with a network goes on where it was interrupted, and ends with the same bits."""

from pathlib import Path

import numpy as np
import pytest

from networks import TRAINED
from tsadc.config import update
from tsadc.detectors import find
from tsadc.detectors.residual import ResidualDetector

LENGTH = 32


def make(name: str) -> ResidualDetector:
    cls = find(name)
    assert issubclass(cls, ResidualDetector)
    return cls(length=LENGTH, config=update(cls.Config.tiny(), {"scoring": "own", "training": {"epochs": 3}}))


@pytest.mark.parametrize("name", TRAINED)
def test_a_run_that_was_interrupted_ends_with_the_same_bits(name: str, tmp_path: Path) -> None:
    history = np.random.default_rng(0).normal(size=(12, LENGTH, 4)).cumsum(axis=1)

    def halt(now: object) -> None:
        if getattr(now, "epoch", 0) == 3:
            raise KeyboardInterrupt

    whole = make(name).fit(history)
    with pytest.raises(KeyboardInterrupt):
        make(name).fit(history, checkpoint=tmp_path / "run", progress=halt)
    epochs: list[int] = []
    resumed = make(name).fit(
        history, checkpoint=tmp_path / "run", resume=True, progress=lambda now: epochs.append(getattr(now, "epoch", 3))
    )
    assert set(epochs) == {3}
    assert resumed.decision_scores_.tobytes() == whole.decision_scores_.tobytes()
    assert len(resumed.history_.epochs) == 3
