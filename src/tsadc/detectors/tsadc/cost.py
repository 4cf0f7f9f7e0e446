"""What `tsadc fit` will cost, from one real training step and one scored observation of the same size."""

from __future__ import annotations

import math
import resource
import sys
import time
from dataclasses import dataclass

import numpy as np
import torch

from tsadc.detectors.tsadc import scoring
from tsadc.detectors.tsadc.detector import TSADC, Config
from tsadc.detectors.tsadc.scoring import Examiner

COPIES = 6  # of the weights: themselves, gradients, two moments, moving average, the best so far


@dataclass(frozen=True)
class Estimate:
    """`seconds` for all epochs and the scoring of the training data (early stopping may end sooner); `memory` in bytes,
    above what the process needs anyway."""

    seconds: float
    memory: int


def estimate(observations: int, variables: int, config: Config) -> Estimate:
    """Time and memory for a fit on so many observations of so many variables."""
    training = config.training
    network = TSADC(config=config)._build(variables)
    size = min(training.micro_batch or training.batch, training.batch)
    x = torch.randn(size, variables, config.length, generator=torch.Generator().manual_seed(0))
    before = _peak()

    def update() -> None:
        drawn = network.draw(x, torch.ones_like(x, dtype=torch.bool), torch.Generator().manual_seed(1))
        torch.stack(list(network.losses(drawn).values())).sum().backward()

    def score() -> None:
        with torch.no_grad():
            examiner(x[0].numpy())

    per_observation = _timed(update) / size
    network.eval()
    examiner = Examiner(network, config.scoring, scoring.VIEWS, variables=variables, length=config.length, seed=0)
    per_score = _timed(score)
    trained = math.ceil(observations * (1 - config.validation))
    # A validation pass has no backward half, which takes about two thirds of an update.
    epoch = per_observation * (trained + (observations - trained) / 3)
    weights = COPIES * 4 * sum(parameter.numel() for parameter in network.parameters())
    return Estimate(training.epochs * epoch + observations * per_score, max(_peak() - before, 0) + weights)


def _timed(work: object, repeats: int = 2) -> float:
    """Seconds for one call, after one to warm up."""
    assert callable(work)
    work()
    taken = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return float(np.min(taken))


def _peak() -> int:
    """The most memory this process has held so far, in bytes."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
