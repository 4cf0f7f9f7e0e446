"""Events: scores of rows -> intervals, so that one incident is one alarm.

    name         meaning
    steps        (time,) scores of the rows of anomalous observations; -inf elsewhere
    open         a row above the threshold begins an event
    close        the event lasts as long as rows stay above the median training score: a fault does not end where its
                 score dips
    merge        events that are closer than this many rows become one
    minimum      shorter events are dropped
    memory       rows after which the autocorrelation of the variables, within an observation, falls below 1/e

What happens twice within the memory of a plant is one incident, so `merge` is the memory by default. It is at least a
twentieth of an observation, below which rows cannot be told apart, and at most a half.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

from tsadc.config import require
from tsadc.series import Floats, Observations
from tsadc.subsample import evenly_spaced
from tsadc.windows import runs

SAMPLE = 64  # training observations that the memory is measured on
MIN_GAP = 2  # rows
MIN_SHARE, MAX_SHARE = 0.05, 0.5  # of an observation


@dataclass(frozen=True)
class Events:
    """How rows above the threshold become events.

    Attributes
    ----------
    merge : int
        Events that are closer than this many rows become one.
    minimum : int
        Shorter events are dropped.
    """

    @dataclass(frozen=True)
    class Config:
        """How rows above the threshold become events.

        Parameters
        ----------
        merge : int or "auto", default "auto"
            Events that are closer than this many rows become one; at least 1, and less than an observation. "auto":
            for as many rows as the variables stay correlated with themselves, which is measured on the history.
        minimum : int, default 1
            Events of fewer rows are dropped; at least 1. A spike is an event of one row.
        """

        merge: int | Literal["auto"] = "auto"
        minimum: int = 1

        def __post_init__(self) -> None:
            require(self.merge == "auto" or self.merge >= 1, "merge", "at least 1 row, or auto", self.merge)
            require(self.minimum >= 1, "minimum", "at least 1 row", self.minimum)

    merge: int
    minimum: int

    @classmethod
    def of(cls, config: Events.Config, memory: int | None, length: int) -> Self:
        """Return the rule for observations of `length` rows; `memory` is unknown in models of earlier versions."""
        least, most = max(MIN_GAP, round(MIN_SHARE * length)), max(MIN_GAP, int(MAX_SHARE * length))
        own = int(np.clip(memory or 0, least, most))
        return cls(own if config.merge == "auto" else config.merge, config.minimum)

    def find(self, steps: Floats, threshold: float, middle: float) -> list[tuple[int, int]]:
        """Return the events [start, stop) of one series; `middle` is the median training score."""
        found: list[tuple[int, int]] = []
        for start, stop in runs(steps > min(middle, threshold)):
            if steps[start:stop].max() <= threshold:
                continue
            if found and start - found[-1][1] < self.merge:
                found[-1] = (found[-1][0], stop)
            else:
                found.append((start, stop))
        return [(start, stop) for start, stop in found if stop - start >= self.minimum]


def memory(observations: Observations) -> int:
    """Return the memory of normalised observations: the median over variables, at least 1 row."""
    length, variables = observations.length, len(observations.names)
    total = np.zeros((variables, length))
    for i in evenly_spaced(len(observations), SAMPLE):
        total += autocovariance(np.clip(observations.read(int(i)), -10, 10).astype(np.float64))
    varies = total[:, 0] > 1e-9 * length
    if not varies.any():
        return 1
    below = total[varies] < total[varies, :1] / np.e
    lags = np.where(below.any(axis=1), below.argmax(axis=1), length)
    return max(1, round(float(np.median(lags))))


def autocovariance(z: Floats) -> Floats:
    """Return (variable, lag) the sum of products of each variable (variable, time) with itself `lag` rows later, about
    its mean; missing values count as the mean."""
    measured = np.isfinite(z)
    mean = np.where(measured, z, 0.0).sum(axis=1, keepdims=True) / np.maximum(measured.sum(axis=1, keepdims=True), 1)
    centred = np.where(measured, z - mean, 0.0)
    power = np.square(np.abs(np.fft.rfft(centred, 2 * z.shape[1], axis=1)))
    return np.asarray(np.fft.irfft(power, axis=1)[:, : z.shape[1]])
