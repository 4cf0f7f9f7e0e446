"""A finding about data, and the wording that all rules share."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from tsadc.errors import listed
from tsadc.io.reading import join_list, spell
from tsadc.series import Series

Severity = Literal["refuse", "warn", "note"]
SEVERITIES: tuple[Severity, ...] = ("refuse", "warn", "note")
NAMED = 3  # names in a sentence


@dataclass(frozen=True)
class Finding:
    """Something about the data that a reader should know before trusting a verdict.

    Parameters
    ----------
    code : str
        What it is, in one word or two with a hyphen, for programs.
    severity : {"refuse", "warn", "note"}
        "refuse": nothing can be learnt from such data. "warn": the verdict would be wrong or misleading. "note": worth
        knowing.
    variables, entities : tuple of str
        What it is about; empty if it is about all of them.
    evidence, consequence : str
        What was seen, with numbers, and what it does to a model; each a sentence.
    remedy : str
        The option that fixes it, or a sentence if no option does.
    """

    code: str
    severity: Severity
    variables: tuple[str, ...]
    entities: tuple[str, ...]
    evidence: str
    consequence: str
    remedy: str

    @property
    def sentence(self) -> str:
        """Evidence and remedy in one line."""
        remedy = f"Fix it with {self.remedy}." if self.remedy.startswith("--") else self.remedy
        return f"{self.evidence} {remedy}"

    @property
    def refusal(self) -> str:
        """The same as the single sentence of an error."""
        return f"{self.evidence.removesuffix('.')}; fix it with {self.remedy}."


def names(items: Sequence[str]) -> str:
    """Join names for a sentence: "a", "a and b", "a, b, c and 4 more"."""
    if len(items) <= NAMED:
        return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)
    return listed(list(items), NAMED)


def verb(items: Sequence[str], one: str, several: str) -> str:
    """Return the form of the verb that fits the number of items."""
    return one if len(items) == 1 else several


def option(name: str, values: Sequence[str]) -> str:
    """Write an option of the command line with its values, quoted if a shell needs it."""
    return f"--{name} {shlex.quote(join_list(values))}"


def figure(value: float) -> str:
    """Write a number with at most five digits, or all of them if it is whole."""
    return f"{value:.0f}" if value == round(value) and abs(value) < 1e7 else f"{value:.5g}"


def percent(share: float) -> str:
    """Write a share; a small one with more digits."""
    return (
        f"{100 * share:.2g} %"
        if 0 < share < 0.01
        else f"{100 * share:.0f} %"
        if share > 0.1
        else f"{100 * share:.1f} %"
    )


def moment(series: Series, row: int) -> str:
    """Return the time of a row, or its number if it has none, for a sentence."""
    time = series.clock.at([row])[0]
    return f"{time:%Y-%m-%d %H:%M:%S}" if isinstance(time, pd.Timestamp) else f"row {time}"


def duration(series: Series, rows: int) -> str:
    """Return the length of a number of rows, for a sentence."""
    every = series.clock.every
    if every is None:
        return f"{rows:,} rows"
    length = rows * every
    unit = next((size for size in (86_400 * 10**9, 3600 * 10**9, 60 * 10**9, 10**9) if length >= 2 * size), 1)
    return f"{rows:,} rows ({spell(length // unit * unit)})"
