import threading

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tsadc.nn.layers import LEVELS, Dropout, Pointwise, mix
from tsadc.nn.randomness import use_generator


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def dropped(share: float, *shape: int, seed: int = 0) -> Tensor:
    """Dropout of ones: what a cell is multiplied by."""
    with use_generator(seeded(seed)):
        out: Tensor = Dropout(share).train()(torch.ones(*shape))
    return out


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.9, 1 - 1e-9])
def test_a_cell_is_zero_or_scaled_so_that_the_mean_stays(share: float) -> None:
    kept = 1 - min(round(share * LEVELS), LEVELS - 1) / LEVELS
    assert kept == pytest.approx(1 - share, abs=1 / LEVELS)
    factors = dropped(share, 400, 1000).double()
    torch.testing.assert_close(factors[factors > 0], torch.full_like(factors[factors > 0], 1 / kept), rtol=1e-6, atol=0)
    # Five standard deviations of the share of 400 000 independent cells.
    bound = 5 * (kept * (1 - kept) / factors.numel()) ** 0.5
    assert (factors > 0).double().mean().item() == pytest.approx(kept, abs=bound)
    assert factors.mean().item() == pytest.approx(1, abs=bound / kept)


def test_the_share_is_exact_over_all_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """With every 16-bit number drawn once, exactly the level's number of cells is dropped."""
    every = torch.arange(-LEVELS // 2, LEVELS // 2, dtype=torch.int16).view(torch.int64)
    monkeypatch.setattr(Tensor, "random_", lambda self, *limits, generator=None: self.copy_(every))
    for share in (0.0001, 0.1, 0.5, 0.99, 1 - 1e-9):
        out = Dropout(share).train()(torch.ones(LEVELS, dtype=torch.float64))
        level = min(round(share * LEVELS), LEVELS - 1)
        assert (out == 0).sum().item() == level
        assert out.mean().item() == pytest.approx(1, rel=1e-12)


def test_each_of_the_four_cells_of_a_draw_is_independent() -> None:
    zero = (dropped(0.5, 4 * 50_000) == 0).view(-1, 4).double()
    correlation = torch.corrcoef(zero.T)
    assert (correlation - torch.eye(4)).abs().max() < 5 / 50_000**0.5
    assert (zero.mean(0) - 0.5).abs().max() < 5 * 0.5 / 50_000**0.5


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_nothing_happens_outside_training(share: float) -> None:
    x = torch.randn(3, 5, generator=seeded())
    assert Dropout(share).eval()(x) is x
    assert (Dropout(share).train()(x) is x) is (share == 0)


@pytest.mark.parametrize("shape", [(1,), (3,), (5, 7), (2, 3, 5), (4, 0)])
def test_any_number_of_cells(shape: tuple[int, ...]) -> None:
    out = dropped(0.5, *shape)
    assert out.shape == shape
    assert set(out.flatten().tolist()) <= {0.0, 2.0}


def test_the_generator_decides_and_the_process_does_not() -> None:
    first = dropped(0.5, 50, 3, seed=1)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    assert torch.equal(dropped(0.5, 50, 3, seed=1), first)
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.equal(dropped(0.5, 50, 3, seed=2), first)


def test_two_layers_draw_one_after_the_other() -> None:
    with use_generator(seeded()):
        one, two = (Dropout(0.5).train()(torch.ones(100)) for _ in range(2))
    assert not torch.equal(one, two)


def test_without_a_generator_the_process_decides() -> None:
    layer, x = Dropout(0.5).train(), torch.ones(100)
    with torch.random.fork_rng([]):
        torch.manual_seed(3)
        one = layer(x)
        two = layer(x)
        torch.manual_seed(3)
        assert torch.equal(layer(x), one)
        assert not torch.equal(one, two)


def test_a_generator_ends_with_its_block_and_blocks_nest() -> None:
    layer, x = Dropout(0.5).train(), torch.ones(100)
    alone = dropped(0.5, 100, seed=2)
    with torch.random.fork_rng([]):
        torch.manual_seed(3)
        plain = layer(x)
        torch.manual_seed(3)
        with use_generator(seeded(1)):
            with use_generator(seeded(2)):
                assert torch.equal(layer(x), alone)
            with pytest.raises(KeyError), use_generator(seeded(2)):
                raise KeyError
            assert torch.equal(layer(x), dropped(0.5, 100, seed=1))
        assert torch.equal(layer(x), plain)


def test_a_generator_belongs_to_its_thread() -> None:
    """Another thread that draws at the same time, from its own, changes nothing."""
    alone = [dropped(0.5, 40, seed=seed) for seed in (1, 2)]
    turn = threading.Barrier(2, timeout=60)
    found: dict[int, list[Tensor]] = {}

    def work(seed: int) -> None:
        layer = Dropout(0.5).train()
        with use_generator(seeded(seed)):
            turn.wait()
            found[seed] = [layer(torch.ones(40)), layer(torch.ones(40))]

    both = [threading.Thread(target=work, args=(seed,)) for seed in (1, 2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    for seed in (1, 2):
        assert torch.equal(found[seed][0], alone[seed - 1])


def test_gradients_go_where_cells_were_kept() -> None:
    x = torch.randn(6, 5, generator=seeded(), dtype=torch.float64, requires_grad=True)
    with use_generator(seeded(1)):
        out = Dropout(0.4).train()(x)
    out.sum().backward()
    torch.testing.assert_close(x.grad, dropped(0.4, 6, 5, seed=1).double(), rtol=1e-6, atol=0)


def test_a_part_like_any_other() -> None:
    network = nn.Sequential(Dropout(0.5))
    assert not list(network.state_dict())
    x = torch.ones(64)
    assert torch.equal(network.eval()(x), x)
    with use_generator(seeded()):
        assert not torch.equal(network.train()(x), x)


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
