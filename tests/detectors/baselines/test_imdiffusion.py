"""ImDiffusion: grating_masks masks, imputation of each half from the other, the vote, and the detector around them."""

import math
from functools import partial

import numpy as np
import pytest
import torch

import networks
from tsadc.config import update
from tsadc.detectors.baselines.imdiffusion import (
    DiffusionBatch,
    IMDiffusion,
    Imputer,
    Network,
    ResidualBlock,
    TransformerLayer,
    grating_masks,
    sinusoidal,
    vote_thresholds,
)
from tsadc.nn.patches import join_patches

Config = IMDiffusion.Config
LENGTH, VARIABLES = 40, 4
waves = partial(networks.following, length=LENGTH, variables=VARIABLES)


def network(**settings) -> Network:
    torch.manual_seed(0)
    net = Network(update(Config.tiny(), settings), VARIABLES).eval()
    torch.nn.init.normal_(net.output_proj[-1].weight)  # starts at zero, where nothing depends on anything
    return net


def drawn(net: Network, count: int = 3) -> DiffusionBatch:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(count, VARIABLES, LENGTH, generator=generator)
    observed = torch.rand(x.shape, generator=generator) < 0.9
    return net.draw(torch.where(observed, x, 0.0), observed, generator)


def test_the_two_gratings_hide_every_other_stripe_and_together_everything_once():
    assert grating_masks(10, 5).int().tolist() == [[1, 1, 0, 0, 1, 1, 0, 0, 1, 1], [0, 0, 1, 1, 0, 0, 1, 1, 0, 0]]
    assert grating_masks(3, 10).int().tolist() == [[1, 0, 1], [0, 1, 0]]
    hidden = grating_masks(100, 10)
    assert torch.equal(hidden[0], ~hidden[1])
    assert torch.equal(hidden[0], torch.arange(100) // 10 % 2 == 0)


def test_the_share_of_votes_falls_as_the_errors_of_a_step_grow():
    errors = np.stack([np.arange(1.0, 101.0), 2 * np.arange(1.0, 101.0), np.full(100, 50.5)])
    # Means 50.5, 101 and 50.5: of the second step, half the share.
    tau = vote_thresholds(errors, 0.1)
    np.testing.assert_allclose(tau, [1 + 99 * 0.9, 2 + 198 * 0.95, 50.5])
    assert (errors > tau[:, None]).sum(axis=1).tolist() == [10, 5, 0]


@pytest.mark.parametrize("target", ["noise", "start"])
def test_the_loss_is_the_error_of_what_is_hidden_and_measured(target):
    net = network(diffusion={"target": target})
    given = drawn(net, 2)
    with torch.no_grad():
        losses = net.losses(given)["imputation"]
        for i in range(2):
            errors = []
            for w in range(3):
                x, observed, noise = (tensor[i, w] for tensor in (given.x, given.observed, given.noise))
                step = int(given.step[i, w])
                alpha_bar = float(net.diffusion.alpha_bar[step])
                stripe = torch.arange(16) // 4 % 2
                hidden = (stripe == given.policy[i, w]) & observed
                noisy = alpha_bar**0.5 * x + (1 - alpha_bar) ** 0.5 * noise
                prediction = net(noisy[None], torch.tensor([step]), (observed & ~hidden)[None])[0]
                errors.append((prediction - (noise if target == "noise" else x)).square()[hidden])
            assert float(losses[i]) == pytest.approx(float(torch.cat(errors).mean()), rel=1e-4)


def test_attention_is_a_weighted_mean_head_by_head_and_then_dense_layers():
    torch.manual_seed(0)
    layer = TransformerLayer(4, 2)
    x = torch.randn(3, 5, 4)
    with torch.no_grad():
        output = layer(x)
        for sequence in range(3):
            query, key, value = layer.qkv(layer.attention_norm(x[sequence])).chunk(3, -1)
            heads = []
            for part in (slice(0, 2), slice(2, 4)):
                weights = torch.softmax(query[:, part] @ key[:, part].T / math.sqrt(2), dim=-1)
                heads.append(weights @ value[:, part])
            hidden = x[sequence] + layer.out_proj(torch.cat(heads, -1))
            expected = hidden + layer.mlp(layer.mlp_norm(hidden))
            torch.testing.assert_close(output[sequence], expected, rtol=1e-4, atol=1e-5)


def test_a_block_attends_time_layer_then_across_variables_and_splits():
    torch.manual_seed(0)
    block = ResidualBlock(4, 2)
    x, step, side = torch.randn(2, 3, 5, 4), torch.randn(2, 8), torch.randn(3, 5, 4)
    with torch.no_grad():
        out, skip = block(x, step, side)
        hidden = x + block.step_proj(step)[:, None, None]
        for i in range(2):
            along = torch.stack([block.time_layer(hidden[i, k : k + 1])[0] for k in range(3)])
            across = torch.stack([block.variable_layer(along[:, t][None])[0] for t in range(5)], dim=1)
            filtered, gate = (block.gate_in(across) + block.side_proj(side)).chunk(2, -1)
            residual, expected_skip = block.gate_out(torch.tanh(filtered) * torch.sigmoid(gate)).chunk(2, -1)
            torch.testing.assert_close(out[i], (x[i] + residual) / math.sqrt(2.0), rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(skip[i], expected_skip, rtol=1e-4, atol=1e-5)


def test_a_position_is_encoded_by_sines_and_cosines_from_fast_to_slow():
    encoding = sinusoidal(torch.tensor([0, 3]), 4)
    assert encoding[0].tolist() == [0.0, 0.0, 1.0, 1.0]
    expected = [math.sin(3.0), math.sin(3e-4), math.cos(3.0), math.cos(3e-4)]
    torch.testing.assert_close(encoding[1], torch.tensor(expected))


def test_attention_reaches_along_time_and_across_variables():
    net = network()
    x = torch.randn(1, VARIABLES, 15)  # the last patch is not full
    shown, step = torch.ones_like(x, dtype=torch.bool), torch.tensor([7])
    with torch.no_grad():
        before = net(x, step, shown)
        assert before.shape == x.shape
        x[0, 2, 14] += 1
        assert ((net(x, step, shown) - before).abs() > 1e-7).all()
        for layer in (net.blocks[0].time_layer, net.blocks[0].variable_layer):
            layer.out_proj.weight.zero_()
        silent = net(x, step, shown)
        x[0, 2, 14] += 1
        changed = (net(x, step, shown) - silent).abs() > 1e-7
    assert changed.nonzero()[:, 1].unique().tolist() == [2]
    assert changed.nonzero()[:, 2].unique().tolist() == [14]


def test_each_half_is_imputed_from_the_other_half_only():
    config = update(Config.tiny(), {"window": 20})
    imputer = Imputer(network(window=20), config, VARIABLES, LENGTH)
    x = torch.randn(VARIABLES, LENGTH)
    measured = torch.ones_like(x, dtype=torch.bool)
    hidden = grating_masks(20, 4)[0].repeat(2)
    other = torch.where(hidden, x + 1, x)
    before, after = imputer(x, measured)[0], imputer(other, measured)[0]
    assert torch.equal(before[:, hidden], after[:, hidden])
    changed = (before != after)[:, ~hidden]
    assert changed.all()
    # What was not measured is never shown.
    measured[1, 3:6] = False
    gone = torch.where(measured, x, x + 1)
    for before, after in zip(imputer(x, measured), imputer(gone, measured), strict=True):
        assert torch.equal(before[measured], after[measured])


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        ({"chain": 5, "diffusion": {"steps": 10}}, [0, 2, 4]),
        ({"chain": 5, "diffusion": {"steps": 10}, "stride": 2}, [0, 4]),
        ({"chain": 0, "diffusion": {"steps": 10}, "stride": 3}, [0, 3]),
    ],
)
def test_the_last_samples_of_the_denoising_vote_the_very_last_first(settings, steps):
    config = update(Config.tiny(), settings)
    net = network(**settings)
    imputer = Imputer(net, config, VARIABLES, LENGTH)
    seen = []
    net.forward = lambda noisy, step, shown: seen.append(int(step[0])) or torch.zeros_like(noisy)
    samples = imputer(torch.zeros(VARIABLES, LENGTH), torch.ones(VARIABLES, LENGTH, dtype=torch.bool))
    assert len(samples) == len(steps)
    assert seen == ([10, 8, 6, 4, 2] if settings["chain"] else list(range(10, 0, -1)))
    if settings["chain"]:
        # The network says that the clean window is 0, so that the sample at step t is the noise that is left.
        left = [float((1 - net.diffusion.alpha_bar[step]) ** 0.5) for step in steps]
        spread = [float(sample.std()) for sample in samples]
        first = float((1 - net.diffusion.alpha_bar[10]) ** 0.5)
        begin = torch.where(imputer.hidden[0], *imputer.initial_noise.view(imputer.hidden.shape))
        began = float(join_patches(begin, LENGTH).std())
        np.testing.assert_allclose(spread, [std / first * began for std in left], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("scoring", ["fused", "own"])
def test_it_learns_and_finds_a_planted_anomaly(scoring):
    config = update(Config.tiny(), {"scoring": scoring, "training": {"epochs": 8, "batch": 4}})
    detector = IMDiffusion(length=LENGTH, config=config).fit(waves(40, 0))
    losses = [epoch.loss for epoch in detector.history_.epochs]
    assert losses[-1] < 0.7 * losses[0]  # at the noisiest steps nothing reveals the hidden cells
    new = waves(6, 1)
    new[4, 10:14, 2] += 6
    new[0, 3:5] = np.nan
    result = detector.detect(new)
    assert result.observations["score"].argmax() == 4
    assert next(iter(result.worst(1).iloc[0]["variables"])) == "variable_2"


def test_the_papers_score_is_the_share_of_votes():
    config = update(Config.tiny(), {"scoring": "own", "training": {"epochs": 1}})
    detector = IMDiffusion(length=LENGTH, config=config).fit(waves(10, 0))
    z = np.random.default_rng(0).normal(size=(VARIABLES, LENGTH)).astype(np.float32)
    z[1:, 7] = np.nan
    z[:, 9] = np.nan
    values = np.arcsinh(z)
    samples = detector._imputer().errors(z)
    errors = samples[0]
    voters = len(detector.tau_)
    assert errors.shape == (voters, LENGTH)
    assert errors[0, 7] == pytest.approx(abs(float(samples[1][0, 7]) - values[0, 7]), rel=1e-5)
    assert errors[0, 5] == pytest.approx(np.abs(samples[1].numpy()[:, 5] - values[:, 5]).mean(), rel=1e-5)
    detector.tau_ = np.median(errors[:, :7], axis=1)
    with torch.no_grad():
        output = detector._make_inference()(z)
    assert np.isnan(output.steps[9])
    for t in range(7):
        assert output.steps[t] == sum(errors[v, t] > detector.tau_[v] for v in range(voters)) / voters
    np.testing.assert_array_equal(np.isnan(output.residuals[0]), np.isnan(z))


def test_the_linear_schedule_leaves_as_little_signal_as_the_published_quadratic_one():
    diffusion = Config.preset("published").diffusion
    assert diffusion.target == "noise"
    quadratic = np.prod(1 - np.linspace(1e-4**0.5, 0.5**0.5, 50) ** 2)
    assert 0.5 < np.prod(1 - np.linspace(diffusion.beta_start, diffusion.beta_end, 50)) / quadratic < 2
