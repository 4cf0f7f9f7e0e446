"""LSTM-AE: an LSTM encodes a window into its last state, and a second LSTM reconstructs the window backwards from it.

P. Malhotra, A. Ramakrishnan, G. Anand, L. Vig, P. Agarwal, G. Shroff: LSTM-based Encoder-Decoder for Multi-sensor
Anomaly Detection. ICML workshop on anomaly detection 2016. The name LSTM-AE and the score are from Y. Wei, J.
Jang-Jaccard, W. Xu, F. Sabrina, S. Camtepe, M. Boulic: LSTM-Autoencoder-Based Anomaly Detection for Indoor Air Quality
Time-Series Data. IEEE Sensors Journal 2023. Implemented: the network and its training; the score is the mean squared
error.

    name       paper      meaning
    window     L          steps per window
    hidden     c          size of the LSTM states
    encoder    h_E        its last state is all that the decoder knows of the window
    decoder    h_D        starts at h_E; the state at step i gives x'(i) and, with x(i), leads to step i - 1
    output     w, b       x'(i) = w h_D(i) + b

Deviations (see also docs/detectors.md, "Deviations from the papers"):

- The score of a step is the mean of (x - x')^2 over the variables, as in Wei et al. Malhotra et al. fit a normal
  distribution to |x - x'| on clean data, which does not exist here.
- Inputs are asinh(z).
- Windows do not overlap, except that the last window ends with the observation.

Published settings. From memory of Malhotra et al., not checked: windows of 208 steps and states of 45 numbers, used for
electrocardiograms, teacher forcing in training, and early stopping. Epochs, batch, learning rate and patience are ours;
the paper's are unknown to us.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from tsadc.config import require
from tsadc.detectors.residual import NetworkOutput, ResidualDetector, published_training, reconstruction_inference
from tsadc.nn.inputs import masked_mean, squash
from tsadc.nn.patches import SlidingWindows
from tsadc.nn.stored_names import StoredNames
from tsadc.nn.train import Training
from tsadc.nn.trainable import ObservedBatch
from tsadc.series import Floats


class LSTMAE(ResidualDetector["LSTMAE.Config"]):
    """Detect values that differ from the reconstruction of their window by an LSTM autoencoder."""

    name: ClassVar[str] = "lstm-ae"

    @dataclass(frozen=True)
    class Config(ResidualDetector.Config):
        """Settings of LSTM-AE.

        Parameters
        ----------
        window
            Steps per window, at least 2.
        hidden
            Size of the LSTM states, at least 1.
        forcing
            Teacher forcing: in training the decoder continues from the true value of a step, as in the paper, instead
            of its own output. In validation and scoring it always continues from its own output.
        """

        presets: ClassVar[tuple[str, ...]] = ("published", "tiny")

        window: int = 30
        hidden: int = 64
        forcing: bool = False
        training: Training = field(
            default_factory=lambda: Training(epochs=20, batch=8, learning_rate=3e-3, warmup_epochs=1, patience=5)
        )

        def __post_init__(self) -> None:
            super().__post_init__()
            require(self.window >= 2, "window", "at least 2", self.window)
            require(self.hidden >= 1, "hidden", "at least 1", self.hidden)

        @classmethod
        def published(cls) -> Self:
            """Return the settings of Malhotra et al. for electrocardiograms."""
            training = published_training(epochs=100, batch=8, learning_rate=1e-3, patience=10)
            return cls.with_settings(scoring="own", window=208, hidden=45, forcing=True, training=training)

        @classmethod
        def tiny(cls) -> Self:
            """Return settings that train in seconds: for trying things out, not for results."""
            return cls.with_settings(window=12, hidden=12, training={"epochs": 5})

    def _network(self, variables: int) -> Network:
        return Network(self.settings, variables, self.settings.length)

    def _make_inference(self) -> Callable[[Floats], NetworkOutput]:
        return reconstruction_inference(self.network_)


class Network(StoredNames):
    """An LSTM encoder and an LSTM decoder of windows."""

    stored_names: ClassVar[Mapping[str, str]] = {"output": "tell"}

    def __init__(self, config: LSTMAE.Config, variables: int, length: int) -> None:
        super().__init__()
        self.windows, self.forcing = SlidingWindows(length, config.window, config.window), config.forcing
        self.encoder = nn.LSTM(variables, config.hidden, batch_first=True)
        self.decoder = nn.LSTMCell(variables, config.hidden)
        self.output = nn.Linear(config.hidden, variables)

    def draw(self, x: Tensor, observed: Tensor, generator: torch.Generator) -> ObservedBatch:
        return ObservedBatch(torch.where(observed, squash(x), 0.0), observed)

    def losses(self, batch: ObservedBatch) -> dict[str, Tensor]:
        x = self.windows.cut(batch.x)
        error = (x - self.reconstruct(x, forcing=self.forcing and self.training)).square()
        return {"reconstruction": masked_mean(error, self.windows.cut(batch.observed))}

    def reconstruct(self, x: Tensor, *, forcing: bool) -> Tensor:
        """Reconstruct windows x (batch, variable, window, step); see `Config.forcing`."""
        steps = x.permute(0, 2, 3, 1).flatten(0, 1)  # (batch * window, step, variable), the layout of an LSTM
        state = tuple(part[0] for part in self.encoder(steps)[1])
        outputs = [self.output(state[0])]  # last step first
        for true in steps.unbind(1)[:0:-1]:
            state = self.decoder(true if forcing else outputs[-1], state)
            outputs.append(self.output(state[0]))
        windows: Tensor = torch.stack(outputs[::-1], dim=1).unflatten(0, (len(x), -1)).permute(0, 3, 1, 2)
        return windows

    def forward(self, x: Tensor) -> Tensor:
        """x (batch, variable, time) -> its reconstruction, like x."""
        return self.windows.join(self.reconstruct(self.windows.cut(x), forcing=False))
