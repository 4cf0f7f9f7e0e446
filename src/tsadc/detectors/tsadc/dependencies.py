"""Module 2, long-range variable dependencies: S4 along time per variable, then a graph over the variables per window.

| code | paper | meaning |
|---|---|---|
| `embedding` | H | (batch, variable, feature, time): each variable by itself, with its past and future |
| `graphs` | d | windows per observation, one graph each |
| `nodes` | E^m | mean of the embedding over window m |
| `adjacency` | A^m | the learned graph of window m |
| `penalty` | L_graph | regulariser of the graphs, Eq. 8 |
| `reconstruction` | x̂̂ | output of the GIN, projected |
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
    """Reconstruct an observation from the dependencies within and between its variables."""

    @dataclass(frozen=True)
    class Config:
        """Settings of module 2, the variable dependencies.

        Parameters
        ----------
        features : int, default 16
            Features per variable and time step.
        layers : int, default 1
            S4 layers along time; 0 for none, so that nothing is learned along time.
        state : int, default 32
            State size of S4, an even number of at least 2.
        kernel : {"diagonal", "dplr"}, default "diagonal"
            S4D, or S4 with HiPPO-LegS (diagonal plus low rank), which is slower.
        dropout : float, default 0.0
            Dropout rate, at least 0 and below 1.
        graphs : int, default 6
            Windows per observation; each has a graph of its own.
        neighbours : int, default 3
            Edges per variable in the kNN graph.
        zeta : float, default 0.1
            Share of the kNN graph in the learned graph, at least 0 and below 1 (the paper: 0.6).
        gin_layers : int, default 2
            Layers of the GIN; 0 for none, so that each variable is reconstructed from itself.
        symmetric : bool, default True
            Make the graphs symmetric, so that their smoothness cannot be negative. Not in the paper.
        own : bool, default False
            Let a variable's features take part in its own reconstruction, as in the paper. Without, a variable is
            reconstructed from its neighbours, so that the network cannot copy its input; its own past only shapes the
            weights of the graph.
        identity : bool, default True
            Give each variable an embedding and an output projection of its own. Not in the paper.
        weights : GraphLossWeights
            Weights of the terms of the graph loss.
        """

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
            require(self.state >= 2 and self.state % 2 == 0, "state", "an even number of at least 2", self.state)
            require(0 <= self.dropout < 1, "dropout", "at least 0 and below 1", self.dropout)
            require(self.graphs >= 1, "graphs", "at least 1", self.graphs)
            require(self.neighbours >= 1, "neighbours", "at least 1", self.neighbours)
            require(0 <= self.zeta < 1, "zeta", "at least 0 and below 1", self.zeta)
            require(self.gin_layers >= 0, "gin_layers", "zero or more", self.gin_layers)

    def __init__(self, config: Config, variables: int) -> None:
        super().__init__()
        self.config = config
        features = config.features
        self.value_proj = Pointwise(1, features)
        self.variable_embedding = nn.Parameter(0.1 * torch.randn(variables, features)) if config.identity else None
        self.layers = nn.ModuleList(
            S4(features, state=config.state, kernel=config.kernel, dropout=config.dropout, bidirectional=True)
            for _ in range(config.layers)
        )
        if config.gin_layers:
            self.graph = AttentionGraph(features, config.zeta, config.neighbours, config.symmetric)
            self.gin = GIN(features, config.gin_layers, config.dropout, config.own)
        # With `identity` every variable has an output projection of its own: units and signs differ.
        projections = variables if config.identity else 1
        self.output_weight = nn.Parameter(torch.randn(projections, features) / features**0.5)
        self.output_bias = nn.Parameter(torch.zeros(projections))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the reconstruction of x (batch, variable, time), like x, and the graph loss (batch,)."""
        variables, time = x.shape[1:]
        embedding = self.embed(x)
        weight, bias = self.output_weight.expand(variables, -1), self.output_bias.expand(variables)
        if not self.config.gin_layers:
            reconstruction = torch.einsum("bkft,kf->bkt", embedding, weight) + bias.unsqueeze(-1)
            return reconstruction, torch.zeros(len(x))
        windows = split_windows(embedding, min(self.config.graphs, time))
        nodes = torch.stack([window.mean(-1) for window in windows], dim=1)
        adjacency = self.graph(nodes.flatten(0, 1))
        penalty = regulariser(nodes.flatten(0, 1), adjacency, self.config.weights).view(len(x), -1).mean(1)
        return self.gin.read(embedding, adjacency.unflatten(0, (len(x), -1)), weight, bias), penalty

    def embed(self, x: Tensor) -> Tensor:
        """Embed x (batch, variable, time) as (batch, variable, feature, time), each variable by itself."""
        batch, variables, time = x.shape
        hidden: Tensor = self.value_proj(x.reshape(batch * variables, 1, time))
        if self.variable_embedding is not None:
            hidden = hidden + self.variable_embedding.repeat(batch, 1)[:, :, None]
        for layer in self.layers:
            hidden = layer(hidden)
        return hidden.reshape(batch, variables, -1, time)
