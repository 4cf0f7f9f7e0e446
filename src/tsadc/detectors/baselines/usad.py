"""USAD: two autoencoders with one encoder, of which the second learns to tell data from what the first makes of it.

J. Audibert, P. Michiardi, F. Guyard, S. Marti, M. A. Zuluaga: "USAD: UnSupervised Anomaly Detection on Multivariate
Time Series", KDD 2020.

    name        paper            meaning
    window      K                steps per window; a window of all variables is one vector W
    latent      m                size of the code Z = E(W)
    encoder     E                shared
    first       D_1, AE_1(W)     the decoder that is trained to deceive the other, and W through it
    second      D_2              the decoder that is trained to see through it
    again       AE_2(AE_1(W))    what the second makes of what the first has made
    number      n                goes up by one every `pace` epochs, from 1
    alpha beta  alpha, beta      shares of the two errors in the score, beta = 1 - alpha

    L_AE1 = 1/n |W - AE_1(W)|^2 + (1 - 1/n) |W - AE_2(AE_1(W))|^2     trains E and D_1
    L_AE2 = 1/n |W - AE_2(W)|^2 - (1 - 1/n) |W - AE_2(AE_1(W))|^2     trains E and D_2
    score = alpha |W - AE_1(W)|^2 + beta |W - AE_2(AE_1(W))|^2        with AE_1 and AE_2 as trained

Deviations. The paper's n is the epoch: `pace` is 1. From n = 3 on, the second decoder gains more by spoiling what it
makes of AE_1(W) than by keeping what it makes of W, which looks much the same, and ends at its bounds; by default n
ends at 2, where both parts weigh the same. Both losses are taken in one step, each with the other's decoder held,
because the project's training loop makes one update at a time; the paper makes two in turn. The parts that oppose each
other then cancel in the gradient of the encoder: in every preset, the published one included, the encoder is trained on
the two plain errors only, and the adversarial parts train the decoders alone. The paper scales each variable to 0..1 by
its extremes and ends in a sigmoid; here the network sees asinh(z) up to `RANGE` and ends in a tanh of that range,
because with contaminated data an extreme says little. It must end in something bounded, or the second loss has no
minimum. Errors are means over cells. Windows need not overlap; a cell in several of them has the mean of the score's
terms in each. Its residual is the root of that; the score of a step is the mean of their squares over the variables.

Published settings, for SWaT. From memory of the paper, unchecked: window 12, code 40, 70 epochs, alpha 0.5. The batch
of 7919 windows was read in copies of the authors' notebook, of which some have other codes and epochs. The rate is
Adam's usual one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tsadc.config import require
from tsadc.detectors.residual import Examined, ResidualConfig, ResidualDetector, plainly
from tsadc.nn.cells import Sliding, cell_mean, cells_of, squash, unsquash
from tsadc.nn.train import Training
from tsadc.series import Floats

RANGE = 6.0  # asinh of 200 robust standard deviations


@dataclass(frozen=True)
class Config(ResidualConfig):
    """`window` steps, one every `stride` steps, through a code of `latent` numbers. `alpha`: the share of the first
    autoencoder's error in the score. `pace`: epochs for each weighing of the losses."""

    presets: ClassVar[tuple[str, ...]] = ("published", "tiny")

    window: int = 12
    stride: int = 12
    latent: int = 40
    alpha: float = 0.5
    pace: int = 10
    training: Training = field(
        default_factory=lambda: Training(
            epochs=20, batch=8, learning_rate=1e-3, warmup_epochs=0, patience=0, weight_decay=0.0
        )
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.window >= 1, "window", "at least 1", self.window)
        require(1 <= self.stride <= self.window, "stride", "from 1 to window", self.stride)
        require(self.latent >= 1, "latent", "at least 1", self.latent)
        require(0 <= self.alpha <= 1, "alpha", "from 0 to 1", self.alpha)
        require(self.pace >= 1, "pace", "at least 1", self.pace)

    @classmethod
    def published(cls) -> Self:
        """7919 windows are 13 observations of 600 steps."""
        training = plainly(epochs=70, batch=13, learning_rate=1e-3)
        return cls.with_settings(scoring="own", window=12, stride=1, latent=40, alpha=0.5, pace=1, training=training)

    @classmethod
    def tiny(cls) -> Self:
        """Trains in seconds: for trying things out, not for results."""
        return cls.with_settings(window=8, stride=4, latent=8, pace=3, training={"epochs": 5})


