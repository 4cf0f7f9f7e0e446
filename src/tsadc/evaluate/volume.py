"""Volume under the surface (VUS): ROC and PR areas averaged over the width of a buffer around events.

Paparrizos et al., "Volume Under the Surface: A New Accuracy Evaluation Measure for Time-Series Anomaly Detection",
PVLDB 15(11), 2022, in the form that its authors' packages `vus` and `TSB-AD` compute today (`version="opt"`).
`volume` uses every distinct score as a threshold. `volume_tsb` uses the scores at 250 ranks, as the packages do, and
gives their values.

name        symbol      meaning
buffer      l           number of rows around an event that get a part of its label, half on either side; 0 .. `buffer`
soft        label_r     sqrt(1 - d / l) at d <= l // 2 rows from an event, 1 in an event and where two buffers meet
hits        TP          sum of `soft` over flagged rows
positives   P           rows of events, plus half of `soft` over the flagged rows around them
existence               share of the events, with their buffers, that hold a flagged row; events whose buffers overlap
                        count as one
recall      TPR         min(1, TP / P) * existence
fallout     FPR         (flagged - TP) / (rows - P)
precision               TP / flagged

The ROC area joins its points by lines, the PR area by steps, as average precision does; with lines, a constant score
would get more than a half."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tsadc.errors import DataError
from tsadc.evaluate.inputs import scored_rows
from tsadc.series import Booleans, Floats
from tsadc.windows import runs

Integers = NDArray[np.int64]

RANKS = 250  # thresholds of TSB-AD, spread evenly over the sorted scores


@dataclass(frozen=True)
class Volume:
    """VUS-PR and VUS-ROC."""

    pr: float
    roc: float


@dataclass(frozen=True)
class Near:
    """The rows in or near events, with their distances to the nearest event and to the second nearest."""

    rows: Integers  # by time
    first: Integers
    second: Integers
    starts: Integers
    lasts: Integers

    @classmethod
    def of(cls, labels: Booleans, reach: int) -> Near:
        starts, stops = np.array(runs(labels), dtype=np.int64).T
        edges = np.zeros(len(labels) + 1, dtype=np.int64)
        np.add.at(edges, np.maximum(starts - reach, 0), 1)
        np.add.at(edges, np.minimum(stops + reach, len(labels)), -1)
        rows = np.flatnonzero(np.cumsum(edges[:-1]))
        far = len(labels) + reach + 1
        ahead = np.concatenate([starts, [far, far]])
        behind = np.concatenate([[-far, -far], stops - 1])
        coming, gone = np.searchsorted(starts, rows, side="right"), np.searchsorted(stops - 1, rows, side="left")
        right, left = ahead[coming] - rows, rows - behind[gone + 1]
        further = np.minimum(ahead[coming + 1] - rows, rows - behind[gone])
        outside = ~labels[rows]
        first = np.where(outside, np.minimum(left, right), 0)
        second = np.where(outside, np.minimum(np.maximum(left, right), further), 0)
        return cls(rows, first, second, starts, stops - 1)

    def existence(self, half: int, level: Integers, levels: int) -> Floats:
        """Return, for each level, the share of zones (events with `half` a buffer) with a row that scores as high."""
        within = self.first <= half
        apart = np.append(True, self.starts[1:] - self.lasts[:-1] > 2 * half)
        begins = np.searchsorted(self.rows[within], np.maximum(self.starts[apart] - half, 0))
        highest = np.minimum.reduceat(level[within], begins)
        return np.cumsum(np.bincount(highest, minlength=levels)) / len(begins)


@dataclass(frozen=True)
class Levels:
    """The distinct scores of the rows near events, highest first; rows between two of them only add false alarms."""

    order: Integers  # of the near rows, by score
    ends: Integers  # the last of each level in that order
    level: Integers  # of each near row, by time
    before: Floats  # how many rows of the whole series score higher
    after: Floats  # how many score at least as high

    @classmethod
    def of(cls, scores: Floats, rows: Integers) -> Levels:
        order = np.argsort(-scores[rows], kind="stable")
        ranked = scores[rows][order]
        changes = np.append(np.diff(ranked) != 0, True)
        ends = np.flatnonzero(changes)
        level = np.empty(len(rows), dtype=np.int64)
        level[order] = np.cumsum(changes) - changes
        ascending = np.sort(scores)
        values = ranked[ends]
        before = len(scores) - np.searchsorted(ascending, values, side="right")
        after = len(scores) - np.searchsorted(ascending, values, side="left")
        return cls(order, ends, level, before.astype(np.float64), after.astype(np.float64))

    def total(self, ranked: Floats) -> Floats:
        """Return, for each level, the sum of `ranked` (near rows, highest score first) over rows that score as high."""
        added = np.cumsum(ranked)
        return added if len(self.ends) == len(added) else added[self.ends]


def volume(labels: Booleans, scores: Floats, buffer: int = 100) -> Volume:
    """Return VUS-PR and VUS-ROC of one series (Paparrizos et al., PVLDB 2022).

    Parameters
    ----------
    labels : (row,)
        True for anomalous rows; both kinds must occur. An event is a maximal run of them.
    scores : (row,)
        Finite scores, higher = more anomalous.
    buffer
        Largest buffer in rows. Values grow with it, so compare only values of the same buffer.

    Returns
    -------
    Volume
        Both from 0 to 1. Random scores get more than the prevalence (PR) and a half (ROC), as the buffers help them.

    Examples
    --------
    >>> import numpy as np
    >>> volume(np.array([0, 0, 1, 1, 0, 0]), np.array([1.0, 1.0, 5.0, 5.0, 1.0, 1.0]), buffer=0)
    Volume(pr=1.0, roc=1.0)
    """
    truth, values = scored_rows(labels, scores)
    if buffer < 0:
        raise DataError(f"`buffer` must be at least 0 rows, but got {buffer}.")
    near = Near.of(truth, buffer // 2)
    levels = Levels.of(values, near.rows)
    caught = levels.total(truth[near.rows][levels.order].astype(np.float64))
    distance = near.first[levels.order]
    meeting = near.second[levels.order]
    spare = np.empty((3, len(levels.ends)))
    areas = []
    for half in range(buffer // 2 + 1):
        # Two buffers never add up to less than 1, as neither is below sqrt(1/2) within its reach.
        distance[meeting == half] = 0
        existence = near.existence(half, levels.level, len(levels.ends))
        for width in range(2 * half, min(2 * half + 1, buffer) + 1):
            soft = _soft_labels(width, buffer // 2)
            areas.append(_areas(levels.total(soft[distance]), caught, existence, levels, len(truth), spare))
    pr, roc = np.mean(areas, axis=0)
    return Volume(float(pr), float(roc))


def volume_tsb(labels: Booleans, scores: Floats, window: int) -> Volume:
    """Return VUS-PR and VUS-ROC of one series as TSB-AD computes them (Liu and Paparrizos, NeurIPS 2024).

    It differs from `volume` in the thresholds: the scores at 250 ranks, spread evenly from the highest to the lowest.
    Up to 250 rows the two are equal.

    Parameters
    ----------
    labels : (row,)
        True for anomalous rows; both kinds must occur. An event is a maximal run of them.
    scores : (row,)
        Finite scores, higher = more anomalous.
    window
        Largest buffer in rows, TSB-AD's `slidingWindow`. TSB-AD sets it to the period of the series.

    Returns
    -------
    Volume
        Both from 0 to 1. Values of more than 250 rows are coarse where anomalies are rare.

    Examples
    --------
    >>> import numpy as np
    >>> volume_tsb(np.array([0, 0, 1, 1, 0, 0]), np.array([1.0, 1.0, 5.0, 5.0, 1.0, 1.0]), window=0)
    Volume(pr=1.0, roc=1.0)
    """
    truth, values = scored_rows(labels, scores)
    if window < 0:
        raise DataError(f"`window` must be at least 0 rows, but got {window}.")
    rows = len(values)
    ascending = np.sort(values)
    thresholds = ascending[::-1][np.linspace(0, rows - 1, RANKS).astype(np.int64)]
    flagged = rows - np.searchsorted(ascending, thresholds, side="left")
    near = Near.of(truth, window // 2)
    level = np.searchsorted(-thresholds, -values[near.rows], side="left")  # the first threshold that flags the row
    caught = np.cumsum(np.bincount(level[truth[near.rows]], minlength=RANKS))
    distance = near.first.copy()
    areas = []
    for half in range(window // 2 + 1):
        distance[near.second == half] = 0  # as in `volume`
        existence = near.existence(half, level, RANKS)
        for width in range(2 * half, min(2 * half + 1, window) + 1):
            soft = _soft_labels(width, window // 2)
            hits = np.cumsum(np.bincount(level, weights=soft[distance], minlength=RANKS))
            positives = caught[-1] + (hits - caught) / 2
            recall = np.minimum(hits / positives, 1) * existence
            fallout = (flagged - hits) / (rows - positives)
            pr = np.diff(recall, prepend=0) @ (hits / flagged)
            roc = np.trapezoid(np.concatenate([[0], recall, [1]]), np.concatenate([[0], fallout, [1]]))
            areas.append((pr, roc))
    pr, roc = np.mean(areas, axis=0)
    return Volume(float(pr), float(roc))


def _soft_labels(width: int, reach: int) -> Floats:
    """Return the label at 0 to `reach` rows from an event under a buffer of `width` rows; 0 beyond the buffer."""
    half = width // 2
    soft = np.zeros(reach + 1)
    soft[: half + 1] = np.sqrt(1 - np.arange(half + 1) / max(width, 1))
    return soft


def _areas(
    hits: Floats, caught: Floats, existence: Floats, levels: Levels, rows: int, spare: Floats
) -> tuple[float, float]:
    """Return the PR and ROC area at one buffer. The ROC area is 1 minus the area left of the curve, in which a
    threshold counts only as far as it gains recall. `spare` (3, level) is reused: to allocate it would cost as much."""
    gained, negatives, rate = spare
    np.subtract(hits, caught, out=rate)
    np.multiply(rate, 0.5, out=rate)
    positives = np.add(rate, caught[-1], out=rate)
    np.subtract(rows, positives, out=negatives)
    recall = np.divide(hits, positives, out=rate)
    np.minimum(recall, 1, out=recall)
    np.multiply(recall, existence, out=recall)
    np.subtract(recall[1:], recall[:-1], out=gained[1:])
    gained[0] = recall[0]
    fallout = np.subtract(levels.after, hits, out=rate)
    left = gained @ np.divide(fallout, negatives, out=rate)
    # Just before a level's own rows are flagged.
    raised = np.subtract(levels.before[1:], hits[:-1], out=rate[1:])
    left += gained[1:] @ np.divide(raised, negatives[:-1], out=raised)
    left += gained[0] * levels.before[0] / (rows - caught[-1])
    return float(gained @ np.divide(hits, levels.after, out=rate)), float(1 - left / 2)
