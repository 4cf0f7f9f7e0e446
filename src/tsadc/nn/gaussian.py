"""Independent normal distributions for variational networks."""

from __future__ import annotations

import math
from typing import NamedTuple

from torch import Tensor, addcmul, nn

LOWEST, HIGHEST = -5.0, 2.0  # bounds of log_std
NARROW = -2.0  # log_std at which posteriors start
HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class Gaussian(NamedTuple):
    """One normal distribution per element."""

    mean: Tensor
    log_std: Tensor

    @classmethod
    def clamped(cls, mean: Tensor, log_std: Tensor) -> Gaussian:
        """Return the distribution with `log_std` limited to [LOWEST, HIGHEST]."""
        return cls(mean, log_std.clamp(LOWEST, HIGHEST))

    @classmethod
    def from_output(cls, output: Tensor, dim: int = -1) -> Gaussian:
        """Split a network's output into means (first half along `dim`) and log_stds, and clamp these."""
        return cls.clamped(*output.chunk(2, dim))

    def sample(self, noise: Tensor) -> Tensor:
        """Turn standard normal noise into a sample: mean + std * noise."""
        return addcmul(self.mean, self.log_std.exp(), noise)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density at `value`, element by element."""
        return -0.5 * ((value - self.mean) * (-self.log_std).exp()).square() - self.log_std - HALF_LOG_2PI

    def kl(self, other: Gaussian | None = None) -> Tensor:
        """Return KL(self || other), element by element; `other` is N(0, 1) by default."""
        if other is None:
            return (self.mean.square() + (2 * self.log_std).exp() - 1) / 2 - self.log_std
        distance = (self.mean - other.mean) * (-other.log_std).exp()
        log_ratio = self.log_std - other.log_std
        return ((2 * log_ratio).exp() + distance.square() - 1) / 2 - log_ratio


def init_narrow(layer: nn.Linear | nn.Conv1d) -> None:
    """Start the posterior that `layer` outputs at a small standard deviation, or noise drowns its means at first."""
    assert layer.bias is not None
    nn.init.constant_(layer.bias.detach().chunk(2)[1], NARROW)
