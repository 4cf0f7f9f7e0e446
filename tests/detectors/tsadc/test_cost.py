"""The estimate before a fit: grows with the work, and is of the right size. What is timed here counts operations or the
looks at a clock: no machine is too busy for that."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

from tsadc.detectors.tsadc.cost import COPIES, _saved_bytes, estimate
from tsadc.detectors.tsadc.detector import TSADC
from tsadc.nn.operation_counter import OperationCounter
from tsadc.nn.trainable import Batch


def with_training(**training: object) -> TSADC.Config:
    return TSADC.Config.with_settings(
        length=40,
        decontaminator={"channels": 8, "blocks": 1, "state": 4},
        dependencies={"features": 8, "state": 4},
        training=training,
    )


class Looks:
    """Every look takes a second."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def test_seconds_by_hand() -> None:
    # A batch of 16 takes a second, and so does a score. Of 100 observations 20 validate, which takes a third.
    found = estimate(100, 3, with_training(epochs=2, batch=16), Looks())
    assert found.seconds == pytest.approx(2 * (80 + 20 / 3) / 16 + 100)
    # Of 6 observations 5 are trained on, as one batch.
    assert estimate(6, 3, with_training(epochs=3, batch=16), Looks()).seconds == pytest.approx(3 * (5 + 1 / 3) / 5 + 6)


def test_it_is_of_the_right_size() -> None:
    values = np.random.default_rng(0).normal(size=(1200, 3))
    config = with_training(epochs=2)
    with OperationCounter() as done:
        expected = estimate(30, 3, config, lambda done=done: done.flops).seconds
    with OperationCounter() as done:
        TSADC(config=config).fit(values)
    assert 0.6 < done.flops / expected < 1.2


@dataclass(frozen=True)
class OnlyX(Batch):
    x: torch.Tensor


class Growth(nn.Module):
    """What the product keeps are its factors, and of the exponential its result."""

    def __init__(self) -> None:
        super().__init__()
        self.rate = nn.Parameter(torch.ones(50))

    def losses(self, batch: OnlyX) -> dict[str, torch.Tensor]:
        return {"growth": (batch.x * self.rate).exp().sum(1)}


def test_what_a_micro_batch_keeps_by_hand() -> None:
    # 4 bytes for each of 3 x 50 cells of the exponential, and the storage of x, of which the 3 are a view.
    assert _saved_bytes(Growth(), OnlyX(torch.zeros(7, 50)), 3) == 4 * 50 * (3 + 7)


def test_memory_is_that_of_a_micro_batch_whatever_was_held_before() -> None:
    def memory(**training: object) -> int:
        return estimate(100, 3, with_training(batch=32, **training), Looks()).memory

    first = memory()
    np.ones(2**25).sum()  # 256 MB
    assert memory() == first
    # By itself training makes two micro-batches of a batch, one after the other on one thread.
    assert memory(micro_batch=16) == first
    assert first < memory(micro_batch=32) < 2 * first
    weights = sum(one.numel() * one.element_size() for one in TSADC(config=with_training())._build(3).parameters())
    kept = [memory(micro_batch=size) - COPIES * weights for size in (8, 16, 32)]
    # What an observation keeps, over and over, beside what all of them share.
    assert (kept[2] - kept[1]) / (kept[1] - kept[0]) == pytest.approx(2, rel=0.01)


def test_more_threads_hold_more_micro_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    def memory(threads: int, batch: int) -> int:
        monkeypatch.setattr("tsadc.detectors.tsadc.cost.available", lambda: threads)
        return estimate(100, 3, with_training(batch=batch, micro_batch=16), Looks()).memory

    one, two, three = (memory(threads, 32) for threads in (1, 2, 3))
    assert two - one > 0
    assert three == two  # there are two micro-batches
    assert memory(1, 16) == memory(2, 16)
