"""The noise process, apart from any network: how noise is added, and how a prediction takes it away again.

    name         paper        meaning
    step         t            diffusion step 1 .. T; step 0 is the clean observation
    beta         beta_t       variance of the noise that step t adds, linear from beta_start to beta_end
    alpha        1 - beta_t
    alpha_bar    alpha-bar_t  product of alpha up to t; alpha_bar of step 0 is 1
    beta_tilde   beta-bar_t   variance of one reverse step (Eq. "sampling")
    prediction                what the network returns: the noise, or the clean observation (`target`)

Tables hold row 0 as well, so `alpha_bar[step]` is the paper's alpha-bar_t without a shift.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

import torch
from torch import Tensor

from tsadc.config import require
from tsadc.errors import ConfigError

Target = Literal["noise", "start"]
Method = Literal["ancestral", "ddim"]
Predict = Callable[[Tensor, Tensor], Tensor]
"""(noisy (batch, ...), step (batch,)) -> prediction (batch, ...)."""
Keep = Callable[[Tensor, int], Tensor]
"""(noisy, the step it stands at) -> noisy, with whatever is known put back."""


class Diffusion:
    """A linear schedule of `steps` steps. A `step` argument is one int for the whole batch, or a tensor (batch,)."""

    @dataclass(frozen=True)
    class Config:
        steps: int = 50
        beta_start: float = 1e-4
        beta_end: float = 0.02
        target: Target = "noise"

        def __post_init__(self) -> None:
            require(self.steps >= 1, "steps", "at least 1", self.steps)
            require(0 < self.beta_start < 1, "beta_start", "between 0 and 1, both excluded", self.beta_start)
            lowest = f"at least beta_start ({self.beta_start}) and below 1"
            require(self.beta_start <= self.beta_end < 1, "beta_end", lowest, self.beta_end)
            if self.target not in get_args(Target):
                raise ConfigError(f"The diffusion target is one of {get_args(Target)}, but it is {self.target!r}.")

    def __init__(self, config: Config | None = None) -> None:
        self.config = config = config or self.Config()
        self.steps, self.target = config.steps, config.target
        beta = torch.zeros(self.steps + 1, dtype=torch.float64)
        beta[1:] = torch.linspace(config.beta_start, config.beta_end, self.steps, dtype=torch.float64)
        alpha_bar = (1 - beta).cumprod(0)
        beta_tilde = beta.clone()  # beta_tilde of step 1 is beta_1 by definition: the formula would give 0
        beta_tilde[2:] *= (1 - alpha_bar[1:-1]) / (1 - alpha_bar[2:])
        self.beta, self.alpha, self.alpha_bar = beta.float(), (1 - beta).float(), alpha_bar.float()
        # Kept in double precision: 1 - alpha_bar of the first steps has three digits left in single precision.
        self._beta, self._beta_tilde = beta, beta_tilde
        self._signal, self._noise = alpha_bar.sqrt(), (1 - alpha_bar).sqrt()

    def noise(self, start: Tensor, step: Tensor | int, noise: Tensor) -> Tensor:
        """x_t = sqrt(alpha_bar_t) x_0 + sqrt(1 - alpha_bar_t) noise."""
        row = self._row(step)
        return _spread(self._signal[row], start) * start + _spread(self._noise[row], start) * noise

    def estimate_start(self, noisy: Tensor, step: Tensor | int, prediction: Tensor) -> Tensor:
        """x_0 in one stride: the paper's estimate of the decontaminated observation when `step` is T."""
        if self.target == "start":
            return prediction
        row = self._row(step)
        return (noisy - _spread(self._noise[row], noisy) * prediction) / _spread(self._signal[row], noisy)

    def estimate_noise(self, noisy: Tensor, step: Tensor | int, prediction: Tensor) -> Tensor:
        """The noise that made x_t, whatever the network predicts."""
        if self.target == "noise":
            return prediction
        row = self._row(step)
        return (noisy - _spread(self._signal[row], noisy) * prediction) / _spread(self._noise[row], noisy)

    def step(self, noisy: Tensor, step: Tensor | int, prediction: Tensor, generator: torch.Generator) -> Tensor:
        """x_{t-1} ~ N(mu, beta_tilde_t), Eq. "sampling".

        Step 1 draws too, with variance beta_1: the paper's inference algorithm samples at every step T .. 1 and sets
        beta_tilde_1 for it. (Most libraries return the mean there. At the paper's beta_1 it is a deviation of 0.01.)
        """
        row = self._row(step)
        noise_hat = self.estimate_noise(noisy, step, prediction)
        weight = _spread(self._beta[row] / self._noise[row], noisy)
        mean = (noisy - weight * noise_hat) / _spread((1 - self._beta[row]).sqrt(), noisy)
        return mean + _spread(self._beta_tilde[row].sqrt(), noisy) * _gaussian(noisy, generator)

    def ddim_step(
        self,
        noisy: Tensor,
        step: Tensor | int,
        previous: Tensor | int,
        prediction: Tensor,
        eta: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """x_s from x_t for any s = `previous` < t = `step` (Song et al. 2021, Eq. 12); `eta` = 0 draws nothing."""
        row, to = self._row(step), self._row(previous, least=0)
        # alpha_bar_s - alpha_bar_t as a difference of noise variances: exact where both alpha_bar are close to 1.
        added = (self._noise[row] ** 2 - self._noise[to] ** 2) / self._signal[to] ** 2
        variance = eta**2 * (self._noise[to] / self._noise[row]) ** 2 * added
        direction = (self._noise[to] ** 2 - variance).clamp_min(0).sqrt()
        start_hat = self.estimate_start(noisy, step, prediction)
        noise_hat = self.estimate_noise(noisy, step, prediction)
        mean = _spread(self._signal[to], noisy) * start_hat + _spread(direction, noisy) * noise_hat
        return mean + _spread(variance.sqrt(), noisy) * _gaussian(noisy, generator) if eta else mean

    def subset(self, count: int) -> tuple[int, ...]:
        """`count` evenly spaced steps, rising, the last of them T."""
        if not 1 <= count <= self.steps:
            raise ConfigError(f"A subset of the {self.steps} diffusion steps has 1 to {self.steps}, not {count}.")
        return tuple((2 * self.steps * i + count) // (2 * count) for i in range(1, count + 1))

    def sample(
        self,
        predict: Predict,
        noisy: Tensor,
        *,
        method: Method = "ancestral",
        steps: int | Sequence[int] | None = None,
        eta: float = 0.0,
        keep: Keep | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """The reverse chain from `noisy` at the highest of `steps` (all: T) down to step 0, without gradients.

        `steps` is a number of evenly spaced steps or the steps themselves, for DDIM only. `keep` is called on the
        first `noisy` and after every step: with noise only where cells are hidden, it puts the observed values back.
        """
        chain = self._chain(method, steps)
        keep = keep or _keep_nothing
        with torch.no_grad():
            noisy = keep(noisy, chain[0])
            for step, previous in pairwise((*chain, 0)):
                prediction = predict(noisy, torch.full((len(noisy),), step))
                if method == "ancestral":
                    noisy = self.step(noisy, step, prediction, _required(generator))
                else:
                    noisy = self.ddim_step(noisy, step, previous, prediction, eta, generator)
                noisy = keep(noisy, previous)
        return noisy

    def _chain(self, method: Method, steps: int | Sequence[int] | None) -> tuple[int, ...]:
        """The steps to visit, falling."""
        if method not in get_args(Method):
            raise ConfigError(f"The sampling method is one of {get_args(Method)}, but it is {method!r}.")
        if method == "ancestral" and steps is not None:
            raise ConfigError('Ancestral sampling visits every step: leave `steps` out, or take method="ddim".')
        chosen = self.subset(self.steps if steps is None else steps) if isinstance(steps, int | None) else tuple(steps)
        if not chosen or len(set(chosen)) < len(chosen) or min(chosen) < 1 or max(chosen) > self.steps:
            raise ConfigError(f"Sampling needs different steps from 1 to {self.steps}, but got {chosen}.")
        return tuple(sorted(chosen, reverse=True))

    def _row(self, step: Tensor | int, least: int = 1) -> Tensor:
        """`step` as an index into the tables."""
        row = torch.as_tensor(step)
        if int(row.min()) < least or int(row.max()) > self.steps:
            raise ValueError(f"Diffusion steps run from {least} to {self.steps}, but got {step}.")
        return row


def _spread(coefficient: Tensor, like: Tensor) -> Tensor:
    """One number per item, shaped to multiply `like` (batch, ...)."""
    return coefficient.reshape(-1, *[1] * (like.ndim - 1)).to(like)


def _gaussian(like: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch.randn(like.shape, generator=_required(generator), dtype=like.dtype)


def _required(generator: torch.Generator | None) -> torch.Generator:
    if generator is None:
        raise ValueError("This way of sampling draws noise, so it needs a torch.Generator.")
    return generator


def _keep_nothing(noisy: Tensor, step: int) -> Tensor:
    return noisy
