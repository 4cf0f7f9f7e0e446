"""The layer against its parts written out, its two modes against each other, and its cache against no cache."""

import copy
import math
import pickle
import threading

import pytest
import torch
import torch.nn.functional as F
from definitions import convolve_directly
from torch import Tensor, nn

from tsadc.errors import ConfigError
from tsadc.nn import ssm
from tsadc.nn.layers import ChannelNorm
from tsadc.nn.s4 import S4, StateSpace, ssm_parameters


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def noise(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=seeded(seed))


def uncached(layer: S4, x: Tensor) -> Tensor:
    """Gradients switch the cache off."""
    with torch.enable_grad():
        return layer(x).detach()


@pytest.mark.parametrize("kernel", ["dplr", "diagonal"])
@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("length", [1, 30, 37])
def test_forward_is_the_layer_written_out(kernel: str, bidirectional: bool, length: int) -> None:
    layer = S4(6, state=8, bidirectional=bidirectional, kernel=kernel, generator=seeded()).eval()
    x = noise(3, 6, length)
    y = convolve_directly(x, layer.space(length), layer.D)
    mixed = F.glu(F.linear(F.gelu(y).mT, layer.mix_weight, layer.mix_bias), dim=-1)
    expected = F.layer_norm(x.mT + mixed, (6,), layer.norm.weight, layer.norm.bias).mT
    torch.testing.assert_close(layer(x), expected)


@pytest.mark.parametrize("kernel", ["dplr", "diagonal"])
@pytest.mark.parametrize("length", [1, 61, 300])
def test_streaming_equals_convolution(kernel: str, length: int) -> None:
    layer = S4(5, state=64, bidirectional=False, kernel=kernel, generator=seeded()).eval()
    x = noise(2, 5, length)
    state, out = layer.initial_state(2), []
    with torch.no_grad():
        for now in x.unbind(-1):
            y, state = layer.step(now, state)
            out.append(y)
        torch.testing.assert_close(torch.stack(out, -1), layer(x), rtol=0, atol=1e-5)


def test_streaming_carries_gradients() -> None:
    layer = S4(3, state=4, bidirectional=False, generator=seeded()).double()
    x = noise(2, 3, 6).double()
    layer(x).square().sum().backward()
    by_convolution = [p.grad.clone() for p in layer.parameters() if p.grad is not None]
    layer.zero_grad()
    state, loss = layer.initial_state(2), torch.zeros((), dtype=torch.float64)
    for now in x.unbind(-1):
        y, state = layer.step(now, state)
        loss = loss + y.square().sum()
    loss.backward()
    by_recurrence = [p.grad for p in layer.parameters()]
    assert len(by_convolution) == len(by_recurrence) == len(list(layer.parameters()))
    for one, other in zip(by_convolution, by_recurrence, strict=True):
        torch.testing.assert_close(one, other)


def test_a_bidirectional_layer_does_not_stream() -> None:
    layer = S4(3, state=4, generator=seeded())
    with pytest.raises(ConfigError, match="bidirectional=False"):
        layer.step(noise(1, 3), layer.initial_state(1))


def test_only_a_bidirectional_layer_sees_the_future() -> None:
    x = noise(1, 4, 20)
    later = x.clone()
    later[..., 12:] += 1
    for bidirectional in (True, False):
        layer = S4(4, state=8, bidirectional=bidirectional, generator=seeded()).eval()
        same = torch.allclose(layer(x)[..., :12], layer(later)[..., :12], atol=1e-5)
        assert same is not bidirectional


def test_same_generator_same_layer() -> None:
    one, two, other = (S4(4, state=8, generator=seeded(seed)) for seed in (0, 0, 1))
    x = noise(2, 4, 10)
    assert torch.equal(one(x), two(x))
    assert not torch.equal(one(x), other(x))


