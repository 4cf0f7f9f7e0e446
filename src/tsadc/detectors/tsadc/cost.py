"""Estimate the time and memory of a fit from one real update and one scored observation of the same size."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tsadc.detectors.tsadc.detector import TSADC
from tsadc.detectors.tsadc.inference import RESIDUALS, Inference
from tsadc.detectors.tsadc.network import Network, TSADCBatch
from tsadc.nn.losses import micro_batch_size, sum_losses
from tsadc.nn.runtime.distributed import World
from tsadc.nn.runtime.threads import available

COPIES = 6  # of the weights: live, gradients, two moments of AdamW, moving average, best so far


@dataclass(frozen=True)
class Estimate:
    """The cost of a fit.

    `seconds` covers all epochs, although training may stop early, and scoring the training data. `memory` is in bytes,
    on top of what the process needs anyway: the weights, and the tensors that an update saves for its gradient.
    """

    seconds: float
    memory: int


def estimate(
    observations: int, variables: int, config: TSADC.Config, clock: Callable[[], float] = time.perf_counter
) -> Estimate:
    """Estimate the time and memory of a fit.

    `observations` and `variables` are their numbers; `clock` returns seconds.
    """
    training = config.training
    network = TSADC(config=config)._build(variables)
    trained = math.ceil(observations * (1 - config.validation))
    batch = max(1, min(training.batch, trained))
    x = torch.randn(batch, variables, config.length, generator=torch.Generator().manual_seed(0))
    drawn = network.draw(x, torch.ones_like(x, dtype=torch.bool), torch.Generator().manual_seed(1))
    size = min(training.micro_batch or micro_batch_size(drawn), batch)

    def score() -> None:
        with torch.no_grad():
            inference(x[0].numpy())

    memory = _bytes(drawn.tensors().values()) + min(available(), -(-batch // size)) * _saved_bytes(network, drawn, size)
    memory += COPIES * _bytes(network.parameters())
    per_batch = _timed(lambda: sum_losses(network, drawn, size, World(), backward=True), clock)
    network.eval()
    inference = Inference(network, config.inference, RESIDUALS, variables=variables, length=config.length, seed=0)
    per_score = _timed(score, clock)
    # Validation has no backward pass, which takes about two thirds of an update.
    epoch = per_batch / batch * (trained + (observations - trained) / 3)
    return Estimate(training.epochs * epoch + observations * per_score, memory)


def _timed(work: Callable[[], object], clock: Callable[[], float], repeats: int = 2) -> float:
    """Return the seconds of one call, after one to warm up."""
    work()
    taken = []
    for _ in range(repeats):
        started = clock()
        work()
        taken.append(clock() - started)
    return float(np.min(taken))


def _saved_bytes(network: Network, batch: TSADCBatch, size: int) -> int:
    """Return the bytes that the losses of a micro-batch save for the gradient, without the weights."""
    saved: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        return saved.setdefault(tensor.untyped_storage().data_ptr(), tensor.detach())

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        network.losses(batch[:size])
    for parameter in network.parameters():
        saved.pop(parameter.untyped_storage().data_ptr(), None)
    return _bytes(saved.values())


def _bytes(tensors: Iterable[Tensor]) -> int:
    """Return the bytes of the storages of the tensors."""
    return sum(tensor.untyped_storage().nbytes() for tensor in tensors)
