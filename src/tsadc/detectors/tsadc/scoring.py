"""Module 3, scoring: what the two modules say of an observation, cell by cell, and how it becomes one number.

    name             paper   meaning
    imputation       s1      how badly hidden cells are told from the rest of the observation
    reconstruction   s2      how badly cells are reconstructed from the dependencies between variables

The paper pools by RMSE and adds `0.01 s1 + 1.2 s2`. The default hands residuals to the head (`detectors.head`) as
views among others.
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

VIEWS = ("imputation", "reconstruction")


@dataclass(frozen=True)
class Config:
    """`residuals`: those that the project's head takes as views; the paper's pooling takes both. `masks` complementary
    masks hide every cell once for the imputation; 0 draws a single mask, as the paper does. `steps`: length of the
    reverse chain by DDIM; 1 = a single estimate at step T, 0 = all steps, ancestral. `weights`: the paper's lambda_1,
    lambda_2."""

    residuals: tuple[Literal["imputation", "reconstruction"], ...] = ("reconstruction",)
    masks: int = 5
    steps: int = 1
    weights: tuple[float, ...] = (0.01, 1.2)

    def __post_init__(self) -> None:
        known = len(set(self.residuals)) == len(self.residuals) and set(self.residuals) <= set(VIEWS)
        require(known, "residuals", f"some of {', '.join(VIEWS)}", self.residuals)
        require(self.masks == 0 or self.masks >= 2, "masks", "0 or at least 2", self.masks)
        require(self.steps >= 0, "steps", "zero or more", self.steps)
        require(len(self.weights) == 2 and min(self.weights) >= 0, "weights", "two numbers from 0", self.weights)


@dataclass(frozen=True)
class Approximation:
    """One observation, each (variable, time). `hidden`: the cells that some mask hides. `decontaminated`: these, and
    those not measured, as module 1 tells them from the others; the rest as it was. `reconstruction`: by module 2, from
    what was measured."""

    hidden: Booleans
    decontaminated: Floats
    reconstruction: Floats


class Examiner:
    """Runs a trained network over one observation at a time, with masks and noise that are the same for every one, so
    that no score depends on what else is scored."""

    def __init__(
        self, network: Network, config: Config, names: tuple[str, ...], *, variables: int, length: int, seed: int
    ) -> None:
        """`names`: the residuals to give, in this order."""
        self.network, self.config, self.names = network, config, names
        self.generator_seed = derive_seed(seed, 1)
        strategy = network.decontaminator.config.masking
        generator = torch.Generator().manual_seed(derive_seed(seed, 2))
        if "imputation" not in names:
            self.shown = torch.ones(1, variables, length, dtype=torch.bool)
        elif config.masks:
            count = min(config.masks, length)
            self.shown = masks.complementary(strategy, variables, length, count, generator)
        else:
            self.shown = masks.draw(strategy, (1, variables, length), network.masked_length, generator)
        self.noise = torch.randn(self.shown.shape, generator=generator)

    def __call__(self, z: Floats) -> NetworkOutput:
        """z (variable, time) with NaN where nothing was measured."""
        values, measured, imputed, reconstruction = self._look(z)
        hidden = ~self.shown.all(0)
        found = {
            "imputation": _difference(values, self.network.leave(imputed), measured & hidden),
            "reconstruction": _difference(values, self.network.leave(reconstruction), measured),
        }
        expected = self.network.leave(torch.where(hidden | ~measured, imputed, reconstruction))
        return NetworkOutput(tuple(found[name] for name in self.names), expected.numpy())

    @torch.no_grad()
    def approximate(self, z: Floats) -> Approximation:
        """What each module makes of the same observation."""
        values, measured, imputed, reconstruction = self._look(z)
        hidden = ~self.shown.all(0)
        told = torch.where(hidden | ~measured, self.network.leave(imputed), values)
        return Approximation(hidden.numpy(), told.numpy(), self.network.leave(reconstruction).numpy())

    def _look(self, z: Floats) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The values, which of them were measured, and, as the networks see them, both modules' estimates."""
        values = torch.from_numpy(np.asarray(z, dtype=np.float32))
        measured = torch.isfinite(values)
        x = self.network.enter(torch.where(measured, values, 0.0))
        imputed = self._impute(x, measured)
        # What was not measured is hidden in every mask, so module 2 sees an estimate there and never a made-up zero.
        filled = torch.where(measured, x, imputed)
        return values, measured, imputed, self.network.dependencies(filled[None])[0][0]

    def _impute(self, x: Tensor, measured: Tensor) -> Tensor:
        """Each cell as told from the masks that hide it."""
        if bool((self.shown & measured).all()):
            return x
        many, observed = x.expand(self.shown.shape), self.shown & measured
        model = self.network.decontaminator
        if self.config.steps == 1:
            estimates = model.estimate(many, observed, self.noise)
        else:
            generator = torch.Generator().manual_seed(self.generator_seed)
            estimates = model.sample(many, observed, self.noise, generator, self.config.steps or None)
        told = ~observed
        return torch.where(told, estimates, 0.0).sum(0) / told.sum(0).clamp_min(1)


def _difference(values: Tensor, expected: Tensor, where: Tensor) -> Floats:
    out: Floats = torch.where(where, (values - expected).abs(), torch.nan).numpy()
    return out


def own_evidence(weights: tuple[float, ...], z: Floats, found: NetworkOutput) -> Evidence:
    """s = lambda_1 s1 + lambda_2 s2, each the RMSE over the cells that have a residual."""
    views = {name: _rmse(one) for name, one in zip(VIEWS, found.residuals, strict=True)}
    parts = [weight * score for weight, score in zip(weights, views.values(), strict=True)]
    cells = [weight * one for weight, one in zip(weights, found.residuals, strict=True)]
    return pooled_evidence(z, views, sum(parts), cells, found.expected, int(np.argmax(parts)))


def _rmse(cells: Floats) -> float:
    measured = np.isfinite(cells)
    return float(np.sqrt(np.square(cells[measured], dtype=np.float64).mean())) if measured.any() else 0.0
