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

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tsadc.config import require
from tsadc.detectors.residual import NetworkOutput, ResidualConfig, ResidualDetector, published_training
from tsadc.nn.gaussian import Gaussian
from tsadc.nn.inputs import prepare_input, squash, unsquash
from tsadc.nn.patches import cut_patches, join_patches
from tsadc.nn.train import Training
from tsadc.nn.trainable import ObservedBatch
from tsadc.series import Floats


@dataclass(frozen=True)
class Config(ResidualConfig):
    """Settings of DVGCRN; all others are those of `ResidualConfig`.

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
    training
        Settings of the training loop.
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
        require(len(self.latents) >= 1 and min(self.latents) >= 1, "latents", "sizes from 1", self.latents)
        fitting = len(self.units) == len(self.latents) and min(self.units) >= 1
        require(fitting, "units", "sizes from 1, as many as latents", self.units)
        require(self.embedding >= 1, "embedding", "at least 1", self.embedding)
        require(0 <= self.anneal <= 1, "anneal", "from 0 to 1", self.anneal)
        require(self.forecast >= 0, "forecast", "zero or more", self.forecast)

    @classmethod
    def published(cls) -> Self:
        """512 windows are 17 observations of 600 steps."""
        model = {"window": 20, "latents": (15, 10, 5), "units": (20, 15, 10), "embedding": 256, "anneal": 0.2}
        training = published_training(epochs=60, batch=17, learning_rate=2e-4)
        return cls.with_settings(scoring="own", hop=1, **model, training=training)

    @classmethod
    def tiny(cls) -> Self:
        """The default's method on a network that trains in seconds: for trying things out, not for results."""
        training = {"epochs": 5, "learning_rate": 2e-2, "batch": 4}
        return cls.with_settings(window=12, hop=4, latents=(4, 2), units=(8, 4), embedding=8, training=training)


class Seen(NamedTuple):
    """What a pass over windows leaves, each a list over layers of (window, time, size)."""

    latents: list[Tensor]
    posteriors: list[Gaussian]
    states: list[Tensor]  # *before* each step


@dataclass(frozen=True)
class LatentBatch(ObservedBatch):
    """Windows (batch, window, time, variable) and the noise of all latents (batch, window, time, latent)."""

    noise: Tensor


