"""Each fast form against its slow definition, and against numbers made by the published implementation of S4."""

from pathlib import Path

import numpy as np
import pytest
import torch
from definitions import convolve_directly
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tsadc.errors import ConfigError
from tsadc.nn import ssm

DPLR = ["N8_L64_init", "N8_L64_perturbed", "N8_L600_init", "N64_L64_init", "N64_L600_init", "N64_L1000_init"]
DIAGONAL = ["zoh_uni", "bilinear_bi"]
PRECISIONS = [(torch.float64, 1e-10), (torch.float32, 1e-4)]


def load(path: Path, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    complex_dtype = torch.complex128 if dtype == torch.float64 else torch.complex64
    arrays = {name: torch.from_numpy(array) for name, array in np.load(path).items()}
    return {name: a.to(complex_dtype if a.is_complex() else dtype) for name, a in arrays.items()}


def assert_close(actual: Tensor, expected: Tensor, tolerance: float = 1e-10) -> None:
    """Error relative to the largest expected value."""
    error = (actual.to(expected.dtype) - expected).abs().max() / expected.abs().max().clamp(min=1e-300)
    assert error <= tolerance, f"relative error {error:.1e}"


def random_model(N: int, channels: int, seed: int) -> dict[str, Tensor]:
    """A stable model unlike any initialisation."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=generator)

    def complex_normal() -> Tensor:
        return torch.complex(normal(channels, N // 2), normal(channels, N // 2))

    return {
        "log_dt": normal(channels) - 2,
        "Lambda": torch.complex(-normal(channels, N // 2).exp(), 5 * normal(channels, N // 2)),
        "P": complex_normal(),
        "B": complex_normal(),
        "C": complex_normal(),
    }


def kernel_by_recurrence(model: dict[str, Tensor], length: int) -> Tensor:
    dA, dB = ssm.bilinear(model["log_dt"], *ssm.dense(model["Lambda"], model.get("P"), model["B"]))
    impulse = torch.zeros(1, len(dA), length, dtype=torch.float64)
    impulse[..., 0] = 1
    return ssm.recurrence(dA, dB, model["C"], impulse)[0]


def convolve(x: Tensor, kernel: Tensor, D: Tensor) -> Tensor:
    return ssm.convolve(x, ssm.circular_filter(kernel, D, x.shape[-1]))


@pytest.mark.parametrize("N", [8, 64])
def test_hippo_and_its_low_rank_form_match_the_reference(golden: Path, N: int) -> None:
    reference = load(golden / "s4" / f"hippo_legs_N{N}.npz")
    A, B = ssm.hippo_legs(N)
    Lambda, P, B_eig, V = ssm.nplr_legs(N)
    assert_close(A, reference["A"])
    assert_close(B, reference["B"])
    assert_close(Lambda, reference["Lambda"])
    assert_close(P.abs(), reference["P"].abs())
    assert_close(B_eig.abs(), reference["B_eig"].abs())
    projector = V * Lambda @ V.mH
    assert_close(projector, reference["V"] * reference["Lambda"] @ reference["V"].mH)


@pytest.mark.parametrize("N", [2, 6, 32])
def test_low_rank_form_is_hippo_in_another_basis(N: int) -> None:
    A, B = ssm.hippo_legs(N)
    Lambda, P, B_eig, V = ssm.nplr_legs(N)
    p = 2 * (V @ P).real
    assert_close(2 * (V * Lambda @ V.mH).real - torch.outer(p, p), A)
    assert_close(2 * (V @ B_eig).real, B)
    assert_close(V.mH @ V, torch.eye(N // 2, dtype=V.dtype))
    assert (Lambda.imag < 0).all()
    assert (Lambda.imag.diff() > 0).all()
    assert (P.real > 0).all()
    assert P.imag.abs().max() < 1e-10


def test_hippo_written_out() -> None:
    A, B = ssm.hippo_legs(3)
    root = np.sqrt([1.0, 3.0, 5.0])
    expected = [[-1, 0, 0], [-root[0] * root[1], -2, 0], [-root[0] * root[2], -root[1] * root[2], -3]]
    np.testing.assert_allclose(A, expected)
    np.testing.assert_allclose(B, root)


@pytest.mark.parametrize("N", [0, 5])
def test_an_odd_state_is_refused(N: int) -> None:
    with pytest.raises(ConfigError, match="even"):
        ssm.nplr_legs(N)


@pytest.mark.parametrize("name", DPLR[:4])
def test_discretisation_matches_the_reference(golden: Path, name: str) -> None:
    reference = load(golden / "s4" / f"s4_dplr_{name}.npz")
    model = {key: reference[key] for key in ("log_dt", "Lambda", "P", "B")}
    dA, dB = ssm.bilinear(model["log_dt"], *ssm.dense(model["Lambda"], model["P"], model["B"]))
    assert_close(dA[:, : reference["dA"].shape[1]], reference["dA"])
    assert_close(dB, reference["dB"])
    structured = ssm.discretise_dplr(**model)
    half = model["Lambda"].shape[-1]
    assert structured.left is not None
    assert structured.right is not None
    low_rank = structured.left.unsqueeze(-1) * structured.right.conj().unsqueeze(-2)
    assert_close(torch.diag_embed(structured.pole) - low_rank, reference["dA"][:, :half, :half])
    assert_close(structured.dB, reference["dB"][:, :half])


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("name", DPLR)
def test_dplr_kernel_and_output_match_the_reference(
    golden: Path, name: str, dtype: torch.dtype, tolerance: float
) -> None:
    exact = load(golden / "s4" / f"s4_dplr_{name}.npz")
    given_ = load(golden / "s4" / f"s4_dplr_{name}.npz", dtype)
    length = exact["u"].shape[-1]
    kernel = ssm.dplr_kernel(*(given_[key] for key in ("log_dt", "Lambda", "P", "B", "C")), length)
    assert kernel.dtype == dtype
    assert_close(kernel, exact["kernel_recurrence"], tolerance)
    assert_close(kernel, exact["kernel_ref"], tolerance)
    y = convolve(given_["u"], kernel, given_["D"])
    assert_close(y, exact["y_recurrence"], tolerance)
    assert_close(y, exact["y_ref"], tolerance)


@pytest.mark.parametrize("name", DPLR)
def test_step_by_step_output_matches_the_reference(golden: Path, name: str) -> None:
    reference = load(golden / "s4" / f"s4_dplr_{name}.npz")
    model = ssm.discretise_dplr(*(reference[key] for key in ("log_dt", "Lambda", "P", "B")))
    u = reference["u"]
    state = torch.zeros(len(u), *reference["Lambda"].shape, dtype=torch.complex128)
    out = []
    for now in u.unbind(-1):
        state = model.advance(state, now)
        out.append(2 * (reference["C"] * state).real.sum(-1) + reference["D"] * now)
    assert_close(torch.stack(out, -1), reference["y_recurrence"])


def test_the_references_c_tilde_is_the_correction_this_kernel_does_without(golden: Path) -> None:
    reference = load(golden / "s4" / "s4_dplr_N8_L64_perturbed.npz")
    full = torch.cat([reference["C"], reference["C"].conj()], -1)
    corrected = full - (full.unsqueeze(1) @ torch.linalg.matrix_power(reference["dA"], 64)).squeeze(1)
    assert_close(corrected[:, :4], reference["C_tilde"])


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
def test_bidirectional_dplr_matches_the_reference(golden: Path, dtype: torch.dtype, tolerance: float) -> None:
    exact = load(golden / "s4" / "s4_dplr_bilinear_bi_N64_L600.npz")
    given_ = load(golden / "s4" / "s4_dplr_bilinear_bi_N64_L600.npz", dtype)
    kernel = ssm.dplr_kernel(*(given_[key] for key in ("log_dt", "Lambda", "P", "B", "C")), 600)
    assert_close(kernel, exact["kernel_ref"], tolerance)
    assert_close(convolve(given_["u"], kernel, given_["D"]), exact["y_ref"], tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("name", DIAGONAL)
def test_diagonal_kernel_and_output_match_the_reference(
    golden: Path, name: str, dtype: torch.dtype, tolerance: float
) -> None:
    exact = load(golden / "s4" / f"s4_diag_{name}_N64_L600.npz")
    given_ = load(golden / "s4" / f"s4_diag_{name}_N64_L600.npz", dtype)
    method = "zoh" if name.startswith("zoh") else "bilinear"
    kernel = ssm.diagonal_kernel(*(given_[key] for key in ("log_dt", "Lambda", "B", "C")), 600, method)
    assert kernel.dtype == dtype
    assert_close(kernel, exact["kernel_ref"], tolerance)
    directions = kernel if len(kernel) == 2 else kernel[0]
    assert_close(convolve(given_["u"], directions, given_["D"]), exact["y_ref"], tolerance)


@settings(max_examples=40, deadline=None)
@given(half=st.integers(1, 8), length=st.integers(1, 40), channels=st.integers(1, 3), seed=st.integers(0, 2**16))
def test_dplr_kernel_is_the_recurrence(half: int, length: int, channels: int, seed: int) -> None:
    model = random_model(2 * half, channels, seed)
    assert_close(ssm.dplr_kernel(**model, length=length), kernel_by_recurrence(model, length))


@settings(max_examples=40, deadline=None)
@given(half=st.integers(1, 8), length=st.integers(1, 40), channels=st.integers(1, 3), seed=st.integers(0, 2**16))
def test_diagonal_kernel_is_its_sum(half: int, length: int, channels: int, seed: int) -> None:
    model = random_model(2 * half, channels, seed)
    del model["P"]
    assert_close(ssm.diagonal_kernel(**model, length=length, method="bilinear"), kernel_by_recurrence(model, length))
    dt, Lambda = model["log_dt"].exp()[:, None], model["Lambda"]
    weights = model["C"] * model["B"] * (torch.exp(dt * Lambda) - 1) / Lambda
    powers = torch.exp((dt * Lambda)[..., None] * torch.arange(length))
    expected = 2 * (weights[..., None] * powers).real.sum(1)
    assert_close(ssm.diagonal_kernel(**model, length=length, method="zoh"), expected)


def test_dplr_kernel_without_low_rank_part_is_the_diagonal_one() -> None:
    model = random_model(6, 2, seed=0)
    diagonal = ssm.diagonal_kernel(model["log_dt"], model["Lambda"], model["B"], model["C"], 33, "bilinear")
    model["P"] = torch.zeros_like(model["P"])
    assert_close(ssm.dplr_kernel(**model, length=33), diagonal)


def test_a_kernel_does_not_depend_on_its_length() -> None:
    model = random_model(8, 2, seed=1)
    assert_close(ssm.dplr_kernel(**model, length=17), ssm.dplr_kernel(**model, length=100)[:, :17])


@pytest.mark.parametrize("length", [600, 2400])
def test_float32_keeps_its_precision_over_a_long_kernel(length: int) -> None:
    Lambda, P, B = (v.expand(3, -1) for v in ssm.nplr_legs(64)[:3])
    log_dt = torch.tensor([1e-3, 1e-2, 1e-1], dtype=torch.float64).log()
    C = random_model(64, 3, seed=2)["C"]
    rounded = [v.to(torch.complex64) if v.is_complex() else v.float() for v in (log_dt, Lambda, P, B, C)]
    exact = ssm.dplr_kernel(*(v.to(torch.complex128) if v.is_complex() else v.double() for v in rounded), length)
    error = (ssm.dplr_kernel(*rounded, length) - exact).abs().amax(1) / exact.abs().amax(1)
    assert error.max() < 1e-5


def test_an_unknown_method_is_refused() -> None:
    model = random_model(4, 1, seed=0)
    del model["P"]
    with pytest.raises(ConfigError, match="'euler'"):
        ssm.diagonal_kernel(**model, length=4, method="euler")  # type: ignore[arg-type]


@settings(max_examples=30, deadline=None)
@given(length=st.integers(1, 23), both=st.booleans(), seed=st.integers(0, 2**16))
def test_convolution_is_the_direct_sum(length: int, both: bool, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(2, 3, length, dtype=torch.float64, generator=generator)
    kernel = torch.randn(2, 3, length, dtype=torch.float64, generator=generator)
    D = torch.randn(3, dtype=torch.float64, generator=generator)
    kernel = kernel if both else kernel[0]
    assert_close(convolve(x, kernel, D), convolve_directly(x, kernel, D))


@pytest.mark.parametrize("length", [1, 5, 8])
def test_gradients_of_the_kernels(length: int) -> None:
    model = {name: v.requires_grad_() for name, v in random_model(4, 2, seed=3).items()}
    log_dt, Lambda, P, B, C = model.values()
    both = torch.stack([C, C.conj()]).detach().requires_grad_()
    assert torch.autograd.gradcheck(lambda *v: ssm.dplr_kernel(*v, length), (log_dt, Lambda, P, B, both))
    for method in ("zoh", "bilinear"):
        assert torch.autograd.gradcheck(
            lambda *v, method=method: ssm.diagonal_kernel(*v, length, method), (log_dt, Lambda, B, C)
        )


@pytest.mark.parametrize("shape", [(3, 7), (2, 3, 7), (2, 3, 1)])
def test_gradients_of_the_convolution(shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(0)
    x, kernel, D = (
        torch.randn(*size, dtype=torch.float64, generator=generator, requires_grad=True)
        for size in ((2, 3, shape[-1]), shape, (3,))
    )
    assert torch.autograd.gradcheck(convolve, (x, kernel, D))
