"""How near alarms are to events and events to alarms, against an alarm thrown at random near the event.

Huet, Navarro and Rossi, "Local Evaluation of Time Series Anomaly Detection Algorithms", KDD 2022. Time is continuous:
row i is the stretch [i, i + 1), a run of rows the interval between its edges.

name          symbol   meaning
event         J        a true event [start, stop)
zone          E        the times nearer to this event than to another, cut at the series' ends
alarms        I        the flagged intervals within the zone
precision              mean over alarms' times x of the chance that a random time of the zone is farther from J than x
recall                 mean over the event's times y of the chance that a random time of the zone is farther from y
                       than the nearest alarm is; 0 where the zone has no alarm

Precision is the mean over zones with an alarm, recall over all zones."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tsadc.evaluate.inputs import flagged_rows
from tsadc.evaluate.ranking import Cut, balanced
from tsadc.series import Booleans, Floats
from tsadc.windows import runs

Interval = tuple[float, float]


def affiliation(labels: Booleans, flagged: NDArray[np.generic]) -> Cut:
    """Affiliation precision, recall and F1 of one series; precision is 0 where nothing is flagged."""
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
    return balanced(precision, recall)


def _precision(alarms: Floats, event: Interval, zone: Interval) -> float:
    """At distance d > 0 from the event, |J| + min(d, left margin) + min(d, right margin) of the zone is as near; one of
    the two is d itself, as the time lies on that side."""
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
    """Integral of min(x, margin) from 0 to the distance."""
    inside = np.minimum(distance, margin)
    return inside**2 / 2 + margin * (distance - inside)


def _recall(alarms: Floats, event: Interval, zone: Interval) -> float:
    """The event's times between two alarms belong to the nearer one, those under an alarm count in full."""
    middles = (alarms[:-1, 1] + alarms[1:, 0]) / 2
    # To the right of each alarm up to the middle, and the same seen in a mirror.
    after = _farther(alarms[:, 1], np.append(middles, np.inf), event, zone[1])
    before = _farther(-alarms[:, 0], np.append(np.inf, -middles), (-event[1], -event[0]), -zone[0])
    return 1 - (after + before) / ((zone[1] - zone[0]) * (event[1] - event[0]))


def _farther(pivots: Floats, limits: Floats, event: Interval, end: float) -> float:
    """Integral, over the event's times y from each pivot to its limit, of how much of the zone lies as near to y as
    the pivot: y - pivot behind y, and min(y - pivot, end - y) ahead of it."""
    low = np.maximum(pivots, event[0])
    high = np.maximum(np.minimum(limits, event[1]), low)
    behind = ((high - pivots) ** 2 - (low - pivots) ** 2) / 2
    return float(np.sum(behind + _ahead(high, pivots, end) - _ahead(low, pivots, end)))


def _ahead(time: Floats, pivots: Floats, end: float) -> Floats:
    """Integral of min(y - pivot, end - y) from the pivot to `time`."""
    peak = (pivots + end) / 2
    rising = np.minimum(time, peak) - pivots
    falling = (end - peak) ** 2 - (end - np.maximum(time, peak)) ** 2
    return rising**2 / 2 + falling / 2
