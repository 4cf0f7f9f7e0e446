"""What each variable is: its type, unit, range, resolution and history, over all entities together."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from tsadc.io.doctor.profile import Profile
from tsadc.series import Clock, Floats

Kind = Literal["continuous", "state", "constant", "counter", "row number", "label", "empty"]
MAX_STATES = 10  # different values of a state, a command or a setpoint
MIN_COUNTED = 20  # different values of a counter
MIN_ROWS = 30  # needed to recognise a pattern over time
MAX_RESETS = 0.002  # of a counter, per row
SPARKS = 24  # points of a sparkline
SAME_STEP = 1e-3  # relative difference of steps that count as equal
UNIT = re.compile(r"[\[(]\s*([^\[\]()]{1,16}?)\s*[\])]\s*$")
NO_UNITS = {"avg", "mean", "min", "max", "rms", "raw", "gt", "sum", "std", "sp", "pv", "set", "actual", "filtered"}
WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
LABEL_WORDS = {
    "anomaly", "anomalies", "anomalous", "label", "labels", "changepoint", "changepoints", "alarm", "alarms", "fault",
    "faults", "outlier", "outliers", "attack", "attacks", "failure",
}  # fmt: skip
LABEL_NAMES = {"status", "class", "target", "y", "change_point", "ground_truth", "groundtruth", "truth"}


@dataclass(frozen=True)
class VariableFacts:
    """One variable as it was read, over all entities.

    Quantiles and the resolution come from an evenly spaced sample of long data; all other figures are exact. Numbers
    are NaN, times None, if the variable has no value."""

    name: str
    kind: Kind
    unit: str | None  # as in the header ("°C" of "Temp [°C]") or in a row of units
    minimum: float
    percentile_1: float
    median: float
    percentile_99: float
    maximum: float
    missing: float  # share of all rows
    repeated: float  # share of the steps from row to row without a change
    resolution: float  # smallest difference between two values
    first: pd.Timestamp | int | None  # time, or row number without dates, of the first value
    last: pd.Timestamp | int | None
    sparkline: tuple[float, ...]  # means over time of the longest series, NaN where nothing was measured


@dataclass(frozen=True)
class Column:
    """What the rules look at: the facts about a variable, and its sorted sample over all entities."""

    facts: VariableFacts
    sample: Floats  # sorted, measured values only
    values: Floats  # the different ones among them


def describe(profiles: Sequence[Profile]) -> list[Column]:
    """Return the facts about every variable. All profiles have the same variables."""
    longest = max(profiles, key=lambda one: one.rows)
    return [_describe(profiles, longest, k) for k in range(len(longest.series.names))]


def unit_of(name: str) -> str | None:
    """Return the unit that a name ends with: "°C" of "Temp [°C]", "l/min" of "flow (l/min)"."""
    match = UNIT.search(name)
    if match is None or match.start() == 0:
        return None
    text = match[1].strip()
    return None if not text or text.lower() in NO_UNITS or text.isdigit() else text


def _describe(profiles: Sequence[Profile], longest: Profile, k: int) -> Column:
    name = longest.series.names[k]
    sample = np.concatenate([own.sample[:, k] for own in profiles])
    sample = np.sort(sample[np.isfinite(sample)])
    distinct = sample[np.append(True, np.diff(sample) > 0)] if len(sample) else sample
    low, high = (
        float(reduce([extreme[k] for extreme in extremes]))
        for reduce, extremes in (
            (np.fmin.reduce, [own.minimum for own in profiles]),
            (np.fmax.reduce, [own.maximum for own in profiles]),
        )
    )
    steps = sum(int(own.repeated[k] + own.rising[k] + own.falling[k]) for own in profiles)
    first, middle, last = np.quantile(sample, [0.01, 0.5, 0.99]) if len(sample) else (np.nan,) * 3
    rows = sum(own.rows for own in profiles)
    spans = [(own.series.clock, span) for own in profiles if (span := own.span(k)) is not None]
    facts = VariableFacts(
        name=name,
        kind=_kind(profiles, k, name, distinct, low, high),
        unit=next((unit for own in profiles if (unit := own.series.units.get(name))), None) or unit_of(name),
        minimum=low,
        percentile_1=float(first),
        median=float(middle),
        percentile_99=float(last),
        maximum=high,
        missing=1 - sum(int(own.known[k]) for own in profiles) / rows if rows else 1.0,
        repeated=sum(int(own.repeated[k]) for own in profiles) / steps if steps else np.nan,
        resolution=_resolution(distinct),
        first=min((_time(clock, span[0]) for clock, span in spans), default=None, key=_order),
        last=max((_time(clock, span[1]) for clock, span in spans), default=None, key=_order),
        sparkline=_sparkline(longest, k),
    )
    return Column(facts, sample, distinct)


def _time(clock: Clock, row: int) -> pd.Timestamp | int:
    time = clock.at([row])[0]
    return time if isinstance(time, pd.Timestamp) else int(time)


def _order(time: pd.Timestamp | int) -> int:
    return time if isinstance(time, int) else time.as_unit("ns").value


def _kind(profiles: Sequence[Profile], k: int, name: str, values: Floats, low: float, high: float) -> Kind:
    if not len(values):
        return "empty"
    if is_label(name, values, low, high):
        return "label"
    if low == high:
        return "constant"
    counting = {_counting(own, k) for own in profiles if own.known[k] >= MIN_ROWS}
    if len(values) >= MIN_COUNTED and counting and "no" not in counting:
        return "row number" if counting == {"row number"} else "counter"
    return (
        "state"
        if len(values) <= MAX_STATES and len(values) < sum(own.known[k] for own in profiles) / 3
        else "continuous"
    )


def is_label(name: str, values: Floats, low: float, high: float) -> bool:
    """Return whether a column is the answer and not a measurement: it is named so, and holds 0 and 1 or few classes."""
    words = [word.lower() for word in WORDS.findall(name)]
    bare = name.strip().lower().replace(" ", "_").replace("-", "_").removeprefix("is_")
    named = bool(LABEL_WORDS & set(words)) or bare in LABEL_NAMES
    if not named or not (values == np.round(values)).all():
        return False
    return len(values) <= MAX_STATES and low >= -1 and high <= MAX_STATES


def _counting(own: Profile, k: int) -> str:
    """Return how a variable of one series counts: "row number" in equal steps, "counter" always up (or always down)
    except for a few resets, or "no"."""
    sample = own.sample[:, k]
    sample = sample[np.isfinite(sample)]
    steps = np.diff(sample)
    if len(steps) < 2:
        return "no"
    rising, falling = int(own.rising[k]), int(own.falling[k])
    if rising == 0 and falling > 0:
        rising, falling, steps, sample = falling, rising, -steps, -sample
    down = int((steps < 0).sum())
    if falling == 0 and down == 0:
        even = own.repeated[k] == 0 and np.allclose(steps[:-1], steps[0], rtol=SAME_STEP) and steps[0] > 0
        whole = own.known[k] == own.rows
        return "row number" if even and whole else "counter"
    # A counter that is reset falls to its lowest value, rarely; between two resets it rises many times.
    resets = max(falling, down)
    fallen = sample[1:][steps < 0]
    lowest, width = sample.min(), sample.max() - sample.min()
    rare = resets <= MAX_RESETS * own.rows and resets * MIN_COUNTED < rising
    return "counter" if rare and down > 0 and (fallen - lowest <= 0.05 * width).all() else "no"


def _resolution(values: Floats) -> float:
    if len(values) < 2:
        return float("nan")
    steps = np.diff(values)
    steps = steps[steps > 1e-9 * max(abs(values[0]), abs(values[-1]))]  # not the rounding of floats
    return float(f"{steps.min():.3g}") if len(steps) else float("nan")


def _sparkline(own: Profile, k: int) -> tuple[float, ...]:
    """Return means over time, at most `SPARKS`."""
    count, total = own.measured[:, k], own.total[:, k]
    edges = np.unique(np.linspace(0, len(count), min(SPARKS, len(count)) + 1).astype(int))
    out = []
    for start, stop in itertools.pairwise(edges):
        number = count[start:stop].sum()
        out.append(float(total[start:stop].sum() / number) if number else float("nan"))
    return tuple(out)
