"""S4-AE: an autoencoder of S4 layers whose code has fewer time steps and fewer channels than the data.

A. Gu, K. Goel, C. Ré: Efficiently Modeling Long Sequences with Structured State Spaces. ICLR 2022. That paper defines
the layer. No paper defines the autoencoder: the TSAD-C paper names the layer only, so this is the obvious autoencoder
around it.

    name       paper   meaning
    channels   H       features per step inside encoder and decoder
    state      N       size of the state of each channel
    code       -       (batch, latent, time / factor): the bottleneck
    factor     -       steps that share one column of the code, by their mean

Deviations: none can be stated, because there is no reference. Inputs are asinh(z). The whole observation is one
sequence, without windows. See also docs/detectors.md, "Deviations from the papers".

Published settings. Width, depth, dropout, state, batch, decay, warm-up, epochs and patience are those of GraphS4mer,
read in its repository (tsy935/graphs4mer: scripts/run_tuh.sh, args.py). From memory, not checked: the learning rate,
from S4's own experiments, and that the authors of TSAD-C use the same width and depth. The size of the code is ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tsadc.config import require
from tsadc.detectors.residual import NetworkOutput, ResidualDetector, published_training, reconstruction_inference
from tsadc.nn.inputs import masked_mean, squash
from tsadc.nn.layers import Pointwise
from tsadc.nn.s4 import S4, KernelName, ssm_parameters
from tsadc.nn.train import Training, parameter_groups
from tsadc.nn.trainable import ObservedBatch
from tsadc.series import Floats


class S4AE(ResidualDetector["S4AE.Config"]):
    """Detect values that differ from their reconstruction by an S4 autoencoder of the whole observation."""

    name: ClassVar[str] = "s4-ae"

    @dataclass(frozen=True)
    class Config(ResidualDetector.Config):
        """Settings of S4-AE.

        Parameters
        ----------
        channels
            Features per step inside encoder and decoder, at least 1.
        layers
            S4 layers of the encoder, and as many of the decoder, at least 1.
        state
            State size of S4, an even number of at least 2.
        kernel
            Parametrisation of S4: "diagonal" (S4D) or "dplr" (diagonal plus low rank, as first published).
        dropout
            Dropout rate of the S4 layers, at least 0 and below 1.
        latent
            Numbers per column of the code, at least 1.
        factor
            Steps per column of the code, at least 1.
        """

        presets: ClassVar[tuple[str, ...]] = ("published", "tiny")

        channels: int = 48
        layers: int = 2
        state: int = 32
        kernel: KernelName = "diagonal"
        dropout: float = 0.0
        latent: int = 8
        factor: int = 4
        training: Training = field(
            default_factory=lambda: Training(epochs=15, batch=8, learning_rate=3e-3, warmup_epochs=1, patience=5)
        )

        def __post_init__(self) -> None:
            super().__post_init__()
            for name in ("channels", "layers", "latent", "factor"):
                require(getattr(self, name) >= 1, name, "at least 1", getattr(self, name))
            require(self.state >= 2 and self.state % 2 == 0, "state", "an even number of at least 2", self.state)
            require(0 <= self.dropout < 1, "dropout", "at least 0 and below 1", self.dropout)

        @classmethod
        def published(cls) -> Self:
            """Return the settings of S4 as in its first paper, with the width and depth of GraphS4mer."""
            return cls.with_settings(
                scoring="own",
                channels=128,
                layers=4,
                state=64,
                kernel="dplr",
                dropout=0.1,
                latent=8,
                factor=4,
                training=published_training(
                    epochs=100, batch=4, learning_rate=1e-3, weight_decay=5e-3, warmup_epochs=5, patience=20
                ),
            )

        @classmethod
        def tiny(cls) -> Self:
            """Return settings that train in seconds: for trying things out, not for results."""
            return cls.with_settings(channels=12, layers=1, state=8, latent=2, training={"epochs": 5})

    def _network(self, variables: int) -> Network:
        return Network(self.settings, variables)

    def _make_inference(self) -> Callable[[Floats], NetworkOutput]:
        return reconstruction_inference(self.network_)


class Network(nn.Module):
    """S4 layers down to the code, and S4 layers back."""

    def __init__(self, config: S4AE.Config, variables: int) -> None:
        super().__init__()
        self.factor = config.factor

        def layers() -> list[nn.Module]:
            options: dict[str, Any] = {"state": config.state, "kernel": config.kernel, "dropout": config.dropout}
            return [S4(config.channels, bidirectional=True, **options) for _ in range(config.layers)]

        self.encoder = nn.Sequential(Pointwise(variables, config.channels), *layers())
        self.narrow = Pointwise(config.channels, config.latent)
        self.decoder = nn.Sequential(
            Pointwise(config.latent, config.channels), *layers(), Pointwise(config.channels, variables)
        )

    def draw(self, x: Tensor, observed: Tensor, generator: torch.Generator) -> ObservedBatch:
        return ObservedBatch(torch.where(observed, squash(x), 0.0), observed)

    def losses(self, batch: ObservedBatch) -> dict[str, Tensor]:
        return {"reconstruction": masked_mean((batch.x - self(batch.x)).square(), batch.observed)}

    def encode(self, x: Tensor) -> Tensor:
        """x (batch, variable, time) -> code (batch, latent, time / factor); the last column may average fewer steps."""
        hidden: Tensor = self.encoder(x)
        pooled = F.avg_pool1d(hidden, self.factor, ceil_mode=True, count_include_pad=False)
        code: Tensor = self.narrow(pooled)
        return code

    def decode(self, code: Tensor, time: int) -> Tensor:
        """Reconstruct an observation of `time` steps from its code."""
        out: Tensor = self.decoder(code.repeat_interleave(self.factor, dim=-1)[..., :time])
        return out

    def forward(self, x: Tensor) -> Tensor:
        """x (batch, variable, time) -> its reconstruction, like x."""
        return self.decode(self.encode(x), x.shape[2])

    def parameter_groups(self, config: Training) -> list[dict[str, Any]]:
        return parameter_groups(self, config, ssm_parameters(self))
