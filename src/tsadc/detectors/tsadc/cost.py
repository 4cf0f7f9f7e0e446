"""What `tsadc fit` will cost, from one real update and one scored observation of the same size."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tsadc.detectors.tsadc import scoring
from tsadc.detectors.tsadc.detector import TSADC, Config
from tsadc.detectors.tsadc.network import Network, TSADCBatch
from tsadc.detectors.tsadc.scoring import Examiner
from tsadc.nn.losses import micro_batch_size, sum_losses
from tsadc.nn.runtime.distributed import World
from tsadc.nn.runtime.threads import available

COPIES = 6  # of the weights: themselves, gradients, two moments, moving average, the best so far


@dataclass(frozen=True)
class Estimate:
    """`seconds` for all epochs and the scoring of the training data (early stopping may end sooner); `memory` in bytes,
    above what the process needs anyway: what an update keeps for its gradient, counted, and the weights."""

    seconds: float
    memory: int


def estimate(
    observations: int, variables: int, config: Config, clock: Callable[[], float] = time.perf_counter
) -> Estimate:
    """Time and memory for a fit on so many observations of so many variables."""
    training = config.training
    network = TSADC(config=config)._build(variables)
    trained = math.ceil(observations * (1 - config.validation))
    batch = max(1, min(training.batch, trained))
    x = torch.randn(batch, variables, config.length, generator=torch.Generator().manual_seed(0))
    drawn = network.draw(x, torch.ones_like(x, dtype=torch.bool), torch.Generator().manual_seed(1))
    size = min(training.micro_batch or micro_batch_size(drawn), batch)

    def score() -> None:
        with torch.no_grad():
            examiner(x[0].numpy())

    memory = _size(drawn.tensors().values()) + min(available(), -(-batch // size)) * _kept(network, drawn, size)
    memory += COPIES * _size(network.parameters())
    per_batch = _timed(lambda: sum_losses(network, drawn, size, World(), backward=True), clock)
    network.eval()
    examiner = Examiner(network, config.inference, scoring.VIEWS, variables=variables, length=config.length, seed=0)
    per_score = _timed(score, clock)
    # A validation pass has no backward half, which takes about two thirds of an update.
    epoch = per_batch / batch * (trained + (observations - trained) / 3)
    return Estimate(training.epochs * epoch + observations * per_score, memory)


def _timed(work: Callable[[], object], clock: Callable[[], float], repeats: int = 2) -> float:
    """Seconds for one call, after one to warm up."""
    work()
    taken = []
    for _ in range(repeats):
        started = clock()
        work()
        taken.append(clock() - started)
    return float(np.min(taken))


def _kept(network: Network, batch: TSADCBatch, size: int) -> int:
    """Bytes that the losses of a micro-batch keep for its gradient, besides the weights."""
    found: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        return found.setdefault(tensor.untyped_storage().data_ptr(), tensor.detach())

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        network.losses(batch[:size])
    for parameter in network.parameters():
        found.pop(parameter.untyped_storage().data_ptr(), None)
    return _size(found.values())


def _size(tensors: Iterable[Tensor]) -> int:
    """Bytes of what the tensors lie in."""
    return sum(tensor.untyped_storage().nbytes() for tensor in tensors)
