from functools import partial

import pytest
import torch

import networks
from tsadc.config import update
from tsadc.detectors.baselines.gru_gnn import GRUGNN, Network
from tsadc.nn.graph import knn_adjacency, regulariser

Config = GRUGNN.Config
LENGTH, VARIABLES = 40, 4
coupled = partial(networks.coupled, length=LENGTH, variables=VARIABLES)


def network(**settings: object) -> Network:
    torch.manual_seed(0)
    return Network(update(Config.tiny(), settings), VARIABLES)


def batch(count: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.from_numpy(coupled(count, 1)).float().mT.contiguous()
    observed = torch.rand(x.shape, generator=torch.Generator().manual_seed(2)) < 0.8
    return torch.where(observed, x, 0.0), observed


def test_the_embedding_is_the_recurrence_of_a_gru_for_each_variable():
    net, x = network(features=3, identity=False), batch()[0]
    with torch.no_grad():
        embedding = net.embed(x)
        gru = net.gru
        for variable in range(VARIABLES):
            h = torch.zeros(3)
            for t in range(LENGTH):
                reset_in, update_in, new_in = (gru.weight_ih_l0 @ x[1, variable, t : t + 1] + gru.bias_ih_l0).chunk(3)
                reset_h, update_h, new_h = (gru.weight_hh_l0 @ h + gru.bias_hh_l0).chunk(3)
                keep = torch.sigmoid(update_in + update_h)
                h = (1 - keep) * torch.tanh(new_in + torch.sigmoid(reset_in + reset_h) * new_h) + keep * h
                torch.testing.assert_close(embedding[1, variable, :, t], h)


def test_the_reconstruction_is_a_loop_over_windows_with_a_graph_each():
    net, x = network(own=True, zeta=0.4), batch()[0]
    with torch.no_grad():
        embedding = net.embed(x)
        reconstruction, penalty = net(x)
        for observation in range(3):
            terms = []
            for first in (0, 20):
                part = embedding[observation, :, :, first : first + 20]
                nodes = part.mean(-1)
                scores = net.graph.query(nodes) @ net.graph.key(nodes).T / 8**0.5
                mixed = 0.4 * knn_adjacency(nodes[None], 3)[0] + 0.6 * torch.softmax(scores, dim=-1)
                adjacency = (mixed + mixed.T) / 2
                terms.append(regulariser(nodes[None], adjacency[None], net.weights))
                for t in range(20):
                    first_layer, _, _, second = net.gin.mlps[0]
                    weighed = 3.0 * 2.0 * net.identity[:, :, 0] * part[:, :, t]  # 2 = sqrt(4 variables)
                    h = weighed + adjacency @ weighed
                    h = (h @ first_layer.weight[:, :, 0].T + first_layer.bias).relu()
                    h = h @ second.weight[:, :, 0].T + second.bias
                    expected = (h * net.output_weight).sum(1) + net.output_bias
                    torch.testing.assert_close(
                        reconstruction[observation, :, first + t], expected, rtol=1e-4, atol=1e-4
                    )
            torch.testing.assert_close(penalty[observation], torch.cat(terms).mean())


def test_a_variable_is_reconstructed_from_its_neighbours_alone():
    """With fixed graph weights its own values do not reach its reconstruction."""
    net, x = network(zeta=0.0, gin_layers=2), batch()[0]
    with torch.no_grad():
        net.graph.query.weight.zero_()  # every graph weighs all variables alike
        before = net(x)[0]
        other = x.clone()
        other[:, 2] += 5.0
        after = net(other)[0]
    torch.testing.assert_close(after[:, 2], before[:, 2])
    assert (after[:, [0, 1, 3]] != before[:, [0, 1, 3]]).all()


def test_the_loss_is_the_mean_square_over_what_was_measured():
    net, given = network(), batch()
    drawn = net.draw(*given, torch.Generator())
    together = net.losses(drawn)
    with torch.no_grad():
        apart = (net(drawn.x)[0] - drawn.x)[1][drawn.observed[1]]
    torch.testing.assert_close(together["reconstruction"][1], apart.square().mean())


@pytest.mark.parametrize("scoring", ["fused", "own"])
def test_it_learns_and_finds_what_is_out_of_step(scoring):
    config = update(Config.tiny(), {"scoring": scoring, "training": {"epochs": 15, "learning_rate": 0.02, "batch": 6}})
    detector = GRUGNN(length=LENGTH, contamination=0.1, config=config).fit(coupled(60, 0))
    losses = [epoch.parts["reconstruction"] for epoch in detector.history_.epochs]
    assert losses[-1] < 0.5 * losses[0]
    new = coupled(8, 5)
    new[3, 10:30, 1] *= -1  # as large as ever, but against the others
    result = detector.detect(new)
    assert result.observations["score"].argmax() == 3
    if scoring == "fused":  # its other views know the variable; its neighbours suffer too
        assert next(iter(result.worst(1).iloc[0]["variables"])) == "variable_1"
