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
    ResidualDetector,
    published_training,
    sample_observations,
    step_means,
)
from tsadc.nn.inputs import masked_mean, prepare_input, squash, unsquash
from tsadc.nn.patches import cut_patches, join_patches
from tsadc.nn.randomness import derive_seed
from tsadc.nn.runtime.threads import parallel_map
from tsadc.nn.stored_names import StoredNames
from tsadc.nn.train import Training
from tsadc.nn.trainable import Batch
from tsadc.series import Floats, Observations

SAMPLES = 2  # subgraphs drawn for each variable
RESTART = 0.5  # probability that a step of a walk returns to its start
MOST_OBSERVATIONS = 128  # of each part of the training data, from which the scale of the scores comes


class EEGCGS(ResidualDetector["EEGCGS.Config"]):
    """Detect variables that do not fit the subgraphs of correlated variables they belong to.

    Attributes
    ----------
    scale_
        Quantiles 1 % and 99 % of the training data (score, quantile), for contrast + 1 and for the distance.
    """

    name: ClassVar[str] = "eeg-cgs"
    inference_settings: ClassVar[tuple[str, ...]] = ("rounds",)

    @dataclass(frozen=True)
    class Config(ResidualDetector.Config):
        """Settings of EEG-CGS.

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
            """Return the published settings; an observation is a recording of 60 s, and 15 of them make a batch."""
            model = {"window": 600, "features": 256, "neighbours": 3, "subgraph": 4, "share": 0.6, "turned": False}
            training = published_training(epochs=55, batch=15, learning_rate=1e-3)
            return cls.with_settings(scoring="own", **model, rounds=80, training=training)

        @classmethod
        def tiny(cls) -> Self:
            """Return settings that train in seconds: for trying things out, not for results."""
            return cls.with_settings(window=16, features=8, rounds=2, training={"epochs": 5})

    def _residual_names(self) -> tuple[str, ...]:
        return ("contrast", "generation")

    def _network(self, variables: int) -> Network:
        return Network(self.settings, min(self.settings.window, self.settings.length))

    def _scorer(self) -> Callable[[Floats], tuple[Floats, Floats, Floats]]:
        """Return a function that gives contrast + 1, distance and expectation, each (variable, time)."""
        settings, network, rounds = self.settings, self.network_, self.settings.rounds
        generator = torch.Generator().manual_seed(derive_seed(settings.seed, 1))
        shape = network.uniform_shape(rounds, len(self.variables_), settings.length)
        uniform = torch.rand(shape, generator=generator)

        def score(z: Floats) -> tuple[Floats, Floats, Floats]:
            values, known, _ = prepare_input(z)
            x = torch.where(known, values, 0.0)
            output = network(network.sample(x.expand(rounds, -1, -1), known.expand(rounds, -1, -1), uniform))
            contrast = (output.other.sigmoid() - output.own.sigmoid()).mean(0)
            expected = unsquash(output.generated.mean((0, 1)))
            distance = (cut_patches(values.double()[None], network.window)[0] - expected).square().nanmean(-1).sqrt()
            by_step = [windows.unsqueeze(-1).expand(expected.shape) for windows in (contrast + 1, distance)]
            return tuple(join_patches(windows, z.shape[1]).numpy() for windows in (*by_step, expected))  # type: ignore[return-value]

        return score

    def _after_training(self, train_part: Observations, validation: Observations) -> None:
        score = self._scorer()

        @torch.no_grad()
        def both(place: tuple[Observations, int]) -> tuple[Floats, Floats]:
            part, i = place
            z = part.read(i)
            contrast, distance, _ = score(z)
            return contrast[np.isfinite(z)], distance[np.isfinite(z)]

        scores = list(parallel_map(both, sample_observations((train_part, validation), MOST_OBSERVATIONS)))
        kinds = (np.concatenate(kind) for kind in zip(*scores, strict=True))
        self.scale_ = np.array([np.quantile(kind, (0.01, 0.99)) for kind in kinds], dtype=np.float64)

    def _extra_state(self) -> dict[str, NDArray[Any]]:
        return {"scores.scale": self.scale_}

    def _restore_extra(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.scale_ = state["scores.scale"]

    def _make_inference(self) -> Callable[[Floats], NetworkOutput]:
        score, share = self._scorer(), self.settings.share

        def infer(z: Floats) -> NetworkOutput:
            contrast, distance, expected = score(z)
            known = np.isfinite(z)
            (low_c, high_c), (low_d, high_d) = self.scale_
            contrastive = share * np.nan_to_num((contrast - low_c) / max(high_c - low_c, 1e-6))
            generative = (1 - share) * np.nan_to_num((distance - low_d) / max(high_d - low_d, 1e-6))
            kinds = (contrastive + generative, contrastive, generative)
            steps, *parts = (step_means(np.where(known, cells, np.nan)) for cells in kinds)
            residuals = (np.where(known, contrast, np.nan), np.abs(z - expected))
            cells = (np.maximum(contrastive, 0.0), np.maximum(generative, 0.0))
            return NetworkOutput(residuals, expected, steps, tuple(parts), cells)

        return infer


class Output(NamedTuple):
    """What the network computes from a batch of subgraphs."""

    own: Tensor  # logits of D for a variable and its own subgraph (batch, window, variable)
    other: Tensor  # logits of D for a variable and the subgraph of another one
    generated: Tensor  # reconstruction of each variable (batch, sample, window, variable, step)


@dataclass(frozen=True)
class SubgraphBatch(Batch):
    """Windows, their graphs, and the subgraphs drawn from them.

    `members` (batch, sample, window, variable, member) holds variables, -1 for none. `other` (batch, sample, window,
    variable) is the variable whose subgraph is the negative one.
    """

    x: Tensor
    known: Tensor
    adjacency: Tensor
    signs: Tensor
    members: Tensor
    other: Tensor


class Network(StoredNames):
    """The encoder and decoder of subgraphs, and one discriminator per sample."""

    stored_names: ClassVar[Mapping[str, str]] = {
        "encoder": "encode", "decoder": "decode", "discriminator": "compare", "discriminator_bias": "offset"
    }  # fmt: skip

    def __init__(self, config: EEGCGS.Config, window: int) -> None:
        super().__init__()
        features = config.features
        self.window, self.neighbours = window, config.neighbours
        self.members, self.share, self.turned = config.subgraph - 1, config.share, config.turned
        self.encoder = nn.Linear(window, features, bias=False)
        self.bias = nn.Parameter(torch.zeros(features))
        self.slope = nn.Parameter(torch.full((1,), 0.25))
        self.decoder = nn.Linear(features, window)
        self.discriminator = nn.Parameter(torch.randn(SAMPLES, features, features) / features)
        self.discriminator_bias = nn.Parameter(torch.zeros(SAMPLES))

    def activate(self, mixed: Tensor) -> Tensor:
        return prelu(mixed + self.bias, self.slope)

    def forward(self, batch: SubgraphBatch) -> Output:
        x, members = batch.x, batch.members
        encoded = self.encoder(x)
        target = torch.arange(x.shape[2]).expand(members.shape[:-1]).unsqueeze(-1)
        nodes = torch.cat([members, target], dim=-1)  # the masked target comes last
        adjacency, present = induced_subgraphs(batch.adjacency, nodes)
        sources = members.clamp_min(0)  # an absent member has no weight in `adjacency`
        signs = batch.signs.unsqueeze(1).expand(-1, SAMPLES, -1, -1, -1).gather(-1, sources)
        # `embedding`, because the gradient of indexing is far slower.
        graph = torch.arange(x.shape[0] * x.shape[1]).view(x.shape[0], 1, x.shape[1], 1, 1)
        visible = embedding(graph * x.shape[2] + sources, encoded.flatten(0, 2)) * signs.unsqueeze(-1)
        embedded = self.activate(adjacency[..., :-1] @ visible)
        generated = self.decoder((adjacency[..., -1:, :] @ embedded).squeeze(-2))
        summary = (embedded * present.unsqueeze(-1)).sum(-2) / present.sum(-1, keepdim=True)
        target_embedding = torch.einsum("bwvf,sfg->bswvg", self.activate(encoded), self.discriminator)
        negative = summary.gather(3, batch.other.unsqueeze(-1).expand(summary.shape))
        bias = self.discriminator_bias.view(1, -1, 1, 1)
        own, other = (((target_embedding * g).sum(-1) + bias).mean(1) for g in (summary, negative))
        return Output(own, other, generated)

    def draw(self, x: Tensor, observed: Tensor, generator: torch.Generator) -> SubgraphBatch:
        return self.sample(x, observed, torch.rand(self.uniform_shape(*x.shape), generator=generator))

    def uniform_shape(self, batch: int, variables: int, time: int) -> tuple[int, ...]:
        """Return the shape of the random numbers that `sample` needs."""
        return (batch, SAMPLES, -(-time // self.window), variables, 1 + 4 * (self.members + 1))

    def sample(self, x: Tensor, observed: Tensor, uniform: Tensor) -> SubgraphBatch:
        """Return the graphs of the windows of x (batch, variable, time), in z units, and the subgraphs that random
        numbers between 0 and 1 select."""
        seen, count = torch.where(observed, squash(x), 0.0), x.shape[1]
        windows, known = cut_patches(seen, self.window), cut_patches(observed, self.window)
        adjacency, signs, nearest = correlations(windows, known, self.neighbours)
        visited = random_walk(nearest.unsqueeze(1).expand(-1, SAMPLES, -1, -1, -1), uniform[..., 1:], RESTART)
        shift = 1 + (uniform[..., 0] * (count - 1)).long().clamp_max(count - 2)
        other = (torch.arange(count) + shift) % count
        signs = signs if self.turned else torch.ones_like(signs)
        return SubgraphBatch(windows, known, adjacency, signs, first_distinct(visited, self.members), other)

    def losses(self, batch: SubgraphBatch) -> dict[str, Tensor]:
        """Return the cross entropy of the discriminators and the squared error of the reconstructions, weighted."""
        x, known = batch.x, batch.known
        output = self(batch)
        error = torch.where(known.unsqueeze(1), output.generated - x.unsqueeze(1), 0.0).square() / SAMPLES
        contrast = masked_mean((softplus(-output.own) + softplus(output.other)) / 2, known.any(-1))
        generation = error.sum((1, 2, 3, 4)) / known.sum((1, 2, 3)).clamp_min(1)
        return {"contrast": self.share * contrast, "generation": (1 - self.share) * generation}


def correlations(x: Tensor, known: Tensor, neighbours: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the graph of correlations of x (batch, window, variable, step).

    Returns A and the signs of the correlations, both (batch, window, variable, variable), and the neighbours of each
    variable (batch, window, variable, neighbour), the most correlated first. A constant variable has no correlation.
    """
    mean = torch.where(known, x, 0.0).sum(-1, keepdim=True) / known.sum(-1, keepdim=True).clamp_min(1)
    centred = torch.where(known, x - mean, 0.0)
    norm = torch.linalg.vector_norm(centred, dim=-1, keepdim=True)
    direction = centred / torch.where(norm > 1e-6, norm, torch.inf)
    correlation = direction @ direction.mT
    strength = correlation.abs()
    own = torch.eye(x.shape[2], dtype=torch.bool)
    nearest = strength.masked_fill(own, -1.0).topk(min(neighbours, x.shape[2] - 1), dim=-1).indices
    chosen = torch.zeros_like(strength).scatter(-1, nearest, 1.0)
    adjacency = torch.where(own, 1.0, strength * torch.maximum(chosen, chosen.mT))
    return adjacency, torch.where(correlation < 0, -1.0, 1.0), nearest


