"""DVGCRN: layered latents over a recurrent network whose graph comes from embeddings of variables and latents.

W. Chen, L. Tian, B. Chen, L. Dai, Z. Duan, M. Zhou: Deep Variational Graph Convolutional Recurrent Network for
Multivariate Time Series Anomaly Detection. ICML 2022. Implemented: the generative model, its inference, and the score
by reconstruction and forecast.

    name                 paper       meaning
    node_embeddings[l]   alpha^l     (node, embedding): of the variables (l = 0) and of the latents of layer l
    unit_embeddings[l]   beta^l      (unit, embedding): of the recurrent units of layer l
    adjacency            A^l         softmax(relu(cosine)) among node_embeddings[l - 1] and node_embeddings[l]
    mix                  Phi^l       means from above: by softmax(nodes . units) and softmax(nodes . nodes above)
    latent               z^l_t       (batch, node) of layer l at time t
    state                h^l_t       (batch, unit) of layer l after time t; its input is A^l [z^{l-1}_t, z^l_t], z^0 = x

    p(z^l_t) = N(mix of h^l_{t-1} and z^{l+1}_t, .)     p(x_t) = N(mix of h^1_{t-1} and z^1_t, .)
    q(z^l_t): upward from x_t through h_{t-1} of layers 1 .. l, then downward through z^{l+1}_t
    forecast of x_t: the mean of p(x_t) with every latent at the mean of its prior, which depends on the past only

Deviations (see also docs/detectors.md, "Deviations from the papers"):

- The mixed means reach each variable through a gain and an offset, because values are not scaled to [-1, 1]; inputs,
  likelihoods and forecasts are in asinh(z).
- One linear layer gives the standard deviations; the authors' code has two.
- The weight of the KL terms rises linearly.
- The first step of an observation has no forecast and is scored by its reconstruction alone.
- Scoring sets latents to their posterior means.
- Windows overlap in scoring, and each window scores its last `hop` steps, so that every step has a past; `hop` = 1 is
  the paper's sliding window.

Published settings, read in the authors' repository (SigmaLab01/DVGCRN: methods/trainer.py): window, sizes, epochs,
batch, learning rate, and a KL weight that reaches 1 after about a fifth of the epochs. The weight of the forecast in
the score is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tsadc.config import require
from tsadc.detectors.residual import NetworkOutput, ResidualDetector, published_training
from tsadc.nn.gaussian import Gaussian
from tsadc.nn.inputs import prepare_input, squash, unsquash
from tsadc.nn.patches import cut_patches, join_patches
from tsadc.nn.stored_names import StoredNames
from tsadc.nn.train import Training
from tsadc.nn.trainable import ObservedBatch
from tsadc.series import Floats


class DVGCRN(ResidualDetector["DVGCRN.Config"]):
    """Detect values that layered latents over a recurrent graph network neither reconstruct nor forecast."""

    name: ClassVar[str] = "dvgcrn"
    inference_settings: ClassVar[tuple[str, ...]] = ("hop", "forecast")

    @dataclass(frozen=True)
    class Config(ResidualDetector.Config):
        """Settings of DVGCRN.

        Parameters
        ----------
        window
            Steps per window, at least 2.
        hop
            Steps at the end of each window that it scores, from 1 to below `window`.
        latents
            Number of latents of each layer, lowest first.
        units
            Number of recurrent units of each layer, lowest first; as many layers as `latents`.
        embedding
            Size of the embeddings of nodes and units, at least 1.
        anneal
            Share of the epochs over which the weight of the KL terms rises to 1, from 0 to 1.
        forecast
            Weight of the forecast error in the method's own score, at least 0.
        """

        presets: ClassVar[tuple[str, ...]] = ("published", "tiny")

        window: int = 20
        hop: int = 5
        latents: tuple[int, ...] = (15, 8)
        units: tuple[int, ...] = (32, 16)
        embedding: int = 32
        anneal: float = 0.3
        forecast: float = 1.0
        training: Training = field(
            default_factory=lambda: Training(
                epochs=15, batch=8, learning_rate=5e-3, weight_decay=1e-4, warmup_epochs=1, patience=8, ema=0.99
            )
        )

        def __post_init__(self) -> None:
            super().__post_init__()
            require(self.window >= 2, "window", "at least 2", self.window)
            require(1 <= self.hop < self.window, "hop", f"from 1 to below the window ({self.window})", self.hop)
            require(
                len(self.latents) >= 1 and min(self.latents) >= 1,
                "latents",
                "one or more sizes of at least 1",
                self.latents,
            )
            fitting = len(self.units) == len(self.latents) and min(self.units) >= 1
            require(fitting, "units", "sizes of at least 1, as many as latents", self.units)
            require(self.embedding >= 1, "embedding", "at least 1", self.embedding)
            require(0 <= self.anneal <= 1, "anneal", "from 0 to 1", self.anneal)
            require(self.forecast >= 0, "forecast", "at least 0", self.forecast)

        @classmethod
        def published(cls) -> Self:
            """Return the published settings; 512 windows are 17 observations of 600 steps."""
            model = {"window": 20, "latents": (15, 10, 5), "units": (20, 15, 10), "embedding": 256, "anneal": 0.2}
            training = published_training(epochs=60, batch=17, learning_rate=2e-4)
            return cls.with_settings(scoring="own", hop=1, **model, training=training)

        @classmethod
        def tiny(cls) -> Self:
            """Return settings that train in seconds: for trying things out, not for results."""
            training = {"epochs": 5, "learning_rate": 2e-2, "batch": 4}
            return cls.with_settings(window=12, hop=4, latents=(4, 2), units=(8, 4), embedding=8, training=training)

    def _residual_names(self) -> tuple[str, ...]:
        return ("reconstruction", "forecast")

    def _network(self, variables: int) -> Network:
        return Network(self.settings, variables)

    def _make_inference(self) -> Callable[[Floats], NetworkOutput]:
        network, settings, hop = self.network_, self.settings, self.settings.hop

        def infer(z: Floats) -> NetworkOutput:
            values, measured, x = prepare_input(z)
            windows = cut_patches(x, settings.window, hop).mT
            inferred = network.infer(windows, windows.new_zeros(*windows.shape[:2], sum(settings.latents)))
            likelihood = network.likelihood(inferred)
            nll = join_patches(-likelihood.log_prob(windows).mT, z.shape[1], hop)
            expected = join_patches(likelihood.mean.mT, z.shape[1], hop)
            forecast = join_patches(network.forecast(inferred).mT, z.shape[1], hop)
            error = torch.where(measured, (x - forecast).square(), 0.0)
            error[:, 0] = 0.0  # the first step has no past to forecast it from
            nll, error = torch.where(measured, nll, 0.0), settings.forecast * error
            weights = torch.full((z.shape[1],), 1 + settings.forecast, dtype=torch.float64)
            weights[0] = 1.0
            # NaN where nothing was measured.
            steps, *parts = (cells.double().sum(0) / weights / measured.sum(0) for cells in (nll + error, nll, error))
            expected, forecast = unsquash(expected), unsquash(forecast)
            reconstruction_error, forecast_error = (values - expected).abs(), (values - forecast).abs()
            forecast_error[:, 0] = torch.nan
            residuals = (reconstruction_error.numpy(), forecast_error.numpy())
            return NetworkOutput(residuals, expected.numpy(), steps.numpy(), tuple(part.numpy() for part in parts))

        return infer


class Inferred(NamedTuple):
    """The result of inference on windows; each list holds one (window, time, size) per layer."""

    latents: list[Tensor]  # samples of the posteriors
    posteriors: list[Gaussian]
    states: list[Tensor]  # before each step


@dataclass(frozen=True)
class LatentBatch(ObservedBatch):
    """Windows (batch, window, time, variable) and the noise of all latents (batch, window, time, latent)."""

    noise: Tensor


class Network(StoredNames):
    """The generative model and its inference, for windows (window, time, variable)."""

    stored_names: ClassVar[Mapping[str, str]] = {
        "node_embeddings": "nodes", "unit_embeddings": "units", "graph_proj": "hear", "lstm_cells": "remember",
        "log_std": "spread",
    }  # fmt: skip

    def __init__(self, config: DVGCRN.Config, variables: int) -> None:
        super().__init__()
        self.config = config
        sizes, units, width = (variables, *config.latents), config.units, config.embedding
        scale = width**-0.25  # so that inner products of embeddings have a standard deviation of about 1
        self.node_embeddings = nn.ParameterList(scale * torch.randn(size, width) for size in sizes)
        self.unit_embeddings = nn.ParameterList(scale * torch.randn(size, width) for size in units)
        # Sizes for each layer: input of the upward pass, latents above, and units below that its LSTM reads.
        below, above, units_below = (variables, *units), (*sizes[2:], 0), (0, *units)
        self.upward = nn.ModuleList(nn.Linear(below[i] + unit, unit) for i, unit in enumerate(units))
        self.posterior = nn.ModuleList(nn.Linear(unit + above[i], 2 * sizes[i + 1]) for i, unit in enumerate(units))
        self.graph_proj = nn.ModuleList(nn.Linear(sizes[i] + sizes[i + 1], 2 * unit) for i, unit in enumerate(units))
        self.lstm_cells = nn.ModuleList(nn.LSTMCell(2 * unit + units_below[i], unit) for i, unit in enumerate(units))
        # Of p(x), then of the priors, lowest first.
        inputs = (units[0] + sizes[1], *(unit + above[i] for i, unit in enumerate(units)))
        self.log_std = nn.ModuleList(nn.Linear(inputs[i], size) for i, size in enumerate(sizes))
        self.gain = nn.Parameter(torch.ones(variables))
        self.offset = nn.Parameter(torch.zeros(variables))
        self.anneal_epochs = max(1.0, config.anneal * config.training.epochs)
        self.kl_weight = 1.0

    def begin_epoch(self, number: int) -> None:
        self.kl_weight = min(1.0, (number - 1) / self.anneal_epochs)

    def draw(self, x: Tensor, observed: Tensor, generator: torch.Generator) -> LatentBatch:
        size = self.config.window
        windows = cut_patches(torch.where(observed, squash(x), 0.0), size).mT
        shape = (*windows.shape[:3], sum(self.config.latents))
        noise = torch.randn(shape, generator=generator)
        return LatentBatch(windows, cut_patches(observed, size).mT, noise)

    def losses(self, batch: LatentBatch) -> dict[str, Tensor]:
        """Return minus the evidence lower bound and the squared error of the forecast, per cell.

        The KL terms have full weight in validation.
        """
        count, time, variables = batch.x.shape[1:]
        x, observed, noise = (tensor.flatten(0, 1) for tensor in batch.tensors().values())
        inferred = self.infer(x, noise)
        nll = torch.where(observed, -self.likelihood(inferred).log_prob(x), 0.0)
        error = torch.where(observed, (x - self.forecast(inferred)).square(), 0.0)
        latents_above = (*inferred.latents[1:], None)
        kl = [
            posterior.kl(self.prior(layer, inferred.states[layer], above)).sum(-1)
            for layer, (posterior, above) in enumerate(zip(inferred.posteriors, latents_above, strict=True))
        ]

        def per_observation(values: Tensor) -> Tensor:
            return values.reshape(len(batch), -1).sum(1) / (count * time * variables)

        kl_weight = self.kl_weight if self.training else 1.0
        return {
            "reconstruction": per_observation(nll),
            "forecast": per_observation(error),
            "latents": kl_weight * per_observation(torch.stack(kl, 1)),
        }

    def adjacency(self, layer: int) -> Tensor:
        """Return A among the nodes below and the latents of `layer`, counted from 0."""
        direction = F.normalize(torch.cat([self.node_embeddings[layer], self.node_embeddings[layer + 1]]), dim=-1)
        return torch.softmax((direction @ direction.mT).relu(), dim=-1)

    def infer(self, x: Tensor, noise: Tensor) -> Inferred:
        """Sample the latents of x (window, time, variable) by noise (window, time, all latents)."""
        layers = range(len(self.config.units))
        graph_weights = [self.graph_proj[i].weight @ self.adjacency(i) for i in layers]  # type: ignore[operator]
        states = [(x.new_zeros(len(x), unit), x.new_zeros(len(x), unit)) for unit in self.config.units]
        steps = []
        for value, step_noise in zip(x.unbind(1), noise.unbind(1), strict=True):
            before = [state for state, _ in states]
            upward, features = value, []
            for layer, state in zip(self.upward, before, strict=True):
                upward = layer(torch.cat([upward, state], -1)).relu()
                features.append(upward)
            posteriors, latents = self.downward(features, step_noise.split(self.config.latents, -1))
            for i in layers:
                below, state_below = (latents[i - 1], states[i - 1][:1]) if i else (value, ())
                nodes = torch.cat([below, latents[i]], -1)
                mixed = F.softplus(F.linear(nodes, graph_weights[i], self.graph_proj[i].bias))  # type: ignore[arg-type]
                states[i] = self.lstm_cells[i](torch.cat([mixed, *state_below], -1), states[i])
            means, log_stds = zip(*posteriors, strict=True)
            steps.append((means, log_stds, latents, before))
        all_means, all_log_stds, all_latents, all_before = (
            [torch.stack(layer, 1) for layer in zip(*kind, strict=True)] for kind in zip(*steps, strict=True)
        )
        posteriors = [Gaussian(*layer) for layer in zip(all_means, all_log_stds, strict=True)]
        return Inferred(all_latents, posteriors, all_before)

    def downward(self, features: list[Tensor], noise: tuple[Tensor, ...]) -> tuple[list[Gaussian], list[Tensor]]:
        """Return the posterior of each layer's latents at one step and a sample of each, lowest first."""
        posteriors: list[Gaussian] = []
        values: list[Tensor] = []
        for i in reversed(range(len(features))):
            posteriors.insert(0, Gaussian.from_output(self.posterior[i](torch.cat([features[i], *values[:1]], -1))))
            values.insert(0, posteriors[0].sample(noise[i]))
        return posteriors, values

    def mix(self, node: int, state: Tensor, above: Tensor | None) -> Tensor:
        """Return the mean of node_embeddings[node] from the units of their layer and the latents above."""
        own, units = self.node_embeddings[node], self.unit_embeddings[max(node - 1, 0)]
        mean = state @ torch.softmax(own @ units.mT, dim=-1).mT
        if above is None:
            return mean
        return mean + above @ torch.softmax(own @ self.node_embeddings[node + 1].mT, dim=-1).mT

    def prior(self, layer: int, state: Tensor, above: Tensor | None) -> Gaussian:
        """Return p(z^{layer + 1}_t) given the states before t and the latents above."""
        inputs = state if above is None else torch.cat([state, above], -1)
        return Gaussian.clamped(F.leaky_relu(self.mix(layer + 1, state, above)), self.log_std[layer + 1](inputs))

    def likelihood(self, inferred: Inferred) -> Gaussian:
        """Return p(x_t) of every step, (window, time, variable)."""
        state, latent = inferred.states[0], inferred.latents[0]
        mean = self.gain * self.mix(0, state, latent) + self.offset
        return Gaussian.clamped(mean, self.log_std[0](torch.cat([state, latent], -1)))

    def forecast(self, inferred: Inferred) -> Tensor:
        """Return the mean of every step given the steps before it."""
        above = None
        for layer in reversed(range(len(inferred.states))):
            above = self.prior(layer, inferred.states[layer], above).mean
        return self.gain * self.mix(0, inferred.states[0], above) + self.offset
