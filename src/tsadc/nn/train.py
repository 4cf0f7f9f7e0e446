"""The training loop: AdamW, warm-up and cosine schedule, gradient clipping, averaging, early stopping, checkpoints.

A run is a function of (weights, data, configuration, seed). Every epoch seeds its generators from (seed, epoch) alone,
and the learning rate is a function of the update number, so a run resumed after a kill ends with the same bits.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic

import torch
from torch import Tensor, nn

from tsadc.config import require
from tsadc.errors import ConfigError, DataError, ModelFileError, TsadcError
from tsadc.nn import checkpoint as files
from tsadc.nn import losses
from tsadc.nn.randomness import derive_seed
from tsadc.nn.runtime.distributed import World
from tsadc.nn.trainable import B, Source, Trainable


@dataclass(frozen=True)
class Training:
    """Settings of training.

    Parameters
    ----------
    epochs : int, default 100
        Passes over the training data, at most.
    batch : int, default 4
        Observations per update.
    micro_batch : int or None, default None
        Observations that a thread holds in memory at once; None chooses by their size. It changes speed and memory,
        and results only by rounding and dropout.
    learning_rate : float, default 8e-4
        Learning rate of AdamW after the warm-up. It falls to zero as a cosine.
    ssm_learning_rate : float or None, default None
        Learning rate of the state-space parameters of S4 layers; None takes `learning_rate`.
    weight_decay : float, default 5e-3
        Weight decay of AdamW; state-space parameters have none.
    warmup_epochs : int, default 5
        Epochs in which the learning rate rises linearly, at most half of all; 0 for none.
    patience : int, default 20
        Training stops after so many epochs without a lower validation loss; 0 never stops early.
    clip : float, default 1.0
        Largest norm of the gradient; 0 for no limit.
    ema : float, default 0.0
        Decay of an exponential moving average of the weights, which is then what is validated and kept; 0 for none.
    """

    epochs: int = 100
    batch: int = 4
    micro_batch: int | None = None
    learning_rate: float = 8e-4
    ssm_learning_rate: float | None = None
    weight_decay: float = 5e-3
    warmup_epochs: int = 5
    patience: int = 20
    clip: float = 1.0
    ema: float = 0.0

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "micro_batch"):
            self._check(name, "at least 1", lambda value: value >= 1)
        for name in ("learning_rate", "ssm_learning_rate"):
            self._check(name, "positive", lambda value: 0 < value < math.inf)
        for name in ("weight_decay", "warmup_epochs", "patience", "clip"):
            self._check(name, "zero or positive", lambda value: 0 <= value < math.inf)
        self._check("ema", "at least 0 and below 1", lambda value: 0 <= value < 1)

    def _check(self, name: str, expected: str, holds: Callable[[float], bool]) -> None:
        value = getattr(self, name)
        require(value is None or holds(value), name, expected, value)


@dataclass(frozen=True)
class TrainingProgress:
    """The state of a run, reported after every update and, with `epoch_ended`, after an epoch is validated and saved.

    `loss` and its `parts` are means over the epoch so far. `seconds_left` assumes that training does not stop early.
    """

    epoch: int
    epochs: int
    update: int
    updates: int
    loss: float
    parts: dict[str, float]
    validation: float | None
    best: float | None
    seconds: float
    seconds_left: float
    epoch_ended: bool


@dataclass(frozen=True)
class Epoch:
    """One finished epoch: mean losses over its observations, validation loss, last learning rate, duration."""

    number: int
    loss: float
    parts: dict[str, float]
    validation: float | None
    learning_rate: float
    seconds: float


@dataclass(frozen=True)
class History:
    """The epochs of a finished run."""

    epochs: tuple[Epoch, ...]
    stopped_early: bool

    @property
    def best(self) -> Epoch:
        """Return the epoch whose weights were kept."""
        return _best(self.epochs)

    def as_dict(self) -> dict[str, Any]:
        """Return a dictionary that is ready for JSON."""
        return {**asdict(self), "epochs": [asdict(epoch) for epoch in self.epochs], "best_epoch": self.best.number}


def train(
    network: Trainable[B],
    source: Source,
    validation: Source | None,
    config: Training,
    *,
    seed: int,
    progress: Callable[[TrainingProgress], None] | None = None,
    checkpoint: Path | None = None,
    resume: bool = False,
    fingerprint: Mapping[str, Any] | None = None,
) -> History:
    """Train `network` in place.

    It ends in eval mode with the weights of the epoch with the lowest validation loss, or the last ones without
    `validation`.

    Args:
        network: The network.
        source: Observations to train on.
        validation: Observations for early stopping.
        config: Settings.
        seed: Seed of all randomness, zero or positive.
        progress: Called after every update and every epoch.
        checkpoint: A file that is replaced after every epoch.
        resume: Continue from the checkpoint if it exists. It must belong to the same run: the same configuration, seed,
            network and fingerprint.
        fingerprint: Anything else that identifies the run, ready for JSON.

    Returns:
        The history of the run.
    """
    for name, part in (("training", source), ("validation", validation)):
        if part is not None and len(part) == 0:
            raise DataError(f"The {name} part holds no observation; give longer series or shorter observations.")
    if seed < 0:
        raise ConfigError(f"The seed must be zero or positive, but is {seed}.")
    if resume and checkpoint is None:
        raise ConfigError("A run can only be resumed from a checkpoint; name that file.")
    if checkpoint is not None:
        files.prepare(checkpoint)
    world = World.join()
    try:
        run = _Run(network, source, validation, config, seed, world, fingerprint or {})
        if resume and checkpoint is not None and checkpoint.exists():
            run.restore(checkpoint)
        run.align(checkpoint)
        first = world.rank == 0
        while not run.finished:
            run.epoch(progress if first else None, checkpoint if first else None)
        return run.close()
    finally:
        world.leave()


def rate(update: int, *, warmup: int, updates: int) -> float:
    """Return the share of the full learning rate at `update` (from 0): linear warm-up, then a cosine to zero."""
    if update < warmup:
        return (update + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * (update - warmup) / (updates - warmup)))


def parameter_groups(
    network: Trainable[Any], config: Training, ssm: Iterable[nn.Parameter] = ()
) -> list[dict[str, Any]]:
    """Return the groups for AdamW.

    The state-space parameters `ssm` have a learning rate of their own and no weight decay: a time scale or a pole that
    is pulled towards zero does not make a simpler system, but another one.
    """
    dynamics = {id(parameter) for parameter in ssm}
    trained = [parameter for _, parameter in network.named_parameters() if parameter.requires_grad]
    ordinary = [parameter for parameter in trained if id(parameter) not in dynamics]
    state_space = [parameter for parameter in trained if id(parameter) in dynamics]
    groups = [
        {"params": ordinary, "lr": config.learning_rate, "weight_decay": config.weight_decay},
        {"params": state_space, "lr": config.ssm_learning_rate or config.learning_rate, "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


class _Run(Generic[B]):
    """A run: weights, moments of AdamW, moving average, best weights, finished epochs."""

    def __init__(
        self,
        network: Trainable[B],
        source: Source,
        validation: Source | None,
        config: Training,
        seed: int,
        world: World,
        fingerprint: Mapping[str, Any],
    ) -> None:
        self.network, self.source, self.validation = network, source, validation
        self.config, self.seed, self.world = config, seed, world
        # By the names of the state dict, which outlive renamed attributes (`tsadc.nn.stored_names`).
        stored = {id(tensor): name for name, tensor in reversed(network.state_dict(keep_vars=True).items())}
        self.trained = {stored[id(p)]: p for _, p in network.named_parameters() if p.requires_grad}
        self.parameters = list(self.trained.values())
        self.optimizer = _optimizer(network, config, self.parameters)
        self.average = [parameter.detach().clone() for parameter in self.parameters] if config.ema else []
        self.best: dict[str, Tensor] = {}
        self.epochs: list[Epoch] = []
        self.update_number = 0
        self.updates_per_epoch = math.ceil(len(source) / config.batch)
        self.updates = self.updates_per_epoch * config.epochs
        self.identity = {
            "seed": seed,
            "training": asdict(config),
            "observations": len(source),
            "validation observations": 0 if validation is None else len(validation),
            "network": {name: list(tensor.shape) for name, tensor in network.state_dict().items()},
            "fingerprint": dict(fingerprint),
        }

    @property
    def finished(self) -> bool:
        done, patience = len(self.epochs), self.config.patience
        stale = done > 0 and patience > 0 and done - _best(self.epochs).number >= patience
        return done >= self.config.epochs or stale

    def align(self, checkpoint: Path | None) -> None:
        """Give all processes the same weights; raise if they are not at the same epoch."""
        done = len(self.epochs)
        if int(self.world.sum(torch.tensor(done))) != done * self.world.size:
            raise ModelFileError(
                f"Only some processes can read the checkpoint {checkpoint}; put it where all of them can."
            )
        for tensor in (*self.network.state_dict().values(), *self.average):
            self.world.broadcast(tensor)

    def epoch(self, report: Callable[[TrainingProgress], None] | None, checkpoint: Path | None) -> None:
        """Train for one epoch, validate, save the checkpoint and report progress."""
        number, started = len(self.epochs) + 1, time.perf_counter()
        shuffle = torch.Generator().manual_seed(derive_seed(self.seed, number, losses.SHUFFLE))
        generator = torch.Generator().manual_seed(derive_seed(self.seed, number, losses.DRAW))
        order = torch.randperm(len(self.source), generator=shuffle).numpy()
        totals: dict[str, float] = {}
        means: dict[str, float] = {}
        self.network.train()
        begin_epoch = getattr(self.network, "begin_epoch", None)
        if begin_epoch is not None:
            begin_epoch(number)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(self.seed, number, losses.DROPOUT, self.world.rank))
            for first in range(0, len(order), self.config.batch):
                indices = order[first : first + self.config.batch]
                losses.add(totals, self.update(losses.draw_batch(self.network, self.source, indices, generator)))
                means = {name: total / (first + len(indices)) for name, total in totals.items()}
                if report:
                    report(self.progress(number, means, time.perf_counter() - started))
        learning_rate = float(self.optimizer.param_groups[0]["lr"])
        validation = self.validate()
        seconds = time.perf_counter() - started
        self.epochs.append(Epoch(number, sum(means.values()), means, validation, learning_rate, seconds))
        if checkpoint is not None:
            self.save(checkpoint)
        if report:
            report(self.progress(number, means, 0.0, epoch_ended=True))

    def update(self, batch: B) -> dict[str, float]:
        """Take one step of AdamW on the mean loss of a batch, and return the sums of its losses."""
        config = self.config
        self.optimizer.zero_grad(set_to_none=False)
        key = (self.seed, losses.DROPOUT, self.update_number, self.world.rank)
        sums = losses.sum_losses(self.network, batch, config.micro_batch, self.world, backward=True, dropout=key)
        self.world.sum_all(parameter.grad for parameter in self.parameters if parameter.grad is not None)
        self.require_finite("loss", sum(sums.values()))
        norm = nn.utils.clip_grad_norm_(self.parameters, config.clip or math.inf)
        self.require_finite("gradient", float(norm))
        warmup = int(min(config.warmup_epochs, config.epochs / 2) * self.updates_per_epoch)
        share = rate(self.update_number, warmup=warmup, updates=self.updates)
        for group in self.optimizer.param_groups:
            group["lr"] = group["full_lr"] * share
        self.optimizer.step()
        self.update_number += 1
        # A shorter memory at first (TensorFlow's warm-up of the decay), or the random initial weights would linger.
        decay = min(config.ema, self.update_number / (9 + self.update_number))
        for average, parameter in zip(self.average, self.parameters, strict=False):
            average.lerp_(parameter.detach(), 1 - decay)
        return sums

    def require_finite(self, what: str, value: float) -> None:
        if not math.isfinite(value):
            raise TsadcError(
                f"The {what} became {value} in epoch {len(self.epochs) + 1} (update {self.update_number + 1}): lower "
                f"the learning rate, now {self.config.learning_rate:g}, and check the data for extreme values."
            )

    def validate(self) -> float | None:
        """Return the validation loss, of the averaged weights if there are any; keep the best weights so far."""
        if self.validation is None:
            return None
        config, world = self.config, self.world
        with self.averaged():
            means = losses.evaluate(
                self.network,
                self.validation,
                seed=self.seed,
                batch=config.batch,
                micro_batch=config.micro_batch,
                world=world,
            )
            # One value for all: rounding must not make one process stop and another continue.
            loss = float(world.broadcast(torch.tensor(sum(means.values()), dtype=torch.float64)))
            self.require_finite("validation loss", loss)
            if loss < min((done.validation for done in self.epochs if done.validation is not None), default=math.inf):
                self.best = {name: tensor.detach().clone() for name, tensor in self.network.state_dict().items()}
        return loss

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Put the moving average in place of the live weights within the block."""
        live = [parameter.detach().clone() for parameter in self.parameters] if self.average else []
        _copy(self.average, self.parameters)
        try:
            yield
        finally:
            _copy(live, self.parameters)

    def progress(
        self, epoch: int, means: dict[str, float], elapsed: float, epoch_ended: bool = False
    ) -> TrainingProgress:
        seconds = sum(done.seconds for done in self.epochs) + elapsed
        return TrainingProgress(
            epoch=epoch,
            epochs=self.config.epochs,
            update=self.update_number,
            updates=self.updates,
            loss=sum(means.values()),
            parts=means,
            validation=self.epochs[-1].validation if self.epochs else None,
            best=_best(self.epochs).validation if self.epochs else None,
            seconds=seconds,
            seconds_left=0.0 if self.finished else seconds / self.update_number * (self.updates - self.update_number),
            epoch_ended=epoch_ended,
        )

    def save(self, path: Path) -> None:
        moments = {name: self.optimizer.state[parameter] for name, parameter in self.trained.items()}
        tensors = {
            "weights": self.network.state_dict(),
            "exp_avg": {name: state["exp_avg"] for name, state in moments.items()},
            "exp_avg_sq": {name: state["exp_avg_sq"] for name, state in moments.items()},
            "average": dict(zip(self.trained, self.average, strict=False)),
            "best": self.best,
        }
        files.write(path, tensors, {"identity": self.identity, "epochs": [asdict(epoch) for epoch in self.epochs]})

    def restore(self, path: Path) -> None:
        tensors, record = files.read(path)
        files.require_same(record["identity"], self.identity, path)
        self.epochs = [Epoch(**epoch) for epoch in record["epochs"]]
        self.update_number = len(self.epochs) * self.updates_per_epoch
        self.network.load_state_dict(tensors["weights"])
        self.best = tensors.get("best", {})
        for name, average in zip(self.trained, self.average, strict=False):
            average.copy_(tensors["average"][name])
        step = torch.tensor(float(self.update_number))
        for name, parameter in self.trained.items():
            moments = {kind: tensors[kind][name] for kind in ("exp_avg", "exp_avg_sq")}
            self.optimizer.state[parameter] = {"step": step.clone(), **moments}

    def close(self) -> History:
        """Give the network the weights to keep, in eval mode, without gradients."""
        self.network.train()
        if self.best:
            self.network.load_state_dict(self.best)
        else:
            _copy(self.average, self.parameters)
        self.optimizer.zero_grad(set_to_none=True)
        self.network.train(False)
        return History(tuple(self.epochs), stopped_early=len(self.epochs) < self.config.epochs)


