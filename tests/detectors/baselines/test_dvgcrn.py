"""DVGCRN: embedding-guided graphs, layered latents, the bound and the forecast, and the detector around them."""

from functools import partial

import numpy as np
import pytest
import torch
from torch.distributions import Normal, kl_divergence

import networks
from tsadc.config import update
from tsadc.detectors.baselines.dvgcrn import DVGCRN, LatentBatch, Network

Config = DVGCRN.Config
LENGTH, VARIABLES = 30, 4
waves = partial(networks.following, length=LENGTH, variables=VARIABLES)


def network(**settings) -> Network:
    torch.manual_seed(0)
    return Network(update(Config.tiny(), settings), VARIABLES).eval()


def drawn(net: Network, count: int = 3) -> LatentBatch:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(count, VARIABLES, LENGTH, generator=generator)
    observed = torch.rand(x.shape, generator=generator) < 0.9
    return net.draw(torch.where(observed, x, 0.0), observed, generator)


def test_the_graph_comes_from_embeddings_of_variables_and_latents():
    net = network()
    with torch.no_grad():
        net.node_embeddings[0].zero_()
        net.node_embeddings[0][:, 0] = torch.tensor([1.0, 2.0, -1.0, 0.0])
        net.node_embeddings[0][3, 1] = 5.0
        net.node_embeddings[1].zero_()
        net.node_embeddings[1][:, 1] = 1.0
        adjacency = net.adjacency(0)
    # Variables 0 and 1 point the same way, 2 the opposite one, 3 the way of all four latents.
    likes = [[0, 1], [0, 1], [2], [3, 4, 5, 6, 7], *[[3, 4, 5, 6, 7]] * 4]
    for i, same in enumerate(likes):
        row = np.where(np.isin(np.arange(8), same), np.e, 1.0)
        np.testing.assert_allclose(adjacency[i].numpy(), row / row.sum(), rtol=1e-5)


def slow_pass(net: Network, x: torch.Tensor, noise: torch.Tensor):
    """Both layers, step by step, as the equations say; a single window, x (time, variable)."""
    h = [torch.zeros(8), torch.zeros(4)]
    c = [torch.zeros(8), torch.zeros(4)]
    graphs = [net.adjacency(0), net.adjacency(1)]
    for now, draw in zip(x, noise, strict=True):
        low = torch.relu(net.upward[0](torch.cat([now, h[0]])))
        high = torch.relu(net.upward[1](torch.cat([low, h[1]])))
        q2 = net.posterior[1](high)
        z2 = q2[:2] + q2[2:].clamp(-5, 2).exp() * draw[4:]
        q1 = net.posterior[0](torch.cat([low, z2]))
        z1 = q1[:4] + q1[4:].clamp(-5, 2).exp() * draw[:4]
        yield list(h), (z1, z2), (q1, q2)
        mixed = torch.log1p(net.graph_proj[0](graphs[0] @ torch.cat([now, z1])).exp())
        h[0], c[0] = net.lstm_cells[0](mixed, (h[0], c[0]))
        mixed = torch.log1p(net.graph_proj[1](graphs[1] @ torch.cat([z1, z2])).exp())
        h[1], c[1] = net.lstm_cells[1](torch.cat([mixed, h[0]]), (h[1], c[1]))


def mean_of_x(net: Network, h1: torch.Tensor, z1: torch.Tensor) -> torch.Tensor:
    from_state = torch.softmax(net.node_embeddings[0] @ net.unit_embeddings[0].T, dim=1) @ h1
    return (
        net.gain * (from_state + torch.softmax(net.node_embeddings[0] @ net.node_embeddings[1].T, dim=1) @ z1)
        + net.offset
    )


def test_the_loss_is_the_bound_and_the_forecast_of_a_pass_step_by_step():
    net = network()
    with torch.no_grad():
        net.gain.copy_(torch.tensor([1.0, 2.0, -1.0, 0.5]))
        net.offset.copy_(torch.tensor([0.1, 0.2, 0.3, 0.4]))
        given = drawn(net, 1)
        losses = net.losses(given)
        expected = dict.fromkeys(losses, 0.0)
        for w in range(3):  # from steps 0, 12 and 18
            x, there = given.x[0, w], given.observed[0, w]
            for t, (h, (z1, z2), (q1, q2)) in enumerate(slow_pass(net, x, given.noise[0, w])):
                mean2 = torch.softmax(net.node_embeddings[2] @ net.unit_embeddings[1].T, dim=1) @ h[1]
                prior2 = Normal(torch.nn.functional.leaky_relu(mean2), net.log_std[2](h[1]).clamp(-5, 2).exp())

                def prior1(above, h=h):
                    mean = torch.softmax(net.node_embeddings[1] @ net.unit_embeddings[0].T, dim=1) @ h[0]
                    mean = mean + torch.softmax(net.node_embeddings[1] @ net.node_embeddings[2].T, dim=1) @ above
                    std = net.log_std[1](torch.cat([h[0], above])).clamp(-5, 2).exp()
                    return Normal(torch.nn.functional.leaky_relu(mean), std)

                kl = kl_divergence(Normal(q2[:2], q2[2:].clamp(-5, 2).exp()), prior2).sum()
                kl += kl_divergence(Normal(q1[:4], q1[4:].clamp(-5, 2).exp()), prior1(z2)).sum()
                expected["latents"] += kl
                px = Normal(mean_of_x(net, h[0], z1), net.log_std[0](torch.cat([h[0], z1])).clamp(-5, 2).exp())
                expected["reconstruction"] -= px.log_prob(x[t])[there[t]].sum()
                forecast = mean_of_x(net, h[0], prior1(prior2.mean).mean)
                expected["forecast"] += (x[t] - forecast)[there[t]].square().sum()
    for name, total in expected.items():
        assert float(losses[name]) == pytest.approx(float(total) / (3 * 12 * VARIABLES), rel=1e-4)


