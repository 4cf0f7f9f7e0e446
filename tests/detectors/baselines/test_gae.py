from functools import partial

import numpy as np
import pytest
import torch

import networks
from tsadc.config import update
from tsadc.detectors.baselines.gae import GAE, Network, graph_convolution
from tsadc.nn.trainable import ObservedBatch

Config = GAE.Config
LENGTH, VARIABLES = 40, 4
coupled = partial(networks.coupled, length=LENGTH, variables=VARIABLES)


def network(window: int = 12) -> Network:
    torch.manual_seed(0)
    return Network(Config.tiny(), VARIABLES, window)


def batch(count: int = 3) -> ObservedBatch:
    x = torch.from_numpy(coupled(count, 1)).float().mT.contiguous()
    observed = torch.rand(x.shape, generator=torch.Generator().manual_seed(2)) < 0.9
    return ObservedBatch(torch.where(observed, x, 0.0), observed)


def test_a_graph_convolution_by_hand():
    """A X W + b of two variables, the first of which averages itself and the second."""
    adjacency = torch.tensor([[0.5, 0.5], [0.0, 1.0]])
    nodes = torch.tensor([[[[2.0, 0.0], [4.0, 6.0]]]])
    layer = torch.nn.Linear(2, 1)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[10.0, 1.0]]))
        layer.bias.fill_(100.0)
        # Row 0 averages to (3, 3), row 1 to (4, 6).
        assert graph_convolution(adjacency, nodes, layer).flatten().tolist() == [133.0, 146.0]


def test_the_learnt_graph_is_half_the_variable_itself():
    net = network()
    with torch.no_grad():
        net.target_embedding.zero_()
        net.target_embedding[0, 0] = 1.0
        net.source_embedding.zero_()
        net.source_embedding[2, 0] = np.log(7.0)  # exp: 7 for the pair (0, 2), 1 for all others
        expected = torch.full((4, 4), 0.125) + torch.eye(4) / 2
        expected[0] = torch.tensor([0.55, 0.05, 0.35, 0.05])
        torch.testing.assert_close(net.adjacency(), expected)


def test_the_whole_network_is_a_loop_over_windows_and_layers():
    net, x = network(), batch().x
    expected = torch.zeros_like(x)
    with torch.no_grad():
        adjacency = net.adjacency()
        for start in (0, 12, 24, 28):  # the last window ends with the observation
            for observation in range(len(x)):
                hidden = x[observation, :, start : start + 12]
                for i, layer in enumerate(net.layers):
                    hidden = adjacency @ hidden @ layer.weight.T + layer.bias
                    hidden = hidden if i == 3 else torch.where(hidden > 0, hidden, 0.25 * hidden)
                skip = 8 if start == 28 else 0
                expected[observation, :, start + skip : start + 12] = hidden[:, skip:]
        torch.testing.assert_close(net(x), expected)
    assert [tuple(layer.weight.shape) for layer in net.layers] == [(8, 12), (4, 8), (8, 4), (12, 8)]


def test_the_loss_is_the_mean_square_over_what_was_measured():
    net, given = network(), batch()
    drawn = net.draw(given.x, given.observed, torch.Generator())
    together = net.losses(drawn)["reconstruction"]
    with torch.no_grad():
        apart = (net(drawn.x) - drawn.x)[1][drawn.observed[1]]
    torch.testing.assert_close(together[1], apart.square().mean())


@pytest.mark.parametrize("scoring", ["fused", "own"])
def test_it_learns_and_finds_what_is_out_of_step(scoring):
    config = update(Config.tiny(), {"scoring": scoring, "training": {"epochs": 25, "learning_rate": 0.01}})
    detector = GAE(length=LENGTH, contamination=0.1, config=config).fit(coupled(60, 0))
    losses = [epoch.loss for epoch in detector.history_.epochs]
    assert losses[-1] < 0.5 * losses[0]
    new = coupled(8, 5)
    new[3, 10:30, 1] *= -1  # as large as ever, but against the others
    result = detector.detect(new)
    assert result.observations["score"].argmax() == 3
    if scoring == "fused":  # its other views know the variable; a bottleneck lets its neighbours suffer too
        assert next(iter(result.worst(1).iloc[0]["variables"])) == "variable_1"


def test_a_window_longer_than_an_observation_is_the_observation():
    detector = GAE(length=20, config=update(Config.tiny(), {"window": 500}))
    assert detector._network(3).window == 20
