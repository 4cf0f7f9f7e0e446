"""Real power series modulo z^length, (..., length): sums of powers, products, quotients, each with its own gradient.

| code | meaning |
|---|---|
| `exponentials` | Σ_l z^l 2 Re Σ_n rows[i,n] columns[j,n] pole_n^l |
| `multiply`, `quotient` | a b and a / b, truncated to `length` |

Autograd would save every power of a doubling chain in double precision, and PyTorch's gradient of a real FFT is a
complex FFT. Here a gradient is again a sum of powers, or a correlation by real FFTs.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable


def exponentials(pole: Tensor, rows: Tensor, columns: Tensor, length: int) -> Tensor:
    """Return Σ_l z^l 2 Re Σ_n rows[i,n] columns[j,n] pole_n^l as coefficients (i, j, channel, length).

    Args:
        pole: (channel, n) complex128.
        rows: (i, channel, n).
        columns: (j, channel, n).
        length: Number of coefficients.
    """
    out: Tensor = _Exponentials.apply(pole, rows, columns, length)
    return out


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """Return the product of two series; `b` may lack leading axes of `a`."""
    out: Tensor = _Product.apply(a, b)
    return out


def quotient(numerator: Tensor, denominator: Tensor) -> Tensor:
    """Return the series q with q * denominator = numerator."""
    out: Tensor = _Quotient.apply(numerator, denominator)
    return out


def fft_size(least: int) -> int:
    """Return the smallest even number of at least `least` without a prime factor above 5, where the FFT is fast."""
    size = least + least % 2
    while 2**40 * 3**20 * 5**15 % size:
        size += 2
    return size


class _Exponentials(torch.autograd.Function):
    """With l = a m + b the powers split into pole^(a m) for the rows and pole^b for the columns.

    That takes about 2 sqrt(length) powers instead of `length`, and the sum over n is one real product per channel.
    """

    @staticmethod
    def forward(ctx: Any, pole: Tensor, rows: Tensor, columns: Tensor, length: int) -> Tensor:
        ctx.save_for_backward(pole, rows, columns)
        split = 2 ** max(0, round(math.log2(length * len(rows) / len(columns)) / 2))
        ctx.shape = split, length
        low, high = _split_powers(pole, split, length, rows.dtype)
        product = 2 * torch.bmm(_real(_times_powers(rows, high).conj()), _real(_times_powers(columns, low)).mT)
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
        grad_left = _complex(torch.bmm(grad, _real(_times_powers(columns, low))), len(rows)).conj()
        grad_right = _complex(torch.bmm(grad.mT, _real(_times_powers(rows, high).conj())), len(columns))
        grad_rows, grad_high = _times_powers_backward(grad_left, rows, high)
        grad_columns, grad_low = _times_powers_backward(grad_right, columns, low)
        # d pole^p = p pole^(p-1) d pole, and pole^(am - 1) = pole^((a-1)m) pole^(m-1).
        a, b = (torch.arange(1, stop) for stop in (count, split))
        slope = (b[:, None] * low[:, :-1].conj() * grad_low[:, 1:]).sum(1)
        slope += low[:, -1].conj() * (split * a[:, None] * high[:, :-1].conj() * grad_high[:, 1:]).sum(1)
        return slope.to(pole.dtype), grad_rows, grad_columns, None


def _split_powers(pole: Tensor, split: int, length: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return pole^0 .. pole^(split-1), and pole^0, pole^split, ... as far as `length` needs, computed in double."""
    low, stride = _powers(pole, split)
    high, _ = _powers(stride, -(-length // split))
    return low.to(dtype), high.to(dtype)


def _powers(base: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return base^0 .. base^(count-1) (channel, count, n), and base^(2^k), the first doubling that reaches `count`."""
    powers, square = torch.ones_like(base).unsqueeze(1), base
    while powers.shape[1] < count:
        powers, square = torch.cat([powers, powers * square.unsqueeze(1)], dim=1), square * square
    return powers[:, :count], square


def _times_powers(weights: Tensor, powers: Tensor) -> Tensor:
    """Multiply weights (i, channel, n) by powers (channel, power, n) to (channel, i, power, n)."""
    return weights.transpose(0, 1).unsqueeze(2) * powers.unsqueeze(1)


def _times_powers_backward(grad: Tensor, weights: Tensor, powers: Tensor) -> tuple[Tensor, Tensor]:
    """Turn the gradient (channel, i, power, n) of `_times_powers` into those of its two arguments."""
    grad_weights = (grad * powers.conj().unsqueeze(1)).sum(2).transpose(0, 1)
    return grad_weights, (grad * weights.conj().transpose(0, 1).unsqueeze(2)).sum(1)


def _real(x: Tensor) -> Tensor:
    """View (channel, i, power, n) complex as (channel, i * power, 2 n) real."""
    return torch.view_as_real(x.resolve_conj()).flatten(-2).flatten(1, 2)


def _complex(x: Tensor, count: int) -> Tensor:
    """Invert `_real`."""
    return torch.view_as_complex(x.unflatten(1, (count, -1)).unflatten(-1, (-1, 2)))


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        size = fft_size(2 * a.shape[-1] - 1)
        a_hat, b_hat = torch.fft.rfft(a, size), torch.fft.rfft(b, size)
        ctx.save_for_backward(a_hat, b_hat)
        ctx.shape = a.shape[-1], size, b.shape
        return _truncated(a_hat * b_hat, size, a.shape[-1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        a_hat, b_hat = ctx.saved_tensors
        length, size, shape = ctx.shape
        grad = torch.fft.rfft(grads[0], size)
        grad_b_hat = (grad * a_hat.conj()).sum_to_size(*shape[:-1], grad.shape[-1])
        return _truncated(grad * b_hat.conj(), size, length), _truncated(grad_b_hat, size, length)


class _Quotient(torch.autograd.Function):
    """From q = a / b follows dq = (da - q db) / b: both gradients are correlations with 1 / b."""

    @staticmethod
    def forward(ctx: Any, numerator: Tensor, denominator: Tensor) -> Tensor:
        length = numerator.shape[-1]
        size = fft_size(2 * length - 1)
        inverse_hat = torch.fft.rfft(_reciprocal(denominator), size)
        out = _truncated(torch.fft.rfft(numerator, size) * inverse_hat, size, length)
        out_hat = torch.fft.rfft(out, size)
        # One correction removes the rounding errors of Newton's iteration.
        error = numerator - _truncated(out_hat * torch.fft.rfft(denominator, size), size, length)
        out = out + _truncated(torch.fft.rfft(error, size) * inverse_hat, size, length)
        ctx.save_for_backward(inverse_hat, out_hat)
        ctx.shape = length, size
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        inverse_hat, out_hat = ctx.saved_tensors
        length, size = ctx.shape
        grad_numerator = _truncated(torch.fft.rfft(grads[0], size) * inverse_hat.conj(), size, length)
        return grad_numerator, -_truncated(torch.fft.rfft(grad_numerator, size) * out_hat.conj(), size, length)


def _truncated(spectrum: Tensor, size: int, length: int) -> Tensor:
    out: Tensor = torch.fft.irfft(spectrum, size)[..., :length]
    return out


def _reciprocal(series: Tensor) -> Tensor:
    """Return 1 / series by Newton's iteration, which doubles the number of correct coefficients in each round.

    A circular product of twice that number is enough: what wraps round lands on coefficients that are already known.
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