class Perceptron(nn.Module):
    """Linear layers with ReLU between them."""

    def __init__(self, *widths: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(before, after) for before, after in pairwise(widths))

    def forward(self, x: Tensor, *, held: bool = False) -> Tensor:
        """`held`: gradients pass through to `x`, and none reaches the weights."""
        for i, layer in enumerate(self.layers):
            assert isinstance(layer, nn.Linear)
            weight, bias = (layer.weight.detach(), layer.bias.detach()) if held else (layer.weight, layer.bias)
            x = F.linear(x.relu() if i else x, weight, bias)
        return x


class Network(nn.Module):
    def __init__(self, config: Config, variables: int, length: int) -> None:
        super().__init__()
        self.windows = Sliding(length, config.window, config.stride)
        whole = variables * self.windows.size
        half, quarter = max(whole // 2, 1), max(whole // 4, 1)
        self.encoder = Perceptron(whole, half, quarter, config.latent)
        self.first = Perceptron(config.latent, quarter, half, whole)
        self.second = Perceptron(config.latent, quarter, half, whole)
        self.pace, self.number = config.pace, 1

    def begin_epoch(self, number: int) -> None:
        self.number = 1 + (number - 1) // self.pace

    def draw(self, x: Tensor, observed: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        return {"x": x, "observed": observed}

    def enter(self, z: Tensor) -> Tensor:
        """z (batch, variable, time) -> windows as vectors (batch, window, variable * step), within -1 and 1."""
        return self.windows.cut((squash(z) / RANGE).clamp(-1, 1)).transpose(1, 2).flatten(2)

    def leave(self, vectors: Tensor) -> Tensor:
        """Back to z units, in windows (batch, variable, window, step)."""
        return unsquash(RANGE * vectors.unflatten(2, (-1, self.windows.size)).transpose(1, 2))

    def encode(self, vectors: Tensor) -> Tensor:
        out: Tensor = self.encoder(vectors).relu()
        return out

    def losses(self, drawn: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """L_AE1 and L_AE2, each for its own decoder and both for the encoder."""
        cells = self.windows.cut(drawn["observed"]).transpose(1, 2).flatten(2)
        data = self.enter(torch.where(drawn["observed"], drawn["x"], 0.0))
        code = self.encode(data)
        one, two = self.first(code).tanh(), self.second(code).tanh()
        deceived = self.second(self.encode(one), held=True).tanh()
        doubted = self.second(self.encode(self.first(code, held=True).tanh())).tanh()

        def error(made: Tensor) -> Tensor:
            return cell_mean((RANGE * (data - made)).square(), cells)

        plain, opposed = 1 / self.number, 1 - 1 / self.number
        return {
            "first": plain * error(one) + opposed * error(deceived),
            "second": plain * error(two) - opposed * error(doubted),
        }

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """AE_1 and AE_2 AE_1 of z (batch, variable, time), in windows (batch, variable, window, step), in z units."""
        one = self.first(self.encode(self.enter(z))).tanh()
        again = self.second(self.encode(one)).tanh()
        return self.leave(one), self.leave(again)


class USAD(ResidualDetector):
    """Two autoencoders with one encoder, the second trained to tell what the first has made."""

    name: ClassVar[str] = "usad"
    Config: ClassVar[type[Config]] = Config
    stops_early: ClassVar[bool] = False  # every epoch weighs its losses anew
    after_training: ClassVar[tuple[str, ...]] = ("alpha",)

    def _network(self, variables: int) -> Network:
        return Network(self.settings, variables, self.settings.length)

    def _examiner(self) -> Callable[[Floats], Examined]:
        network, alpha = self.network_, self.settings.alpha

        def examine(z: Floats) -> Examined:
            values, measured, _ = cells_of(z)
            one, again = (made[0] for made in network(torch.where(measured, values, 0.0).unsqueeze(0)))
            cells = network.windows.cut(values)
            mixed = torch.hypot(alpha**0.5 * (cells - one).abs(), (1 - alpha) ** 0.5 * (cells - again).abs())
            residual = network.windows.join(mixed.double().square()).sqrt().float()  # NaN wherever z is
            return Examined((residual.numpy(),), network.windows.join(one).numpy())

        return examine
