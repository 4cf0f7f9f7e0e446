import pytest
import torch

from tsadc.nn.gaussian import NARROW
from tsadc.nn.squeezer import Squeezer


def test_every_second_convolution_halves_time():
    assert Squeezer(4, 3).lengths(100) == [100, 50, 50, 25, 25, 13]  # 13: InterFusion's published size
    assert Squeezer(4, 1).lengths(7) == [7, 4]


@pytest.mark.parametrize("time", [16, 15, 13])
def test_a_window_comes_back_at_its_length(time):
    squeezer = Squeezer(4, 2)
    encoded = squeezer.encode(torch.randn(2, 4, time))
    assert encoded.mean.shape == encoded.log_std.shape == (2, 4, 4)
    assert squeezer.decode(encoded.mean, time).shape == (2, 4, time)


def test_the_latent_begins_narrow_around_a_convolution_of_its_own_stretch():
    torch.manual_seed(0)
    squeezer = Squeezer(3, 1)
    x = torch.randn(1, 3, 12)
    with torch.no_grad():
        squeezer.latent.weight.zero_()
        assert (squeezer.encode(x).log_std == NARROW).all()
        torch.nn.init.normal_(squeezer.latent.weight)
        before = squeezer.encode(x).mean
        other = x.clone()
        other[..., 11] += 1.0
        changed = (squeezer.encode(other).mean != before).any(1)[0]
        # Column i reads steps 2 i - 2 .. 2 i + 2, and the window ends at step 11.
        assert changed.tolist() == [False] * 5 + [True]
        down, latent = squeezer.down[0], squeezer.latent
        padded = torch.nn.functional.pad(x[0], (2, 2))
        hidden = torch.stack([(down.weight * padded[:, 6:11]).sum((1, 2)) + down.bias]).relu()[0]
        torch.testing.assert_close(before[0, :, 3], latent.weight[:3, :, 0] @ hidden + latent.bias[:3])
