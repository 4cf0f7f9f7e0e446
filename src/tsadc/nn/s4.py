"""The S4 layer (Gu, Goel, Ré 2022): a learned state-space convolution along time, then mixing across channels.

The layout is (batch, channel, time) throughout; `ssm` has the mathematics. A layer runs in two ways that give the same
output (`tests/nn/test_s4.py::test_streaming_equals_convolution`):

    forward    y = K * x + D x    all time steps at once, by FFT
    step       x[k] = Ā x[k-1] + B̄ u[k], y[k] = Re(C x[k]) + D u[k]    one time step of a stream, one-way layers only

and continues with  x + dropout(GLU(W gelu(y) + b)),  normalised over the channels
(`test_forward_is_the_layer_written_out`).

| code | symbol | shape |
|---|---|---|
| `log_dt` | log Δ | (channel,) |
| `log_decay`, `frequency` | Λ = -exp(log_decay) + i frequency | (channel, N/2) |
| `B`, `P` | B, P | (channel, N/2, 2): real and imaginary parts |
| `C` | C | (direction, channel, N/2, 2) |
| `D` | D | (channel,) |
| `mix_weight`, `mix_bias` | W, b | (2 channel, channel), (2 channel,) |
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any, Literal, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tsadc.errors import ConfigError
from tsadc.nn import ssm
from tsadc.nn.layers import ChannelNorm, Dropout, mix
from tsadc.nn.recompute import recomputed

KernelName = Literal["dplr", "diagonal"]
CACHED = 4  # filters of so many lengths are kept in eval mode
T = TypeVar("T")


class StateSpace(nn.Module):
    """The parameters of independent state-space models, one per channel, and their kernels.

    Args:
        channels: Number of models.
        state: Size N of the state, even.
        directions: 1, or 2 for a forward and a backward kernel, which share all parameters but C.
        kernel: "dplr" (S4) starts at HiPPO-LegS and samples by the bilinear rule. "diagonal" (S4D) starts at S4D-Lin,
            λ_n = -1/2 + iπn and B = 1, and samples by zero-order hold.
        dt_min: Smallest initial time step; steps are log-uniform.
        dt_max: Largest initial time step.
        generator: Source of the initial dt and C, the latter complex normal.

    The reference implementation clips the imaginary part of LegS's B at 2. This one does not: the phase of an
    eigenvector is arbitrary, so it would be arbitrary what is clipped. Complex parameters are stored as pairs of reals,
    for optimisers and files without complex numbers. The real part of Λ is -exp(log_decay), so the model stays stable
    whatever the optimiser does.
    """

    P: nn.Parameter | None

    def __init__(
        self,
        channels: int,
        *,
        state: int = 64,
        directions: int = 1,
        kernel: KernelName = "dplr",
        dt_min: float = 1e-3,
        dt_max: float = 1e-1,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if kernel not in ("dplr", "diagonal"):
            raise ConfigError(f'The kernel of an S4 layer must be "dplr" or "diagonal", but is {kernel!r}.')
        if not 0 < dt_min <= dt_max:
            raise ConfigError(f"The time steps need 0 < dt_min <= dt_max, but are {dt_min} and {dt_max}.")
        Lambda, P, B, _ = ssm.nplr_legs(state)
        if kernel == "diagonal":
            frequency = math.pi * torch.arange(state // 2)
            Lambda, B = torch.complex(torch.full_like(frequency, -0.5), frequency), torch.ones_like(B)
        fraction = torch.rand(channels, generator=generator)
        self.log_dt = nn.Parameter(math.log(dt_min) + fraction * (math.log(dt_max) - math.log(dt_min)))
        self.log_decay = nn.Parameter(_per_channel((-Lambda.real).log(), channels))
        self.frequency = nn.Parameter(_per_channel(Lambda.imag, channels))
        self.B = nn.Parameter(_per_channel(torch.view_as_real(B), channels))
        self.C = nn.Parameter(torch.randn(directions, channels, state // 2, 2, generator=generator) * math.sqrt(0.5))
        low_rank = nn.Parameter(_per_channel(torch.view_as_real(P), channels)) if kernel == "dplr" else None
        self.register_parameter("P", low_rank)

    def forward(self, length: int) -> Tensor:
        """Return the kernels (channel, length), or (2, channel, length) for two directions."""
        B, C = torch.view_as_complex(self.B), torch.view_as_complex(self.C)
        if self.P is None:
            kernel = ssm.diagonal_kernel(self.log_dt, self._Lambda(), B, C, length, "zoh")
        else:
            P = torch.view_as_complex(self.P)
            kernel = ssm.dplr_kernel(self.log_dt, self._Lambda(), P, B, C, length)
        return kernel.squeeze(0) if len(kernel) == 1 else kernel

    def discretise(self) -> ssm.Discrete:
        """Return the sampled model for the recurrence."""
        B = torch.view_as_complex(self.B)
        if self.P is None:
            return ssm.discretise_diagonal(self.log_dt, self._Lambda(), B, "zoh")
        return ssm.discretise_dplr(self.log_dt, self._Lambda(), torch.view_as_complex(self.P), B)

    def _Lambda(self) -> Tensor:
        return torch.complex(-self.log_decay.exp(), self.frequency)


class S4(nn.Module):
    """State-space convolution with skip D, GELU, channel mixing with GLU, dropout, residual, LayerNorm over channels.

    Args:
        channels: Channels of input and output.
        state: Size N of the state, even.
        bidirectional: Whether the output depends on the future too.
        kernel: "dplr" (S4) or "diagonal" (S4D).
        dropout: Share of cells dropped in training.
        dt_min: Smallest initial time step.
        dt_max: Largest initial time step.
        generator: Source of the initial weights; None is torch's global one.

    In eval mode without gradients the filter's spectrum is cached, for a few lengths, with a copy of its parameters.
    They are compared at each use, so that no way of changing a parameter can leave a stale filter.
    """

    def __init__(
        self,
        channels: int,
        *,
        state: int = 64,
        bidirectional: bool = True,
        kernel: KernelName = "dplr",
        dropout: float = 0.0,
        dt_min: float = 1e-3,
        dt_max: float = 1e-1,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.bidirectional = bidirectional
        self.space = StateSpace(
            channels,
            state=state,
            directions=2 if bidirectional else 1,
            kernel=kernel,
            dt_min=dt_min,
            dt_max=dt_max,
            generator=generator,
        )
        self.D = nn.Parameter(torch.randn(channels, generator=generator))
        bound = 1 / math.sqrt(channels)
        self.mix_weight = nn.Parameter(torch.empty(2 * channels, channels).uniform_(-bound, bound, generator=generator))
        self.mix_bias = nn.Parameter(torch.empty(2 * channels).uniform_(-bound, bound, generator=generator))
        self.dropout = Dropout(dropout)
        self.norm = ChannelNorm(channels)
        self.shared_filter: Callable[[int], tuple[Tensor, Tensor]] | None = None  # see `shared_filters`
        self.filter_lengths: list[int] = []
        self._cache: dict[object, tuple[tuple[Tensor, ...], Any]] = {}
        self._lock = threading.Lock()

    def forward(self, x: Tensor) -> Tensor:
        """Map x (batch, channel, time) to the same shape; any time length."""
        # The convolution takes as long as the rest and saves only its input, so only the rest is worth recomputing.
        return recomputed(self._mix, x, self._convolution(x.shape[-1])(x))

    def initial_state(self, batch: int) -> Tensor:
        """Return the state before the first time step, (batch, channel, N/2) complex128."""
        return torch.zeros(batch, *self.space.frequency.shape, dtype=torch.complex128)

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Process one time step of a stream.

        Args:
            x: (batch, channel).
            state: The state before, (batch, channel, N/2).

        Returns:
            The output (batch, channel), equal to that of `forward` over the whole stream, and the state after the step.
            The state is complex128, so that rounding does not pile up over time.
        """
        if self.bidirectional:
            raise ConfigError("A bidirectional S4 layer needs the future and cannot stream: use bidirectional=False.")
        state = self._cached("recurrence", self.space.discretise).advance(state, x)
        C = torch.view_as_complex(self.space.C[0])
        y = 2 * (C * state).real.sum(-1) + self.D * x
        return self._mix(x.unsqueeze(-1), y.to(x.dtype).unsqueeze(-1)).squeeze(-1), state

    def train(self, mode: bool = True) -> S4:
        self._cache.clear()
        return super().train(mode)

    def filter(self, length: int) -> Tensor:
        """Return the filter for `length` time steps, D included, as lags on a circle (channel, size)."""
        return ssm.circular_filter(self.space(length), self.D, length)

    def filter_parameters(self) -> list[nn.Parameter]:
        """Return the parameters that `filter` depends on."""
        return [self.D, *self.space.parameters()]

    def _convolution(self, length: int) -> Callable[[Tensor], Tensor]:
        """Return the convolution for inputs of `length`, with its filter computed, shared or cached."""
        if self.shared_filter is not None:
            circle, spectrum = self.shared_filter(length)
            return lambda x: ssm.convolve(x, circle, spectrum)
        if torch.is_grad_enabled():
            circle = self.filter(length)
            return lambda x: ssm.convolve(x, circle)

        def compute() -> tuple[Tensor, int]:
            circle = self.filter(length)
            return torch.fft.rfft(circle), circle.shape[-1]

        spectrum, size = self._cached(length, compute)
        return lambda x: ssm.convolve_spectrum(x, spectrum, size)

    def _cached(self, name: object, compute: Callable[[], T]) -> T:
        """Return `compute()`; in eval mode without gradients, from the cache unless parameters have changed."""
        if self.training or torch.is_grad_enabled():
            return compute()
        parameters = self.filter_parameters()
        key = (name, self.D.dtype)
        with self._lock:
            copies, value = self._cache.pop(key, ((), None))
            if not copies or not all(map(torch.equal, copies, parameters)):
                copies, value = tuple(parameter.detach().clone() for parameter in parameters), compute()
            while len(self._cache) >= CACHED:
                del self._cache[next(iter(self._cache))]
            self._cache[key] = copies, value
        cached: T = value
        return cached

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_lock": None, "_cache": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({**state, "_lock": threading.Lock()})

    def _mix(self, x: Tensor, y: Tensor) -> Tensor:
        mixed = mix(F.gelu(y), self.mix_weight, self.mix_bias)
        out: Tensor = self.norm(x + self.dropout(F.glu(mixed, dim=1)))
        return out


def ssm_parameters(module: nn.Module) -> list[nn.Parameter]:
    """Return the parameters log dt, Λ, P and B of every S4 layer inside `module`.

    They are time scales rather than weights: give them a lower learning rate (at most 1e-3) and no weight decay, which
    would pull dt towards 1 and Λ towards zero frequency. C and D are ordinary weights.
    """
    spaces = [inner for inner in module.modules() if isinstance(inner, StateSpace)]
    return [parameter for space in spaces for name, parameter in space.named_parameters() if name != "C"]


def _per_channel(x: Tensor, channels: int) -> Tensor:
    return x.to(torch.get_default_dtype()).expand(channels, *x.shape).clone()
