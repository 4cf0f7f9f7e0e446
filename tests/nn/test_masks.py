import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tsadc.errors import ConfigError
from tsadc.nn import masks

STRATEGIES = ["RandM", "RandBM", "BoM"]
seeds = st.integers(0, 2**31 - 1)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def windows(hidden: list[bool]) -> int:
    """How many runs of hidden steps there are."""
    return sum(now and not before for before, now in zip([False, *hidden], hidden, strict=False))


@st.composite
def shapes(draw):
    length = draw(st.integers(2, 40))
    return (draw(st.integers(1, 4)), draw(st.integers(1, 5)), length), draw(st.integers(1, length - 1))


@given(drawn=shapes(), seed=seeds)
def test_every_variable_has_exactly_r_hidden_steps(drawn, seed):
    shape, hidden = drawn
    for strategy in STRATEGIES:
        observed = masks.draw(strategy, shape, hidden, seeded(seed))
        assert observed.shape == shape
        assert observed.dtype == torch.bool
        assert ((~observed).sum(-1) == hidden).all()


@given(drawn=shapes(), seed=seeds)
def test_block_strategies_hide_one_window(drawn, seed):
    shape, hidden = drawn
    for observed in (masks.rand_block(shape, hidden, seeded(seed)), masks.blackout(shape, hidden, seeded(seed))):
        assert all(windows((~row).tolist()) == 1 for row in observed.flatten(0, 1))


@given(drawn=shapes(), seed=seeds)
def test_blackout_hides_the_same_window_of_all_variables(drawn, seed):
    shape, hidden = drawn
    observed = masks.blackout(shape, hidden, seeded(seed))
    assert (observed == observed[:, :1]).all()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_places_are_uniform(strategy):
    """RandM hides each step with chance r / L; a window of r starts at each of the L - r + 1 places alike."""
    length, hidden, batch = 8, 3, 20_000
    observed = masks.draw(strategy, (batch, 2, length), hidden, seeded())
    if strategy == "RandM":
        share = (~observed).double().mean((0, 1))
        expected = torch.full((length,), hidden / length, dtype=torch.float64)
    else:
        first = (~observed).int().argmax(-1)[:, 0]
        share = torch.bincount(first, minlength=length).double() / batch
        expected = torch.tensor([1 / 6] * 6 + [0, 0], dtype=torch.float64)
    torch.testing.assert_close(share, expected, rtol=0, atol=0.012)


@pytest.mark.parametrize("strategy", ["RandM", "RandBM"])
def test_variables_and_observations_are_hidden_independently(strategy):
    """Chance that a second variable, or observation, hides the very same steps: 1 / C(6, 2), or 1 / 5 places."""
    observed = masks.draw(strategy, (10_000, 2, 6), 2, seeded())
    chance = 1 / 15 if strategy == "RandM" else 1 / 5
    assert (observed[:, 0] == observed[:, 1]).all(-1).double().mean().item() == pytest.approx(chance, abs=0.015)
    assert (observed[1:, 0] == observed[:-1, 0]).all(-1).double().mean().item() == pytest.approx(chance, abs=0.015)


@st.composite
def partitions(draw):
    length = draw(st.integers(2, 50))
    return draw(st.integers(1, 6)), length, draw(st.integers(2, length))


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(drawn=partitions(), seed=seeds)
def test_complementary_masks_hide_every_cell_exactly_once(strategy, drawn, seed):
    channels, length, count = drawn
    observed = masks.complementary(strategy, channels, length, count, seeded(seed))
    assert observed.shape == (count, channels, length)
    assert ((~observed).sum(0) == 1).all()
    hidden = (~observed).sum(-1)
    assert hidden.min() >= length // count
    assert hidden.max() <= -(-length // count)


@given(drawn=partitions(), seed=seeds)
def test_complementary_blocks_are_contiguous_around_the_end(drawn, seed):
    channels, length, count = drawn
    for strategy in ("RandBM", "BoM"):
        for row in masks.complementary(strategy, channels, length, count, seeded(seed)).flatten(0, 1):
            hidden = (~row).tolist()
            wraps = hidden[0] and hidden[-1]
            assert windows(hidden) == 1 + wraps


def test_complementary_masks_share_times_between_variables_only_in_bom():
    bom = masks.complementary("BoM", 30, 60, 10, seeded())
    assert (bom == bom[:, :1]).all()
    for strategy in ("RandM", "RandBM"):
        hidden_per_time = (~masks.complementary(strategy, 30, 60, 10, seeded())).sum(1)
        assert hidden_per_time.max() < 15  # of 30 variables; 3 expected


def test_complementary_masks_differ_from_draw_to_draw():
    generator = seeded()
    for strategy in STRATEGIES:
        first, second = (masks.complementary(strategy, 3, 60, 10, generator) for _ in range(2))
        assert not torch.equal(first, second)


@pytest.mark.parametrize(
    ("contamination", "length", "expected"), [(0.1, 600, 60), (0.15, 10, 2), (0.0, 10, 1), (0.001, 100, 1)]
)
def test_masked_length_is_the_contaminated_share(contamination, length, expected):
    assert masks.masked_length(contamination, length) == expected


@pytest.mark.parametrize(("contamination", "length"), [(1.0, 10), (-0.1, 10), (float("nan"), 10), (0.99, 10), (0.1, 1)])
def test_a_contamination_that_leaves_nothing_is_refused(contamination, length):
    with pytest.raises(ConfigError, match="contamination"):
        masks.masked_length(contamination, length)


def test_unknown_strategies_and_impossible_lengths_are_refused():
    with pytest.raises(ConfigError, match="'randm'"):
        masks.draw("randm", (1, 1, 4), 1, seeded())
    with pytest.raises(ConfigError, match="'x'"):
        masks.complementary("x", 1, 4, 2, seeded())
    for hidden in (0, 4):
        with pytest.raises(ConfigError, match=f"but hides {hidden}"):
            masks.draw("BoM", (1, 1, 4), hidden, seeded())
    for count in (1, 5):
        with pytest.raises(ConfigError, match=f"but is {count}"):
            masks.complementary("BoM", 1, 4, count, seeded())
