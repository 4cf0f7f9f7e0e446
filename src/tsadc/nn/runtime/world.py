"""Training in several processes, started by `torchrun`: who they are, and how they add up what each has computed."""

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
    """The processes that train together: this one is number `rank` of `size`. Alone, unless started by `torchrun`."""

    rank: int = 0
    size: int = 1
    ours: bool = False

    @classmethod
    def join(cls) -> World:
        """Meet the other processes, if there are any; a process group that exists already is used and left alone."""
        if not dist.is_available():
            return cls()
        ours = not dist.is_initialized()
        if ours:
            if "RANK" not in os.environ or int(os.environ.get("WORLD_SIZE", "1")) < 2:
                return cls()
            # A second group in the same store would find the addresses of the first: each gets keys of its own.
            store, rank, size = next(dist.rendezvous("env://"))  # type: ignore[attr-defined]
            own = dist.PrefixStore(f"tsadc-{next(_groups)}", store)  # type: ignore[attr-defined]
            dist.init_process_group("gloo", store=own, rank=rank, world_size=size)
        return cls(dist.get_rank(), dist.get_world_size(), ours)

    def leave(self) -> None:
        if self.ours:
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
        """Give every process the first one's values, in place."""
        if self.size > 1:
            values = _real(tensor).contiguous()
            dist.broadcast(values, 0)
            _real(tensor).copy_(values)
        return tensor


def _real(tensor: Tensor) -> Tensor:
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor
