"""How long after the start of an event its first alarm comes.

name       meaning
delays     for each event, rows from its start to its first flagged row; None if it has none
detected   share of events with a flagged row
precision  share of alarms, maximal runs of flagged rows, that touch an event; None if there is none
median     median delay of the detected events; None if there are none
alarms     share of normal rows that are flagged, because flagging everything detects all events at once"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tsadc.evaluate.inputs import flagged_rows
from tsadc.series import Booleans
from tsadc.windows import runs


@dataclass(frozen=True)
class Delay:
    """Detection delays in rows; multiply by the clock's interval to get time."""

    delays: tuple[int | None, ...]
    detected: float
    precision: float | None
    median: float | None
    alarms: float


def delay(labels: Booleans, flagged: NDArray[np.generic]) -> Delay:
    """Return the detection delays of the events of one series.

    The delay of an event is the number of rows from its start to its first flagged row. An alarm that began before the
    event and lasts into it has delay 0. (NAB rewards early detection by a weight instead: Lavin and Ahmad, "Evaluating
    Real-Time Anomaly Detection Algorithms", ICMLA 2015.)

    Parameters
    ----------
    labels : (row,)
        True for anomalous rows; both kinds must occur. An event is a maximal run of them.
    flagged : (row,)
        True for flagged rows.

    Returns
    -------
    Delay
        The delays, and the shares of detected events and of false rows to read beside them.

    Examples
    --------
    >>> import numpy as np
    >>> delay(np.array([0, 1, 1, 1, 0, 0]), np.array([0, 0, 0, 1, 1, 0]))
    Delay(delays=(2,), detected=1.0, precision=1.0, median=2.0, alarms=0.3333333333333333)
    """
    truth, chosen = flagged_rows(labels, flagged)
    rows = np.flatnonzero(chosen)
    starts, stops = np.array(runs(truth), dtype=np.int64).T
    first_flagged = np.append(rows, len(truth))[np.searchsorted(rows, starts)]
    detected = first_flagged < stops
    waited = first_flagged - starts
    return Delay(
        delays=tuple(int(rows) if hit else None for rows, hit in zip(waited, detected, strict=True)),
        detected=float(detected.mean()),
        precision=float(np.mean([truth[start:stop].any() for start, stop in runs(chosen)])) if len(rows) else None,
        median=float(np.median(waited[detected])) if detected.any() else None,
        alarms=float(chosen[~truth].mean()),
    )
