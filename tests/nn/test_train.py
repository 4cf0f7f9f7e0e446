import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import Denoiser, OnlyX, Waves, weights
from torch import Tensor, nn

from tsadc.errors import ConfigError, DataError, ModelFileError, TsadcError
from tsadc.nn import losses
from tsadc.nn.randomness import derive_seed
from tsadc.nn.train import History, Training, TrainingProgress, parameter_groups, rate, train
from tsadc.series import Observations, Place, Series

CONFIG = Training(epochs=5, batch=3, micro_batch=2, learning_rate=0.01, warmup_epochs=1, ema=0.6)


def halt(epoch: int, update: int) -> Callable[[TrainingProgress], None]:
    """A progress callback that interrupts training within an epoch."""

    def progress(now: TrainingProgress) -> None:
        if (now.epoch, now.update) == (epoch, update):
            raise KeyboardInterrupt

    return progress


def assert_same_bits(network: nn.Module, other: nn.Module) -> None:
    expected = weights(other)
    for name, tensor in weights(network).items():
        assert torch.equal(tensor, expected[name]), name


@given(warmup=st.integers(0, 20), rest=st.integers(1, 50))
def test_rate_rises_linearly_and_falls_as_a_cosine(warmup: int, rest: int) -> None:
    rates = [rate(update, warmup=warmup, updates=warmup + rest) for update in range(warmup + rest)]
    assert rates[:warmup] == pytest.approx([(i + 1) / warmup for i in range(warmup)])
    assert rates[warmup:] == pytest.approx([math.cos(math.pi * i / rest / 2) ** 2 for i in range(rest)])


def test_updates_are_adamw_written_out() -> None:
    """Three updates of batches 3, 3 and a ragged 1 two groups, warm-up, clipping and decay, against the formulas."""

    class Grouped(Denoiser):
        def parameter_groups(self, config: Training) -> list[dict[str, object]]:
            return parameter_groups(self, config, ssm=[self.mix.weight])

    config = Training(
        epochs=1, batch=3, learning_rate=0.05, ssm_learning_rate=0.01, weight_decay=0.1, warmup_epochs=5, clip=0.5
    )
    network, reference, source = Grouped(), Grouped(), Waves(7)
    train(network, source, None, config, seed=2)

    order = torch.randperm(7, generator=torch.Generator().manual_seed(derive_seed(2, 1, losses.SHUFFLE)))
    generator = torch.Generator().manual_seed(derive_seed(2, 1, losses.DRAW))
    shares = [1.0, 1.0, 0.5 * (1 + math.cos(math.pi / 2))]  # warm-up: at most half of 3 updates, rounded down, is one
    parameters = dict(reference.named_parameters())
    first = {name: torch.zeros_like(p) for name, p in parameters.items()}
    second = {name: torch.zeros_like(p) for name, p in parameters.items()}
    for n, (indices, share) in enumerate(zip(order.split(3), shares, strict=True), start=1):
        drawn = losses.draw_batch(reference, source, indices.numpy(), generator)
        loss = sum(reference.losses(drawn).values()).mean()
        gradients = torch.autograd.grad(loss, list(parameters.values()))
        norm = math.sqrt(sum((g**2).sum().item() for g in gradients))
        for (name, p), g in zip(parameters.items(), gradients, strict=True):
            slow = name == "mix.weight"
            lr, decay = (0.01 * share, 0.0) if slow else (0.05 * share, 0.1)
            g = g * min(1.0, 0.5 / norm)
            first[name] = 0.9 * first[name] + 0.1 * g
            second[name] = 0.999 * second[name] + 0.001 * g**2
            ratio = (first[name] / (1 - 0.9**n)) / ((second[name] / (1 - 0.999**n)).sqrt() + 1e-8)
            p.data = p.data - lr * decay * p.data - lr * ratio
    for name, p in network.named_parameters():
        torch.testing.assert_close(p, parameters[name], rtol=1e-5, atol=1e-6)


