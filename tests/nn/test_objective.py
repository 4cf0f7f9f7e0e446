import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import Denoiser, Waves

from tsadc.nn import objective
from tsadc.nn.world import World


def drawn_batch(network: Denoiser, count: int) -> dict[str, torch.Tensor]:
    return objective.draw(network, Waves(count), np.arange(count), torch.Generator().manual_seed(1))


def gradient_of_mean(network: Denoiser, drawn: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    total = sum(network.losses(drawn).values())
    return list(torch.autograd.grad(total.mean(), list(network.parameters())))


def test_missing_values_become_zero_and_unobserved() -> None:
    class Recorder(Denoiser):
        def draw(self, x, observed, generator):
            return {"x": x, "observed": observed}

    source = Waves(3)
    source.values[0, 0, 0], source.values[1, 1, 2] = np.nan, np.inf
    drawn = objective.draw(Recorder(), source, np.array([1, 0]), torch.Generator())
    values = source.values[[1, 0]]
    assert np.array_equal(drawn["observed"].numpy(), np.isfinite(values))
    assert np.array_equal(drawn["x"].numpy(), np.where(np.isfinite(values), values, 0))


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
            objective.add(sums, objective.sum_losses(network, drawn, micro_batch, World(rank, size), backward=True))
    for parameter, gradient in zip(network.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-5, atol=1e-6)
    for name, losses in network.losses(drawn).items():
        assert sums[name] == pytest.approx(losses.sum().item(), rel=1e-5)


def test_evaluate_is_the_mean_over_observations_with_fixed_draws_and_no_dropout() -> None:
    network, source = Denoiser(dropout=0.5).train(), Waves(5)
    first = objective.evaluate(network, source, seed=3, batch=2)
    torch.rand(7)
    assert objective.evaluate(network, source, seed=3, batch=2) == first
    assert objective.evaluate(network, source, seed=4, batch=2) != first
    assert objective.evaluate(network, source, seed=3, batch=2, micro_batch=1) == pytest.approx(first)
    assert network.training

    network.eval()
    generator = torch.Generator().manual_seed(objective.derive(3, 0, objective.VALIDATION))
    slow: dict[str, list[float]] = {"noise": [], "size": []}
    for indices in ([0, 1], [2, 3], [4]):
        drawn = objective.draw(network, source, np.array(indices), generator)
        for name, losses in network.losses(drawn).items():
            slow[name] += losses.tolist()
    assert first == pytest.approx({name: np.mean(values) for name, values in slow.items()})


def test_derived_seeds_differ_by_every_part_of_the_key() -> None:
    keys = [(seed, epoch, purpose) for seed in range(4) for epoch in range(4) for purpose in range(4)]
    seeds = {objective.derive(*key) for key in keys}
    assert len(seeds) == len(keys)
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_a_misshapen_draw_or_loss_is_named() -> None:
    class NoBatchAxis(Denoiser):
        def draw(self, x, observed, generator):
            return {**super().draw(x, observed, generator), "level": torch.rand(())}

    class MeanLoss(Denoiser):
        def losses(self, drawn):
            return {name: loss.mean() for name, loss in super().losses(drawn).items()}

    with pytest.raises(ValueError, match="level"):
        drawn_batch(NoBatchAxis(), 3)
    network = MeanLoss()
    with pytest.raises(ValueError, match="noise"):
        objective.sum_losses(network, drawn_batch(network, 3), None, World(), backward=False)
