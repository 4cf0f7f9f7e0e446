"""The best row against each other one, data set by data set: seeds and splits of one data set are averaged first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tsadc.bench.summary import Summary, complete
from tsadc.evaluate.bootstrap import Interval
from tsadc.evaluate.compare import holm, mean_difference, wilcoxon


@dataclass(frozen=True)
class Against:
    """The mean over data sets of the best row's value less this row's, its interval when data sets are drawn anew, and
    the p of Wilcoxon's test, corrected for as many tests as there are rows (Holm)."""

    row: str
    difference: float
    interval: Interval
    p: float


def against_best(summaries: Sequence[Summary], metric: str) -> tuple[str, int, list[Against]] | None:
    """The best row by its mean, the number of data sets, and the others among those that have a value on all of them,
    nearest first. None without two rows and two data sets."""
    cases, names, values = complete(summaries, metric)
    if len(names) < 2 or len(cases) < 2:
        return None
    table = np.array(values)
    first = int(table.mean(axis=0).argmax())
    others = [i for i in range(len(names)) if i != first]
    corrected = holm([wilcoxon(table[:, first], table[:, i]) for i in others])
    found = [
        Against(
            names[i],
            float((table[:, first] - table[:, i]).mean()),
            mean_difference(table[:, first], table[:, i]),
            p,
        )
        for i, p in zip(others, corrected, strict=True)
    ]
    return names[first], len(cases), sorted(found, key=lambda one: one.difference)
