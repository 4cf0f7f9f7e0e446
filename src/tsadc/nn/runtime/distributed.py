"""Training in several processes started by `torchrun`: their rank, and sums over them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count

import torch
import torch.distributed as dist
from torch import Tensor

_groups = count()


@dataclass(frozen=True)
class World:
    """The processes that train together. This one has number `rank` of `size`; `owned` if we made the process group."""

    rank: int = 0
    size: int = 1
    owned: bool = False

    @classmethod
    def join(cls) -> World:
        """Join the processes that `torchrun` has started, if any; use a process group that exists already."""
        if not dist.is_available():
            return cls()
        owned = not dist.is_initialized()
        if owned:
            if "RANK" not in os.environ or int(os.environ.get("WORLD_SIZE", "1")) < 2:
                return cls()
            # A second group in the same store would find the addresses of the first, so each gets its own prefix.
            store, rank, size = next(dist.rendezvous("env://"))  # type: ignore[attr-defined]
            prefixed = dist.PrefixStore(f"tsadc-{next(_groups)}", store)  # type: ignore[attr-defined]
            dist.init_process_group("gloo", store=prefixed, rank=rank, world_size=size)
        return cls(dist.get_rank(), dist.get_world_size(), owned)

    def leave(self) -> None:
        """Destroy the process group if `join` made it."""
        if self.owned:
            dist.destroy_process_group()

    def sum(self, values: Tensor) -> Tensor:
        """Sum over the processes, in place."""
        if self.size > 1:
            dist.all_reduce(values)
        return values

    def sum_all(self, tensors: Iterable[Tensor]) -> None:
        """Sum every tensor over the processes, in place, all in one message."""
        if self.size > 1:
            parts = [_real(tensor) for tensor in tensors]
            bucket = self.sum(torch.cat([part.flatten() for part in parts]))
            for part, total in zip(parts, bucket.split([part.numel() for part in parts]), strict=True):
                part.copy_(total.view_as(part))

    def broadcast(self, tensor: Tensor) -> Tensor:
        """Copy the values of the first process to all others, in place."""
        if self.size > 1:
            values = _real(tensor).contiguous()
            dist.broadcast(values, 0)
            _real(tensor).copy_(values)
        return tensor


def _real(tensor: Tensor) -> Tensor:
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor
