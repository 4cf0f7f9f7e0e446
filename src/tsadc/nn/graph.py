"""A graph over the variables of one time window: how it is learned, kept in shape, and used.

    name            paper     meaning
    nodes           E^m       (batch, node, feature): each variable's mean embedding over the window
    adjacency       A^m       (batch, node, node): row i holds the weights with which node i listens to the others
    knn_adjacency   A'^m      the same from cosine similarity, without learning
    zeta            zeta      share of the kNN graph in the mixture
    neighbours      delta     kNN edges per node

`batch` is any number of graphs: usually observations times windows. All graphs are dense, and need not be symmetric.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tsadc.errors import ConfigError
from tsadc.nn.layers import Dropout, Pointwise


def knn_adjacency(nodes: Tensor, neighbours: int = 3) -> Tensor:
    """Cosine similarity to the `neighbours` most similar *other* nodes, 0 elsewhere.

    A node is not its own neighbour: the GIN adds its features anyway. (GraphS4mer's code lets it take one of the
    places.) Negative similarities become 0, since a Laplacian and a degree need weights >= 0. A zero vector has no
    edges; where there are fewer other nodes than `neighbours`, all of them are taken.
    """
    size = torch.linalg.vector_norm(nodes, dim=-1, keepdim=True)
    direction = nodes / size.masked_fill(size < torch.finfo(nodes.dtype).eps, 1)  # also keeps gradients finite at 0
    similarity = (direction @ direction.mT).clamp_min(0)
    ranking = similarity.detach().masked_fill(_diagonal(similarity), -1)
    nearest = ranking.topk(min(neighbours, nodes.shape[1] - 1), dim=-1).indices
    return torch.zeros_like(similarity).scatter(-1, nearest, similarity.gather(-1, nearest))


class AttentionGraph(nn.Module):
    """`zeta` kNN + (1 - `zeta`) softmax(Q R^T / sqrt(U)) with Q = E W_Q and R = E W_R.

    `symmetric` averages the mixture with its transpose; the paper's graph is not symmetric (see `smoothness`).
    """

    def __init__(self, features: int, zeta: float = 0.6, neighbours: int = 3, symmetric: bool = False) -> None:
        super().__init__()
        if not 0 <= zeta < 1:
            raise ConfigError(f"The share zeta of the kNN graph lies from 0 to below 1, but it is {zeta}.")
        if neighbours < 1:
            raise ConfigError(f"The kNN graph needs at least 1 neighbour per node, but neighbours is {neighbours}.")
        self.zeta, self.neighbours, self.symmetric = zeta, neighbours, symmetric
        self.query = nn.Linear(features, features, bias=False)
        self.key = nn.Linear(features, features, bias=False)

    def forward(self, nodes: Tensor) -> Tensor:
        """nodes (batch, node, feature) -> adjacency (batch, node, node)."""
        query, key = self.query(nodes), self.key(nodes)
        learned = torch.softmax(query @ key.mT / nodes.shape[-1] ** 0.5, dim=-1)
        adjacency: Tensor = self.zeta * knn_adjacency(nodes, self.neighbours) + (1 - self.zeta) * learned
        return (adjacency + adjacency.mT) / 2 if self.symmetric else adjacency


@dataclass(frozen=True)
class GraphLossWeights:
    """xi_1, xi_2, xi_3 of Eq. "loss_graph"."""

    smooth: float = 1.0
    sparse: float = 0.05
    connect: float = 0.5


def regulariser(nodes: Tensor, adjacency: Tensor, weights: GraphLossWeights) -> Tensor:
    """The weighted sum of the three terms, per graph (batch,); the paper's L_graph is its mean."""
    return (
        weights.smooth * smoothness(nodes, adjacency)
        + weights.sparse * sparsity(adjacency)
        + weights.connect * connectivity(adjacency)
    )


def smoothness(nodes: Tensor, adjacency: Tensor) -> Tensor:
    """tr(E^T (D - A) E) / K^2 with the row sums of A in D, per graph (batch,).

    Entry by entry this is sum_ij A_ij (|e_i|^2 - e_i . e_j)
        = 1/2 sum_ij A_ij |e_i - e_j|^2  +  1/2 sum_i (row sum_i - column sum_i) |e_i|^2.
    The second part is 0 for a symmetric graph. In any other it can make the value negative, without bound as the
    features of much-heard nodes grow: use it on features of fixed size, or make the graph symmetric.
    """
    own = (adjacency.sum(-1) * nodes.square().sum(-1)).sum(-1)
    across = (nodes * (adjacency @ nodes)).sum((-2, -1))
    return (own - across) / nodes.shape[1] ** 2


