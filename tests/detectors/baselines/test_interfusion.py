"""InterFusion: two latents, the auxiliary auxiliary between them, the flow, refinement, and the detector around it."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from torch.distributions import Normal, kl_divergence

import networks
from tsadc.config import update
from tsadc.detectors.baselines.interfusion import (
    Flow,
    InterFusion,
    LatentBatch,
    Network,
    TemporalAutoencoder,
    refine_and_score,
)
from tsadc.nn.gaussian import NARROW
from tsadc.nn.randomness import derive_seed

Config = InterFusion.Config
LENGTH, VARIABLES = 40, 4
waves = partial(networks.following, length=LENGTH, variables=VARIABLES)


def network(**settings) -> Network:
    torch.manual_seed(0)
    return Network(update(Config.tiny(), settings), VARIABLES).eval()


def drawn(net: Network, count: int = 3) -> LatentBatch:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(count, VARIABLES, LENGTH, generator=generator)
    observed = torch.rand(x.shape, generator=generator) < 0.9
    return net.draw(torch.where(observed, x, 0.0), observed, generator)


def test_every_second_convolution_halves_time():
    assert TemporalAutoencoder(4, 3).lengths(100) == [100, 50, 50, 25, 25, 13]  # 13: InterFusion's published size
    assert TemporalAutoencoder(4, 1).lengths(7) == [7, 4]


@pytest.mark.parametrize("time", [16, 15, 13])
def test_a_window_comes_back_at_its_length(time):
    autoencoder = TemporalAutoencoder(4, 2)
    encoded = autoencoder.encode(torch.randn(2, 4, time))
    assert encoded.mean.shape == encoded.log_std.shape == (2, 4, 4)
    assert autoencoder.decode(encoded.mean, time).shape == (2, 4, time)


def test_the_latent_begins_narrow_around_a_convolution_of_its_own_stretch():
    torch.manual_seed(0)
    autoencoder = TemporalAutoencoder(3, 1)
    x = torch.randn(1, 3, 12)
    with torch.no_grad():
        autoencoder.latent.weight.zero_()
        assert (autoencoder.encode(x).log_std == NARROW).all()
        torch.nn.init.normal_(autoencoder.latent.weight)
        before = autoencoder.encode(x).mean
        other = x.clone()
        other[..., 11] += 1.0
        changed = (autoencoder.encode(other).mean != before).any(1)[0]
        # Column i reads steps 2 i - 2 .. 2 i + 2, and the window ends at step 11.
        assert changed.tolist() == [False] * 5 + [True]
        down, latent = autoencoder.down[0], autoencoder.latent
        padded = torch.nn.functional.pad(x[0], (2, 2))
        hidden = torch.stack([(down.weight * padded[:, 6:11]).sum((1, 2)) + down.bias]).relu()[0]
        torch.testing.assert_close(before[0, :, 3], latent.weight[:3, :, 0] @ hidden + latent.bias[:3])


def test_the_flow_returns_the_log_determinant_of_its_jacobian():
    torch.manual_seed(0)
    flow = Flow(3, 4, 8)
    start = torch.randn(5, 3)
    # Four layers turn three features by four places: at first, that is all.
    assert torch.equal(flow(start)[0], start.roll(-4, -1))
    assert torch.equal(flow(start)[1], torch.zeros(5))
    for layer in flow.layers:
        torch.nn.init.normal_(layer[-1].weight)
    for value in start:
        expected = torch.autograd.functional.jacobian(lambda v: flow(v)[0], value).det().abs().log()
        torch.testing.assert_close(flow(value)[1], expected)


def test_one_latent_is_short_in_time_and_one_is_narrow_in_variables():
    given = drawn(network())
    assert given.x.shape == (3, 3, VARIABLES, 16)  # windows from steps 0, 16 and 24
    assert given.temporal.shape == (3, 3, VARIABLES, 4)
    assert given.metric.shape == (3, 3, 16, 2)


def test_the_metric_latent_depends_on_its_own_past_and_on_future_auxiliary_features():
    net = network(flows=0)
    auxiliary, noise = torch.rand(2, VARIABLES, 6), torch.randn(2, 6, 2)
    with torch.no_grad():
        sample, density = net.infer(auxiliary, noise)
        states = net.posterior_mlp(net.backward_gru(auxiliary.mT.flip(1))[0].flip(1))
        before = torch.zeros(2, 2)
        for t in range(6):
            both = net.posterior(states[:, t]) + before.tanh() @ net.posterior_recurrence.weight.T
            now = Normal(both[:, :2], both[:, 2:].clamp(-5, 2).exp())
            torch.testing.assert_close(sample[:, t], now.mean + now.stddev * noise[:, t])
            torch.testing.assert_close(density[:, t], now.log_prob(sample[:, t]).sum(-1))
            before = sample[:, t]
        prior = net.metric_prior(auxiliary, sample)
        inputs = torch.cat([auxiliary[:, :, 3], sample[:, 2]], -1)
        torch.testing.assert_close(prior.mean[:, 3], net.prior(inputs)[:, :2])
        # Reversed: a later auxiliary changes an earlier latent, an earlier one only through the latents themselves.
        other = auxiliary.clone()
        other[:, :, 5] += 1
        assert not torch.equal(net.infer(other, noise)[0][:, 0], sample[:, 0])
        other = auxiliary.clone()
        other[:, :, 0] += 1
        net.posterior_recurrence.weight.zero_()
        torch.testing.assert_close(net.infer(other, noise)[0][:, 1:], net.infer(auxiliary, noise)[0][:, 1:])


def test_the_loss_is_minus_the_evidence_lower_bound_over_measured_cells():
    net = network()
    for layer in net.flow.layers:
        torch.nn.init.normal_(layer[-1].weight)
    given = drawn(net, 1)
    with torch.no_grad():
        losses = net.losses(given)
        expected = dict.fromkeys(losses, 0.0)
        for w in range(3):
            x, there = given.x[0, w][None], given.observed[0, w]
            q2 = net.temporal_autoencoder.encode(x)
            prior2 = Normal(torch.zeros_like(q2.mean), torch.ones_like(q2.mean))
            expected["temporal"] += kl_divergence(Normal(q2.mean, q2.log_std.exp()), prior2).sum()
            auxiliary = net.temporal_autoencoder.decode(q2.mean + q2.log_std.exp() * given.temporal[0, w], 16)
            z1, density = net.infer(auxiliary, given.metric[0, w][None])
            p1, px = net.metric_prior(auxiliary, z1), net.likelihood(auxiliary, z1)
            expected["metric"] += density.sum() - Normal(p1.mean, p1.log_std.exp()).log_prob(z1).sum()
            expected["reconstruction"] -= Normal(px.mean, px.log_std.exp()).log_prob(x)[0][there].sum()
    for name, total in expected.items():
        assert float(losses[name]) == pytest.approx(float(total) / 3 / (VARIABLES * 16), rel=1e-4)


def test_the_log_density_after_the_flow_is_that_before_it_minus_the_log_determinant():
    net = network(metrics=3, flows=3)
    for layer in net.flow.layers:
        torch.nn.init.normal_(layer[-1].weight)
        torch.nn.init.normal_(layer[-1].bias)
    auxiliary, noise = torch.randn(2, VARIABLES, 5), torch.randn(2, 5, 3)
    with torch.no_grad():
        sample, density = net.infer(auxiliary, noise)
        flow, net.flow = net.flow, torch.nn.Identity()
        net.flow.forward = lambda value: (value, torch.zeros(value.shape[:-1]))
        before, plain = net.infer(auxiliary, noise)
    for i in range(2):
        for t in range(5):
            jacobian = torch.autograd.functional.jacobian(lambda value: flow(value)[0], before[i, t])
            torch.testing.assert_close(sample[i, t], flow(before[i, t])[0])
            log_det = jacobian.det().abs().log()
            assert abs(float(log_det)) > 1e-3
            torch.testing.assert_close(density[i, t], plain[i, t] - log_det, rtol=1e-4, atol=1e-4)


def test_pretraining_is_of_the_temporal_latent_alone():
    net = network(pretrain=0.4, training={"epochs": 5}).train()
    given = drawn(net)
    for number, names in ((1, {"pretraining", "temporal"}), (3, {"reconstruction", "temporal", "metric"})):
        net.begin_epoch(number)
        assert set(net.losses(given)) == names
    net.begin_epoch(1)
    torch.stack(list(net.losses(given).values())).sum().backward()
    assert net.temporal_autoencoder.down[0].weight.grad is not None
    assert net.posterior.weight.grad is None
    net.eval()
    assert set(net.losses(given)) == {"reconstruction", "temporal", "metric"}


def test_the_weight_of_the_latents_rises_in_training_and_is_one_in_validation():
    net = network(pretrain=0.0, anneal=0.5, training={"epochs": 8})
    given = drawn(net)
    with torch.no_grad():
        full = net.losses(given)
        net.train()
        for number, weight in ((1, 0.0), (2, 0.25), (5, 1.0), (8, 1.0)):
            net.begin_epoch(number)
            losses = net.losses(given)
            for name in ("temporal", "metric"):
                torch.testing.assert_close(losses[name], weight * full[name])
        net.begin_epoch(1)
        assert net.eval().losses(given)["metric"].tolist() == full["metric"].tolist()


def test_refinement_replaces_the_least_probable_cells_by_their_expectation():
    seen = []

    class Halves:
        """Expects half of its input and finds large values improbable."""

        def score(self, x, noise, scored):
            seen.append(x.clone())
            return scored.abs(), x / 2

    x = torch.tensor([[[1.0, 8.0, 2.0, 9.0, 3.0]]])
    measured = torch.tensor([[[True, True, True, False, True]]])
    settings = update(Config(), {"refine": 2, "suspect": 0.2})
    nll, mean = refine_and_score(Halves(), x, measured, {}, settings)
    assert [x.flatten().tolist() for x in seen] == [[1, 8, 2, 9, 3], [1, 4, 2, 4.5, 3], [1, 2, 2, 2.25, 3]]
    assert mean.flatten().tolist() == [0.5, 1, 1, 1.125, 1.5]
    assert nll.flatten().tolist() == x.flatten().tolist()


@pytest.mark.parametrize("scoring", ["fused", "own"])
def test_it_learns_and_finds_a_planted_anomaly(scoring):
    config = update(Config.tiny(), {"scoring": scoring, "refine": 1, "training": {"epochs": 10}})
    detector = InterFusion(length=LENGTH, config=config).fit(waves(40, 0))
    losses = [epoch.validation for epoch in detector.history_.epochs]
    assert losses[-1] < losses[0] - 0.3
    new = waves(6, 1)
    new[4, 10:14, 2] += 6
    new[0, 3:5] = np.nan
    result = detector.detect(new)
    assert result.observations["score"].argmax() == 4
    assert next(iter(result.worst(1).iloc[0]["variables"])) == "variable_2"


def test_the_papers_score_is_the_mean_improbability_of_the_steps():
    config = update(Config.tiny(), {"scoring": "own", "samples": 1, "training": {"epochs": 1}})
    detector = InterFusion(length=LENGTH, config=config).fit(waves(10, 0))
    z = np.random.default_rng(0).normal(size=(VARIABLES, LENGTH)).astype(np.float32)
    z[1:, 7] = np.nan
    z[:, 9] = np.nan
    with torch.no_grad():
        output = detector._make_inference()(z)
    assert np.isnan(output.steps[9])
    assert np.isfinite(np.delete(output.steps, 9)).all()
    np.testing.assert_array_equal(np.isnan(output.residuals[0]), np.isnan(z))
    least = 0.5 * math.log(2 * math.pi) - 5  # of a standard deviation of exp(-5), at its mean
    assert np.nanmin(output.steps) >= least
    np.testing.assert_allclose(output.residuals[0], np.abs(z - output.expected), rtol=1e-5)


@pytest.mark.parametrize("samples", [1, 3])
def test_a_cell_is_as_improbable_as_the_normal_distributions_of_the_samples_say(samples):
    config = update(Config.tiny(), {"scoring": "own", "samples": samples, "training": {"epochs": 1}})
    detector = InterFusion(length=LENGTH, config=config).fit(waves(10, 0))
    z = np.random.default_rng(0).normal(size=(VARIABLES, LENGTH)).astype(np.float32)
    z[1:, 7] = np.nan
    net, x = detector.network_, torch.from_numpy(np.nan_to_num(np.arcsinh(z)))
    generator = torch.Generator().manual_seed(derive_seed(detector.settings.seed, 1))
    noise = net.noise((samples, 3, VARIABLES, 16), generator)
    cells, means = np.zeros(z.shape), np.zeros(z.shape)
    with torch.no_grad():
        output = detector._make_inference()(z)
        for w, (first, new) in enumerate([(0, 0), (16, 0), (24, 8)]):  # the last window adds its last 8 steps
            window = x[None, :, first : first + 16]
            q2 = net.temporal_autoencoder.encode(window)
            here = slice(first + new, first + 16)
            for s in range(samples):
                auxiliary = net.temporal_autoencoder.decode(q2.mean + q2.log_std.exp() * noise["temporal"][s, w], 16)
                px = net.likelihood(auxiliary, net.infer(auxiliary, noise["metric"][s, w][None])[0])
                nll = -Normal(px.mean, px.log_std.exp()).log_prob(window)
                cells[:, here] += nll[0, :, new:].numpy() / samples
                means[:, here] += px.mean[0, :, new:].numpy() / samples
    cells[np.isnan(z)] = np.nan
    np.testing.assert_allclose(output.steps, np.nanmean(cells, axis=0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(output.expected, np.sinh(means), rtol=1e-4, atol=1e-5)
