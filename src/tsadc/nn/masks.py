"""Which cells the model may look at. Every function returns `observed` (..., channel, time): False = hidden.

The three strategies of the paper, drawn per observation with r = `masked_length` hidden steps per variable:

    RandM     r steps of each variable, anywhere
    RandBM    one window of r steps per variable, its place independent of the other variables'
    BoM       one window of r steps, the same for all variables

`complementary` makes masks that together hide every cell exactly once, so that each cell gets a residual.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from tsadc.errors import ConfigError

Strategy = Literal["RandM", "RandBM", "BoM"]
Shape = tuple[int, int, int]
"""(batch, channel, time)."""


def masked_length(contamination: float, length: int) -> int:
    """r = round(contamination * L), at least 1, because an observation without a hidden step teaches nothing."""
    if not 0 <= contamination < 1:
        raise ConfigError(f"The contamination is a share from 0 to below 1, but it is {contamination}.")
    hidden = max(1, round(contamination * length))
    if hidden >= length:
        raise ConfigError(
            f"A contamination of {contamination} hides all {length} steps of an observation: "
            "lower it, or take longer observations."
        )
    return hidden


def draw(strategy: Strategy, shape: Shape, masked_length: int, generator: torch.Generator) -> Tensor:
    """`observed` (batch, channel, time) by the strategy's name."""
    _check(strategy)
    if not 1 <= masked_length < shape[-1]:
        raise ConfigError(f"A mask hides 1 to {shape[-1] - 1} of {shape[-1]} time steps, but not {masked_length}.")
    return {"RandM": rand, "RandBM": rand_block, "BoM": blackout}[strategy](shape, masked_length, generator)


def rand(shape: Shape, masked_length: int, generator: torch.Generator) -> Tensor:
    """RandM: the hidden steps of a variable are those with the r largest of L random numbers."""
    hidden = _uniform(shape, generator).topk(masked_length, dim=-1, sorted=False).indices
    observed = torch.ones(shape, dtype=torch.bool)
    return observed.scatter_(-1, hidden, False)


def rand_block(shape: Shape, masked_length: int, generator: torch.Generator) -> Tensor:
    """RandBM: a window per variable, every place inside the observation equally likely."""
    batch, channel, length = shape
    return _outside_window((batch, channel, 1), length, masked_length, generator)


def blackout(shape: Shape, masked_length: int, generator: torch.Generator) -> Tensor:
    """BoM: a window per observation, every place equally likely."""
    batch, _, length = shape
    return _outside_window((batch, 1, 1), length, masked_length, generator).expand(shape).contiguous()


def complementary(strategy: Strategy, channels: int, length: int, count: int, generator: torch.Generator) -> Tensor:
    """`observed` (count, channel, time): every cell hidden in exactly one of `count` masks.

    Each variable's time axis is dealt out in `count` parts of floor or ceil(length / count) steps: random steps
    (RandM), or contiguous blocks after a random rotation, in a random order. RandBM rotates and orders each variable by
    itself, so that one mask hides different times of different variables; BoM all alike. The block that the rotation
    carries over the end of the observation hides its last and its first steps.
    """
    _check(strategy)
    if not 2 <= count <= length:
        raise ConfigError(f"Complementary masks of {length} time steps are 2 to {length} in number, but not {count}.")
    time = torch.arange(length)
    rows = 1 if strategy == "BoM" else channels
    if strategy == "RandM":
        place = _permutations(rows, length, generator)
    else:
        offset = torch.randint(length, (rows, 1), generator=generator)
        place = (time + offset) % length
    hidden_in = _permutations(rows, count, generator).gather(1, place * count // length)
    index = torch.arange(count)
    return (hidden_in.expand(channels, length) != index[:, None, None]).contiguous()


def _check(strategy: str) -> None:
    if strategy not in get_args(Strategy):
        raise ConfigError(f"The masking strategy is one of {get_args(Strategy)}, but it is {strategy!r}.")


def _outside_window(shape: Shape, length: int, masked_length: int, generator: torch.Generator) -> Tensor:
    first = torch.randint(length - masked_length + 1, shape, generator=generator)
    time = torch.arange(length)
    return (time < first) | (time >= first + masked_length)


def _permutations(rows: int, length: int, generator: torch.Generator) -> Tensor:
    return _uniform((rows, length), generator).argsort(-1)


def _uniform(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.rand(shape, generator=generator)