class Network(nn.Module):
    """The generative model and its inference, for windows (window, time, variable)."""

    def __init__(self, config: Config, variables: int) -> None:
        super().__init__()
        self.config = config
        sizes, units, width = (variables, *config.latents), config.units, config.embedding
        near = width**-0.25  # inner products of embeddings then scatter by about 1
        self.nodes = nn.ParameterList(near * torch.randn(size, width) for size in sizes)
        self.units = nn.ParameterList(near * torch.randn(size, width) for size in units)
        below, above, beneath = (variables, *units), (*sizes[2:], 0), (0, *units)
        self.upward = nn.ModuleList(nn.Linear(below[i] + unit, unit) for i, unit in enumerate(units))
        self.posterior = nn.ModuleList(nn.Linear(unit + above[i], 2 * sizes[i + 1]) for i, unit in enumerate(units))
        self.hear = nn.ModuleList(nn.Linear(sizes[i] + sizes[i + 1], 2 * unit) for i, unit in enumerate(units))
        self.remember = nn.ModuleList(nn.LSTMCell(2 * unit + beneath[i], unit) for i, unit in enumerate(units))
        # Of p(x) and of the priors, from the lowest.
        knows = (units[0] + sizes[1], *(unit + above[i] for i, unit in enumerate(units)))
        self.spread = nn.ModuleList(nn.Linear(knows[i], size) for i, size in enumerate(sizes))
        self.gain = nn.Parameter(torch.ones(variables))
        self.offset = nn.Parameter(torch.zeros(variables))
        self.rising = max(1.0, config.anneal * config.training.epochs)
        self.weight = 1.0

    def begin_epoch(self, number: int) -> None:
        self.weight = min(1.0, (number - 1) / self.rising)

    def draw(self, x: Tensor, observed: Tensor, generator: torch.Generator) -> LatentBatch:
        size = self.config.window
        windows = cut_patches(torch.where(observed, squash(x), 0.0), size).mT
        shape = (*windows.shape[:3], sum(self.config.latents))
        noise = torch.randn(shape, generator=generator)
        return LatentBatch(windows, cut_patches(observed, size).mT, noise)

    def losses(self, batch: LatentBatch) -> dict[str, Tensor]:
        """Minus the evidence lower bound and the squared error of the forecast, per cell. Validation takes the KL terms
        in full."""
        count, time, variables = batch.x.shape[1:]
        x, observed, noise = (tensor.flatten(0, 1) for tensor in batch.tensors().values())
        seen = self.infer(x, noise)
        unlikely = torch.where(observed, -self.likelihood(seen).log_prob(x), 0.0)
        missed = torch.where(observed, (x - self.forecast(seen)).square(), 0.0)
        apart = [
            posterior.kl(self.prior(layer, seen.states[layer], above)).sum(-1)
            for layer, (posterior, above) in enumerate(zip(seen.posteriors, (*seen.latents[1:], None), strict=True))
        ]

        def per_observation(values: Tensor) -> Tensor:
            return values.reshape(len(batch), -1).sum(1) / (count * time * variables)

        weight = self.weight if self.training else 1.0
        return {
            "reconstruction": per_observation(unlikely),
            "forecast": per_observation(missed),
            "latents": weight * per_observation(torch.stack(apart, 1)),
        }

    def adjacency(self, layer: int) -> Tensor:
        """A among the nodes below and the latents of `layer` (from 0)."""
        direction = F.normalize(torch.cat([self.nodes[layer], self.nodes[layer + 1]]), dim=-1)
        return torch.softmax((direction @ direction.mT).relu(), dim=-1)

    def infer(self, x: Tensor, noise: Tensor) -> Seen:
        """x (window, time, variable); noise (window, time, all latents)."""
        layers = range(len(self.config.units))
        heard = [self.hear[i].weight @ self.adjacency(i) for i in layers]  # type: ignore[operator]
        states = [(x.new_zeros(len(x), unit), x.new_zeros(len(x), unit)) for unit in self.config.units]
        passed = []
        for now, draws in zip(x.unbind(1), noise.unbind(1), strict=True):
            before = [state for state, _ in states]
            upward, features = now, []
            for layer, state in zip(self.upward, before, strict=True):
                upward = layer(torch.cat([upward, state], -1)).relu()
                features.append(upward)
            posteriors, latents = self.downward(features, draws.split(self.config.latents, -1))
            for i in layers:
                below, lower = (latents[i - 1], states[i - 1][:1]) if i else (now, ())
                told = F.softplus(F.linear(torch.cat([below, latents[i]], -1), heard[i], self.hear[i].bias))  # type: ignore[arg-type]
                states[i] = self.remember[i](torch.cat([told, *lower], -1), states[i])
            passed.append(([one.mean for one in posteriors], [one.log_std for one in posteriors], latents, before))
        means, log_stds, all_latents, all_before = (
            [torch.stack(one, 1) for one in zip(*each, strict=True)] for each in zip(*passed, strict=True)
        )
        return Seen(all_latents, [Gaussian(*both) for both in zip(means, log_stds, strict=True)], all_before)

    def downward(self, features: list[Tensor], draws: tuple[Tensor, ...]) -> tuple[list[Gaussian], list[Tensor]]:
        """Posteriors of every layer's latents at one step and a sample of each, lowest first."""
        posteriors: list[Gaussian] = []
        values: list[Tensor] = []
        for i in reversed(range(len(features))):
            posteriors.insert(0, Gaussian.from_output(self.posterior[i](torch.cat([features[i], *values[:1]], -1))))
            values.insert(0, posteriors[0].sample(draws[i]))
        return posteriors, values

    def mixed(self, node: int, state: Tensor, above: Tensor | None) -> Tensor:
        """What nodes[node] take from the recurrent units of their layer, and from the latents above."""
        own, units = self.nodes[node], self.units[max(node - 1, 0)]
        total = state @ torch.softmax(own @ units.mT, dim=-1).mT
        return total if above is None else total + above @ torch.softmax(own @ self.nodes[node + 1].mT, dim=-1).mT

    def prior(self, layer: int, state: Tensor, above: Tensor | None) -> Gaussian:
        """p(z^{layer + 1}_t) given the states before t and the latents above."""
        known = state if above is None else torch.cat([state, above], -1)
        return Gaussian.clamped(F.leaky_relu(self.mixed(layer + 1, state, above)), self.spread[layer + 1](known))

    def likelihood(self, seen: Seen) -> Gaussian:
        """p(x_t) of every step, (window, time, variable)."""
        state, latent = seen.states[0], seen.latents[0]
        mean = self.gain * self.mixed(0, state, latent) + self.offset
        return Gaussian.clamped(mean, self.spread[0](torch.cat([state, latent], -1)))

    def forecast(self, seen: Seen) -> Tensor:
        """The mean of every step by what was known before it."""
        above = None
        for layer in reversed(range(len(seen.states))):
            above = self.prior(layer, seen.states[layer], above).mean
        return self.gain * self.mixed(0, seen.states[0], above) + self.offset


class DVGCRN(ResidualDetector[Config]):
    """Detect values that layered latents over a recurrent graph network neither reconstruct nor forecast."""

    name: ClassVar[str] = "dvgcrn"
    Config: ClassVar[type[Config]] = Config
    inference_settings: ClassVar[tuple[str, ...]] = ("hop", "forecast")

    def _residual_names(self) -> tuple[str, ...]:
        return ("reconstruction", "forecast")

    def _network(self, variables: int) -> Network:
        return Network(self.settings, variables)

    def _make_inference(self) -> Callable[[Floats], NetworkOutput]:
        network, settings, hop = self.network_, self.settings, self.settings.hop

        def infer(z: Floats) -> NetworkOutput:
            values, measured, x = prepare_input(z)
            windows = cut_patches(x, settings.window, hop).mT
            seen = network.infer(windows, windows.new_zeros(*windows.shape[:2], sum(settings.latents)))
            likelihood = network.likelihood(seen)
            improbable = join_patches(-likelihood.log_prob(windows).mT, z.shape[1], hop)
            expected = join_patches(likelihood.mean.mT, z.shape[1], hop)
            foreseen = join_patches(network.forecast(seen).mT, z.shape[1], hop)
            missed = torch.where(measured, (x - foreseen).square(), 0.0)
            missed[:, 0] = 0.0  # before it there was nothing to foresee it from
            unlikely, missed = torch.where(measured, improbable, 0.0), settings.forecast * missed
            weights = torch.full((z.shape[1],), 1 + settings.forecast, dtype=torch.float64)
            weights[0] = 1.0
            # NaN where nothing was measured.
            steps, *parts = (
                one.double().sum(0) / weights / measured.sum(0) for one in (unlikely + missed, unlikely, missed)
            )
            expected, foreseen = (unsquash(one) for one in (expected, foreseen))
            residuals = [(values - one).abs() for one in (expected, foreseen)]
            residuals[1][:, 0] = torch.nan
            cells, kinds = (tuple(one.numpy() for one in each) for each in (residuals, parts))
            return NetworkOutput(cells, expected.numpy(), steps.numpy(), kinds)

        return infer
