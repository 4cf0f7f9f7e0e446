"""ImDiffusion: hide every other stripe of a window, impute it by diffusion from the rest, and let denoising steps vote.

Y. Chen, C. Zhang, M. Ma, Y. Liu, R. Ding, B. Li, S. He, S. Rajmohan, Q. Lin, D. Zhang: ImDiffusion: Imputed Diffusion
Models for Multivariate Time Series Anomaly Detection. PVLDB 17(3), 2023. Implemented: grating masks, unconditional
imputed diffusion with a CSDI network (Tashiro et al., NeurIPS 2021), and the ensemble vote of denoising steps.

    name        paper      meaning
    hidden      M_0, M_1   grating masks: policy p hides the stripes of a window whose number is p modulo 2
    noisy       X_t        the window at diffusion step t, shown cells included ("unconditional")
    errors      E_t        (voter, time): mean over the variables of |sample at diffusion step t - x|
    tau         tau_t      the sample at diffusion step t votes for a time step if E_t is above it
    share       tau_T      share of the last denoising step's errors, the highest, that are votes

    share_t = share * mean E_0 / mean E_t        tau_t: quantile 1 - share_t of E_t        score: mean of E_t > tau_t

Deviations (see also docs/detectors.md, "Deviations from the papers"):

- tau comes from training data, not from the test data.
- E is the mean over the variables; in the authors' code for SMD, the largest. share_t uses means of E; in their code,
  of squared errors.
- Shown cells have the same noise at every diffusion step and in every observation; the authors draw it anew.
- The score of a time step is the share of votes, not whether they exceed a number.
- A token is a patch of steps of one variable; in the published preset, one step.
- The mask is an input per cell, so that it also marks missing values; the authors embed the policy.
- The noise schedule is linear and ends with as little signal as the published quadratic one.
- By default the network predicts the clean window and sampling takes a few DDIM steps; published: the noise, and all
  steps.
- No dropout. Inputs are asinh(z).

Published settings, read in the authors' repository (17000cyh/IMDiffusion): blocks, channels, heads, diffusion steps and
learning rate in config/base.yaml; epochs, batch and stripes in exe_machine.py; decay and patience in utils.py; the vote
of every third of the last 30 steps and the share of 2 % in ensemble_proper.py. From memory, not checked: the window of
100 steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from tsadc.config import require
from tsadc.detectors.residual import NetworkOutput, ResidualDetector, published_training
from tsadc.nn.diffusion import Diffusion, Method
from tsadc.nn.inputs import masked_mean, prepare_input, squash, unsquash
from tsadc.nn.patches import cut_patches, join_patches
from tsadc.nn.randomness import derive_seed
from tsadc.nn.runtime.threads import parallel_map
from tsadc.nn.stored_names import StoredNames
from tsadc.nn.train import Training
from tsadc.nn.trainable import ObservedBatch
from tsadc.series import Floats, Observations
from tsadc.subsample import evenly_spaced

MOST_OBSERVATIONS = 32  # of the training part, from which tau is computed


class IMDiffusion(ResidualDetector["IMDiffusion.Config"]):
    """Detect values that differ from their imputation by diffusion from the other half of their window.

    Attributes
    ----------
    tau_
        Error above which each voter votes for a step (voter,), from the training data.
    """

    name: ClassVar[str] = "imdiffusion"
    inference_settings: ClassVar[tuple[str, ...]] = ("chain", "voting", "stride", "share")
    tau_: Floats

    @dataclass(frozen=True)
    class Config(ResidualDetector.Config):
        """Settings of ImDiffusion.

        Parameters
        ----------
        window
            Steps per window, at least 2.
        stripes
            Stripes per window, of which every other one is hidden, at least 2.
        patch
            Steps per token, at least 1.
        channels
            Width of the network, an even multiple of `heads`.
        blocks
            Residual blocks, at least 1.
        heads
            Attention heads, at least 1.
        diffusion
            Noise schedule and target of the diffusion.
        chain
            Denoising steps by DDIM; 0 for all diffusion steps, by ancestral sampling.
        voting
            Share of the denoising, its end, whose samples vote, above 0 and at most 1.
        stride
            Every `stride`-th of these samples votes, at least 1.
        share
            Share of training steps that the last sample votes for, between 0 and 1.
        """

        presets: ClassVar[tuple[str, ...]] = ("published", "tiny")

        window: int = 100
        stripes: int = 10
        patch: int = 5
        channels: int = 16
        blocks: int = 2
        heads: int = 2
        diffusion: Diffusion.Config = field(
            default_factory=lambda: Diffusion.Config(steps=50, beta_start=1e-4, beta_end=0.35, target="start")
        )
        chain: int = 6
        voting: float = 0.6
        stride: int = 1
        share: float = 0.02
        training: Training = field(
            default_factory=lambda: Training(
                epochs=12, batch=8, learning_rate=4e-3, weight_decay=1e-4, warmup_epochs=1, patience=8, ema=0.99
            )
        )

        def __post_init__(self) -> None:
            super().__post_init__()
            for name, least in {"window": 2, "stripes": 2, "patch": 1, "blocks": 1, "heads": 1, "stride": 1}.items():
                require(getattr(self, name) >= least, name, f"at least {least}", getattr(self, name))
            fitting = self.channels >= 2 and self.channels % 2 == 0 and self.channels % self.heads == 0
            require(fitting, "channels", f"an even multiple of heads ({self.heads})", self.channels)
            most = self.diffusion.steps
            require(0 <= self.chain <= most, "chain", f"from 0 to diffusion.steps ({most})", self.chain)
            require(0 < self.voting <= 1, "voting", "above 0 and at most 1", self.voting)
            require(0 < self.share < 1, "share", "between 0 and 1, both excluded", self.share)

        @classmethod
        def published(cls) -> Self:
            """Return the settings for SMD; 12 windows are 2 observations of 600 steps."""
            model = {"patch": 1, "channels": 64, "blocks": 4, "heads": 8, "diffusion": {"target": "noise"}, "chain": 0}
            training = published_training(epochs=100, batch=2, learning_rate=1e-3, weight_decay=1e-6, patience=6)
            return cls.with_settings(scoring="own", **model, stride=3, training=training)

        @classmethod
        def tiny(cls) -> Self:
            """Return settings that train in seconds: for trying things out, not for results."""
            return cls.with_settings(
                window=16,
                stripes=4,
                patch=2,
                channels=8,
                blocks=1,
                chain=4,
                training={"epochs": 5, "learning_rate": 1e-2},
            )

    def _network(self, variables: int) -> Network:
        return Network(self.settings, variables)

    def _imputer(self) -> Imputer:
        return Imputer(self.network_, self.settings, len(self.variables_), self.settings.length)

    def _after_training(self, train_part: Observations, validation: Observations) -> None:
        imputer, chosen = self._imputer(), evenly_spaced(len(train_part), MOST_OBSERVATIONS)
        each = parallel_map(lambda i: imputer.errors(train_part.read(int(i)))[0], chosen)
        errors = np.concatenate(list(each), axis=1)
        self.tau_ = vote_thresholds(errors[:, np.isfinite(errors[0])], self.settings.share)

    def _extra_state(self) -> dict[str, NDArray[Any]]:
        return {"tau": self.tau_}

    def _restore_extra(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.tau_ = state["tau"]

    def _make_inference(self) -> Callable[[Floats], NetworkOutput]:
        imputer, tau = self._imputer(), self.tau_[:, None]

        def infer(z: Floats) -> NetworkOutput:
            errors, imputed = imputer.errors(z)
            expected = unsquash(imputed).numpy()
            votes = np.where(np.isfinite(errors[0]), (errors > tau).mean(axis=0), np.nan)
            return NetworkOutput((np.abs(z - expected),), expected, votes)

        return infer


class TransformerLayer(nn.Module):
    """Self-attention along one axis, then two dense layers, each normalised before and added to its input."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm, self.mlp_norm = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.qkv, self.out_proj = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)
        self.mlp = nn.Sequential(nn.Linear(channels, 2 * channels), nn.GELU(), nn.Linear(2 * channels, channels))

    def forward(self, x: Tensor) -> Tensor:
        """x (sequence, token, channel) -> the same shape."""
        qkv = self.qkv(self.attention_norm(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        query, key, value = qkv.unbind(0)
        attended = F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        x = x + self.out_proj(attended)
        out: Tensor = x + self.mlp(self.mlp_norm(x))
        return out


class ResidualBlock(nn.Module):
    """Attention over time, then over variables, then a gate; its output goes to the next block and to the skip sum
    (CSDI, Tashiro et al., NeurIPS 2021)."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.step_proj = nn.Linear(2 * channels, channels)
        self.time_layer, self.variable_layer = TransformerLayer(channels, heads), TransformerLayer(channels, heads)
        self.side_proj = nn.Linear(channels, 2 * channels)
        self.gate_in, self.gate_out = nn.Linear(channels, 2 * channels), nn.Linear(channels, 2 * channels)

    def forward(self, x: Tensor, step: Tensor, side: Tensor) -> tuple[Tensor, Tensor]:
        """x (batch, variable, token, channel), step (batch, feature), side (variable, token, channel) -> residual
        output and skip, both like x."""
        shape = x.shape
        hidden = (x + self.step_proj(step)[:, None, None]).flatten(0, 1)
        hidden = self.time_layer(hidden).view(shape).transpose(1, 2).flatten(0, 1)
        hidden = self.variable_layer(hidden).view(shape[0], shape[2], shape[1], shape[3]).transpose(1, 2)
        filtered, gate = (self.gate_in(hidden) + self.side_proj(side)).chunk(2, -1)
        residual, skip = self.gate_out(torch.tanh(filtered) * torch.sigmoid(gate)).chunk(2, -1)
        return (x + residual) / math.sqrt(2.0), skip


def sinusoidal(position: Tensor, channels: int) -> Tensor:
    """Encode positions (...) by sines and cosines (..., channel) with periods from 2 pi to 2e4 pi."""
    frequency = 1e4 ** -torch.linspace(0, 1, channels // 2)
    angle = position[..., None] * frequency
    return torch.cat([angle.sin(), angle.cos()], dim=-1)


@dataclass(frozen=True)
class DiffusionBatch(ObservedBatch):
    """Windows (batch, window, variable, time) with, for each window, its mask, its diffusion step and its noise."""

    policy: Tensor
    step: Tensor
    noise: Tensor


class Network(StoredNames):
    """Predict the noise in a noisy window, or the clean window; half of its stripes are shown, noisy as well."""

    stored_names: ClassVar[Mapping[str, str]] = {
        "attention_norm": "before", "mlp_norm": "between", "qkv": "ask", "out_proj": "answer", "mlp": "dense",
        "step_proj": "at_step", "time_layer": "along_time", "variable_layer": "along_variables", "side_proj": "know",
        "gate_in": "widen", "gate_out": "narrow",
        "input_proj": "enter", "variable_embedding": "variable", "step_mlp": "step", "output_proj": "leave",
    }  # fmt: skip

    def __init__(self, config: IMDiffusion.Config, variables: int) -> None:
        super().__init__()
        self.config, channels = config, config.channels
        self.diffusion = Diffusion(config.diffusion)
        self.input_proj = nn.Linear(2 * config.patch, channels)
        self.variable_embedding = nn.Parameter(torch.randn(variables, channels))
        self.step_mlp = nn.Sequential(
            nn.Linear(channels, 2 * channels), nn.SiLU(), nn.Linear(2 * channels, 2 * channels)
        )
        self.blocks = nn.ModuleList(ResidualBlock(channels, config.heads) for _ in range(config.blocks))
        self.output_proj = nn.Sequential(nn.Linear(channels, channels), nn.ReLU(), nn.Linear(channels, config.patch))
        for parameter in self.output_proj[-1].parameters():
            nn.init.zeros_(parameter)

    def draw(self, x: Tensor, observed: Tensor, generator: torch.Generator) -> DiffusionBatch:
        windows = cut_patches(torch.where(observed, squash(x), 0.0), self.config.window)
        shape = windows.shape[:2]
        return DiffusionBatch(
            x=windows,
            observed=cut_patches(observed, self.config.window),
            policy=torch.randint(2, shape, generator=generator),
            step=torch.randint(1, self.diffusion.steps + 1, shape, generator=generator),
            noise=torch.randn(windows.shape, generator=generator),
        )

    def losses(self, batch: DiffusionBatch) -> dict[str, Tensor]:
        """Return the mean squared error of the prediction at hidden cells that were measured."""
        x, observed, policy, step, noise = (tensor.flatten(0, 1) for tensor in batch.tensors().values())
        hidden = grating_masks(x.shape[-1], self.config.stripes)[policy].unsqueeze(1) & observed
        prediction = self(self.diffusion.add_noise(x, step, noise), step, observed & ~hidden)
        target = noise if self.diffusion.target == "noise" else x
        error = (prediction - target).square().view(len(batch), -1)
        return {"imputation": masked_mean(error, hidden.view(len(batch), -1))}

    def forward(self, noisy: Tensor, step: Tensor, shown: Tensor) -> Tensor:
        """noisy, shown (batch, variable, time), step (batch,) -> prediction like noisy."""
        time, patch = noisy.shape[-1], self.config.patch
        padding = -time % patch
        cells = F.pad(torch.stack([noisy, shown.to(noisy.dtype)], -1), (0, 0, 0, padding))
        hidden = self.input_proj(cells.unflatten(2, (-1, patch)).flatten(3))
        positions = sinusoidal(torch.arange(hidden.shape[2]), self.config.channels)
        side = positions + self.variable_embedding[:, None]
        step_embedding = self.step_mlp(sinusoidal(step, self.config.channels))
        skips: Tensor | float = 0.0
        for block in self.blocks:
            hidden, skip = block(hidden, step_embedding, side)
            skips = skips + skip
        out: Tensor = self.output_proj(skips / math.sqrt(len(self.blocks))).flatten(2)
        return out[..., :time]


class Imputer:
    """Impute both halves of every window of an observation, with the same noise for every observation."""

    def __init__(self, network: Network, config: IMDiffusion.Config, variables: int, length: int) -> None:
        self.network, self.config = network, config
        generator = torch.Generator().manual_seed(derive_seed(config.seed, 1))
        count, _, size = cut_patches(torch.empty(variables, length), config.window).shape
        self.hidden = grating_masks(size, config.stripes)[:, None, None].expand(2, count, variables, size)
        self.shown_noise, self.initial_noise = (
            torch.randn(2 * count, variables, size, generator=generator) for _ in range(2)
        )

    def __call__(self, x: Tensor, measured: Tensor) -> list[Tensor]:
        """x, measured (variable, time) -> the samples that vote, each like x, from the last denoising step back."""
        config, diffusion, time = self.config, self.network.diffusion, x.shape[-1]
        windows = cut_patches(x, config.window).expand(self.hidden.shape).flatten(0, 1)
        shown = (cut_patches(measured, config.window) & ~self.hidden).flatten(0, 1)
        generator = torch.Generator().manual_seed(derive_seed(config.seed, 2))
        samples: list[Tensor] = []

        def keep(noisy: Tensor, step: int) -> Tensor:
            if step < config.voting * diffusion.steps:
                first, second = noisy.view(self.hidden.shape)  # one per policy
                samples.insert(0, join_patches(torch.where(self.hidden[0], first, second), time))
            return torch.where(shown, diffusion.add_noise(windows, step, self.shown_noise) if step else windows, noisy)

        predict = partial(self.network, shown=shown)
        method: Method = "ddim" if config.chain else "ancestral"
        steps = config.chain or None
        diffusion.sample(predict, self.initial_noise, method=method, steps=steps, keep=keep, generator=generator)
        return samples[:: config.stride]

    def errors(self, z: Floats) -> tuple[Floats, Tensor]:
        """Return E (voter, time) of z (variable, time), NaN where nothing was measured, and the last sample."""
        _, measured, x = prepare_input(z)
        samples = self(x, measured)
        error = torch.where(measured, (torch.stack(samples) - x).abs(), 0.0)
        return (error.double().sum(1) / measured.sum(0)).numpy(), samples[0]


def vote_thresholds(errors: Floats, share: float) -> Floats:
    """Return tau (voter,) for errors (voter, step); the first voter is the last denoising step.

    A voter whose errors are larger on average votes for a smaller share of the steps.
    """
    means = np.maximum(errors.mean(axis=1), np.finfo(np.float64).tiny)
    shares = np.minimum(share * means[0] / means, 1.0)
    return np.array([np.quantile(error, 1 - part) for error, part in zip(errors, shares, strict=True)])


def grating_masks(time: int, stripes: int) -> Tensor:
    """Return `hidden` (policy, time): every other of `stripes` equal stripes; policy 1 hides what policy 0 shows."""
    number = torch.arange(time) * min(stripes, time) // time
    return number % 2 == torch.arange(2)[:, None]
