from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from cores import cores
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import Denoiser, NoisyBatch, OnlyX, Waves, weights
from torch import Tensor, nn

from tsadc.nn import losses
from tsadc.nn.layers import Dropout
from tsadc.nn.randomness import derive_seed
from tsadc.nn.runtime.distributed import World
from tsadc.nn.s4 import S4
from tsadc.nn.train import Training, train
from tsadc.nn.trainable import Batch, ObservedBatch


def drawn_batch(network: Denoiser, count: int) -> Batch:
    return losses.draw_batch(network, Waves(count), np.arange(count), torch.Generator().manual_seed(1))


def gradient_of_mean(network: Denoiser, batch: Batch) -> list[torch.Tensor]:
    total = sum(network.losses(batch).values())
    return list(torch.autograd.grad(total.mean(), list(network.parameters())))


def test_missing_values_become_zero_and_unobserved() -> None:
    class Recorder(Denoiser):
        def draw(self, x, observed, generator):
            return ObservedBatch(x, observed)

    source = Waves(3)
    source.values[0, 0, 0], source.values[1, 1, 2] = np.nan, np.inf
    drawn = losses.draw_batch(Recorder(), source, np.array([1, 0]), torch.Generator())
    values = source.values[[1, 0]]
    assert np.array_equal(drawn.observed.numpy(), np.isfinite(values))
    assert np.array_equal(drawn.x.numpy(), np.where(np.isfinite(values), values, 0))


@settings(deadline=None, max_examples=30)
@given(count=st.integers(1, 6), size=st.integers(1, 4), micro_batch=st.none() | st.integers(1, 7))
def test_micro_batches_and_processes_give_the_gradient_of_the_batch(
    count: int, size: int, micro_batch: int | None
) -> None:
    network = Denoiser()
    drawn = drawn_batch(network, count)
    expected = gradient_of_mean(network, drawn)
    sums: dict[str, float] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(World, "sum", lambda self, values: values)  # added up by hand, over the shares of all ranks
        for rank in range(size):
            losses.add(sums, losses.sum_losses(network, drawn, micro_batch, World(rank, size), backward=True))
    for parameter, gradient in zip(network.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-5, atol=1e-6)
    for name, loss in network.losses(drawn).items():
        assert sums[name] == pytest.approx(loss.sum().item(), rel=1e-5)


def test_evaluate_is_the_mean_over_observations_with_fixed_draws_and_no_dropout() -> None:
    network, source = Denoiser(dropout=0.5).train(), Waves(5)
    first = losses.evaluate(network, source, seed=3, batch=2)
    torch.rand(7)
    assert losses.evaluate(network, source, seed=3, batch=2) == first
    assert losses.evaluate(network, source, seed=4, batch=2) != first
    assert losses.evaluate(network, source, seed=3, batch=2, micro_batch=1) == pytest.approx(first)
    assert network.training

    network.eval()
    generator = torch.Generator().manual_seed(derive_seed(3, 0, losses.VALIDATION))
    slow: dict[str, list[float]] = {"noise": [], "size": []}
    for indices in ([0, 1], [2, 3], [4]):
        drawn = losses.draw_batch(network, source, np.array(indices), generator)
        for name, loss in network.losses(drawn).items():
            slow[name] += loss.tolist()
    assert first == pytest.approx({name: np.mean(values) for name, values in slow.items()})


def test_derived_seeds_differ_by_every_part_of_the_key() -> None:
    keys = [(seed, epoch, purpose) for seed in range(4) for epoch in range(4) for purpose in range(4)]
    seeds = {derive_seed(*key) for key in keys}
    assert len(seeds) == len(keys)
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_a_misshapen_draw_or_loss_is_named() -> None:
    class NoBatchAxis(Denoiser):
        def draw(self, x, observed, generator):
            return replace(super().draw(x, observed, generator), level=torch.rand(()))

    class MeanLoss(Denoiser):
        def losses(self, batch):
            return {name: loss.mean() for name, loss in super().losses(batch).items()}

    with pytest.raises(ValueError, match="level"):
        drawn_batch(NoBatchAxis(), 3)
    network = MeanLoss()
    with pytest.raises(ValueError, match="noise"):
        losses.sum_losses(network, drawn_batch(network, 3), None, World(), backward=False)


class Deep(Denoiser):
    """With everything that could tell threads apart: S4 layers whose filters are shared, and dropout."""

    def __init__(self, kernel: str = "diagonal", dropout: float = 0.3) -> None:
        super().__init__(dropout)
        generator = torch.Generator().manual_seed(0)
        self.layers = nn.Sequential(
            *(S4(2, state=4, kernel=kernel, dropout=dropout, generator=generator) for _ in range(2)),  # type: ignore[arg-type]
            Dropout(dropout),
        )

    def losses(self, batch: NoisyBatch) -> dict[str, Tensor]:
        return super().losses(replace(batch, x=self.layers(batch.x)))


