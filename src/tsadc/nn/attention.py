"""Transformer layers, and how a place is told to them."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Attention(nn.Module):
    """A transformer layer along one axis: attention, then two dense layers, each added to what it reads."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.ask, self.answer = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)
        self.dense = nn.Sequential(nn.Linear(channels, 2 * channels), nn.GELU(), nn.Linear(2 * channels, channels))

    def forward(self, x: Tensor) -> Tensor:
        """x (sequence, token, channel) -> the same."""
        asked = self.ask(self.before(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        heard = F.scaled_dot_product_attention(*asked.unbind(0)).transpose(1, 2).flatten(2)
        x = x + self.answer(heard)
        out: Tensor = x + self.dense(self.between(x))
        return out


class Block(nn.Module):
    """Attention over time, then over variables; a gate; out to the next block and to the end (CSDI, Tashiro et al.
    2021)."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.at_step = nn.Linear(2 * channels, channels)
        self.along_time, self.along_variables = Attention(channels, heads), Attention(channels, heads)
        self.know = nn.Linear(channels, 2 * channels)
        self.widen, self.narrow = nn.Linear(channels, 2 * channels), nn.Linear(channels, 2 * channels)

    def forward(self, x: Tensor, step: Tensor, side: Tensor) -> tuple[Tensor, Tensor]:
        """x (batch, variable, token, channel), step (batch, feature), side (variable, token, channel)."""
        shape = x.shape
        hidden = (x + self.at_step(step)[:, None, None]).flatten(0, 1)
        hidden = self.along_time(hidden).view(shape).transpose(1, 2).flatten(0, 1)
        hidden = self.along_variables(hidden).view(shape[0], shape[2], shape[1], shape[3]).transpose(1, 2)
        filtered, gate = (self.widen(hidden) + self.know(side)).chunk(2, -1)
        residual, skip = self.narrow(torch.tanh(filtered) * torch.sigmoid(gate)).chunk(2, -1)
        return (x + residual) / math.sqrt(2.0), skip


def waves(place: Tensor, channels: int) -> Tensor:
    """Sines and cosines (..., channel) of a place, from one turn in 6 to one in 60000."""
    frequency = 1e4 ** -torch.linspace(0, 1, channels // 2, device=place.device)
    angle = place[..., None] * frequency
    return torch.cat([angle.sin(), angle.cos()], dim=-1)
