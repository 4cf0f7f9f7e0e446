from functools import partial

import pytest
import torch
from torch import nn

import networks
from tsadc.config import update
from tsadc.detectors.baselines.s4_ae import S4AE, Network
from tsadc.nn.s4 import S4, ssm_parameters
from tsadc.nn.train import Training

Config = S4AE.Config
LENGTH, VARIABLES = 26, 4  # not a multiple of the factor
waves = partial(networks.coupled, length=LENGTH, variables=VARIABLES)


def network(**settings: object) -> Network:
    torch.manual_seed(1)
    return Network(update(Config.tiny(), settings), VARIABLES)


def test_the_code_is_narrower_and_coarser_than_the_data():
    net = network(factor=4, latent=3, layers=2)
    x = torch.randn(2, VARIABLES, LENGTH)
    code = net.encode(x)
    assert code.shape == (2, 3, 7)
    hidden = net.encoder(x)
    for i in range(7):  # the last column stands for two steps
        mean = hidden[..., 4 * i : 4 * i + 4].mean(-1)
        torch.testing.assert_close(code[..., i], mean @ net.narrow.weight.squeeze(-1).T + net.narrow.bias)
    held = torch.stack([code[..., step // 4] for step in range(LENGTH)], dim=-1)
    torch.testing.assert_close(net.decode(code, LENGTH), net.decoder(held))
    for side in (net.encoder, net.decoder):
        assert sum(isinstance(layer, S4) for layer in side) == 2


def test_nothing_passes_the_bottleneck_but_the_code():
    net = network(latent=1)
    x = torch.randn(1, VARIABLES, LENGTH)
    nn.init.zeros_(net.narrow.weight)
    torch.testing.assert_close(net(x), net(10 * x))


def test_the_loss_is_the_mean_square_over_what_was_measured():
    net, generator = network(), torch.Generator().manual_seed(3)
    x = torch.randn(4, VARIABLES, LENGTH, generator=generator)
    observed = torch.rand(x.shape, generator=generator) > 0.2
    drawn = net.draw(x, observed, generator)
    together = net.losses(drawn)["reconstruction"]
    for i in range(4):
        inside = torch.asinh(torch.where(observed, x, 0.0)[i : i + 1])
        apart = inside - net.decode(net.encode(inside), LENGTH)
        torch.testing.assert_close(together[i], apart[observed[i : i + 1]].square().mean())


def test_dynamics_do_not_decay():
    net = network(layers=2)
    plain, slow = net.parameter_groups(Training(weight_decay=0.1))
    assert plain["weight_decay"] == 0.1
    assert slow["weight_decay"] == 0
    assert {id(parameter) for parameter in slow["params"]} == {id(parameter) for parameter in ssm_parameters(net)}
    assert len(slow["params"]) == 4 * 4  # log dt, decay, frequency and B of four layers


@pytest.mark.parametrize("scoring", ["own", "fused"])
def test_it_learns_and_finds_a_planted_anomaly(scoring):
    training = {"epochs": 10, "learning_rate": 1e-2}
    detector = S4AE(length=LENGTH, config=update(Config.tiny(), {"scoring": scoring, "training": training}))
    detector.fit(waves(30, 0))
    history = detector.history_
    assert history.best.loss < 0.6 * history.epochs[0].loss
    assert history.best.validation < 0.7 * history.epochs[0].validation
    new = waves(5, 5)
    new[3, 10:14, 2] += 6
    result = detector.detect(new)
    assert result.observations["score"].argmax() == 3
    assert next(iter(result.worst(1).iloc[0]["variables"])) == "variable_2"