def random_walk(nearest: Tensor, uniform: Tensor, restart: float) -> Tensor:
    """Walk from each node along edges `nearest` (..., node, neighbour), returning to it with probability `restart`.

    Random numbers `uniform` (..., node, step) between 0 and 1 decide. Returns the node at each step (..., node, step),
    -1 where that is the start.
    """
    *_, count, neighbours = nearest.shape
    start = torch.arange(count).expand(nearest.shape[:-1])
    node, visited = start, []
    for draw in uniform.unbind(-1):
        edge = ((draw - restart) / (1 - restart) * neighbours).long().clamp(0, neighbours - 1)
        following = nearest.flatten(-2).gather(-1, node * neighbours + edge)
        node = torch.where(draw < restart, start, following)
        visited.append(torch.where(node == start, -1, node))
    return torch.stack(visited, dim=-1)


def first_distinct(visited: Tensor, count: int) -> Tensor:
    """Return the first `count` distinct nodes of a walk (..., step), padded with -1."""
    skipped = (visited.unsqueeze(-1) == visited.unsqueeze(-2)).tril(-1).any(-1) | (visited < 0)
    order = skipped.to(torch.int8).sort(dim=-1, stable=True)
    return torch.where(order.values > 0, -1, visited.gather(-1, order.indices))[..., :count]


def induced_subgraphs(adjacency: Tensor, nodes: Tensor) -> tuple[Tensor, Tensor]:
    """Return the adjacency among the given nodes, with rows that sum to 1, and which nodes are present.

    `adjacency` is (batch, window, node, node); `nodes` (batch, sample, window, node, member), -1 for none.
    """
    count, present = adjacency.shape[-1], nodes >= 0
    index = nodes.clamp_min(0)
    pairs = index.unsqueeze(-1) * count + index.unsqueeze(-2)
    both = present.unsqueeze(-1) & present.unsqueeze(-2)
    graphs = adjacency.flatten(-2).unsqueeze(1).expand(-1, nodes.shape[1], -1, -1)
    induced = torch.where(both, graphs.gather(-1, pairs.flatten(3)).view(pairs.shape), 0.0)
    return induced / induced.sum(-1, keepdim=True).clamp_min(1e-6), present
