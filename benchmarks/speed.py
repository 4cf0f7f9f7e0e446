"""Speed and memory beside a plain implementation and beside the machine's limit: `make bench-speed`.

Times are processor seconds, medians of runs that alternate in one process, on one thread unless said; the machine may
be shared, and a ratio of neighbours in time means more than a time. Each section is one JSON record under
`benchmarks/results/speed/`; `--sections` picks some, `--table` writes those of `docs/performance.md` from the records.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import reference
import torch
from torch import Tensor

import tsadc
from tsadc.commands.allocator import keep_freed_memory
from tsadc.config import update
from tsadc.detectors.tsadc.detector import TSADC, Config
from tsadc.detectors.tsadc.network import Network
from tsadc.detectors.tsadc.scoring import Examiner
from tsadc.nn import objective
from tsadc.nn.operations import Operations
from tsadc.nn.s4 import StateSpace
from tsadc.nn.world import World

RESULTS = Path(__file__).parent / "results" / "speed"
K, LENGTH, BATCH = 38, 600, 4


def build(preset: str = "paper", variables: int = K, length: int = LENGTH, **settings: Any) -> tuple[Config, Network]:
    """A network at its random start, but for its last layer, which starts at zero and would hide what is before it."""
    config = update(Config.preset(preset), {"length": length, **settings})
    network = TSADC(config=config)._network(variables)
    torch.nn.init.normal_(network.decontaminator.network.leave.weight, std=0.05, generator=_generator())
    return config, network


def drawn(network: Network, variables: int = K, length: int = LENGTH, batch: int = BATCH) -> dict[str, Tensor]:
    x = torch.randn(batch, variables, length, generator=_generator())
    return network.draw(x, torch.ones_like(x, dtype=torch.bool), _generator())


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def update_once(network: Network, batch: Mapping[str, Tensor], micro_batch: int | None = None) -> None:
    objective.sum_losses(network, batch, micro_batch, World(), backward=True)


def alternate(works: Mapping[str, Callable[[], Any]], repeats: int, clock: Callable[[], float]) -> dict[str, float]:
    """The median seconds of each, one round after the other; a first round is not counted unless it is the only one."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats + (repeats > 1)):
        for name, work in works.items():
            started = clock()
            work()
            taken[name].append(clock() - started)
    return {name: float(np.median(times[1:] if repeats > 1 else times)) for name, times in taken.items()}


def kernel() -> dict[str, Any]:
    """DPLR kernel, 512 channels, two directions, forward and backward."""
    space = StateSpace(512, state=64, directions=2, kernel="dplr", generator=_generator())
    plain = reference.published(space, LENGTH)
    grad = torch.randn(2, 512, LENGTH, generator=_generator())
    found, expected = space(LENGTH).detach(), reference.kernel(plain, LENGTH).detach().view(2, 512, LENGTH)
    works = {
        "reference": lambda: reference.kernel(plain, LENGTH).view(2, 512, LENGTH).backward(grad),
        "fast": lambda: space(LENGTH).backward(grad),
    }
    error = float((found - expected).abs().max() / expected.abs().max())
    return _ratio(alternate(works, 5, time.process_time)) | {"error": error}


def training() -> dict[str, Any]:
    """One training step of a batch of 4 at the published widths."""
    _, network = build(decontaminator={"dropout": 0.0}, dependencies={"dropout": 0.0})
    batch, plain = drawn(network), reference.published(network, LENGTH)
    works = {
        "reference": lambda: reference.training_step(plain, batch),
        "fast": lambda: update_once(network, batch, 1),
    }
    return _ratio(alternate(works, 1, time.process_time))


def memory() -> dict[str, Any]:
    """Peak memory of that step, each side in a process of its own."""
    peaks = {name: _child(f"peak-{name}") for name in ("reference", "fast")}
    return {f"{name} MB": round(peak) for name, peak in peaks.items()} | {"ratio": peaks["fast"] / peaks["reference"]}


def peak(which: str) -> float:
    """Megabytes that one training step adds to the most this process has held."""
    _, network = build(decontaminator={"dropout": 0.0}, dependencies={"dropout": 0.0})
    plain = reference.published(network, LENGTH) if which == "reference" else network
    batch, before = drawn(network), _resident()
    reference.training_step(plain, batch) if which == "reference" else update_once(network, batch, 1)
    return _resident() - before


