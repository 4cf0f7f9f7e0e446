"""Module 1, the Decontaminator: hide cells of an observation and impute them by conditional diffusion.

| code | paper | meaning |
|---|---|---|
| `observed` | v | True where the network may see; unmeasured cells are never observed |
| `~observed & measured` | 1 - v | the hidden cells: loss and residual are taken there |
| `condition` | c | concat(x * observed, observed) |
| `noisy` | x^t | the observation at diffusion step t |
| `Denoiser` | ε_θ | the network that predicts the noise, or the clean observation |
| decontaminated | x̂^0 | the observation with its hidden cells imputed |
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tsadc.config import require
from tsadc.nn.diffusion import Diffusion
from tsadc.nn.inputs import masked_mean
from tsadc.nn.layers import Pointwise
from tsadc.nn.masks import Shape, Strategy, draw, masked_length
from tsadc.nn.s4 import S4, KernelName
from tsadc.series import Booleans


class Decontaminator(nn.Module):
    """The noise process together with the network that inverts it."""

    @dataclass(frozen=True)
    class Config:
        """Settings of module 1, the Decontaminator.

        Parameters
        ----------
        channels : int, default 32
            Channels of the network. More are slower and can model more.
        blocks : int, default 2
            Residual blocks, each with two S4 layers.
        state : int, default 32
            State size of S4, an even number of at least 2.
        kernel : {"diagonal", "dplr"}, default "diagonal"
            S4D, or S4 with HiPPO-LegS (diagonal plus low rank), which is slower.
        dropout : float, default 0.0
            Dropout rate of the S4 layers, at least 0 and below 1.
        masking : {"RandM", "RandBM", "BoM"}, default "RandBM"
            What a training mask hides: random steps, one random window per variable, or one window of all variables.
        start : {"signal", "masked"}, default "signal"
            Where the diffusion starts: at the observation, with noise in hidden cells only, or at the masked
            observation (zeros), with noise everywhere.
        loss : {"masked", "entire"}, default "masked"
            Cells of the loss: the hidden ones, or the entire observation.
        at : {"last", "uniform"}, default "last"
            Diffusion steps to train at: only the last one, which imputations start from, or all with equal chance.
        diffusion : Diffusion.Config
            The noise process. By default 50 steps with `beta_end` 0.35, predicting the clean observation.
        """

        channels: int = 32
        blocks: int = 2
        state: int = 32
        kernel: KernelName = "diagonal"
        dropout: float = 0.0
        masking: Strategy = "RandBM"
        start: Literal["signal", "masked"] = "signal"
        loss: Literal["masked", "entire"] = "masked"
        at: Literal["uniform", "last"] = "last"
        diffusion: Diffusion.Config = field(
            default_factory=lambda: Diffusion.Config(steps=50, beta_start=1e-4, beta_end=0.35, target="start")
        )

        def __post_init__(self) -> None:
            require(self.channels >= 1, "channels", "at least 1", self.channels)
            require(self.blocks >= 1, "blocks", "at least 1", self.blocks)
            require(self.state >= 2 and self.state % 2 == 0, "state", "an even number of at least 2", self.state)
            require(0 <= self.dropout < 1, "dropout", "at least 0 and below 1", self.dropout)

    def __init__(self, config: Config, variables: int) -> None:
        super().__init__()
        self.config = config
        self.diffusion = Diffusion(config.diffusion)
        self.network = Denoiser(config, variables)

    @property
    def last(self) -> int:
        """Return the last diffusion step, T."""
        return self.diffusion.steps

    @property
    def noise_everywhere(self) -> bool:
        """Return whether observed cells get noise too."""
        return self.config.start == "masked" or self.config.loss == "entire"

    def noisy(self, x: Tensor, observed: Tensor, step: Tensor | int, noise: Tensor) -> Tensor:
        """Return the observation at `step`; unless noise is everywhere, observed cells are unchanged.

        Args:
            x: (batch, variable, time).
            observed: True where the network may see, like `x`.
            step: One int for all, or (batch,).
            noise: N(0, 1), like `x`.
        """
        start = x * observed if self.config.start == "masked" else x
        noised = self.diffusion.add_noise(start, step, noise)
        return noised if self.noise_everywhere else torch.where(observed, x, noised)

    def loss(self, x: Tensor, measured: Tensor, observed: Tensor, step: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return L_noise of each observation (batch,), Eq. 6, and the network's prediction, like `x`.

        Args:
            x: (batch, variable, time).
            measured: True where a value was measured, like `x`.
            observed: True where the network may see, like `x`.
            step: (batch,).
            noise: N(0, 1), like `x`.
        """
        noisy = self.noisy(x, observed, step, noise)
        prediction = self.network(noisy, step, x, observed)
        start = x * observed if self.config.start == "masked" else x
        target = noise if self.diffusion.target == "noise" else start
        cells = measured if self.config.loss == "entire" else measured & ~observed
        return masked_mean((prediction - target).square(), cells), prediction

    def estimate(self, x: Tensor, observed: Tensor, noise: Tensor, prediction: Tensor | None = None) -> Tensor:
        """Return the decontaminated observation, estimated directly from step T (Eq. 7).

        `prediction` is the network's output at step T, if already known.
        """
        noisy = self.noisy(x, observed, self.last, noise)
        if prediction is None:
            prediction = self.network(noisy, torch.full((len(x),), self.last), x, observed)
        start = self.diffusion.estimate_start(noisy, self.last, prediction)
        return start if self.noise_everywhere else torch.where(observed, x, start)

    def sample(
        self, x: Tensor, observed: Tensor, noise: Tensor, generator: torch.Generator, steps: int | None = None
    ) -> Tensor:
        """Return the decontaminated observation by the reverse chain: all steps (Eq. 3), or `steps` of them by DDIM."""
        conditions = self.network.embed_condition(x, observed)

        def keep(noisy: Tensor, step: int) -> Tensor:
            return noisy if self.noise_everywhere else torch.where(observed, x, noisy)

        return self.diffusion.sample(
            lambda noisy, step: self.network.predict(noisy, step, conditions),
            self.noisy(x, observed, self.last, noise),
            method="ancestral" if steps is None else "ddim",
            steps=steps,
            keep=keep,
            generator=generator,
        )


