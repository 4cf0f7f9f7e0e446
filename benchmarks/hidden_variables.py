"""Predict hidden variables: does a network that is asked this add to the ensemble?

    python benchmarks/hidden_variables.py --out FOLDER                        # every protocol, seeds 0, 1 and 2
    python benchmarks/hidden_variables.py --out FOLDER plant skab --seeds 3 4

Whole variables are hidden for a whole observation and predicted from the other variables and from time. The residual,
in z units, is what the network knows and the values alone do not show.

    network     S4 along time for each variable, then the paper's graph and a GIN between the variables, twice; an
                embedding per variable and per entity of the training part; no predicted scale
    training    hide one to a quarter of the judged variables at random; smooth L1 loss of the hidden cells on z clipped
                at 10, in random pieces of long observations; early stopping on held-out unlabelled observations
    folds       two networks, each trained on every second of four contiguous blocks of an entity's history; a training
                observation is scored by the network that has not seen its block, a test observation by both
    scoring     every judged variable is hidden once per network: alone if there are few, in random groups of a ninth
                if there are many, of a quarter if observations are large

Variables with at most 10 distinct training values are shown, but neither hidden nor judged, unless all are such. No
label reaches training, early stopping or a scale. The sizes of network and training were chosen by the validation loss
on the plant and SMD; small groups and the scaled scores also after a look at one draw of the plant and at SKAB.

Each run writes its residuals to FOLDER/residuals and its scores to FOLDER, both as PROTOCOL-DRAW-SEED.npz. Files that
are there are not made again; without its file of scores, a run is only pooled anew. The draw is the seed, unless a
protocol has one draw only. For the parts `train` and `test`, and `history` if the task has one, the scores are, in the
order in which the library cuts observations,

| entry | meaning |
|---|---|
| `PART_entity` | the entity of each observation |
| `PART_max`, `PART_peak`, `PART_rms` | maximum, 99 % quantile and mean over the steps of the size of a step |
| `PART_max_centred`, ... | the same, after each variable's median residual over the observation is subtracted |
| `PART_max_scaled`, `PART_max_scaled_centred`, ... | residuals relative to their usual size, see `Usual` |
| `test_labels` | whether each test observation is anomalous |
| `losses`, `validation_losses` | (fold, epoch), NaN after the last epoch of a fold |
| `epochs`, `training_seconds`, `seconds` | of each fold; of training, and with scoring |

The size of a step is the mean of its max(3, K/6) largest absolute residuals, K judged variables; a test observation has
the mean absolute residual of both networks. A task with a history is scored with the statistics of that history, as by
`Detector.adapt`; of a known entity, `history` holds the training part alone. For `tsb-dev` there is a file per series
with the size of each row, `test_rows` and so on, and `row_labels`. Standard output gets one line of JSON per run with
what each score measures alone; `results/hidden-variables.jsonl` keeps such lines.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from tsadc.atomic import write_file
from tsadc.data.catalogue import draw, find
from tsadc.data.row_labels import tsb_series
from tsadc.data.task import RowTask, Task
from tsadc.detectors.classical.robust_z import RobustZ
from tsadc.evaluate.ranking import auroc, average_precision
from tsadc.evaluate.volume import volume_tsb
from tsadc.io.memory import as_series
from tsadc.nn.graph import GIN, AttentionGraph
from tsadc.nn.inputs import masked_mean, squash
from tsadc.nn.layers import Pointwise
from tsadc.nn.runtime.allocator import keep_freed_memory
from tsadc.nn.s4 import S4, ssm_parameters
from tsadc.nn.train import History, Training, parameter_groups, train
from tsadc.nn.trainable import Batch
from tsadc.scale import Scaler
from tsadc.series import Floats, Observations
from tsadc.windows import cut

TSB_DEV, TSB_LENGTH = "tsb-dev", 100
# From the cheapest to the dearest. Audit needs the networks of causal and is written with it.
NAMES = (
    "plant", "skab", "batadal", "gecco", "ludb", "cinc", "plant-process", "plant-telemetry", "sleep", "smd-causal",
    "smd-unseen", TSB_DEV,
)  # fmt: skip
ONE_DRAW = ("skab", "batadal", "gecco", "smd-causal")
MOST_DISTINCT = 10  # a variable with no more values is not judged
FOLDS, BLOCKS = 2, 4
HIDDEN_SHARE = 0.25
UNKNOWN_SHARE = 0.2  # of the training samples have no entity, so that the network learns to do without
INPUT_LIMIT, TARGET_LIMIT = 10.0, 30.0  # of z
SMALL = 2000  # cells of a training sample; with more, a network has fewer features and fewer updates, for speed
FEATURES, FEWER_FEATURES = 24, 12
UPDATES, FEWER_UPDATES = 2000, 1000
TSB_UPDATES = 300  # for each of 32 short series
LAYERS, STATE = 2, 16
BATCH, EPOCH = 8, 256
PIECE_CELLS, SHORTEST_PIECE = 1600, 128
VALIDATION_SHARE, LEAST_VALIDATION = 0.15, 64
MOST_PASSES, LARGE = 9, 20_000  # groups at scoring, about; an observation with more cells has groups of a quarter
PASS_CELLS = 2**17  # of one forward pass in scoring
LEAST_HISTORY = 5  # observations of an entity for a scale of its own
LEAST_SIZE = 0.1  # added to the usual size of a residual, in z units

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class HiddenBatch(Batch):
    """`z` and `measured` are (batch, variable, time), `hidden` is (batch, variable), `entity` is (batch,)."""

    z: Tensor
    measured: Tensor
    hidden: Tensor
    entity: Tensor


class Predictor(nn.Module):
    """Predict hidden variables, each from the messages of the others along a learned graph.

    Args:
        variables: Number of variables.
        entities: Number of known entities; they have the numbers 1, 2, ...
        judged: The variables that may be hidden.
        features: Features of a variable at a time step.
        piece: Time steps of a training sample.
    """

    def __init__(self, variables: int, entities: int, judged: Indices, features: int, piece: int) -> None:
        super().__init__()
        self.judged, self.features, self.piece = torch.from_numpy(judged), features, piece
        self.value_proj = Pointwise(3, features)
        self.variable_embedding = nn.Parameter(0.3 * torch.randn(variables, features))
        self.entity_embedding = nn.Parameter(torch.zeros(entities, variables, features))
        self.layers = nn.ModuleList(S4(features, state=STATE, kernel="diagonal") for _ in range(LAYERS))
        self.projections = nn.ModuleList(Pointwise(features, features) for _ in range(LAYERS))
        self.graphs = nn.ModuleList(AttentionGraph(features, zeta=0.1) for _ in range(LAYERS))
        self.gins = nn.ModuleList(GIN(features, layers=1) for _ in range(LAYERS))
        self.output_weight = nn.Parameter(0.1 * torch.randn(variables, features) / features**0.5)
        self.output_bias = nn.Parameter(torch.zeros(variables))
        # The layers normalise over their features, so large values pass a linear map beside them.
        self.linear = nn.Parameter(torch.zeros(variables, variables))

    def forward(self, z: Tensor, shown: Tensor, entity: Tensor) -> Tensor:
        """Return predictions in z units, like z (batch, variable, time), from the cells that are `shown`."""
        x = torch.where(shown, z.clamp(-INPUT_LIMIT, INPUT_LIMIT), 0.0)
        batch, variables, steps = x.shape
        known = torch.cat([torch.zeros_like(self.entity_embedding[:1]), self.entity_embedding])[entity]
        embedding = self.variable_embedding + known
        inputs = torch.stack([x / 3, squash(x), shown.to(x.dtype)], dim=2).reshape(-1, 3, steps)
        hidden = self.value_proj(inputs) + embedding.reshape(-1, self.features, 1)
        for s4, projection, graph, gin in zip(self.layers, self.projections, self.graphs, self.gins, strict=True):
            hidden = hidden + projection(s4(hidden))
            nodes = hidden.view(batch, variables, self.features, steps)
            hidden = hidden + gin(nodes, graph(nodes.mean(-1) + embedding)).reshape(-1, self.features, steps)
        nodes = hidden.view(batch, variables, self.features, steps)
        read = torch.einsum("bkft,kf->bkt", nodes, self.output_weight) + self.output_bias.unsqueeze(-1)
        out: Tensor = read + self.linear @ x
        return out

    def draw(self, x: Tensor, observed: Tensor, generator: torch.Generator) -> HiddenBatch:
        """Draw a piece of each observation and the variables to hide. The last row of `x` is the entity's number."""
        z, measured, entity = x[:, :-1], observed[:, :-1], x[:, -1, 0].long()
        batch, variables, steps = z.shape
        start = torch.randint(steps - self.piece + 1, (batch, 1, 1), generator=generator)
        rows = (start + torch.arange(self.piece)).expand(batch, variables, self.piece)
        count = torch.randint(1, group_size(len(self.judged)) + 1, (batch, 1), generator=generator)
        order = torch.rand(batch, len(self.judged), generator=generator).argsort(1)
        hidden = torch.zeros(batch, variables, dtype=torch.bool)
        hidden[:, self.judged] = order < count
        known = torch.rand(batch, generator=generator) >= UNKNOWN_SHARE
        return HiddenBatch(z.gather(2, rows), measured.gather(2, rows), hidden, torch.where(known, entity, 0))

    def losses(self, batch: HiddenBatch) -> dict[str, Tensor]:
        """Return the smooth L1 loss of the hidden cells, (batch,)."""
        hidden = batch.hidden.unsqueeze(-1)
        prediction = self(batch.z, batch.measured & ~hidden, batch.entity)
        target = batch.z.clamp(-INPUT_LIMIT, INPUT_LIMIT)
        loss = F.smooth_l1_loss(prediction, target, reduction="none")
        return {"hidden": masked_mean(loss, batch.measured & hidden)}

    def parameter_groups(self, config: Training) -> list[dict[str, Any]]:
        return parameter_groups(self, config, ssm_parameters(self))


