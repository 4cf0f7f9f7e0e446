"""A normalising flow: an invertible map that makes a simple distribution a richer one."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Flow(nn.Module):
    """RealNVP (Dinh et al. 2017): each layer scales and shifts one half of the features as the other half says."""

    def __init__(self, features: int, layers: int, hidden: int) -> None:
        super().__init__()
        self.kept = features // 2
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(self.kept, hidden), nn.ReLU(), nn.Linear(hidden, 2 * (features - self.kept)))
            for _ in range(layers)
        )
        for layer in self.layers:  # at first nothing changes, however many layers there are
            nn.init.zeros_(layer[-1].weight)  # type: ignore[index]
            nn.init.zeros_(layer[-1].bias)  # type: ignore[index]

    def forward(self, value: Tensor) -> tuple[Tensor, Tensor]:
        """value (..., feature) -> the transformed value, and the logarithm of the volume's growth (...)."""
        growth = torch.zeros(value.shape[:-1], device=value.device)
        for layer in self.layers:
            kept, changed = value[..., : self.kept], value[..., self.kept :]
            shift, log_scale = layer(kept).chunk(2, -1)
            log_scale = torch.tanh(log_scale)  # no layer may stretch without bound
            value = torch.cat([changed * log_scale.exp() + shift, kept], -1)
            growth = growth + log_scale.sum(-1)
        return value, growth
