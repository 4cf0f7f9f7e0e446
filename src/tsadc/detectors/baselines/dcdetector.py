"""DCdetector: attention between patches and attention inside patches agree on normal data and disagree on anomalies.

Y. Yang, C. Zhang, T. Zhou, Q. Wen, L. Sun: DCdetector: Dual Attention Contrastive Representation Learning for Time
Series Anomaly Detection. KDD 2023. Implemented: both attention branches with shared queries and keys, the contrastive
loss, and the score by symmetric Kullback-Leibler (KL) divergence.

    name         paper        meaning
    window       T            steps per window; each variable of a window is a sequence of its own
    patches      P            patch sizes; each size has a pair of branches
    patch_wise   N            attention (count, count) among the patches of a window
    in_patch     P            attention (size, size) among the positions inside a patch
    divergence   KL + KL      symmetric KL divergence of the two branches at every step

Upsampled to (window, window), the row of a step at position `c` of patch `a` is N[a, b] / size in one branch and P[c,
d] / count in the other, over the steps at position `d` of patch `b`. One depends on `b` alone and the other on `d`
alone. With U uniform, therefore,

    KL(N, P) + KL(P, N) = KL(N_a, U) + KL(U, N_a) + KL(P_c, U) + KL(U, P_c)

and no array of the size window x window is needed. Each loss keeps one branch fixed: L_N trains the patch-wise branch
and L_P the in-patch branch.

Deviations (see also docs/detectors.md, "Deviations from the papers"):

- The loss is L_P + L_N, which makes both branches agree. The published loss L_P - L_N (`opposed`) is always 0 and
  drives the patch-wise branch away without end; the authors train it for a few epochs only.
- Residuals are not in z units: a cell's residual is its divergence divided by the median of the training part.
- Divergences are computed per variable and averaged over layers, heads and patch sizes. The authors average the
  attention over variables first.
- A position inside a patch is embedded from its value in every patch; in the authors' code, from as many successive
  values.
- The score is the divergence, as in the paper; in the authors' code, a softmax over the window that decreases with it.
- Inputs are asinh(z), standardised per window.

Published settings, all read in the authors' repository (DAMO-DI-ML/KDD2023-DCdetector: main.py, solver.py,
scripts/SMD.sh). There the learning rate is halved after every epoch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tsadc.config import require
from tsadc.detectors.residual import NetworkOutput, ResidualConfig, ResidualDetector, published_training, step_means
from tsadc.nn.inputs import masked_mean, prepare_input, squash
from tsadc.nn.patches import SlidingWindows
from tsadc.nn.runtime.threads import parallel_map
from tsadc.nn.train import Training
from tsadc.nn.trainable import ObservedBatch
from tsadc.series import Floats, Observations
from tsadc.subsample import evenly_spaced

STILL = 1e-3  # variance that is added to a window's, in squashed units: less is no movement
SAMPLE = 64  # observations that tell what is typical


@dataclass(frozen=True)
class Config(ResidualConfig):
    """Settings of DCdetector; all others are those of `ResidualConfig`.

    Parameters
    ----------
    window
        Steps per window: a multiple of every patch size, with at least two patches of the largest.
    patches
        Patch sizes, each at least 2.
    features
        Width of the embeddings, a multiple of twice the heads.
    layers
        Attention layers, at least 1.
    heads
        Attention heads, at least 1.
    opposed
        Use the published loss, whose two parts cancel in value.
    training
        Settings of the training loop.
    """

    presets: ClassVar[tuple[str, ...]] = ("published", "tiny")

    window: int = 60
    patches: tuple[int, ...] = (3, 5)
    features: int = 32
    layers: int = 2
    heads: int = 1
    opposed: bool = False
    training: Training = field(
        default_factory=lambda: Training(
            epochs=3, batch=8, learning_rate=1e-3, warmup_epochs=0, patience=0, weight_decay=0.0
        )
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require(len(self.patches) >= 1 and min(self.patches) >= 2, "patches", "sizes from 2", self.patches)
        shared = math.lcm(*self.patches)
        fits = self.window % shared == 0 and self.window >= 2 * max(self.patches)
        require(
            fits, "window", f"a multiple of {shared}, so that it is made of patches, and of two at least", self.window
        )
        least = shared * math.ceil(2 * max(self.patches) / shared)
        told = f"at least the {least} steps of the shortest window with two patches of every size"
        require(self.length >= least, "length", told, self.length)
        require(self.layers >= 1, "layers", "at least 1", self.layers)
        require(self.heads >= 1, "heads", "at least 1", self.heads)
        require(
            self.features >= self.heads and self.features % (2 * self.heads) == 0,
            "features",
            f"a multiple of {2 * self.heads}, twice the heads",
            self.features,
        )

    @classmethod
    def published(cls) -> Self:
        """A batch of 256 windows is about 43 observations of 600 steps."""
        return cls.with_settings(
            scoring="own",
            window=100,
            patches=(5,),
            features=256,
            layers=3,
            heads=1,
            opposed=True,
            training=published_training(epochs=2, batch=43, learning_rate=1e-4),
        )

    @classmethod
    def tiny(cls) -> Self:
        """Trains in seconds: for trying things out, not for results."""
        return cls.with_settings(window=24, patches=(2, 4), features=8, layers=1)


class Views(nn.Module):
    """What a step of a window looks like in the two views of one patch size, before attention."""

    def __init__(self, window: int, size: int, features: int) -> None:
        super().__init__()
        self.size, self.count = size, window // size
        self.between, self.inside = nn.Linear(self.size, features), nn.Linear(self.count, features)
        self.register_buffer("places", positions(max(self.size, self.count), features), persistent=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x (..., step) -> tokens of the patches (..., count, feature) and of the places (..., size, feature)."""
        assert isinstance(self.places, Tensor)
        patches = x.unflatten(-1, (self.count, self.size))
        between = self.between(patches) + self.places[: self.count]
        return between, self.inside(patches.mT) + self.places[: self.size]


