"""Slow definitions that more than one test file compares with."""

import torch
from torch import Tensor


def convolve_directly(x: Tensor, kernel: Tensor, D: Tensor) -> Tensor:
    """`x` (batch, channel, time) through `kernel` (channel, time), or (2, channel, time) both ways, and `D` (channel,):
    y[t] = Σ_{s<=t} K0[t-s] x[s] + Σ_{s>t} K1[s-t-1] x[s] + D x[t]."""
    forward, backward = kernel if kernel.dim() == 3 else (kernel, torch.zeros_like(kernel))
    y = D[:, None] * x
    for now in range(x.shape[-1]):
        for then in range(x.shape[-1]):
            y[..., now] += (forward[:, now - then] if then <= now else backward[:, then - now - 1]) * x[..., then]
    return y
