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
from tsadc.detectors.residual import NetworkOutput, ResidualDetector, published_training, step_means
from tsadc.nn.inputs import masked_mean, prepare_input, squash
from tsadc.nn.patches import SlidingWindows
from tsadc.nn.runtime.threads import parallel_map
from tsadc.nn.stored_names import StoredNames
from tsadc.nn.train import Training
from tsadc.nn.trainable import ObservedBatch
from tsadc.series import Floats, Observations
from tsadc.subsample import evenly_spaced

LEAST_VARIANCE = 1e-3  # added to the variance of a window of asinh(z), so that a constant one stays finite
MOST_OBSERVATIONS = 64  # of the training part, from which the typical divergence is computed


class DCdetector(ResidualDetector["DCdetector.Config"]):
    """Detect steps at which attention between patches and attention inside patches disagree.

    Attributes
    ----------
    typical_
        Median divergence of the training part; residuals are divided by it.
    """

    name: ClassVar[str] = "dcdetector"
    # A lower divergence is not better in itself, and the published loss is always 0.
    stops_early: ClassVar[bool] = False

    @dataclass(frozen=True)
    class Config(ResidualDetector.Config):
        """Settings of DCdetector.

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
            require(
                len(self.patches) >= 1 and min(self.patches) >= 2,
                "patches",
                "one or more sizes of at least 2",
                self.patches,
            )
            shared = math.lcm(*self.patches)
            fits = self.window % shared == 0 and self.window >= 2 * max(self.patches)
            require(fits, "window", f"a multiple of {shared} with at least two patches of every size", self.window)
            least = shared * math.ceil(2 * max(self.patches) / shared)
            expected = f"at least {least}, the shortest window with two patches of every size"
            require(self.length >= least, "length", expected, self.length)
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
            """Return the settings for SMD; a batch of 256 windows is about 43 observations of 600 steps."""
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
            """Return settings that train in seconds: for trying things out, not for results."""
            return cls.with_settings(window=24, patches=(2, 4), features=8, layers=1)

    def _network(self, variables: int) -> Network:
        return Network(self.settings, self.settings.length)

    def _residual_names(self) -> tuple[str, ...]:
        return ("discrepancy",)

    def _after_training(self, train_part: Observations, validation: Observations) -> None:
        @torch.no_grad()
        def median(i: int) -> float:
            cells = self._divergence(train_part.read(i))
            return float(np.median(cells[np.isfinite(cells)])) if np.isfinite(cells).any() else np.nan

        chosen = evenly_spaced(len(train_part), MOST_OBSERVATIONS).tolist()
        typical = float(np.nanmedian(list(parallel_map(median, chosen))))
        self.typical_ = typical if typical > 0 else 1.0

    def _extra_state(self) -> dict[str, NDArray[Any]]:
        return {"typical": np.array([self.typical_])}

    def _restore_extra(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.typical_ = float(state["typical"][0])

    def _divergence(self, z: Floats) -> Floats:
        """Return the divergence of the two branches at each cell (variable, time), NaN where z is NaN."""
        values, measured, _ = prepare_input(z)
        patch_wise, in_patch = self.network_(torch.where(measured, values, 0.0).unsqueeze(0), measured.unsqueeze(0))
        cells: Floats = torch.where(measured, self.network_.windows.join(patch_wise + in_patch)[0], torch.nan).numpy()
        return cells

    def _make_inference(self) -> Callable[[Floats], NetworkOutput]:
        def infer(z: Floats) -> NetworkOutput:
            cells = self._divergence(z) / np.float32(self.typical_)
            return NetworkOutput((cells,), steps=step_means(cells))

        return infer


class PatchEmbedding(nn.Module):
    """Tokens of a window for both branches of one patch size."""

    def __init__(self, window: int, size: int, features: int) -> None:
        super().__init__()
        self.size, self.count = size, window // size
        self.patch_wise, self.in_patch = nn.Linear(self.size, features), nn.Linear(self.count, features)
        self.register_buffer("positions", sinusoidal(max(self.size, self.count), features), persistent=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x (..., step) -> tokens of the patches (..., count, feature) and of the positions (..., size, feature)."""
        assert isinstance(self.positions, Tensor)
        patches = x.unflatten(-1, (self.count, self.size))
        patch_wise = self.patch_wise(patches) + self.positions[: self.count]
        return patch_wise, self.in_patch(patches.mT) + self.positions[: self.size]