@dataclass(frozen=True)
class Samples:
    """Observations to train on, with the number of their entity as a last row; few are repeated to `least`."""

    z: Floats
    entity: Indices
    least: int

    def __len__(self) -> int:
        return max(len(self.z), self.least)

    def batch(self, indices: Indices) -> Floats:
        chosen = indices % len(self.z)
        z = self.z[chosen]
        entity = np.broadcast_to(self.entity[chosen, None, None], (len(z), 1, z.shape[-1]))
        return np.concatenate([z, entity.astype(np.float32)], axis=1)


@dataclass(frozen=True)
class Part:
    """Observations in z units (observation, variable, time) with their entities."""

    z: Floats
    entity: NDArray[np.str_]

    @classmethod
    def of(cls, observations: Observations, scaler: Scaler) -> Part:
        entities = [observations.entity(i) for i in range(len(observations))]
        return cls(observations.scaled(scaler).batch(range(len(observations))), np.array(entities))


@dataclass(frozen=True)
class Fitted:
    """The networks of the folds, and the fold of each training observation: its network has not seen it."""

    networks: list[Predictor]
    histories: list[History]
    fold: Indices
    names: NDArray[np.str_]
    judged: Indices

    def record(self) -> dict[str, NDArray[Any]]:
        """Return the entries that describe the training."""
        return {
            "judged": self.judged,
            "epochs": np.array([len(history.epochs) for history in self.histories]),
            "losses": _losses(self.histories, "loss"),
            "validation_losses": _losses(self.histories, "validation"),
        }

    def residuals(self, part: Part, seed: int, fold: Indices | None = None) -> Floats:
        """Return the residuals (network, observation, judged variable, time), by all networks.

        With `fold` there is one for each observation, by the network of its fold."""
        numbers = numbered(part.entity, self.names)
        networks = [np.full(len(part.z), k) for k in range(FOLDS)] if fold is None else [fold]
        every = [
            [self.residual(int(k), z, int(n), seed) for k, z, n in zip(chosen, part.z, numbers, strict=True)]
            for chosen in networks
        ]
        return np.array(every, dtype=np.float16)

    @torch.no_grad()
    def residual(self, k: int, z: Floats, entity: int, seed: int) -> Floats:
        """Return the residuals (judged variable, time) of one observation by network `k`."""
        groups = grouped(self.judged, z.size, np.random.default_rng([seed, k]))
        values = torch.from_numpy(z)
        measured = torch.isfinite(values)
        shown = measured.repeat(len(groups), 1, 1)
        for number, group in enumerate(groups):
            shown[number, group] = False
        values = torch.where(measured, values, 0.0)
        prediction = np.full_like(z, np.nan)
        together = max(1, PASS_CELLS // values.numel())
        for first in range(0, len(groups), together):
            some = shown[first : first + together]
            predicted = self.networks[k](values.expand_as(some), some, torch.full((len(some),), entity)).numpy()
            for group, own in zip(groups[first : first + together], predicted, strict=True):
                prediction[group] = own[group]
        residual: Floats = (np.clip(z, -TARGET_LIMIT, TARGET_LIMIT) - prediction)[self.judged]
        return residual


def group_size(judged: int) -> int:
    """Return how many of the judged variables are hidden at once, at most."""
    return max(1, round(HIDDEN_SHARE * judged))


def grouped(judged: Indices, cells: int, generator: np.random.Generator) -> list[Indices]:
    """Divide the judged variables into random groups to hide together: small ones unless observations are large."""
    size = max(1, len(judged) // MOST_PASSES) if cells <= LARGE else group_size(len(judged))
    return np.array_split(generator.permutation(judged), -(-len(judged) // size))


def numbered(entities: NDArray[np.str_], names: NDArray[np.str_]) -> Indices:
    """Return the number of each entity, 1 for the first of the sorted `names`, and 0 if it is not among them."""
    place = np.searchsorted(names, entities).clip(max=len(names) - 1)
    return np.where(names[place] == entities, place + 1, 0)


def judged_variables(series: Sequence[Any]) -> Indices:
    """Return the variables with more than `MOST_DISTINCT` values in the pooled history, or all if there are none."""
    values = np.concatenate([np.asarray(item.values) for item in series])
    distinct = np.array([len(np.unique(column[np.isfinite(column)])) for column in values.T])
    chosen = np.flatnonzero(distinct > MOST_DISTINCT)
    return chosen if len(chosen) else np.arange(values.shape[1])


def folds(entities: NDArray[np.str_]) -> Indices:
    """Return the fold of each observation: the contiguous blocks of an entity's history alternate."""
    fold = np.zeros(len(entities), dtype=np.int64)
    for entity in np.unique(entities):
        own = np.flatnonzero(entities == entity)
        fold[own] = np.arange(len(own)) * BLOCKS // max(BLOCKS, len(own)) % FOLDS
    return fold


def fit(part: Part, judged: Indices, seed: int, label: str, most_updates: int = UPDATES) -> Fitted:
    """Train one network per fold, on the observations of the other folds."""
    names, fold = np.unique(part.entity), folds(part.entity)
    numbers = numbered(part.entity, names)
    variables, length = part.z.shape[1:]
    piece = min(length, max(SHORTEST_PIECE, PIECE_CELLS // variables))
    small = variables * piece <= SMALL
    features, updates = (FEATURES, UPDATES) if small else (FEWER_FEATURES, FEWER_UPDATES)
    networks, histories = [], []
    for k in range(FOLDS):
        own = np.random.default_rng([seed, k]).permutation(np.flatnonzero(fold != k))
        count = max(1, round(VALIDATION_SHARE * len(own)))
        held_out, seen = own[:count], own[count:]
        source = Samples(part.z[seen], numbers[seen], EPOCH)
        validation = Samples(part.z[held_out], numbers[held_out], LEAST_VALIDATION)
        config = Training(
            epochs=max(10, round(min(updates, most_updates) * BATCH / len(source))),
            batch=BATCH,
            micro_batch=BATCH,
            learning_rate=6e-3,
            ssm_learning_rate=1e-3,
            weight_decay=1e-2,
            warmup_epochs=2,
            patience=10,
        )
        torch.manual_seed(FOLDS * seed + k)
        network = Predictor(variables, len(names), judged, features, piece)
        history = train(network, source, validation, config, seed=seed)
        best, seconds = history.best, sum(epoch.seconds for epoch in history.epochs)
        print(
            f"{label} fold {k}: {len(history.epochs)} epochs in {seconds:.0f} s, best {best.number} with validation "
            f"loss {best.validation:.4f}, from {history.epochs[0].validation:.4f}",
            file=sys.stderr,
            flush=True,
        )
        networks.append(network)
        histories.append(history)
    return Fitted(networks, histories, fold, names, judged)


def _losses(histories: Sequence[History], name: str) -> Floats:
    """Return a loss of each epoch, (fold, epoch), NaN after the last."""
    out = np.full((len(histories), max(len(history.epochs) for history in histories)), np.nan, dtype=np.float32)
    for row, history in zip(out, histories, strict=True):
        row[: len(history.epochs)] = [getattr(epoch, name) for epoch in history.epochs]
    return out


def drawn(name: str, raw: Path, number: int) -> Task:
    task = draw(name, raw, number)
    assert isinstance(task, Task), f"{name} has labels of rows only"
    return task


def run(name: str, raw: Path, number: int, seed: int) -> dict[str, dict[str, Any]]:
    """Train on a draw of a protocol; return its residuals, and beside causal those of audit."""
    started = time.perf_counter()
    task, length = drawn(name, raw, number), find(name, "benchmark").length
    observations, _, scaler = RobustZ(length=length).prepare(task.train)
    train_part = Part.of(observations, scaler)
    judged = judged_variables(as_series(task.train, length))
    fitted = fit(train_part, judged, seed, f"{name} draw {number} seed {seed}")
    common = fitted.record() | {
        "test_labels": task.answers.labels,
        "training_seconds": time.perf_counter() - started,
        "train_entity": train_part.entity,
        "train": fitted.residuals(train_part, seed, fitted.fold),
    }
    results = {}
    for other in written_with(name):
        results[other] = common | scored(drawn(other, raw, number), fitted, observations, scaler, seed)
        results[other]["seconds"] = time.perf_counter() - started
    return results


def scored(
    task: Task, fitted: Fitted, train_observations: Observations, scaler: Scaler, seed: int
) -> dict[str, NDArray[Any]]:
    """Return the residuals of the test part and of the history, with the statistics of the history if there is one."""
    length = train_observations.length
    history = () if task.history is None else as_series(task.history, length)
    scaler.adapt(history)
    test = Part.of(cut(as_series(task.test, length), length).observations, scaler)
    found = {"test_entity": test.entity, "test": fitted.residuals(test, seed)}
    if history and history[0].entity in fitted.names:
        earlier = Part.of(train_observations, scaler)
        found |= {"history_entity": earlier.entity, "history": fitted.residuals(earlier, seed, fitted.fold)}
    elif history:
        earlier = Part.of(cut(history, length).observations, scaler)
        found |= {"history_entity": earlier.entity, "history": fitted.residuals(earlier, seed)}
    return found


def run_rows(task: RowTask, seed: int) -> dict[str, Any]:
    """Train on the first rows of a series; return the residuals of all of its observations."""
    started = time.perf_counter()
    observations, _, scaler = RobustZ(length=TSB_LENGTH).prepare(task.train)
    part = Part.of(observations, scaler)
    fitted = fit(part, judged_variables([task.train]), seed, f"{task.name} seed {seed}", TSB_UPDATES)
    whole = Part.of(cut([task.series], TSB_LENGTH).observations, scaler)
    residuals = fitted.residuals(whole, seed)
    own = fitted.residuals(part, seed, fitted.fold)
    residuals[:, : len(part.z)] = own
    return fitted.record() | {
        "train": own,
        "train_entity": part.entity,
        "test": residuals,
        "test_entity": whole.entity,
        "row_labels": task.labels,
        "window": task.window,
        "seconds": time.perf_counter() - started,
    }


def pool(found: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the scores of observations, or of rows, from residuals."""
    kept = {key: value for key, value in found.items() if value.ndim < 4}
    history = "history" if "history" in found else "train"
    usual = Usual.of(found[history], found[f"{history}_entity"])
    for part in ("test",) if "row_labels" in found else ("train", "test", "history"):
        if part in found:
            own = Usual.of(found["train"], found["train_entity"]) if part == "train" else usual
            for ending, sizes in steps(found[part].astype(np.float32), own, found[f"{part}_entity"]):
                if "row_labels" in found:
                    rows = len(found["row_labels"])
                    # The last rows may be in no observation; they get the size of the row before them.
                    kept[f"{part}_rows{ending}"] = np.nan_to_num(np.pad(sizes.ravel(), (0, rows), mode="edge")[:rows])
                    continue
                kept[f"{part}_max{ending}"] = np.nanmax(sizes, axis=1)
                kept[f"{part}_peak{ending}"] = np.nanquantile(sizes, 0.99, axis=1).astype(np.float32)
                kept[f"{part}_rms{ending}"] = np.nanmean(sizes, axis=1)
    return kept


@dataclass(frozen=True)
class Usual:
    """The usual size of the residual of each variable, by entity and pooled over all of them."""

    entities: dict[str, Floats]
    pooled: Floats

    @classmethod
    def of(cls, residuals: Floats, entities: NDArray[np.str_]) -> Usual:
        own = {name: entities == name for name in np.unique(entities).tolist()}
        return cls(
            {name: _usual(residuals[:, chosen]) for name, chosen in own.items() if chosen.sum() >= LEAST_HISTORY},
            _usual(residuals),
        )

    def __call__(self, entities: NDArray[np.str_]) -> Floats:
        """Return the sizes (observation, variable, 1)."""
        return np.stack([self.entities.get(name, self.pooled) for name in entities.tolist()])[..., None]


def _usual(residuals: Floats) -> Floats:
    """Return the normal-consistent median absolute residual of each variable; 0 if it was never measured."""
    size = np.nanmedian(np.abs(residuals.astype(np.float32)), axis=(0, 1, 3)) / 0.6745
    return np.nan_to_num(size).astype(np.float32)


def steps(residuals: Floats, usual: Usual, entities: NDArray[np.str_]) -> Iterator[tuple[str, Floats]]:
    """Yield the size of each step (observation, time) with the ending of its name, NaN where nothing was measured."""
    centred = residuals - np.nanmedian(residuals, axis=-1, keepdims=True)
    scale = usual(entities) + LEAST_SIZE
    for ending, cells in (("", residuals), ("_centred", centred)):
        # The mean of absolute residuals, not the residual of a mean: it is as large as that of one network.
        sizes = np.abs(cells).mean(axis=0)
        yield ending, _largest(sizes)
        yield f"_scaled{ending}", _largest(sizes / scale)


def _largest(sizes: Floats) -> Floats:
    """Return the mean of the largest cells of each step of sizes (observation, variable, time)."""
    few = min(sizes.shape[1], max(3, round(sizes.shape[1] / 6)))
    known = np.where(np.isfinite(sizes), sizes, -1.0)
    top = -np.partition(-known, few - 1, axis=1)[:, :few]
    out: Floats = np.nanmean(np.where(top < 0, np.nan, top), axis=1)
    return out


def write(path: Path, found: Mapping[str, Any]) -> None:
    content = io.BytesIO()
    np.savez(content, **found)
    write_file(path, content.getvalue())


def read(path: Path) -> dict[str, NDArray[Any]]:
    with np.load(path, allow_pickle=False) as stored:
        return dict(stored)


def measure(found: Mapping[str, NDArray[Any]]) -> dict[str, float]:
    """Return the AUROC and AP of each score of the test part, or the VUS-PR of its rows."""
    measured = {"seconds": round(float(found["seconds"]), 1)}
    for key in (key for key in found if key.startswith("test_") and found[key].dtype.kind == "f"):
        name, scores = key.removeprefix("test_"), found[key].astype(np.float64)
        if "row_labels" in found:
            measured[f"{name}_vus_pr"] = volume_tsb(found["row_labels"], scores, int(found["window"])).pr
        else:
            measured[f"{name}_auroc"] = auroc(found["test_labels"], scores)
            measured[f"{name}_ap"] = average_precision(found["test_labels"], scores)
    return {name: round(value, 4) for name, value in measured.items()}


def record(path: Path) -> str:
    """Return what a file of scores measures, as one line of JSON."""
    found = read(path)
    validation = np.nanmin(found["validation_losses"], axis=1).astype(np.float64).round(4).tolist()
    return json.dumps(
        {"run": path.stem, "epochs": found["epochs"].tolist(), "validation": validation, **measure(found)}
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Predict hidden variables, and write the residuals as scores.")
    parser.add_argument("names", nargs="*", default=NAMES, metavar="PROTOCOL", help=f"from {', '.join(NAMES)}")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2], help="seeds of the networks and the draws")
    parser.add_argument("--out", type=Path, required=True, help="the folder for the scores")
    parser.add_argument("--raw", type=Path, default=Path(os.environ.get("TSADC_DATA") or "."), help="the data sets")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(NAMES):
        parser.error(f"there is no protocol {', '.join(sorted(unknown))}; choose from {', '.join(NAMES)}")
    keep_freed_memory()
    torch.set_num_threads(1)
    (options.out / "residuals").mkdir(parents=True, exist_ok=True)
    for seed in options.seeds:
        for name in options.names:
            for stem in runs_of(name, seed, options.raw, options.out / "residuals"):
                path = options.out / f"{stem}.npz"
                if not path.exists():
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", RuntimeWarning)  # steps without a measured value
                        write(path, pool(read(options.out / "residuals" / path.name)))
                print(record(path), flush=True)


def runs_of(name: str, seed: int, raw: Path, out: Path) -> Iterator[str]:
    """Yield the name of each file of residuals of a protocol, after it is written unless it is there already."""
    if name == TSB_DEV:
        for task in tsb_series(raw):
            stem = f"{TSB_DEV}-{task.name}-{seed}"
            if not (out / f"{stem}.npz").exists():
                write(out / f"{stem}.npz", run_rows(task, seed))
            yield stem
        return
    number = 0 if name in ONE_DRAW else seed
    stems = [f"{protocol}-{number}-{seed}" for protocol in written_with(name)]
    if not all((out / f"{stem}.npz").exists() for stem in stems):
        for protocol, found in run(name, raw, number, seed).items():
            write(out / f"{protocol}-{number}-{seed}.npz", found)
    yield from stems


def written_with(name: str) -> tuple[str, ...]:
    """Return the protocols that one training serves."""
    return (name, "smd-audit") if name == "smd-causal" else (name,)


if __name__ == "__main__":
    main()
