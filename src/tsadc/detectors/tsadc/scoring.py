"""Module 3, scoring: what the two modules say of an observation, cell by cell, and how it becomes one number.

    name             paper   meaning
    imputation       s1      how badly hidden cells are told from the rest of the observation
    reconstruction   s2      how badly cells are reconstructed from the dependencies between variables

The paper pools by RMSE and adds `0.01 s1 + 1.2 s2`. The default keeps extremes, puts both on one scale first, and lets
an observation score as its worst step, so that the timeline and the verdict cannot disagree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tsadc.config import require
from tsadc.detectors.pooling import top_mean
from tsadc.detectors.result import Evidence
from tsadc.detectors.tsadc.network import Network
from tsadc.nn import masks
from tsadc.nn.objective import derive
from tsadc.scale import NORMAL_IQR
from tsadc.series import Floats

VIEWS = ("imputation", "reconstruction")
SOFT = 0.1  # in z units: differences between residuals below this say nothing


@dataclass(frozen=True)
class Config:
    """`head`: the project's, or the paper's RMSE. `masks` complementary masks hide every cell once; 0 draws a single
    mask, as the paper does. `steps`: length of the reverse chain by DDIM; 1 = a single estimate at step T, 0 = all
    steps, ancestral. `extremes`: how many variables a step is judged by. `weights`: the paper's lambda_1, lambda_2."""

    head: Literal["tsadc", "paper"] = "tsadc"
    masks: int = 10
    steps: int = 1
    extremes: int = 3
    weights: tuple[float, ...] = (0.01, 1.2)

    def __post_init__(self) -> None:
        require(self.masks == 0 or self.masks >= 2, "masks", "0 or at least 2", self.masks)
        require(self.steps >= 0, "steps", "zero or more", self.steps)
        require(self.extremes >= 1, "extremes", "at least 1", self.extremes)
        require(len(self.weights) == 2 and min(self.weights) >= 0, "weights", "two numbers from 0", self.weights)


@dataclass(frozen=True)
class Residuals:
    """What an observation (variable, time) looks like against what was expected, in z units; NaN where there is
    nothing to compare."""

    imputation: Floats
    reconstruction: Floats
    expected: Floats


class Examiner:
    """Runs a trained network over one observation at a time, with masks and noise that are the same for every one, so
    that no score depends on what else is scored."""

    def __init__(self, network: Network, config: Config, *, variables: int, length: int, seed: int) -> None:
        self.network, self.config = network, config
        self.generator_seed = derive(seed, 1)
        strategy = network.decontaminator.config.masking
        generator = torch.Generator().manual_seed(derive(seed, 2))
        if config.masks:
            count = min(config.masks, length)
            self.shown = masks.complementary(strategy, variables, length, count, generator)
        else:
            self.shown = masks.draw(strategy, (1, variables, length), network.masked_length, generator)
        self.noise = torch.randn(self.shown.shape, generator=generator)

    @torch.no_grad()
    def residuals(self, z: Floats) -> Residuals:
        """z (variable, time) with NaN where nothing was measured."""
        values = torch.from_numpy(np.asarray(z, dtype=np.float32))
        measured = torch.isfinite(values)
        x = self.network.enter(torch.where(measured, values, 0.0))
        imputed = self._impute(x, measured)
        hidden = ~self.shown.all(0)
        # What was not measured is hidden in every mask, so module 2 sees an estimate there and never a made-up zero.
        filled = torch.where(measured, x, imputed)
        reconstruction = self.network.dependencies(filled[None])[0][0]
        expected = self.network.leave(torch.where(hidden | ~measured, imputed, reconstruction))
        return Residuals(
            _difference(values, self.network.leave(imputed), measured & hidden),
            _difference(values, self.network.leave(reconstruction), measured),
            expected.numpy(),
        )

    def _impute(self, x: Tensor, measured: Tensor) -> Tensor:
        """Each cell as told from the masks that hide it."""
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


