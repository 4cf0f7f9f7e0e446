import math
from functools import partial

import numpy as np
import pytest
import torch

import networks
from tsadc.config import update
from tsadc.detectors.baselines.dcdetector import DCdetector, Network, divergence_from_uniform, sinusoidal, standardise
from tsadc.errors import ConfigError
from tsadc.nn.trainable import ObservedBatch

Config = DCdetector.Config
LENGTH, VARIABLES = 48, 4
waves = partial(networks.coupled, length=LENGTH, variables=VARIABLES)


def network(**settings: object) -> Network:
    torch.manual_seed(1)
    return Network(update(Config.tiny(), settings), LENGTH).double()


def batch(count: int = 3) -> ObservedBatch:
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(count, VARIABLES, LENGTH, generator=generator).double()
    return ObservedBatch(x, torch.rand(x.shape, generator=generator) > 0.2)


def attention(net: Network, tokens: torch.Tensor) -> torch.Tensor:
    query, key = net.queries[0](tokens), net.keys[0](tokens)
    return torch.softmax(query @ key.T / math.sqrt(tokens.shape[1]), dim=-1)


def test_the_divergence_is_that_of_the_upsampled_branches():
    """Against both branches at (window, window), step by step, as the paper draws them."""
    net, drawn = network(patches=(2, 4)), batch(1)
    x, seen = drawn.x, drawn.observed
    with torch.no_grad():
        patch_wise, in_patch = net(torch.where(seen, x, 0.0), seen)
        window, cells = torch.asinh(x[0, 1, 24:]), seen[0, 1, 24:]
        values = window[cells]
        window = torch.where(cells, (window - values.mean()) / (values.var(correction=0) + 1e-3).sqrt(), 0.0)
        expected = torch.zeros(24, dtype=torch.float64)
        for embedding, size in zip(net.embeddings, (2, 4), strict=True):
            count = 24 // size
            patches = window.reshape(count, size)
            position = sinusoidal(max(size, count), 8).double()
            N = attention(net, embedding.patch_wise(patches) + position[:count])
            P = attention(net, embedding.in_patch(patches.T) + position[:size])
            for i in range(24):
                n_row = torch.stack([N[i // size, j // size] / size for j in range(24)])
                p_row = torch.stack([P[i % size, j % size] / count for j in range(24)])
                assert n_row.sum() == pytest.approx(1)
                assert p_row.sum() == pytest.approx(1)
                expected[i] += (n_row * (n_row / p_row).log()).sum() + (p_row * (p_row / n_row).log()).sum()
    torch.testing.assert_close((patch_wise + in_patch)[0, 1, 1], expected / 2)


def test_how_far_from_uniform():
    # A = (3/4, 1/4): KL(A, U) + KL(U, A) = (3/4 - 1/2) log(3/2) + (1/4 - 1/2) log(1/2)
    logits = torch.tensor([[math.log(3.0), 0.0], [5.0, 5.0]])
    expected = [0.25 * math.log(1.5) + 0.25 * math.log(2.0), 0.0]
    assert divergence_from_uniform(logits).tolist() == pytest.approx(expected)
    assert (divergence_from_uniform(1e-4 * torch.randn(50, 7)) >= 0).all()


@pytest.mark.parametrize("opposed", [True, False])
def test_each_loss_keeps_the_other_branch_fixed(opposed):
    net, drawn = network(opposed=opposed), batch()
    cells = net.windows.cut(drawn.observed)
    losses = net.losses(drawn)
    split = [
        {"patch_wise": list(e.patch_wise.parameters()), "in_patch": list(e.in_patch.parameters())}
        for e in net.embeddings
    ]
    for name, loss in losses.items():
        other = "in_patch" if name == "patch_wise" else "patch_wise"
        fixed = [parameter for part in split for parameter in part[other]]
        free = [parameter for part in split for parameter in part[name]]
        grads = torch.autograd.grad(loss.sum(), fixed + free, retain_graph=True, allow_unused=True)
        assert all(grad is None or not grad.any() for grad in grads[: len(fixed)])
        assert any(grad is not None and grad.any() for grad in grads[len(fixed) :])
    patch_wise, in_patch = net(torch.where(drawn.observed, drawn.x, 0.0), drawn.observed)
    for i in range(3):
        divergence = (patch_wise + in_patch)[i][cells[i]].mean()
        torch.testing.assert_close(losses["in_patch"][i], divergence)
        torch.testing.assert_close(losses["patch_wise"][i], -divergence if opposed else divergence)


def test_every_window_has_mean_0_and_variance_1_over_what_was_measured():
    x = torch.tensor([[1.0, 3.0, 50.0, 1.0, 3.0], [4.0, 4.0, 4.0, 4.0, 9.0]])
    measured = torch.tensor([[True, True, False, True, True], [True, True, True, True, False]])
    expected = torch.tensor([[-1.0, 1.0, 0.0, -1.0, 1.0], [0.0] * 5]) / math.sqrt(1 + 1e-3)
    torch.testing.assert_close(standardise(x, measured), expected)


def test_a_window_is_as_long_as_the_observation_allows():
    assert Network(update(Config(), {"length": 50}), 50).windows.size == 45
    assert Network(Config(), 600).windows.size == 60
    published = update(Config.published(), {"length": 10})
    assert [embedding.count for embedding in Network(published, 10).embeddings] == [2]
    with pytest.raises(ConfigError, match="`length` must be at least 10, the shortest window"):
        update(Config.published(), {"length": 9})  # a single patch, whose attention is always uniform


@pytest.mark.parametrize("scoring", ["own", "fused"])
def test_it_learns_and_finds_a_planted_anomaly(scoring):
    training = {"epochs": 6, "learning_rate": 3e-3}
    detector = DCdetector(length=LENGTH, config=update(Config.tiny(), {"scoring": scoring, "training": training}))
    detector.fit(waves(30, 0))
    history = detector.history_.epochs
    assert history[-1].loss < 0.5 * history[0].loss
    new = waves(5, 5)
    new[3, 20:44, 2] += 2 * np.random.default_rng(0).normal(size=24)  # no wave any more, in the usual range
    result = detector.detect(new)
    assert result.observations["score"].argmax() == 3
    assert next(iter(result.worst(1).iloc[0]["variables"])) == "variable_2"


def test_a_cell_is_its_divergence_over_the_typical_one():
    detector = DCdetector(length=LENGTH, config=update(Config.tiny(), {"scoring": "own"})).fit(waves(30, 0))
    z = waves(1, 7)[0].T.astype(np.float32)
    z[1, 3:6] = np.nan
    with torch.no_grad():
        seen = torch.isfinite(torch.from_numpy(z))[None]
        patch_wise, in_patch = detector.network_(torch.nan_to_num(torch.from_numpy(z))[None], seen)
        output = detector._make_inference()(z)
    divergence = (patch_wise + in_patch)[0].flatten(1).numpy() / detector.typical_
    np.testing.assert_allclose(output.residuals[0], np.where(np.isnan(z), np.nan, divergence), rtol=1e-5)
    np.testing.assert_allclose(output.own_scores, np.nanmean(output.residuals[0], axis=0), rtol=1e-5)
    assert output.expected is None
