"""Where sensors stop reporting, as in `missing.py`, from one tick to the next."""

from __future__ import annotations

import numpy as np

from tsadc.detectors.missing import LONGER, Missing
from tsadc.detectors.usual import Quantiles
from tsadc.series import Booleans
from tsadc.windows import runs

Spans = dict[tuple[int, int], list[int]]  # row numbers, and the variables that are missing between them


class Gaps:
    """Which variables of an entity have not reported for how long."""

    def __init__(self, learnt: Quantiles, length: int, first: int) -> None:
        self.expected, self.least = learnt.present, length
        self.least_empty = max(length, LONGER * learnt.gap + 1)
        self.begin, self.rows = np.zeros((2, len(learnt.present)), dtype=np.int64)
        self.end = first  # row number after the last one with a value

    def feed(self, first: int, known: Booleans) -> list[Missing]:
        """Return what ended in the rows from `first` on; `known` (time, variable) says which values are measured."""
        places = np.flatnonzero(known.any(axis=1))
        if not len(places) or not self.expected.any():
            return []
        ended: Spans = {}
        rows = first + places
        before = np.concatenate([[self.end], rows[:-1] + 1])
        for i in np.flatnonzero(rows - before >= self.least_empty).tolist():
            ended[int(before[i]), int(rows[i])] = list(range(len(self.expected)))
        absent = ~known[places]
        for k in np.flatnonzero(self.expected & (absent.any(axis=0) | (self.rows > 0))).tolist():
            if self.rows[k] and not absent[0, k]:
                self._close(k, self.end, ended)
            for start, stop in runs(absent[:, k]):
                if not self.rows[k]:
                    self.begin[k] = rows[start]
                self.rows[k] += stop - start
                if stop < len(places):
                    self._close(k, int(rows[stop - 1]) + 1, ended)
        self.end = int(rows[-1]) + 1
        return [Missing(*span, tuple(sorted(variables))) for span, variables in sorted(ended.items())]

    def _close(self, k: int, stop: int, ended: Spans) -> None:
        if self.rows[k] >= self.least:
            ended.setdefault((int(self.begin[k]), stop), []).append(k)
        self.rows[k] = 0

    def lasting(self, now: int) -> list[Missing]:
        """Return what lasts until the row number `now`, which follows the last row."""
        spans: Spans = {}
        for k in np.flatnonzero(self.rows >= self.least).tolist():
            spans.setdefault((int(self.begin[k]), self.end), []).append(k)
        if now - self.end >= self.least_empty and self.expected.any():
            spans[self.end, now] = list(range(len(self.expected)))
        return [Missing(*span, tuple(variables)) for span, variables in sorted(spans.items())]