def sparsity(adjacency: Tensor) -> Tensor:
    """||A||_F^2 / K^2, per graph (batch,)."""
    return adjacency.square().mean((-2, -1))


def connectivity(adjacency: Tensor, least: float = 1e-8) -> Tensor:
    """-1/K 1^T log(A 1), per graph (batch,); a node with no edge counts as one of degree `least`."""
    return -adjacency.sum(-1).clamp_min(least).log().mean(-1)


class GIN(nn.Module):
    """Graph isomorphism layers h' = MLP((1 + eps) h + A h), ReLU between them (Xu et al. 2019), on dense graphs.

    With `own=False` a node is seen through its neighbours alone: no (1 + eps) h, no diagonal in A. Only the last layer
    then passes messages, after node-wise MLPs, because a second hop would bring each node its own features back.
    """

    def __init__(self, features: int, layers: int = 2, dropout: float = 0.0, own: bool = True) -> None:
        super().__init__()
        if layers < 1:
            raise ConfigError(f"A GIN needs at least 1 layer, but layers is {layers}.")
        self.mlps = nn.ModuleList(
            nn.Sequential(Pointwise(features, features), nn.ReLU(), Dropout(dropout), Pointwise(features, features))
            for _ in range(layers)
        )
        self.eps = nn.Parameter(torch.zeros(layers)) if own else None

    def forward(self, embedding: Tensor, adjacency: Tensor) -> Tensor:
        """embedding (batch, node, feature, time), adjacency (batch, node, node), or (batch, window, node, node) with a
        graph for each of so many windows of time -> like embedding."""
        hidden = self._hidden(embedding, adjacency)
        out: Tensor = self.mlps[-1][-1](hidden)  # type: ignore[index]
        return out.reshape(embedding.shape)

    def read(self, embedding: Tensor, adjacency: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """The output read by `weight` (node, feature) and `bias` (node,): (batch, node, time). The last layer's product
        and this one are linear, and taken together."""
        batch, node, _, time = embedding.shape
        hidden = self._hidden(embedding, adjacency)
        last = self.mlps[-1][-1]  # type: ignore[index]
        both = (weight @ last.weight.squeeze(-1)).unsqueeze(1).expand(batch, -1, -1, -1).flatten(0, 1)
        constant: Tensor = bias + weight @ last.bias
        return torch.bmm(both, hidden).view(batch, node, time) + constant.unsqueeze(-1)

    def _hidden(self, embedding: Tensor, adjacency: Tensor) -> Tensor:
        """All but the last product, (batch * node, feature, time)."""
        graphs = adjacency.unsqueeze(1) if adjacency.dim() == 3 else adjacency
        hidden = embedding.flatten(0, 1)
        for i, mlp in enumerate(self.mlps):
            gather = self._gather(i, graphs)
            if gather is not None:
                hidden = _gathered(hidden, gather)
            hidden = mlp[:-1](hidden)  # type: ignore[index]
            if i < len(self.mlps) - 1:
                hidden = mlp[-1](hidden).relu()  # type: ignore[index]
        return hidden

    def _gather(self, layer: int, graphs: Tensor) -> Tensor | None:
        """The matrix by which a layer gathers over nodes, (1 + eps) I + A: one product for both terms."""
        if self.eps is not None:
            own = torch.eye(graphs.shape[-1], dtype=graphs.dtype)
            return graphs + (1 + self.eps[layer]) * own
        if layer == len(self.mlps) - 1:
            return graphs.masked_fill(_diagonal(graphs), 0)
        return None


def _gathered(hidden: Tensor, gather: Tensor) -> Tensor:
    """hidden (batch * node, feature, time) over the nodes by gather (batch, window, node, node), window by window."""
    batch, count, node, _ = gather.shape
    feature = hidden.shape[1]
    parts = [
        torch.bmm(graph, part.reshape(batch, node, -1)).view(batch * node, feature, -1)
        for graph, part in zip(gather.unbind(1), split_windows(hidden, count), strict=True)
    ]
    return torch.cat(parts, dim=-1)


def split_windows(x: Tensor, count: int) -> tuple[Tensor, ...]:
    """`x` (..., time) in `count` windows, the first ones a step longer where they cannot all be equal.

    Not by `tensor_split`: its gradient fills a whole tensor with zeros for every window.
    """
    least, longer = divmod(x.shape[-1], count)
    parts: tuple[Tensor, ...] = x.split([least + (i < longer) for i in range(count)], dim=-1)
    return parts


def _diagonal(adjacency: Tensor) -> Tensor:
    """True on the diagonal (node, node)."""
    return torch.eye(adjacency.shape[-1], dtype=torch.bool)
