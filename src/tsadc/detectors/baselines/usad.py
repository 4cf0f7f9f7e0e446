"""USAD: two autoencoders that share an encoder and are trained against each other.

J. Audibert, P. Michiardi, F. Guyard, S. Marti, M. A. Zuluaga: USAD: UnSupervised Anomaly Detection on Multivariate Time
Series. KDD 2020. Implemented: the network, the two-phase loss, and the score.

    name         paper            meaning
    window       K                steps per window; a window of all variables is one vector W
    latent       m                size of the code Z = E(W)
    encoder      E                shared by both autoencoders
    decoder1     D_1              trained to make reconstructions that decoder2 cannot distinguish from data
    decoder2     D_2              trained to distinguish data from reconstructions of the first autoencoder
    ae1, ae2     AE_1(W), AE_2(W) reconstructions
    ae2_of_ae1   AE_2(AE_1(W))    the first reconstruction, reconstructed by the second autoencoder
    n            n                increases by one every `pace` epochs, from 1
    alpha        alpha            weight of the first error in the score; beta = 1 - alpha

    L_AE1 = 1/n |W - AE_1(W)|^2 + (1 - 1/n) |W - AE_2(AE_1(W))|^2     trains E and D_1
    L_AE2 = 1/n |W - AE_2(W)|^2 - (1 - 1/n) |W - AE_2(AE_1(W))|^2     trains E and D_2
    score = alpha |W - AE_1(W)|^2 + beta |W - AE_2(AE_1(W))|^2

Deviations (see also docs/detectors.md, "Deviations from the papers"):

- n increases every `pace` epochs and by default ends at 2. The paper's n is the epoch; from n = 3 on, decoder2 gains
  more by spoiling AE_2(AE_1(W)) than by reconstructing W, and saturates.
- Both losses are minimised in one update, each with the other decoder frozen; the paper alternates two updates. The
  adversarial terms then cancel in the encoder's gradient: they train the decoders only, in every preset.
- Inputs are asinh(z) clipped to `RANGE` and outputs end in a tanh of that range, because minima and maxima of
  contaminated data say little. The paper scales to 0..1 and ends in a sigmoid. Without a bound L_AE2 has no minimum.
- Errors are means over measured cells. A cell in several windows gets the mean of its squared errors; its residual is
  the square root of that.

Published settings are those for SWaT. From memory of the paper, not checked: window 12, code 40, 70 epochs, alpha 0.5.
The batch of 7919 windows is from copies of the authors' notebook, some of which have other codes and epochs. The
learning rate is Adam's default.
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
from tsadc.detectors.residual import NetworkOutput, ResidualDetector, published_training
from tsadc.nn.inputs import masked_mean, prepare_input, squash, unsquash
from tsadc.nn.patches import SlidingWindows
from tsadc.nn.stored_names import StoredNames
from tsadc.nn.train import Training
from tsadc.nn.trainable import ObservedBatch
from tsadc.series import Floats

RANGE = 6.0  # asinh of 200 robust standard deviations


class USAD(ResidualDetector["USAD.Config"]):
    """Detect windows that the first autoencoder, or both in sequence, cannot reconstruct.

    The second autoencoder learns to distinguish data from reconstructions of the first, which amplifies small errors.
    """

    name: ClassVar[str] = "usad"
    stops_early: ClassVar[bool] = False  # the weights of the losses change with the epoch
    inference_settings: ClassVar[tuple[str, ...]] = ("alpha",)

    @dataclass(frozen=True)
    class Config(ResidualDetector.Config):
        """Settings of USAD.

        Parameters
        ----------
        window
            Steps per window, at least 1.
        stride
            Steps between the starts of two windows, from 1 to `window`.
        latent
            Size of the code, at least 1.
        alpha
            Weight of the first autoencoder's error in the score, from 0 to 1.
        pace
            Epochs until the adversarial terms get more weight, at least 1; the paper's value is 1.
        """

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
            """Return the settings for SWaT; 7919 windows are 13 observations of 600 steps."""
            training = published_training(epochs=70, batch=13, learning_rate=1e-3)
            return cls.with_settings(
                scoring="own", window=12, stride=1, latent=40, alpha=0.5, pace=1, training=training
            )

        @classmethod
        def tiny(cls) -> Self:
            """Return settings that train in seconds: for trying things out, not for results."""
            return cls.with_settings(window=8, stride=4, latent=8, pace=3, training={"epochs": 5})

    def _network(self, variables: int) -> Network:
        return Network(self.settings, variables, self.settings.length)

    def _make_inference(self) -> Callable[[Floats], NetworkOutput]:
        network, alpha = self.network_, self.settings.alpha

        def infer(z: Floats) -> NetworkOutput:
            values, measured, _ = prepare_input(z)
            ae1, ae2_of_ae1 = (windows[0] for windows in network(torch.where(measured, values, 0.0).unsqueeze(0)))
            data = network.windows.cut(values)
            error = torch.hypot(alpha**0.5 * (data - ae1).abs(), (1 - alpha) ** 0.5 * (data - ae2_of_ae1).abs())
            residual = network.windows.join(error.double().square()).sqrt().float()  # NaN where z is NaN
            return NetworkOutput((residual.numpy(),), network.windows.join(ae1).numpy())

        return infer


class MLP(nn.Module):
    """Linear layers with ReLU between them."""

    def __init__(self, *widths: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(before, after) for before, after in pairwise(widths))

    def forward(self, x: Tensor, *, frozen: bool = False) -> Tensor:
        """Apply the layers; if `frozen`, gradients reach `x` but not the weights."""
        for i, layer in enumerate(self.layers):
            assert isinstance(layer, nn.Linear)
            weight, bias = (layer.weight.detach(), layer.bias.detach()) if frozen else (layer.weight, layer.bias)
            x = F.linear(x.relu() if i else x, weight, bias)
        return x


class Network(StoredNames):
    """The shared encoder and the two decoders."""

    stored_names: ClassVar[Mapping[str, str]] = {"decoder1": "first", "decoder2": "second"}

    def __init__(self, config: USAD.Config, variables: int, length: int) -> None:
        super().__init__()
        self.windows = SlidingWindows(length, config.window, config.stride)
        size = variables * self.windows.size
        half, quarter = max(size // 2, 1), max(size // 4, 1)
        self.encoder = MLP(size, half, quarter, config.latent)
        self.decoder1 = MLP(config.latent, quarter, half, size)
        self.decoder2 = MLP(config.latent, quarter, half, size)
        self.pace, self.n = config.pace, 1

    def begin_epoch(self, number: int) -> None:
        self.n = 1 + (number - 1) // self.pace

    def draw(self, x: Tensor, observed: Tensor, generator: torch.Generator) -> ObservedBatch:
        return ObservedBatch(x, observed)

    def to_vectors(self, z: Tensor) -> Tensor:
        """z (batch, variable, time) -> windows as vectors (batch, window, variable * step), between -1 and 1."""
        return self.windows.cut((squash(z) / RANGE).clamp(-1, 1)).transpose(1, 2).flatten(2)

    def to_windows(self, vectors: Tensor) -> Tensor:
        """Invert `to_vectors`, up to overlaps: windows (batch, variable, window, step) in z units."""
        return unsquash(RANGE * vectors.unflatten(2, (-1, self.windows.size)).transpose(1, 2))

    def encode(self, vectors: Tensor) -> Tensor:
        code: Tensor = self.encoder(vectors).relu()
        return code

    def losses(self, batch: ObservedBatch) -> dict[str, Tensor]:
        """Return L_AE1 and L_AE2; each trains its own decoder, and both train the encoder."""
        cells = self.windows.cut(batch.observed).transpose(1, 2).flatten(2)
        data = self.to_vectors(torch.where(batch.observed, batch.x, 0.0))
        code = self.encode(data)
        ae1, ae2 = self.decoder1(code).tanh(), self.decoder2(code).tanh()
        # AE_2(AE_1(W)) twice: L_AE1 must not train decoder2, nor L_AE2 decoder1.
        for_decoder1 = self.decoder2(self.encode(ae1), frozen=True).tanh()
        for_decoder2 = self.decoder2(self.encode(self.decoder1(code, frozen=True).tanh())).tanh()

        def error(reconstruction: Tensor) -> Tensor:
            return masked_mean((RANGE * (data - reconstruction)).square(), cells)

        plain, adversarial = 1 / self.n, 1 - 1 / self.n
        return {
            "first": plain * error(ae1) + adversarial * error(for_decoder1),
            "second": plain * error(ae2) - adversarial * error(for_decoder2),
        }

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """z (batch, variable, time) -> AE_1(W) and AE_2(AE_1(W)), both (batch, variable, window, step) in z units."""
        ae1 = self.decoder1(self.encode(self.to_vectors(z))).tanh()
        ae2_of_ae1 = self.decoder2(self.encode(ae1)).tanh()
        return self.to_windows(ae1), self.to_windows(ae2_of_ae1)
