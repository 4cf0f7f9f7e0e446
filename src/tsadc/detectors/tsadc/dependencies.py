"""Module 2, long-range dependencies: time first (S4 per variable), then a graph over the variables of each window.

name            paper     meaning
embedding       H         (batch * variable, feature, time): every variable's own past and future
graphs          d         windows per observation, one graph each
nodes           E^m       mean of the embedding over a window
reconstruction  x-double-hat
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from tsadc.config import require
from tsadc.nn.graph import GIN, AttentionGraph, GraphLossWeights, regulariser, split_windows
from tsadc.nn.layers import Pointwise
from tsadc.nn.s4 import S4, KernelName


class Dependencies(nn.Module):
    """Reconstructs an observation from what its variables tell of themselves and of each other."""

    @dataclass(frozen=True)
    class Config:
        """`own=False` reconstructs each variable from its neighbours alone (its own past only shapes the weights of
        the graph), so that copying the input is no way out;
        `identity` lets the network know which variable it looks at. The paper has neither, and zeta = 0.6. Without
        S4 `layers` nothing is learnt along time, without `gin_layers` nothing between variables: each is then
        reconstructed from itself."""

        features: int = 16
        layers: int = 1
        state: int = 32
        kernel: KernelName = "diagonal"
        dropout: float = 0.0
        graphs: int = 6
        neighbours: int = 3
        zeta: float = 0.1
        gin_layers: int = 2
        symmetric: bool = True
        own: bool = False
        identity: bool = True
        weights: GraphLossWeights = field(default_factory=GraphLossWeights)

        def __post_init__(self) -> None:
            require(self.features >= 1, "features", "at least 1", self.features)
            require(self.layers >= 0, "layers", "zero or more", self.layers)
            require(self.state >= 2 and self.state % 2 == 0, "state", "an even number from 2", self.state)
            require(0 <= self.dropout < 1, "dropout", "from 0 to below 1", self.dropout)
            require(self.graphs >= 1, "graphs", "at least 1", self.graphs)
            require(self.neighbours >= 1, "neighbours", "at least 1", self.neighbours)
            require(0 <= self.zeta < 1, "zeta", "from 0 to below 1", self.zeta)
            require(self.gin_layers >= 0, "gin_layers", "zero or more", self.gin_layers)

    def __init__(self, config: Config, variables: int) -> None:
        super().__init__()
        self.config = config
        features = config.features
        self.lift = Pointwise(1, features)
        self.identity = nn.Parameter(0.1 * torch.randn(variables, features)) if config.identity else None
        self.layers = nn.ModuleList(
            S4(features, state=config.state, kernel=config.kernel, dropout=config.dropout, bidirectional=True)
            for _ in range(config.layers)
        )
        if config.gin_layers:
            self.graph = AttentionGraph(features, config.zeta, config.neighbours, config.symmetric)
            self.gin = GIN(features, config.gin_layers, config.dropout, config.own)
        # With `identity` every variable reads the gathered features in its own way: units and signs differ.
        readers = variables if config.identity else 1
        self.leave_weight = nn.Parameter(torch.randn(readers, features) / features**0.5)
        self.leave_bias = nn.Parameter(torch.zeros(readers))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x (batch, variable, time) -> reconstruction like x, and the graph regulariser (batch,)."""
        variables, time = x.shape[1:]
        embedding = self.embed(x)
        weight, bias = self.leave_weight.expand(variables, -1), self.leave_bias.expand(variables)
        if not self.config.gin_layers:
            read = torch.einsum("bkft,kf->bkt", embedding, weight) + bias.unsqueeze(-1)
            return read, torch.zeros(len(x))
        windows = split_windows(embedding, min(self.config.graphs, time))
        nodes = torch.stack([window.mean(-1) for window in windows], dim=1)
        adjacency = self.graph(nodes.flatten(0, 1))
        penalty = regulariser(nodes.flatten(0, 1), adjacency, self.config.weights).view(len(x), -1).mean(1)
        return self.gin.read(embedding, adjacency.unflatten(0, (len(x), -1)), weight, bias), penalty

    def embed(self, x: Tensor) -> Tensor:
        """x (batch, variable, time) -> (batch, variable, feature, time), each variable by itself, weights shared."""
        batch, variables, time = x.shape
        hidden: Tensor = self.lift(x.reshape(batch * variables, 1, time))
        if self.identity is not None:
            hidden = hidden + self.identity.repeat(batch, 1)[:, :, None]
        for layer in self.layers:
            hidden = layer(hidden)
        return hidden.reshape(batch, variables, -1, time)
