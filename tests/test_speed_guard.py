"""What an update and a scored observation cost, counted and not timed, so that a loss of speed fails on any machine.

Counted are operations that reach the processor (no views), Fourier transforms, matrix products in floating-point
operations, and bytes of results. A bound is what the code needs today and a tenth more,
unless it follows from the architecture; then the comment says how. Whoever saves something may lower a bound; whoever
must raise one says why in the commit.
"""

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tsadc import TSADC
from tsadc.config import update
from tsadc.detectors.tsadc.inference import RESIDUALS, Inference
from tsadc.detectors.tsadc.network import Network
from tsadc.nn import ssm
from tsadc.nn.operation_counter import TRANSFORMS, OperationCounter
from tsadc.nn.power_series import exponentials, fft_size
from tsadc.nn.train import train

SLACK = 1.1
LENGTH, VARIABLES, BATCH, MASKS = 600, 12, 4, 5
# Near the default: two blocks of two S4 layers, each on 2 x 48 channels, and one on 16 features per variable.
# Written out, so that a bound speaks of the code, and does not move with a setting.
WIDE, FEATURES, BLOCKS, LAYERS = 96, 16, 2, 5
SIZES = {
    "decontaminator": {"channels": WIDE // 2, "blocks": BLOCKS, "state": 32, "kernel": "diagonal"},
    "dependencies": {"features": FEATURES, "layers": 1, "state": 32, "kernel": "diagonal", "graphs": 6},
}


@dataclass(frozen=True)
class Cost:
    operations: int
    transforms: int
    kernels: int
    bytes: int
    copies: int  # bytes of those that only put data in another order
    flops: int

    def __sub__(self, other: "Cost") -> "Cost":
        return Cost(*(getattr(self, name) - getattr(other, name) for name in self.__dataclass_fields__))


class Counting(OperationCounter):
    """Also counts the kernels that are made."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.kernels = 0
        patch.setattr(ssm, "exponentials", self.exponentials)

    @property
    def cost(self) -> Cost:
        transforms = sum(count for name, count in self.calls.items() if name in TRANSFORMS)
        written, copies = self.written.total(), self.written["clone"]
        return Cost(self.calls.total(), transforms, self.kernels, written, copies, self.products)

    def exponentials(self, *given: Any) -> Tensor:
        self.kernels += 1
        return exponentials(*given)


def cost(run: Callable[[], Any]) -> Cost:
    with pytest.MonkeyPatch.context() as patch, Counting(patch) as counting:
        run()
    return counting.cost


def build(variables: int, preset: str = "default", **settings: Any) -> tuple[Network, Any]:
    config = update(TSADC.Config.preset(preset), (SIZES if preset == "default" else {}) | settings)
    return TSADC(config=config)._network(variables), config


class Noise:
    def __init__(self, count: int, variables: int, length: int) -> None:
        self.values = np.random.default_rng(0).standard_normal((count, variables, length)).astype(np.float32)

    def __len__(self) -> int:
        return len(self.values)

    def batch(self, indices: np.ndarray) -> np.ndarray:
        return self.values[indices]


def an_update(variables: int = VARIABLES, length: int = LENGTH, micro_batch: int | None = None) -> Cost:
    """The second one of a run: the first also learns which filters are wanted."""
    return _an_update(variables, length, micro_batch)


@cache
def _an_update(variables: int, length: int, micro_batch: int | None) -> Cost:
    network, config = build(variables, length=length)
    training = replace(config.training, epochs=1, batch=BATCH, micro_batch=micro_batch)
    after: list[Cost] = []
    with pytest.MonkeyPatch.context() as patch, Counting(patch) as counting:
        source = Noise(2 * BATCH, variables, length)
        train(network, source, None, training, seed=0, progress=lambda now: after.append(counting.cost))
    return after[1] - after[0]


@torch.no_grad()
def examine(inference: Inference, observation: np.ndarray) -> None:
    inference(observation)


def scored(variables: int = VARIABLES, length: int = LENGTH, masks: int = MASKS) -> tuple[Cost, Cost]:
    """The first observation, and any other."""
    return _scored(variables, length, masks)


@cache
def _scored(variables: int, length: int, masks: int) -> tuple[Cost, Cost]:
    network, config = build(variables, length=length, inference={"masks": masks})
    inference = Inference(network.eval(), config.inference, RESIDUALS, variables=variables, length=length, seed=0)
    observations = np.random.default_rng(0).standard_normal((2, variables, length))
    first, second = (cost(lambda one=one: examine(inference, one)) for one in observations)
    return first, second


def pieces(rows: int, channels: int, length: int) -> int:
    """Convolutions go through the processor's cache in pieces of about a megabyte of complex numbers, 2^17 of them."""
    spectrum = channels * (fft_size(2 * length - 1) // 2 + 1)
    return -(-rows // max(1, 2**17 // spectrum))


def test_an_update_stays_as_cheap_as_it_is() -> None:
    found = an_update()
    assert found.operations <= 2442 * SLACK
    assert found.bytes <= 401e6 * SLACK
    # The layout is batch, channel, time throughout: gradients of filters and of the graph's windows are put in order.
    assert found.copies <= 27.3e6 * SLACK
    # Products: forward once, backward twice, over K L (S4 mixing of Dependencies) and L (the blocks).
    assert found.flops <= 2045e6 * SLACK


def test_a_scored_observation_stays_as_cheap_as_it_is() -> None:
    first, second = scored()
    assert second.operations <= 330 * SLACK
    assert second.bytes <= 99.1e6 * SLACK
    # One copy of the embedding, window by window, before it is gathered: K features L numbers of four bytes.
    assert second.copies <= 4 * VARIABLES * FEATURES * LENGTH * SLACK
    assert second.flops <= 734.1e6 * SLACK
    # The kernels of five layers, a few operations on small tensors each, are all that the first one adds.
    assert first.operations <= second.operations + LAYERS * 62 * SLACK
    assert first.bytes <= second.bytes + 48e6 * SLACK


def test_kernels_are_made_once_for_all_scored_observations() -> None:
    first, second = scored()
    assert first.kernels == LAYERS
    assert second.kernels == 0


@pytest.mark.parametrize("micro_batch", [1, 2, 4, None])
def test_kernels_are_made_once_per_update_whatever_the_micro_batches(micro_batch: int | None) -> None:
    assert an_update(micro_batch=micro_batch).kernels == LAYERS


def test_micro_batches_cost_operations_but_neither_products_nor_memory() -> None:
    """The same numbers in four pieces: what is new are the gradients of parameters, once for each piece."""
    whole, four = an_update(micro_batch=BATCH), an_update(micro_batch=1)
    assert four.flops <= 1.001 * whole.flops
    assert four.bytes <= 1.1 * whole.bytes
    # Forward and backward are called four times, kernels and the optimiser once.
    assert four.operations - whole.operations <= 3 * 660 * SLACK


@pytest.mark.parametrize(("variables", "length"), [(12, 600), (12, 2400), (48, 600)])
def test_transforms_of_an_update(variables: int, length: int) -> None:
    """A piece is transformed forth and back; backward, gradient and input forth, gradient back. Then per layer the
    filter's gradient back for each of two micro-batches, and the filter forth once."""
    rows = BATCH // 2
    some = 2 * BLOCKS * pieces(rows, WIDE, length) + pieces(rows * variables, FEATURES, length)
    assert an_update(variables, length).transforms <= 2 * (5 * some + LAYERS) + LAYERS


@pytest.mark.parametrize(("variables", "length", "masks"), [(12, 600, 5), (12, 600, 20), (12, 2400, 5), (48, 600, 5)])
def test_transforms_of_a_scored_observation(variables: int, length: int, masks: int) -> None:
    """All masks at once: a piece is transformed forth and back, and nothing else is."""
    some = 2 * BLOCKS * pieces(masks, WIDE, length) + pieces(variables, FEATURES, length)
    first, second = scored(variables, length, masks)
    assert second.transforms <= 2 * some
    assert first.transforms <= 2 * some + LAYERS


def test_operations_do_not_grow_with_masks_time_or_variables() -> None:
    """Except for the pieces of a convolution: five operations each (pad, forth, multiply, back, put in place)."""
    base = scored()[1]
    for other in (scored(masks=20)[1], scored(length=2400)[1], scored(variables=48)[1]):
        more_pieces = (other.transforms - base.transforms) // 2
        assert other.operations - base.operations <= 5 * more_pieces


def test_operations_of_an_update_do_not_grow_with_time_or_variables() -> None:
    """Except for the pieces of a convolution, five operations forward and eleven backward, and a few doublings of
    powers in each of the kernels."""
    base = an_update()
    for other in (an_update(length=2400), an_update(variables=48)):
        more_pieces = (other.transforms - base.transforms) // 5
        assert other.operations - base.operations <= 16 * more_pieces + 12 * LAYERS


@pytest.mark.parametrize("measure", [an_update, lambda **size: scored(**size)[1]], ids=["update", "scored"])
def test_memory_and_products_are_linear_in_time(measure: Callable[..., Cost]) -> None:
    """Four times the time: at most four times the bytes, within 15 %; what does not depend on time keeps it below."""
    short, long = measure(length=600), measure(length=2400)
    assert 3.4 * short.bytes <= long.bytes <= 4.6 * short.bytes
    assert 3.4 * short.flops <= long.flops <= 4.6 * short.flops


@pytest.mark.parametrize("measure", [an_update, lambda **size: scored(**size)[1]], ids=["update", "scored"])
def test_memory_is_linear_in_variables(measure: Callable[..., Cost]) -> None:
    """The blocks do not depend on the number of variables, the rest does: a straight line through 12 and 24 meets 48
    within 15 %. Graphs are of its square, and small."""
    twelve, twenty_four, forty_eight = (measure(variables=count) for count in (12, 24, 48))
    expected = twenty_four.bytes + 2 * (twenty_four.bytes - twelve.bytes)
    assert forty_eight.bytes == pytest.approx(expected, rel=0.15)


def test_the_papers_chain_takes_the_condition_in_once() -> None:
    small = {
        "length": 40,
        "decontaminator": {"channels": 4, "blocks": 3, "state": 4},
        "dependencies": {"features": 4, "layers": 2, "state": 4},
    }
    network, config = build(5, "paper", **small)
    steps, blocks = config.decontaminator.diffusion.steps, network.decontaminator.network.blocks
    assert (steps, len(blocks), config.inference.steps) == (50, 3, 0)
    called: Counter[str] = Counter()
    for block in blocks:
        for name in ("condition_proj", "step_proj"):
            part = getattr(block, name)
            assert isinstance(part, nn.Module)
            part.register_forward_hook(lambda *_, name=name: called.update([name]))
    inference = Inference(network.eval(), config.inference, RESIDUALS, variables=5, length=40, seed=0)
    observation = np.random.default_rng(0).standard_normal((5, 40))
    first, second = (cost(lambda: examine(inference, observation)) for _ in range(2))
    assert called == {"condition_proj": 2 * 3, "step_proj": 2 * 3 * 50}
    # Two S4 layers in each block and those of Dependencies; every one of the 50 steps takes the same kernels.
    assert (first.kernels, second.kernels) == (2 * 3 + 2, 0)
    # 50 steps of 6 layers, forth and back, and once two layers.
    assert second.transforms == 2 * (50 * 6 + 2)


LIBRARIES = {"torch", "numpy", "pandas", "sklearn", "scipy", "pyarrow", "narwhals", "safetensors", "matplotlib"}
# A third of a second and more each, and nothing that a detection needs.
NEEDLESS = {"torch._dynamo", "torch._inductor", "torch.onnx", "sympy", "matplotlib", "polars", "xarray", "h5py", "wfdb"}
NEEDLESS |= {"sklearn", "scipy.stats", "scipy.optimize"}
HELP = "import sys; sys.argv = ['tsadc', '--help']; from tsadc.cli import main; main()"
DETECT = "import tsadc.cli.console, tsadc.cli.workflow, tsadc.detectors.store, tsadc.io.read"


@pytest.mark.parametrize(
    ("script", "unwanted"),
    [("import tsadc", LIBRARIES), (HELP, LIBRARIES), (DETECT, NEEDLESS)],
    ids=["import", "help", "detect"],
)
def test_nothing_is_loaded_that_is_not_needed(script: str, unwanted: set[str]) -> None:
    """Loading libraries is nearly all of the time that a start takes."""
    assert loaded(script) & unwanted == set()


def loaded(script: str) -> set[str]:
    """The modules there are when a process that runs `script` ends."""
    told = "import atexit, sys; atexit.register(lambda: print(*sys.modules))"
    done = subprocess.run([sys.executable, "-c", f"{told}\n{script}"], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_a_detection_loads_nothing_that_it_does_not_need(tmp_path: Path) -> None:
    """The whole command with a model of the default detector, from its file to its tables."""
    rows = np.random.default_rng(0).standard_normal((6 * 32, 3))
    np.save(tmp_path / "new.npy", rows)
    config = update(TSADC.Config.preset("tiny"), {"length": 32, "training": {"epochs": 1}})
    TSADC(config=config).fit(rows).save(tmp_path / "model")
    words = ["tsadc", "detect", *(str(tmp_path / name) for name in ("new.npy", "model", "found"))]
    words[3:] = ["--model", words[3], "--out", words[4]]
    found = loaded(f"import sys; sys.argv = {words!r}; from tsadc.cli import main; main()")
    assert (tmp_path / "found").is_dir()
    assert "torch" in found
    assert found & NEEDLESS == set()