def scoring() -> dict[str, Any]:
    """One observation: all 50 steps with the same noise, and the default's few steps and complementary masks."""
    config, network = build()
    network.eval()
    plain = reference.published(network, LENGTH)
    z = torch.randn(K, LENGTH, generator=_generator()).numpy()
    exact = Examiner(network, config.scoring, variables=K, length=LENGTH, seed=0)
    few = Examiner(network, Config().scoring, variables=K, length=LENGTH, seed=0)
    found: dict[str, Any] = {}

    def slow() -> None:
        generator = torch.Generator().manual_seed(exact.generator_seed)
        found["reference"] = reference.score(plain, torch.from_numpy(z), exact.shown, exact.noise, generator)

    def fast() -> None:
        found["fast"] = exact.residuals(z)

    few.residuals(z)
    seconds = alternate({"reference": slow, "fast": fast, "few": lambda: few.residuals(z)}, 1, time.process_time)
    residuals = (found["fast"].imputation, found["fast"].reconstruction)
    differences = [float(np.nanmax(np.abs(a - b.numpy()))) for a, b in zip(residuals, found["reference"], strict=True)]
    ratios = {"few-step ratio": seconds["reference"] / seconds["few"], "few seconds": seconds["few"]}
    return _ratio(seconds) | ratios | {"largest difference": max(differences)}


