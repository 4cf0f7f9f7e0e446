"""The noise process of a diffusion model, apart from any network: add noise, and take it away with a prediction.

Formulas are those of Ho, Jain, Abbeel 2020 (DDPM) and Song, Meng, Ermon 2021 (DDIM); TSAD-C uses the first in its
Eqs. 1 to 3 and 7.

| code | symbol | meaning |
|---|---|---|
| `step` | t | diffusion step 1 .. T; step 0 is the clean observation |
| `start` | x_0 | the clean observation |
| `noisy` | x_t | the observation at step t |
| `beta` | β_t | variance of the noise that step t adds, linear from beta_start to beta_end |
| `alpha` | α_t | 1 - β_t |
| `alpha_bar` | ᾱ_t | product of α up to t; ᾱ_0 = 1 |
| `beta_tilde` | β̃_t (TSAD-C: β̄_t) | variance of one reverse step, DDPM Eq. 7 |
| `prediction` | ε_θ or x_θ | the network's output: the noise, or the clean observation (`target`) |

Tables hold step 0 as well, so `alpha_bar[step]` is ᾱ_t without a shift.
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
"""(noisy, its step) -> noisy, with known values put back."""


class Diffusion:
    """A linear noise schedule. A `step` argument is one int for the whole batch, or a tensor (batch,)."""

    @dataclass(frozen=True)
    class Config:
        """Settings of the noise process.

        Parameters
        ----------
        steps : int, default 50
            Number of diffusion steps, T.
        beta_start : float, default 1e-4
            Variance of the noise that the first step adds.
        beta_end : float, default 0.02
            Variance of the noise that step T adds. Larger values leave less of the signal at step T.
        target : {"noise", "start"}, default "noise"
            What the network predicts: the noise, or the clean observation.
        """

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
        beta_tilde = beta.clone()  # β̃_1 = β_1 by definition; the formula would give 0
        beta_tilde[2:] *= (1 - alpha_bar[1:-1]) / (1 - alpha_bar[2:])
        self.beta, self.alpha, self.alpha_bar = beta.float(), (1 - beta).float(), alpha_bar.float()
        # In double precision: in single precision 1 - ᾱ of the first steps has three digits left.
        self._beta, self._beta_tilde = beta, beta_tilde
        self._signal, self._noise = alpha_bar.sqrt(), (1 - alpha_bar).sqrt()

    def add_noise(self, start: Tensor, step: Tensor | int, noise: Tensor) -> Tensor:
        """Return x_t = sqrt(ᾱ_t) x_0 + sqrt(1 - ᾱ_t) ε, DDPM Eq. 4.

        Args:
            start: x_0 (batch, ...).
            step: t, from 1 to T.
            noise: ε ~ N(0, 1), like `start`.

        Returns:
            x_t, like `start`.
        """
        row = self._row(step)
        return _expand(self._signal[row], start) * start + _expand(self._noise[row], start) * noise

    def estimate_start(self, noisy: Tensor, step: Tensor | int, prediction: Tensor) -> Tensor:
        """Return the estimate of x_0 from x_t: (x_t - sqrt(1 - ᾱ_t) ε_θ) / sqrt(ᾱ_t), DDPM Eq. 15.

        With `step` T this is TSAD-C's estimate of the decontaminated observation in training, its Eq. 7.

        Args:
            noisy: x_t (batch, ...).
            step: t, from 1 to T.
            prediction: The network's output for x_t, like `noisy`.

        Returns:
            x_0, like `noisy`; the prediction itself if the target is "start".
        """
        if self.target == "start":
            return prediction
        row = self._row(step)
        return (noisy - _expand(self._noise[row], noisy) * prediction) / _expand(self._signal[row], noisy)

    def estimate_noise(self, noisy: Tensor, step: Tensor | int, prediction: Tensor) -> Tensor:
        """Return the estimate of the noise in x_t: the inverse of `estimate_start`, with the same arguments."""
        if self.target == "noise":
            return prediction
        row = self._row(step)
        return (noisy - _expand(self._signal[row], noisy) * prediction) / _expand(self._noise[row], noisy)

    def reverse_step(self, noisy: Tensor, step: Tensor | int, prediction: Tensor, generator: torch.Generator) -> Tensor:
        """Draw x_{t-1} ~ N(μ_θ, β̃_t): one step of DDPM's Algorithm 2 and of TSAD-C's Eq. 3.

        Step 1 draws too, with variance β_1: TSAD-C's Algorithm 2 samples at every step T .. 1 and sets β̃_1 for it. Most
        libraries return the mean there. At the paper's β_1 it is a standard deviation of 0.01.

        Args:
            noisy: x_t (batch, ...).
            step: t, from 1 to T.
            prediction: The network's output for x_t, like `noisy`.
            generator: Source of the noise.

        Returns:
            x_{t-1}, like `noisy`.
        """
        row = self._row(step)
        # 1. Estimate the noise, whichever of the two targets the network predicts.
        noise_hat = self.estimate_noise(noisy, step, prediction)
        # 2. μ_θ = (x_t - β_t / sqrt(1 - ᾱ_t) ε_θ) / sqrt(α_t), DDPM Eq. 11.
        weight = _expand(self._beta[row] / self._noise[row], noisy)
        mean = (noisy - weight * noise_hat) / _expand((1 - self._beta[row]).sqrt(), noisy)
        # 3. Add noise of variance β̃_t = (1 - ᾱ_{t-1}) / (1 - ᾱ_t) β_t, DDPM Eq. 7.
        return mean + _expand(self._beta_tilde[row].sqrt(), noisy) * _gaussian(noisy, generator)

    def ddim_step(
        self,
        noisy: Tensor,
        step: Tensor | int,
        previous: Tensor | int,
        prediction: Tensor,
        eta: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Return x_s from x_t for any s < t, DDIM Eq. 12.

        Args:
            noisy: x_t (batch, ...).
            step: t, from 1 to T.
            previous: s, from 0 to t - 1.
            prediction: The network's output for x_t, like `noisy`.
            eta: 0 draws nothing; 1 draws as much noise as `reverse_step` does.
            generator: Source of the noise; needed if `eta` is not 0.

        Returns:
            x_s, like `noisy`.
        """
        row, to = self._row(step), self._row(previous, least=0)
        # 1. σ² = η² (1 - ᾱ_s) / (1 - ᾱ_t) (1 - ᾱ_t / ᾱ_s), DDIM Eq. 16. The last factor is a difference of noise
        #    variances here, which is exact where both ᾱ are close to 1.
        added = (self._noise[row] ** 2 - self._noise[to] ** 2) / self._signal[to] ** 2
        variance = eta**2 * (self._noise[to] / self._noise[row]) ** 2 * added
        # 2. Predicted x_0, and the direction that points to x_t with weight sqrt(1 - ᾱ_s - σ²).
        direction = (self._noise[to] ** 2 - variance).clamp_min(0).sqrt()
        start_hat = self.estimate_start(noisy, step, prediction)
        noise_hat = self.estimate_noise(noisy, step, prediction)
        mean = _expand(self._signal[to], noisy) * start_hat + _expand(direction, noisy) * noise_hat
        # 3. Random noise.
        return mean + _expand(variance.sqrt(), noisy) * _gaussian(noisy, generator) if eta else mean

    def subset(self, count: int) -> tuple[int, ...]:
        """Return `count` evenly spaced steps in ascending order; the last one is T."""
        if not 1 <= count <= self.steps:
            raise ConfigError(f"The number of diffusion steps to visit must be from 1 to {self.steps}, but is {count}.")
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
        """Run the reverse chain down to step 0, without gradients.

        Args:
            predict: The network.
            noisy: x at the highest of `steps` (batch, ...).
            method: "ancestral" visits all steps T .. 1 by `reverse_step`; "ddim" visits `steps` by `ddim_step`.
            steps: For DDIM: the number of evenly spaced steps, or the steps themselves; None takes all.
            eta: For DDIM: see `ddim_step`.
            keep: Called on the first `noisy` and after every step; it puts back the values that are known.
            generator: Source of the noise; needed unless the chain draws nothing.

        Returns:
            x_0, like `noisy`.
        """
        chain = self._chain(method, steps)
        keep = keep or _keep_nothing
        with torch.no_grad():
            noisy = keep(noisy, chain[0])
            for step, previous in pairwise((*chain, 0)):
                prediction = predict(noisy, torch.full((len(noisy),), step))
                if method == "ancestral":
                    noisy = self.reverse_step(noisy, step, prediction, _required(generator))
                else:
                    noisy = self.ddim_step(noisy, step, previous, prediction, eta, generator)
                noisy = keep(noisy, previous)
        return noisy

    def _chain(self, method: Method, steps: int | Sequence[int] | None) -> tuple[int, ...]:
        """Return the steps to visit in descending order."""
        if method not in get_args(Method):
            raise ConfigError(f"The sampling method is one of {get_args(Method)}, but it is {method!r}.")
        if method == "ancestral" and steps is not None:
            raise ConfigError('Ancestral sampling visits every step: leave out `steps`, or choose method="ddim".')
        chosen = self.subset(self.steps if steps is None else steps) if isinstance(steps, int | None) else tuple(steps)
        if not chosen or len(set(chosen)) < len(chosen) or min(chosen) < 1 or max(chosen) > self.steps:
            raise ConfigError(f"Sampling needs different steps from 1 to {self.steps}, but got {chosen}.")
        return tuple(sorted(chosen, reverse=True))

    def _row(self, step: Tensor | int, least: int = 1) -> Tensor:
        """Return `step` as an index into the tables."""
        row = torch.as_tensor(step)
        if int(row.min()) < least or int(row.max()) > self.steps:
            raise ValueError(f"Diffusion steps run from {least} to {self.steps}, but got {step}.")
        return row


def _expand(coefficient: Tensor, like: Tensor) -> Tensor:
    """Reshape one number per observation so that it multiplies `like` (batch, ...)."""
    return coefficient.reshape(-1, *[1] * (like.ndim - 1)).to(like)


def _gaussian(like: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch.randn(like.shape, generator=_required(generator), dtype=like.dtype)


def _required(generator: torch.Generator | None) -> torch.Generator:
    if generator is None:
        raise ValueError("This sampling method draws noise, so it needs a torch.Generator.")
    return generator


def _keep_nothing(noisy: Tensor, step: int) -> Tensor:
    return noisy