def gradient(network: nn.Module, batch: Batch, micro_batch: int | None, threads: int) -> list[Tensor]:
    network.zero_grad()
    with cores(threads):
        sums = losses.sum_losses(network, batch, micro_batch, World(), backward=True, dropout=(3, 1))  # type: ignore[arg-type]
    grads = [parameter.grad.clone() for parameter in network.parameters() if parameter.grad is not None]
    assert len(grads) == len(list(network.parameters()))
    return [torch.tensor(list(sums.values())), *grads]


@pytest.mark.parametrize("micro_batch", [1, 2, 3, None])
@pytest.mark.parametrize("kernel", ["diagonal", "dplr"])
def test_threads_do_not_change_a_bit_of_loss_and_gradient(micro_batch: int | None, kernel: str) -> None:
    network = Deep(kernel).train()
    drawn = drawn_batch(network, 7)
    first = gradient(network, drawn, micro_batch, threads=1)
    for threads in (1, 2, 3):
        for _ in range(2):
            for one, other in zip(gradient(network, drawn, micro_batch, threads), first, strict=True):
                assert torch.equal(one, other)


def test_dropout_belongs_to_the_micro_batch_and_the_key() -> None:
    network = Deep().train()
    drawn = drawn_batch(network, 4)
    sums = [
        losses.sum_losses(network, drawn, 2, World(), backward=False, dropout=key) for key in ((1, 2), (1, 2), (1, 3))
    ]
    assert sums[0] == sums[1]
    assert sums[0] != sums[2]
    # The same observations twice, in two micro-batches: each has a dropout of its own.
    repeated = {name: tensor[:2].repeat(2, *[1] * (tensor.ndim - 1)) for name, tensor in drawn.tensors().items()}
    same = replace(drawn, **repeated)
    twice = losses.sum_losses(network, same, 2, World(), backward=False, dropout=(1, 2))
    once = losses.sum_losses(network, same[:2], 2, World(), backward=False, dropout=(1, 2))
    assert twice["noise"] != pytest.approx(2 * once["noise"], rel=1e-6)


def test_gradients_are_added_to_those_that_are_there_and_shared_ones_once() -> None:
    class Sum(nn.Module):
        """Two parameters whose gradient is one and the same tensor."""

        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = (nn.Parameter(torch.tensor([1.0, 2.0])) for _ in range(2))

        def losses(self, batch: OnlyX) -> dict[str, Tensor]:
            return {"sum": batch.x @ (self.a + self.b)}

    network, x = Sum(), torch.arange(6.0).view(3, 2)
    losses.sum_losses(network, OnlyX(x), 1, World(), backward=True)  # type: ignore[arg-type]
    for parameter in network.parameters():
        torch.testing.assert_close(parameter.grad, x.mean(0))
    losses.sum_losses(network, OnlyX(x), None, World(), backward=True)  # type: ignore[arg-type]
    for parameter in network.parameters():
        torch.testing.assert_close(parameter.grad, 2 * x.mean(0))


@given(count=st.integers(1, 300), cells=st.integers(1, 2**19))
def test_the_size_of_a_micro_batch(count: int, cells: int) -> None:
    drawn = ObservedBatch(torch.zeros(count), torch.zeros(1).expand(count, cells))
    size = losses.micro_batch_size(drawn)
    assert 1 <= size <= count
    assert size == 1 or size * cells <= losses.CELLS
    if count > 1:
        assert -(-count // size) >= 2
    # Not smaller than need be: one more would be too many cells, or leave a thread without work.
    assert (size + 1) * cells > losses.CELLS or -(-count // (size + 1)) < 2 or size == -(-count // 2)


@dataclass(frozen=True)
class Optional(Batch):
    x: Tensor
    step: Tensor | None = None


def test_a_part_of_a_batch_has_the_same_observations_of_every_tensor() -> None:
    x, step = torch.arange(10).view(5, 2), torch.arange(5)
    part = Optional(x, step)[1::2]
    assert len(part) == 2
    assert part.x.tolist() == [[2, 3], [6, 7]]
    assert part.step is not None
    assert part.step.tolist() == [1, 3]


def test_what_a_batch_does_not_have_stays_away() -> None:
    batch = Optional(torch.zeros(5, 2))
    assert list(batch.tensors()) == ["x"]
    assert batch[:3].step is None


def test_the_size_of_a_micro_batch_depends_on_the_data_alone() -> None:
    drawn = OnlyX(torch.zeros(16, 38, 600))
    sizes = set()
    for threads in (1, 2, 3):
        with cores(threads):
            sizes.add(losses.micro_batch_size(drawn))
    assert sizes == {losses.CELLS // (38 * 600)} == {5}


def test_training_gives_the_same_weights_to_the_bit_whatever_the_threads() -> None:
    config = Training(epochs=3, batch=5, learning_rate=0.02, ema=0.5)
    results = []
    for threads in (1, 2, 3):
        network = Deep()
        with cores(threads):
            history = train(network, Waves(12), Waves(5, seed=1), config, seed=4)  # type: ignore[arg-type]
        results.append((weights(network), [(epoch.loss, epoch.validation) for epoch in history.epochs]))
    for other in results[1:]:
        assert other[1] == results[0][1]
        for name, tensor in results[0][0].items():
            assert torch.equal(other[0][name], tensor), name
