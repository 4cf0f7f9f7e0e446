"""Power series modulo z^length, real, (..., length): sums of powers, products, quotients, each with its own gradient.

| code | meaning |
|---|---|
| `exponentials` | Σ_l z^l 2 Re Σ_n rows[i,n] columns[j,n] pole_n^l |
| `multiply`, `quotient` | a b and a / b, cut at `length` |

Automatic differentiation would keep every power of a doubling chain in double precision, and PyTorch's gradient of a
real FFT is a complex one. Here a gradient is again a sum of powers, or a correlation by real FFTs.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable


def exponentials(pole: Tensor, rows: Tensor, columns: Tensor, length: int) -> Tensor:
    """`pole` (channel, n) complex128, `rows` (i, channel, n), `columns` (j, channel, n) -> (i, j, channel, length)."""
    out: Tensor = _Exponentials.apply(pole, rows, columns, length)
    return out


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """Product of two series; `b` may lack leading axes of `a`."""
    out: Tensor = _Product.apply(a, b)
    return out


def quotient(numerator: Tensor, denominator: Tensor) -> Tensor:
    """The series q with q * denominator = numerator."""
    out: Tensor = _Quotient.apply(numerator, denominator)
    return out


def fft_size(least: int) -> int:
    """The smallest even number from `least` on without a prime factor above 5: the FFT is quick there."""
    size = least + least % 2
    while 2**40 * 3**20 * 5**15 % size:
        size += 2
    return size


class _Exponentials(torch.autograd.Function):
    """With l = a m + b the powers split into pole^(a m) for the rows and pole^b for the columns: about 2 sqrt(length)
    powers in place of `length`, and the sum over n is one real product per channel."""

    @staticmethod
    def forward(ctx: Any, pole: Tensor, rows: Tensor, columns: Tensor, length: int) -> Tensor:
        ctx.save_for_backward(pole, rows, columns)
        split = 2 ** max(0, round(math.log2(length * len(rows) / len(columns)) / 2))
        ctx.shape = split, length
        low, high = _split_powers(pole, split, length, rows.dtype)
        product = 2 * torch.bmm(_real(_spread(rows, high).conj()), _real(_spread(columns, low)).mT)
        product = product.view(len(pole), len(rows), -1, len(columns), split).permute(1, 3, 0, 2, 4)
        return product.flatten(-2)[..., :length]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        pole, rows, columns = ctx.saved_tensors
        split, length = ctx.shape
        low, high = _split_powers(pole, split, length, rows.dtype)
        count = high.shape[1]
        grad = F.pad(grads[0], (0, count * split - length)).unflatten(-1, (count, split)).permute(2, 0, 3, 1, 4)
        grad = 2 * grad.reshape(len(pole), len(rows) * count, len(columns) * split)
        # Gradients of the two factors of the product, as complex numbers (channel, i, power, n).
        of_left = _complex(torch.bmm(grad, _real(_spread(columns, low))), len(rows)).conj()
        of_right = _complex(torch.bmm(grad.mT, _real(_spread(rows, high).conj())), len(columns))
        grad_rows, of_high = _pull(of_left, rows, high)
        grad_columns, of_low = _pull(of_right, columns, low)
        # d pole^p = p pole^(p-1) d pole, and pole^(am - 1) = pole^((a-1)m) pole^(m-1).
        a, b = (torch.arange(1, stop) for stop in (count, split))
        slope = (b[:, None] * low[:, :-1].conj() * of_low[:, 1:]).sum(1)
        slope += low[:, -1].conj() * (split * a[:, None] * high[:, :-1].conj() * of_high[:, 1:]).sum(1)
        return slope.to(pole.dtype), grad_rows, grad_columns, None


def _split_powers(pole: Tensor, split: int, length: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """pole^0 .. pole^(split-1), and pole^0, pole^split, ... as far as `length` needs; powers taken in double."""
    low, stride = _powers(pole, split)
    high, _ = _powers(stride, -(-length // split))
    return low.to(dtype), high.to(dtype)


def _powers(base: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """base^0 .. base^(count-1) as (channel, count, n), and base^(2^k), the first doubling that reaches `count`."""
    powers, square = torch.ones_like(base).unsqueeze(1), base
    while powers.shape[1] < count:
        powers, square = torch.cat([powers, powers * square.unsqueeze(1)], dim=1), square * square
    return powers[:, :count], square


def _spread(weights: Tensor, powers: Tensor) -> Tensor:
    """weights (i, channel, n) times powers (channel, power, n) -> (channel, i, power, n)."""
    return weights.transpose(0, 1).unsqueeze(2) * powers.unsqueeze(1)


def _pull(grad: Tensor, weights: Tensor, powers: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient (channel, i, power, n) of `_spread` as those of its two arguments."""
    of_weights = (grad * powers.conj().unsqueeze(1)).sum(2).transpose(0, 1)
    return of_weights, (grad * weights.conj().transpose(0, 1).unsqueeze(2)).sum(1)


