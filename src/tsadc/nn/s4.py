"""The S4 layer: a learned state-space convolution along time, mixed across channels. See `ssm` for the mathematics.

Layout is (batch, channel, time) throughout. A one-way layer can also run as a recurrence, for streams.
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
CACHED = 4
T = TypeVar("T")


class StateSpace(nn.Module):
    """The parameters of `channels` independent state-space models, and their kernels.

    "dplr" starts at HiPPO-LegS, sampled by the bilinear rule; "diagonal" at S4D-Lin, λ_n = -1/2 + iπn and B = 1, by
    zero-order hold. dt is log-uniform in [dt_min, dt_max], C complex normal. The reference clips the imaginary part of
    LegS's B at 2; we do not, because the phase of an eigenvector, and with it what is clipped, is arbitrary.

    Complex parameters are stored as pairs of reals, for optimisers and files that know no complex numbers. The real
    part of Λ is -exp(log_decay): the model stays stable whatever the optimiser does.
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
            raise ConfigError(f"The steps need 0 < dt_min <= dt_max, but are {dt_min} and {dt_max}.")
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
        """The kernels (channel, length), or (2, channel, length) for two directions."""
        B, C = torch.view_as_complex(self.B), torch.view_as_complex(self.C)
        if self.P is None:
            kernel = ssm.diagonal_kernel(self.log_dt, self._Lambda(), B, C, length, "zoh")
        else:
            P = torch.view_as_complex(self.P)
            kernel = ssm.dplr_kernel(self.log_dt, self._Lambda(), P, B, C, length)
        return kernel.squeeze(0) if len(kernel) == 1 else kernel

    def discretise(self) -> ssm.Discrete:
        """The sampled model for the recurrence."""
        B = torch.view_as_complex(self.B)
        if self.P is None:
            return ssm.discretise_diagonal(self.log_dt, self._Lambda(), B, "zoh")
        return ssm.discretise_dplr(self.log_dt, self._Lambda(), torch.view_as_complex(self.P), B)

    def _Lambda(self) -> Tensor:
        return torch.complex(-self.log_decay.exp(), self.frequency)


class S4(nn.Module):
    """State-space convolution plus D skip, GELU, pointwise mixing (GLU), dropout, residual, LayerNorm over channels.

    In eval mode without gradients the kernel's spectrum is kept, for a few lengths, beside a copy of the parameters it
    came from. They are compared at each use: no way of changing a parameter can leave a stale kernel.
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
        """`x` (batch, channel, time) -> the same shape; any time length."""
        # The convolution takes as long as all that follows and keeps its input alone: only the rest is made again.
        return recomputed(self._mix, x, self._convolution(x.shape[-1])(x))

    def initial_state(self, batch: int) -> Tensor:
        """The state before the first time step, (batch, channel, N/2) complex128."""
        return torch.zeros(batch, *self.space.frequency.shape, dtype=torch.complex128)

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One time step of a stream: `x` (batch, channel) -> its output, and the state after it.

        Equal to `forward` over the whole stream. The state is float64, so that rounding does not pile up over time.
        """
        if self.bidirectional:
            raise ConfigError("A bidirectional S4 layer needs the future and cannot stream: use bidirectional=False.")
        state = self._kept("recurrence", self.space.discretise).advance(state, x)
        C = torch.view_as_complex(self.space.C[0])
        y = 2 * (C * state).real.sum(-1) + self.D * x
        return self._mix(x.unsqueeze(-1), y.to(x.dtype).unsqueeze(-1)).squeeze(-1), state

    def train(self, mode: bool = True) -> S4:
        self._cache.clear()
        return super().train(mode)

    def filter(self, length: int) -> Tensor:
        """The filter for `length` time steps, D included, as lags on a circle (channel, size)."""
        return ssm.two_sided(self.space(length), self.D, length)

    def filter_parameters(self) -> list[nn.Parameter]:
        """The parameters that `circle` is made from."""
        return [self.D, *self.space.parameters()]

    def _convolution(self, length: int) -> Callable[[Tensor], Tensor]:
        """The convolution of inputs of `length`, its filter made."""
        if self.shared_filter is not None or torch.is_grad_enabled():
            filters = (self.filter(length),) if self.shared_filter is None else self.shared_filter(length)
            return lambda x: ssm.filter_circle(x, *filters)

        def spectrum() -> tuple[Tensor, int]:
            circle = self.filter(length)
            return torch.fft.rfft(circle), circle.shape[-1]

        kept = self._kept(length, spectrum)
        return lambda x: ssm.filter_spectrum(x, *kept)

    def _kept(self, name: object, make: Callable[[], T]) -> T:
        """What `make` returns, from the cache if in eval mode, without gradients and with unchanged parameters."""
        if self.training or torch.is_grad_enabled():
            return make()
        parameters = self.filter_parameters()
        key = (name, self.D.dtype)
        with self._lock:
            copies, value = self._cache.pop(key, ((), None))
            if not copies or not all(map(torch.equal, copies, parameters)):
                copies, value = tuple(p.detach().clone() for p in parameters), make()
            while len(self._cache) >= CACHED:
                del self._cache[next(iter(self._cache))]
            self._cache[key] = copies, value
        kept: T = value
        return kept

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_lock": None, "_cache": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({**state, "_lock": threading.Lock()})

    def _mix(self, x: Tensor, y: Tensor) -> Tensor:
        mixed = mix(F.gelu(y), self.mix_weight, self.mix_bias)
        out: Tensor = self.norm(x + self.dropout(F.glu(mixed, dim=1)))
        return out


def ssm_parameters(module: nn.Module) -> list[nn.Parameter]:
    """The state-space parameters log dt, Λ, P and B of every S4 layer inside `module`.

    They set time scales, not weights: give them a lower learning rate (at most 1e-3) and no weight decay, which would
    pull dt towards 1 and Λ towards zero frequency. C and D are ordinary weights.
    """
    spaces = [part for part in module.modules() if isinstance(part, StateSpace)]
    return [p for space in spaces for name, p in space.named_parameters() if name != "C"]


def _per_channel(x: Tensor, channels: int) -> Tensor:
    return x.to(torch.get_default_dtype()).expand(channels, *x.shape).clone()
