"""GAE: an autoencoder of graph convolutions over a learnt graph of the variables.

X. Du, J. Yu, Z. Chu, L. Jin, J. Chen: Graph autoencoder-based unsupervised outlier detection. Information Sciences 608,
2022. Implemented: an encoder and a decoder of graph convolutions that reconstruct the features of each node; the error
is the score.

    name                paper    meaning
    nodes               X        (batch, window, variable, feature): first the `window` values of each variable, at the
                                 bottleneck `widths[-1]` numbers
    adjacency           A        (variable, variable), rows sum to 1: (I + softmax(target . source embeddings)) / 2
    target_embedding    -        (variable, feature): learnt, of a variable as the target of an edge
    source_embedding    -        (variable, feature): learnt, of a variable as the source of an edge
    graph_convolution   -        f(A X W + b): mix the features of each variable with those of its neighbours

Deviations (see also docs/detectors.md, "Deviations from the papers"):

- Nodes are the variables of a window and the graph is learnt, as in the comparison of the TSAD-C paper. The paper's
  nodes are the rows of a table, in a given graph of nearest neighbours.
- The target is the window itself, not its graph convolution, so that an error belongs to one variable and step.
- AdamW instead of gradient descent with its own step rule.
- Inputs are asinh(z). The score of a step is the mean squared error over the variables.

Published settings, read in a copy of the authors' code (GAE_DXS_LeakyReLU__XZ.m, for the data set WBC) in a repository
of others: one hidden layer of 2 units, 100 epochs, slope 0.25. Their tables have no windows and their learning rate
belongs to another optimiser: window, learning rate, batch and embedding size are the default's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from tsadc.config import require
from tsadc.detectors.residual import NetworkOutput, ResidualDetector, published_training, reconstruction_inference
from tsadc.nn.inputs import masked_mean, squash
from tsadc.nn.patches import cut_patches, join_patches
from tsadc.nn.stored_names import StoredNames
from tsadc.nn.train import Training
from tsadc.nn.trainable import ObservedBatch
from tsadc.series import Floats

SLOPE = 0.25  # of the leaky ReLU for negative inputs, as in the published code


class GAE(ResidualDetector["GAE.Config"]):
    """Detect values that differ from their reconstruction by a graph-convolutional autoencoder over a learnt graph."""

    name: ClassVar[str] = "gae"

    @dataclass(frozen=True)
    class Config(ResidualDetector.Config):
        """Settings of GAE.

        Parameters
        ----------
        window
            Steps per window, at least 2.
        widths
            Features per variable after each layer of the encoder; the decoder has them in reverse.
        embedding
            Size of the two embeddings of each variable that define the learnt graph, at least 1.
        """

        presets: ClassVar[tuple[str, ...]] = ("published", "tiny")

        window: int = 30
        widths: tuple[int, ...] = (32, 8)
        embedding: int = 16
        training: Training = field(
            default_factory=lambda: Training(
                epochs=30, batch=16, learning_rate=3e-3, warmup_epochs=2, patience=10, weight_decay=1e-3
            )
        )

        def __post_init__(self) -> None:
            super().__post_init__()
            require(self.window >= 2, "window", "at least 2", self.window)
            require(
                len(self.widths) > 0 and min(self.widths) >= 1, "widths", "one or more sizes of at least 1", self.widths
            )
            require(self.embedding >= 1, "embedding", "at least 1", self.embedding)

        @classmethod
        def published(cls) -> Self:
            """Return one hidden layer of 2 units, trained for 100 epochs."""
            training = published_training(epochs=100, batch=16, learning_rate=3e-3)
            return cls.with_settings(scoring="own", widths=(2,), training=training)

        @classmethod
        def tiny(cls) -> Self:
            """Return settings that train in seconds: for trying things out, not for results."""
            return cls.with_settings(window=12, widths=(8, 4), embedding=4, training={"epochs": 5})

    def _network(self, variables: int) -> Network:
        return Network(self.settings, variables, min(self.settings.window, self.settings.length))

    def _make_inference(self) -> Callable[[Floats], NetworkOutput]:
        return reconstruction_inference(self.network_)


class Network(StoredNames):
    """Graph convolutions down to a bottleneck and back, on windows of the observation."""

    stored_names: ClassVar[Mapping[str, str]] = {"target_embedding": "listens", "source_embedding": "heard"}

    def __init__(self, config: GAE.Config, variables: int, window: int) -> None:
        super().__init__()
        sizes = (window, *config.widths, *config.widths[-2::-1], window)
        self.window = window
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        # Small, so that the graph starts with nearly equal weights.
        self.target_embedding = nn.Parameter(0.3 * torch.randn(variables, config.embedding))
        self.source_embedding = nn.Parameter(0.3 * torch.randn(variables, config.embedding))

    def adjacency(self) -> Tensor:
        """Return A (variable, variable): row i holds the weights of the sources of i, itself with at least one half."""
        learnt = torch.softmax(self.target_embedding @ self.source_embedding.T, dim=-1)
        return (torch.eye(len(learnt)) + learnt) / 2

    def forward(self, x: Tensor) -> Tensor:
        """x (batch, variable, time) -> its reconstruction, like x."""
        nodes, adjacency = cut_patches(x, self.window), self.adjacency()
        for i, layer in enumerate(self.layers):
            nodes = graph_convolution(adjacency, nodes, layer)
            if i < len(self.layers) - 1:
                nodes = leaky_relu(nodes, SLOPE)
        return join_patches(nodes, x.shape[-1])

    def draw(self, x: Tensor, observed: Tensor, generator: torch.Generator) -> ObservedBatch:
        return ObservedBatch(torch.where(observed, squash(x), 0.0), observed)

    def losses(self, batch: ObservedBatch) -> dict[str, Tensor]:
        return {"reconstruction": masked_mean((self(batch.x) - batch.x).square(), batch.observed)}


def graph_convolution(adjacency: Tensor, nodes: Tensor, layer: nn.Module) -> Tensor:
    """Return A X W + b for nodes X (batch, window, variable, feature)."""
    mixed: Tensor = layer(torch.einsum("ij,bwjf->bwif", adjacency, nodes))
    return mixed
