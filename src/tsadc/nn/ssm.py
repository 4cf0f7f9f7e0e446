"""State-space models as convolutions: HiPPO-LegS, its diagonal-plus-low-rank form, kernels and the recurrence.

One channel maps an input u(t) to an output y(t) through a state x(t) of size N. Equation numbers are those of Gu, Goel,
Ré 2022 (S4, ICLR); TSAD-C uses the same model in its Eqs. 4 and 5.

1. Continuous model (Eq. 1):  x' = A x + B u,  y = Re(C x) + D u.
2. Start at HiPPO-LegS (Eq. 2), whose state holds the Legendre coefficients of the input so far: `hippo_legs`.
3. Write A as diagonal plus low rank (Theorem 1):  A = V (Λ - P P*) V*,  V unitary: `nplr_legs`. Without P it is the
   diagonal model of Gu, Gupta, Goel, Ré 2022 (S4D). Both are real, so eigenvalues come in conjugate pairs, and only one
   of each pair is stored.
4. Sample with step Δ (Eq. 3):  x[k] = Ā x[k-1] + B̄ u[k],  y[k] = Re(C x[k]) + D u[k]: `bilinear` by the definition,
   `discretise_dplr` and `discretise_diagonal` in O(N).
5. Unroll the recurrence (Eqs. 4, 5):  y = K * u + D u  with the kernel  K[l] = Re(C Ā^l B̄): `dplr_kernel`,
   `diagonal_kernel`.
6. Convolve by FFT: `circular_filter`, `convolve`.

`recurrence` is the slow definition of steps 4 and 5. `tests/nn/test_ssm.py` holds the equalities:
`test_dplr_kernel_is_the_recurrence`, `test_diagonal_kernel_is_its_sum`, `test_convolution_is_the_direct_sum`, and the
numbers of the published implementation in `tests/golden/s4`.

| code | symbol | meaning |
|---|---|---|
| `Lambda`, `P`, `B`, `C` | Λ, P, B, C | (..., N/2) complex, one of each conjugate pair: `v` stands for `[v, conj v]` |
| `V` | V | (N, N/2) eigenvectors |
| `log_dt` | log Δ | (channel,) real |
| `dA`, `dB` | Ā, B̄ | bilinear: Ā = (I - Δ/2 A)⁻¹ (I + Δ/2 A), B̄ = (I - Δ/2 A)⁻¹ Δ B |
| `pole` | λ̄ | a sampled eigenvalue of Λ: (1 + Δλ/2) / (1 - Δλ/2), or e^{Δλ} for a zero-order hold |
| `kernel` | K | (channel, time) real; C is neither conjugated nor corrected for the length |
| `k_XY` | k_XY(z) | Σ_l z^l 2 Re Σ_n X_n Y_n λ̄_n^l, a power series cut after z^(length - 1) |

Work of the size of A is done in float64 whatever the dtype of the parameters, because an error in a pole grows with the
power that it is raised to. The long sums keep the dtype of the parameters.
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
    """Return `A` (N, N) and `B` (N,) of HiPPO-LegS in float64 (Eq. 2).

    A[n, k] = -sqrt((2n + 1)(2k + 1)) for n > k, -(n + 1) for n = k, 0 for n < k;  B[n] = sqrt(2n + 1).
    """
    n = torch.arange(N, dtype=torch.float64)
    root = torch.sqrt(2 * n + 1)
    A = -torch.tril(torch.outer(root, root), diagonal=-1) - torch.diag(n + 1)
    return A, root


def nplr_legs(N: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return `Lambda`, `P`, `B` (N/2,) and `V` (N, N/2) of HiPPO-LegS in complex128 (Theorem 1).

    Imaginary parts of `Lambda` are negative and ascend. In this basis A = 2 Re(V Λ V*) - p pᵀ and B = 2 Re(V B_eig).
    """
    if N < 2 or N % 2:
        raise ConfigError(f"The state size must be even and at least 2, but is {N}: choose for example 64.")
    A, B = hippo_legs(N)
    # 1. With p[n] = sqrt(n + 1/2), A + p pᵀ = -1/2 I + S and S is skew-symmetric: a normal matrix.
    p = torch.sqrt(torch.arange(N, dtype=torch.float64) + 0.5)
    skew = A + torch.outer(p, p) + 0.5 * torch.eye(N, dtype=torch.float64)
    # 2. -i S is Hermitian. Its eigenvalues are the imaginary parts of Λ, in pairs: keep the negative half.
    frequency, V = torch.linalg.eigh(-1j * skew)
    frequency, V = frequency[: N // 2], V[:, : N // 2]
    # 3. The phase of an eigenvector is free. Choose P real and positive, so that every LAPACK gives the same numbers.
    V = V * torch.sgn(V.mH @ p.to(V.dtype))
    Lambda = torch.complex(torch.full_like(frequency, -0.5), frequency)
    return Lambda, V.mH @ p.to(V.dtype), V.mH @ B.to(V.dtype), V


def dense(Lambda: Tensor, P: Tensor | None, B: Tensor) -> tuple[Tensor, Tensor]:
    """Return `A` = Λ - P P* (..., N, N) and `B` (..., N), written out in the basis `[x, conj x]`."""
    A = torch.diag_embed(_with_conjugates(Lambda))
    if P is not None:
        p = _with_conjugates(P)
        A = A - p.unsqueeze(-1) * p.conj().unsqueeze(-2)
    return A, _with_conjugates(B)


def bilinear(log_dt: Tensor, A: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
    """Return `dA` (channel, N, N) and `dB` (channel, N) of dense `A` and `B` by the definition (Eq. 3)."""
    dt = log_dt.exp()[:, None, None]
    eye = torch.eye(A.shape[-1], dtype=A.dtype)
    right = torch.cat([eye + dt / 2 * A, dt * B.unsqueeze(-1)], dim=-1)
    solved = torch.linalg.solve(eye - dt / 2 * A, right)
    return solved[..., :-1], solved[..., -1]


def recurrence(dA: Tensor, dB: Tensor, C: Tensor, x: Tensor) -> Tensor:
    """Run the sampled model step by step (Eq. 3, without D): the slow definition of the kernels.

    Args:
        dA: (channel, N, N).
        dB: (channel, N).
        C: (channel, N/2).
        x: Input (batch, channel, time).

    Returns:
        y (batch, channel, time). The output for the input 1, 0, 0, ... is the kernel.
    """
    state = torch.zeros(*x.shape[:2], dA.shape[-1], dtype=dA.dtype)
    out = []
    for u in x.unbind(-1):
        state = torch.einsum("hmn,bhn->bhm", dA, state) + dB * u.unsqueeze(-1)
        out.append((_with_conjugates(C) * state).sum(-1).real)
    return torch.stack(out, dim=-1)


class Discrete(NamedTuple):
    """The sampled model in O(N): `dA = diag(pole) - left right*`, each (channel, N/2) complex128."""

    pole: Tensor
    dB: Tensor
    left: Tensor | None = None
    right: Tensor | None = None

    def advance(self, state: Tensor, u: Tensor) -> Tensor:
        """Return the state (batch, channel, N/2) after the input `u` (batch, channel)."""
        after = self.pole * state + self.dB * u.unsqueeze(-1)
        if self.left is None or self.right is None:
            return after
        return after - self.left * _pair_sum(self.right.conj() * state).unsqueeze(-1)


def discretise_dplr(log_dt: Tensor, Lambda: Tensor, P: Tensor, B: Tensor) -> Discrete:
    """Sample Λ - P P* by the bilinear rule (Eq. 3); equals `bilinear(log_dt, *dense(Lambda, P, B))`.

    All arguments are (channel, N/2), `log_dt` is (channel,).
    """
    half, Lambda, P, B = _half_dt(log_dt), _double(Lambda), _double(P), _double(B)
    # 1. The diagonal part of I - Δ/2 A is inverted entry by entry.
    scale = 1 / (1 - half * Lambda)
    # 2. Sherman-Morrison adds the rank-one term: (I - Δ/2 A)⁻¹ = scale - left/2 right*.
    left = 2 * scale * P / (1 / half + _pair_sum(P.abs().square() * scale).unsqueeze(-1))
    right = (scale * P.conj()).conj()
    # 3. B̄ = Δ (I - Δ/2 A)⁻¹ B, and Ā = 2 (I - Δ/2 A)⁻¹ - I.
    dB = 2 * half * (scale * B - left / 2 * _pair_sum(right.conj() * B).unsqueeze(-1))
    return Discrete((1 + half * Lambda) * scale, dB, left, right)


def discretise_diagonal(log_dt: Tensor, Lambda: Tensor, B: Tensor, method: Method) -> Discrete:
    """Sample the diagonal model by zero-order hold ("zoh") or by the "bilinear" rule.

    Zero-order hold: Ā = e^{ΔΛ}, B̄ = (e^{ΔΛ} - 1) / Λ B. `Lambda`, `B` (channel, N/2), `log_dt` (channel,).
    """
    half, Lambda, B = _half_dt(log_dt), _double(Lambda), _double(B)
    if method == "zoh":
        pole = torch.exp(2 * half * Lambda)
        return Discrete(pole, (pole - 1) / Lambda * B)
    if method == "bilinear":
        scale = 1 / (1 - half * Lambda)
        return Discrete((1 + half * Lambda) * scale, 2 * half * scale * B)
    raise ConfigError(f'The sampling method must be "zoh" or "bilinear", but is {method!r}.')


def diagonal_kernel(
    log_dt: Tensor, Lambda: Tensor, B: Tensor, C: Tensor, length: int, method: Method = "zoh"
) -> Tensor:
    """Return the kernel of S4D, K[l] = 2 Re Σ_n C_n B̄_n λ̄_n^l, as (..., channel, length).

    Args:
        log_dt: (channel,).
        Lambda: (channel, N/2).
        B: (channel, N/2).
        C: (channel, N/2), or (direction, channel, N/2).
        length: Number of lags.
        method: How to sample.
    """
    model = discretise_diagonal(log_dt, Lambda, B, method)
    rows = C.reshape(-1, *C.shape[-2:])
    kernel = exponentials(model.pole, rows, model.dB.to(C.dtype).unsqueeze(0), length)
    return kernel[:, 0].reshape(*C.shape[:-1], length)


def dplr_kernel(log_dt: Tensor, Lambda: Tensor, P: Tensor, B: Tensor, C: Tensor, length: int) -> Tensor:
    """Return the kernel of S4, K[l] = Re(C Ā^l B̄), as (..., channel, length).

    Args:
        log_dt: (channel,).
        Lambda: (channel, N/2).
        P: (channel, N/2).
        B: (channel, N/2).
        C: (channel, N/2), or (direction, channel, N/2).
        length: Number of lags, L.

    The derivation follows the paper's Algorithm 1 up to its evaluation:

    1. The kernel's generating function is K(z) = Σ_l K[l] z^l = C (I - z Ā)⁻¹ B̄, over both members of each pair.
    2. The Woodbury identity turns it into four functions of the diagonal part, with Δ / (1 - Δλ/2) inside the k:
           K(z) = k_CB - k_CP g,    g = h k_PB / (1 + h k_PP),    h = (1 + z) / 2.
    3. The paper evaluates this at the roots of unity. There the infinite kernel wraps round, so C must first be
       multiplied by I - Ā^L, which takes N³ log L of dense work in every channel. Here the identity is read as one
       between power series modulo z^L: nothing wraps, and C needs no correction.
    4. The k are kernels of a diagonal model: one real batched product, without Cauchy sums or a complex N x L array.
    5. The quotient is Newton's iteration with FFTs. It is well conditioned: where Re Λ < 0, P*(s - Λ)⁻¹P has a positive
       real part, so |1 + h k_PP| is at least 1 on the unit circle.

    Krylov doubling needs no correction either, but N³ products for Ā^m: at N = 64 it is several times slower, and less
    exact in float32.
    """
    # Step 4: the four k, from the rows C and P* and the columns B and P.
    half, poles = _half_dt(log_dt), _double(Lambda)
    scale = 1 / (1 - half * poles)
    columns = torch.stack([(2 * half * scale * v).to(C.dtype) for v in (B, P)])
    rows = torch.cat([C.reshape(-1, *C.shape[-2:]), P.conj().unsqueeze(0)])
    k = exponentials((1 + half * poles) * scale, rows, columns, length)
    k_CB, k_CP = k[:-1].unbind(1)
    k_PB, k_PP = k[-1]
    # Steps 5 and 2.
    one = F.one_hot(torch.tensor(0), length).to(k)
    g = quotient(_times_h(k_PB), one + _times_h(k_PP))
    return (k_CB - multiply(k_CP, g)).reshape(*C.shape[:-1], length)


def circular_filter(kernel: Tensor, D: Tensor, length: int) -> Tensor:
    """Return the filter for inputs of `length` time steps, (channel, size): lags 0, 1, ..., -2, -1 on a circle.

    Args:
        kernel: (channel, time), or (2, channel, time) for forward K0 and backward K1.
        D: (channel,), added to lag 0.
        length: Time steps of the input.

    y[t] = Σ_{s<=t} K0[t-s] x[s] + Σ_{s>t} K1[s-t-1] x[s] + D x[t]. The backward kernel starts one step ahead, so that
    the present counts once.
    """
    forward = (kernel if kernel.dim() == 2 else kernel[0])[..., :length]
    size = fft_size(2 * length - 1)
    circle = F.pad(forward, (0, size - forward.shape[-1])) + F.pad(D.unsqueeze(-1), (0, size - 1))
    if kernel.dim() == 2:
        return circle
    backward = kernel[1, :, : length - 1].flip(-1)
    return circle + F.pad(backward, (size - backward.shape[-1], 0))


def convolve(x: Tensor, circle: Tensor, spectrum: Tensor | None = None) -> Tensor:
    """Convolve `x` (batch, channel, time) with a `circular_filter`; `spectrum` is its `rfft`, if already known."""
    out: Tensor = _Convolution.apply(x, circle, torch.fft.rfft(circle.detach()) if spectrum is None else spectrum)
    return out


def convolve_spectrum(x: Tensor, spectrum: Tensor, size: int) -> Tensor:
    """Convolve `x` (batch, channel, time) with the filter of `size` lags that has this `rfft`, without gradients.

    It works on a few observations at a time, whose spectra stay in the processor's cache.
    """
    out = torch.empty_like(x)
    chunk = _chunk(spectrum)
    for source, target in zip(x.split(chunk), out.split(chunk), strict=True):
        product = torch.fft.rfft(source, size)
        product *= spectrum
        target.copy_(torch.fft.irfft(product, size)[..., : x.shape[-1]])
    return out


class _Convolution(torch.autograd.Function):
    """Save `x` for the backward pass, not its spectrum, which is twice as large."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor, circle: Tensor, spectrum: Tensor) -> Tensor:
        ctx.save_for_backward(x, spectrum)
        ctx.size = circle.shape[-1]  # type: ignore[attr-defined]
        return convolve_spectrum(x, spectrum, circle.shape[-1])

    @staticmethod
    @once_differentiable
    def backward(ctx: torch.autograd.function.FunctionCtx, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        x, spectrum = ctx.saved_tensors  # type: ignore[attr-defined]
        size: int = ctx.size  # type: ignore[attr-defined]
        adjoint = spectrum.conj().resolve_conj()
        grad_x, grad_spectrum = torch.empty_like(x), torch.zeros_like(adjoint)
        chunk = _chunk(adjoint)
        for grad, source, target in zip(grads[0].split(chunk), x.split(chunk), grad_x.split(chunk), strict=True):
            grad_hat, x_hat = torch.fft.rfft(grad, size), torch.fft.rfft(source, size)
            grad_spectrum += x_hat.conj_physical_().mul_(grad_hat).sum(0)
            target.copy_(torch.fft.irfft(grad_hat.mul_(adjoint), size)[..., : x.shape[-1]])
        return grad_x, torch.fft.irfft(grad_spectrum, size), None


def _times_h(series: Tensor) -> Tensor:
    """Multiply a power series by h = (1 + z) / 2."""
    return (series + F.pad(series, (1, -1))) / 2


def _chunk(spectrum: Tensor) -> int:
    """Return how many observations to convolve at once: about a megabyte of spectra."""
    return max(1, 2**17 // spectrum.numel())


def _half_dt(log_dt: Tensor) -> Tensor:
    return (log_dt.double().exp() / 2).unsqueeze(-1)


def _double(x: Tensor) -> Tensor:
    return x.to(torch.complex128)


def _pair_sum(x: Tensor) -> Tensor:
    """Sum over the state, both members of each conjugate pair: a real number."""
    return 2 * x.real.sum(-1)


def _with_conjugates(x: Tensor) -> Tensor:
    return torch.cat([x, x.conj()], dim=-1)
