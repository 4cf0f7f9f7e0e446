"""GDN, the graph deviation network: forecast each variable from its recent past and that of the most similar variables.

A. Deng, B. Hooi: Graph neural network-based anomaly detection in multivariate time series. AAAI 2021. Implemented:
sensor embeddings, the top-k graph, graph attention, the forecast, and the graph deviation score.

    name               paper       meaning
    embedding          v_i         (variable, feature): learnt
    edges              A, TopK     each variable and the `top` variables with the most similar embeddings (cosine)
    history            x_i(t)      the `window` values of variable i before step t
    projected          W x_i       the history as features
    attention          alpha_ij    softmax over j of LeakyReLU(a . (v_i + W x_i, v_j + W x_j)), + is concatenation
    attention_vector   a           its four parts: for v_i, W x_i, v_j and W x_j
    aggregated         z_i         ReLU(sum_j alpha_ij W x_j)
    forecast           s-hat(t)    f(v_1 * z_1, ..., v_K * z_K): dense layers from all variables to all
    error              Err_i(t)    |s_i(t) - s-hat_i(t)|, here in z units
    deviation          a_i(t)      (Err_i - median) / (interquartile range + LEAST_RANGE), at least 0
    step_scores        A_s(t)      moving average of max_i a_i(t)

Deviations (see also docs/detectors.md, "Deviations from the papers"):

- Median and interquartile range of the errors come from the training data, not from the test data: a score must not
  depend on the other observations. `LEAST_RANGE` is added, or a variable that is always forecast well would dominate.
- A negative deviation counts as 0.
- f is the paper's; in the authors' code all variables share one that reads each variable separately.
- No batch normalisation, unlike the authors' code: the loss of an observation must not depend on others.
- Inputs are asinh(z); a missing value is replaced by the last measured one.
- The first `window` steps of an observation have no error.
- Residuals are deviations, in interquartile ranges of the errors and not in z units. The fused scoring takes logarithms
  of their largest values, so the unit does not matter.

As in the authors' code, the choice of neighbours has no gradient.

Published settings, for SWaT (51 sensors). From memory of the paper, not checked: 64 features, 15 neighbours, 64 hidden
units, learning rate, 50 epochs, patience 10, slope 0.2. Read in the authors' repository (d-ailin/GDN): the window of 5
and 64 features (run.sh), dropout 0.2 (models/GDN.py), no decay; but run.sh, which names no data set, has 5 neighbours,
128 hidden units, batches of 32 windows and 30 epochs, and train.py a patience of 15.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, normalize

from tsadc.config import require
from tsadc.detectors.residual import NetworkOutput, ResidualDetector, published_training, sample_observations
from tsadc.nn.inputs import masked_mean, prepare_input, squash, unsquash
from tsadc.nn.layers import Dropout
from tsadc.nn.runtime.threads import parallel_map
from tsadc.nn.stored_names import StoredNames
from tsadc.nn.train import Training
from tsadc.nn.trainable import Batch
from tsadc.series import Floats, Observations

SLOPE = 0.2  # of the leaky ReLU for negative inputs
LEAST_RANGE = 0.05  # in z units, added to the interquartile range of the errors
LOOK_BACK = 3  # steps before the current one in the moving average
MOST_OBSERVATIONS = 128  # of each part of the training data, from which median and range of the errors come
MOST_WEIGHTS = 2**20  # attention weights computed at a time


class GDN(ResidualDetector["GDN.Config"]):
    """Detect values that differ more than usual from the forecast by their own past and their neighbours.

    Attributes
    ----------
    median_
        Median of each variable's errors on the training data (variable,), in z units.
    iqr_
        Interquartile range of each variable's errors on the training data (variable,), in z units.
    """

    name: ClassVar[str] = "gdn"

    @dataclass(frozen=True)
    class Config(ResidualDetector.Config):
        """Settings of GDN.

        Parameters
        ----------
        window
            Steps of history that a forecast sees, at least 1.
        features
            Size of the embeddings, at least 1.
        top
            Neighbours of each variable, at least 1.
        hidden
            Width of the layer between the aggregated features and the forecast; 0 for none.
        dropout
            Dropout rate before the forecast, at least 0 and below 1.
        stride
            Training forecasts every `stride`-th step, at least 1.
        """

        presets: ClassVar[tuple[str, ...]] = ("published", "tiny")

        window: int = 5
        features: int = 32
        top: int = 8
        hidden: int = 64
        dropout: float = 0.0
        stride: int = 5
        training: Training = field(
            default_factory=lambda: Training(
                epochs=20, batch=8, learning_rate=5e-3, warmup_epochs=1, patience=8, weight_decay=0.0
            )
        )

        def __post_init__(self) -> None:
            super().__post_init__()
            for name in ("window", "features", "top", "stride"):
                require(getattr(self, name) >= 1, name, "at least 1", getattr(self, name))
            require(self.hidden >= 0, "hidden", "at least 0", self.hidden)
            require(0 <= self.dropout < 1, "dropout", "at least 0 and below 1", self.dropout)

        @classmethod
        def published(cls) -> Self:
            """Return the settings for SWaT; an update sees the windows of one observation."""
            return cls.with_settings(
                scoring="own",
                features=64,
                top=15,
                hidden=64,
                dropout=0.2,
                stride=1,
                training=published_training(epochs=50, batch=1, learning_rate=1e-3, patience=10),
            )

        @classmethod
        def tiny(cls) -> Self:
            """Return settings that train in seconds: for trying things out, not for results."""
            return cls.with_settings(features=8, top=2, hidden=8, training={"epochs": 5})

    def _network(self, variables: int) -> Network:
        return Network(self.settings, variables, min(self.settings.window, self.settings.length - 1))

    def _errors(self, z: Floats) -> tuple[Floats, Floats]:
        """Return Err and the forecast, both (variable, time) in z units."""
        network: Network = self.network_
        _, measured, x = prepare_input(z)
        filled = forward_fill(x, measured)
        # Zeros stand for the steps before the observation; the forecasts that see them are not scored.
        before = torch.cat([filled.new_zeros(len(filled), network.window), filled[:, :-1]], dim=-1)
        history = before.unfold(-1, network.window, 1).transpose(0, 1)
        parts = history.split(max(1, MOST_WEIGHTS // len(filled) ** 2))
        forecast = unsquash(torch.cat([network(part) for part in parts]).T).numpy()
        error = np.abs(np.asarray(z, dtype=np.float64) - forecast)
        error[:, : network.window] = np.nan
        return error, forecast

    def _after_training(self, train_part: Observations, validation: Observations) -> None:
        @torch.no_grad()
        def errors(place: tuple[Observations, int]) -> Floats:
            part, i = place
            return self._errors(part.read(i))[0]

        every_error = np.concatenate(
            list(parallel_map(errors, sample_observations((train_part, validation), MOST_OBSERVATIONS))), axis=1
        )
        measured = (error[np.isfinite(error)] for error in every_error)
        quartiles = [np.quantile(error, (0.25, 0.5, 0.75)) if len(error) else np.zeros(3) for error in measured]
        low, self.median_, high = np.array(quartiles).T
        self.iqr_ = high - low

    def _extra_state(self) -> dict[str, NDArray[Any]]:
        return {"errors.middle": self.median_, "errors.width": self.iqr_}

    def _restore_extra(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.median_, self.iqr_ = state["errors.middle"], state["errors.width"]

    def _make_inference(self) -> Callable[[Floats], NetworkOutput]:
        def infer(z: Floats) -> NetworkOutput:
            error, forecast = self._errors(z)
            cells = deviations(error, self.median_, self.iqr_)
            return NetworkOutput((cells,), forecast, step_scores(cells))

        return infer


@dataclass(frozen=True)
class ForecastBatch(Batch):
    """Steps to forecast (batch, step, variable), a mask of the measured ones, and the `window` steps before each."""

    history: Tensor
    target: Tensor
    known: Tensor


class Network(StoredNames):
    """Forecast one step of every variable."""

    stored_names: ClassVar[Mapping[str, str]] = {
        "history_proj": "lift", "attention_vector": "attend", "output_mlp": "out"
    }  # fmt: skip

    def __init__(self, config: GDN.Config, variables: int, window: int) -> None:
        super().__init__()
        features, hidden = config.features, config.hidden
        self.window, self.top, self.stride = window, min(config.top, variables - 1), config.stride
        self.embedding = nn.Parameter(torch.randn(variables, features))
        self.history_proj = nn.Linear(window, features, bias=False)
        self.attention_vector = nn.Parameter(torch.randn(4, features) / features**0.5)
        sizes = (variables * features, hidden, variables) if hidden else (variables * features, variables)
        layers = [layer for a, b in pairwise(sizes) for layer in (nn.ReLU(), nn.Linear(a, b))]
        self.output_mlp = nn.Sequential(Dropout(config.dropout), *layers[1:])

    def edges(self) -> Tensor:
        """Return (variable, variable): True where j is i itself or one of its neighbours."""
        direction = normalize(self.embedding.detach(), dim=-1)
        own = torch.eye(len(direction), dtype=torch.bool)
        cosine = (direction @ direction.T).masked_fill(own, -2.0)
        return own.scatter(1, cosine.topk(self.top, dim=-1).indices, True)

    def attention(self, projected: Tensor) -> Tensor:
        """W x (..., variable, feature) -> alpha (..., variable, variable)."""
        a_vi, a_xi, a_vj, a_xj = self.attention_vector
        target = self.embedding @ a_vi + projected @ a_xi
        source = self.embedding @ a_vj + projected @ a_xj
        logits = leaky_relu(target.unsqueeze(-1) + source.unsqueeze(-2), SLOPE)
        return torch.softmax(logits.masked_fill(~self.edges(), -torch.inf), dim=-1)

    def forward(self, history: Tensor) -> Tensor:
        """history (..., variable, window) -> forecast (..., variable)."""
        projected = self.history_proj(history)
        aggregated = (self.attention(projected) @ projected).relu()
        forecast: Tensor = self.output_mlp((self.embedding * aggregated).flatten(-2))
        return forecast

    def draw(self, x: Tensor, observed: Tensor, generator: torch.Generator) -> ForecastBatch:
        """Choose every `stride`-th step as a target, starting at a random one in each observation."""
        batch, _, time = x.shape
        stride = min(self.stride, time - self.window)
        offset = torch.randint(stride, (batch, 1), generator=generator)
        first = offset + stride * torch.arange((time - self.window) // stride)
        filled = forward_fill(squash(x), observed).unfold(-1, self.window + 1, 1)
        steps = first[:, None, :].expand(-1, x.shape[1], -1)
        chosen = filled.gather(2, steps.unsqueeze(-1).expand(-1, -1, -1, self.window + 1)).transpose(1, 2)
        known = observed[:, :, self.window :].gather(2, steps).transpose(1, 2)
        return ForecastBatch(chosen[..., :-1], chosen[..., -1], known)

    def losses(self, batch: ForecastBatch) -> dict[str, Tensor]:
        return {"forecast": masked_mean((self(batch.history) - batch.target).square(), batch.known)}


def forward_fill(x: Tensor, observed: Tensor) -> Tensor:
    """Replace missing values of x (..., time) by the last observed one; 0 before the first."""
    step = torch.arange(x.shape[-1])
    last = torch.where(observed, step, -1).cummax(-1).values
    return torch.where(last >= 0, x.gather(-1, last.clamp_min(0)), 0.0)


def deviations(error: Floats, median: Floats, iqr: Floats) -> Floats:
    """Return a (variable, time) from errors and their median and interquartile range per variable (variable,)."""
    return np.maximum((error - median[:, None]) / (iqr[:, None] + LEAST_RANGE), 0.0)


def step_scores(cells: Floats) -> Floats:
    """Return the moving average (time,) of the largest cell (variable, time) of each step; NaN where there is none.

    The average covers the step and those of the `LOOK_BACK` steps before it that have a value.
    """
    known = np.asarray(np.isfinite(cells).any(axis=0))
    largest = np.where(known, np.fmax.reduce(cells, axis=0), 0.0)
    window = np.ones(LOOK_BACK + 1)
    total, count = (np.convolve(values, window)[: cells.shape[1]] for values in (largest, known.astype(float)))
    return np.where(known, total / np.maximum(count, 1), np.nan)
