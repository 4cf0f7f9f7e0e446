"""Measure speed and memory against a straightforward implementation and the limit of the machine: `make bench-speed`.

Times are processor seconds, medians of runs that alternate in one process, on one thread unless stated. The machine may
be shared, so a ratio of two runs next to each other means more than a time. Each section is one JSON record in
`benchmarks/results/speed/`; `--sections` selects some. `benchmarks/speed_report.py` makes the tables of
`docs/performance.md` from the records.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import reference
import speed_agreement
import speed_profile
import torch
from torch import Tensor
from workload import LENGTH, K, alternate, build, drawn, generator, residuals, resumed, update_once

from tsadc.atomic import write_file
from tsadc.bench.machine import circumstances
from tsadc.config import update
from tsadc.detectors.ensemble.detector import Ensemble
from tsadc.detectors.tsadc.detector import TSADC
from tsadc.detectors.tsadc.inference import RESIDUALS, Inference
from tsadc.nn.operation_counter import OperationCounter
from tsadc.nn.runtime.allocator import keep_freed_memory
from tsadc.nn.s4 import StateSpace
from tsadc.series import Floats

RESULTS = Path(__file__).parent / "results" / "speed"
LENGTHS, COUNTS = (600, 1200, 3000, 6000, 12_000), (12, 24, 38, 64, 128)  # of time steps and of variables
SMALL, LARGE = 1200, 30_000  # rows


def kernel() -> dict[str, Any]:
    """Time the DPLR kernel: 512 channels, two directions, forward and backward."""
    space = StateSpace(512, state=64, directions=2, kernel="dplr", generator=generator())
    plain = reference.published(space, LENGTH)
    grad = torch.randn(2, 512, LENGTH, generator=generator())
    found, expected = space(LENGTH).detach(), reference.kernel(plain, LENGTH).detach().view(2, 512, LENGTH)
    works = {
        "reference": lambda: reference.kernel(plain, LENGTH).view(2, 512, LENGTH).backward(grad),
        "fast": lambda: space(LENGTH).backward(grad),
    }
    error = float((found - expected).abs().max() / expected.abs().max())
    return _ratio(alternate(works, 5, time.process_time)) | {"error": error}


def training() -> dict[str, Any]:
    """Time one training step of a batch of 4 at the published widths."""
    _, network = build(decontaminator={"dropout": 0.0}, dependencies={"dropout": 0.0})
    batch, plain = drawn(network), reference.published(network, LENGTH)
    works = {
        "reference": lambda: reference.training_step(plain, batch),
        "fast": lambda: update_once(network, batch, 1),
    }
    return _ratio(alternate(works, 1, time.process_time))


def memory() -> dict[str, Any]:
    """Measure the peak memory of that step, each side in a process of its own."""
    peaks = {name: _child(f"peak-{name}") for name in ("reference", "fast")}
    return {f"{name} MB": round(peak) for name, peak in peaks.items()} | {"ratio": peaks["fast"] / peaks["reference"]}


def peak(which: str) -> float:
    """Return the megabytes that one training step adds to the peak of this process."""
    _, network = build(decontaminator={"dropout": 0.0}, dependencies={"dropout": 0.0})
    plain = reference.published(network, LENGTH) if which == "reference" else network
    batch, before = drawn(network), _resident()
    reference.training_step(plain, batch) if which == "reference" else update_once(network, batch, 1)
    return _resident() - before


def scoring() -> dict[str, Any]:
    """Time scoring one observation: by all 50 steps with the same noise, and by the default's complementary masks."""
    config, network = build()
    network.eval()
    plain = reference.published(network, LENGTH)
    z = torch.randn(K, LENGTH, generator=generator()).numpy()
    exact = Inference(network, config.inference, RESIDUALS, variables=K, length=LENGTH, seed=0)
    few = Inference(network, TSADC.Config().inference, RESIDUALS, variables=K, length=LENGTH, seed=0)
    found: dict[str, Any] = {}

    def slow() -> None:
        generator = torch.Generator().manual_seed(exact.generator_seed)
        found["reference"] = reference.score(plain, torch.from_numpy(z), exact.shown, exact.noise, generator)

    def fast() -> None:
        found["fast"] = residuals(exact, z)

    residuals(few, z)
    seconds = alternate({"reference": slow, "fast": fast, "few": lambda: residuals(few, z)}, 1, time.process_time)
    pairs = zip(found["fast"], found["reference"], strict=True)
    differences = [float(np.nanmax(np.abs(a - b.numpy()))) for a, b in pairs]
    ratios = {"few-step ratio": seconds["reference"] / seconds["few"], "few seconds": seconds["few"]}
    return _ratio(seconds) | ratios | {"largest difference": max(differences)}


