"""What training minimises. A network draws all randomness of a batch at once and gives losses per observation, so that
neither micro-batches nor several processes change the loss or its gradient: the mean over the batch. Only dropout can.
Threads change nothing at all: micro-batches are cut by the size of the data, and their gradients added in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tsadc.nn.dropout import drawing_from
from tsadc.nn.filters import Filters
from tsadc.nn.runtime.threads import alone, spread
from tsadc.nn.runtime.world import World

SHUFFLE, DRAW, DROPOUT, VALIDATION = range(4)
CELLS = 2**17  # of a micro-batch: enough to keep an operation busy, few enough for what it makes to stay in the cache


class Trainable(Protocol):
    """What a network offers to be trained: an `nn.Module` with two methods more.

    It may also offer `parameter_groups(config)`, the groups for AdamW, see `tsadc.nn.train.parameter_groups`; and
    `begin_epoch(number)`, told from 1 before each, for losses that change as training goes on. What it caches in
    `eval()` it must drop in `train()`: weights change in between.
    """

    def draw(self, x: Tensor, observed: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        """All randomness of one batch (masks, steps, noise) and what it acts on; each tensor's first axis is batch."""

    def losses(self, drawn: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Named losses, each (batch,): one value per observation. Their sum is trained. Several threads call this at
        once, on different observations: it changes nothing, and draws from `tsadc.nn.dropout` if at all."""

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


def begin_epoch(network: Trainable, number: int) -> None:
    """Tell a network that wants to know."""
    told = getattr(network, "begin_epoch", None)
    if told is not None:
        told(number)


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
    network: Trainable,
    drawn: Mapping[str, Tensor],
    micro_batch: int | None,
    world: World,
    *,
    backward: bool,
    dropout: tuple[int, ...] = (),
) -> dict[str, float]:
    """Sum of each named loss over a batch. `backward` adds this process's share of the gradient of their mean, one
    micro-batch per thread; the shares sum to the gradient of the batch. `dropout` is the key of what dropout draws."""
    count = len(next(iter(drawn.values())))
    # A process left without an observation takes the first one and counts it as nothing: so it knows the losses' names.
    weight = 1.0 if world.rank < count else 0.0
    share = {name: tensor[world.rank :: world.size] if weight else tensor[:1] for name, tensor in drawn.items()}
    size = micro_batch or micro_batch_for(share)
    starts = range(0, len(next(iter(share.values()))), size)
    pieces = (
        _Piece(network, {name: tensor[first : first + size] for name, tensor in share.items()}, (*dropout, number))
        for number, first in enumerate(starts)
    )
    done = _add_gradients(network, pieces, weight / count) if backward else spread(_Piece.evaluate, pieces)
    sums: dict[str, Tensor] = {}
    for losses in done:
        for name, loss in losses.items():
            sums[name] = sums.get(name, 0.0) + weight * loss.detach().double().sum()
    totals = world.sum(torch.stack(list(sums.values())))
    return dict(zip(sums, totals.tolist(), strict=True))


def micro_batch_for(drawn: Mapping[str, Tensor]) -> int:
    """Observations per micro-batch: about `CELLS` cells, and at least two micro-batches, one for each of two threads.
    It depends on the data alone, so that every machine adds up the same numbers."""
    count = len(next(iter(drawn.values())))
    cells = max(tensor[0].numel() for tensor in drawn.values())
    return max(1, min(-(-count // 2), CELLS // max(1, cells)))


@dataclass(frozen=True)
class _Piece:
    """A micro-batch, and the key of its dropout."""

    network: Trainable
    drawn: Mapping[str, Tensor]
    key: tuple[int, ...]

    def losses(self) -> dict[str, Tensor]:
        size = len(next(iter(self.drawn.values())))
        with drawing_from(torch.Generator(device_of(self.network)).manual_seed(derive(*self.key))):
            losses = self.network.losses(self.drawn)
        for name, loss in losses.items():
            if loss.shape != (size,):
                raise ValueError(f"losses must be (batch,) = ({size},); {name} is {tuple(loss.shape)}")
        return losses

    @torch.no_grad()
    def evaluate(self) -> dict[str, Tensor]:
        return self.losses()


def _add_gradients(network: Trainable, pieces: Iterable[_Piece], scale: float) -> Iterator[dict[str, Tensor]]:
    """The losses of each micro-batch; their gradient times `scale` is added to the parameters'."""
    trained = [parameter for _, parameter in network.named_parameters() if parameter.requires_grad]
    with Filters(cast(nn.Module, network)) as filters:

        def back(piece: _Piece) -> tuple[dict[str, Tensor], list[Tensor], list[Tensor | None]]:
            losses = piece.losses()
            total = torch.stack(list(losses.values())).sum() * scale
            leaves = filters.leaves
            grads = torch.autograd.grad(total, [*trained, *leaves], allow_unused=True)
            return losses, leaves, list(grads)

        of_leaves: dict[Tensor, Tensor] = {}
        for losses, leaves, grads in spread(back, pieces, ahead=0):
            _accumulate(trained, grads[: len(trained)])
            for leaf, grad in zip(leaves, grads[len(trained) :], strict=True):
                if grad is not None:
                    of_leaves[leaf] = of_leaves[leaf].add_(grad) if leaf in of_leaves else grad
            yield losses
        for parameter, grad in filters.gradients([of_leaves.get(leaf) for leaf in filters.leaves]):
            _accumulate([parameter], [grad])


@torch.no_grad()
def _accumulate(parameters: Sequence[nn.Parameter], grads: Sequence[Tensor | None]) -> None:
    with alone():  # other micro-batches are being worked on
        for parameter, grad in zip(parameters, grads, strict=True):
            if grad is not None:
                # A copy: two parameters that are added share one gradient.
                parameter.grad = grad.clone() if parameter.grad is None else parameter.grad.add_(grad)


def add(totals: dict[str, float], sums: Mapping[str, float]) -> None:
    for name, value in sums.items():
        totals[name] = totals.get(name, 0.0) + value


def device_of(network: Trainable) -> torch.device:
    return next(parameter.device for _, parameter in network.named_parameters())
