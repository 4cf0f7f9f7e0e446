"""Sums of powers and products of series, against loops over their coefficients."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck

from tsadc.nn import power_series
from tsadc.nn.power_series import exponentials, fft_size, multiply, quotient

SHAPES = [(1, 1, 1), (2, 1, 1), (8, 1, 1), (1, 8, 2), (1, 1, 2), (1, 4, 3), (2, 1, 5), (3, 2, 17), (1, 1, 64)]


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def complex_normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.complex(normal(*shape, seed=seed), normal(*shape, seed=seed + 1))


def poles(channels: int, count: int, seed: int = 0) -> Tensor:
    """Inside the unit circle, where the powers stay small."""
    return torch.polar(normal(channels, count, seed=seed).sigmoid(), 4 * normal(channels, count, seed=seed + 1))


def model(rows: int, columns: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    return poles(2, 3, seed), complex_normal(rows, 2, 3, seed=seed + 10), complex_normal(columns, 2, 3, seed=seed + 20)


def slow_exponentials(pole: Tensor, rows: Tensor, columns: Tensor, length: int) -> Tensor:
    out, power = [], torch.ones_like(pole)
    for _ in range(length):
        out.append(2 * torch.einsum("icn,jcn,cn->ijc", rows, columns, power).real)
        power = power * pole
    return torch.stack(out, -1)


def slow_product(a: Tensor, b: Tensor) -> Tensor:
    """Coefficient k is the sum of a_i b_(k-i)."""
    return torch.stack([(a[..., : k + 1] * b[..., : k + 1].flip(-1)).sum(-1) for k in range(a.shape[-1])], -1)


def slow_quotient(a: Tensor, b: Tensor) -> Tensor:
    """By long division."""
    out = torch.zeros_like(a)
    for k in range(a.shape[-1]):
        known = (out[..., :k] * b[..., 1 : k + 1].flip(-1)).sum(-1)
        out[..., k] = (a[..., k] - known) / b[..., 0]
    return out


def divisor(*shape: int, seed: int = 5) -> Tensor:
    """1 + small coefficients: an inverse that does not grow."""
    out = normal(*shape, seed=seed) / (2 * shape[-1])
    out[..., 0] = 1 + out[..., 0].abs()
    return out


@pytest.mark.parametrize(("rows", "columns", "length"), SHAPES)
def test_exponentials_are_a_loop_over_powers(rows: int, columns: int, length: int) -> None:
    given_ = model(rows, columns)
    out = exponentials(*given_, length)
    assert out.shape == (rows, columns, 2, length)
    torch.testing.assert_close(out, slow_exponentials(*given_, length), rtol=1e-11, atol=1e-11)


@settings(max_examples=40)
@given(rows=st.integers(1, 6), columns=st.integers(1, 6), length=st.integers(1, 90), seed=st.integers(0, 2**16))
def test_exponentials_of_any_length(rows: int, columns: int, length: int, seed: int) -> None:
    given_ = model(rows, columns, seed)
    torch.testing.assert_close(
        exponentials(*given_, length), slow_exponentials(*given_, length), rtol=1e-10, atol=1e-10
    )


@pytest.mark.parametrize(("rows", "columns", "length"), SHAPES[:-1])
def test_gradients_of_exponentials(rows: int, columns: int, length: int) -> None:
    given_ = tuple(tensor.requires_grad_() for tensor in model(rows, columns))
    assert gradcheck(lambda *tensors: exponentials(*tensors, length), given_)
    weights = normal(rows, columns, 2, length, seed=3)
    fast = torch.autograd.grad((weights * exponentials(*given_, length)).sum(), given_)
    total = (weights * slow_exponentials(*given_, length)).sum()
    slow = torch.autograd.grad(total, given_, materialize_grads=True)  # a single power does not depend on the pole
    for one, other in zip(fast, slow, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def test_a_pole_of_zero_has_a_gradient() -> None:
    """0^0 is 1, and only the first power has a slope at 0."""
    pole, rows, columns = torch.zeros(1, 1, dtype=torch.complex128), *(complex_normal(1, 1, 1, seed=s) for s in (1, 2))
    pole.requires_grad_()
    exponentials(pole, rows, columns, 9).sum().backward()
    assert pole.grad is not None
    torch.testing.assert_close(pole.grad[0, 0], 2 * (rows * columns).conj()[0, 0, 0])


def test_exponentials_keep_single_precision_on_the_unit_circle() -> None:
    """Rounding of a pole would grow with its power: 600 steps at the rim are the hard case."""
    angle = torch.linspace(0.1, 3, 32, dtype=torch.float64)
    pole = torch.polar(torch.full_like(angle, 0.9999), angle).expand(2, -1)
    rows, columns = (complex_normal(2, 2, 32, seed=seed).to(torch.complex64) for seed in (0, 5))
    exact = slow_exponentials(pole, rows.to(torch.complex128), columns.to(torch.complex128), 600)
    out = exponentials(pole, rows, columns, 600)
    assert out.dtype == torch.float32
    assert (out - exact).abs().max() / exact.abs().max() < 2e-6


def test_gradients_of_exponentials_keep_single_precision() -> None:
    pole = poles(2, 8).requires_grad_()
    rows, columns = (complex_normal(2, 2, 8, seed=seed).to(torch.complex64).requires_grad_() for seed in (0, 5))
    out = exponentials(pole, rows, columns, 200)
    grads = torch.autograd.grad(out.square().sum(), (pole, rows, columns))
    doubles = [tensor.detach().to(torch.complex128).requires_grad_() for tensor in (pole, rows, columns)]
    exact = torch.autograd.grad(slow_exponentials(*doubles, 200).square().sum(), doubles)
    assert [grad.dtype for grad in grads] == [torch.complex128, torch.complex64, torch.complex64]
    for one, other in zip(grads, exact, strict=True):
        assert (one - other).abs().max() / other.abs().max() < 1e-5


def test_exponentials_take_far_fewer_powers_than_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    powers = power_series._powers

    def counted(base: Tensor, count: int) -> tuple[Tensor, Tensor]:
        made.append(count)
        return powers(base, count)

    monkeypatch.setattr(power_series, "_powers", counted)
    exponentials(*model(2, 2), 900)
    assert sum(made) <= 2.5 * math.sqrt(900)


@settings(max_examples=40)
@given(length=st.integers(1, 40), lead=st.sampled_from([(), (3,), (2, 3)]), seed=st.integers(0, 2**16))
def test_a_product_is_the_convolution_of_coefficients(length: int, lead: tuple[int, ...], seed: int) -> None:
    a, b = normal(*lead, length, seed=seed), normal(*lead[-1:], length, seed=seed + 1)
    torch.testing.assert_close(multiply(a, b), slow_product(a, b), rtol=1e-11, atol=1e-11)


@settings(max_examples=40)
@given(length=st.integers(1, 40), seed=st.integers(0, 2**16))
def test_a_quotient_is_long_division(length: int, seed: int) -> None:
    a, b = normal(3, length, seed=seed), divisor(3, length, seed=seed + 1)
    out = quotient(a, b)
    torch.testing.assert_close(out, slow_quotient(a, b), rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(multiply(out, b), a, rtol=1e-10, atol=1e-10)


def test_the_geometric_series() -> None:
    one, one_minus_half_z = torch.zeros(7), torch.zeros(7)
    one[0], one_minus_half_z[:2] = 1, torch.tensor([1.0, -0.5])
    torch.testing.assert_close(quotient(one, one_minus_half_z), 0.5 ** torch.arange(7.0))


@pytest.mark.parametrize("length", [1, 2, 3, 8, 11])
@pytest.mark.parametrize("lead", [(), (2,), (3, 2)])
def test_gradients_of_products_and_quotients(length: int, lead: tuple[int, ...]) -> None:
    a = normal(*lead, length).requires_grad_()
    shorter = normal(*lead[-1:], length, seed=1).requires_grad_()  # broadcast over what it lacks
    assert gradcheck(multiply, (a, shorter))
    assert gradcheck(multiply, (a, divisor(*lead, length).requires_grad_()))
    assert gradcheck(quotient, (a, divisor(*lead, length).requires_grad_()))


def test_an_axis_of_one_is_broadcast_too() -> None:
    a, b = normal(3, 2, 5).requires_grad_(), normal(1, 2, 5, seed=1).requires_grad_()
    assert gradcheck(multiply, (a, b))


def test_products_and_quotients_keep_single_precision() -> None:
    a, b = normal(4, 1000), divisor(4, 1000)
    for operation, slow in ((multiply, slow_product), (quotient, slow_quotient)):
        exact = slow(a, b)
        out = operation(a.float(), b.float())
        assert out.dtype == torch.float32
        assert (out - exact).abs().max() / exact.abs().max() < 2e-6


@pytest.mark.parametrize("least", [1, 2, 7, 1199, 1201, 24_001])
def test_fft_sizes_have_small_factors_only(least: int) -> None:
    size = fft_size(least)
    assert least <= size <= max(2, 1.2 * least)
    assert size % 2 == 0
    for smaller in range(least + least % 2, size, 2):
        assert largest_factor(smaller) > 5
    assert largest_factor(size) <= 5


def largest_factor(number: int) -> int:
    largest = 1
    for factor in range(2, number + 1):
        while number % factor == 0:
            number, largest = number // factor, factor
    return largest
