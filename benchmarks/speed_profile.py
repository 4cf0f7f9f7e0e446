"""Profile a training step and the scoring of an observation, in the reference and in the fast path.

An operation counts for the part of the method that calls it (making kernels, convolving, the graph, normalising), or
otherwise by its name. An operation of the backward pass counts for the part that created its node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

import reference
import torch
from torch.profiler import ProfilerActivity, profile, record_function
from workload import LENGTH, K, build, drawn, residuals, update_once

from tsadc.detectors.tsadc import dependencies
from tsadc.detectors.tsadc.inference import RESIDUALS, Inference
from tsadc.nn import ssm
from tsadc.nn.graph import GIN, AttentionGraph
from tsadc.nn.layers import ChannelNorm
from tsadc.nn.s4 import S4

KERNELS, CONVOLUTION, PRODUCTS = "making kernels", "Fourier convolution", "matrix products"
POINTWISE, GRAPH, OTHER = "normalisation, activation", "graph and its layers", "other"
KINDS = (KERNELS, CONVOLUTION, PRODUCTS, POINTWISE, GRAPH, OTHER)
PARTS: tuple[tuple[Any, str, str], ...] = (
    (reference, "kernel", KERNELS),
    (reference, "convolve", CONVOLUTION),
    (reference, "learn_graph", GRAPH),
    (reference, "gin", GRAPH),
    (reference, "penalty", GRAPH),
    (S4, "filter", KERNELS),
    (ssm, "convolve", CONVOLUTION),
    (ssm, "convolve_spectrum", CONVOLUTION),
    (AttentionGraph, "forward", GRAPH),
    (GIN, "read", GRAPH),
    (dependencies, "regulariser", GRAPH),
    (ChannelNorm, "forward", POINTWISE),
)
MULTIPLY = {"mm", "addmm", "bmm", "baddbmm", "matmul", "linear", "einsum", "convolution", "mkldnn_convolution"}
MULTIPLY |= {"_convolution", "convolution_overrideable", "convolution_backward", "mkldnn_convolution_backward"}
ACTIVATE = {"layer_norm", "gelu", "glu", "tanh", "sigmoid", "silu", "relu", "clamp_min", "threshold"}
MARK = "part: "
WIDTHS = {
    "decontaminator": {"channels": 64, "blocks": 2, "dropout": 0.0},
    "dependencies": {"features": 32, "layers": 1, "dropout": 0.0},
}
BATCH = 2


def section() -> dict[str, Any]:
    """Return seconds by kind of a training step of two observations, and of scoring one observation by all 50 steps."""
    config, network = build(**WIDTHS)
    plain, batch = reference.published(network, LENGTH), drawn(network, batch=BATCH)
    training = {
        "reference": seconds_by_kind(lambda: reference.training_step(plain, batch)),
        "fast": seconds_by_kind(lambda: update_once(network, batch, 1)),
    }
    network.eval(), plain.eval()
    z = torch.randn(K, LENGTH, generator=torch.Generator().manual_seed(1))
    inference = Inference(network, config.inference, RESIDUALS, variables=K, length=LENGTH, seed=0)

    def score() -> None:
        noise = torch.Generator().manual_seed(inference.generator_seed)
        reference.score(plain, z, inference.shown, inference.noise, noise)

    fast = seconds_by_kind(lambda: residuals(inference, z.numpy()))
    scoring = {"reference": seconds_by_kind(score), "fast": fast}
    widths = "64 channels, 2 blocks, N = 64; 32 features, 1 layer; K = 38, L = 600; batch 2, one observation scored"
    return {"widths": widths, "training step": training, "scoring": scoring}


def seconds_by_kind(work: Callable[[], Any]) -> dict[str, float]:
    """Return seconds by kind of the second of two runs; the first one warms up."""
    work()
    with marked(), profile(activities=[ProfilerActivity.CPU]) as found, record_function("whole"):
        work()
    return grouped(found.events())


@contextmanager
def marked() -> Iterator[None]:
    """Mark what runs in a part of the method with its name, within the block."""
    before = [getattr(owner, name) for owner, name, _ in PARTS]
    try:
        for (owner, name, kind), function in zip(PARTS, before, strict=True):
            setattr(owner, name, _marking(function, kind))
        yield
    finally:
        for (owner, name, _), function in zip(PARTS, before, strict=True):
            setattr(owner, name, function)


def _marking(function: Callable[..., Any], kind: str) -> Callable[..., Any]:
    @wraps(function)
    def run(*given: Any, **named: Any) -> Any:
        with record_function(MARK + kind):
            return function(*given, **named)

    return run


def grouped(events: Sequence[Any]) -> dict[str, float]:
    """Return seconds by kind of the operations themselves, without those they call."""
    seconds = dict.fromkeys(KINDS, 0.0)
    for event, kind in zip(events, kinds_of(events), strict=True):
        seconds[kind] += event.self_cpu_time_total / 1e6
    return seconds


def kinds_of(events: Sequence[Any]) -> list[str]:
    """Return the kind of each event. A backward node carries the number of the operation that created it."""
    made: dict[int, str | None] = {}
    for event in sorted(events, key=lambda event: event.time_range.start):
        if event.sequence_nr >= 0 and not _goes_back(event):
            made[event.sequence_nr] = _part(event)
    kinds = []
    for event in events:
        back = next((one for one in _upwards(event) if one.sequence_nr >= 0 and _goes_back(one)), None)
        kinds.append((_part(event) if back is None else made.get(back.sequence_nr)) or _by_name(event))
    return kinds


def _upwards(event: Any) -> Iterator[Any]:
    while event is not None:
        yield event
        event = event.cpu_parent


def _goes_back(event: Any) -> bool:
    return bool(event.name.startswith("autograd::engine") or "Backward" in event.name)


def _part(event: Any) -> str | None:
    return next((one.name.removeprefix(MARK) for one in _upwards(event) if one.name.startswith(MARK)), None)


def _by_name(event: Any) -> str:
    """Return the kind of the outermost operation that has one: a product that copies its input is a product."""
    kind = OTHER
    for one in _upwards(event):
        name = one.name.removeprefix("aten::").removeprefix("native_").removesuffix("_")
        if name in MULTIPLY:
            kind = PRODUCTS
        elif name.removesuffix("_backward") in ACTIVATE:
            kind = POINTWISE
    return kind
