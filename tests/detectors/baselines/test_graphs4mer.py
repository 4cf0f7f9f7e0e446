"""GraphS4mer: graphs over windows, pooling as the bottleneck, and the detector around it."""

from functools import partial

import numpy as np
import pytest
import torch

import networks
from tsadc.config import update
from tsadc.detectors.baselines.graphs4mer import GraphS4mer, Network
from tsadc.nn.trainable import ObservedBatch

Config = GraphS4mer.Config
LENGTH, VARIABLES = 32, 4
waves = partial(networks.following, length=LENGTH, variables=VARIABLES)


def network(**settings) -> Network:
    torch.manual_seed(0)
    return Network(update(Config.tiny(), settings)).eval()


def drawn(net: Network, count: int = 3) -> ObservedBatch:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(count, VARIABLES, LENGTH, generator=generator)
    observed = torch.rand(x.shape, generator=generator) < 0.9
    return net.draw(torch.where(observed, x, 0.0), observed, generator)


def slow_adjacency(nodes: np.ndarray, query: np.ndarray, key: np.ndarray, zeta: float, k: int, prune: float):
    """One graph, entry by entry: nodes (variable, feature)."""
    count, features = nodes.shape
    mixed = np.zeros((count, count))
    for i in range(count):
        cosine = [nodes[i] @ nodes[j] / np.linalg.norm(nodes[i]) / np.linalg.norm(nodes[j]) for j in range(count)]
        others = sorted((j for j in range(count) if j != i), key=lambda j: -cosine[j])[:k]
        attention = np.array([np.exp((query @ nodes[i]) @ (key @ nodes[j]) / np.sqrt(features)) for j in range(count)])
        for j in range(count):
            prior = max(cosine[j], 0.0) if j in others else 0.0
            mixed[i, j] = zeta * prior + (1 - zeta) * attention[j] / attention.sum()
    mixed = (mixed + mixed.T) / 2
    return np.where(mixed >= prune, mixed, 0.0)


def test_each_window_has_a_graph_of_a_knn_prior_and_attention_without_weak_edges():
    net = network(zeta=0.3, neighbours=2, prune=0.15)
    nodes = torch.randn(2, VARIABLES, 8, 3)
    with torch.no_grad():
        adjacency = net.adjacency(nodes)
        query, key = net.graph.query.weight.numpy(), net.graph.key.weight.numpy()
    assert adjacency.shape == (2, 3, VARIABLES, VARIABLES)
    for i in range(2):
        for m in range(3):
            expected = slow_adjacency(nodes[i, :, :, m].numpy(), query, key, 0.3, 2, 0.15)
            np.testing.assert_allclose(adjacency[i, m].numpy(), expected, atol=1e-5)
    assert (adjacency == 0).any()


def test_nodes_are_means_of_windows_and_a_window_is_reconstructed_from_its_own_nodes():
    net = network(window=8)
    x = drawn(net).x[:, :, :30]  # windows of 8, 8, 7 and 7 steps
    with torch.no_grad():
        reconstruction, nodes, _ = net(x)
        embedding = net.embed(x)
        assert reconstruction.shape == x.shape
        for i, (first, last) in enumerate([(0, 8), (8, 16), (16, 23), (23, 30)]):
            torch.testing.assert_close(nodes[..., i], embedding[..., first:last].mean(-1))
        # Without the GNN's part a window is a linear function of its nodes, the same for every variable.
        for parameter in net.gin.mlps[-1][-1].parameters():
            parameter.zero_()
        weight, bias = net.output_proj.weight.squeeze(-1), net.output_proj.bias
        decoded = net(x)[0]
        torch.testing.assert_close(decoded[1, 2, 16:23], (weight @ nodes[1, 2, :, 2] + bias)[:7])


def test_a_window_is_reconstructed_from_its_nodes_after_the_graph_network():
    """output_proj(LeakyReLU(MLP((1 + eps) h + A h)) + h), variable by variable."""
    net = network(window=8, prune=0.0)
    x = drawn(net).x
    with torch.no_grad():
        net.gin.eps.fill_(0.3)
        reconstruction, nodes, adjacency = net(x)
        (mlp,) = net.gin.mlps
        into, out = mlp[0], mlp[-1]
        for observation, window, variable in [(0, 0, 0), (2, 3, 1), (1, 2, 3)]:
            h, A = nodes[observation, :, :, window], adjacency[observation, window]
            aggregated = 1.3 * h[variable] + sum(A[variable, j] * h[j] for j in range(VARIABLES))
            hidden = (into.weight.squeeze(-1) @ aggregated + into.bias).clamp_min(0)
            output = out.weight.squeeze(-1) @ hidden + out.bias
            output = torch.where(output > 0, output, 0.01 * output) + h[variable]
            expected = net.output_proj.weight.squeeze(-1) @ output + net.output_proj.bias
            torch.testing.assert_close(reconstruction[observation, variable, 8 * window : 8 * window + 8], expected)


def test_the_loss_is_the_error_of_what_was_measured_and_the_regulariser_of_the_graphs():
    net = network(window=8, weights={"smooth": 0.7, "sparse": 0.3, "connect": 0.2})
    given = drawn(net)
    with torch.no_grad():
        losses = net.losses(given)
        reconstruction, nodes, adjacency = net(given.x)
    for observation in range(3):
        there = given.observed[observation]
        error = (given.x[observation] - reconstruction[observation])[there].square().mean()
        torch.testing.assert_close(losses["reconstruction"][observation], error)
        penalties = []
        for window in range(4):
            A, h = adjacency[observation, window].double().numpy(), nodes[observation, :, :, window].double().numpy()
            pairs = [(i, j) for i in range(VARIABLES) for j in range(VARIABLES)]
            smooth = sum(A[i, j] * np.square(h[i] - h[j]).sum() for i, j in pairs) / 2 / VARIABLES**2
            sparse = sum(A[i, j] ** 2 for i, j in pairs) / VARIABLES**2
            connect = -sum(np.log(A[i].sum()) for i in range(VARIABLES)) / VARIABLES
            penalties.append(0.7 * smooth + 0.3 * sparse + 0.2 * connect)
        assert float(losses["graph"][observation]) == pytest.approx(np.mean(penalties), rel=1e-4)


def test_variables_interact_through_the_graph_only():
    net = network(prune=0.0)
    x = drawn(net).x
    other = x.clone()
    other[:, 3] += 1
    with torch.no_grad():
        assert not torch.equal(net(x)[0][:, 0], net(other)[0][:, 0])
        net.adjacency = lambda nodes: torch.zeros(len(nodes), nodes.shape[-1], VARIABLES, VARIABLES)
        torch.testing.assert_close(net(x)[0][:, :3], net(other)[0][:, :3])


@pytest.mark.parametrize("scoring", ["fused", "own"])
def test_it_learns_and_finds_a_planted_anomaly(scoring):
    config = update(Config.tiny(), {"scoring": scoring, "training": {"epochs": 8}})
    detector = GraphS4mer(length=LENGTH, config=config).fit(waves(40, 0))
    losses = [epoch.parts["reconstruction"] for epoch in detector.history_.epochs]
    assert losses[-1] < 0.6 * losses[0]
    new = waves(6, 1)
    new[4, 10:14, 2] += 6
    result = detector.detect(new)
    assert result.observations["score"].argmax() == 4
    assert next(iter(result.worst(1).iloc[0]["variables"])) == "variable_2"
