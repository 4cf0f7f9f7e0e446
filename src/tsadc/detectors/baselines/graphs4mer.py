"""GraphS4mer: S4 along time for each variable, a learnt graph per window, and a graph network over its nodes.

S. Tang, J. A. Dunnmon, L. Qu, K. K. Saab, T. Baykaner, C. Lee-Messer, D. L. Rubin: Modeling multivariate biosignals
with graph neural networks and structured state space models. CHIL 2023. Implemented: the network and the graph
regularisers, with a reconstruction in place of the classifier.

    name        paper        meaning
    embedding   H            (batch, variable, feature, time): output of S4 for each variable, with shared weights
    window      r            steps per graph (its resolution)
    nodes       h^(t)        (batch, variable, feature, window): mean of the embedding over each window
    adjacency   W^(t)        zeta kNN + (1 - zeta) attention, made symmetric, weak edges pruned
    zeta        epsilon      weight of the kNN graph
    prune       kappa        edges with a smaller weight are removed
    weights     alpha, beta, gamma   of the regularisers: smoothness, degree, sparsity

Deviations (see also docs/detectors.md, "Deviations from the papers"):

- A linear layer reconstructs the steps of each window from its nodes, so that pooling is the bottleneck. The paper
  pools once more over variables and windows and classifies.
- Inputs and reconstruction errors are in asinh(z).
- A node is not among its own neighbours (see `tsadc.nn.graph`).

Published settings, read in the authors' repository (tsy935/graphs4mer: scripts/run_tuh.sh, for the TUSZ corpus): sizes,
graph, regularisers, AdamW with its learning rate, decay, warm-up and cosine schedule; the patience in args.py. The
scaling of the data is not in that script.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tsadc.config import require
from tsadc.detectors.residual import NetworkOutput, ResidualDetector, published_training, reconstruction_inference
from tsadc.nn.graph import GIN, AttentionGraph, GraphLossWeights, regulariser, split_windows
from tsadc.nn.inputs import masked_mean, squash
from tsadc.nn.layers import Pointwise
from tsadc.nn.s4 import S4, KernelName, ssm_parameters
from tsadc.nn.stored_names import StoredNames
from tsadc.nn.train import Training, parameter_groups
from tsadc.nn.trainable import ObservedBatch
from tsadc.series import Floats


class GraphS4mer(ResidualDetector["GraphS4mer.Config"]):
    """Detect values that differ from the reconstruction of their window by its pooled nodes and their graph."""

    name: ClassVar[str] = "graphs4mer"

    @dataclass(frozen=True)
    class Config(ResidualDetector.Config):
        """Settings of GraphS4mer.

        Parameters
        ----------
        features
            Features per step and node, at least 1.
        layers
            S4 layers, at least 1.
        state
            State size of S4, an even number of at least 2.
        kernel
            Parametrisation of S4: "diagonal" (S4D) or "dplr" (diagonal plus low rank, as first published).
        bidirectional
            Run S4 forwards and backwards.
        dropout
            Dropout rate, at least 0 and below 1.
        window
            Most steps per graph: an observation is cut into windows of equal length, up to one step.
        neighbours
            Edges of each variable in the kNN graph, at least 1.
        zeta
            Weight of the kNN graph against the learnt attention graph, at least 0 and below 1.
        prune
            Edges with a smaller weight are removed, at least 0 and below 1.
        gin_layers
            Layers of the graph network, at least 1.
        weights
            Weights of the three terms of the graph loss.
        """

        presets: ClassVar[tuple[str, ...]] = ("published", "tiny")

        features: int = 24
        layers: int = 1
        state: int = 32
        kernel: KernelName = "diagonal"
        bidirectional: bool = True
        dropout: float = 0.0
        window: int = 20
        neighbours: int = 2
        zeta: float = 0.6
        prune: float = 0.02
        gin_layers: int = 1
        weights: GraphLossWeights = field(
            default_factory=lambda: GraphLossWeights(smooth=0.05, sparse=0.05, connect=0.05)
        )
        training: Training = field(
            default_factory=lambda: Training(
                epochs=12, batch=8, learning_rate=4e-3, ssm_learning_rate=1e-3, warmup_epochs=1, patience=8, ema=0.99
            )
        )

        def __post_init__(self) -> None:
            super().__post_init__()
            for name in ("features", "layers", "window", "neighbours", "gin_layers"):
                require(getattr(self, name) >= 1, name, "at least 1", getattr(self, name))
            require(self.state >= 2 and self.state % 2 == 0, "state", "an even number of at least 2", self.state)
            require(0 <= self.dropout < 1, "dropout", "at least 0 and below 1", self.dropout)
            require(0 <= self.zeta < 1, "zeta", "at least 0 and below 1", self.zeta)
            require(0 <= self.prune < 1, "prune", "at least 0 and below 1", self.prune)

        @classmethod
        def published(cls) -> Self:
            """Return the settings for TUSZ; a graph covers a sixth of an observation (there 2000 of 12000 steps)."""
            return cls.with_settings(
                scoring="own",
                scaler={"method": "standard", "scope": "pooled"},
                features=128,
                layers=4,
                state=64,
                kernel="dplr",
                bidirectional=False,
                dropout=0.1,
                window=100,
                neighbours=2,
                zeta=0.6,
                prune=0.1,
                gin_layers=1,
                weights={"smooth": 0.05, "sparse": 0.05, "connect": 0.05},
                training=published_training(
                    epochs=100,
                    batch=4,
                    micro_batch=1,
                    learning_rate=8e-4,
                    weight_decay=5e-3,
                    warmup_epochs=5,
                    patience=20,
                ),
            )

        @classmethod
        def tiny(cls) -> Self:
            """Return settings that train in seconds: for trying things out, not for results."""
            return cls.with_settings(features=8, state=8, window=8, training={"epochs": 5, "learning_rate": 1e-2})

    def _network(self, variables: int) -> Network:
        return Network(self.settings)

    def _make_inference(self) -> Callable[[Floats], NetworkOutput]:
        return reconstruction_inference(lambda x: self.network_(x)[0])


class Network(StoredNames):
    """Reconstruct the steps of each window from its nodes."""

    stored_names: ClassVar[Mapping[str, str]] = {"input_proj": "lift", "output_proj": "leave"}

    def __init__(self, config: GraphS4mer.Config) -> None:
        super().__init__()
        self.config = config
        features = config.features
        self.input_proj = Pointwise(1, features)
        self.layers = nn.ModuleList(
            S4(
                features,
                state=config.state,
                kernel=config.kernel,
                dropout=config.dropout,
                bidirectional=config.bidirectional,
            )
            for _ in range(config.layers)
        )
        self.graph = AttentionGraph(features, config.zeta, config.neighbours, symmetric=True)
        self.gin = GIN(features, config.gin_layers, config.dropout)
        self.output_proj = Pointwise(features, config.window)

    def draw(self, x: Tensor, observed: Tensor, generator: torch.Generator) -> ObservedBatch:
        return ObservedBatch(torch.where(observed, squash(x), 0.0), observed)

    def losses(self, batch: ObservedBatch) -> dict[str, Tensor]:
        """Return the mean squared error of measured cells, and the regulariser of the graphs."""
        x = batch.x
        reconstruction, nodes, adjacency = self(x)
        error = masked_mean((x - reconstruction).square(), batch.observed)
        graphs = nodes.permute(0, 3, 1, 2).flatten(0, 1)
        penalty = regulariser(graphs, adjacency.flatten(0, 1), self.config.weights).view(len(x), -1).mean(1)
        return {"reconstruction": error, "graph": penalty}

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x (batch, variable, time) -> reconstruction like x, nodes (batch, variable, feature, window), adjacency
        (batch, window, variable, variable)."""
        batch, variables, time = x.shape
        count = -(-time // min(self.config.window, time))
        windows = split_windows(self.embed(x), count)
        nodes = torch.stack([window.mean(-1) for window in windows], dim=-1)
        adjacency = self.adjacency(nodes)
        hidden = F.leaky_relu(self.gin(nodes, adjacency)) + nodes
        steps = self.output_proj(hidden.flatten(0, 1)).view(batch, variables, -1, count)
        # Windows may differ in length by one step; a shorter window drops its last output.
        parts = [steps[..., : window.shape[-1], i] for i, window in enumerate(windows)]
        return torch.cat(parts, dim=-1), nodes, adjacency

    def embed(self, x: Tensor) -> Tensor:
        """x (batch, variable, time) -> (batch, variable, feature, time), each variable separately."""
        hidden: Tensor = self.input_proj(x.flatten(0, 1).unsqueeze(1))
        for layer in self.layers:
            hidden = layer(hidden)
        return hidden.reshape(*x.shape[:2], -1, x.shape[-1])

    def adjacency(self, nodes: Tensor) -> Tensor:
        """nodes (batch, variable, feature, window) -> one symmetric, pruned graph per window."""
        batch, _, _, count = nodes.shape
        dense: Tensor = self.graph(nodes.permute(0, 3, 1, 2).flatten(0, 1))
        return torch.where(dense >= self.config.prune, dense, 0.0).view(batch, count, *dense.shape[1:])

    def parameter_groups(self, config: Training) -> list[dict[str, Any]]:
        return parameter_groups(self, config, ssm_parameters(self))
