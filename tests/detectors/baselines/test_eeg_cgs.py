from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

import networks
from tsadc.config import update
from tsadc.detectors.baselines.eeg_cgs import (
    EEGCGS,
    Network,
    SubgraphBatch,
    correlations,
    first_distinct,
    induced_subgraphs,
    random_walk,
)

Config = EEGCGS.Config
LENGTH, VARIABLES = 40, 5
coupled = partial(networks.coupled, length=LENGTH, variables=VARIABLES)


def network(**settings: object) -> Network:
    torch.manual_seed(0)
    return Network(update(Config.tiny(), settings), 16)


def batch(count: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.from_numpy(coupled(count, 1)).float().mT.contiguous()
    observed = torch.rand(x.shape, generator=torch.Generator().manual_seed(2)) < 0.8
    observed[1, 2, :20] = False
    return torch.where(observed, x, 0.0), observed


def test_the_graph_is_of_the_highest_correlations():
    values = np.random.default_rng(0).normal(size=(VARIABLES, 30))
    values[3] = -values[0] + 0.1 * values[3]
    values[4] = 7.0  # stands still, and so is correlated with nothing
    known = torch.ones(1, 1, VARIABLES, 30, dtype=torch.bool)
    known[..., 25:] = False
    x = torch.from_numpy(values).float()
    x[:, 25:] = 99.0
    adjacency, signs, nearest = correlations(x[None, None], known, 1)
    strength = np.zeros((VARIABLES, VARIABLES))
    strength[:4, :4] = np.abs(np.corrcoef(values[:4, :25]))
    np.fill_diagonal(strength, -1)
    expected = np.eye(VARIABLES)
    for i in range(4):
        j = int(np.argmax(strength[i]))
        assert nearest[0, 0, i].tolist() == [j]
        expected[i, j] = expected[j, i] = strength[i, j]
    np.testing.assert_allclose(adjacency[0, 0], expected, atol=1e-6)
    np.testing.assert_array_equal(signs[0, 0, :4, :4], np.sign(np.corrcoef(values[:4, :25])))
    assert signs[0, 0, 3, 0] == -1


def test_a_walk_moves_to_neighbours_and_returns():
    nearest = torch.tensor([[1, 2], [2, 3], [3, 0], [0, 1]])
    # From 0.5 up it moves: to the first neighbour below 0.75, to the second one above; below 0.5 it returns.
    uniform = torch.tensor([0.6, 0.9, 0.2, 0.8, 0.7, 0.99])
    visited = random_walk(nearest, uniform.expand(4, -1), 0.5)
    assert visited[0].tolist() == [1, 3, -1, 2, 3, 1]
    assert visited[1].tolist() == [2, 0, -1, 3, 0, 2]
    # Without restarts it never returns by itself: the whole of 0 .. 1 chooses between the neighbours.
    assert random_walk(nearest, uniform.expand(4, -1), 0.0)[0].tolist() == [2, -1, 1, 3, 1, 3]


def test_the_first_that_differ_make_the_subgraph():
    met = torch.tensor([[1, 1, -1, 3, 1, 2, 3], [-1, -1, 4, 4, 4, -1, 4]])
    assert first_distinct(met, 3).tolist() == [[1, 3, 2], [4, -1, -1]]
    assert first_distinct(met, 2).tolist() == [[1, 3], [4, -1]]


def test_a_subgraph_keeps_the_edges_of_its_members():
    adjacency = torch.tensor([[1.0, 0.5, 0.0], [0.5, 1.0, 0.25], [0.0, 0.25, 1.0]]).view(1, 1, 3, 3)
    inside = torch.tensor([[1, -1, 0], [2, 0, 1], [1, -1, 2]]).view(1, 1, 1, 3, 3)
    induced, present = induced_subgraphs(adjacency, inside)
    assert present[0, 0, 0].tolist() == [[True, False, True], [True] * 3, [True, False, True]]
    expected = [[2 / 3, 0, 1 / 3], [0, 0, 0], [1 / 3, 0, 2 / 3]]
    np.testing.assert_allclose(induced[0, 0, 0, 0], expected, rtol=1e-6)
    np.testing.assert_allclose(induced[0, 0, 0, 1, 2], [1 / 7, 2 / 7, 4 / 7], rtol=1e-6)


def slow_output(net: Network, drawn: SubgraphBatch, observation: int, window: int, i: int):
    """Compute the logits and the reconstructions of one variable without batching."""
    x, adjacency = drawn.x[observation, window], drawn.adjacency[observation, window]

    def subgraph(sample: int, target: int) -> tuple[torch.Tensor, torch.Tensor]:
        inside = [j for j in drawn.members[observation, sample, window, target].tolist() if j >= 0] + [target]
        turned = [torch.corrcoef(x[[target, j]])[0, 1].sign() if net.turned else 1.0 for j in inside]
        encoded = [s * x[j] @ net.encoder.weight.T * (j != target) for s, j in zip(turned, inside, strict=True)]
        embedded = []
        for j in inside:
            weights = adjacency[j, inside] / adjacency[j, inside].sum()
            embedded.append(net.activate(sum(w * e for w, e in zip(weights, encoded, strict=True))))
        weights = adjacency[target, inside] / adjacency[target, inside].sum()
        generated = net.decoder(sum(w * e for w, e in zip(weights, embedded, strict=True)))
        return torch.stack(embedded).mean(0), generated

    alone = net.activate(x[i] @ net.encoder.weight.T)
    others = [int(drawn.other[observation, sample, window, i]) for sample in range(2)]
    own, other = (
        sum(
            alone @ net.discriminator[sample] @ subgraph(sample, j)[0] + net.discriminator_bias[sample]
            for sample, j in enumerate(whose)
        )
        / 2
        for whose in ((i, i), others)
    )
    return own, other, [subgraph(sample, i)[1] for sample in range(2)]


@pytest.mark.parametrize("turned", [True, False])
def test_logits_and_reconstructions_are_those_of_the_paper_variable_by_variable(turned):
    net = network(neighbours=2, turned=turned)
    with torch.no_grad():
        net.bias.normal_()
        net.discriminator_bias.normal_()
        x = torch.from_numpy(coupled(3, 1)).float().mT
        drawn = net.draw(x, torch.ones_like(x, dtype=torch.bool), torch.Generator().manual_seed(3))
        assert (drawn.members == -1).any()  # some walks meet too few
        output = net(drawn)
        for observation, window, i in [(0, 0, 0), (1, 1, 2), (2, 2, 4), (1, 0, 3)]:
            own, other, generated = slow_output(net, drawn, observation, window, i)
            torch.testing.assert_close(output.own[observation, window, i], own, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(output.other[observation, window, i], other, rtol=1e-4, atol=1e-5)
            for sample in range(2):
                torch.testing.assert_close(
                    output.generated[observation, sample, window, i], generated[sample], rtol=1e-4, atol=1e-5
                )


def test_a_reconstruction_knows_nothing_of_the_variable_itself():
    net = network()
    drawn = net.draw(*batch(), torch.Generator().manual_seed(3))
    x = drawn.x.clone()
    x[:, :, 2] += 3.0
    with torch.no_grad():
        before, after = (net(replace(drawn, x=changed)).generated for changed in (drawn.x, x))
    torch.testing.assert_close(after[:, :, :, 2], before[:, :, :, 2])
    assert (after != before).any()


def test_the_losses_are_cross_entropy_and_square_of_what_was_measured():
    net, given = network(share=0.7), batch()
    drawn = net.draw(*given, torch.Generator().manual_seed(0))
    assert (drawn.other != torch.arange(VARIABLES)).all()
    together = net.losses(drawn)
    with torch.no_grad():
        output = net(drawn)
    seen, known = drawn.known[1].any(-1), drawn.known[1]
    assert not seen.all()
    entropy = -(output.own[1].sigmoid().log() + (1 - output.other[1].sigmoid()).log())[seen].mean() / 2
    torch.testing.assert_close(together["contrast"][1], 0.7 * entropy)
    squares = [(generated - drawn.x[1])[known].square().mean() for generated in output.generated[1]]
    torch.testing.assert_close(together["generation"][1], 0.3 * sum(squares) / 2)


@pytest.mark.parametrize("scoring", ["fused", "own"])
def test_it_learns_and_finds_what_does_not_fit(scoring):
    training = {"epochs": 15, "learning_rate": 0.01, "batch": 6}
    config = update(Config.tiny(), {"scoring": scoring, "training": training})
    detector = EEGCGS(length=LENGTH, contamination=0.1, config=config).fit(coupled(60, 0))
    for part in ("contrast", "generation"):
        losses = [epoch.parts[part] for epoch in detector.history_.epochs]
        assert losses[-1] < 0.8 * losses[0]
    new = coupled(8, 5)
    new[3, 8:36, 1] = np.random.default_rng(0).normal(size=28)
    result = detector.detect(new)
    assert result.observations["score"].argmax() == 3
    if scoring == "fused":
        assert {"contrast_score", "generation_score"} <= set(result.observations)


def test_two_variables_are_each_others_only_neighbour():
    data = coupled(30, 0)[:, :, :2]
    detector = EEGCGS(length=LENGTH, contamination=0.1, config=Config.tiny()).fit(data)
    assert np.isfinite(detector.decision_function(data)).all()
    drawn = detector.network_.draw(*(cells[:, :2] for cells in batch()), torch.Generator().manual_seed(0))
    assert set(drawn.members[..., 0, :].flatten().tolist()) <= {1, -1}
    assert (drawn.other == torch.tensor([1, 0])).all()


def test_both_scores_are_scaled_by_the_training_data():
    config = update(Config.tiny(), {"scoring": "own", "share": 0.25})
    detector = EEGCGS(length=LENGTH, contamination=0.1, config=config).fit(coupled(30, 0))
    z = detector.scaler_("series", coupled(1, 3)[0]).T
    with torch.no_grad():
        contrast, distance, expected = detector._scorer()(z)
        output = detector._make_inference()(z)
    window = slice(16, 32)
    rmse = np.sqrt(np.square(z - expected)[2, window].mean())
    np.testing.assert_allclose(distance[2, window], rmse, rtol=1e-5)
    assert (contrast >= 0).all()
    assert (contrast <= 2).all()
    (low_c, high_c), (low_d, high_d) = detector.scale_
    scaled = 0.25 * (contrast - low_c) / (high_c - low_c) + 0.75 * (distance - low_d) / (high_d - low_d)
    np.testing.assert_allclose(output.own_scores, scaled.mean(axis=0), rtol=1e-5)
    contrastive, generative = 0.25 * (contrast - low_c) / (high_c - low_c), 0.75 * (distance - low_d) / (high_d - low_d)
    evidence = detector._own_evidence(z, output)
    assert evidence.view_scores == pytest.approx({"contrast": contrastive.mean(), "generation": generative.mean()})
    assert evidence.score == pytest.approx(sum(evidence.view_scores.values()), rel=1e-5)
    assert set(evidence.causes) == {int(generative.mean() > contrastive.mean())}
    np.testing.assert_allclose(evidence.contributions, contrastive.clip(0) + generative.clip(0), rtol=1e-4, atol=1e-6)