class Network(nn.Module):
    def __init__(self, config: Config, length: int) -> None:
        super().__init__()
        shared = math.lcm(*config.patches)
        size = min(config.window, length // shared * shared)
        self.windows, self.heads, self.opposed = SlidingWindows(length, size, size), config.heads, config.opposed
        self.views = nn.ModuleList(Views(size, patch, config.features) for patch in config.patches)
        features = config.features
        self.queries = nn.ModuleList(nn.Linear(features, features) for _ in range(config.layers))
        self.keys = nn.ModuleList(nn.Linear(features, features) for _ in range(config.layers))

    def draw(self, x: Tensor, observed: Tensor, generator: torch.Generator) -> ObservedBatch:
        return ObservedBatch(x, observed)

    def losses(self, batch: ObservedBatch) -> dict[str, Tensor]:
        """L_N and L_P."""
        observed = batch.observed
        between, inside = self(torch.where(observed, batch.x, 0.0), observed)
        cells = self.windows.cut(observed)
        between_loss = masked_mean(between + inside.detach(), cells)
        return {
            "between": -between_loss if self.opposed else between_loss,
            "inside": masked_mean(between.detach() + inside, cells),
        }

    def forward(self, z: Tensor, measured: Tensor) -> tuple[Tensor, Tensor]:
        """How far each view is from uniform at every step (batch, variable, window, step); the sum of the two is how
        far they are apart. z and what was measured of it are (batch, variable, time)."""
        x = standard(self.windows.cut(squash(z)), self.windows.cut(measured))
        between, inside = x.new_zeros(x.shape), x.new_zeros(x.shape)
        for views in self.views:
            patches, places = views(x)
            assert isinstance(views, Views)
            between = between + self.attend(patches).repeat_interleave(views.size, dim=-1)
            inside = inside + self.attend(places).repeat(1, 1, 1, views.count)
        return between / len(self.views), inside / len(self.views)

    def attend(self, tokens: Tensor) -> Tensor:
        """tokens (..., token, feature) -> of each token, how far its attention is from uniform (..., token)."""
        total = tokens.new_zeros(tokens.shape[:-1])
        for query, key in zip(self.queries, self.keys, strict=True):
            q, k = (one(tokens).unflatten(-1, (self.heads, -1)).transpose(-2, -3) for one in (query, key))
            total = total + from_uniform(q @ k.mT / q.shape[-1] ** 0.5).mean(-2)
        return total / len(self.queries)


def from_uniform(logits: Tensor) -> Tensor:
    """KL(A, U) + KL(U, A) of A = softmax(logits) over the last axis and U uniform: the sum of (A - U) (log A - log U),
    of which no term is negative."""
    count = logits.shape[-1]
    log = torch.log_softmax(logits, dim=-1)
    return ((log.exp() - 1 / count) * (log + math.log(count))).sum(-1)


def standard(x: Tensor, measured: Tensor) -> Tensor:
    """x (..., step) with mean 0 and variance 1 over what was measured, 0 elsewhere."""
    count = measured.sum(-1, keepdim=True).clamp_min(1)
    centred = torch.where(measured, x - torch.where(measured, x, 0.0).sum(-1, keepdim=True) / count, 0.0)
    return centred * torch.rsqrt(centred.square().sum(-1, keepdim=True) / count + STILL)


def positions(count: int, features: int) -> Tensor:
    """Sines and cosines of the place (place, feature)."""
    rates = 1e4 ** (-torch.arange(0, features, 2) / features)
    angles = torch.arange(count).unsqueeze(1) * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class DCdetector(ResidualDetector[Config]):
    """Detect steps at which attention between patches and attention inside patches disagree."""

    name: ClassVar[str] = "dcdetector"
    Config: ClassVar[type[Config]] = Config
    stops_early: ClassVar[bool] = False  # low divergence is no merit in itself, and the published loss is always 0

    def _network(self, variables: int) -> Network:
        return Network(self.settings, self.settings.length)

    def _residual_names(self) -> tuple[str, ...]:
        return ("discrepancy",)

    def _after_training(self, train_part: Observations, validation: Observations) -> None:
        @torch.no_grad()
        def middle(i: int) -> float:
            cells = self._apart(train_part.read(i))
            return float(np.median(cells[np.isfinite(cells)])) if np.isfinite(cells).any() else np.nan

        typical = float(np.nanmedian(list(parallel_map(middle, evenly_spaced(len(train_part), SAMPLE).tolist()))))
        self.typical_ = typical if typical > 0 else 1.0

    def _extra_state(self) -> dict[str, NDArray[Any]]:
        return {"typical": np.array([self.typical_])}

    def _restore_extra(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.typical_ = float(state["typical"][0])

    def _apart(self, z: Floats) -> Floats:
        values, measured, _ = prepare_input(z)
        between, inside = self.network_(torch.where(measured, values, 0.0).unsqueeze(0), measured.unsqueeze(0))
        out: Floats = torch.where(measured, self.network_.windows.join(between + inside)[0], torch.nan).numpy()
        return out

    def _make_inference(self) -> Callable[[Floats], NetworkOutput]:
        def infer(z: Floats) -> NetworkOutput:
            cells = self._apart(z) / np.float32(self.typical_)
            return NetworkOutput((cells,), steps=step_means(cells))

        return infer
