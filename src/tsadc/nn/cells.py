"""Cells of observations, (variable, time), of which some were not measured: what networks see of them, and what counts.

A robust z can be in the thousands. Networks see asinh(z), on which an extreme value is large but not huge.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

LARGEST = 12.0  # asinh of 8e4 robust standard deviations


def squash(z: Tensor) -> Tensor:
    """From z units to what a network sees."""
    return torch.asinh(z)


def unsquash(x: Tensor) -> Tensor:
    """Back to z units; whatever a network says, the result is finite."""
    return torch.sinh(x.clamp(-LARGEST, LARGEST))


def cells_of(z: NDArray[np.floating[Any]]) -> tuple[Tensor, Tensor, Tensor]:
    """An observation (variable, time), NaN where nothing was measured: its values, where they were measured, and what a
    network sees of them, 0 elsewhere."""
    values = torch.from_numpy(np.asarray(z, dtype=np.float32))
    measured = torch.isfinite(values)
    return values, measured, torch.where(measured, squash(values), 0.0)


def cell_mean(values: Tensor, cells: Tensor) -> Tensor:
    """Mean of `values` (batch, ...) over `cells`, per observation (batch,); 0 where there are none."""
    rest = tuple(range(1, values.ndim))
    return torch.where(cells, values, 0.0).sum(rest) / cells.sum(rest).clamp_min(1)


def starts(time: int, size: int, hop: int) -> list[int]:
    """Of windows of `size` steps every `hop` steps; the last one ends with the observation."""
    return [*range(0, time - size, hop), time - size]


def pieces(x: Tensor, size: int, hop: int | None = None) -> Tensor:
    """x (..., variable, time) in windows (..., window, variable, size), every `hop` steps or side by side."""
    time = x.shape[-1]
    size = min(size, time)
    index = torch.tensor(starts(time, size, hop or size), device=x.device)[:, None] + torch.arange(
        size, device=x.device
    )
    return x[..., index].transpose(-3, -2).contiguous()


def joined(windows: Tensor, time: int, hop: int | None = None) -> Tensor:
    """The inverse of `pieces`: of each window the steps that the one before did not reach."""
    size = windows.shape[-1]
    first = starts(time, size, hop or size)
    new = [size, *(here - before for before, here in pairwise(first))]
    return torch.cat([windows[..., i, :, size - count :] for i, count in enumerate(new)], dim=-1)


class Sliding(nn.Module):
    """Windows of `size` steps inside observations of `length`, every `stride` steps; the last one ends with the
    observation, so that every step is in a window as long as `stride` is at most `size`."""

    index: Tensor  # (window, size): which steps
    count: Tensor  # (time,): in how many windows a step is

    def __init__(self, length: int, size: int, stride: int) -> None:
        super().__init__()
        self.length, self.size = length, min(size, length)
        index = torch.tensor(starts(length, self.size, stride))[:, None] + torch.arange(self.size)
        self.register_buffer("index", index, persistent=False)
        self.register_buffer("count", torch.bincount(index.flatten(), minlength=length), persistent=False)

    def cut(self, x: Tensor) -> Tensor:
        """x (..., time) -> (..., window, size)."""
        return x[..., self.index]

    def join(self, windows: Tensor) -> Tensor:
        """windows (..., window, size) -> (..., time): of each step the mean over the windows that it is in."""
        total = windows.new_zeros(*windows.shape[:-2], self.length)
        total = total.index_add(-1, self.index.flatten(), windows.flatten(-2))
        return total / self.count.clamp_min(1)
