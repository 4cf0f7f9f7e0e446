"""Options for reading data, and the wording that all readers' messages share."""

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
MAX_UNITS = 100_000  # in a message: beyond, a larger unit with a decimal point is easier to read


@dataclass(frozen=True)
class Reading:
    """Options for reading files.

    By default the time column is found by its type, its name or its content, every other column must hold numbers, and
    rows must be sorted by time and regularly sampled. Rows that were skipped become rows of NaN.

    Parameters
    ----------
    time : str, optional
        Name of the time column. For xarray: of the time dimension.
    entity : str, optional
        Name of the column that says which entity (machine, patient, ...) a row belongs to. Without it, each file is one
        entity.
    every : str, optional
        Put the rows on a regular grid with this time step, for example ``"1min"``. A cell of the grid is the mean of
        the values measured in [tick, tick + every); ticks are multiples of the step since 1970 in UTC. A cell without
        any value is NaN: nothing is interpolated.
    columns : sequence of str, optional
        Names of the variables to keep, in this order. Default: all.
    rename : mapping of str to str, optional
        New names for some of the variables: ``{old: new}``.
    rate : float, optional
        Sampling rate in Hz to which recordings (WFDB, EDF, HDF5, MAT) are resampled. Default: the highest rate among
        the channels.
    coverage : float, optional
        For arrays of shape (observation, time, variable): refuse observations with a smaller share of measured time
        steps, between 0 and 1.
    skip_bad : bool, default False
        Leave out files and entities that cannot be used, with a notice, instead of raising an error.
    stream : bool, default False
        Leave the values in their files (.npy, .parquet) and read rows when they are needed, for data larger than
        memory. Cannot be combined with `every`, `entity` or `rate`.

    Raises
    ------
    ConfigError
        If an option is out of range or cannot be combined with another.

    Examples
    --------
    >>> import tsadc
    >>> options = tsadc.Reading(time="when", every="90s", columns=["flow", "pressure"])
    >>> options.columns
    ('flow', 'pressure')
    >>> options.interval  # `every` in nanoseconds
    90000000000
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
            raise ConfigError(
                "`stream` leaves the rows in their file, so it cannot be combined with `every`, `entity` or `rate`; "
                "drop one of them."
            )

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


DEFAULT = Reading()


def choose(names: Sequence[str], reading: Reading, source: str) -> tuple[list[int], tuple[str, ...]]:
    """Return the positions of the variables that `reading` keeps, and their new names."""
    position = {name: i for i, name in enumerate(names)}
    picked = list(names) if reading.columns is None else list(reading.columns)
    renamed = reading.rename or {}
    for name in (*picked, *renamed):
        if name not in position:
            raise no_column(name, names, source)
    out = tuple(renamed.get(name, name) for name in picked)
    if len(set(out)) < len(out):
        twice = next(name for name in out if out.count(name) > 1)
        raise DataError(f"{source} would have two variables named {twice!r}; pick each once, under its own name.")
    return [position[name] for name in picked], out


def no_column(name: str, names: Sequence[str], source: str) -> DataError:
    """Return the error for a column that does not exist; it suggests the nearest one."""
    return DataError(f"{source} has no column {name!r}{nearest(name, names)}")


def spell(interval: int) -> str:
    """Write a number of nanoseconds the way `every` takes it, with few digits: 90s, 3.90625ms."""
    whole = next(unit for unit, size in UNITS.items() if interval % size == 0)
    if interval < MAX_UNITS * UNITS[whole]:
        return f"{interval // UNITS[whole]}{whole}"
    unit = next(unit for unit in ("s", "ms", "us") if interval >= UNITS[unit])
    return f"{Decimal(interval) / UNITS[unit]}{unit}"


def how_to_resample(interval: int, *, recording: bool = False) -> str:
    """Return advice for a message: how to bring data, which may be a `recording`, to this time step."""
    step = spell(interval)
    rate = f", or a recording with --rate {10**9 / interval:.6g}" if recording and interval < 10**9 else ""
    return (
        f"resample it with --every {step}{rate} (in Python: Reading(every={step!r}) for files, "
        f".resample({step!r}).mean() for data frames)"
    )


def reason(error: BaseException) -> str:
    """Return the first sentence of another library's message, or a plain one if it speaks of that library's inside."""
    message = " ".join(str(error).split()).removeprefix("Error tokenizing data. C error: ")
    if any(words in message for words in INTERNAL):
        return "it is empty, cut off or damaged"
    return message.split(". ")[0].rstrip(".") or type(error).__name__
