"""Affiliation precision and recall: how near alarms are to events and events to alarms, relative to random alarms.

Huet, Navarro and Rossi, "Local Evaluation of Time Series Anomaly Detection Algorithms", KDD 2022. Time is continuous:
row i is the interval [i, i + 1), and a run of rows is the interval between its edges.

name          symbol   meaning
event         J        a true event [start, stop)
zone          E        the times nearer to this event than to any other, up to the ends of the series
alarms        I        the flagged intervals within the zone
precision              mean over the times x of alarms of the probability that a random time of the zone is farther from
                       J than x
recall                 mean over the times y of the event of the probability that a random time of the zone is farther
                       from y than the nearest alarm; 0 if the zone has no alarm

Precision is averaged over the zones with an alarm, recall over all zones."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tsadc.evaluate.inputs import flagged_rows
from tsadc.evaluate.ranking import Cut
from tsadc.series import Booleans, Floats
from tsadc.windows import runs

Interval = tuple[float, float]


def affiliation(labels: Booleans, flagged: NDArray[np.generic]) -> Cut:
    """Return the affiliation precision, recall and F1 of one series (Huet et al., KDD 2022).

    Parameters
    ----------
    labels : (row,)
        True for anomalous rows; both kinds must occur. An event is a maximal run of them.
    flagged : (row,)
        True for flagged rows. An alarm is a maximal run of them.

    Returns
    -------
    Cut
        Precision and recall as defined above; about 0.5 for random alarms. Precision is 0 if nothing is flagged.

    Examples
    --------
    >>> import numpy as np
    >>> affiliation(np.array([0, 0, 1, 1, 0, 0]), np.array([0, 0, 1, 1, 0, 0]))
    Cut(precision=1.0, recall=1.0, f1=1.0)
    """
    truth, chosen = flagged_rows(labels, flagged)
    events = runs(truth)
    alarms: Floats = np.array(runs(chosen), dtype=np.float64).reshape(-1, 2)
    edges = [0.0, *((a[1] + b[0]) / 2 for a, b in pairwise(events)), float(len(truth))]
    precisions, recalls = [], []
    for event, zone in zip(events, pairwise(edges), strict=True):
        first = int(np.searchsorted(alarms[:, 1], zone[0], side="right"))
        stop = int(np.searchsorted(alarms[:, 0], zone[1], side="left"))
        near = np.clip(alarms[first:stop], *zone)
        if len(near):
            precisions.append(_precision(near, event, zone))
        recalls.append(_recall(near, event, zone) if len(near) else 0.0)
    precision, recall = float(np.mean(precisions)) if precisions else 0.0, float(np.mean(recalls))
    return Cut.of(precision, recall)


def _precision(alarms: Floats, event: Interval, zone: Interval) -> float:
    """Integrate over the alarms how much of the zone is nearer to the event. At distance d > 0 that is
    |J| + min(d, left margin) + min(d, right margin); one of the two is d itself, as the time lies on that side."""
    (start, stop), width = event, zone[1] - zone[0]
    margin = min(start - zone[0], zone[1] - stop)
    right, right_to = np.maximum(alarms - stop, 0).T
    left_to, left = np.maximum(start - alarms, 0).T
    outside = (right_to - right) + (left_to - left)
    nearer = outside * (stop - start)
    for near, far in ((left, left_to), (right, right_to)):
        nearer += (far**2 - near**2) / 2 + _capped(far, margin) - _capped(near, margin)
    total = float(np.sum(alarms[:, 1] - alarms[:, 0]))
    return 1 - float(nearer.sum()) / (width * total)


def _capped(distance: Floats, margin: float) -> Floats:
    """Return the integral of min(x, margin) from 0 to the distance."""
    inside = np.minimum(distance, margin)
    return inside**2 / 2 + margin * (distance - inside)


def _recall(alarms: Floats, event: Interval, zone: Interval) -> float:
    """Assign the times of the event between two alarms to the nearer one; times under an alarm count in full."""
    middles = (alarms[:-1, 1] + alarms[1:, 0]) / 2
    # To the right of each alarm up to the middle, then the same mirrored.
    after = _farther(alarms[:, 1], np.append(middles, np.inf), event, zone[1])
    before = _farther(-alarms[:, 0], np.append(np.inf, -middles), (-event[1], -event[0]), -zone[0])
    return 1 - (after + before) / ((zone[1] - zone[0]) * (event[1] - event[0]))


def _farther(pivots: Floats, limits: Floats, event: Interval, end: float) -> float:
    """Integrate, over the times y of the event from each pivot to its limit, how much of the zone lies as near to y as
    the pivot: y - pivot behind y, and min(y - pivot, end - y) ahead of it."""
    low = np.maximum(pivots, event[0])
    high = np.maximum(np.minimum(limits, event[1]), low)
    behind = ((high - pivots) ** 2 - (low - pivots) ** 2) / 2
    return float(np.sum(behind + _ahead(high, pivots, end) - _ahead(low, pivots, end)))


def _ahead(time: Floats, pivots: Floats, end: float) -> Floats:
    """Return the integral of min(y - pivot, end - y) from the pivot to `time`."""
    peak = (pivots + end) / 2
    rising = np.minimum(time, peak) - pivots
    falling = (end - peak) ** 2 - (end - np.maximum(time, peak)) ** 2
    return rising**2 / 2 + falling / 2
