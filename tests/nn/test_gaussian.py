import math

import pytest
import torch
from torch import nn
from torch.distributions import Normal, kl_divergence

from tsadc.nn.gaussian import HIGHEST, LOWEST, NARROW, Gaussian, init_narrow


def pair() -> tuple[Gaussian, Gaussian]:
    generator = torch.Generator().manual_seed(0)
    return tuple(Gaussian.from_output(torch.randn(3, 8, generator=generator)) for _ in range(2))


def test_means_and_deviations_lie_one_after_the_other_and_deviations_are_held():
    both = torch.tensor([[1.0, 2.0, -9.0, 9.0]])
    found = Gaussian.from_output(both)
    assert found.mean.tolist() == [[1.0, 2.0]]
    assert found.log_std.tolist() == [[LOWEST, HIGHEST]]
    across = Gaussian.from_output(both.T, dim=0)
    assert across.mean.tolist() == [[1.0], [2.0]]
    assert Gaussian.clamped(both, both).log_std.tolist() == [[1.0, HIGHEST, LOWEST, HIGHEST]]


def test_density_and_sample_are_those_of_the_normal_distribution():
    one, _ = pair()
    value = torch.randn(3, 4)
    torch.testing.assert_close(one.log_prob(value), Normal(one.mean, one.log_std.exp()).log_prob(value))
    assert float(Gaussian(torch.zeros(1), torch.zeros(1)).log_prob(torch.zeros(1))) == pytest.approx(
        -0.5 * math.log(2 * math.pi)
    )
    assert Gaussian(torch.tensor([3.0]), torch.tensor([math.log(2.0)])).sample(torch.tensor([-1.5])).item() == 0.0


def test_the_divergence_is_that_of_the_normal_distribution():
    one, two = pair()
    first, second = (Normal(each.mean, each.log_std.exp()) for each in (one, two))
    torch.testing.assert_close(one.kl(two), kl_divergence(first, second))
    torch.testing.assert_close(one.kl(), kl_divergence(first, Normal(torch.zeros(3, 4), torch.ones(3, 4))))
    assert one.kl(one).abs().max() < 1e-6


def test_a_posterior_begins_narrow_and_its_means_as_they_were():
    torch.manual_seed(0)
    layer = nn.Linear(2, 6)
    means = layer.bias[:3].tolist()
    init_narrow(layer)
    assert layer.bias.tolist() == [*means, NARROW, NARROW, NARROW]
