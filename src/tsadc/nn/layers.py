"""Small layers for (batch, channel, time): channel mixing, channel normalisation, dropout."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from tsadc.nn.randomness import current_generator

LEVELS = 2**16


def mix(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return weight x + bias at every time step: (batch, channel, time) -> (batch, out, time).

    `weight` is (out, channel), `bias` (out,).

    A batched product with an expanded weight: on narrow channels it is twice as fast as a convolution of width 1.
    """
    return torch.baddbmm(bias.unsqueeze(-1), weight.expand(len(x), -1, -1), x)


class Pointwise(nn.Conv1d):
    """A convolution of width 1, computed by `mix`."""

    def __init__(self, channels: int, out: int) -> None:
        super().__init__(channels, out, 1)

    def forward(self, x: Tensor) -> Tensor:
        assert self.bias is not None
        return mix(x, self.weight.squeeze(-1), self.bias)


class Dropout(nn.Module):
    """In training, set a share of the cells to zero and scale up the others.

    It draws from `tsadc.nn.randomness.current_generator`. The share is rounded to one of `LEVELS` levels: a draw of 64
    random bits then decides on four cells, which takes less than half the time of four draws.
    """

    def __init__(self, share: float) -> None:
        super().__init__()
        self.level = min(round(share * LEVELS), LEVELS - 1)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.level == 0:
            return x
        draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64)
        draws.random_(-(2**63), None, generator=current_generator())
        kept = draws.view(torch.int16)[: x.numel()].view(x.shape) >= self.level - LEVELS // 2
        return x * kept * (LEVELS / (LEVELS - self.level))


class ChannelNorm(nn.Module):
    """LayerNorm over the channels of (batch, channel, time), without a transpose."""

    def __init__(self, channels: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = _ChannelNorm.apply(x, self.weight, self.bias, self.eps)
        return out


class _ChannelNorm(torch.autograd.Function):
    """Save one tensor of the input's size for the backward pass; autograd on the formula would save several."""

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx, x: Tensor, weight: Tensor, bias: Tensor, eps: float
    ) -> Tensor:
        normal = x - x.mean(1, keepdim=True)
        scale = torch.rsqrt(normal.square().mean(1, keepdim=True) + eps)
        normal *= scale
        ctx.save_for_backward(normal, scale, weight)
        return torch.addcmul(bias.unsqueeze(-1), normal, weight.unsqueeze(-1))

    @staticmethod
    @once_differentiable
    def backward(ctx: torch.autograd.function.FunctionCtx, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        normal, scale, weight = ctx.saved_tensors  # type: ignore[attr-defined]
        grad = grads[0]
        along = grad * normal
        grad_weight, grad_bias = along.sum((0, 2)), grad.sum((0, 2))
        # The output ignores shift and scale of x: the gradient has no component along the constant and along `normal`.
        share = (weight / len(weight)).expand(len(grad), 1, -1)
        out = grad * weight.unsqueeze(-1)
        out -= share @ grad
        out -= normal * (share @ along)
        out *= scale
        return out, grad_weight, grad_bias, None
