"""EEG-CGS: does a variable fit into the graph of correlations, and can its neighbours reconstruct it?

T. K. K. Ho, N. Armanfard: Self-supervised learning for anomalous channel detection in EEG graphs: application to
seizure analysis. AAAI 2023. Implemented: random-walk subgraphs, contrastive and generative learning on them, and the
weighted score. One graph convolution encodes subgraphs, another decodes the masked variable, a bilinear form compares.

    name          paper       meaning
    x             X           (batch, window, variable, step): windows of an observation, values as features
    adjacency     A           |correlation| in a window if one is among the other's `neighbours`; 1 with itself
    signs         -           sign of the correlation; 1 throughout unless `turned`
    members       subgraph    the first distinct variables that a random walk with restart visits
    sample axis   -           `SAMPLES` subgraphs are drawn for each variable
    target        target      the variable itself, which is masked in its own subgraph
    target_embedding   h      embedding of a variable by itself
    summary       g           mean embedding of a subgraph
    contrast      s_con       sigma(D(h_i, g_other)) - sigma(D(h_i, g_i)); D discriminates own subgraphs from others
    generation    s_gen       distance between a variable and its reconstruction from its subgraph
    share         lambda      weight of the contrastive part in loss and score

Deviations (see also docs/detectors.md, "Deviations from the papers"):

- Features are asinh(z), not spectra.
- The graph convolution of a subgraph averages (rows sum to 1) where the authors' code sums, and the decoder is linear,
  because z has both signs.
- A negative subgraph is that of another variable in the same window.
- By default, members that are negatively correlated with the target are multiplied by -1 (`turned`; off in
  `published`): electrodes mostly move together, other sensors need not.
- Reconstructions are averaged, not their distances.
- The two scores are scaled by quantiles of the training data (1 % -> 0, 99 % -> 1), not by the extremes of the test
  data.
- `RESTART` and the length of a walk are ours: the authors' code returns after every step and, if that visits too few
  variables, with probability 0.9.

Published settings, read in the authors' repository (Armanfard-Lab/EEG-CGS: codes/train.py, test_anomalies.py): 3 edges,
subgraphs of 4, 256 features, lambda 0.6, 80 rounds, 55 epochs, batch, learning rate, no decay.

There are two residuals: `contrast` + 1, from 0 to 2, the same for all steps of a window and not in z units (the fused
scoring takes logarithms of its largest values), and `generation`, in z units. With the method's own pooling a cell
contributes the two weighted scores on their common scale, if they are positive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import embedding, prelu, softplus

from tsadc.config import require
from tsadc.detectors.residual import (
    NetworkOutput,
    ResidualConfig,
    ResidualDetector,
    published_training,
    sample_observations,
    step_means,
)
from tsadc.nn.inputs import masked_mean, prepare_input, squash, unsquash
from tsadc.nn.patches import cut_patches, join_patches
from tsadc.nn.randomness import derive_seed
from tsadc.nn.runtime.threads import parallel_map
from tsadc.nn.train import Training
from tsadc.nn.trainable import Batch
from tsadc.series import Floats, Observations

VIEWS = 2
RESTART = 0.5  # share of steps at which a walk returns to where it began
MOST_OBSERVATIONS = 128  # of either part of the training data tell what scores are usual


@dataclass(frozen=True)
class Config(ResidualConfig):
    """Settings of EEG-CGS; all others are those of `ResidualConfig`.

    Parameters
    ----------
    window
        Steps per window, each with a graph of its own, at least 2.
    features
        Size of the embeddings, at least 1.
    neighbours
        Edges of each variable, at least 1.
    subgraph
        Variables of a subgraph, the target included, at least 2.
    share
        Weight of the contrastive part in loss and score, from 0 to 1.
    rounds
        Draws of subgraphs that a score averages, at least 1.
    turned
        Multiply variables that are negatively correlated with the target by -1 in its subgraph.
    training
        Settings of the training loop.
    """

    presets: ClassVar[tuple[str, ...]] = ("published", "tiny")

    window: int = 60
    features: int = 32
    neighbours: int = 3
    subgraph: int = 4
    share: float = 0.6
    rounds: int = 4
    turned: bool = True
    training: Training = field(
        default_factory=lambda: Training(
            epochs=20, batch=8, learning_rate=1e-2, warmup_epochs=1, patience=10, weight_decay=0.0
        )
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in {"window": 2, "features": 1, "neighbours": 1, "subgraph": 2, "rounds": 1}.items():
            require(getattr(self, name) >= least, name, f"at least {least}", getattr(self, name))
        require(0 <= self.share <= 1, "share", "from 0 to 1", self.share)

    @classmethod
    def published(cls) -> Self:
        """A recording of 60 s is an observation; 285 channels in a batch are those of 15 recordings."""
        model = {"window": 600, "features": 256, "neighbours": 3, "subgraph": 4, "share": 0.6, "turned": False}
        training = published_training(epochs=55, batch=15, learning_rate=1e-3)
        return cls.with_settings(scoring="own", **model, rounds=80, training=training)

    @classmethod
    def tiny(cls) -> Self:
        """Trains in seconds: for trying things out, not for results."""
        return cls.with_settings(window=16, features=8, rounds=2, training={"epochs": 5})


class Found(NamedTuple):
    own: Tensor  # logits of D (batch, piece, variable) for a variable's own subgraph
    other: Tensor  # and for that of another
    generated: Tensor  # what each view makes of a variable (batch, view, piece, variable, window)


@dataclass(frozen=True)
class SubgraphBatch(Batch):
    """Graphs and the subgraphs drawn from them.

    `members` (batch, sample, piece, variable, member) are variables, -1 for none. `other` (batch, sample, piece,
    variable) is the variable whose subgraph is the negative one.
    """

    x: Tensor
    known: Tensor
    adjacency: Tensor
    signs: Tensor
    members: Tensor
    other: Tensor


class Network(nn.Module):
    """Encoder, decoder and the discriminators of the two views."""

    def __init__(self, config: Config, window: int) -> None:
        super().__init__()
        features = config.features
        self.window, self.neighbours = window, config.neighbours
        self.members, self.share, self.turned = config.subgraph - 1, config.share, config.turned
        self.encode = nn.Linear(window, features, bias=False)
        self.bias = nn.Parameter(torch.zeros(features))
        self.slope = nn.Parameter(torch.full((1,), 0.25))
        self.decode = nn.Linear(features, window)
        self.compare = nn.Parameter(torch.randn(VIEWS, features, features) / features)
        self.offset = nn.Parameter(torch.zeros(VIEWS))

    def activate(self, mixed: Tensor) -> Tensor:
        return prelu(mixed + self.bias, self.slope)

    def forward(self, drawn: SubgraphBatch) -> Found:
        x, members = drawn.x, drawn.members
        encoded = self.encode(x)
        target = torch.arange(x.shape[2]).expand(members.shape[:-1]).unsqueeze(-1)
        inside = torch.cat([members, target], dim=-1)  # the masked one comes last
        mixing, present = subgraphs(drawn.adjacency, inside)
        heard = members.clamp_min(0)  # what is absent weighs nothing in `mixing`
        turns = drawn.signs.unsqueeze(1).expand(-1, VIEWS, -1, -1, -1).gather(-1, heard)
        # By `embedding`: the gradient of an index into an array is far slower.
        graph = torch.arange(x.shape[0] * x.shape[1]).view(x.shape[0], 1, x.shape[1], 1, 1)
        visible = embedding(graph * x.shape[2] + heard, encoded.flatten(0, 2)) * turns.unsqueeze(-1)
        embedded = self.activate(mixing[..., :-1] @ visible)
        generated = self.decode((mixing[..., -1:, :] @ embedded).squeeze(-2))
        summary = (embedded * present.unsqueeze(-1)).sum(-2) / present.sum(-1, keepdim=True)
        alone = torch.einsum("bpkf,vfg->bvpkg", self.activate(encoded), self.compare)
        negative = summary.gather(3, drawn.other.unsqueeze(-1).expand(summary.shape))
        own, others = (((alone * one).sum(-1) + self.offset.view(1, -1, 1, 1)).mean(1) for one in (summary, negative))
        return Found(own, others, generated)

    def draw(self, x: Tensor, observed: Tensor, generator: torch.Generator) -> SubgraphBatch:
        return self.sample(x, observed, torch.rand(self.chances(*x.shape), generator=generator))

    def chances(self, batch: int, variables: int, time: int) -> tuple[int, ...]:
        """The shape of the random numbers from 0 to 1 that `sample` needs."""
        return (batch, VIEWS, -(-time // self.window), variables, 1 + 4 * (self.members + 1))

    def sample(self, x: Tensor, observed: Tensor, chance: Tensor) -> SubgraphBatch:
        """Graphs of the pieces of x (batch, variable, time), in z units, and subgraphs by `chance`."""
        seen, count = torch.where(observed, squash(x), 0.0), x.shape[1]
        cut, known = cut_patches(seen, self.window), cut_patches(observed, self.window)
        adjacency, signs, nearest = correlations(cut, known, self.neighbours)
        met = random_walk(nearest.unsqueeze(1).expand(-1, VIEWS, -1, -1, -1), chance[..., 1:], RESTART)
        shift = 1 + (chance[..., 0] * (count - 1)).long().clamp_max(count - 2)
        other = (torch.arange(count) + shift) % count
        signs = signs if self.turned else torch.ones_like(signs)
        return SubgraphBatch(cut, known, adjacency, signs, first_distinct(met, self.members), other)

    def losses(self, batch: SubgraphBatch) -> dict[str, Tensor]:
        x, known = batch.x, batch.known
        found = self(batch)
        error = torch.where(known.unsqueeze(1), found.generated - x.unsqueeze(1), 0.0).square() / VIEWS
        contrast = masked_mean((softplus(-found.own) + softplus(found.other)) / 2, known.any(-1))
        generation = error.sum((1, 2, 3, 4)) / known.sum((1, 2, 3)).clamp_min(1)
        return {"contrast": self.share * contrast, "generation": (1 - self.share) * generation}


def correlations(x: Tensor, known: Tensor, neighbours: int) -> tuple[Tensor, Tensor, Tensor]:
    """Of x (batch, piece, variable, window): A and the signs of the correlations, both (batch, piece, variable,
    variable), and each variable's nearest (batch, piece, variable, neighbour), the nearest first. A variable that
    stands still is as near to all."""
    middle = torch.where(known, x, 0.0).sum(-1, keepdim=True) / known.sum(-1, keepdim=True).clamp_min(1)
    apart = torch.where(known, x - middle, 0.0)
    size = torch.linalg.vector_norm(apart, dim=-1, keepdim=True)
    direction = apart / torch.where(size > 1e-6, size, torch.inf)
    correlation = direction @ direction.mT
    strength = correlation.abs()
    own = torch.eye(x.shape[2], dtype=torch.bool)
    nearest = strength.masked_fill(own, -1.0).topk(min(neighbours, x.shape[2] - 1), dim=-1).indices
    chosen = torch.zeros_like(strength).scatter(-1, nearest, 1.0)
    adjacency = torch.where(own, 1.0, strength * torch.maximum(chosen, chosen.mT))
    return adjacency, torch.where(correlation < 0, -1.0, 1.0), nearest


def random_walk(nearest: Tensor, chance: Tensor, restart: float) -> Tensor:
    """A walk from each node: nearest (..., node, neighbour), chance (..., node, step) from 0 to 1 -> the node at each
    step (..., node, step), -1 where that is where it began. The share `restart` of steps leads back to there."""
    *_, count, neighbours = nearest.shape
    start = torch.arange(count).expand(nearest.shape[:-1])
    at, places = start, []
    for one in chance.unbind(-1):
        turn = ((one - restart) / (1 - restart) * neighbours).long().clamp(0, neighbours - 1)
        following = nearest.flatten(-2).gather(-1, at * neighbours + turn)
        at = torch.where(one < restart, start, following)
        places.append(torch.where(at == start, -1, at))
    return torch.stack(places, dim=-1)


def first_distinct(met: Tensor, count: int) -> Tensor:
    """The first `count` different ones of (..., step), -1 for none."""
    again = (met.unsqueeze(-1) == met.unsqueeze(-2)).tril(-1).any(-1) | (met < 0)
    order = again.to(torch.int8).sort(dim=-1, stable=True)
    return torch.where(order.values > 0, -1, met.gather(-1, order.indices))[..., :count]


def subgraphs(adjacency: Tensor, inside: Tensor) -> tuple[Tensor, Tensor]:
    """The adjacency (batch, piece, node, node) among the nodes `inside` (batch, view, piece, node, member), -1 for
    none, rows made to sum to 1, and which of the members are there."""
    count, present = adjacency.shape[-1], inside >= 0
    place = inside.clamp_min(0)
    pairs = place.unsqueeze(-1) * count + place.unsqueeze(-2)
    both = present.unsqueeze(-1) & present.unsqueeze(-2)
    graphs = adjacency.flatten(-2).unsqueeze(1).expand(-1, inside.shape[1], -1, -1)
    found = torch.where(both, graphs.gather(-1, pairs.flatten(3)).view(pairs.shape), 0.0)
    return found / found.sum(-1, keepdim=True).clamp_min(1e-6), present


class EEGCGS(ResidualDetector[Config]):
    """Detect variables that do not fit the subgraphs of correlated variables they belong to."""

    name: ClassVar[str] = "eeg-cgs"
    Config: ClassVar[type[Config]] = Config
    inference_settings: ClassVar[tuple[str, ...]] = ("rounds",)

    def _residual_names(self) -> tuple[str, ...]:
        return ("contrast", "generation")

    def _network(self, variables: int) -> Network:
        return Network(self.settings, min(self.settings.window, self.settings.length))

    def _looker(self) -> Callable[[Floats], tuple[Floats, Floats, Floats]]:
        """Gives contrast, distance and expectation of an observation, each (variable, time)."""
        settings, network = self.settings, self.network_
        source = torch.Generator().manual_seed(derive_seed(settings.seed, 1))
        chance = torch.rand(network.chances(settings.rounds, len(self.variables_), settings.length), generator=source)

        def look(z: Floats) -> tuple[Floats, Floats, Floats]:
            values, known, _ = prepare_input(z)
            x = torch.where(known, values, 0.0)
            drawn = network.sample(*(one.expand(settings.rounds, -1, -1) for one in (x, known)), chance)
            found = network(drawn)
            contrast = (found.other.sigmoid() - found.own.sigmoid()).mean(0)
            expected = unsquash(found.generated.mean((0, 1)))
            distance = (cut_patches(values.double()[None], network.window)[0] - expected).square().nanmean(-1).sqrt()
            whole = [one.unsqueeze(-1).expand(expected.shape) for one in (contrast + 1, distance)]
            return tuple(join_patches(one, z.shape[1]).numpy() for one in (*whole, expected))  # type: ignore[return-value]

        return look

    def _after_training(self, train_part: Observations, validation: Observations) -> None:
        look = self._looker()

        @torch.no_grad()
        def both(place: tuple[Observations, int]) -> tuple[Floats, Floats]:
            part, i = place
            z = part.read(i)
            contrast, distance, _ = look(z)
            return contrast[np.isfinite(z)], distance[np.isfinite(z)]

        found = list(parallel_map(both, sample_observations((train_part, validation), MOST_OBSERVATIONS)))
        each = (np.concatenate(one) for one in zip(*found, strict=True))
        self.scale_ = np.array([np.quantile(one, (0.01, 0.99)) for one in each], dtype=np.float64)

    def _extra_state(self) -> dict[str, NDArray[Any]]:
        return {"scores.scale": self.scale_}

    def _restore_extra(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.scale_ = state["scores.scale"]

    def _make_inference(self) -> Callable[[Floats], NetworkOutput]:
        look, share = self._looker(), self.settings.share

        def infer(z: Floats) -> NetworkOutput:
            contrast, distance, expected = look(z)
            known = np.isfinite(z)
            each = zip((contrast, distance), self.scale_, strict=True)
            scaled = (np.nan_to_num((one - low) / max(high - low, 1e-6)) for one, (low, high) in each)
            told, made = (part * one for part, one in zip((share, 1 - share), scaled, strict=True))
            steps, *parts = (step_means(np.where(known, one, np.nan)) for one in (told + made, told, made))
            residuals = (np.where(known, contrast, np.nan), np.abs(z - expected))
            return NetworkOutput(
                residuals, expected, steps, tuple(parts), (np.maximum(told, 0.0), np.maximum(made, 0.0))
            )

        return infer
