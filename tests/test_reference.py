"""The plain reference of the speed ratios gives the fast path's numbers, so that a ratio compares like with like."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tsadc.detectors.tsadc.decontaminator import Decontaminator
from tsadc.detectors.tsadc.dependencies import Dependencies
from tsadc.detectors.tsadc.detector import TSADC
from tsadc.detectors.tsadc.inference import RESIDUALS, Inference
from tsadc.detectors.tsadc.network import Network, TSADCBatch
from tsadc.nn.s4 import S4, StateSpace

spec = importlib.util.spec_from_file_location("reference", Path(__file__).parents[1] / "benchmarks" / "reference.py")
assert spec is not None
assert spec.loader is not None
reference = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reference)

VARIABLES = 5
KERNELS = ("dplr", "diagonal")
LENGTHS = (48, 47)
each_kernel = pytest.mark.parametrize("kernel", KERNELS)
each_length = pytest.mark.parametrize("length", LENGTHS)


def assert_close(got: Tensor, expected: Tensor, tolerance: float = 1e-4) -> None:
    """Equal within `tolerance` of the largest expected value, which is not zero; NaN in the same places."""
    assert got.shape == expected.shape
    assert torch.equal(got.isnan(), expected.isnan())
    scale = expected.nan_to_num().abs().max()
    assert scale > 0
    error = (got - expected).nan_to_num().abs().max() / scale
    assert error < tolerance, f"{error:.1e}"


def network(kernel: str, length: int, steps: int = 50) -> Network:
    """The preset `paper` in small. No dropout: the two would drop different cells. Every weight is moved away from its
    start, so that no zero or one hides a difference."""
    torch.manual_seed(0)
    paper, small = TSADC.Config.paper(), {"state": 8, "kernel": kernel, "dropout": 0.0}
    diffusion = replace(paper.decontaminator.diffusion, steps=steps)
    made = Network(
        replace(paper.decontaminator, channels=8, blocks=2, diffusion=diffusion, **small),
        replace(paper.dependencies, features=6, layers=2, graphs=5, neighbours=2, **small),
        variables=VARIABLES,
        masked_length=length // 4,
        squash=paper.squash,
        joint=paper.joint,
    )
    with torch.no_grad():
        for parameter in made.parameters():
            parameter += 0.1 * torch.randn(parameter.shape)
    return made


def observations(batch: int, length: int, gaps: float = 0.1) -> tuple[Tensor, Tensor]:
    """Values, and where they were measured."""
    generator = torch.Generator().manual_seed(1)
    measured = torch.rand(batch, VARIABLES, length, generator=generator) > gaps
    return torch.randn(batch, VARIABLES, length, generator=generator), measured


def drawn(net: Network, length: int, dtype: torch.dtype = torch.float32) -> TSADCBatch:
    found = net.draw(*observations(3, length), torch.Generator().manual_seed(2))
    return replace(found, **{name: t.to(dtype) for name, t in found.tensors().items() if t.is_floating_point()})


def fast_gradients(net: Network, cells: TSADCBatch) -> dict[str, Tensor]:
    names, parameters = zip(*net.named_parameters(), strict=True)
    loss = torch.stack([loss.mean() for loss in net.losses(cells).values()]).sum()
    return dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))


def reference_gradients(net: Network, cells: TSADCBatch, length: int) -> dict[str, Tensor]:
    """Those of the published copy; what reached the stored C goes on to what it was made from."""
    copied = reference.published(net, length)
    reference.training_step(copied, cells)
    found = {name: parameter.grad for name, parameter in copied.named_parameters()}
    for place, space in net.named_modules():
        if isinstance(space, StateSpace) and space.P is not None:
            of_stored = found.pop(f"{place}.C")
            names = ["C", "log_dt", "log_decay", "frequency", "P"]
            behind = [getattr(space, name) for name in names]
            passed = torch.autograd.grad(reference.stored_C(space, length), behind, of_stored)
            for name, grad in zip(names, passed, strict=True):
                found[f"{place}.{name}"] = found.get(f"{place}.{name}", 0) + grad
    return found


def last_axis(x: Tensor) -> Tensor:
    """(batch, channel, time) <-> (batch, time, channel)."""
    return x.transpose(1, 2)


@each_kernel
@pytest.mark.parametrize(("channels", "state", "length"), [(8, 8, 48), (8, 8, 47), (4, 64, 600)])
def test_kernels_agree(kernel: str, channels: int, state: int, length: int) -> None:
    torch.manual_seed(0)
    space = StateSpace(channels, state=state, directions=2, kernel=kernel)
    assert_close(reference.kernel(reference.published(space, length), length), space(length))


@each_length
def test_the_kernel_of_a_model_with_a_known_answer(length: int) -> None:
    """One pole, no low rank: K[l] = 2 Re(C B Δ scale pole^l), term by term. Every frequency is finite, Nyquist too."""
    log_dt, Lambda = torch.tensor([-1.0]), torch.tensor([[-0.5 + 2.0j]])
    one, C = torch.ones(1, 1, dtype=torch.complex64), torch.tensor([[[0.3 - 0.8j]]])
    got = reference.dplr_kernel(log_dt, Lambda, 0 * one, one, C, length)
    dt, pole = np.exp(-1.0), -0.5 + 2.0j
    scale = 1 / (1 - dt / 2 * pole)
    powers = ((1 + dt / 2 * pole) * scale) ** np.arange(length)
    assert_close(got[0, 0], torch.from_numpy(2 * ((0.3 - 0.8j) * dt * scale * powers).real).float())


@each_kernel
@each_length
def test_layers_agree(kernel: str, length: int) -> None:
    torch.manual_seed(0)
    layer, x = S4(8, state=8, kernel=kernel), torch.randn(2, 8, length)
    nn.init.normal_(layer.norm.weight)
    nn.init.normal_(layer.norm.bias)
    assert_close(last_axis(reference.s4(reference.published(layer, length), last_axis(x))), layer(x))


@each_kernel
@each_length
def test_estimators_agree(kernel: str, length: int) -> None:
    model = network(kernel, length).decontaminator
    x, observed = observations(3, length)
    noisy, step = torch.randn(x.shape), torch.tensor([1, 20, 50])
    copied = reference.published(model, length)
    got = reference.estimate(copied, last_axis(noisy), step, last_axis(x), last_axis(observed))
    assert_close(last_axis(got), model.network(noisy, step, x, observed))


@each_kernel
@each_length
def test_losses_agree(kernel: str, length: int) -> None:
    net = network(kernel, length)
    cells = drawn(net, length)
    got, expected = reference.losses(reference.published(net, length), cells), net.losses(cells)
    assert list(got) == list(expected)
    for name in expected:
        assert_close(got[name], expected[name])


@each_kernel
@each_length
def test_gradients_agree(kernel: str, length: int) -> None:
    """In float64, where an error of algebra cannot pass for one of rounding."""
    net = network(kernel, length).double()
    cells = drawn(net, length, torch.float64)
    got, expected = reference_gradients(net, cells, length), fast_gradients(net, cells)
    assert set(got) == set(expected)
    for name in expected:
        assert_close(got[name], expected[name], 1e-9)


@each_kernel
def test_gradients_agree_in_single_precision(kernel: str) -> None:
    """Looser: rounding leaves the reference, complex64 inside, about 1e-4 from the exact gradients of the poles."""
    net = network(kernel, 48)
    cells = drawn(net, 48)
    got, expected = reference_gradients(net, cells, 48), fast_gradients(net, cells)
    for name in expected:
        assert_close(got[name], expected[name], 1e-3)


@each_kernel
@pytest.mark.parametrize(("length", "masks", "steps"), [(48, 0, 50), (47, 0, 50), (47, 3, 6)])
def test_exact_scores_agree(kernel: str, length: int, masks: int, steps: int) -> None:
    """Every ancestral step on the same noise, with one random mask as in the paper, or with complementary ones."""
    net = network(kernel, length, steps).eval()
    scoring = replace(TSADC.Config.paper().inference, masks=masks)
    inference = Inference(net, scoring, RESIDUALS, variables=VARIABLES, length=length, seed=3)
    values, measured = observations(1, length)
    z = torch.where(measured, values, torch.nan)[0]
    with torch.no_grad():
        found = inference(z.numpy()).residuals
    generator = torch.Generator().manual_seed(inference.generator_seed)
    copied = reference.published(net, length)
    imputation, reconstruction = reference.score(copied, z, inference.shown, inference.noise, generator)
    assert_close(imputation, torch.from_numpy(found[0]))
    assert_close(reconstruction, torch.from_numpy(found[1]))


def test_another_form_of_the_method_is_refused() -> None:
    net = Network(
        Decontaminator.Config(channels=4, blocks=1, state=4),
        Dependencies.Config(features=4, layers=1, state=4),
        variables=VARIABLES,
        masked_length=4,
        squash=True,
        joint=False,
    )
    with pytest.raises(ValueError, match="preset `paper` only"):
        reference.losses(net, {})
