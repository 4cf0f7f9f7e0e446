"""Windows inside an observation: cut a time axis into them, and join them again.

The last window always ends with the observation, so it may overlap the one before.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn


def cut_patches(x: Tensor, size: int, hop: int | None = None) -> Tensor:
    """Cut x (..., variable, time) into windows (..., window, variable, size), every `hop` steps (None: `size`)."""
    time = x.shape[-1]
    size = min(size, time)
    return x[..., _indices(time, size, hop or size)].transpose(-3, -2).contiguous()


def join_patches(windows: Tensor, time: int, hop: int | None = None) -> Tensor:
    """Invert `cut_patches`: take from each window the steps that the one before does not reach."""
    size = windows.shape[-1]
    starts = _starts(time, size, hop or size)
    new = [size, *(start - before for before, start in pairwise(starts))]
    return torch.cat([windows[..., i, :, size - count :] for i, count in enumerate(new)], dim=-1)


class SlidingWindows(nn.Module):
    """Windows of `size` steps, one every `stride` steps, inside observations of `length` steps.

    Every step is in a window as long as `stride` is at most `size`.
    """

    index: Tensor  # (window, size): the steps of each window
    count: Tensor  # (time,): the number of windows that hold a step

    def __init__(self, length: int, size: int, stride: int) -> None:
        super().__init__()
        self.length, self.size = length, min(size, length)
        index = _indices(length, self.size, stride)
        self.register_buffer("index", index, persistent=False)
        self.register_buffer("count", torch.bincount(index.flatten(), minlength=length), persistent=False)

    def cut(self, x: Tensor) -> Tensor:
        """Cut x (..., time) into windows (..., window, size)."""
        return x[..., self.index]

    def join(self, windows: Tensor) -> Tensor:
        """Average windows (..., window, size) into (..., time): each step is the mean over the windows that hold it."""
        total = windows.new_zeros(*windows.shape[:-2], self.length)
        total = total.index_add(-1, self.index.flatten(), windows.flatten(-2))
        return total / self.count.clamp_min(1)


def _starts(time: int, size: int, hop: int) -> list[int]:
    return [*range(0, time - size, hop), time - size]


def _indices(time: int, size: int, hop: int) -> Tensor:
    """Return the steps of each window, (window, size)."""
    return torch.tensor(_starts(time, size, hop))[:, None] + torch.arange(size)
