"""Masks: the cells that a model may see. Every function returns `observed` (..., variable, time), False = hidden.

TSAD-C's three strategies, drawn per observation with r = `masked_length` hidden steps per variable:

    RandM     r steps of each variable, anywhere
    RandBM    one window of r steps per variable, placed independently of the other variables
    BoM       one window of r steps, the same for all variables

`complementary` returns masks that together hide every cell exactly once, so that each cell gets a residual.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from tsadc.errors import ConfigError

Strategy = Literal["RandM", "RandBM", "BoM"]
Shape = tuple[int, int, int]
"""(batch, variable, time)."""


def masked_length(contamination: float, length: int) -> int:
    """Return r = round(contamination * L), at least 1: an observation without a hidden step teaches nothing."""
    if not 0 <= contamination < 1:
        raise ConfigError(f"The contamination must be at least 0 and below 1, but is {contamination}.")
    hidden = max(1, round(contamination * length))
    if hidden >= length:
        raise ConfigError(
            f"A contamination of {contamination} hides all {length} steps of an observation: "
            "lower it, or use longer observations."
        )
    return hidden


def draw(strategy: Strategy, shape: Shape, masked_length: int, generator: torch.Generator) -> Tensor:
    """Draw `observed` (batch, variable, time) with the named strategy."""
    _check(strategy)
    if not 1 <= masked_length < shape[-1]:
        most = shape[-1] - 1
        raise ConfigError(f"A mask must hide 1 to {most} of {shape[-1]} time steps, but hides {masked_length}.")
    return {"RandM": rand, "RandBM": rand_block, "BoM": blackout}[strategy](shape, masked_length, generator)


def rand(shape: Shape, masked_length: int, generator: torch.Generator) -> Tensor:
    """Draw RandM: the hidden steps of a variable are those with the r largest of L random numbers."""
    hidden = _uniform(shape, generator).topk(masked_length, dim=-1, sorted=False).indices
    observed = torch.ones(shape, dtype=torch.bool)
    return observed.scatter_(-1, hidden, False)


def rand_block(shape: Shape, masked_length: int, generator: torch.Generator) -> Tensor:
    """Draw RandBM: a window per variable, every place inside the observation equally likely."""
    batch, variables, length = shape
    return _outside_window((batch, variables, 1), length, masked_length, generator)


def blackout(shape: Shape, masked_length: int, generator: torch.Generator) -> Tensor:
    """Draw BoM: a window per observation, every place equally likely."""
    batch, _, length = shape
    return _outside_window((batch, 1, 1), length, masked_length, generator).expand(shape).contiguous()


def complementary(strategy: Strategy, variables: int, length: int, count: int, generator: torch.Generator) -> Tensor:
    """Draw `observed` (count, variable, time) such that every cell is hidden in exactly one of `count` masks.

    The time axis of each variable is divided into `count` parts of floor or ceil(length / count) steps: random steps
    (RandM), or contiguous blocks after a random rotation, in a random order. RandBM rotates and orders each variable
    independently, so one mask hides different times of different variables; BoM treats all variables alike. The block
    that crosses the end of the observation after the rotation hides its last and its first steps.
    """
    _check(strategy)
    if not 2 <= count <= length:
        raise ConfigError(f"The number of complementary masks must be from 2 to the length {length}, but is {count}.")
    time = torch.arange(length)
    rows = 1 if strategy == "BoM" else variables
    if strategy == "RandM":
        place = _permutations(rows, length, generator)
    else:
        offset = torch.randint(length, (rows, 1), generator=generator)
        place = (time + offset) % length
    hidden_in = _permutations(rows, count, generator).gather(1, place * count // length)
    index = torch.arange(count)
    return (hidden_in.expand(variables, length) != index[:, None, None]).contiguous()


def _check(strategy: str) -> None:
    if strategy not in get_args(Strategy):
        raise ConfigError(f"The masking strategy must be one of {get_args(Strategy)}, but is {strategy!r}.")


def _outside_window(shape: Shape, length: int, masked_length: int, generator: torch.Generator) -> Tensor:
    """Return True outside a random window of `masked_length` steps; one window per element of `shape`."""
    first = torch.randint(length - masked_length + 1, shape, generator=generator)
    time = torch.arange(length)
    return (time < first) | (time >= first + masked_length)


def _permutations(rows: int, length: int, generator: torch.Generator) -> Tensor:
    return _uniform((rows, length), generator).argsort(-1)


def _uniform(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.rand(shape, generator=generator)