def draw_masks(strategy: Strategy, shape: Shape, share: float, seed: int) -> Iterator[Booleans]:
    """Yield `observed` (observation, variable, time) again and again, as the epochs of training draw it."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield draw(strategy, shape, masked_length(share, shape[-1]), generator).numpy()


class Denoiser(nn.Module):
    """Predict the noise in a noisy observation, or the clean observation (after DiffWave, Kong et al. 2021)."""

    def __init__(self, config: Decontaminator.Config, variables: int) -> None:
        super().__init__()
        channels = config.channels
        self.input_proj = Pointwise(variables, channels)
        self.step_embedding = StepEmbedding(2 * channels)
        self.blocks = nn.ModuleList(ResidualBlock(config, variables) for _ in range(config.blocks))
        self.skip_proj = Pointwise(channels, channels)
        self.output_proj = Pointwise(channels, variables)
        nn.init.zeros_(self.output_proj.weight)
        nn.init.zeros_(self.output_proj.bias)  # type: ignore[arg-type]

    def forward(self, noisy: Tensor, step: Tensor, x: Tensor, observed: Tensor) -> Tensor:
        """Return the prediction, like `x`.

        Args:
            noisy: (batch, variable, time).
            step: (batch,).
            x: The observation, like `noisy`.
            observed: True where the network may see, like `noisy`.
        """
        return self.predict(noisy, step, self.embed_condition(x, observed))

    def embed_condition(self, x: Tensor, observed: Tensor) -> list[Tensor]:
        """Return the condition as each block adds it; it is the same at every diffusion step."""
        condition = torch.cat([x * observed, observed.to(x.dtype)], dim=1)
        return [block.condition_proj(condition) for block in self.blocks]  # type: ignore[operator]

    def predict(self, noisy: Tensor, step: Tensor, conditions: list[Tensor]) -> Tensor:
        """Return the prediction for `noisy` (batch, variable, time) at `step` (batch,) under embedded conditions."""
        hidden = F.relu(self.input_proj(noisy))
        embedded = self.step_embedding(step)
        skips: Tensor | float = 0.0
        for block, condition in zip(self.blocks, conditions, strict=True):
            hidden, skip = block(hidden, embedded, condition)
            skips = skips + skip
        out: Tensor = self.output_proj(F.relu(self.skip_proj(skips / math.sqrt(len(self.blocks)))))
        return out


class ResidualBlock(nn.Module):
    """Add the step embedding, S4, add the condition, S4, gate; then on to the next block and to the skip sum."""

    def __init__(self, config: Decontaminator.Config, variables: int) -> None:
        super().__init__()
        channels, wide = config.channels, 2 * config.channels
        s4 = {"state": config.state, "kernel": config.kernel, "dropout": config.dropout, "bidirectional": True}
        self.step_proj = nn.Linear(2 * channels, channels)
        self.widen_conv = nn.Conv1d(channels, wide, 3, padding=1)
        self.first_s4 = S4(wide, **s4)  # type: ignore[arg-type]
        self.condition_proj = Pointwise(2 * variables, wide)
        self.second_s4 = S4(wide, **s4)  # type: ignore[arg-type]
        self.gate_proj = Pointwise(channels, wide)

    def forward(self, x: Tensor, step: Tensor, condition: Tensor) -> tuple[Tensor, Tensor]:
        """Return the input of the next block and the skip output, both like x (batch, channel, time)."""
        hidden = self.widen_conv(x + self.step_proj(step)[:, :, None])
        hidden = self.second_s4(self.first_s4(hidden) + condition)
        filtered, gate = hidden.chunk(2, dim=1)
        residual, skip = self.gate_proj(torch.tanh(filtered) * torch.sigmoid(gate)).chunk(2, dim=1)
        return (x + residual) / math.sqrt(2.0), skip


class StepEmbedding(nn.Module):
    """Embed the diffusion step: sines and cosines, then two linear layers with SiLU."""

    def __init__(self, features: int, waves: int = 64) -> None:
        super().__init__()
        self.register_buffer("frequency", 10.0 ** (torch.arange(waves) * 4.0 / (waves - 1)), persistent=False)
        self.layers = nn.Sequential(nn.Linear(2 * waves, features), nn.SiLU(), nn.Linear(features, features), nn.SiLU())

    def forward(self, step: Tensor) -> Tensor:
        """Return the embedding (batch, feature) of step (batch,)."""
        assert isinstance(self.frequency, Tensor)
        # Periods from 10^4 steps down to one step.
        angle = 2 * math.pi * step[:, None].to(self.frequency.dtype) * self.frequency / 1e4
        embedded: Tensor = self.layers(torch.cat([angle.sin(), angle.cos()], dim=1))
        return embedded