def growth(partial: Path, most: int | None) -> dict[str, Any] | None:
    """Time a training step over the number of time steps and of variables, at the published widths; measure the peak
    memory at the ICBEB shape (K = 12, L = 6,000, batch 4)."""
    shapes = [*((12, length) for length in LENGTHS), *((count, LENGTH) for count in COUNTS)]
    points: dict[str, Callable[[], float]] = {f"{k} x {n}": lambda k=k, n=n: _step_seconds(k, n) for k, n in shapes}
    found = resumed({**points, "ICBEB": lambda: _child("icbeb")}, partial, most)
    return found and {
        "seconds by length": {length: found[f"12 x {length}"] for length in LENGTHS},
        "seconds by variables": {count: found[f"{count} x {LENGTH}"] for count in COUNTS},
        "ICBEB shape, MB": round(found["ICBEB"]),
    }


def _step_seconds(variables: int, length: int) -> float:
    _, network = build(variables=variables, length=length)
    batch = drawn(network, variables, length, 2)
    repeats = 5 if length == LENGTH else 2  # a step of a long observation takes minutes
    return alternate({"step": lambda: update_once(network, batch, 1)}, repeats, time.process_time)["step"]


def icbeb() -> float:
    _, network = build(variables=12, length=6000)
    batch, before = drawn(network, 12, 6000, 4), _resident()
    update_once(network, batch, 1)
    return _resident() - before


def limit() -> dict[str, Any]:
    """Compare a training step at the published widths with a lower bound: its matrix products at the speed of a large
    product, its Fourier transforms at the speed of many, and the tensors it keeps for the backward pass written and
    read once at the speed of a copy."""
    _, network = build(decontaminator={"dropout": 0.0}, dependencies={"dropout": 0.0})
    batch = drawn(network)
    kept = 0

    def keep(tensor: Tensor) -> Tensor:
        nonlocal kept
        kept += tensor.numel() * tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor), OperationCounter() as counted:
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
    """Return the best of many runs: the bound is what the machine can do without other work."""
    a, b = torch.randn(2, 1024, 1024)
    x, source = torch.randn(256, 1200), torch.randn(2**26)
    target = torch.empty_like(source)
    works = {
        "product": lambda: torch.mm(a, b),
        "transform": lambda: torch.fft.irfft(torch.fft.rfft(x), 1200),
        "copy": lambda: target.copy_(source),
    }
    seconds = alternate(works, 25, time.process_time, min)
    return {
        "products per second": 2 * 1024**3 / seconds["product"],
        "transforms per second": 2 * 256 * 2.5 * 1200 * np.log2(1200) / seconds["transform"],
        "bytes per second": 2 * 4 * 2**26 / seconds["copy"],
    }


def default() -> dict[str, Any]:
    """Measure wall seconds of the default configuration at the shape of SMD, on all threads."""
    config, network = build("default")
    batch = drawn(network, batch=config.training.batch)
    detector = _fitted()
    new = np.random.default_rng(1).standard_normal((16 * LENGTH, K))

    def score_many() -> None:
        detector.decision_function(new)

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
    alone, beside = _child("update"), _children("update", many)
    return out | {"gain by processes": many * alone / beside, "detect 30,000 x 38, s": _detect(detector, LARGE)}


