"""Module 3, anomaly scoring: run both modules over an observation, and turn their residuals into a score.

| code | paper | meaning |
|---|---|---|
| `shown` | v | (mask, variable, time): True where a mask lets the Decontaminator see |
| `imputed` | x̂^0 | each hidden cell as the Decontaminator imputes it |
| `reconstruction` | x̂̂ | the observation as `Dependencies` reconstructs it |
| residual "imputation" | inside s_1 | absolute difference of hidden cells from `imputed` |
| residual "reconstruction" | inside s_2 | absolute difference from `reconstruction` |
| `weights` | λ_1, λ_2 | weights of s_1 and s_2 |

The paper's score (`scoring="own"`) is Eq. 11: the RMSE of both residuals, weighted. By default (`scoring="fused"`) the
ensemble takes residuals as further views.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from tsadc.config import require
from tsadc.detectors.residual import NetworkOutput, pooled_evidence
from tsadc.detectors.result import Evidence
from tsadc.detectors.tsadc.network import Network
from tsadc.nn import masks
from tsadc.nn.randomness import derive_seed
from tsadc.series import Booleans, Floats

RESIDUALS = ("imputation", "reconstruction")


@dataclass(frozen=True)
class ModuleOutputs:
    """The outputs of both modules for one observation, each (variable, time).

    Attributes
    ----------
    hidden
        True for the cells that a mask hides.
    decontaminated
        Hidden and unmeasured cells as module 1 imputes them, the others unchanged.
    reconstruction
        The observation as module 2 reconstructs it from what was measured.
    """

    hidden: Booleans
    decontaminated: Floats
    reconstruction: Floats


class Inference:
    """Run a trained network over one observation at a time.

    Masks and noise are the same for every observation, so that no score depends on what else is scored.

    Parameters
    ----------
    network
        The trained network, in eval mode.
    config
        Settings.
    residuals
        Names of the residuals to return, in this order.
    variables, length
        Shape of an observation.
    seed
        Seed of masks and noise.
    """

    @dataclass(frozen=True)
    class Config:
        """Settings of scoring with a trained network. Changing them needs no retraining.

        Parameters
        ----------
        residuals : tuple of {"imputation", "reconstruction"}, default ("reconstruction",)
            Residuals that the ensemble takes as views with `scoring="fused"`. With `scoring="own"` both are used.
        masks : int, default 5
            Number of complementary masks, which together hide every cell once for the imputation. 0 draws a single
            mask, as the paper does, and leaves most cells without an imputation. More masks are slower.
        steps : int, default 1
            Diffusion steps of an imputation. 1 estimates from the last step directly, 0 runs all steps as the paper
            does (ancestral sampling), other numbers run as many evenly spaced steps (DDIM).
        weights : tuple of two floats, default (0.01, 1.2)
            Weights λ_1 and λ_2 of imputation and reconstruction in the paper's score (`scoring="own"`).
        """

        residuals: tuple[Literal["imputation", "reconstruction"], ...] = ("reconstruction",)
        masks: int = 5
        steps: int = 1
        weights: tuple[float, ...] = (0.01, 1.2)

        def __post_init__(self) -> None:
            distinct = 0 < len(set(self.residuals)) == len(self.residuals)
            known = distinct and set(self.residuals) <= set(RESIDUALS)
            require(known, "residuals", f"one or more distinct names out of {', '.join(RESIDUALS)}", self.residuals)
            require(self.masks == 0 or self.masks >= 2, "masks", "0 or at least 2", self.masks)
            require(self.steps >= 0, "steps", "zero or more", self.steps)
            valid = len(self.weights) == 2 and min(self.weights) >= 0
            require(valid, "weights", "two numbers of at least 0", self.weights)

    def __init__(
        self, network: Network, config: Config, residuals: tuple[str, ...], *, variables: int, length: int, seed: int
    ) -> None:
        self.network, self.config, self.residuals = network, config, residuals
        self.generator_seed = derive_seed(seed, 1)
        strategy = network.decontaminator.config.masking
        generator = torch.Generator().manual_seed(derive_seed(seed, 2))
        if "imputation" not in residuals:
            self.shown = torch.ones(1, variables, length, dtype=torch.bool)
        elif config.masks:
            count = min(config.masks, length)
            self.shown = masks.complementary(strategy, variables, length, count, generator)
        else:
            self.shown = masks.draw(strategy, (1, variables, length), network.masked_length, generator)
        self.noise = torch.randn(self.shown.shape, generator=generator)

    def __call__(self, z: Floats) -> NetworkOutput:
        """Return the residuals and the expected values of z (variable, time), NaN where not measured."""
        values, measured, imputed, reconstruction = self._run(z)
        hidden = ~self.shown.all(0)
        residuals = {
            "imputation": _difference(values, self.network.to_z(imputed), measured & hidden),
            "reconstruction": _difference(values, self.network.to_z(reconstruction), measured),
        }
        expected = self.network.to_z(torch.where(hidden | ~measured, imputed, reconstruction))
        return NetworkOutput(tuple(residuals[name] for name in self.residuals), expected.numpy())

    @torch.no_grad()
    def module_outputs(self, z: Floats) -> ModuleOutputs:
        """Return what each module makes of z (variable, time), in z units."""
        values, measured, imputed, reconstruction = self._run(z)
        hidden = ~self.shown.all(0)
        decontaminated = torch.where(hidden | ~measured, self.network.to_z(imputed), values)
        return ModuleOutputs(hidden.numpy(), decontaminated.numpy(), self.network.to_z(reconstruction).numpy())

    def _run(self, z: Floats) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the values, a mask of the measured ones, and the outputs of both modules in the network's units."""
        values = torch.from_numpy(np.asarray(z, dtype=np.float32))
        measured = torch.isfinite(values)
        x = self.network.to_input(torch.where(measured, values, 0.0))
        imputed = self._impute(x, measured)
        # Unmeasured cells are hidden in every mask, so module 2 sees an imputation there and never a made-up zero.
        filled = torch.where(measured, x, imputed)
        return values, measured, imputed, self.network.dependencies(filled[None])[0][0]

    def _impute(self, x: Tensor, measured: Tensor) -> Tensor:
        """Return each cell as the mean over the masks that hide it; 0 if none does."""
        if bool((self.shown & measured).all()):
            return x
        repeated, observed = x.expand(self.shown.shape), self.shown & measured
        model = self.network.decontaminator
        if self.config.steps == 1:
            estimates = model.estimate(repeated, observed, self.noise)
        else:
            generator = torch.Generator().manual_seed(self.generator_seed)
            estimates = model.sample(repeated, observed, self.noise, generator, self.config.steps or None)
        hidden = ~observed
        return torch.where(hidden, estimates, 0.0).sum(0) / hidden.sum(0).clamp_min(1)


def own_evidence(weights: tuple[float, ...], z: Floats, output: NetworkOutput) -> Evidence:
    """Return the paper's score s = λ_1 s_1 + λ_2 s_2 (Eq. 11), each the RMSE over the cells that have a residual."""
    views = {name: _rmse(residual) for name, residual in zip(RESIDUALS, output.residuals, strict=True)}
    parts = [weight * score for weight, score in zip(weights, views.values(), strict=True)]
    cells = [weight * residual for weight, residual in zip(weights, output.residuals, strict=True)]
    return pooled_evidence(z, views, sum(parts), cells, output.expected, int(np.argmax(parts)))


def _difference(values: Tensor, expected: Tensor, where: Tensor) -> Floats:
    out: Floats = torch.where(where, (values - expected).abs(), torch.nan).numpy()
    return out


def _rmse(cells: Floats) -> float:
    measured = np.isfinite(cells)
    return float(np.sqrt(np.square(cells[measured], dtype=np.float64).mean())) if measured.any() else 0.0
