"""How far the train and the test part of each SMD machine differ. Wagner et al. (TimeSeAD, 2023) leave machines out
whose mean and standard deviation change; here the change is a number for each machine.

For every variable the test part's mean is compared in units of the train part's standard deviation, and the standard
deviations by their ratio. Both standard deviations have a floor of 0.01 of the variable's range in SMD, which is 1:
half of the variables hardly move, and dividing by their spread would make a shift out of nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from tsadc.data.prepared import Prepared
from tsadc.series import Floats

FLOOR = 0.01
FAR = 2.0  # train standard deviations, or factors of them


@dataclass(frozen=True, slots=True)
class Shift:
    """One machine: the median and the largest shift of the mean over its variables (in standard deviations), the
    largest ratio of the standard deviations (either way), and the share of variables in which one exceeds `FAR`."""

    machine: str
    median_mean: float
    largest_mean: float
    largest_spread: float
    shifted: float


def shift(machine: str, train: Floats, test: Floats) -> Shift:
    """Compare two tables (time, variable)."""
    before, after = np.maximum(train.std(0), FLOOR), np.maximum(test.std(0), FLOOR)
    mean = np.abs(test.mean(0) - train.mean(0)) / before
    ratio = np.exp(np.abs(np.log(after / before)))
    share = float(((mean > FAR) | (ratio > FAR)).mean())
    return Shift(machine, float(np.median(mean)), float(mean.max()), float(ratio.max()), share)


def shifts(prepared: Prepared) -> list[Shift]:
    """Every prepared machine that has observations of both parts, the most shifted first."""
    every = []
    for machine, labels in prepared.labels.items():
        values, part = prepared.values(machine), np.array([label.part for label in labels])
        train, test = (
            values[part == name].reshape(-1, len(prepared.variables)).astype(np.float64) for name in ("train", "test")
        )
        every += [shift(machine, train, test)] if len(train) and len(test) else []
    return sorted(every, key=lambda one: (-one.shifted, -one.largest_mean, one.machine))


def shift_table(every: list[Shift]) -> pd.DataFrame:
    """For printing: one line per machine."""
    return pd.DataFrame(
        {
            "machine": [one.machine for one in every],
            "variables shifted": [f"{one.shifted:.0%}" for one in every],
            "mean, median": [round(one.median_mean, 2) for one in every],
            "mean, largest": [round(one.largest_mean, 2) for one in every],
            "spread, largest": [round(one.largest_spread, 2) for one in every],
        }
    )
