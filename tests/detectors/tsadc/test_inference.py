import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tsadc.detectors.residual import NetworkOutput
from tsadc.detectors.tsadc.inference import RESIDUALS, Inference, own_evidence
from tsadc.errors import ConfigError

VARIABLES, LENGTH = 3, 16


class Stub:
    """A network whose estimate of a cell is the number of the mask it was made under, so that it tells on itself; what
    is observed it returns as 999. Its reconstruction is half a unit above what it is shown."""

    def __init__(self, masking: str = "RandBM", masked_length: int = 4) -> None:
        self.decontaminator = SimpleNamespace(
            config=SimpleNamespace(masking=masking), estimate=self.estimate, sample=self.sample
        )
        self.masked_length = masked_length
        self.shown: list[torch.Tensor] = []
        self.filled: list[torch.Tensor] = []
        self.chains: list[tuple[int | None, int]] = []

    def to_input(self, z: torch.Tensor) -> torch.Tensor:
        return 2 * z

    def to_z(self, x: torch.Tensor) -> torch.Tensor:
        return x / 2

    def estimate(self, x: torch.Tensor, observed: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        self.shown.append(observed)
        number = torch.arange(len(x), dtype=x.dtype)[:, None, None].expand(x.shape)
        return torch.where(observed, 999.0, number)

    def sample(
        self,
        x: torch.Tensor,
        observed: torch.Tensor,
        noise: torch.Tensor,
        generator: torch.Generator,
        steps: int | None,
    ) -> torch.Tensor:
        self.chains.append((steps, generator.initial_seed()))
        return self.estimate(x, observed, noise)

    def dependencies(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.filled.append(x)
        return x + 0.5, torch.zeros(len(x))


def observation(seed: int = 0, gaps: float = 0.3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(VARIABLES, LENGTH)).astype(np.float32)
    z[rng.random(z.shape) < gaps] = np.nan
    z[0, 0], z[1, 0] = 1.0, np.nan
    return z


def examine(stub: Stub, config: Inference.Config, seed: int = 7, names: tuple[str, ...] = RESIDUALS) -> Inference:
    return Inference(stub, config, names, variables=VARIABLES, length=LENGTH, seed=seed)


@pytest.mark.parametrize("masking", ["RandM", "RandBM", "BoM"])
@pytest.mark.parametrize("count", [2, 5, 40])
def test_every_measured_cell_is_imputed_under_the_mask_that_hides_it(masking, count):
    stub, z = Stub(masking), observation()
    inference = examine(stub, Inference.Config(masks=count))
    found = inference(z)
    masks = min(count, LENGTH)
    assert inference.shown.shape == (masks, VARIABLES, LENGTH)
    np.testing.assert_array_equal(np.isfinite(found.residuals[0]), np.isfinite(z))
    for k in range(VARIABLES):
        for t in range(LENGTH):
            hiding = [m for m in range(masks) if not inference.shown[m, k, t]]
            assert len(hiding) == 1
            if np.isfinite(z[k, t]):
                assert found.residuals[0][k, t] == pytest.approx(abs(z[k, t] - hiding[0] / 2), abs=1e-6)
                assert found.expected[k, t] == pytest.approx(hiding[0] / 2)
            else:  # in nobody's sight, so told from all
                assert found.expected[k, t] == pytest.approx(np.mean(range(masks)) / 2)
    (observed,) = stub.shown
    np.testing.assert_array_equal(observed.numpy(), inference.shown.numpy() & np.isfinite(z))


def test_the_dependencies_see_estimates_where_nothing_was_measured():
    stub, z = Stub(), observation()
    found = examine(stub, Inference.Config(masks=4))(z)
    (filled,) = stub.filled
    np.testing.assert_allclose(filled[0].numpy(), np.where(np.isfinite(z), 2 * z, 1.5), rtol=1e-6)
    np.testing.assert_array_equal(np.isfinite(found.residuals[1]), np.isfinite(z))
    np.testing.assert_allclose(found.residuals[1][np.isfinite(z)], 0.25, rtol=1e-4)


def test_a_single_mask_imputes_the_cells_it_hides():
    stub, z = Stub(masked_length=5), observation(gaps=0)
    z[1, 0] = 0.0
    inference = examine(stub, Inference.Config(masks=0))
    found = inference(z)
    hidden = ~inference.shown[0].numpy()
    np.testing.assert_array_equal(hidden.sum(axis=1), [5, 5, 5])
    np.testing.assert_array_equal(np.isfinite(found.residuals[0]), hidden)
    np.testing.assert_allclose(found.residuals[0][hidden], np.abs(z[hidden]), rtol=1e-6)
    np.testing.assert_allclose(found.expected, np.where(hidden, 0.0, z + 0.25), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("steps", "expected"), [(0, None), (2, 2), (7, 7)])
def test_the_chain_is_as_long_as_asked_for_and_always_the_same(steps, expected):
    stub = Stub()
    inference = examine(stub, Inference.Config(masks=3, steps=steps))
    first, second = (inference(observation(seed)) for seed in (0, 1))
    again = inference(observation(0))
    assert stub.chains == [(expected, stub.chains[0][1])] * 3
    np.testing.assert_array_equal(again.residuals[0], first.residuals[0])
    assert not np.array_equal(second.residuals[0], first.residuals[0])


def test_the_seed_alone_sets_masks_and_noise():
    one, two, other = (examine(Stub(), Inference.Config(masks=3), seed) for seed in (1, 1, 2))
    assert torch.equal(one.shown, two.shown)
    assert torch.equal(one.noise, two.noise)
    assert not torch.equal(one.noise, other.noise)
    assert not torch.equal(one.shown, other.shown)


def residuals(seed: int, gaps: float = 0.3, size: float = 1.0) -> NetworkOutput:
    """At random; imputation has gaps of its own, as with a single mask."""
    rng = np.random.default_rng(seed)
    imputation, reconstruction = size * rng.exponential(size=(2, VARIABLES, LENGTH)).astype(np.float32)
    missing = rng.random((VARIABLES, LENGTH)) < gaps
    missing[0, 3] = False
    missing[:, 5] = gaps > 0
    reconstruction[missing] = np.nan
    imputation[missing | (rng.random(missing.shape) < gaps)] = np.nan
    return NetworkOutput((imputation, reconstruction), np.zeros_like(imputation))


@pytest.mark.parametrize("weights", [(0.01, 1.2), (1.0, 0.0), (0.3, 0.7)])
def test_the_papers_head_by_hand(weights):
    found = residuals(4)
    evidence = own_evidence(weights, found.residuals[1], found)
    rmse = []
    for cells in found.residuals:
        squares = [float(x) ** 2 for x in cells.ravel() if not np.isnan(x)]
        rmse.append(math.sqrt(sum(squares) / len(squares)))
    expected = weights[0] * rmse[0] + weights[1] * rmse[1]
    assert evidence.score == pytest.approx(expected, rel=1e-6)
    assert evidence.view_scores == pytest.approx(dict(zip(RESIDUALS, rmse, strict=True)), rel=1e-6)
    measured = ~np.isnan(found.residuals[1])
    np.testing.assert_array_equal(np.isnan(evidence.steps), ~measured.any(axis=0))
    assert set(evidence.steps[measured.any(axis=0)].tolist()) == {evidence.score}
    cells = sum(weight * np.nan_to_num(one) for weight, one in zip(weights, found.residuals, strict=True))
    np.testing.assert_allclose(evidence.contributions, np.where(measured, cells, np.nan), rtol=1e-6)
    assert set(evidence.causes.tolist()) == {float(weights[1] * rmse[1] > weights[0] * rmse[0])}


def test_the_papers_head_without_a_hidden_cell_that_was_measured():
    found = residuals(4)
    silent = NetworkOutput((np.full_like(found.residuals[0], np.nan), found.residuals[1]), found.expected)
    evidence = own_evidence((0.01, 1.2), found.residuals[1], silent)
    assert evidence.view_scores["imputation"] == 0
    assert evidence.score == pytest.approx(1.2 * evidence.view_scores["reconstruction"], rel=1e-6)


def test_without_the_imputation_only_gaps_are_imputed():
    """A complete observation needs no masks; what was not measured is told from all that was."""
    stub, z = Stub(), observation(gaps=0)
    z[1, 0] = 0.0
    inference = examine(stub, Inference.Config(), names=("reconstruction",))
    (reconstruction,) = inference(z).residuals
    np.testing.assert_allclose(reconstruction, 0.25, rtol=1e-4)
    assert stub.shown == []
    z[2, 5:9] = np.nan
    found = inference(z)
    (observed,) = stub.shown
    np.testing.assert_array_equal(observed[0].numpy(), np.isfinite(z))
    np.testing.assert_array_equal(np.isfinite(found.residuals[0]), np.isfinite(z))
    assert (found.expected[2, 5:9] == 0.0).all()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"masks": 1}, "`masks` must be 0 or at least 2, but got 1"),
        ({"masks": -1}, "`masks` must be"),
        ({"steps": -1}, "`steps` must be zero or more"),
        ({"residuals": ("imputation", "imputation")}, "`residuals` must be one or more distinct names out of"),
        ({"residuals": ()}, "`residuals` must be one or more distinct names out of"),
        ({"weights": (1.0,)}, "`weights` must be two numbers of at least 0"),
        ({"weights": (1.0, -0.1)}, "`weights` must be two numbers of at least 0"),
    ],
)
def test_settings_out_of_range(settings, expected):
    with pytest.raises(ConfigError, match=expected):
        Inference.Config(**settings)


def test_module_outputs_impute_hidden_cells_and_keep_the_others() -> None:
    """One window of 4 steps: under it what mask number 0 says, beside it the observation; both from what was seen."""
    network = Stub("BoM")
    inference = Inference(network, Inference.Config(masks=0), RESIDUALS, variables=VARIABLES, length=LENGTH, seed=3)
    z = observation(gaps=0.0)
    z[1, 0] = 2.0
    found = inference.module_outputs(z)
    assert found.hidden.sum(axis=1).tolist() == [4] * VARIABLES
    assert (found.decontaminated[found.hidden] == 0).all()
    np.testing.assert_array_equal(found.decontaminated[~found.hidden], z[~found.hidden])
    np.testing.assert_allclose(found.reconstruction, z + 0.25)


def test_module_outputs_impute_what_was_not_measured() -> None:
    inference = Inference(Stub(), Inference.Config(masks=4), RESIDUALS, variables=VARIABLES, length=LENGTH, seed=3)
    found = inference.module_outputs(observation())
    assert found.hidden.all()
    assert np.isfinite(found.decontaminated).all()
    assert np.isfinite(found.reconstruction).all()