def test_initial_models() -> None:
    space = StateSpace(200, state=16, dt_min=1e-2, dt_max=1e-1, generator=seeded())
    Lambda, P, B, _ = ssm.nplr_legs(16)
    assert space.P is not None
    torch.testing.assert_close(space._Lambda()[7], Lambda.to(torch.complex64))
    torch.testing.assert_close(torch.view_as_complex(space.P)[7], P.to(torch.complex64))
    torch.testing.assert_close(torch.view_as_complex(space.B)[7], B.to(torch.complex64))
    assert math.log(1e-2) <= space.log_dt.min() < space.log_dt.max() <= math.log(1e-1)
    diagonal = StateSpace(2, state=16, kernel="diagonal", generator=seeded())
    assert diagonal.P is None
    torch.testing.assert_close(diagonal._Lambda()[1].imag, math.pi * torch.arange(8.0))
    torch.testing.assert_close(diagonal._Lambda()[1].real, torch.full((8,), -0.5))


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"kernel": "dense"}, "'dense'"), ({"state": 7}, "even"), ({"dt_min": 0.2, "dt_max": 0.1}, "dt_min")],
)
def test_wrong_settings_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        S4(4, **settings)  # type: ignore[arg-type]


def count_kernels(layer: S4, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    made: list[int] = []
    make = layer.space.forward

    def counted(length: int) -> Tensor:
        made.append(length)
        return make(length)

    monkeypatch.setattr(layer.space, "forward", counted)
    return made


def test_eval_makes_each_kernel_once(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = S4(4, state=8, generator=seeded()).eval()
    made = count_kernels(layer, monkeypatch)
    x = noise(2, 4, 30)
    expected = uncached(layer, x)
    made.clear()
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(layer(x), expected)
            layer(x[..., :17])
    with torch.inference_mode():
        layer(x)
    assert made == [30, 17]


def test_the_cache_stays_small() -> None:
    layer = S4(4, state=8, generator=seeded()).eval()
    with torch.no_grad():
        for length in range(1, 20):
            layer(noise(1, 4, length))
    assert len(layer._cache) == 4


@pytest.mark.parametrize("training", [True, False])
def test_no_cache_in_training_or_with_gradients(training: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = S4(4, state=8, generator=seeded()).train(training)
    made = count_kernels(layer, monkeypatch)
    x = noise(2, 4, 9)
    for _ in range(2):
        with torch.set_grad_enabled(not training):
            layer(x)
    assert made == [9, 9]
    assert not layer._cache


@pytest.mark.parametrize("name", ["D", "space.log_dt", "space.log_decay", "space.frequency", "space.P", "space.C"])
@pytest.mark.parametrize("how", ["in_place", "through_data", "new_data"])
def test_a_changed_parameter_is_never_served_stale(name: str, how: str) -> None:
    layer = S4(4, state=8, bidirectional=False, generator=seeded()).eval()
    x = noise(2, 4, 21)
    parameter = dict(layer.named_parameters())[name]
    with torch.no_grad():
        before = layer(x)
        stream_before, _ = layer.step(x[..., 0], layer.initial_state(2))
        if how == "in_place":
            parameter.mul_(1.1)
        elif how == "through_data":
            parameter.data.mul_(1.1)
        else:
            parameter.data = parameter.data * 1.1
        after = layer(x)
        stream_after, _ = layer.step(x[..., 0], layer.initial_state(2))
    assert not torch.equal(before, after)
    torch.testing.assert_close(after, uncached(layer, x))
    torch.testing.assert_close(stream_after, after[..., 0], rtol=0, atol=1e-5)
    assert not torch.equal(stream_before, stream_after)


def test_loading_moving_copying_and_training_leave_no_stale_kernel() -> None:
    layer, other = (S4(4, state=8, generator=seeded(seed)).eval() for seed in (0, 1))
    x = noise(2, 4, 21)
    with torch.no_grad():
        layer(x)
        layer.load_state_dict(other.state_dict())
        torch.testing.assert_close(layer(x), other(x))
        clone = copy.deepcopy(layer)
        clone.D.add_(1)
        torch.testing.assert_close(layer(x), other(x))
        torch.testing.assert_close(clone(x), uncached(clone, x))
        assert layer.double()(x.double()).dtype == torch.float64
        torch.testing.assert_close(layer(x.double()), uncached(layer, x.double()))
    layer.train()
    assert not layer._cache
    assert not any("cache" in key for key in layer.state_dict())


def test_dropout_acts_in_training_only() -> None:
    layer = S4(4, state=8, dropout=0.5, generator=seeded())
    x = noise(2, 4, 21)
    assert not torch.equal(layer.train()(x), layer(x))
    assert torch.equal(layer.eval()(x), layer(x))


def test_state_space_parameters_are_those_of_every_layer_inside() -> None:
    network = nn.Sequential(
        S4(4, state=8), nn.Linear(3, 3), nn.ModuleDict({"inner": S4(4, state=8, kernel="diagonal")})
    )
    chosen = {id(p) for p in ssm_parameters(network)}
    names = [name for name, p in network.named_parameters() if id(p) in chosen]
    assert names == [
        *(f"0.space.{name}" for name in ("log_dt", "log_decay", "frequency", "B", "P")),
        *(f"2.inner.space.{name}" for name in ("log_dt", "log_decay", "frequency", "B")),
    ]


def test_channel_norm_is_layer_norm_over_channels() -> None:
    norm = ChannelNorm(6)
    with torch.no_grad():
        norm.weight.copy_(noise(6))
        norm.bias.copy_(noise(6, seed=2))
    x = 3 * noise(2, 6, 5) + 1
    torch.testing.assert_close(norm(x), F.layer_norm(x.mT, (6,), norm.weight, norm.bias).mT)
    norm.double()
    x = x.double().requires_grad_()

    def normalise(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return torch.func.functional_call(norm, {"weight": weight, "bias": bias}, (x,))

    weight, bias = (p.detach().requires_grad_() for p in (norm.weight, norm.bias))
    assert torch.autograd.gradcheck(normalise, (x, weight, bias))


@pytest.mark.parametrize("how", [copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer))])
def test_copies_have_a_cache_and_a_lock_of_their_own(how) -> None:
    """Processes get pickled layers."""
    layer = S4(4, state=8, generator=seeded()).eval()
    x = noise(2, 4, 21)
    with torch.no_grad():
        expected = layer(x)
        with layer._lock:
            clone = how(layer)
        assert not clone._cache
        assert clone._lock is not layer._lock
        assert torch.equal(clone(x), expected)
        assert len(clone._cache) == len(layer._cache) == 1
    assert clone.shared_filter is None
    clone.train()(x).sum().backward()
    assert clone.D.grad is not None
    assert layer.D.grad is None


def test_threads_share_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """All ask at once for more lengths than are kept; each gets what it asked for."""
    layer = S4(4, state=8, generator=seeded()).eval()
    x = noise(2, 4, 12)
    lengths = [12, 11, 10, 9, 8, 7]
    expected = {length: uncached(layer, x[..., :length]) for length in lengths}
    made = count_kernels(layer, monkeypatch)
    together, wrong = threading.Barrier(4, timeout=60), []

    def work(first: int) -> None:
        with torch.no_grad():
            for turn in range(20):
                together.wait()
                length = lengths[(first + turn) % len(lengths)]
                if not torch.allclose(layer(x[..., :length]), expected[length], atol=1e-6):
                    wrong.append(length)

    workers = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong
    assert len(layer._cache) == 4
    made.clear()
    with torch.no_grad():
        kept = [key[0] for key in layer._cache]  # type: ignore[index]
        for length in kept:
            layer(x[..., :length])
    assert not made


def test_threads_that_ask_for_the_same_kernel_wait_for_one_to_make_it(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = S4(4, state=8, generator=seeded()).eval()
    made = count_kernels(layer, monkeypatch)
    make, begun, go_on = layer.space.forward, threading.Event(), threading.Event()

    def slowly(length: int) -> Tensor:
        begun.set()
        assert go_on.wait(60)
        return make(length)

    def work() -> None:
        with torch.no_grad():
            layer(noise(2, 4, 30))

    monkeypatch.setattr(layer.space, "forward", slowly)
    first, second = (threading.Thread(target=work) for _ in range(2))
    first.start()
    assert begun.wait(60)
    begun.clear()
    second.start()
    # The second one has this long to go wrong; it must not begin a kernel while the first is at it.
    assert not begun.wait(0.5)
    go_on.set()
    for thread in (first, second):
        thread.join()
    assert made == [30]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("grad", [True, False])
def test_a_given_filter_is_used_whatever_the_mode(training: bool, grad: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    layer, other = (S4(4, state=8, generator=seeded(seed)).train(training) for seed in (0, 1))
    x = noise(2, 4, 9)
    circle = other.filter(9)
    made = count_kernels(layer, monkeypatch)
    layer.shared_filter = lambda length: (circle, torch.fft.rfft(circle.detach()))
    with torch.set_grad_enabled(grad):
        found = layer._convolution(x.shape[-1])(x)
    torch.testing.assert_close(found, convolve_directly(x, other.space(9), other.D))
    assert not made
    assert found.requires_grad is grad
