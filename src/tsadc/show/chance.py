"""Say how many false alarms are to be expected, so that a reader can weigh what was found.

    name       meaning
    expected   how many normal observations are expected above the threshold, in the data that was scored
    share      the share of normal observations that are expected above it
    loose      a threshold that normal operation of an entity exceeds more than twice a week, or in 10,080 rows without
               a clock

A threshold is loose if the history is too short to promise fewer false alarms, or if more were accepted."""

from __future__ import annotations

import pandas as pd

from tsadc.detectors.result import MISSING, Result, as_period
from tsadc.detectors.threshold import observations_per_week
from tsadc.series import Clock
from tsadc.show.words import return_period, severity

LEAST = 0.1  # smaller numbers of false alarms are not distinguished
LOOSE = 2.0  # false alarms a week


def by_chance(result: Result) -> str:
    """Say how many of the intervals of a result may be false alarms."""
    found, clock = count_scored(result.intervals), result.series[0].clock
    return false_alarms(found, result.false_alarms, result.false_alarm_share, result.length, clock)


def count_scored(intervals: pd.DataFrame) -> int:
    """Return how many intervals come from scores; a sensor that stopped reporting is no false alarm."""
    return int((intervals["evidence"] != MISSING).sum())


def false_alarms(found: int, expected: float, share: float, length: int, clock: Clock) -> str:
    """Say how many false alarms are to be expected among the `found` intervals, and whether the threshold is loose."""
    amount = f"{expected:.1f}".removesuffix(".0") if expected < 9.95 else f"{expected:,.0f}"
    verb, likely = ("alarm is", "a slight one") if amount == "1" else ("alarms are", "slight ones")
    amount = f"Fewer than {LEAST:g}" if expected < LEAST else f"About {amount}"
    likely = f", most likely {likely}" if found and expected >= LEAST else ""
    text = f"{amount} false {verb} to be expected in this much data{likely}."
    if not found or share * observations_per_week(clock, length) <= LOOSE:
        return text
    often = return_period(as_period(length / share, clock))
    return (
        f"{text} The threshold is loose: normal operation of an entity exceeds it about {often}, so slight intervals "
        "say little. A longer history, or fewer accepted alarms (--alarms), would make it stricter."
    )


def graded(value: float, often: str) -> str:
    """Return a severity with its return period; a severity below 1 is a number that says nothing beside the period."""
    return f"slight ({often})" if value < 1 else f"severity {severity(value)} ({often})"
