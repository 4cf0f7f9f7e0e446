"""Independent normal distributions, as variational networks infer and expect them."""

from __future__ import annotations

import math
from typing import NamedTuple

from torch import Tensor, addcmul, nn

LOWEST, HIGHEST = -5.0, 2.0  # of the logarithm of any standard deviation
NARROW = -2.0  # the logarithm of the standard deviation that posteriors begin with
HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class Gaussian(NamedTuple):
    """One distribution per element; what a network says of `log_std` is held in [LOWEST, HIGHEST]."""

    mean: Tensor
    log_std: Tensor

    @classmethod
    def held(cls, mean: Tensor, log_std: Tensor) -> Gaussian:
        return cls(mean, log_std.clamp(LOWEST, HIGHEST))

    @classmethod
    def of(cls, both: Tensor, dim: int = -1) -> Gaussian:
        """Means and log_stds, one after the other along `dim`."""
        return cls.held(*both.chunk(2, dim))

    def at(self, noise: Tensor) -> Tensor:
        """The sample that standard normal noise stands for."""
        return addcmul(self.mean, self.log_std.exp(), noise)

    def log_prob(self, value: Tensor) -> Tensor:
        return -0.5 * ((value - self.mean) * (-self.log_std).exp()).square() - self.log_std - HALF_LOG_2PI

    def divergence(self, other: Gaussian | None = None) -> Tensor:
        """KL of this from `other`, by default from N(0, 1), element by element."""
        if other is None:
            return (self.mean.square() + (2 * self.log_std).exp() - 1) / 2 - self.log_std
        apart = (self.mean - other.mean) * (-other.log_std).exp()
        growth = self.log_std - other.log_std
        return ((2 * growth).exp() + apart.square() - 1) / 2 - growth


def begin_narrow(layer: nn.Linear | nn.Conv1d) -> None:
    """Start a posterior so narrow that its samples carry its means; else noise drowns them before they are learnt."""
    assert layer.bias is not None
    nn.init.constant_(layer.bias.detach().chunk(2)[1], NARROW)
