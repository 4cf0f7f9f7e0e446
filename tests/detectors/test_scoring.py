import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tsadc.detectors.tsadc.scoring import SOFT, VIEWS, Config, Examiner, Head, Residuals
from tsadc.errors import ConfigError

VARIABLES, LENGTH = 3, 16


class Stub:
    """A network whose estimate of a cell is the number of the mask it was made under, so that it tells on itself; what
    is observed it returns as 999. Its reconstruction is half a unit above what it is shown."""

    def __init__(self, masking: str = "RandBM", masked_length: int = 4) -> None:
        self.decontaminator = SimpleNamespace(
            config=SimpleNamespace(masking=masking), estimate=self.estimate, sample=self.sample
        )
        self.masked_length = masked_length
        self.shown: list[torch.Tensor] = []
        self.filled: list[torch.Tensor] = []
        self.chains: list[tuple[int | None, int]] = []

    def enter(self, z: torch.Tensor) -> torch.Tensor:
        return 2 * z

    def leave(self, x: torch.Tensor) -> torch.Tensor:
        return x / 2

    def estimate(self, x: torch.Tensor, observed: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        self.shown.append(observed)
        number = torch.arange(len(x), dtype=x.dtype)[:, None, None].expand(x.shape)
        return torch.where(observed, 999.0, number)

    def sample(
        self,
        x: torch.Tensor,
        observed: torch.Tensor,
        noise: torch.Tensor,
        generator: torch.Generator,
        steps: int | None,
    ) -> torch.Tensor:
        self.chains.append((steps, generator.initial_seed()))
        return self.estimate(x, observed, noise)

    def dependencies(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.filled.append(x)
        return x + 0.5, torch.zeros(len(x))


def observation(seed: int = 0, gaps: float = 0.3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(VARIABLES, LENGTH)).astype(np.float32)
    z[rng.random(z.shape) < gaps] = np.nan
    z[0, 0], z[1, 0] = 1.0, np.nan
    return z


def examine(stub: Stub, config: Config, seed: int = 7) -> Examiner:
    return Examiner(stub, config, variables=VARIABLES, length=LENGTH, seed=seed)


@pytest.mark.parametrize("masking", ["RandM", "RandBM", "BoM"])
@pytest.mark.parametrize("count", [2, 5, 40])
def test_every_measured_cell_is_told_from_the_mask_that_hides_it(masking, count):
    stub, z = Stub(masking), observation()
    examiner = examine(stub, Config(masks=count))
    found = examiner.residuals(z)
    masks = min(count, LENGTH)
    assert examiner.shown.shape == (masks, VARIABLES, LENGTH)
    np.testing.assert_array_equal(np.isfinite(found.imputation), np.isfinite(z))
    for k in range(VARIABLES):
        for t in range(LENGTH):
            hiding = [m for m in range(masks) if not examiner.shown[m, k, t]]
            assert len(hiding) == 1
            if np.isfinite(z[k, t]):
                assert found.imputation[k, t] == pytest.approx(abs(z[k, t] - hiding[0] / 2), abs=1e-6)
                assert found.expected[k, t] == pytest.approx(hiding[0] / 2)
            else:  # in nobody's sight, so told from all
                assert found.expected[k, t] == pytest.approx(np.mean(range(masks)) / 2)
    (observed,) = stub.shown
    np.testing.assert_array_equal(observed.numpy(), examiner.shown.numpy() & np.isfinite(z))


def test_the_dependencies_see_estimates_where_nothing_was_measured():
    stub, z = Stub(), observation()
    found = examine(stub, Config(masks=4)).residuals(z)
    (filled,) = stub.filled
    np.testing.assert_allclose(filled[0].numpy(), np.where(np.isfinite(z), 2 * z, 1.5), rtol=1e-6)
    np.testing.assert_array_equal(np.isfinite(found.reconstruction), np.isfinite(z))
    np.testing.assert_allclose(found.reconstruction[np.isfinite(z)], 0.25, rtol=1e-4)


def test_a_single_mask_tells_of_the_cells_it_hides():
    stub, z = Stub(masked_length=5), observation(gaps=0)
    z[1, 0] = 0.0
    examiner = examine(stub, Config(masks=0))
    found = examiner.residuals(z)
    hidden = ~examiner.shown[0].numpy()
    np.testing.assert_array_equal(hidden.sum(axis=1), [5, 5, 5])
    np.testing.assert_array_equal(np.isfinite(found.imputation), hidden)
    np.testing.assert_allclose(found.imputation[hidden], np.abs(z[hidden]), rtol=1e-6)
    np.testing.assert_allclose(found.expected, np.where(hidden, 0.0, z + 0.25), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("steps", "expected"), [(0, None), (2, 2), (7, 7)])
def test_the_chain_is_as_long_as_asked_for_and_always_the_same(steps, expected):
    stub = Stub()
    examiner = examine(stub, Config(masks=3, steps=steps))
    first, second = (examiner.residuals(observation(seed)) for seed in (0, 1))
    again = examiner.residuals(observation(0))
    assert stub.chains == [(expected, stub.chains[0][1])] * 3
    np.testing.assert_array_equal(again.imputation, first.imputation)
    assert not np.array_equal(second.imputation, first.imputation)


def test_the_seed_alone_sets_masks_and_noise():
    one, two, other = (examine(Stub(), Config(masks=3), seed) for seed in (1, 1, 2))
    assert torch.equal(one.shown, two.shown)
    assert torch.equal(one.noise, two.noise)
    assert not torch.equal(one.noise, other.noise)
    assert not torch.equal(one.shown, other.shown)


def residuals(seed: int, gaps: float = 0.3, size: float = 1.0) -> Residuals:
    """At random; imputation has gaps of its own, as with a single mask."""
    rng = np.random.default_rng(seed)
    imputation, reconstruction = size * rng.exponential(size=(2, VARIABLES, LENGTH)).astype(np.float32)
    missing = rng.random((VARIABLES, LENGTH)) < gaps
    missing[0, 3] = False
    missing[:, 5] = gaps > 0
    reconstruction[missing] = np.nan
    imputation[missing | (rng.random(missing.shape) < gaps)] = np.nan
    return Residuals(imputation, reconstruction, np.zeros_like(imputation))


def slow_level(cells: np.ndarray, t: int, count: int) -> float:
    """log(0.1 + mean of the `count` largest at step t)."""
    known = sorted((float(x) for x in cells[:, t] if not np.isnan(x)), reverse=True)[:count]
    return math.log(SOFT + sum(known) / len(known)) if known else math.nan


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.3, 0.7]), st.integers(1, 4))
def test_the_default_head_against_a_slow_loop(seed, gaps, extremes):
    config = Config(extremes=extremes)
    training = [residuals(1000 + i, gaps) for i in range(12)]
    head = Head.fit(config, training)
    middle, spread = [], []
    for view in VIEWS:
        worst = []
        for one in training:
            levels = [slow_level(getattr(one, view), t, extremes) for t in range(LENGTH)]
            worst.append(max(level for level in levels if not math.isnan(level)))
        low, half, high = np.quantile(worst, [0.25, 0.5, 0.75])
        middle.append(half)
        spread.append((high - low) / 1.349)
    np.testing.assert_allclose(head.middle, middle, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(head.spread, spread, rtol=1e-3)

    found = residuals(seed, gaps)
    evidence = head.evidence(found)
    steps, tops = [], {view: [] for view in VIEWS}
    for t in range(LENGTH):
        total, loudest = 0.0, []
        for v, view in enumerate(VIEWS):
            level = (slow_level(getattr(found, view), t, extremes) - head.middle[v]) / head.spread[v]
            if not math.isnan(level):
                total += math.log1p(math.exp(level))
                tops[view].append(level)
                loudest.append((level, v))
        steps.append(total if loudest else math.nan)
        if loudest:
            assert evidence.causes[t] == max(loudest, key=lambda one: one[0])[1]
    np.testing.assert_allclose(evidence.steps, steps, rtol=2e-4, atol=1e-5)
    assert evidence.score == float(np.nanmax(evidence.steps))
    for view in VIEWS:
        assert evidence.views[view] == pytest.approx(max(tops[view], default=math.nan), rel=1e-4, abs=1e-4, nan_ok=True)

    typical = np.exp(head.middle) - SOFT
    for k in range(VARIABLES):
        for t in range(LENGTH):
            parts = [found.imputation[k, t] / typical[0], found.reconstruction[k, t] / typical[1]]
            known = [part for part in parts if not np.isnan(part)]
            expected = sum(known) if known else np.nan
            assert evidence.contributions[k, t] == pytest.approx(expected, rel=1e-4, nan_ok=True)
    assert evidence.expected is found.expected


def test_a_view_that_has_nothing_to_say():
    head = Head.fit(Config(), [residuals(i) for i in range(8)])
    found = residuals(3)
    silent = Residuals(np.full_like(found.imputation, np.nan), found.reconstruction, found.expected)
    evidence = head.evidence(silent)
    assert math.isfinite(evidence.score)
    assert math.isnan(evidence.views["imputation"])
    np.testing.assert_array_equal(np.isnan(evidence.steps), np.isnan(found.reconstruction).all(axis=0))
    scales = Head.fit(Config(), [silent, *[residuals(i) for i in range(8)]])
    assert np.isfinite(scales.middle).all()
    assert np.isfinite(scales.spread).all()


def test_training_observations_that_are_all_alike_still_give_a_scale():
    head = Head.fit(Config(), [residuals(1)] * 6)
    assert (head.spread > 0).all()
    assert math.isfinite(head.evidence(residuals(2, size=1e25)).score)
    assert np.isfinite(head.evidence(residuals(2, gaps=0, size=1e30)).contributions).all()


def test_a_larger_residual_never_scores_lower():
    head = Head.fit(Config(), [residuals(i, 0) for i in range(8)])
    found = residuals(9, 0)
    scores = []
    for size in (0.0, 0.5, 2.0, 30.0, 1e6):
        imputation = found.imputation.copy()
        imputation[1, 4] = size
        scores.append(head.evidence(Residuals(imputation, found.reconstruction, found.expected)).score)
    assert scores == sorted(scores)
    assert scores[-1] > scores[0] + 1


@pytest.mark.parametrize("weights", [(0.01, 1.2), (1.0, 0.0), (0.3, 0.7)])
def test_the_papers_head_by_hand(weights):
    found = residuals(4)
    head = Head.fit(Config(head="paper", weights=weights), [residuals(i) for i in range(6)])
    evidence = head.evidence(found)
    rmse = []
    for cells in (found.imputation, found.reconstruction):
        squares = [float(x) ** 2 for x in cells.ravel() if not np.isnan(x)]
        rmse.append(math.sqrt(sum(squares) / len(squares)))
    expected = weights[0] * rmse[0] + weights[1] * rmse[1]
    assert evidence.score == pytest.approx(expected, rel=1e-6)
    assert evidence.views == pytest.approx(dict(zip(VIEWS, rmse, strict=True)), rel=1e-6)
    measured = ~np.isnan(found.reconstruction)
    np.testing.assert_array_equal(np.isnan(evidence.steps), ~measured.any(axis=0))
    assert set(evidence.steps[measured.any(axis=0)].tolist()) == {evidence.score}
    cells = weights[0] * np.nan_to_num(found.imputation) + weights[1] * np.nan_to_num(found.reconstruction)
    np.testing.assert_allclose(evidence.contributions, np.where(measured, cells, np.nan), rtol=1e-6)
    assert set(evidence.causes.tolist()) == {float(weights[1] * rmse[1] > weights[0] * rmse[0])}


def test_the_papers_head_without_a_hidden_cell_that_was_measured():
    found = residuals(4)
    silent = Residuals(np.full_like(found.imputation, np.nan), found.reconstruction, found.expected)
    evidence = Head.fit(Config(head="paper"), [silent, residuals(1)]).evidence(silent)
    assert evidence.views["imputation"] == 0
    assert evidence.score == pytest.approx(1.2 * evidence.views["reconstruction"], rel=1e-6)


def test_a_head_comes_back_from_its_state():
    head = Head.fit(Config(), [residuals(i) for i in range(8)])
    again = Head.restore(Config(), head.state())
    one, two = head.evidence(residuals(20)), again.evidence(residuals(20))
    assert one.score == two.score
    assert one.steps.tobytes() == two.steps.tobytes()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"masks": 1}, "`masks` must be 0 or at least 2, but got 1"),
        ({"masks": -1}, "`masks` must be"),
        ({"steps": -1}, "`steps` must be zero or more"),
        ({"extremes": 0}, "`extremes` must be at least 1"),
        ({"weights": (1.0,)}, "`weights` must be two numbers from 0"),
        ({"weights": (1.0, -0.1)}, "`weights` must be two numbers from 0"),
    ],
)
def test_settings_out_of_range(settings, expected):
    with pytest.raises(ConfigError, match=expected):
        Config(**settings)
