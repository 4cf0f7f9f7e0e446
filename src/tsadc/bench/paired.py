"""Compare the best label with every other one over data sets; seeds and splits of a data set are averaged first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tsadc.bench.summary import Summary, complete
from tsadc.evaluate.bootstrap import Interval
from tsadc.evaluate.compare import holm, mean_difference, wilcoxon


@dataclass(frozen=True)
class Against:
    """By how much the best label is better than this one, as a mean over data sets. The interval is from a bootstrap
    over data sets; `p` is that of Wilcoxon's test, with Holm's correction for the number of labels."""

    label: str
    difference: float
    interval: Interval
    p: float


def against_best(summaries: Sequence[Summary], metric: str) -> tuple[str, int, list[Against]] | None:
    """Return the label with the best mean, the number of data sets, and the others that have a value on all of them,
    nearest first. Return None without two labels and two data sets."""
    datasets, labels, values = complete(summaries, metric)
    if len(labels) < 2 or len(datasets) < 2:
        return None
    table = np.array(values)
    first = int(table.mean(axis=0).argmax())
    others = [i for i in range(len(labels)) if i != first]
    corrected = holm([wilcoxon(table[:, first], table[:, i]) for i in others])
    compared = [
        Against(
            labels[i],
            float((table[:, first] - table[:, i]).mean()),
            mean_difference(table[:, first], table[:, i]),
            p,
        )
        for i, p in zip(others, corrected, strict=True)
    ]
    return labels[first], len(datasets), sorted(compared, key=lambda against: against.difference)
