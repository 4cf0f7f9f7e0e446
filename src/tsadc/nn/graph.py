"""A graph over the variables of one time window: learn it, regularise it, pass messages along it.

| code | TSAD-C | meaning |
|---|---|---|
| `nodes` | E^m | (batch, node, feature): mean embedding of each variable over the window |
| `adjacency` | A^m | (batch, node, node): row i holds the weights of the messages to node i |
| `knn_adjacency` | A'^m | the same from cosine similarity, not learned |
| `zeta` | ζ | share of the kNN graph in the mixture |
| `neighbours` | δ | kNN edges per node |

`batch` is any number of graphs, usually observations times windows. Graphs are dense and need not be symmetric.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tsadc.errors import ConfigError
from tsadc.nn.layers import Dropout, Pointwise


def knn_adjacency(nodes: Tensor, neighbours: int = 3) -> Tensor:
    """Return the cosine similarity to the `neighbours` most similar *other* nodes, 0 elsewhere.

    A node is not its own neighbour, because the GIN adds its features anyway. (In GraphS4mer's code a node can be.)
    Negative similarities become 0, since Laplacian and degree need weights of at least 0. A zero vector has no edges.
    With fewer other nodes than `neighbours`, all of them are neighbours.
    """
    size = torch.linalg.vector_norm(nodes, dim=-1, keepdim=True)
    direction = nodes / size.masked_fill(size < torch.finfo(nodes.dtype).eps, 1)  # also keeps gradients finite at 0
    similarity = (direction @ direction.mT).clamp_min(0)
    ranking = similarity.detach().masked_fill(_diagonal(similarity), -1)
    nearest = ranking.topk(min(neighbours, nodes.shape[1] - 1), dim=-1).indices
    return torch.zeros_like(similarity).scatter(-1, nearest, similarity.gather(-1, nearest))


class AttentionGraph(nn.Module):
    """A learned graph: ζ A' + (1 - ζ) softmax(Q Rᵀ / sqrt(U)) with Q = E W_Q and R = E W_R.

    Args:
        features: Features per node, U.
        zeta: Share of the kNN graph A'.
        neighbours: Edges per node in A'.
        symmetric: Average the mixture with its transpose; TSAD-C does not (see `smoothness`).
    """

    def __init__(self, features: int, zeta: float = 0.6, neighbours: int = 3, symmetric: bool = False) -> None:
        super().__init__()
        if not 0 <= zeta < 1:
            raise ConfigError(f"zeta, the share of the kNN graph, must be at least 0 and below 1, but is {zeta}.")
        if neighbours < 1:
            raise ConfigError(f"The kNN graph needs at least 1 neighbour per node, but neighbours is {neighbours}.")
        self.zeta, self.neighbours, self.symmetric = zeta, neighbours, symmetric
        self.query = nn.Linear(features, features, bias=False)
        self.key = nn.Linear(features, features, bias=False)

    def forward(self, nodes: Tensor) -> Tensor:
        """Return the adjacency (batch, node, node) of nodes (batch, node, feature)."""
        query, key = self.query(nodes), self.key(nodes)
        learned = torch.softmax(query @ key.mT / nodes.shape[-1] ** 0.5, dim=-1)
        adjacency: Tensor = self.zeta * knn_adjacency(nodes, self.neighbours) + (1 - self.zeta) * learned
        return (adjacency + adjacency.mT) / 2 if self.symmetric else adjacency


@dataclass(frozen=True)
class GraphLossWeights:
    """Weights ξ_1, ξ_2, ξ_3 of the graph loss, TSAD-C Eq. 8.

    Parameters
    ----------
    smooth : float, default 1.0
        Weight of `smoothness`: connected variables should have similar embeddings.
    sparse : float, default 0.05
        Weight of `sparsity`: few and small edges.
    connect : float, default 0.5
        Weight of `connectivity`: no variable without edges.
    """

    smooth: float = 1.0
    sparse: float = 0.05
    connect: float = 0.5


def regulariser(nodes: Tensor, adjacency: Tensor, weights: GraphLossWeights) -> Tensor:
    """Return the weighted sum of the three terms, per graph (batch,). L_graph of Eq. 8 is the mean over graphs."""
    return (
        weights.smooth * smoothness(nodes, adjacency)
        + weights.sparse * sparsity(adjacency)
        + weights.connect * connectivity(adjacency)
    )


def smoothness(nodes: Tensor, adjacency: Tensor) -> Tensor:
    """Return tr(Eᵀ (D - A) E) / K² with the row sums of A in D, per graph (batch,).

    Entry by entry this is Σ_ij A_ij (|e_i|² - e_i · e_j)
        = 1/2 Σ_ij A_ij |e_i - e_j|²  +  1/2 Σ_i (row sum_i - column sum_i) |e_i|².
    The second part is 0 for a symmetric graph. Otherwise it can make the value negative, without bound as the features
    of nodes with a large column sum grow: use features of fixed size, or make the graph symmetric.
    """
    own = (adjacency.sum(-1) * nodes.square().sum(-1)).sum(-1)
    across = (nodes * (adjacency @ nodes)).sum((-2, -1))
    return (own - across) / nodes.shape[1] ** 2


def sparsity(adjacency: Tensor) -> Tensor:
    """Return ‖A‖_F² / K², per graph (batch,)."""
    return adjacency.square().mean((-2, -1))


def connectivity(adjacency: Tensor, least: float = 1e-8) -> Tensor:
    """Return -1/K 1ᵀ log(A 1), per graph (batch,); a node without edges counts as one of degree `least`."""
    return -adjacency.sum(-1).clamp_min(least).log().mean(-1)


class GIN(nn.Module):
    """Graph isomorphism layers h' = MLP((1 + ε) h + A h), ReLU in between (Xu et al. 2019, Eq. 4.1), for dense graphs.

    Args:
        features: Features per node.
        layers: Number of layers.
        dropout: Share of cells dropped in training.
        own: Whether a node's output depends on its own features. If not, (1 + ε) h and the diagonal of A are left
            out, and only the last layer passes messages: a second hop would bring the node's own features back.
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
        """Return the output, like `embedding`.

        Args:
            embedding: (batch, node, feature, time).
            adjacency: (batch, node, node), or (batch, window, node, node) with one graph per time window.
        """
        hidden = self._hidden(embedding, adjacency)
        out: Tensor = self.mlps[-1][-1](hidden)  # type: ignore[index]
        return out.reshape(embedding.shape)

    def read(self, embedding: Tensor, adjacency: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Return the output projected by `weight` (node, feature) and `bias` (node,) to (batch, node, time).

        The last product of the GIN and the projection are both linear, and computed as one product.
        """
        batch, node, _, time = embedding.shape
        hidden = self._hidden(embedding, adjacency)
        last = self.mlps[-1][-1]  # type: ignore[index]
        both = (weight @ last.weight.squeeze(-1)).unsqueeze(1).expand(batch, -1, -1, -1).flatten(0, 1)
        constant: Tensor = bias + weight @ last.bias
        return torch.bmm(both, hidden).view(batch, node, time) + constant.unsqueeze(-1)

    def _hidden(self, embedding: Tensor, adjacency: Tensor) -> Tensor:
        """Return the result of everything but the last product, (batch * node, feature, time)."""
        graphs = adjacency.unsqueeze(1) if adjacency.dim() == 3 else adjacency
        hidden = embedding.flatten(0, 1)
        for i, mlp in enumerate(self.mlps):
            messages = self._message_matrix(i, graphs)
            if messages is not None:
                hidden = _pass_messages(hidden, messages)
            hidden = mlp[:-1](hidden)  # type: ignore[index]
            if i < len(self.mlps) - 1:
                hidden = mlp[-1](hidden).relu()  # type: ignore[index]
        return hidden

    def _message_matrix(self, layer: int, graphs: Tensor) -> Tensor | None:
        """Return (1 + ε) I + A, one product for both terms; None if the layer passes no messages."""
        if self.eps is not None:
            own = torch.eye(graphs.shape[-1], dtype=graphs.dtype)
            return graphs + (1 + self.eps[layer]) * own
        if layer == len(self.mlps) - 1:
            return graphs.masked_fill(_diagonal(graphs), 0)
        return None


def _pass_messages(hidden: Tensor, messages: Tensor) -> Tensor:
    """Multiply the nodes of hidden (batch * node, feature, time) by messages (batch, window, node, node)."""
    batch, count, node, _ = messages.shape
    feature = hidden.shape[1]
    parts = [
        torch.bmm(graph, part.reshape(batch, node, -1)).view(batch * node, feature, -1)
        for graph, part in zip(messages.unbind(1), split_windows(hidden, count), strict=True)
    ]
    return torch.cat(parts, dim=-1)


def split_windows(x: Tensor, count: int) -> tuple[Tensor, ...]:
    """Split `x` (..., time) into `count` windows; the first ones are a step longer if they cannot all be equal.

    It does not use `tensor_split`, whose gradient fills a whole tensor with zeros for every window.
    """
    least, longer = divmod(x.shape[-1], count)
    parts: tuple[Tensor, ...] = x.split([least + (i < longer) for i in range(count)], dim=-1)
    return parts


def _diagonal(adjacency: Tensor) -> Tensor:
    """Return a mask (node, node) that is True on the diagonal."""
    return torch.eye(adjacency.shape[-1], dtype=torch.bool)
