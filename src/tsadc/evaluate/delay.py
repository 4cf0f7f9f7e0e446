"""How long after an event began the first alarm within it came.

name       meaning
delays     for each event, rows from its start to its first flagged row; None where it has none
detected   share of events with a flagged row
median     median delay of the detected events; None where none was
alarms     share of normal rows that are flagged: whoever flags everything detects all events at once"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tsadc.evaluate.inputs import flagged_rows
from tsadc.series import Booleans
from tsadc.windows import runs


@dataclass(frozen=True)
class Delay:
    """Delays count rows; times the clock's interval they are time."""

    delays: tuple[int | None, ...]
    detected: float
    median: float | None
    alarms: float


def delay(labels: Booleans, flagged: NDArray[np.generic]) -> Delay:
    """Detection delays of one series. An alarm that began before the event and lasts into it has delay 0."""
    truth, chosen = flagged_rows(labels, flagged)
    rows = np.flatnonzero(chosen)
    starts, stops = np.array(runs(truth), dtype=np.int64).T
    following = np.append(rows, len(truth))[np.searchsorted(rows, starts)]
    found = following < stops
    waited = following - starts
    return Delay(
        delays=tuple(int(rest) if hit else None for rest, hit in zip(waited, found, strict=True)),
        detected=float(found.mean()),
        median=float(np.median(waited[found])) if found.any() else None,
        alarms=float(chosen[~truth].mean()),
    )
