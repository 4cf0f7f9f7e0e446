"""What training minimises. A network draws all randomness of a batch at once and gives losses per observation, so that
neither micro-batches nor several processes change the loss or its gradient: the mean over the batch. Only dropout can.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tsadc.nn.world import World

SHUFFLE, DRAW, DROPOUT, VALIDATION = range(4)


class Trainable(Protocol):
    """What a network offers to be trained: an `nn.Module` with two methods more.

    It may also offer `parameter_groups(config)`, the groups for AdamW; see `tsadc.nn.train.parameter_groups`. What it
    caches in `eval()` it must drop in `train()`: weights change in between.
    """

    def draw(self, x: Tensor, observed: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        """All randomness of one batch (masks, steps, noise) and what it acts on; each tensor's first axis is batch."""

    def losses(self, drawn: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Named losses, each (batch,): one value per observation. Their sum is trained."""

    training: bool

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> Any: ...
    def train(self, mode: bool = True) -> Any: ...


class Source(Protocol):
    """Where observations come from; `tsadc.series.Observations` is one."""

    def __len__(self) -> int: ...

    def batch(self, indices: NDArray[np.int64], /) -> NDArray[Any]:
        """Observations (batch, channel, time), NaN where not observed."""


def derive(*key: int) -> int:
    """A seed for torch, well mixed from small numbers such as (seed, epoch, purpose)."""
    # With its length: SeedSequence pads with zeros, so that (1,) and (1, 0) would be the same.
    return int(np.random.SeedSequence((len(key), *key)).generate_state(1, np.uint64)[0] >> np.uint64(1))


def evaluate(
    network: Trainable,
    source: Source,
    *,
    seed: int,
    batch: int,
    micro_batch: int | None = None,
    world: World | None = None,
) -> dict[str, float]:
    """Mean of each named loss over `source`, in eval mode, with the same masks, steps and noise at every call."""
    generator = torch.Generator(device_of(network)).manual_seed(derive(seed, 0, VALIDATION))
    totals: dict[str, float] = {}
    training = network.training
    network.train(False)
    try:
        with torch.no_grad():
            for first in range(0, len(source), batch):
                drawn = draw(network, source, np.arange(first, min(first + batch, len(source))), generator)
                add(totals, sum_losses(network, drawn, micro_batch, world or World(), backward=False))
    finally:
        network.train(training)
    return {name: total / len(source) for name, total in totals.items()}


@torch.no_grad()
def draw(
    network: Trainable, source: Source, indices: NDArray[np.int64], generator: torch.Generator
) -> dict[str, Tensor]:
    """Read a batch and let the network draw its randomness; what is not finite is not observed, and zero."""
    values = torch.from_numpy(np.asarray(source.batch(indices), dtype=np.float32)).to(generator.device)
    observed = torch.isfinite(values)
    drawn = network.draw(torch.where(observed, values, 0.0), observed, generator)
    for name, tensor in drawn.items():
        if tensor.ndim == 0 or len(tensor) != len(indices):
            raise ValueError(f"draw must put the batch axis ({len(indices)}) first; {name} is {tuple(tensor.shape)}")
    return drawn


def sum_losses(
    network: Trainable, drawn: Mapping[str, Tensor], micro_batch: int | None, world: World, *, backward: bool
) -> dict[str, float]:
    """Sum of each named loss over a batch. `backward` adds this process's share of the gradient of their mean, one
    micro-batch after the other; the shares sum to the gradient of the batch."""
    count = len(next(iter(drawn.values())))
    # A process left without an observation takes the first one and counts it as nothing: so it knows the losses' names.
    weight = 1.0 if world.rank < count else 0.0
    share = {name: tensor[world.rank :: world.size] if weight else tensor[:1] for name, tensor in drawn.items()}
    size = len(next(iter(share.values())))
    sums: dict[str, Tensor] = {}
    for first in range(0, size, micro_batch or size):
        rows = slice(first, min(first + (micro_batch or size), size))
        losses = network.losses({name: tensor[rows] for name, tensor in share.items()})
        for name, loss in losses.items():
            if loss.shape != (rows.stop - rows.start,):
                raise ValueError(
                    f"losses must be (batch,) = ({rows.stop - rows.start},); {name} is {tuple(loss.shape)}"
                )
            sums[name] = sums.get(name, 0.0) + weight * loss.detach().double().sum()
        if backward:
            (torch.stack(list(losses.values())).sum() * (weight / count)).backward()
    totals = world.sum(torch.stack(list(sums.values())))
    return dict(zip(sums, totals.tolist(), strict=True))


def add(totals: dict[str, float], sums: Mapping[str, float]) -> None:
    for name, value in sums.items():
        totals[name] = totals.get(name, 0.0) + value


def device_of(network: Trainable) -> torch.device:
    return next(parameter.device for _, parameter in network.named_parameters())