def test_micro_batches_do_not_change_the_weights() -> None:
    whole, cut = Denoiser(), Denoiser()
    settings = {"epochs": 3, "batch": 4, "learning_rate": 0.01}
    train(whole, Waves(10), Waves(5, seed=1), Training(**settings), seed=0)
    train(cut, Waves(10), Waves(5, seed=1), Training(**settings, micro_batch=1), seed=0)
    for name, tensor in weights(whole).items():
        torch.testing.assert_close(tensor, weights(cut)[name], rtol=0, atol=1e-6)


def test_moving_average_in_closed_form() -> None:
    network = Denoiser()
    path = [weights(network)]
    config = Training(epochs=4, batch=2, learning_rate=0.01, ema=0.3)

    def progress(now: TrainingProgress) -> None:
        if not now.epoch_ended:
            path.append(weights(network))

    train(network, Waves(6), None, config, seed=0, progress=progress)
    decays = np.array([min(0.3, (1 + n) / (10 + n)) for n in range(12)])
    after = np.append(np.cumprod(decays[::-1])[::-1], 1.0)  # product of the decays of all later updates
    shares = after * np.append(1.0, 1 - decays)
    assert shares.sum() == pytest.approx(1)
    for name, tensor in weights(network).items():
        expected = sum(share * state[name] for share, state in zip(shares, path, strict=True))
        torch.testing.assert_close(tensor, expected, rtol=1e-5, atol=1e-6)


class Level(nn.Module):
    """One weight that follows the data's mean: validation data on its way makes the validation loss fall, then rise."""

    def __init__(self) -> None:
        super().__init__()
        self.level = nn.Parameter(torch.zeros(()))

    def draw(self, x: Tensor, observed: Tensor, generator: torch.Generator) -> OnlyX:
        return OnlyX(x)

    def losses(self, batch: OnlyX) -> dict[str, Tensor]:
        return {"distance": ((batch.x - self.level) ** 2).mean((1, 2))}


class Constant:
    def __init__(self, value: float, count: int = 4) -> None:
        self.values = np.full((count, 1, 3), value, dtype=np.float32)

    def __len__(self) -> int:
        return len(self.values)

    def batch(self, indices: np.ndarray) -> np.ndarray:
        return self.values[indices]


def test_early_stopping_keeps_the_best_weights() -> None:
    network, levels = Level(), []
    config = Training(epochs=40, batch=4, learning_rate=0.02, weight_decay=0.0, warmup_epochs=0, patience=4)

    def progress(now: TrainingProgress) -> None:
        if now.epoch_ended:
            levels.append(network.level.item())

    history = train(network, Constant(1.0), Constant(0.1), config, seed=0, progress=progress)
    losses = (np.array(levels) - 0.1) ** 2
    best = int(losses.argmin())
    assert 0 < best < 35
    assert history.best.number == best + 1
    assert history.best.validation == pytest.approx(losses[best], rel=1e-4)
    assert len(history.epochs) == best + 1 + 4
    assert history.stopped_early
    assert network.level.item() == levels[best]
    assert not network.training
    assert network.level.grad is None


def test_patience_zero_never_stops_but_still_keeps_the_best() -> None:
    config = Training(epochs=30, batch=4, learning_rate=0.02, weight_decay=0.0, warmup_epochs=0, patience=0)
    network = Level()
    history = train(network, Constant(1.0), Constant(0.1), config, seed=0)
    assert len(history.epochs) == 30
    assert not history.stopped_early
    assert history.best.number < 30
    assert (network.level.item() - 0.1) ** 2 == pytest.approx(history.best.validation, rel=1e-4)


@pytest.mark.parametrize("ema", [0.0, 0.9])
def test_the_weights_kept_are_those_validated(ema: float) -> None:
    network, validation = Denoiser(dropout=0.3), Waves(5, seed=1)
    config = Training(epochs=6, batch=2, learning_rate=0.05, ema=ema)
    history = train(network, Waves(6), validation, config, seed=4)
    means = losses.evaluate(network, validation, seed=4, batch=2)
    assert sum(means.values()) == history.best.validation == min(epoch.validation for epoch in history.epochs)


