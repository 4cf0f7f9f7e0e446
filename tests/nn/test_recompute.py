import pytest
import torch
from tiny import Denoiser, OnlyX

from tsadc.nn import losses, recompute
from tsadc.nn.layers import Dropout
from tsadc.nn.randomness import use_generator
from tsadc.nn.recompute import recomputed
from tsadc.nn.runtime.distributed import World
from tsadc.nn.s4 import S4


def gradients(layer: S4, x: torch.Tensor) -> list[torch.Tensor]:
    with use_generator(torch.Generator().manual_seed(5)):
        made = layer(x)
    return [made.detach(), *torch.autograd.grad(made.square().sum(), [x, *layer.parameters()])]


def test_the_same_bits_with_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    layer = S4(6, state=4, dropout=0.3, bidirectional=True)
    x = torch.randn(2, 6, 40, requires_grad=True)
    kept = gradients(layer, x)
    monkeypatch.setattr(recompute, "CELLS", 1)
    for one, other in zip(kept, gradients(layer, x), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("own", [True, False])
def test_work_is_done_twice_and_draws_the_same(monkeypatch: pytest.MonkeyPatch, own: bool) -> None:
    monkeypatch.setattr(recompute, "CELLS", 8)
    drop, seen = Dropout(0.5), list[torch.Tensor]()

    def work(x: torch.Tensor) -> torch.Tensor:
        kept = drop(x)
        seen.append(kept.detach().clone())
        return kept.square()

    x = torch.ones(16, requires_grad=True)
    generator = torch.Generator().manual_seed(1)
    with use_generator(generator) if own else torch.random.fork_rng(devices=[]):
        made = recomputed(work, x)
        after = generator.get_state()
        (grad,) = torch.autograd.grad(made.sum(), x)
    assert len(seen) == 2
    assert torch.equal(seen[0], seen[1])
    assert torch.equal(grad, 2 * seen[0].square())
    assert torch.equal(generator.get_state(), after)


def test_small_inputs_and_scoring_are_done_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recompute, "CELLS", 8)
    calls = []

    def work(x: torch.Tensor) -> torch.Tensor:
        calls.append(len(x))
        return x * 2

    x = torch.ones(7, requires_grad=True)
    recomputed(work, x).sum().backward()
    with torch.no_grad():
        recomputed(work, torch.ones(9))
    assert calls == [7, 9]


def test_an_update_with_filters_made_within_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The filters of the first update are made while the network is already at work; they are not made again."""

    class Two(Denoiser):
        def __init__(self) -> None:
            super().__init__()
            self.layer = S4(3, state=4, dropout=0.2, bidirectional=True)

        def losses(self, batch):
            return {"loss": self.layer(batch.x).square().mean((1, 2))}

    def update() -> list[torch.Tensor]:
        torch.manual_seed(0)
        network, x = Two(), torch.randn(4, 3, 20, generator=torch.Generator().manual_seed(3))
        losses.sum_losses(network, OnlyX(x), 1, World(), backward=True, dropout=(7,))
        return [parameter.grad for parameter in network.layer.parameters()]

    kept = update()
    monkeypatch.setattr(recompute, "CELLS", 1)
    assert all(torch.equal(one, other) for one, other in zip(kept, update(), strict=True))