def test_a_forecast_knows_the_past_alone_and_a_reconstruction_the_step_itself():
    net = network()
    x, noise = torch.randn(1, 12, VARIABLES), torch.zeros(1, 12, 6)
    other = x.clone()
    other[:, 7] += 1
    with torch.no_grad():
        before, after = net.infer(x, noise), net.infer(other, noise)
        torch.testing.assert_close(net.forecast(before)[:, :8], net.forecast(after)[:, :8])
        assert not torch.allclose(net.forecast(before)[:, 8], net.forecast(after)[:, 8])
        torch.testing.assert_close(net.likelihood(before).mean[:, :7], net.likelihood(after).mean[:, :7])
        assert not torch.allclose(net.likelihood(before).mean[:, 7], net.likelihood(after).mean[:, 7])


def test_the_weight_of_the_latents_rises_in_training_and_is_one_in_validation():
    net = network(anneal=0.5, training={"epochs": 8})
    given = drawn(net)
    with torch.no_grad():
        full = net.losses(given)["latents"]
        net.train()
        for number, weight in ((1, 0.0), (2, 0.25), (4, 0.75), (5, 1.0), (8, 1.0)):
            net.begin_epoch(number)
            torch.testing.assert_close(net.losses(given)["latents"], weight * full)
        net.begin_epoch(1)
        torch.testing.assert_close(net.eval().losses(given)["latents"], full)


@pytest.mark.parametrize("scoring", ["fused", "own"])
def test_it_learns_and_finds_a_planted_anomaly(scoring):
    config = update(Config.tiny(), {"scoring": scoring, "training": {"epochs": 8}})
    detector = DVGCRN(length=LENGTH, config=config).fit(waves(40, 0))
    losses = [epoch.parts for epoch in detector.history_.epochs]
    assert losses[-1]["forecast"] < 0.6 * losses[0]["forecast"]
    assert losses[-1]["reconstruction"] < losses[0]["reconstruction"] - 0.3
    new = waves(6, 1)
    new[4, 10:14, 2] += 6
    new[0, 3:5] = np.nan
    result = detector.detect(new)
    assert result.observations["score"].argmax() == 4
    assert next(iter(result.worst(1).iloc[0]["variables"])) == "variable_2"


def test_the_papers_score_weighs_reconstruction_and_forecast():
    config = update(Config.tiny(), {"scoring": "own", "forecast": 3.0, "training": {"epochs": 1}})
    detector = DVGCRN(length=LENGTH, config=config).fit(waves(10, 0))
    z = np.random.default_rng(0).normal(size=(VARIABLES, LENGTH)).astype(np.float32)
    z[1:, 7] = np.nan
    z[:, 9] = np.nan
    net = detector.network_
    with torch.no_grad():
        output = detector._make_inference()(z)
        x = torch.from_numpy(np.nan_to_num(np.arcsinh(z)))[:, :12].T
        inferred = net.infer(x[None], torch.zeros(1, 12, 6))
        nll = -net.likelihood(inferred).log_prob(x[None])[0]
        error = (x - net.forecast(inferred)[0]).square()
    assert output.steps[5] == pytest.approx(float((nll[5] + 3 * error[5]).mean() / 4), rel=1e-4)
    assert output.steps[7] == pytest.approx(float((nll[7, 0] + 3 * error[7, 0]) / 4), rel=1e-4)
    assert output.steps[0] == pytest.approx(float(nll[0].mean()), rel=1e-4)  # it has no forecast
    assert output.parts[0][5] == pytest.approx(float(nll[5].mean() / 4), rel=1e-4)
    assert output.parts[1][5] == pytest.approx(float(3 * error[5].mean() / 4), rel=1e-4)
    assert output.parts[1][0] == 0
    np.testing.assert_allclose(output.parts[0] + output.parts[1], output.steps, rtol=1e-5)
    evidence = detector._own_evidence(z, output)
    views = {name: np.nanmean(part) for name, part in zip(("reconstruction", "forecast"), output.parts, strict=True)}
    assert evidence.view_scores == pytest.approx(views)
    assert evidence.score == pytest.approx(sum(views.values()), rel=1e-5)
    assert set(evidence.causes) == {int(views["forecast"] > views["reconstruction"])}
    assert np.isnan(output.steps[9])
    reconstruction, forecast = output.residuals
    assert np.isnan(forecast[:, 0]).all()
    np.testing.assert_array_equal(np.isnan(reconstruction), np.isnan(z))
    np.testing.assert_array_equal(np.isnan(forecast[:, 1:]), np.isnan(z[:, 1:]))
