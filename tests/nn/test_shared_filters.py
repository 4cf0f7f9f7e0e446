"""Gradients through shared filters against plain backward, and how often a filter is made."""

import pytest
import torch
from cores import cores
from tiny import OnlyX
from torch import Tensor, nn

from tsadc.nn import losses, recompute
from tsadc.nn.layers import Dropout
from tsadc.nn.runtime.distributed import World
from tsadc.nn.s4 import S4, KernelName, StateSpace
from tsadc.nn.shared_filters import SharedFilters


class Stack(nn.Module):
    """Two S4 layers, the second one also on the first half of the time: a layer with two lengths."""

    def __init__(self, kernel: KernelName = "diagonal", bidirectional: bool = True, dropout: float = 0.0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        first, second = (
            S4(3, state=4, kernel=kernel, bidirectional=bidirectional, dropout=dropout, generator=generator)
            for _ in range(2)
        )
        self.first, self.second, self.dropout = first, second, Dropout(dropout)

    def losses(self, batch: OnlyX) -> dict[str, Tensor]:
        hidden = self.first(batch.x)
        half = self.second(hidden[..., : hidden.shape[-1] // 2])
        whole = self.second(self.dropout(hidden))
        return {"half": half.square().mean((1, 2)), "whole": (whole - 1).abs().mean((1, 2))}


def batch(count: int, time: int = 10) -> OnlyX:
    return OnlyX(torch.randn(count, 3, time, dtype=torch.float64, generator=torch.Generator().manual_seed(1)))


def plain_gradient(network: nn.Module, batch: OnlyX) -> list[Tensor]:
    total = sum(network.losses(batch).values())  # type: ignore[operator]
    return list(torch.autograd.grad(total.mean(), list(network.parameters())))


def shared_gradient(network: nn.Module, batch: OnlyX, micro_batch: int | None) -> list[Tensor]:
    network.zero_grad()
    losses.sum_losses(network, batch, micro_batch, World(), backward=True)
    grads = [parameter.grad for parameter in network.parameters()]
    assert all(grad is not None for grad in grads)
    return grads  # type: ignore[return-value]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Which layer made a kernel, and of what length."""
    counted: list[tuple[int, int]] = []
    make = StateSpace.forward

    def forward(self: StateSpace, length: int) -> Tensor:
        counted.append((id(self), length))
        return make(self, length)

    monkeypatch.setattr(StateSpace, "forward", forward)
    return counted


@pytest.mark.parametrize("kernel", ["diagonal", "dplr"])
@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("micro_batch", [None, 1, 2, 5])
def test_the_gradient_is_that_of_plain_backward(
    kernel: KernelName, bidirectional: bool, micro_batch: int | None
) -> None:
    network, drawn = Stack(kernel, bidirectional).double(), batch(5)
    expected = plain_gradient(network, drawn)
    for _ in range(2):  # the second update makes its filters beforehand
        for one, other in zip(shared_gradient(network, drawn, micro_batch), expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("kernel", ["diagonal", "dplr"])
def test_two_steps_of_time_are_enough(kernel: KernelName) -> None:
    network, drawn = Stack(kernel).double(), batch(3, time=2)
    for one, other in zip(shared_gradient(network, drawn, 1), plain_gradient(network, drawn), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("micro_batch", [1, 2, 6])
@pytest.mark.parametrize("threads", [1, 2])
def test_an_update_makes_each_filter_once(micro_batch: int, threads: int, made: list[tuple[int, int]]) -> None:
    network = Stack().double()
    wanted = sorted([(id(network.first.space), 10), (id(network.second.space), 5), (id(network.second.space), 10)])
    for _ in range(3):
        made.clear()
        with cores(threads):
            shared_gradient(network, batch(6), micro_batch)
        assert sorted(made) == wanted


def test_a_large_filter_is_made_again_for_the_gradient_and_is_the_same(
    made: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    network, drawn = Stack("dplr").double(), batch(4)
    kept = shared_gradient(network, drawn, 2)
    first = list(made)
    made.clear()
    monkeypatch.setattr(recompute, "CELLS", 2 * 10 * 3)  # the filters of 10 steps, and not that of 5
    network.zero_grad(set_to_none=True)
    again = shared_gradient(network, drawn, 2)
    assert all(torch.equal(one, other) for one, other in zip(kept, again, strict=True))
    assert sorted(made) == sorted(first + [one for one in first if one[1] == 10])


def test_what_one_update_used_and_the_next_does_not_is_forgotten(made: list[tuple[int, int]]) -> None:
    network = Stack().double()
    shared_gradient(network, batch(2, time=10), 1)
    for _ in range(2):
        shared_gradient(network, batch(2, time=8), 1)
    made.clear()
    shared_gradient(network, batch(2, time=8), 1)
    assert sorted(length for _, length in made) == [4, 8, 8]


def test_parts_without_gradients_take_the_same_filters(made: list[tuple[int, int]]) -> None:
    class Detached(Stack):
        def losses(self, batch: OnlyX) -> dict[str, Tensor]:
            with torch.no_grad():
                before = self.second(batch.x)
            return {"difference": (self.second(batch.x) - before - batch.x).square().mean((1, 2))}

    network, drawn = Detached().double(), batch(4)
    expected = torch.autograd.grad(network.losses(drawn)["difference"].mean(), list(network.second.parameters()))
    made.clear()
    losses.sum_losses(network, drawn, 1, World(), backward=True)
    assert [length for _, length in made] == [10]
    for parameter, grad in zip(network.second.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, grad, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("frozen", [["D"], ["space.log_dt", "space.C"], ["D", "space."]])
def test_frozen_parameters_get_no_gradient(frozen: list[str]) -> None:
    network, drawn = Stack().double(), batch(3)
    expected = dict(zip(dict(network.named_parameters()), plain_gradient(network, drawn), strict=True))
    for name, parameter in network.named_parameters():
        parameter.requires_grad_(not any(part in name for part in frozen))
    losses.sum_losses(network, drawn, 1, World(), backward=True)
    for name, parameter in network.named_parameters():
        if parameter.requires_grad:
            torch.testing.assert_close(parameter.grad, expected[name], rtol=1e-9, atol=1e-11)
        else:
            assert parameter.grad is None


def test_a_layer_that_an_update_does_not_use_gets_no_gradient() -> None:
    class Half(Stack):
        def losses(self, batch: OnlyX) -> dict[str, Tensor]:
            return {"first": self.first(batch.x).abs().mean((1, 2))}

    network = Half().double()
    losses.sum_losses(network, batch(2), 1, World(), backward=True)
    assert all(parameter.grad is not None for parameter in network.first.parameters())
    assert all(parameter.grad is None for parameter in network.second.parameters())


def test_after_an_update_or_an_error_layers_make_their_own_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Stack()
    layers = (network.first, network.second)
    with SharedFilters(network):
        assert all(layer.shared_filter is not None for layer in layers)
    assert all(layer.shared_filter is None for layer in layers)
    with pytest.raises(KeyboardInterrupt), SharedFilters(network):
        raise KeyboardInterrupt
    assert all(layer.shared_filter is None for layer in layers)
    shared_gradient(network, OnlyX(batch(2).x.float()), 1)
    monkeypatch.setattr(StateSpace, "forward", lambda self, length: 1 / 0)
    with pytest.raises(ZeroDivisionError), SharedFilters(network):
        pass  # filters used before are made on entry
    assert all(layer.shared_filter is None for layer in layers)
    with pytest.raises(ZeroDivisionError):
        shared_gradient(network, OnlyX(batch(2).x.float()), 1)
    assert all(layer.shared_filter is None for layer in layers)


def test_given_filters_are_the_layers_own() -> None:
    network = Stack("dplr").double()
    x = batch(2).x
    expected = network.first(x)
    with SharedFilters(network) as filters:
        assert filters.leaves == []
        torch.testing.assert_close(network.first(x), expected, rtol=0, atol=0)
        (leaf,) = filters.leaves
        torch.testing.assert_close(leaf, network.first.filter(10), rtol=0, atol=0)
        assert leaf.is_leaf
        assert leaf.requires_grad


def test_leaves_keep_the_order_of_layers_whoever_asks_first() -> None:
    network = Stack().double()
    x = batch(1).x
    with SharedFilters(network) as filters:
        network.second(x)
        network.first(x)
        network.second(x[..., :4])
        circles = [network.first.filter(10), network.second.filter(4), network.second.filter(10)]
        for leaf, circle in zip(filters.leaves, circles, strict=True):
            assert torch.equal(leaf, circle)


def test_a_network_without_such_layers_has_nothing_to_share() -> None:
    network = nn.Linear(3, 3)
    with SharedFilters(network) as filters:
        assert filters.leaves == []
    assert list(filters.gradients([])) == []
