import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tsadc.nn.pointwise import Pointwise, mix


def normal(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()


@pytest.mark.parametrize(("batch", "channels", "out", "time"), [(1, 1, 1, 1), (3, 4, 5, 7), (2, 1, 6, 3), (4, 5, 1, 2)])
def test_mixing_is_a_convolution_of_width_one(batch: int, channels: int, out: int, time: int) -> None:
    tensors = normal(batch, channels, time, seed=0), normal(out, channels, seed=1), normal(out, seed=2)
    x, weight, bias = tensors
    mixed = mix(x, weight, bias)
    expected = F.conv1d(x, weight.unsqueeze(-1), bias)
    torch.testing.assert_close(mixed, expected)
    by_loop = torch.stack([weight @ x[0, :, now] + bias for now in range(time)], -1)
    torch.testing.assert_close(mixed[0], by_loop)
    ahead = normal(batch, out, time, seed=3).detach()
    for one, other in zip(
        torch.autograd.grad(mixed, tensors, ahead), torch.autograd.grad(expected, tensors, ahead), strict=True
    ):
        torch.testing.assert_close(one, other)
    assert torch.autograd.gradcheck(mix, tensors)


def test_a_view_is_mixed_like_its_copy() -> None:
    x, weight, bias = normal(2, 7, 4, seed=0), normal(3, 4, seed=1), normal(3, seed=2)
    torch.testing.assert_close(mix(x.mT, weight, bias), mix(x.mT.contiguous(), weight, bias))
    wide = normal(6, 4, 7, seed=3)[::2]
    torch.testing.assert_close(mix(wide, weight, bias), mix(wide.clone(), weight, bias))


def test_the_layer_is_the_convolution_it_stands_for() -> None:
    """Same parameters, same names, same start: models saved with one load into the other."""
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        layer = Pointwise(4, 5)
        torch.manual_seed(0)
        plain = torch.nn.Conv1d(4, 5, 1)
    assert list(layer.state_dict()) == list(plain.state_dict())
    for name, tensor in plain.state_dict().items():
        assert torch.equal(layer.state_dict()[name], tensor)
    x = normal(3, 4, 6, seed=0).float()
    torch.testing.assert_close(layer(x), plain(x))
    layer(x).square().sum().backward()
    plain(x).square().sum().backward()
    torch.testing.assert_close(layer.weight.grad, plain.weight.grad)
    torch.testing.assert_close(layer.bias.grad, plain.bias.grad)
