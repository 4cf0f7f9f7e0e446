"""InterFusion: a hierarchical variational autoencoder, one latent short in time and one narrow in variables.

Z. Li, Y. Zhao, J. Han, Y. Su, R. Jiao, X. Wen, D. Pei: Multivariate Time Series Anomaly Detection and Interpretation
using Hierarchical Inter-Metric and Temporal Embedding. KDD 2021. Implemented: both latents, the auxiliary features
between them, the flow, pretraining, and the imputation of suspicious values before scoring.

    name         paper     meaning
    temporal     z2        (window, variable, short time): a window compressed along time by convolutions
    auxiliary    d, e      (window, variable, time): the window as decoded from the temporal latent alone
    metric       z1        (window, time, feature): each step compressed along the variables, inferred from `auxiliary`
    flow         f         RealNVP: makes the posterior of the metric latent more than a Gaussian
    nll          -         -log p(x | z1, z2) of a cell, mean over samples of the latents: the score

    p(x, z1, z2) = p(x | z1, z2) p(z1 | z2) p(z2)      p(z1 | z2) = prod_t p(z1_t | z1_{t-1}, auxiliary_t)
    q(z1, z2 | x) = q(z1 | auxiliary) q(z2 | x)        q(z1 | auxiliary) = prod_t q(z1_t | z1_{t-1}, backward GRU)

Training starts with the temporal latent alone, p(x | z2), which gives the auxiliary features a meaning (the paper's
pretraining).

Deviations (see also docs/detectors.md, "Deviations from the papers"):

- An observation is cut into windows and every step is scored where it lies, not as the last step of a sliding window.
  So the refinement (the paper's MCMC imputation) replaces the least probable cells of a window, not its last step.
- One learning-rate schedule covers both phases of training, and the weight of the KL terms rises from 0, or short
  training leaves the latents unused; in the paper it is 1 throughout.
- Inputs and likelihoods are in asinh(z). Cells that were not measured enter as 0 and have no likelihood.
- The metric latent depends on its own past through tanh, so that it cannot diverge.

Published settings, all read in the authors' repository (zhhlee/InterFusion: algorithm/InterFusion.py, stack_train.py,
stack_predict.py): window, sizes, flows, epochs, batch, learning rate, samples, rounds of refinement. Their penalty of
1e-4 on squared weights is a weight decay of that size here, and their bound of 10 on the gradient of each array applies
to the whole gradient. `suspect` is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tsadc.config import require
from tsadc.detectors.residual import NetworkOutput, ResidualDetector, published_training
from tsadc.nn.gaussian import HALF_LOG_2PI, Gaussian, init_narrow
from tsadc.nn.inputs import prepare_input, squash, unsquash
from tsadc.nn.patches import cut_patches, join_patches
from tsadc.nn.randomness import derive_seed
from tsadc.nn.stored_names import StoredNames
from tsadc.nn.train import Training
from tsadc.nn.trainable import ObservedBatch
from tsadc.series import Floats

KERNEL = 5  # of the convolutions along time


class InterFusion(ResidualDetector["InterFusion.Config"]):
    """Detect values that are improbable given a temporal and an inter-metric latent of their window."""

    name: ClassVar[str] = "interfusion"
    inference_settings: ClassVar[tuple[str, ...]] = ("samples", "refine", "suspect")

    @dataclass(frozen=True)
    class Config(ResidualDetector.Config):
        """Settings of InterFusion.

        Parameters
        ----------
        window
            Steps per window, at least 4.
        squeeze
            How often convolutions halve the time axis for the temporal latent, at least 1.
        metrics
            Features of the metric latent, at least 1, and at least 2 if there are flows.
        hidden
            Width of the GRU and of the dense layers, at least 1.
        flows
            Layers of RealNVP; 0 for none.
        pretrain
            Share of the epochs that train the temporal latent alone, at least 0 and below 1.
        anneal
            Share of the epochs over which the weight of the KL terms rises to 1, from 0 to 1.
        samples
            Samples of the latents per score, at least 1.
        refine
            Rounds that replace suspicious cells by their expectation before scoring; 0 for none.
        suspect
            Share of a window's cells, the least probable ones, that refinement replaces, between 0 and 1.
        """

        presets: ClassVar[tuple[str, ...]] = ("published", "tiny")

        window: int = 60
        squeeze: int = 3
        metrics: int = 3
        hidden: int = 64
        flows: int = 4
        pretrain: float = 0.3
        anneal: float = 0.6
        samples: int = 4
        refine: int = 0
        suspect: float = 0.1
        training: Training = field(
            default_factory=lambda: Training(
                epochs=20, batch=8, learning_rate=3e-3, weight_decay=1e-4, warmup_epochs=1, patience=10, clip=10.0
            )
        )

        def __post_init__(self) -> None:
            super().__post_init__()
            require(self.window >= 4, "window", "at least 4", self.window)
            for name in ("squeeze", "metrics", "hidden", "samples"):
                require(getattr(self, name) >= 1, name, "at least 1", getattr(self, name))
            for name in ("flows", "refine"):
                require(getattr(self, name) >= 0, name, "at least 0", getattr(self, name))
            require(self.flows == 0 or self.metrics >= 2, "metrics", "at least 2 with flows", self.metrics)
            require(0 <= self.pretrain < 1, "pretrain", "at least 0 and below 1", self.pretrain)
            require(0 <= self.anneal <= 1, "anneal", "from 0 to 1", self.anneal)
            require(0 < self.suspect < 1, "suspect", "between 0 and 1, both excluded", self.suspect)

        @classmethod
        def published(cls) -> Self:
            """Return 20 epochs of pretraining and 20 of the whole; 100 windows are 17 observations of 600 steps."""
            model = {"window": 100, "squeeze": 3, "metrics": 3, "hidden": 500, "flows": 20}
            training = published_training(epochs=40, batch=17, learning_rate=1e-3, weight_decay=1e-4, clip=10.0)
            scoring = {"scoring": "own", "samples": 100, "refine": 10}
            return cls.with_settings(**model, **scoring, pretrain=0.5, anneal=0.0, training=training)

        @classmethod
        def tiny(cls) -> Self:
            """Return settings that train in seconds: for trying things out, not for results."""
            return cls.with_settings(
                window=16, squeeze=2, metrics=2, hidden=16, flows=2, training={"epochs": 5, "learning_rate": 1e-2}
            )

    def _network(self, variables: int) -> Network:
        return Network(self.settings, variables)

    def _make_inference(self) -> Callable[[Floats], NetworkOutput]:
        network, settings = self.network_, self.settings
        generator = torch.Generator().manual_seed(derive_seed(settings.seed, 1))
        shape = cut_patches(torch.empty(len(self.variables_), settings.length), settings.window).shape
        noise = network.noise((settings.samples, *shape), generator)

        def infer(z: Floats) -> NetworkOutput:
            values, measured, x = prepare_input(z)
            windows, known = (cut_patches(cells, settings.window) for cells in (x, measured))
            nll, mean = refine_and_score(network, windows, known, noise, settings)
            expected = unsquash(join_patches(mean, z.shape[1]))
            cells = torch.where(measured, join_patches(nll, z.shape[1]), 0.0).double()
            steps = cells.sum(0) / measured.sum(0)  # NaN where nothing was measured
            return NetworkOutput(((values - expected).abs().numpy(),), expected.numpy(), steps.numpy())

        return infer


class TemporalAutoencoder(nn.Module):
    """Convolutions to a latent that is short in time, and back; every second one halves the time axis."""

    def __init__(self, variables: int, squeeze: int) -> None:
        super().__init__()
        self.strides = ([2, 1] * squeeze)[:-1]
        self.down = nn.ModuleList(nn.Conv1d(variables, variables, KERNEL, s, KERNEL // 2) for s in self.strides)
        self.latent = nn.Conv1d(variables, 2 * variables, 1)
        self.up = nn.ModuleList(
            nn.ConvTranspose1d(variables, variables, KERNEL, s, KERNEL // 2) for s in self.strides[::-1]
        )
        for layer in (*self.down, *self.up):  # or the signal would vanish in so many layers
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        init_narrow(self.latent)

    def lengths(self, time: int) -> list[int]:
        """Return the number of steps before each convolution and after the last."""
        out = [time]
        for stride in self.strides:
            out.append(-(-out[-1] // stride))
        return out

    def encode(self, x: Tensor) -> Gaussian:
        """x (window, variable, time) -> q(z2 | x), (window, variable, short time)."""
        for layer in self.down:
            x = layer(x).relu()
        return Gaussian.from_output(self.latent(x), dim=1)

    def decode(self, temporal: Tensor, time: int) -> Tensor:
        """Return the auxiliary features (window, variable, time) of a temporal latent."""
        auxiliary = temporal
        for layer, length in zip(self.up, self.lengths(time)[-2::-1], strict=True):
            auxiliary = layer(auxiliary, output_size=[length]).relu()
        return auxiliary


class Flow(nn.Module):
    """RealNVP (Dinh et al., ICLR 2017): each layer scales and shifts one half of the features, given the other half."""

    def __init__(self, features: int, layers: int, hidden: int) -> None:
        super().__init__()
        self.kept = features // 2
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(self.kept, hidden), nn.ReLU(), nn.Linear(hidden, 2 * (features - self.kept)))
            for _ in range(layers)
        )
        for layer in self.layers:  # so that the flow starts as a permutation
            nn.init.zeros_(layer[-1].weight)  # type: ignore[index]
            nn.init.zeros_(layer[-1].bias)  # type: ignore[index]

    def forward(self, value: Tensor) -> tuple[Tensor, Tensor]:
        """value (..., feature) -> the transformed value, and the log determinant of the Jacobian (...)."""
        log_det = torch.zeros(value.shape[:-1])
        for layer in self.layers:
            kept, changed = value[..., : self.kept], value[..., self.kept :]
            shift, log_scale = layer(kept).chunk(2, -1)
            log_scale = torch.tanh(log_scale)  # bounded, for stability
            value = torch.cat([changed * log_scale.exp() + shift, kept], -1)
            log_det = log_det + log_scale.sum(-1)
        return value, log_det


@dataclass(frozen=True)
class LatentBatch(ObservedBatch):
    """Windows (batch, window, variable, time) and the noise of both latents."""

    temporal: Tensor
    metric: Tensor


class Network(StoredNames):
    """Posteriors and priors of both latents, and the likelihood of a window given them."""

    stored_names: ClassVar[Mapping[str, str]] = {
        "temporal_autoencoder": "squeezer", "pretrain_output": "guess", "backward_gru": "backwards",
        "posterior_mlp": "features", "posterior_recurrence": "posterior_before", "metric_proj": "widen",
        "decoder": "read",
    }  # fmt: skip

    def __init__(self, config: InterFusion.Config, variables: int) -> None:
        super().__init__()
        self.config = config
        hidden, metrics, both = config.hidden, config.metrics, 2 * variables
        self.temporal_autoencoder = TemporalAutoencoder(variables, config.squeeze)
        self.pretrain_output = nn.Linear(variables, both)  # p(x | z2), for pretraining
        self.backward_gru = nn.GRU(variables, hidden, batch_first=True)
        self.posterior_mlp = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.posterior = nn.Linear(hidden, 2 * metrics)
        self.posterior_recurrence = nn.Linear(metrics, 2 * metrics, bias=False)
        self.flow = Flow(metrics, config.flows, hidden)
        self.prior = nn.Linear(variables + metrics, 2 * metrics)
        self.metric_proj = nn.Linear(metrics, variables)
        self.decoder = nn.Sequential(
            nn.Linear(both, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, both)
        )
        init_narrow(self.posterior)
        self.pretrain_epochs = round(config.pretrain * config.training.epochs)
        self.anneal_epochs = config.anneal * config.training.epochs
        self.pretraining, self.kl_weight = False, 1.0

    def begin_epoch(self, number: int) -> None:
        self.pretraining = number <= self.pretrain_epochs
        self.kl_weight = min(1.0, (number - 1) / self.anneal_epochs) if self.anneal_epochs else 1.0

    def noise(self, shape: tuple[int, ...], generator: torch.Generator) -> dict[str, Tensor]:
        """Draw standard normal noise for both latents of windows of shape (..., window, variable, time)."""
        *leading, variables, time = shape
        short = self.temporal_autoencoder.lengths(time)[-1]
        return {
            "temporal": torch.randn(*leading, variables, short, generator=generator),
            "metric": torch.randn(*leading, time, self.config.metrics, generator=generator),
        }

    def draw(self, x: Tensor, observed: Tensor, generator: torch.Generator) -> LatentBatch:
        windows = cut_patches(torch.where(observed, squash(x), 0.0), self.config.window)
        noise = self.noise(tuple(windows.shape), generator)
        return LatentBatch(windows, cut_patches(observed, self.config.window), **noise)

    def losses(self, batch: LatentBatch) -> dict[str, Tensor]:
        """Return minus the evidence lower bound per cell; in validation always that of the whole model."""
        count, variables, time = batch.x.shape[1:]
        x, observed, temporal, metric = (tensor.flatten(0, 1) for tensor in batch.tensors().values())
        posterior = self.temporal_autoencoder.encode(x)
        auxiliary = self.temporal_autoencoder.decode(posterior.sample(temporal), time)
        kl_weight = self.kl_weight if self.training else 1.0

        def per_observation(values: Tensor) -> Tensor:
            return values.sum((-2, -1)).view(len(batch), count).mean(1) / (variables * time)

        temporal_kl = kl_weight * per_observation(posterior.kl())
        if self.pretraining and self.training:
            likelihood = Gaussian.from_output(self.pretrain_output(auxiliary.mT))
            nll = torch.where(observed, -likelihood.log_prob(x.mT).mT, 0.0)
            return {"pretraining": per_observation(nll), "temporal": temporal_kl}
        sample, log_posterior = self.infer(auxiliary, metric)
        log_prior = self.metric_prior(auxiliary, sample).log_prob(sample).sum(-1)
        nll = torch.where(observed, -self.likelihood(auxiliary, sample).log_prob(x), 0.0)
        return {
            "reconstruction": per_observation(nll),
            "temporal": temporal_kl,
            "metric": kl_weight * per_observation((log_posterior - log_prior)[:, None]),
        }

    def infer(self, auxiliary: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return a sample (window, time, metric) of q(z1 | auxiliary), and its log density (window, time)."""
        states = self.backward_gru(auxiliary.mT.flip(1))[0].flip(1)
        outputs = self.posterior(self.posterior_mlp(states))
        value = torch.zeros_like(noise[:, 0])
        values, log_stds = [], []
        for output, step_noise in zip(outputs.unbind(1), noise.unbind(1), strict=True):
            posterior = Gaussian.from_output(output + self.posterior_recurrence(value.tanh()))
            value = posterior.sample(step_noise)
            values.append(value)
            log_stds.append(posterior.log_std)
        log_density = (-0.5 * noise.square() - torch.stack(log_stds, 1) - HALF_LOG_2PI).sum(-1)
        sample, log_det = self.flow(torch.stack(values, 1))
        return sample, log_density - log_det

    def metric_prior(self, auxiliary: Tensor, metric: Tensor) -> Gaussian:
        """Return p(z1_t | z1_{t-1}, auxiliary_t) for every step."""
        previous = F.pad(metric[:, :-1], (0, 0, 1, 0))
        return Gaussian.from_output(self.prior(torch.cat([auxiliary.mT, previous], -1)))

    def likelihood(self, auxiliary: Tensor, metric: Tensor) -> Gaussian:
        """Return p(x | z1, z2), (window, variable, time)."""
        output = self.decoder(torch.cat([self.metric_proj(metric), auxiliary.mT], -1))
        return Gaussian.from_output(output.mT, dim=1)

    def score(self, x: Tensor, noise: Mapping[str, Tensor], scored: Tensor) -> tuple[Tensor, Tensor]:
        """Return the negative log likelihood of `scored` given the latents of x, and the mean of that distribution.

        Both are (window, variable, time) and averaged over the samples of the latents. x and `scored` are (window,
        variable, time), noise (sample, window, ...).
        """
        temporal = self.temporal_autoencoder.encode(x).sample(noise["temporal"]).flatten(0, 1)
        auxiliary = self.temporal_autoencoder.decode(temporal, x.shape[-1])
        metric, _ = self.infer(auxiliary, noise["metric"].flatten(0, 1))
        mean, log_std = (values.view(-1, *x.shape) for values in self.likelihood(auxiliary, metric))
        nll = -Gaussian(mean, log_std).log_prob(scored)
        return nll.mean(0), mean.mean(0)


def refine_and_score(
    network: Network, windows: Tensor, measured: Tensor, noise: Mapping[str, Tensor], settings: InterFusion.Config
) -> tuple[Tensor, Tensor]:
    """Return the negative log likelihood and the expectation of each cell (window, variable, time).

    Each round of refinement replaces the least probable cells of the first score, and those that were not measured, by
    their expectation, so that the latents follow the rest of the window.
    """
    nll, mean = network.score(windows, noise, windows)
    if settings.refine:
        known = torch.where(measured, nll, -torch.inf).flatten(1)
        worst = known.topk(max(1, round(settings.suspect * known.shape[1])), dim=1).indices
        replaced = ~measured | torch.zeros_like(known, dtype=torch.bool).scatter(1, worst, True).view_as(measured)
        for _ in range(settings.refine):
            nll, mean = network.score(torch.where(replaced, mean, windows), noise, windows)
    return nll, mean
