"""LSTM-AE: a recurrent encoder reads a window forwards, a recurrent decoder tells it backwards from the last state.

P. Malhotra, A. Ramakrishnan, G. Anand, L. Vig, P. Agarwal, G. Shroff: "LSTM-based Encoder-Decoder for Multi-sensor
Anomaly Detection", ICML workshop on anomaly detection 2016. As a baseline by the name LSTM-AE: Y. Wei, J.
Jang-Jaccard, W. Xu, F. Sabrina, S. Camtepe, M. Boulic: "LSTM-Autoencoder-Based Anomaly Detection for Indoor Air
Quality Time-Series Data", IEEE Sensors Journal 2023.

    name       paper      meaning
    window     L          steps per window
    hidden     c          size of the LSTM states
    encoder    h_E        its last state is all that the decoder is given of the window
    decoder    h_D        starts at h_E; the state at step i tells x'(i), and with x(i) leads on to step i - 1
    told       x'         the window as the decoder tells it, last step first

Deviations. The score of a step is the mean square of x - x' over the variables, as in Wei et al.; Malhotra et al. fit
a normal distribution to |x - x'| on clean data, of which there is none here. The network sees asinh(z). Windows do not
overlap, save for the last one of an observation.

Published settings. From memory of Malhotra et al., unchecked: windows of 208 steps and states of 45 numbers, which they
use for electrocardiograms, forcing in training, and that it stops early. Epochs, batch, rate and patience are ours;
theirs are not known to us.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from tsadc.config import require
from tsadc.detectors.residual import Examined, ResidualConfig, ResidualDetector, plainly, reconstructing
from tsadc.nn.cells import Sliding, cell_mean, squash
from tsadc.nn.train import Training
from tsadc.series import Floats


@dataclass(frozen=True)
class Config(ResidualConfig):
    """`window` steps through states of `hidden` numbers. `forcing`: in training the decoder goes on from the true
    value of a step, as in the paper, and not from its own; in validation and scoring it always has to trust itself."""

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
        """As Malhotra et al. for electrocardiograms."""
        training = plainly(epochs=100, batch=8, learning_rate=1e-3, patience=10)
        return cls.with_settings(scoring="own", window=208, hidden=45, forcing=True, training=training)

    @classmethod
    def tiny(cls) -> Self:
        """Trains in seconds: for trying things out, not for results."""
        return cls.with_settings(window=12, hidden=12, training={"epochs": 5})


class Network(nn.Module):
    def __init__(self, config: Config, variables: int, length: int) -> None:
        super().__init__()
        self.windows, self.forcing = Sliding(length, config.window, config.window), config.forcing
        self.encoder = nn.LSTM(variables, config.hidden, batch_first=True)
        self.decoder = nn.LSTMCell(variables, config.hidden)
        self.tell = nn.Linear(config.hidden, variables)

    def draw(self, x: Tensor, observed: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        return {"x": torch.where(observed, squash(x), 0.0), "observed": observed}

    def losses(self, drawn: Mapping[str, Tensor]) -> dict[str, Tensor]:
        x = self.windows.cut(drawn["x"])
        apart = (x - self.through(x, forced=self.forcing and self.training)).square()
        return {"reconstruction": cell_mean(apart, self.windows.cut(drawn["observed"]))}

    def through(self, x: Tensor, *, forced: bool) -> Tensor:
        """Windows x (batch, variable, window, step), each as told by the decoder."""
        rows = x.permute(0, 2, 3, 1).flatten(0, 1)  # (batch * window, step, variable), as an LSTM wants it
        state = tuple(part[0] for part in self.encoder(rows)[1])
        told = [self.tell(state[0])]
        for true in rows.unbind(1)[:0:-1]:
            state = self.decoder(true if forced else told[-1], state)
            told.append(self.tell(state[0]))
        out: Tensor = torch.stack(told[::-1], dim=1).unflatten(0, (len(x), -1)).permute(0, 3, 1, 2)
        return out

    def forward(self, x: Tensor) -> Tensor:
        """x (batch, variable, time) as reconstructed."""
        return self.windows.join(self.through(self.windows.cut(x), forced=False))


class LSTMAE(ResidualDetector):
    """Reads an observation forwards and writes it backwards from memory."""

    name: ClassVar[str] = "lstm-ae"
    Config: ClassVar[type[Config]] = Config

    def _network(self, variables: int) -> Network:
        return Network(self.settings, variables, self.settings.length)

    def _examiner(self) -> Callable[[Floats], Examined]:
        return reconstructing(self.network_)