class Network(StoredNames):
    """Attention between and inside the patches of every window."""

    stored_names: ClassVar[Mapping[str, str]] = {"embeddings": "views", "patch_wise": "between", "in_patch": "inside"}

    def __init__(self, config: DCdetector.Config, length: int) -> None:
        super().__init__()
        shared = math.lcm(*config.patches)
        size = min(config.window, length // shared * shared)
        self.windows, self.heads, self.opposed = SlidingWindows(length, size, size), config.heads, config.opposed
        self.embeddings = nn.ModuleList(PatchEmbedding(size, patch, config.features) for patch in config.patches)
        features = config.features
        self.queries = nn.ModuleList(nn.Linear(features, features) for _ in range(config.layers))
        self.keys = nn.ModuleList(nn.Linear(features, features) for _ in range(config.layers))

    def draw(self, x: Tensor, observed: Tensor, generator: torch.Generator) -> ObservedBatch:
        return ObservedBatch(x, observed)

    def losses(self, batch: ObservedBatch) -> dict[str, Tensor]:
        """Return L_N, which trains the patch-wise branch, and L_P, which trains the in-patch branch."""
        observed = batch.observed
        patch_wise, in_patch = self(torch.where(observed, batch.x, 0.0), observed)
        cells = self.windows.cut(observed)
        patch_wise_loss = masked_mean(patch_wise + in_patch.detach(), cells)
        return {
            "patch_wise": -patch_wise_loss if self.opposed else patch_wise_loss,
            "in_patch": masked_mean(patch_wise.detach() + in_patch, cells),
        }

    def forward(self, z: Tensor, measured: Tensor) -> tuple[Tensor, Tensor]:
        """Return the divergence of each branch from uniform at every step, both (batch, variable, window, step).

        Their sum is the divergence of the two branches. z and measured are (batch, variable, time).
        """
        x = standardise(self.windows.cut(squash(z)), self.windows.cut(measured))
        patch_wise, in_patch = x.new_zeros(x.shape), x.new_zeros(x.shape)
        for embedding in self.embeddings:
            assert isinstance(embedding, PatchEmbedding)
            patches, positions = embedding(x)
            patch_wise = patch_wise + self.attend(patches).repeat_interleave(embedding.size, dim=-1)
            in_patch = in_patch + self.attend(positions).repeat(1, 1, 1, embedding.count)
        return patch_wise / len(self.embeddings), in_patch / len(self.embeddings)

    def attend(self, tokens: Tensor) -> Tensor:
        """tokens (..., token, feature) -> divergence of each token's attention from uniform (..., token)."""
        total = tokens.new_zeros(tokens.shape[:-1])
        for query_proj, key_proj in zip(self.queries, self.keys, strict=True):
            query, key = (
                proj(tokens).unflatten(-1, (self.heads, -1)).transpose(-2, -3) for proj in (query_proj, key_proj)
            )
            total = total + divergence_from_uniform(query @ key.mT / query.shape[-1] ** 0.5).mean(-2)
        return total / len(self.queries)


def divergence_from_uniform(logits: Tensor) -> Tensor:
    """Return KL(A, U) + KL(U, A) for A = softmax(logits) over the last axis and U uniform.

    It is the sum of (A - U) (log A - log U), none of whose terms is negative.
    """
    count = logits.shape[-1]
    log = torch.log_softmax(logits, dim=-1)
    return ((log.exp() - 1 / count) * (log + math.log(count))).sum(-1)


def standardise(x: Tensor, measured: Tensor) -> Tensor:
    """Scale x (..., step) to mean 0 and variance 1 over the measured steps; 0 elsewhere."""
    count = measured.sum(-1, keepdim=True).clamp_min(1)
    centred = torch.where(measured, x - torch.where(measured, x, 0.0).sum(-1, keepdim=True) / count, 0.0)
    return centred * torch.rsqrt(centred.square().sum(-1, keepdim=True) / count + LEAST_VARIANCE)


def sinusoidal(count: int, features: int) -> Tensor:
    """Encode positions 0 .. count - 1 by sines and cosines (position, feature)."""
    rates = 1e4 ** (-torch.arange(0, features, 2) / features)
    angles = torch.arange(count).unsqueeze(1) * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)