def update_alone() -> float:
    """Return wall seconds of an update of the default on one thread. Two such processes at once share only the machine,
    so they show how much a second thread could gain."""
    keep_freed_memory()
    config, network = build("default")
    batch = drawn(network, batch=config.training.batch)
    return alternate({"step": lambda: update_once(network, batch)}, 9, time.perf_counter)["step"]


def _fitted() -> TSADC:
    """Return the paper's detector, trained for an epoch on noise; training longer would not change its speed."""
    short = update(TSADC.Config(), {"length": LENGTH, "training": {"epochs": 1}})
    return TSADC(config=short).fit(_noise())


def _noise() -> Floats:
    return np.random.default_rng(0).standard_normal((200 * LENGTH, K))


def _detect(detector: Ensemble | TSADC, rows: int, repeats: int = 1) -> float:
    """Return wall seconds of `tsadc detect`, start included."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        np.save(where / "new.npy", rng.standard_normal((rows, K)).astype(np.float32))
        detector.save(where / "model")
        words = ["detect", str(where / "new.npy"), "--model", str(where / "model"), "--out"]
        return float(np.median([_command(*words, str(where / f"out-{i}")) for i in range(repeats)]))


def start() -> dict[str, Any]:
    """Measure wall seconds until a command has finished, medians of 5."""
    importing = [sys.executable, "-c", "import tsadc"]
    return {
        "tsadc --help": float(np.median([_command("--help") for _ in range(5)])),
        "import tsadc": float(np.median([_wall(importing) for _ in range(5)])),
        "python alone": float(np.median([_wall([sys.executable, "-c", "pass"]) for _ in range(5)])),
        "tsadc detect": _detect(Ensemble(length=LENGTH).fit(_noise()), SMALL, 5),
        "tsadc detect, network": _detect(_fitted(), SMALL, 5),
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
    """Return the most memory that this process has held, in megabytes. `getrusage` would include the parent's."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def _child(what: str) -> float:
    """Measure in a new process."""
    return _children(what, 1)


def _children(what: str, count: int) -> float:
    """Return the mean of what `count` processes measure at once."""
    command = [sys.executable, __file__, "--child", what]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(count)]
    found = [one.communicate()[0] for one in running]
    failed = [one.returncode for one in running if one.returncode]
    if failed:
        raise subprocess.CalledProcessError(failed[0], command)
    return float(np.mean([float(text.split()[-1]) for text in found]))


# Both sides use the C library's default allocator: if it kept freed memory, the reference would need more than 20 GB.
BESIDE_REFERENCE = ("kernel", "training", "memory", "scoring", "profile")
CHILDREN = {
    "peak-reference": lambda: peak("reference"),
    "peak-fast": lambda: peak("fast"),
    "icbeb": icbeb,
    "update": update_alone,
}
SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "kernel": kernel,
    "training": training,
    "memory": memory,
    "scoring": scoring,
    "profile": speed_profile.section,
    "agreement": speed_agreement.section,
    "limit": limit,
    "default": default,
    "start": start,
}
ORDER = [*SECTIONS, "growth"]  # the longest comes last


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sections", default=",".join(ORDER))
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--points", type=int, help="of `growth`: stop after this many points; the next run continues")
    parser.add_argument("--child", choices=CHILDREN, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.child:
        print(CHILDREN[options.child]())
        return
    partial = options.out / "growth.partial"
    sections = {**SECTIONS, "growth": lambda: growth(partial, options.points)}
    for name in sorted(options.sections.split(","), key=ORDER.index):
        if name not in BESIDE_REFERENCE:
            keep_freed_memory()  # as the commands do
        found = sections[name]()
        print(name, json.dumps(found), flush=True)
        if found is not None:
            record(name, found, options.out / f"{name}.json")
            if name == "growth":
                partial.unlink()


def record(name: str, found: Mapping[str, Any], file: Path) -> None:
    content = {
        "section": name,
        "command": f"python benchmarks/speed.py --sections {name}",
        "found": found,
        **circumstances(),
        "cores": len(os.sched_getaffinity(0)),
    }
    write_file(file, (json.dumps(content, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
