import dataclasses

import numpy as np
import pytest
import torch

from tsadc.detectors.tsadc.dependencies import Dependencies
from tsadc.errors import ConfigError
from tsadc.nn.graph import GraphLossWeights, regulariser

VARIABLES, LENGTH, BATCH = 5, 23, 2


def make(**settings: object) -> Dependencies:
    torch.manual_seed(0)
    base = {"features": 6, "layers": 1, "state": 4, "graphs": 4, "neighbours": 2, "gin_layers": 2, "zeta": 0.3}
    model = Dependencies(Dependencies.Config(**{**base, **settings}), VARIABLES).eval()
    torch.nn.init.normal_(model.output_bias)
    return model


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(BATCH, VARIABLES, LENGTH, generator=torch.Generator().manual_seed(1))


def windows(length: int, graphs: int) -> list[tuple[int, int]]:
    """`graphs` windows of length // graphs steps, the first ones a step longer where it does not divide."""
    sizes = [length // graphs + (i < length % graphs) for i in range(graphs)]
    ends = np.cumsum(sizes)
    return [(int(end) - size, int(end)) for size, end in zip(sizes, ends, strict=True)]


@pytest.mark.parametrize("settings", [{}, {"identity": False}, {"own": True}, {"layers": 0}, {"graphs": 1}])
@pytest.mark.parametrize("weights", [GraphLossWeights(), GraphLossWeights(smooth=0.3, sparse=2.0, connect=0.0)])
@torch.no_grad()
def test_forward_against_a_loop_over_observations_windows_and_variables(x, settings, weights):
    model = make(weights=weights, **settings)
    found, penalty = model(x)
    config = model.config
    for b in range(BATCH):
        embedding = []
        for k in range(VARIABLES):
            hidden = model.value_proj(x[b : b + 1, k : k + 1])
            if config.identity:
                hidden = hidden + model.variable_embedding[k][None, :, None]
            for layer in model.layers:
                hidden = layer(hidden)
            embedding.append(hidden[0])
        expected_penalty = 0.0
        for first, last in windows(LENGTH, config.graphs):
            part = torch.stack([one[:, first:last] for one in embedding])
            nodes = torch.stack([one.sum(-1) / (last - first) for one in part])
            adjacency = model.graph(nodes[None])
            gathered = model.gin(part[None], adjacency)[0]
            expected_penalty += float(regulariser(nodes[None], adjacency, weights)) / config.graphs
            for k in range(VARIABLES):
                reader = k if config.identity else 0
                expected = (model.output_weight[reader][:, None] * gathered[k]).sum(0) + model.output_bias[reader]
                torch.testing.assert_close(found[b, k, first:last], expected, rtol=1e-4, atol=1e-5)
        assert float(penalty[b]) == pytest.approx(expected_penalty, rel=1e-4)


@pytest.mark.parametrize("identity", [True, False])
@torch.no_grad()
def test_without_a_graph_a_variable_is_read_from_its_own_embedding(x, identity):
    model = make(gin_layers=0, identity=identity)
    assert not any("graph" in name or "gin" in name for name, _ in model.named_parameters())
    found, penalty = model(x)
    embedding = model.embed(x)
    for k in range(VARIABLES):
        reader = k if identity else 0
        expected = (model.output_weight[reader][:, None] * embedding[:, k]).sum(1) + model.output_bias[reader]
        torch.testing.assert_close(found[:, k], expected, rtol=1e-4, atol=1e-5)
        others = [i for i in range(VARIABLES) if i != k]
        assert torch.equal(model(change(x, k))[0][:, others], found[:, others])
    assert torch.equal(penalty, torch.zeros(BATCH))


@pytest.mark.parametrize("length", [8, 9, 10, 11, 3, 1])
def test_any_length_is_reconstructed_whole(length):
    x = torch.randn(BATCH, VARIABLES, length)
    found, penalty = make()(x)
    assert found.shape == x.shape
    assert penalty.shape == (BATCH,)
    assert torch.isfinite(found).all()
    assert torch.isfinite(penalty).all()


def freeze(model: Dependencies) -> Dependencies:
    """One graph for all, full and with a diagonal."""
    adjacency = torch.rand(VARIABLES, VARIABLES, generator=torch.Generator().manual_seed(3))
    model.graph.forward = lambda nodes: adjacency.expand(len(nodes), -1, -1)
    return model


def change(x: torch.Tensor, k: int) -> torch.Tensor:
    other = x.clone()
    other[:, k] = 10 * torch.randn(BATCH, LENGTH, generator=torch.Generator().manual_seed(9))
    return other


@pytest.mark.parametrize("k", range(VARIABLES))
@pytest.mark.parametrize("gin_layers", [1, 2, 3])
def test_without_its_own_a_variable_is_told_from_the_others_alone(x, k, gin_layers):
    model = freeze(make(own=False, gin_layers=gin_layers))
    before, after = model(x)[0], model(change(x, k))[0]
    assert torch.equal(after[:, k], before[:, k])
    others = [i for i in range(VARIABLES) if i != k]
    assert (after[:, others] - before[:, others]).abs().amax((0, 2)).min() > 0


def test_with_its_own_a_variable_can_be_copied(x):
    model = freeze(make(own=True))
    for k in range(VARIABLES):
        assert (model(change(x, k))[0] - model(x)[0])[:, k].abs().max() > 1e-3


def test_a_variable_reaches_its_own_reconstruction_through_the_graph_only(x):
    model = make(own=False)
    x = x.clone().requires_grad_()
    model(x)[0][:, 0].sum().backward()
    through_graph = x.grad[:, 0].abs().max()
    x.grad = None
    freeze(model)(x)[0][:, 0].sum().backward()
    assert through_graph > 0
    assert x.grad[:, 0].abs().max() == 0
    assert x.grad[:, 1:].abs().min() > 0


@pytest.mark.parametrize("settings", [{"symmetric": True}, {"symmetric": False}, {"own": True}])
def test_without_identity_the_order_of_variables_does_not_matter(x, settings):
    model = make(identity=False, **settings)
    order = torch.tensor([3, 0, 4, 1, 2])
    (found, penalty), (permuted, same) = model(x), model(x[:, order])
    torch.testing.assert_close(permuted, found[:, order], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(same, penalty, rtol=1e-4, atol=1e-5)
    assert (make(identity=True)(x[:, order])[0] - make(identity=True)(x)[0][:, order]).abs().max() > 1e-2


def test_with_identity_a_variable_is_known_without_its_values():
    found = make(identity=True)(torch.zeros(1, VARIABLES, LENGTH))[0]
    assert (found[0, 0] - found[0, 1]).abs().max() > 1e-3
    # Without kNN: among equal nodes it has to take some.
    found = make(identity=False, zeta=0.0)(torch.zeros(1, VARIABLES, LENGTH))[0]
    torch.testing.assert_close(found[0, 0], found[0, 1])


def test_a_window_has_its_own_graph(x):
    seen = []
    model = make(graphs=4)
    inner = model.graph.forward
    model.graph.forward = lambda nodes: seen.append(nodes) or inner(nodes)
    model(x)
    embedding = model.embed(x)
    nodes = torch.cat(seen).view(BATCH, 4, VARIABLES, -1)
    for i, (first, last) in enumerate(windows(LENGTH, 4)):
        torch.testing.assert_close(nodes[:, i], embedding[..., first:last].mean(-1))


def test_every_parameter_learns(x):
    for settings in ({}, {"own": True, "identity": False, "symmetric": False}):
        model = make(**settings).train()
        found, penalty = model(x)
        ((found - x).square().mean() + penalty.mean()).backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None, name
            assert torch.isfinite(parameter.grad).all(), name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("features", 0),
        ("layers", -1),
        ("state", 5),
        ("dropout", 1.0),
        ("graphs", 0),
        ("neighbours", 0),
        ("zeta", 1.0),
        ("zeta", -0.1),
        ("gin_layers", -1),
    ],
)
def test_settings_out_of_range(name, value):
    with pytest.raises(ConfigError, match=f"`{name}` must be"):
        dataclasses.replace(Dependencies.Config(), **{name: value})