def agreement() -> dict[str, Any]:
    """Rank correlation of s1 by a single step with s1 by all 50, beside that of all 50 with another seed's noise."""
    from scipy.stats import spearmanr

    from tsadc.data.plant import Plant
    from tsadc.windows import cut

    plant = Plant.Config(seed=100)
    split = Plant(plant).split()
    narrow = {"channels": 32, "blocks": 2, "state": 16}
    config = update(
        Config.paper(),
        {
            "length": plant.length,
            "decontaminator": narrow,
            "training": {"epochs": 8, "batch": 16, "learning_rate": 3e-3},
        }
        | {"dependencies": {"features": 16, "layers": 1, "state": 16}, "scoring": {"masks": 5}},
    )
    detector = TSADC(config=config).fit(split.train)
    observations = cut(split.test.series, plant.length).observations.scaled(detector.scaler_)

    def scores(steps: int, seed: int) -> list[float]:
        examiner = Examiner(
            detector.network_,
            update(config.scoring, {"steps": steps}),
            variables=len(observations.names),
            length=plant.length,
            seed=0,
        )
        examiner.generator_seed = seed
        examiner.noise = torch.randn(examiner.noise.shape, generator=torch.Generator().manual_seed(seed))
        some = range(0, len(observations), max(1, len(observations) // 80))
        return [float(np.sqrt(np.nanmean(examiner.residuals(observations.read(i)).imputation ** 2))) for i in some]

    exact = scores(0, 1)
    return {
        "another seed": float(spearmanr(exact, scores(0, 2)).statistic),
        "single step": float(spearmanr(exact, scores(1, 3)).statistic),
        "five steps": float(spearmanr(exact, scores(5, 4)).statistic),
        "observations": len(exact),
    }


def growth() -> dict[str, Any]:
    """Processor seconds of a training step over the time steps, and over the variables, at the published widths; peak
    memory at the ICBEB shape (K = 12, L = 6,000, batch 4)."""
    over_length = {length: _step_seconds(12, length) for length in (600, 1200, 3000, 6000, 12_000)}
    over_variables = {count: _step_seconds(count, LENGTH) for count in (12, 24, 38, 64, 128)}
    return {
        "seconds by length": over_length,
        "seconds by variables": over_variables,
        "ICBEB shape, MB": round(_child("icbeb")),
    }


def _step_seconds(variables: int, length: int) -> float:
    _, network = build(variables=variables, length=length)
    batch = drawn(network, variables, length, 2)
    return alternate({"step": lambda: update_once(network, batch, 1)}, 2, time.process_time)["step"]


def icbeb() -> float:
    _, network = build(variables=12, length=6000)
    batch, before = drawn(network, 12, 6000, 4), _resident()
    update_once(network, batch, 1)
    return _resident() - before


def limit() -> dict[str, Any]:
    """A training step at the published widths beside the least the machine can take: its matrix products at the speed
    of a large product, its Fourier transforms at the speed of many, what it must keep for the backward pass written and
    read once at the speed of a copy."""
    _, network = build(decontaminator={"dropout": 0.0}, dependencies={"dropout": 0.0})
    batch = drawn(network)
    kept = 0

    def keep(tensor: Tensor) -> Tensor:
        nonlocal kept
        kept += tensor.numel() * tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor), Operations() as counted:
        update_once(network, batch, 1)
    rates = machine()
    parts = {
        "products": counted.products / rates["products per second"],
        "transforms": counted.transforms / rates["transforms per second"],
        "memory": 2 * kept / rates["bytes per second"],
    }
    seconds = alternate({"step": lambda: update_once(network, batch, 1)}, 3, time.process_time)["step"]
    bound = sum(parts.values())
    return {"seconds": seconds, "bound": bound, "share of the bound": bound / seconds, "parts": parts, "machine": rates}


def machine() -> dict[str, float]:
    a, b = torch.randn(2, 1024, 1024)
    x, source = torch.randn(256, 1200), torch.randn(2**26)
    target = torch.empty_like(source)
    works = {
        "product": lambda: torch.mm(a, b),
        "transform": lambda: torch.fft.irfft(torch.fft.rfft(x), 1200),
        "copy": lambda: target.copy_(source),
    }
    seconds = alternate(works, 9, time.process_time)
    return {
        "products per second": 2 * 1024**3 / seconds["product"],
        "transforms per second": 2 * 256 * 2.5 * 1200 * np.log2(1200) / seconds["transform"],
        "bytes per second": 2 * 4 * 2**26 / seconds["copy"],
    }


def default() -> dict[str, Any]:
    """The default configuration at SMD's shape, on the threads there are: wall seconds."""
    config, network = build("default")
    batch = drawn(network, batch=config.training.batch)
    examiner = Examiner(network, config.scoring, variables=K, length=LENGTH, seed=0)
    z = torch.randn(K, LENGTH, generator=_generator()).numpy()

    def score_many() -> None:
        from tsadc.nn.threads import spread

        list(spread(examiner.residuals, [z] * 16))

    out: dict[str, Any] = {}
    many = max(2, len(os.sched_getaffinity(0)))
    for threads in (1, many):
        torch.set_num_threads(threads)
        network.train()
        step = alternate({"step": lambda: update_once(network, batch)}, 5, time.perf_counter)["step"]
        network.eval()
        scored = alternate({"score": score_many}, 5, time.perf_counter)["score"] / 16
        out[f"{threads} threads"] = {
            "epoch of 1,000 observations, s": 1000 / config.training.batch * step,
            "an observation scored, ms": 1000 * scored,
        }
    torch.set_num_threads(1)
    first, last = out["1 threads"], out[f"{many} threads"]
    out["gain by threads"] = {name: first[name] / last[name] for name in first}
    return out | {"detect 30,000 x 38, s": _detect()}


def _detect() -> float:
    """Wall seconds of the command, start included."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        np.save(where / "new.npy", rng.standard_normal((30_000, K)).astype(np.float32))
        short = update(Config(), {"length": LENGTH, "training": {"epochs": 1}})
        TSADC(config=short).fit(rng.standard_normal((20 * LENGTH, K))).save(where / "model")
        return _command("detect", str(where / "new.npy"), "--model", str(where / "model"), "--out", str(where / "out"))


def start() -> dict[str, Any]:
    """Wall seconds until a command has answered, medians of 5."""
    importing = [sys.executable, "-c", "import tsadc"]
    return {
        "tsadc --help": float(np.median([_command("--help") for _ in range(5)])),
        "import tsadc": float(np.median([_wall(importing) for _ in range(5)])),
        "python alone": float(np.median([_wall([sys.executable, "-c", "pass"]) for _ in range(5)])),
    }


def _command(*words: str) -> float:
    return _wall([sys.executable, "-m", "tsadc", *words])


def _wall(command: list[str]) -> float:
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env=environment)
    return time.perf_counter() - started


def _ratio(seconds: Mapping[str, float]) -> dict[str, float]:
    return {
        "reference seconds": seconds["reference"],
        "fast seconds": seconds["fast"],
        "ratio": seconds["reference"] / seconds["fast"],
    }


def _resident() -> float:
    """The most memory this process has held, in megabytes. Not by `getrusage`: that counts the parent's as well."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def _child(what: str) -> float:
    """A measurement of memory, in a process that has done nothing else."""
    command = [sys.executable, __file__, "--child", what]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


# Both sides with the C library's own ways: keeping what was freed, the reference would need more than 20 GB.
BESIDE_REFERENCE = ("kernel", "training", "memory", "scoring")
CHILDREN = {"peak-reference": lambda: peak("reference"), "peak-fast": lambda: peak("fast"), "icbeb": icbeb}
SECTIONS = {
    "kernel": kernel,
    "training": training,
    "memory": memory,
    "scoring": scoring,
    "agreement": agreement,
    "growth": growth,
    "limit": limit,
    "default": default,
    "start": start,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sections", default=",".join(SECTIONS))
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--child", choices=CHILDREN, help=argparse.SUPPRESS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.child:
        print(CHILDREN[given.child]())
        return
    given.out.mkdir(parents=True, exist_ok=True)
    for name in sorted(given.sections.split(","), key=list(SECTIONS).index):
        if name not in BESIDE_REFERENCE:
            keep_freed_memory()  # as the commands do
        record = {
            "section": name,
            "command": f"python benchmarks/speed.py --sections {name}",
            "found": SECTIONS[name](),
            "tsadc": tsadc.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
            "cores": len(os.sched_getaffinity(0)),
        }
        file = given.out / f"{name}.json"
        file.with_suffix(".tmp").write_text(json.dumps(record, indent=1) + "\n")
        os.replace(file.with_suffix(".tmp"), file)
        print(name, json.dumps(record["found"]), flush=True)


if __name__ == "__main__":
    main()
