"""The estimate before a fit: grows with the work, and is of the right size."""

import time

import numpy as np

from tsadc.detectors.tsadc.cost import estimate
from tsadc.detectors.tsadc.detector import TSADC, Config


def with_epochs(epochs: int) -> Config:
    return Config.with_settings(
        length=40,
        decontaminator={"channels": 8, "blocks": 1, "state": 4},
        dependencies={"features": 8, "state": 4},
        training={"epochs": epochs},
    )


def test_more_of_everything_costs_more() -> None:
    few, many = estimate(100, 3, with_epochs(2)), estimate(10_000, 3, with_epochs(20))
    assert few.memory > 0
    assert many.seconds > 20 * few.seconds


def test_it_is_of_the_right_size() -> None:
    """Within a factor of five either way: the machine is noisy, and short runs have overheads of their own."""
    values = np.random.default_rng(0).normal(size=(4000, 3))
    config = with_epochs(3)
    expected = estimate(100, 3, config).seconds
    started = time.perf_counter()
    TSADC(config=config).fit(values)
    assert 0.2 < (time.perf_counter() - started) / expected < 5
