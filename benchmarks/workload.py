"""What the sections of `benchmarks/speed.py` share: networks, batches, and alternating measurements."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tsadc.atomic import write_file
from tsadc.config import update
from tsadc.detectors.tsadc.detector import TSADC
from tsadc.detectors.tsadc.inference import Inference
from tsadc.detectors.tsadc.network import Network, TSADCBatch
from tsadc.nn import losses
from tsadc.nn.runtime.distributed import World
from tsadc.series import Floats

K, LENGTH, BATCH = 38, 600, 4


def build(
    preset: str = "paper", variables: int = K, length: int = LENGTH, **settings: Any
) -> tuple[TSADC.Config, Network]:
    """Return a network with random weights, even in the last layer, which otherwise starts at zero."""
    config = update(TSADC.Config.preset(preset), {"length": length, **settings})
    network = TSADC(config=config)._network(variables)
    torch.nn.init.normal_(network.decontaminator.network.output_proj.weight, std=0.05, generator=generator())
    return config, network


def drawn(network: Network, variables: int = K, length: int = LENGTH, batch: int = BATCH) -> TSADCBatch:
    x = torch.randn(batch, variables, length, generator=generator())
    return network.draw(x, torch.ones_like(x, dtype=torch.bool), generator())


def residuals(inference: Inference, z: Floats) -> tuple[Floats, ...]:
    """Return s1 and s2 of an observation, cell by cell."""
    with torch.no_grad():
        return inference(z).residuals


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def update_once(network: Network, batch: TSADCBatch, micro_batch: int | None = None) -> None:
    losses.sum_losses(network, batch, micro_batch, World(), backward=True)


def alternate(
    works: Mapping[str, Callable[[], Any]],
    repeats: int,
    clock: Callable[[], float],
    summary: Callable[[list[float]], Any] = np.median,
) -> dict[str, float]:
    """Return the median seconds of each work, in alternating rounds; a first of several rounds does not count."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats + (repeats > 1)):
        for name, work in works.items():
            started = clock()
            work()
            taken[name].append(clock() - started)
    return {name: float(summary(times[1:] if repeats > 1 else times)) for name, times in taken.items()}


def resumed(points: Mapping[str, Callable[[], float]], partial: Path, most: int | None) -> dict[str, float] | None:
    """Measure the points that are not in the file `partial` yet, and add them to it. Return all of them, or None if
    some remain after `most` new ones."""
    found: dict[str, float] = json.loads(partial.read_text()) if partial.exists() else {}
    missing = [name for name in points if name not in found]
    for name in missing[:most]:
        found[name] = points[name]()
        write_file(partial, (json.dumps(found, indent=1) + "\n").encode())
        print(name, found[name], flush=True)
    return {name: found[name] for name in points} if most is None or len(missing) <= most else None
