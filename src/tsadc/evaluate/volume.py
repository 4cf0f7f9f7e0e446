"""The volume under the surface: ROC and PR areas averaged over how far around an event an alarm still counts.

Paparrizos et al., "Volume Under the Surface", PVLDB 15(11), 2022, in the form that its authors' packages `vus` and
`TSB-AD` compute today (`version="opt"`), but at every distinct score instead of 250 ranks.

name        symbol      meaning
buffer      l           rows around events that share in the label, half of them on either side; 0 .. `buffer` are tried
soft        label_r     sqrt(1 - d / l) at d <= l // 2 rows from an event, 1 in an event and where two buffers meet
hits        TP          sum of `soft` over flagged rows
positives   P           events' rows, and half of `soft` of the flagged rows around them
existence               share of the events, with their buffers, that hold a flagged row; events whose buffers overlap
                        are one
recall      TPR         min(1, TP / P) * existence
fallout     FPR         (flagged - TP) / (rows - P)
precision               TP / flagged

The ROC area joins its points by lines, the PR area by steps, as average precision does: lines would give a constant
score more than a half."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tsadc.errors import DataError
from tsadc.evaluate.inputs import scored_rows
from tsadc.series import Booleans, Floats
from tsadc.windows import runs

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Volume:
    """VUS-PR and VUS-ROC."""

    pr: float
    roc: float


@dataclass(frozen=True)
class Near:
    """The rows in or around events, with their distances to the nearest event and to the second nearest."""

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
        """For each level, the share of zones (events with `half` a buffer) that hold a row at least as loud."""
        within = self.first <= half
        apart = np.append(True, self.starts[1:] - self.lasts[:-1] > 2 * half)
        begins = np.searchsorted(self.rows[within], np.maximum(self.starts[apart] - half, 0))
        loudest = np.minimum.reduceat(level[within], begins)
        return np.cumsum(np.bincount(loudest, minlength=levels)) / len(begins)


@dataclass(frozen=True)
class Levels:
    """The distinct scores of the rows near events, highest first: rows between two of them add false alarms only."""

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
        """For each level, the sum over near rows that score at least as high, of values in the order of scores."""
        added = np.cumsum(ranked)
        return added if len(self.ends) == len(added) else added[self.ends]


def volume(labels: Booleans, scores: Floats, buffer: int = 100) -> Volume:
    """VUS of one series. The same `buffer` for everything that is to be compared: values grow with it."""
    truth, values = scored_rows(labels, scores)
    if buffer < 0:
        raise DataError(f"A buffer has 0 rows or more, but {buffer} came.")
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
            soft = np.zeros(buffer // 2 + 1)
            soft[: half + 1] = np.sqrt(1 - np.arange(half + 1) / max(width, 1))
            areas.append(_areas(levels.total(soft[distance]), caught, existence, levels, len(truth), spare))
    pr, roc = np.mean(areas, axis=0)
    return Volume(float(pr), float(roc))


def _areas(
    hits: Floats, caught: Floats, existence: Floats, levels: Levels, rows: int, spare: Floats
) -> tuple[float, float]:
    """PR and ROC area at one buffer. The ROC area is 1 less the one to the left of the curve, for which a threshold
    counts only as far as it gains recall. `spare` (3, level) is memory to work in, as to fetch some costs as much."""
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
