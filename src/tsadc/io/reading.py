"""How input is to be read: what a user says about it beyond naming it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pandas as pd

from tsadc.config import nearest, require
from tsadc.errors import ConfigError, DataError

MINUTE = 60 * 10**9  # nanoseconds
UNITS = {"D": 1440 * MINUTE, "h": 60 * MINUTE, "min": MINUTE, "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
INTERNAL = ("cannot reshape", "index out of range", "mmap length", "unpack requires", "buffer is smaller")
MOST_UNITS = 100_000  # in a message: beyond, a larger unit with a decimal point is easier to read


@dataclass(frozen=True)
class Reading:
    """By default everything is found by itself, and what is not regular is refused.

    Parameters
    ----------
    time, entity
        The column (of xarray: the dimension) that holds the time, and the one that names the entity of each row.
    every
        Put rows on a grid of this step, such as "1min": a cell is the mean of the values measured in
        [tick, tick + every), ticks are multiples of the step since 1970 in UTC, and a cell without any value is not
        observed. Nothing is interpolated.
    columns, rename
        The variables to take, in this order, and new names for some of them.
    rate
        Of biosignals: the rate in Hz to resample to.
    coverage
        Of arrays (observation, time, variable): refuse observations with a smaller share of measured steps.
    skip_bad
        Leave out what cannot be used, with a notice, instead of refusing everything.
    stream
        Leave values in their files (.npy, .parquet) and read rows when they are asked for.
    """

    time: str | None = None
    entity: str | None = None
    every: str | None = None
    columns: tuple[str, ...] | None = None
    rename: Mapping[str, str] | None = None
    rate: float | None = None
    coverage: float | None = None
    skip_bad: bool = False
    stream: bool = False

    def __post_init__(self) -> None:
        columns: Any = self.columns
        if columns is not None:
            listed = not isinstance(columns, str) and len(columns) > 0
            require(listed, "columns", "a list of names", columns)
            object.__setattr__(self, "columns", tuple(columns))
        require(self.rate is None or 0 < self.rate < float("inf"), "rate", "a positive number of Hz", self.rate)
        require(self.entity is None or self.entity != self.time, "entity", "another column than `time`", self.entity)
        _ = self.interval
        if self.stream and (self.every or self.entity or self.rate):
            raise ConfigError("`stream` leaves rows as they are in their file: use it without every, entity and rate.")

    @property
    def interval(self) -> int | None:
        """`every` in nanoseconds."""
        if self.every is None:
            return None
        text = str(self.every).strip()
        try:
            step = pd.Timedelta(text) if any(letter.isalpha() for letter in text) else pd.NaT
        except (ValueError, OverflowError):
            step = pd.NaT
        length = 0 if pd.isna(step) else step.as_unit("ns").value
        require(length > 0, "every", "a length of time such as 30s, 1min or 2h", self.every)
        return int(length)


PLAIN = Reading()


def choose(names: Sequence[str], reading: Reading, source: str) -> tuple[list[int], tuple[str, ...]]:
    """Which of `names` are taken, by position, and what they are called then."""
    position = {name: i for i, name in enumerate(names)}
    picked = list(names) if reading.columns is None else list(reading.columns)
    renamed = reading.rename or {}
    for name in (*picked, *renamed):
        if name not in position:
            raise missing(name, names, source)
    out = tuple(renamed.get(name, name) for name in picked)
    if len(set(out)) < len(out):
        twice = next(name for name in out if out.count(name) > 1)
        raise DataError(f"{source} would have two variables named {twice!r}; pick each once, under its own name.")
    return [position[name] for name in picked], out


def missing(name: str, names: Sequence[str], source: str) -> DataError:
    """The error for a column that is not there, with the nearest that is."""
    return DataError(f"{source} has no column {name!r}{nearest(name, names)}")


def spell(interval: int) -> str:
    """A number of nanoseconds as `every` takes it, with few digits: 90s, 3.90625ms."""
    whole = next(unit for unit, size in UNITS.items() if interval % size == 0)
    if interval < MOST_UNITS * UNITS[whole]:
        return f"{interval // UNITS[whole]}{whole}"
    unit = next(unit for unit in ("s", "ms", "us") if interval >= UNITS[unit])
    return f"{Decimal(interval) / UNITS[unit]}{unit}"


def same_step(interval: int) -> str:
    """For a message: the options that bring data to this step."""
    rate = f", or if it is a recording with --rate {10**9 / interval:.6g}" if interval < 10**9 else ""
    return f"resample it with --every {spell(interval)}{rate}"


def reason(error: BaseException) -> str:
    """The first sentence of another library's message, unless only its authors understand it."""
    message = " ".join(str(error).split()).removeprefix("Error tokenizing data. C error: ")
    if any(words in message for words in INTERNAL):
        return "it is empty, cut off or damaged"
    return message.split(". ")[0].rstrip(".") or type(error).__name__
