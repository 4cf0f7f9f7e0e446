"""State-space models as convolutions: HiPPO-LegS, its normal-plus-low-rank form, kernels, recurrence.

A channel obeys `x' = A x + B u`, `y = Re(C x) + D u`. Sampled with step `dt` it is a recurrence,
`x[k] = dA x[k-1] + dB u[k]`, and the recurrence is a convolution with the kernel `K[l] = Re(C dA^l dB)`.

| code | symbol | meaning, equation |
|---|---|---|
| `Lambda`, `P`, `B`, `C` | Λ, P, B, C | (..., N/2) complex, one of each conjugate pair: `v` stands for `[v, conj v]` |
| `A` | A = Λ - P P* | diagonal plus low rank (DPLR); P = 0 is the diagonal model, S4D |
| `V` | V | A_LegS = V (Λ - P P*) V*, unitary |
| `log_dt` | log Δ | logarithm of the step, (channel,) real |
| `dA`, `dB` | Ā, B̄ | bilinear: Ā = (I - Δ/2 A)⁻¹ (I + Δ/2 A), B̄ = (I - Δ/2 A)⁻¹ Δ B |
| `pole` | λ̄ | a sampled eigenvalue of Λ: (1 + Δλ/2) / (1 - Δλ/2), or e^{Δλ} for a zero-order hold |
| `kernel` | K | K[l] = Re(C Ā^l B̄), as C is: neither conjugated nor corrected for the length |
| `series` | k_XY(z) | Σ_l z^l 2 Re Σ_n X_n Y_n λ̄_n^l, a power series cut after z^(length - 1) |

Sources: Gu, Goel, Ré 2022 (S4); Gu, Gupta, Goel, Ré 2022 (S4D). `A`-sized work is done in float64 whatever the
parameters are, because an error in a pole grows with the power it is raised to; the long sums keep their precision.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from tsadc.errors import ConfigError
from tsadc.nn.power_series import exponentials, fft_size, multiply, quotient

Method = Literal["zoh", "bilinear"]


def hippo_legs(N: int) -> tuple[Tensor, Tensor]:
    """`A` (N, N) and `B` (N,) of HiPPO-LegS, float64: the state holds the Legendre coefficients of the input so far."""
    n = torch.arange(N, dtype=torch.float64)
    root = torch.sqrt(2 * n + 1)
    A = -torch.tril(torch.outer(root, root), diagonal=-1) - torch.diag(n + 1)
    return A, root


def nplr_legs(N: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`Lambda` (N/2,), `P` (N/2,), `B` (N/2,), `V` (N, N/2) of HiPPO-LegS, complex128, ascending imaginary part < 0.

    A + p pᵀ = -1/2 I + skew for p[n] = sqrt(n + 1/2), hence normal: A = 2 Re(V Λ V*) - p pᵀ and B = 2 Re(V B_eig).
    An eigenvector's phase is free; ours makes `P` real and positive, so that every LAPACK gives the same numbers.
    """
    if N < 2 or N % 2:
        raise ConfigError(f"The state size must be even and at least 2, but is {N}: choose for example 64.")
    A, B = hippo_legs(N)
    p = torch.sqrt(torch.arange(N, dtype=torch.float64) + 0.5)
    skew = A + torch.outer(p, p) + 0.5 * torch.eye(N, dtype=torch.float64)
    frequency, V = torch.linalg.eigh(-1j * skew)
    frequency, V = frequency[: N // 2], V[:, : N // 2]
    V = V * torch.sgn(V.mH @ p.to(V.dtype))
    Lambda = torch.complex(torch.full_like(frequency, -0.5), frequency)
    return Lambda, V.mH @ p.to(V.dtype), V.mH @ B.to(V.dtype), V


def dense(Lambda: Tensor, P: Tensor | None, B: Tensor) -> tuple[Tensor, Tensor]:
    """`A` (..., N, N) and `B` (..., N) written out in the basis `[x, conj x]`."""
    A = torch.diag_embed(_with_conjugates(Lambda))
    if P is not None:
        p = _with_conjugates(P)
        A = A - p.unsqueeze(-1) * p.conj().unsqueeze(-2)
    return A, _with_conjugates(B)


def bilinear(log_dt: Tensor, A: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
    """`dA` (channel, N, N) and `dB` (channel, N) of dense `A`, `B`, by the definition."""
    dt = log_dt.exp()[:, None, None]
    eye = torch.eye(A.shape[-1], dtype=A.dtype)
    right = torch.cat([eye + dt / 2 * A, dt * B.unsqueeze(-1)], dim=-1)
    solved = torch.linalg.solve(eye - dt / 2 * A, right)
    return solved[..., :-1], solved[..., -1]


def recurrence(dA: Tensor, dB: Tensor, C: Tensor, x: Tensor) -> Tensor:
    """The slow definition: `x` (batch, channel, time) -> y of that shape, one dense product per time step, no D.

    `C` (channel, N/2). The kernel is the answer to the impulse 1, 0, 0, ...
    """
    state = torch.zeros(*x.shape[:2], dA.shape[-1], dtype=dA.dtype)
    out = []
    for u in x.unbind(-1):
        state = torch.einsum("hmn,bhn->bhm", dA, state) + dB * u.unsqueeze(-1)
        out.append((_with_conjugates(C) * state).sum(-1).real)
    return torch.stack(out, dim=-1)


class Discrete(NamedTuple):
    """The sampled model in O(N): `dA = diag(pole) - left right*`, `dB = drive`, each (channel, N/2) complex128."""

    pole: Tensor
    drive: Tensor
    left: Tensor | None = None
    right: Tensor | None = None

    def advance(self, state: Tensor, u: Tensor) -> Tensor:
        """`state` (batch, channel, N/2) before and after the input `u` (batch, channel)."""
        after = self.pole * state + self.drive * u.unsqueeze(-1)
        if self.left is None or self.right is None:
            return after
        return after - self.left * _pair_sum(self.right.conj() * state).unsqueeze(-1)


def discretise_dplr(log_dt: Tensor, Lambda: Tensor, P: Tensor, B: Tensor) -> Discrete:
    """Bilinear sampling of Λ - P P*, inverted by the Sherman-Morrison identity; equals `bilinear(*dense(...))`."""
    half, Lambda, P, B = _half_dt(log_dt), _double(Lambda), _double(P), _double(B)
    scale = 1 / (1 - half * Lambda)
    left = 2 * scale * P / (1 / half + _pair_sum(P.abs().square() * scale).unsqueeze(-1))
    right = (scale * P.conj()).conj()
    drive = 2 * half * (scale * B - left / 2 * _pair_sum(right.conj() * B).unsqueeze(-1))
    return Discrete((1 + half * Lambda) * scale, drive, left, right)


def discretise_diagonal(log_dt: Tensor, Lambda: Tensor, B: Tensor, method: Method) -> Discrete:
    """Sampling of the diagonal model, by zero-order hold ("zoh") or "bilinear"."""
    half, Lambda, B = _half_dt(log_dt), _double(Lambda), _double(B)
    if method == "zoh":
        pole = torch.exp(2 * half * Lambda)
        return Discrete(pole, (pole - 1) / Lambda * B)
    if method == "bilinear":
        scale = 1 / (1 - half * Lambda)
        return Discrete((1 + half * Lambda) * scale, 2 * half * scale * B)
    raise ConfigError(f'The method of sampling must be "zoh" or "bilinear", but is {method!r}.')


def diagonal_kernel(
    log_dt: Tensor, Lambda: Tensor, B: Tensor, C: Tensor, length: int, method: Method = "zoh"
) -> Tensor:
    """Kernel of S4D, (..., channel, length).

    `log_dt` (channel,), `Lambda` and `B` (channel, N/2), `C` (..., channel, N/2), its first axis the direction if any.
    """
    model = discretise_diagonal(log_dt, Lambda, B, method)
    rows = C.reshape(-1, *C.shape[-2:])
    kernel = exponentials(model.pole, rows, model.drive.to(C.dtype).unsqueeze(0), length)
    return kernel[:, 0].reshape(*C.shape[:-1], length)


def dplr_kernel(log_dt: Tensor, Lambda: Tensor, P: Tensor, B: Tensor, C: Tensor, length: int) -> Tensor:
    """Kernel of S4, (..., channel, length).

    `log_dt` (channel,), `Lambda`, `P`, `B` (channel, N/2), `C` (..., channel, N/2), first axis the direction if any.

    The Woodbury identity turns C (I - z Ā)⁻¹ B̄ into four functions of the diagonal part,
        K(z) = k_CB - k_CP g,    g = h k_PB / (1 + h k_PP),    h = (1 + z) / 2,
    with Δ / (1 - Δλ/2) inside the k. S4 evaluates this at the roots of unity. That wraps the infinite kernel round, so
    C must first be multiplied by I - Ā^L: N³ log L of dense work in every channel. Here the identity is read as one
    between power series modulo z^L. Nothing wraps and C needs no correction; the k are kernels of a diagonal model,
    one real batched product without a Cauchy sum or a complex temporary of N x L; the quotient is Newton's iteration
    with FFTs. Where Re Λ < 0, P*(s - Λ)⁻¹P has a positive real part: on the unit circle |1 + h k_PP| never falls below
    1 and the quotient is well conditioned. Krylov doubling needs no correction either, but N³ products for Ā^m:
    measured at N = 64 it is several times slower, and less exact in float32.
    """
    half, poles = _half_dt(log_dt), _double(Lambda)
    scale = 1 / (1 - half * poles)
    columns = torch.stack([(2 * half * scale * v).to(C.dtype) for v in (B, P)])
    rows = torch.cat([C.reshape(-1, *C.shape[-2:]), P.conj().unsqueeze(0)])
    k = exponentials((1 + half * poles) * scale, rows, columns, length)
    k_CB, k_CP = k[:-1].unbind(1)
    k_PB, k_PP = k[-1]
    one = F.one_hot(torch.tensor(0), length).to(k)
    feedback = quotient(_times_h(k_PB), one + _times_h(k_PP))
    return (k_CB - multiply(k_CP, feedback)).reshape(*C.shape[:-1], length)


def filter_circle(x: Tensor, circle: Tensor, spectrum: Tensor | None = None) -> Tensor:
    """`x` (batch, channel, time) through the filter that `two_sided` gives; its `rfft`, where it is known already."""
    out: Tensor = _Convolution.apply(x, circle, torch.fft.rfft(circle.detach()) if spectrum is None else spectrum)
    return out


def two_sided(kernel: Tensor, D: Tensor, length: int) -> Tensor:
    """The filter of `kernel` (channel, time), or (2, channel, time) both ways, and `D` (channel,), as a circle of lags
    0, 1, ..., -2, -1 for `length` steps.

    y[t] = Σ_{s<=t} K0[t-s] x[s] + Σ_{s>t} K1[s-t-1] x[s] + D x[t]: the backward kernel starts one step ahead, so the
    present counts once.
    """
    forward = (kernel if kernel.dim() == 2 else kernel[0])[..., :length]
    size = fft_size(2 * length - 1)
    circle = F.pad(forward, (0, size - forward.shape[-1])) + F.pad(D.unsqueeze(-1), (0, size - 1))
    if kernel.dim() == 2:
        return circle
    backward = kernel[1, :, : length - 1].flip(-1)
    return circle + F.pad(backward, (size - backward.shape[-1], 0))


def filter_spectrum(x: Tensor, spectrum: Tensor, size: int) -> Tensor:
    """`x` (batch, channel, time) through the filter with `rfft` `spectrum` at `size`.

    A few observations at a time: their spectrum stays in the processor's cache.
    """
    out = torch.empty_like(x)
    few = _few(spectrum)
    for source, target in zip(x.split(few), out.split(few), strict=True):
        product = torch.fft.rfft(source, size)
        product *= spectrum
        target.copy_(torch.fft.irfft(product, size)[..., : x.shape[-1]])
    return out


class _Convolution(torch.autograd.Function):
    """Keeps `x` for the backward pass, and not its spectrum, which is twice as large."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor, circle: Tensor, spectrum: Tensor) -> Tensor:
        ctx.save_for_backward(x, spectrum)
        ctx.size = circle.shape[-1]  # type: ignore[attr-defined]
        return filter_spectrum(x, spectrum, circle.shape[-1])

    @staticmethod
    @once_differentiable
    def backward(ctx: torch.autograd.function.FunctionCtx, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        x, spectrum = ctx.saved_tensors  # type: ignore[attr-defined]
        size: int = ctx.size  # type: ignore[attr-defined]
        adjoint = spectrum.conj().resolve_conj()
        grad_x, grad_spectrum = torch.empty_like(x), torch.zeros_like(adjoint)
        few = _few(adjoint)
        for grad, source, target in zip(grads[0].split(few), x.split(few), grad_x.split(few), strict=True):
            of_grad, of_x = torch.fft.rfft(grad, size), torch.fft.rfft(source, size)
            grad_spectrum += of_x.conj_physical_().mul_(of_grad).sum(0)
            target.copy_(torch.fft.irfft(of_grad.mul_(adjoint), size)[..., : x.shape[-1]])
        return grad_x, torch.fft.irfft(grad_spectrum, size), None


def _times_h(series: Tensor) -> Tensor:
    """(1 + z) / 2 times the series."""
    return (series + F.pad(series, (1, -1))) / 2


def _few(spectrum: Tensor) -> int:
    """How many observations to filter at once: about a megabyte of spectra."""
    return max(1, 2**17 // spectrum.numel())


def _half_dt(log_dt: Tensor) -> Tensor:
    return (log_dt.double().exp() / 2).unsqueeze(-1)


def _double(x: Tensor) -> Tensor:
    return x.to(torch.complex128)


def _pair_sum(x: Tensor) -> Tensor:
    """Sum over the state, both members of each pair: real."""
    return 2 * x.real.sum(-1)


def _with_conjugates(x: Tensor) -> Tensor:
    return torch.cat([x, x.conj()], dim=-1)