@pytest.mark.parametrize("ema", [0.0, 0.6])
@pytest.mark.parametrize("validation", [None, Waves(4, seed=1)])
def test_a_resumed_run_ends_with_the_same_bits(tmp_path: Path, ema: float, validation: Waves | None) -> None:
    config = Training(epochs=5, batch=3, micro_batch=2, learning_rate=0.01, warmup_epochs=2, ema=ema)
    path = tmp_path / "folder" / "run.safetensors"
    whole = Denoiser(dropout=0.3)
    expected = train(whole, Waves(8), validation, config, seed=7)
    with pytest.raises(KeyboardInterrupt):
        train(Denoiser(dropout=0.3), Waves(8), validation, config, seed=7, progress=halt(3, 8), checkpoint=path)

    torch.rand(5)
    resumed, first = Denoiser(dropout=0.3, seed=99), []
    history = train(resumed, Waves(8), validation, config, seed=7, progress=first.append, checkpoint=path, resume=True)
    assert (first[0].epoch, first[0].update, first[0].updates) == (3, 7, 15)
    assert_same_bits(resumed, whole)
    untimed = [{**epoch, "seconds": 0} for epoch in history.as_dict()["epochs"]]
    assert untimed == [{**epoch, "seconds": 0} for epoch in expected.as_dict()["epochs"]]


KILLED = """
import os, signal, sys
from pathlib import Path
from tiny import Denoiser, OnlyX, Waves
from tsadc.nn.train import Training, train

config = Training(epochs=5, batch=3, micro_batch=2, learning_rate=0.01, warmup_epochs=1, ema=0.6)
replace, written = os.replace, []

def replace_or_die(*names):
    written.append(names)
    if sys.argv[2] == "writing" and len(written) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(*names)

def progress(now):
    if sys.argv[2] == "training" and now.update == 8:
        os.kill(os.getpid(), signal.SIGKILL)

os.replace = replace_or_die
data = Waves(8), Waves(4, seed=1)
train(Denoiser(dropout=0.3), *data, config, seed=7, progress=progress, checkpoint=Path(sys.argv[1]))
"""


@pytest.mark.parametrize("moment", ["training", "writing"])
def test_a_killed_process_can_be_resumed(tmp_path: Path, moment: str) -> None:
    path = tmp_path / "run.safetensors"
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(path), moment],
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]), "OMP_NUM_THREADS": "1"},
        timeout=100,
    )
    assert killed.returncode == -signal.SIGKILL
    whole, resumed = Denoiser(dropout=0.3), Denoiser(dropout=0.3)
    data = Waves(8), Waves(4, seed=1)
    train(whole, *data, CONFIG, seed=7)
    started: list[TrainingProgress] = []
    train(resumed, *data, CONFIG, seed=7, progress=started.append, checkpoint=path, resume=True)
    assert started[0].epoch == 3
    assert_same_bits(resumed, whole)
    assert [file.name for file in tmp_path.iterdir() if not file.name.startswith(".")] == ["run.safetensors"]


