"""Losses and gradients of a batch, computed in micro-batches on several threads and processes.

The loss is the mean over the batch. A network draws all randomness of a batch at once and returns losses per
observation, so neither micro-batches nor processes change the loss or its gradient; only dropout depends on them.
Threads change nothing at all: the size of micro-batches depends on the data alone, and gradients are added in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tsadc.nn.randomness import derive_seed, use_generator
from tsadc.nn.runtime.distributed import World
from tsadc.nn.runtime.threads import parallel_map, single_threaded
from tsadc.nn.shared_filters import SharedFilters
from tsadc.nn.trainable import B, Batch, Source, Trainable

SHUFFLE, DRAW, DROPOUT, VALIDATION = range(4)  # the purpose of a seed
CELLS = 2**17  # of a micro-batch: enough to keep an operation busy, few enough for its results to stay in the cache


def evaluate(
    network: Trainable[B],
    source: Source,
    *,
    seed: int,
    batch: int,
    micro_batch: int | None = None,
    world: World | None = None,
) -> dict[str, float]:
    """Return the mean of each named loss over `source`, in eval mode.

    Masks, steps and noise are the same at every call, so that losses of different epochs can be compared.
    """
    generator = torch.Generator().manual_seed(derive_seed(seed, 0, VALIDATION))
    totals: dict[str, float] = {}
    training = network.training
    network.train(False)
    try:
        with torch.no_grad():
            for first in range(0, len(source), batch):
                drawn = draw_batch(network, source, np.arange(first, min(first + batch, len(source))), generator)
                add(totals, sum_losses(network, drawn, micro_batch, world or World(), backward=False))
    finally:
        network.train(training)
    return {name: total / len(source) for name, total in totals.items()}


@torch.no_grad()
def draw_batch(network: Trainable[B], source: Source, indices: NDArray[np.int64], generator: torch.Generator) -> B:
    """Read observations and let the network draw its randomness; non-finite values become 0 and not observed."""
    values = torch.from_numpy(np.asarray(source.batch(indices), dtype=np.float32))
    observed = torch.isfinite(values)
    batch = network.draw(torch.where(observed, values, 0.0), observed, generator)
    for name, tensor in batch.tensors().items():
        if tensor.ndim == 0 or len(tensor) != len(indices):
            raise ValueError(f"draw must put the batch axis ({len(indices)}) first; {name} is {tuple(tensor.shape)}")
    return batch


def sum_losses(
    network: Trainable[B],
    batch: B,
    micro_batch: int | None,
    world: World,
    *,
    backward: bool,
    dropout: tuple[int, ...] = (),
) -> dict[str, float]:
    """Return the sum of each named loss over a batch.

    Args:
        network: The network.
        batch: What its `draw` returned, the same in every process.
        micro_batch: Observations per thread at a time; None chooses by their size.
        world: The processes. Each takes every `world.size`-th observation.
        backward: Add this process's share of the gradient of the mean loss to the parameters. The shares of all
            processes sum to the gradient of the batch.
        dropout: The key from which dropout derives its seeds.
    """
    count = len(batch)
    # A process without an observation takes the first one with weight 0: so it knows the names of the losses.
    weight = 1.0 if world.rank < count else 0.0
    share = batch[world.rank :: world.size] if weight else batch[:1]
    size = micro_batch or micro_batch_size(share)
    parts = (
        _MicroBatch(network, share[first : first + size], (*dropout, number))
        for number, first in enumerate(range(0, len(share), size))
    )
    scale = weight / count
    each = _add_gradients(network, parts, scale) if backward else parallel_map(_MicroBatch.evaluate, parts)
    sums: dict[str, Tensor] = {}
    for losses in each:
        for name, loss in losses.items():
            sums[name] = sums.get(name, 0.0) + weight * loss.detach().double().sum()
    totals = world.sum(torch.stack(list(sums.values())))
    return dict(zip(sums, totals.tolist(), strict=True))


def micro_batch_size(batch: Batch) -> int:
    """Return the observations per micro-batch: about `CELLS` cells, and at least two micro-batches for two threads.

    It depends on the data alone, so that every machine adds up the same numbers.
    """
    cells = max(tensor[0].numel() for tensor in batch.tensors().values())
    return max(1, min(-(-len(batch) // 2), CELLS // max(1, cells)))


@dataclass(frozen=True)
class _MicroBatch(Generic[B]):
    """Part of a batch, with the key of its dropout."""

    network: Trainable[B]
    batch: B
    key: tuple[int, ...]

    def losses(self) -> dict[str, Tensor]:
        size = len(self.batch)
        with use_generator(torch.Generator().manual_seed(derive_seed(*self.key))):
            losses = self.network.losses(self.batch)
        for name, loss in losses.items():
            if loss.shape != (size,):
                raise ValueError(f"losses must be (batch,) = ({size},); {name} is {tuple(loss.shape)}")
        return losses

    @torch.no_grad()
    def evaluate(self) -> dict[str, Tensor]:
        return self.losses()


def _add_gradients(network: Trainable[B], parts: Iterable[_MicroBatch[B]], scale: float) -> Iterator[dict[str, Tensor]]:
    """Yield the losses of each micro-batch; add their gradient times `scale` to that of the parameters."""
    trained = [parameter for _, parameter in network.named_parameters() if parameter.requires_grad]
    with SharedFilters(cast(nn.Module, network)) as filters:

        def differentiate(part: _MicroBatch[B]) -> tuple[dict[str, Tensor], list[Tensor], list[Tensor | None]]:
            losses = part.losses()
            total = torch.stack(list(losses.values())).sum() * scale
            leaves = filters.leaves
            grads = torch.autograd.grad(total, [*trained, *leaves], allow_unused=True)
            return losses, leaves, list(grads)

        leaf_grads: dict[Tensor, Tensor] = {}
        for losses, leaves, grads in parallel_map(differentiate, parts, ahead=0):
            _accumulate(trained, grads[: len(trained)])
            for leaf, grad in zip(leaves, grads[len(trained) :], strict=True):
                if grad is not None:
                    leaf_grads[leaf] = leaf_grads[leaf].add_(grad) if leaf in leaf_grads else grad
            yield losses
        for parameter, grad in filters.gradients([leaf_grads.get(leaf) for leaf in filters.leaves]):
            _accumulate([parameter], [grad])


@torch.no_grad()
def _accumulate(parameters: Sequence[nn.Parameter], grads: Sequence[Tensor | None]) -> None:
    with single_threaded():  # other micro-batches are running
        for parameter, grad in zip(parameters, grads, strict=True):
            if grad is not None:
                # A copy, because two parameters that are added share one gradient.
                parameter.grad = grad.clone() if parameter.grad is None else parameter.grad.add_(grad)


def add(totals: dict[str, float], sums: Mapping[str, float]) -> None:
    """Add `sums` to `totals`, name by name, in place."""
    for name, value in sums.items():
        totals[name] = totals.get(name, 0.0) + value