def _optimizer(network: Trainable[Any], config: Training, parameters: Sequence[nn.Parameter]) -> torch.optim.AdamW:
    own = getattr(network, "parameter_groups", None)
    groups = own(config) if own else parameter_groups(network, config)
    if {id(p) for group in groups for p in group["params"]} != {id(p) for p in parameters}:
        raise ValueError("parameter_groups must hold every trained parameter of the network, and no other")
    # On a hundred small tensors the fused step is 7 times faster than the loop: 0.6 ms instead of 4 per update.
    fused = not any(parameter.is_complex() for parameter in parameters)
    optimizer = torch.optim.AdamW(groups, lr=config.learning_rate, weight_decay=config.weight_decay, fused=fused)
    for group in optimizer.param_groups:
        group["full_lr"] = group["lr"]
    for parameter in parameters:
        # Never None, so that gradients can be summed over processes and every parameter has moments to save.
        parameter.grad = torch.zeros_like(parameter)
    return optimizer


def _best(epochs: Sequence[Epoch]) -> Epoch:
    """Return the first epoch with the lowest validation loss; without validation, the last epoch."""
    return min(epochs, key=lambda epoch: -epoch.number if epoch.validation is None else epoch.validation)


@torch.no_grad()
def _copy(values: Sequence[Tensor], into: Sequence[Tensor]) -> None:
    """Copy tensor by tensor; do nothing if `values` is empty."""
    for value, target in zip(values, into, strict=False):
        target.copy_(value)