def test_a_finished_run_is_returned_at_once(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    network, again, source = Denoiser(), Denoiser(seed=3), Waves(8)
    # Resuming without a checkpoint starts from the beginning.
    history = train(network, source, Waves(4), CONFIG, seed=7, checkpoint=path, resume=True)
    reads = source.reads
    assert train(again, source, Waves(4), CONFIG, seed=7, checkpoint=path, resume=True) == history
    assert source.reads == reads
    assert_same_bits(again, network)
    assert not again.training


def test_another_run_is_not_resumed(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"

    def resume(
        network: nn.Module | None = None, count: int = 8, seed: int = 7, data: str = "a", **settings: object
    ) -> History:
        config = Training(**{"epochs": 1, "batch": 4, **settings})
        return train(
            network or Denoiser(),
            Waves(count),
            None,
            config,
            seed=seed,
            checkpoint=path,
            resume=True,
            fingerprint={"data": data},
        )

    resume()
    with pytest.raises(ConfigError, match=r"\(training\.epochs was 1 and is now 2\)"):
        resume(epochs=2)
    with pytest.raises(ConfigError, match=r"\(training\.clip was 1\.0 and is now 0\.5\)"):
        resume(clip=0.5)
    with pytest.raises(ConfigError, match=r"\(seed was 7 and is now 8\)"):
        resume(seed=8)
    with pytest.raises(ConfigError, match=r"\(observations was 8 and is now 9\)"):
        resume(count=9)
    with pytest.raises(ConfigError, match=r"\(fingerprint\.data was 'a' and is now 'b'\)"):
        resume(data="b")
    with pytest.raises(ConfigError, match=r"network\.level was None and is now \[\]"):
        resume(network=Level())
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ModelFileError, match="damaged"):
        resume()


def test_tied_and_complex_weights_are_trained_and_resumed(tmp_path: Path) -> None:
    class Tied(Level):
        def __init__(self) -> None:
            super().__init__()
            self.same = self.level
            self.pole = nn.Parameter(torch.tensor([0.5 + 0.5j]))
            self.register_buffer("fixed", torch.tensor([True]))

        def losses(self, batch: OnlyX) -> dict[str, Tensor]:
            distance = super().losses(batch)["distance"]
            return {"distance": distance, "pole": self.pole.abs().square().expand(len(distance))}

    whole, resumed = Tied(), Tied()
    path = tmp_path / "run.safetensors"
    history = train(whole, Constant(1.0), Constant(0.9), CONFIG, seed=0)
    with pytest.raises(KeyboardInterrupt):
        train(Tied(), Constant(1.0), Constant(0.9), CONFIG, seed=0, progress=halt(3, 5), checkpoint=path)
    train(resumed, Constant(1.0), Constant(0.9), CONFIG, seed=0, checkpoint=path, resume=True)
    assert_same_bits(resumed, whole)
    assert resumed.same is resumed.level
    assert history.epochs[-1].loss < history.epochs[0].loss
    assert abs(whole.pole.item()) < abs(0.5 + 0.5j)


def test_the_same_seed_gives_the_same_weights_and_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    networks = [Denoiser(dropout=0.3) for _ in range(3)]
    torch.manual_seed(0)
    for network, seed in zip(networks, (1, 1, 2), strict=True):
        train(network, Waves(6), Waves(3), Training(epochs=2), seed=seed)
    assert torch.equal(torch.rand(3), expected)
    assert_same_bits(networks[0], networks[1])
    assert not torch.equal(networks[0].mix.weight, networks[2].mix.weight)


def test_progress_counts_every_update_and_estimates_the_time_left() -> None:
    reports: list[TrainingProgress] = []
    config = Training(epochs=3, batch=3)
    history = train(Denoiser(), Waves(7), Waves(3), config, seed=0, progress=reports.append)
    assert [(now.epoch, now.update, now.epoch_ended) for now in reports] == [
        (epoch, 3 * (epoch - 1) + min(n, 3), n == 4) for epoch in (1, 2, 3) for n in (1, 2, 3, 4)
    ]
    assert {(now.epochs, now.updates) for now in reports} == {(3, 9)}
    assert reports[0].validation is None
    ended = [now for now in reports if now.epoch_ended]
    assert [now.validation for now in ended] == [epoch.validation for epoch in history.epochs]
    assert [now.loss for now in ended] == [epoch.loss for epoch in history.epochs]
    assert ended[-1].best == history.best.validation == min(epoch.validation for epoch in history.epochs)
    assert ended[1].loss == pytest.approx(sum(ended[1].parts.values()))
    assert ended[1].seconds == pytest.approx(sum(epoch.seconds for epoch in history.epochs[:2]))
    assert ended[1].seconds_left == pytest.approx(ended[1].seconds / 6 * 3)
    assert ended[-1].seconds_left == 0


def test_history_is_ready_for_json_and_holds_the_mean_over_observations() -> None:
    """With a learning rate too small to move anything, the ragged epoch's loss is the plain mean."""
    values = np.array([1.0, 2.0, 3.0, 4.0], dtype=np.float32)
    source = Constant(0.0)
    source.values = values[:, None, None] * np.ones((1, 1, 2), dtype=np.float32)
    history = train(Level(), source, None, Training(epochs=2, batch=3, learning_rate=1e-12), seed=0)
    assert history.epochs[0].loss == pytest.approx((values**2).mean())
    record = json.loads(json.dumps(history.as_dict()))
    assert record["best_epoch"] == 2
    assert record["epochs"][0]["parts"] == {"distance": pytest.approx(7.5)}
    assert record["epochs"][1]["validation"] is None
    assert not record["stopped_early"]


@pytest.mark.parametrize(("train_value", "validation_value"), [(1e30, 0.0), (1.0, 1e30)])
def test_a_loss_that_overflows_stops_with_advice(train_value: float, validation_value: float) -> None:
    with pytest.raises(TsadcError, match=r"loss became inf in epoch 1 .* lower the learning rate, now 0\.0008"):
        train(Level(), Constant(train_value), Constant(validation_value), Training(epochs=2), seed=0)


def test_observations_are_a_source() -> None:
    values = np.sin(np.arange(40.0))[:, None] * np.array([1.0, 2.0])
    places = tuple(Place(0, start) for start in range(0, 40, 8))
    observations = Observations((Series(values, ("a", "b")),), places, 8)
    history = train(Denoiser(), observations, observations, Training(epochs=8, batch=2, learning_rate=0.02), seed=0)
    assert history.best.validation < history.epochs[0].validation


def test_parameter_groups_must_be_complete() -> None:
    class Forgetful(Denoiser):
        def parameter_groups(self, config: Training) -> list[dict[str, object]]:
            return [{"params": [self.out.weight]}]

    with pytest.raises(ValueError, match="every trained parameter"):
        train(Forgetful(), Waves(3), None, CONFIG, seed=0)


def test_frozen_parameters_stay() -> None:
    network = Denoiser()
    network.out.weight.requires_grad_(False)
    before = weights(network)
    train(network, Waves(6), None, CONFIG, seed=0)
    assert torch.equal(network.out.weight, before["out.weight"])
    assert not torch.equal(network.mix.weight, before["mix.weight"])


@pytest.mark.parametrize(
    "settings",
    [
        {"epochs": 0},
        {"batch": 0},
        {"micro_batch": 0},
        {"learning_rate": 0.0},
        {"learning_rate": math.nan},
        {"ssm_learning_rate": -1.0},
        {"weight_decay": -1.0},
        {"warmup_epochs": -1},
        {"patience": -1},
        {"clip": math.inf},
        {"ema": 1.0},
    ],
)
def test_settings_out_of_range_are_named(settings: dict[str, float]) -> None:
    (name,) = settings
    with pytest.raises(ConfigError, match=f"`{name}` must be"):
        Training(**settings)


def test_bad_calls_are_refused() -> None:
    with pytest.raises(DataError, match="training part holds no observation"):
        train(Denoiser(), Waves(0), None, CONFIG, seed=0)
    with pytest.raises(DataError, match="validation part holds no observation"):
        train(Denoiser(), Waves(3), Waves(0), CONFIG, seed=0)
    with pytest.raises(ConfigError, match="seed"):
        train(Denoiser(), Waves(3), None, CONFIG, seed=-1)
    with pytest.raises(ConfigError, match="name that file"):
        train(Denoiser(), Waves(3), None, CONFIG, seed=0, resume=True)


def test_a_network_that_wants_to_know_is_told_of_every_epoch_also_when_resumed(tmp_path: Path) -> None:
    class Told(Denoiser):
        def begin_epoch(self, number: int) -> None:
            told.append(number)

    told: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        train(Told(), Waves(6), None, CONFIG, seed=1, checkpoint=tmp_path / "run", progress=halt(3, 5))
    assert told == [1, 2, 3]
    train(Told(), Waves(6), None, CONFIG, seed=1, checkpoint=tmp_path / "run", resume=True)
    assert told == [1, 2, 3, 3, 4, 5]
