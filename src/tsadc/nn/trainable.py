"""What a network must offer to be trained by `tsadc.nn.train`, and the batches that it draws.

The loop calls `draw` once per update, cuts the batch that it returns into micro-batches, and calls `losses` on each.
All randomness of an update is in the batch, so neither micro-batches nor several processes can change it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn


@dataclass(frozen=True)
class Batch:
    """The tensors of one batch; their first axis is the observation.

    A subclass is a frozen dataclass whose fields are tensors, or None where there is nothing to draw. `len(batch)` is
    the number of observations, and `batch[2:4]` is the batch of the third and fourth.
    """

    def tensors(self) -> dict[str, Tensor]:
        """Return the fields that hold a tensor, by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: tensor for name, tensor in values.items() if tensor is not None}

    def __len__(self) -> int:
        return len(next(iter(self.tensors().values())))

    def __getitem__(self, chosen: slice) -> Self:
        return replace(self, **{name: tensor[chosen] for name, tensor in self.tensors().items()})


@dataclass(frozen=True)
class ObservedBatch(Batch):
    """Values and a mask of the same shape, (batch, ...): True where a value was measured."""

    x: Tensor
    observed: Tensor


B = TypeVar("B", bound=Batch)


class Trainable(Protocol[B]):
    """An `nn.Module` with two more methods, `draw` and `losses`.

    Two further methods are optional: `parameter_groups(config)` returns the groups for AdamW (see
    `tsadc.nn.train.parameter_groups`); `begin_epoch(number)` is called before each epoch, counted from 1, for losses
    that change during training. A network that caches something in `eval()` must drop it in `train()`, because the
    weights change in between.
    """

    training: bool

    def draw(self, x: Tensor, observed: Tensor, generator: torch.Generator) -> B:
        """Draw all randomness of a batch (masks, steps, noise).

        Args:
            x: Values (batch, variable, time), 0 where not observed.
            observed: True where a value was measured, same shape.
            generator: The only source of randomness.

        Returns:
            Everything that `losses` needs, as a `Batch`.
        """

    def losses(self, batch: B, /) -> dict[str, Tensor]:
        """Return the named losses, each (batch,): one value per observation. Their sum is minimised.

        Several threads call this at once, on different observations. It must not change the network, and may draw
        random numbers only through `tsadc.nn.layers.Dropout`.
        """

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]: ...
    def state_dict(self, *, keep_vars: bool = ...) -> dict[str, Any]: ...
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> Any: ...
    def train(self, mode: bool = True) -> Any: ...


class Source(Protocol):
    """A collection of observations to train on; `tsadc.series.Observations` is one."""

    def __len__(self) -> int: ...

    def batch(self, indices: NDArray[np.int64], /) -> NDArray[Any]:
        """Return observations (batch, variable, time), NaN where not measured."""
