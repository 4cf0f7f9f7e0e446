"""GRU-GNN: a GRU embeds each variable, and a graph network over the variables reconstructs it from its neighbours.

S. Tang, J. A. Dunnmon, L. Qu, K. K. Saab, T. Baykaner, C. Lee-Messer, D. L. Rubin: Modeling multivariate biosignals
with graph neural networks and structured state space models. CHIL 2023. Implemented: the paper's GraphS4mer with a GRU
in place of S4, one of its baselines.

    name             paper     meaning
    embedding        H         (batch, variable, feature, time): states of a GRU that all variables share
    graphs           n_d       windows of the observation, each with one graph
    nodes            -         mean of the embedding over a window
    adjacency        W         zeta kNN(nodes) + (1 - zeta) softmax(Q K^T / sqrt(feature)), made symmetric
    graph loss       L_reg     smoothness, sparsity and connectivity of the graphs (`tsadc.nn.graph`)
    reconstruction   x-hat     GIN layers (graph isomorphism network) over the embedding, then a linear layer

Deviations (see also docs/detectors.md, "Deviations from the papers"):

- The output is a reconstruction of every step, as in the comparison of the TSAD-C paper; the paper classifies
  recordings.
- Weak edges are not pruned.
- By default a variable is reconstructed from its neighbours only (`own`), so that the network cannot copy its input.
- By default each variable has weights of its own (`identity`) before and after the graph network.
- Inputs are asinh(z). The score of a step is the mean squared error over the variables.

Published settings, read in the authors' repository (tsy935/graphs4mer): model/graphs4mer.py has the GRU in the place of
S4, with as many layers and features; the values are those of scripts/run_tuh.sh for GraphS4mer on the TUSZ corpus (128
features, 4 layers, dropout, graph, learning rate, decay, warm-up, epochs) and of args.py (patience). That script is not
for the GRU, whose own values are unknown to us. Six graphs are those of that script (12000 steps by 2000) and of the
TSAD-C paper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from tsadc.config import require
from tsadc.detectors.residual import NetworkOutput, ResidualDetector, published_training, reconstruction_inference
from tsadc.nn.graph import GIN, AttentionGraph, GraphLossWeights, regulariser, split_windows
from tsadc.nn.inputs import masked_mean, squash
from tsadc.nn.layers import Dropout
from tsadc.nn.stored_names import StoredNames
from tsadc.nn.train import Training
from tsadc.nn.trainable import ObservedBatch
from tsadc.series import Floats

GAIN = 3.0  # of the identity weights: the states of a GRU are small at first


class GRUGNN(ResidualDetector["GRUGNN.Config"]):
    """Detect values that differ from their reconstruction by the embedded past of the neighbouring variables."""

    name: ClassVar[str] = "gru-gnn"

    @dataclass(frozen=True)
    class Config(ResidualDetector.Config):
        """Settings of GRU-GNN.

        Parameters
        ----------
        features
            Size of the GRU states, at least 1.
        layers
            GRU layers, at least 1.
        dropout
            Dropout rate, at least 0 and below 1.
        graphs
            Windows of the observation, each with one graph, at least 1.
        neighbours
            Edges of each variable in the kNN graph, at least 1.
        zeta
            Weight of the kNN graph against the learnt attention graph, at least 0 and below 1.
        gin_layers
            Layers of the graph network, at least 1.
        own
            Let a variable be reconstructed from itself too; if False, from its neighbours only.
        identity
            Give each variable weights of its own before and after the graph network.
        weights
            Weights of the three terms of the graph loss.
        """

        presets: ClassVar[tuple[str, ...]] = ("published", "tiny")

        features: int = 16
        layers: int = 1
        dropout: float = 0.0
        graphs: int = 6
        neighbours: int = 3
        zeta: float = 0.1
        gin_layers: int = 2
        own: bool = False
        identity: bool = True
        weights: GraphLossWeights = field(default_factory=lambda: GraphLossWeights(0.05, 0.05, 0.05))
        training: Training = field(
            default_factory=lambda: Training(
                epochs=10, batch=8, learning_rate=1e-2, warmup_epochs=1, patience=8, weight_decay=1e-3
            )
        )

        def __post_init__(self) -> None:
            super().__post_init__()
            for name in ("features", "layers", "graphs", "neighbours", "gin_layers"):
                require(getattr(self, name) >= 1, name, "at least 1", getattr(self, name))
            require(0 <= self.dropout < 1, "dropout", "at least 0 and below 1", self.dropout)
            require(0 <= self.zeta < 1, "zeta", "at least 0 and below 1", self.zeta)

        @classmethod
        def published(cls) -> Self:
            """Return the settings of GraphS4mer for the EEG of TUSZ."""
            return cls.with_settings(
                scoring="own",
                features=128,
                layers=4,
                dropout=0.1,
                neighbours=2,
                zeta=0.6,
                gin_layers=1,
                own=True,
                identity=False,
                training=published_training(
                    epochs=100, batch=4, learning_rate=8e-4, weight_decay=5e-3, warmup_epochs=5, patience=20
                ),
            )

        @classmethod
        def tiny(cls) -> Self:
            """Return settings that train in seconds: for trying things out, not for results."""
            return cls.with_settings(features=8, graphs=2, gin_layers=1, training={"epochs": 5})

    def _network(self, variables: int) -> Network:
        return Network(self.settings, variables)

    def _make_inference(self) -> Callable[[Floats], NetworkOutput]:
        return reconstruction_inference(lambda x: self.network_(x)[0])


class Network(StoredNames):
    """A GRU over the steps of each variable, then a graph network over the variables of each window."""

    stored_names: ClassVar[Mapping[str, str]] = {"output_weight": "leave_weight", "output_bias": "leave_bias"}

    def __init__(self, config: GRUGNN.Config, variables: int) -> None:
        super().__init__()
        features = config.features
        self.graphs, self.weights = config.graphs, config.weights
        self.gru = nn.GRU(1, features, config.layers, batch_first=True)
        self.dropout = Dropout(config.dropout)
        self.identity = nn.Parameter(0.3 * torch.randn(variables, features, 1)) if config.identity else None
        self.graph = AttentionGraph(features, config.zeta, config.neighbours, symmetric=True)
        self.gin = GIN(features, config.gin_layers, config.dropout, config.own)
        outputs = variables if config.identity else 1
        self.output_weight = nn.Parameter(torch.randn(outputs, features) / features**0.5)
        self.output_bias = nn.Parameter(torch.zeros(outputs))

    def embed(self, x: Tensor) -> Tensor:
        """x (batch, variable, time) -> (batch, variable, feature, time), each variable separately."""
        states, _ = self.gru(x.flatten(0, 1).unsqueeze(-1))
        embedding: Tensor = self.dropout(states).mT.unflatten(0, x.shape[:2])
        return embedding

    def weigh(self, embedding: Tensor) -> Tensor:
        """Multiply the features of each variable by its identity weights, if there are any."""
        if self.identity is None:
            return embedding
        # A graph averages over K variables, which shrinks them by about sqrt(K); uncorrected, learning starts slowly.
        gain = GAIN * float(embedding.shape[1] ** 0.5)
        return embedding * (gain * self.identity)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x (batch, variable, time) -> reconstruction like x, and the graph loss (batch,)."""
        batch, variables, time = x.shape
        embedding = self.embed(x)
        windows = split_windows(embedding, min(self.graphs, time))
        nodes = torch.cat([window.mean(-1) for window in windows])
        adjacency = self.graph(nodes)
        penalty = regulariser(nodes, adjacency, self.weights).view(-1, batch).mean(0)
        weight, bias = self.output_weight.expand(variables, -1), self.output_bias.expand(variables)
        by_window = adjacency.unflatten(0, (-1, batch)).transpose(0, 1)
        return self.gin.read(self.weigh(embedding), by_window, weight, bias), penalty

    def draw(self, x: Tensor, observed: Tensor, generator: torch.Generator) -> ObservedBatch:
        return ObservedBatch(torch.where(observed, squash(x), 0.0), observed)

    def losses(self, batch: ObservedBatch) -> dict[str, Tensor]:
        reconstruction, penalty = self(batch.x)
        error = masked_mean((reconstruction - batch.x).square(), batch.observed)
        return {"reconstruction": error, "graph": penalty}