def _real(x: Tensor) -> Tensor:
    """(channel, i, power, n) complex -> (channel, i * power, 2 n) real."""
    return torch.view_as_real(x.resolve_conj()).flatten(-2).flatten(1, 2)


def _complex(x: Tensor, count: int) -> Tensor:
    """The inverse of `_real`."""
    return torch.view_as_complex(x.unflatten(1, (count, -1)).unflatten(-1, (-1, 2)))


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        size = fft_size(2 * a.shape[-1] - 1)
        of_a, of_b = torch.fft.rfft(a, size), torch.fft.rfft(b, size)
        ctx.save_for_backward(of_a, of_b)
        ctx.shape = a.shape[-1], size, b.shape
        return _cut(of_a * of_b, size, a.shape[-1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        of_a, of_b = ctx.saved_tensors
        length, size, shape = ctx.shape
        grad = torch.fft.rfft(grads[0], size)
        of_grad_b = (grad * of_a.conj()).sum_to_size(*shape[:-1], grad.shape[-1])
        return _cut(grad * of_b.conj(), size, length), _cut(of_grad_b, size, length)


class _Quotient(torch.autograd.Function):
    """q = a / b has dq = (da - q db) / b: both gradients are correlations with 1 / b."""

    @staticmethod
    def forward(ctx: Any, numerator: Tensor, denominator: Tensor) -> Tensor:
        length = numerator.shape[-1]
        size = fft_size(2 * length - 1)
        of_inverse = torch.fft.rfft(_reciprocal(denominator), size)
        out = _cut(torch.fft.rfft(numerator, size) * of_inverse, size, length)
        of_out = torch.fft.rfft(out, size)
        # One correction takes off the rounding that Newton's iteration has gathered.
        error = numerator - _cut(of_out * torch.fft.rfft(denominator, size), size, length)
        out = out + _cut(torch.fft.rfft(error, size) * of_inverse, size, length)
        ctx.save_for_backward(of_inverse, of_out)
        ctx.shape = length, size
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        of_inverse, of_out = ctx.saved_tensors
        length, size = ctx.shape
        of_numerator = _cut(torch.fft.rfft(grads[0], size) * of_inverse.conj(), size, length)
        return of_numerator, -_cut(torch.fft.rfft(of_numerator, size) * of_out.conj(), size, length)


def _cut(spectrum: Tensor, size: int, length: int) -> Tensor:
    out: Tensor = torch.fft.irfft(spectrum, size)[..., :length]
    return out


def _reciprocal(series: Tensor) -> Tensor:
    """1 / series by Newton's iteration: each round doubles the number of right coefficients.

    A circular product of twice that number is enough: what wraps round lands on coefficients already known.
    """
    counts = [series.shape[-1]]
    while counts[-1] > 1:
        counts.append(-(-counts[-1] // 2))
    inverse = 1 / series[..., :1]
    for count in reversed(counts[:-1]):
        known, size = inverse.shape[-1], fft_size(2 * inverse.shape[-1])
        spectrum = torch.fft.rfft(inverse, size)
        error = torch.fft.irfft(torch.fft.rfft(series[..., :count], size) * spectrum, size)[..., known:count]
        correction = torch.fft.irfft(torch.fft.rfft(error, size) * spectrum, size)[..., : count - known]
        inverse = torch.cat([inverse, -correction], dim=-1)
    return inverse