class Head:
    """Turns residuals into evidence. The default puts the views on one scale: the log of the mean of a step's largest
    residuals, minus the median and over the spread of the worst step of unlabelled training observations. A step
    scores the sum of softplus over the views."""

    def __init__(self, config: Config, middle: Floats, spread: Floats) -> None:
        self.config, self.middle, self.spread = config, middle, spread

    @classmethod
    def fit(cls, config: Config, training: Iterable[Residuals]) -> Head:
        """Learn the scales from training observations."""
        worst = np.array([[_worst(step) for step in cls._steps(config, one)] for one in training])
        low, middle, high = np.nanquantile(worst, [0.25, 0.5, 0.75], axis=0)
        return cls(config, middle, np.maximum((high - low) / NORMAL_IQR, 1e-6))

    def evidence(self, found: Residuals) -> Evidence:
        return self._paper(found) if self.config.head == "paper" else self._default(found)

    @staticmethod
    def _steps(config: Config, found: Residuals) -> list[Floats]:
        return [np.log(SOFT + top_mean(cells, config.extremes)) for cells in (found.imputation, found.reconstruction)]

    def _default(self, found: Residuals) -> Evidence:
        raw = np.stack(self._steps(self.config, found))
        views = ((raw - self.middle[:, None]) / self.spread[:, None]).astype(np.float32)
        loud = np.nan_to_num(views, nan=-np.inf)
        # A softplus each: a view that is silent adds nothing, and does not take away from one that speaks.
        fused = np.logaddexp(0, loud).sum(axis=0)
        steps = np.where(np.isfinite(loud).any(axis=0), fused, np.nan).astype(np.float32)
        # In units of what a typical observation's worst step shows, so that the two views can be added.
        typical = np.maximum(np.exp(self.middle) - SOFT, 1e-6)
        cells = np.stack([found.imputation / typical[0], found.reconstruction / typical[1]])
        contributions = np.where(np.isfinite(cells).any(axis=0), np.nan_to_num(cells).sum(axis=0), np.nan)
        scores = {name: _worst(view) for name, view in zip(VIEWS, views, strict=True)}
        return Evidence(
            _worst(steps),
            scores,
            steps,
            contributions.astype(np.float32),
            loud.argmax(axis=0).astype(np.float32),
            found.expected,
        )

    def _paper(self, found: Residuals) -> Evidence:
        """s = lambda_1 s1 + lambda_2 s2 with RMSE over cells; every step of an observation has its score."""
        cells = (found.imputation, found.reconstruction)
        views = {name: _rmse(one) for name, one in zip(VIEWS, cells, strict=True)}
        parts = [weight * score for weight, score in zip(self.config.weights, views.values(), strict=True)]
        score = np.float32(sum(parts))
        measured = np.isfinite(found.reconstruction)
        weighted = [weight * np.nan_to_num(one) for weight, one in zip(self.config.weights, cells, strict=True)]
        return Evidence(
            float(score),
            views,
            np.where(measured.any(axis=0), score, np.nan).astype(np.float32),
            np.where(measured, sum(weighted), np.nan).astype(np.float32),
            np.full(measured.shape[1], int(np.argmax(parts)), dtype=np.float32),
            found.expected,
        )

    def state(self) -> dict[str, NDArray[Any]]:
        return {"head.middle": self.middle, "head.spread": self.spread}

    @classmethod
    def restore(cls, config: Config, state: Mapping[str, NDArray[Any]]) -> Head:
        return cls(config, state["head.middle"], state["head.spread"])


def _worst(steps: Floats) -> float:
    """The largest; NaN where there is none, as for a single mask that happens to hide nothing that was measured."""
    return float(np.fmax.reduce(steps))


def _rmse(cells: Floats) -> float:
    measured = np.isfinite(cells)
    return float(np.sqrt(np.square(cells[measured], dtype=np.float64).mean())) if measured.any() else 0.0
