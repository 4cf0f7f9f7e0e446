"""Module 1, the Decontaminator: hides cells of an observation and tells them from the rest by conditional diffusion.

name            paper       meaning
observed        v           True = the network may look; what was not measured is never observed
hidden          1 - v       measured, but not shown: the loss and the score live here
condition       c           concat(x * observed, observed)
noisy           x^t         the observation at diffusion step t
decontaminated  x^0-hat     hidden cells replaced by their estimate
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
        """`start`: what the diffusion begins from: the signal, with noise only where cells are hidden, or the masked
        observation (zeros), with noise everywhere. `loss`: on the hidden cells, or on the entire observation.
        `at`: diffusion steps trained at: all alike (`uniform`), or only the one that is estimated from (`last`)."""

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
            require(self.state >= 2 and self.state % 2 == 0, "state", "an even number from 2", self.state)
            require(0 <= self.dropout < 1, "dropout", "from 0 to below 1", self.dropout)

    def __init__(self, config: Config, variables: int) -> None:
        super().__init__()
        self.config = config
        self.diffusion = Diffusion(config.diffusion)
        self.network = Estimator(config, variables)

    @property
    def last(self) -> int:
        return self.diffusion.steps

    @property
    def noise_everywhere(self) -> bool:
        return self.config.start == "masked" or self.config.loss == "entire"

    def noisy(self, x: Tensor, observed: Tensor, step: Tensor | int, noise: Tensor) -> Tensor:
        """The observation at `step`. In the default start, observed cells stay as they are."""
        start = x * observed if self.config.start == "masked" else x
        noised = self.diffusion.noise(start, step, noise)
        return noised if self.noise_everywhere else torch.where(observed, x, noised)

    def loss(self, x: Tensor, measured: Tensor, observed: Tensor, step: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Per observation (batch,): mean squared error of the prediction; and the prediction itself."""
        noisy = self.noisy(x, observed, step, noise)
        prediction = self.network(noisy, step, x, observed)
        start = x * observed if self.config.start == "masked" else x
        target = noise if self.diffusion.target == "noise" else start
        cells = measured if self.config.loss == "entire" else measured & ~observed
        return masked_mean((prediction - target).square(), cells), prediction

    def estimate(self, x: Tensor, observed: Tensor, noise: Tensor, prediction: Tensor | None = None) -> Tensor:
        """The decontaminated observation in a single stride from step T."""
        noisy = self.noisy(x, observed, self.last, noise)
        if prediction is None:
            prediction = self.network(noisy, torch.full((len(x),), self.last), x, observed)
        start = self.diffusion.estimate_start(noisy, self.last, prediction)
        return start if self.noise_everywhere else torch.where(observed, x, start)

    def sample(
        self, x: Tensor, observed: Tensor, noise: Tensor, generator: torch.Generator, steps: int | None = None
    ) -> Tensor:
        """The decontaminated observation by the reverse chain: all steps T..1, or `steps` of them by DDIM."""
        known = self.network.prepare(x, observed)

        def keep(noisy: Tensor, step: int) -> Tensor:
            return noisy if self.noise_everywhere else torch.where(observed, x, noisy)

        return self.diffusion.sample(
            lambda noisy, step: self.network.predict(noisy, step, known),
            self.noisy(x, observed, self.last, noise),
            method="ancestral" if steps is None else "ddim",
            steps=steps,
            keep=keep,
            generator=generator,
        )


def masks_drawn(strategy: Strategy, shape: Shape, share: float, seed: int) -> Iterator[Booleans]:
    """`observed` (observation, variable, time), draw after draw, as the epochs of training make them."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield draw(strategy, shape, masked_length(share, shape[-1]), generator).numpy()


class Estimator(nn.Module):
    """The network: what noise, or what clean observation, is behind a noisy one (after DiffWave)."""

    def __init__(self, config: Decontaminator.Config, variables: int) -> None:
        super().__init__()
        channels = config.channels
        self.enter = Pointwise(variables, channels)
        self.step = StepEmbedding(2 * channels)
        self.blocks = nn.ModuleList(Block(config, variables) for _ in range(config.blocks))
        self.mix = Pointwise(channels, channels)
        self.leave = Pointwise(channels, variables)
        nn.init.zeros_(self.leave.weight)
        nn.init.zeros_(self.leave.bias)  # type: ignore[arg-type]

    def forward(self, noisy: Tensor, step: Tensor, x: Tensor, observed: Tensor) -> Tensor:
        """noisy, x (batch, variable, time), step (batch,), observed bool -> prediction like x."""
        return self.predict(noisy, step, self.prepare(x, observed))

    def prepare(self, x: Tensor, observed: Tensor) -> list[Tensor]:
        """The condition as each block takes it in; it is the same at every diffusion step."""
        condition = torch.cat([x * observed, observed.to(x.dtype)], dim=1)
        return [block.know(condition) for block in self.blocks]  # type: ignore[operator]

    def predict(self, noisy: Tensor, step: Tensor, known: list[Tensor]) -> Tensor:
        hidden = F.relu(self.enter(noisy))
        embedded = self.step(step)
        skips: Tensor | float = 0.0
        for block, condition in zip(self.blocks, known, strict=True):
            hidden, skip = block(hidden, embedded, condition)
            skips = skips + skip
        out: Tensor = self.leave(F.relu(self.mix(skips / math.sqrt(len(self.blocks)))))
        return out


class Block(nn.Module):
    """One residual block: step embedding in, S4, condition in, S4, gate, out to the next block and to the end."""

    def __init__(self, config: Decontaminator.Config, variables: int) -> None:
        super().__init__()
        channels, wide = config.channels, 2 * config.channels
        s4 = {"state": config.state, "kernel": config.kernel, "dropout": config.dropout, "bidirectional": True}
        self.at_step = nn.Linear(2 * channels, channels)
        self.widen = nn.Conv1d(channels, wide, 3, padding=1)
        self.first = S4(wide, **s4)  # type: ignore[arg-type]
        self.know = Pointwise(2 * variables, wide)
        self.second = S4(wide, **s4)  # type: ignore[arg-type]
        self.narrow = Pointwise(channels, wide)

    def forward(self, x: Tensor, step: Tensor, condition: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.widen(x + self.at_step(step)[:, :, None])
        hidden = self.second(self.first(hidden) + condition)
        filtered, gate = hidden.chunk(2, dim=1)
        residual, skip = self.narrow(torch.tanh(filtered) * torch.sigmoid(gate)).chunk(2, dim=1)
        return (x + residual) / math.sqrt(2.0), skip


class StepEmbedding(nn.Module):
    """Sines and cosines of the diffusion step, then two linear layers with SiLU."""

    def __init__(self, features: int, waves: int = 64) -> None:
        super().__init__()
        self.register_buffer("frequency", 10.0 ** (torch.arange(waves) * 4.0 / (waves - 1)), persistent=False)
        self.layers = nn.Sequential(nn.Linear(2 * waves, features), nn.SiLU(), nn.Linear(features, features), nn.SiLU())

    def forward(self, step: Tensor) -> Tensor:
        """step (batch,) -> (batch, feature)."""
        assert isinstance(self.frequency, Tensor)
        # From one turn in 10^4 steps to one in every step.
        angle = 2 * math.pi * step[:, None].to(self.frequency.dtype) * self.frequency / 1e4
        embedded: Tensor = self.layers(torch.cat([angle.sin(), angle.cos()], dim=1))
        return embedded
