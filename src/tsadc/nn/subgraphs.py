"""Subgraphs by random walks with restart, from random numbers that are passed in."""

from __future__ import annotations

import torch
from torch import Tensor


def walk(nearest: Tensor, chance: Tensor, restart: float) -> Tensor:
    """A walk from each node: nearest (..., node, neighbour), chance (..., node, step) from 0 to 1 -> the node at each
    step (..., node, step), -1 where that is where it began. The share `restart` of steps leads back to there."""
    *_, count, neighbours = nearest.shape
    start = torch.arange(count, device=nearest.device).expand(nearest.shape[:-1])
    at, places = start, []
    for one in chance.unbind(-1):
        turn = ((one - restart) / (1 - restart) * neighbours).long().clamp(0, neighbours - 1)
        following = nearest.flatten(-2).gather(-1, at * neighbours + turn)
        at = torch.where(one < restart, start, following)
        places.append(torch.where(at == start, -1, at))
    return torch.stack(places, dim=-1)


def first(met: Tensor, count: int) -> Tensor:
    """The first `count` different ones of (..., step), -1 for none."""
    again = (met.unsqueeze(-1) == met.unsqueeze(-2)).tril(-1).any(-1) | (met < 0)
    order = again.to(torch.int8).sort(dim=-1, stable=True)
    return torch.where(order.values > 0, -1, met.gather(-1, order.indices))[..., :count]


def subgraphs(adjacency: Tensor, inside: Tensor) -> tuple[Tensor, Tensor]:
    """The adjacency (batch, piece, node, node) among the nodes `inside` (batch, view, piece, node, member), -1 for
    none, rows made to sum to 1, and which of the members are there."""
    count, present = adjacency.shape[-1], inside >= 0
    place = inside.clamp_min(0)
    pairs = place.unsqueeze(-1) * count + place.unsqueeze(-2)
    both = present.unsqueeze(-1) & present.unsqueeze(-2)
    graphs = adjacency.flatten(-2).unsqueeze(1).expand(-1, inside.shape[1], -1, -1)
    found = torch.where(both, graphs.gather(-1, pairs.flatten(3)).view(pairs.shape), 0.0)
    return found / found.sum(-1, keepdim=True).clamp_min(1e-6), present
