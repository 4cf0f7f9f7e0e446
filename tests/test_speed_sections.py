"""What the records of speed are made with: operations find their group, and long sections go on where they stopped."""

import importlib
import json
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from tsadc.nn.s4 import S4

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
NAMES = ("reference", "workload", "speed_profile", "speed_agreement")


@pytest.fixture(scope="module")
def bench():
    """The benchmarks import each other by bare names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in NAMES})
    for name in NAMES:
        sys.modules.pop(name, None)


def event(name, seconds, start, parent=None, node=-1):
    return SimpleNamespace(
        name=name,
        self_cpu_time_total=1e6 * seconds,
        time_range=SimpleNamespace(start=start),
        cpu_parent=parent,
        sequence_nr=node,
    )


def test_time_belongs_to_the_part_that_calls_and_backward_to_the_part_it_goes_through(bench):
    kinds = bench.speed_profile
    whole = event("whole", 0.5, 0)
    part = event("part: making kernels", 0.25, 1, whole)
    product = event("aten::bmm", 1, 2, part, node=7)
    outside = event("aten::linear", 2, 3, whole, node=8)
    within = event("aten::copy_", 4, 4, outside, node=8)
    back = event("autograd::engine::evaluate_function: BmmBackward0", 8, 5, whole, node=7)
    again = event("aten::bmm", 16, 6, back)
    other = event("autograd::engine::evaluate_function: AddmmBackward0", 32, 7, whole, node=8)
    last = event("aten::mm", 64, 8, other)
    bent = event("aten::gelu_backward", 128, 9, whole)
    found = kinds.grouped([whole, part, product, outside, within, back, again, other, last, bent])
    expected = dict.fromkeys(kinds.KINDS, 0.0) | {
        kinds.KERNELS: 0.25 + 1 + 8 + 16,
        kinds.PRODUCTS: 2 + 4 + 64,
        kinds.POINTWISE: 128,
        kinds.OTHER: 0.5 + 32,
    }
    assert found == expected


def test_the_profiler_tells_which_part_a_gradient_goes_back_through(bench):
    """Of a real layer, operations counted. Seven transforms are the convolution's: the filter forth, the input forth
    and back; then gradient and input forth, and back the gradients of the input and of the filter. The others make the
    kernel. Products mix channels, make the kernel, or belong to the gradient of the norm."""
    kinds = bench.speed_profile
    layer, x = S4(4, state=8, kernel="dplr"), torch.randn(2, 4, 30, requires_grad=True)
    with kinds.marked(), profile(activities=[ProfilerActivity.CPU]) as found:
        layer(x).sum().backward()
    events = found.events()
    pairs = Counter((one.name, kind) for one, kind in zip(events, kinds.kinds_of(events), strict=True))

    def counted(*names):
        found = Counter()
        for (name, kind), count in pairs.items():
            found[kind] += count * (name in names)
        return +found

    transforms = counted("aten::_fft_r2c", "aten::_fft_c2r")
    assert set(transforms) == {kinds.KERNELS, kinds.CONVOLUTION}
    assert transforms[kinds.CONVOLUTION] == 7
    assert set(counted("aten::gelu", "aten::gelu_backward", "aten::glu", "aten::glu_backward")) == {kinds.POINTWISE}
    assert set(counted("aten::bmm", "aten::baddbmm")) == {kinds.KERNELS, kinds.PRODUCTS, kinds.POINTWISE}
    assert set(counted("aten::linalg_solve", "aten::scatter_add")) == set()


def test_parts_are_left_as_they_were(bench):
    before = [getattr(owner, name) for owner, name, _ in bench.speed_profile.PARTS]
    with pytest.raises(KeyError), bench.speed_profile.marked():
        raise KeyError
    assert [getattr(owner, name) for owner, name, _ in bench.speed_profile.PARTS] == before


def test_points_are_measured_once_and_the_next_run_goes_on(bench, tmp_path):
    asked = []

    def point(name, value):
        return lambda: asked.append(name) or value

    points = {"a": point("a", 1.0), "b": point("b", 2.0), "c": point("c", 3.0)}
    partial = tmp_path / "some.partial"
    assert bench.workload.resumed(points, partial, 1) is None
    assert bench.workload.resumed(points, partial, 1) is None
    assert asked == ["a", "b"]
    assert bench.workload.resumed(points, partial, None) == {"a": 1.0, "b": 2.0, "c": 3.0}
    assert asked == ["a", "b", "c"]


def test_records_say_which_widths_they_are_of(bench):
    assert bench.speed_agreement.widths(12, 120) == _found("agreement")["widths"]
    of, other = bench.speed_profile.WIDTHS["decontaminator"], bench.speed_profile.WIDTHS["dependencies"]
    said = _found("profile")["widths"]
    assert said.startswith(f"{of['channels']} channels, {of['blocks']} blocks, ")
    assert f"; {other['features']} features, {other['layers']} layer; K = {bench.workload.K}, " in said
    assert f"L = {bench.workload.LENGTH}; batch {bench.speed_profile.BATCH}, " in said


def _found(section):
    return json.loads((BENCHMARKS / "results" / "speed" / f"{section}.json").read_text())["found"]


def test_an_agreement_is_the_difference_of_two_rank_correlations(bench):
    exact = np.arange(40.0)
    again, few = exact[::-1], np.exp(exact)
    found = bench.speed_agreement.compared(exact, again, few)
    assert (found["another seed"], found["few steps"], found["difference"]) == pytest.approx((-1, 1, 2))
    assert found["interval"] == pytest.approx([2, 2])
    noisy = exact + np.random.default_rng(0).normal(0, 20, 40)
    low, high = bench.speed_agreement.compared(exact, exact, noisy)["interval"]
    assert -1 < low < high < 0
