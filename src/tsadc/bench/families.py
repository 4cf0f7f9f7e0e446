"""Compare detectors over families of data sets, and choose a candidate without the family that it is reported on.

    name        meaning
    figure      quality of a detector on a family: the mean AP (or AUROC) over its data sets; VUS-PR (or VUS-ROC) in
                TSB-AD's definition for data sets that score rows only
    regret      how much a figure is below that of the best single detector on the family; 0 if it is not below
    rank        place among the detectors of the pool on a family, 1 is best, equal figures share theirs
    left out    the figure on a family of the candidate that is best on the other families

The pool is every detector except the references, which know nothing. A detector that fuses others is not single.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy  # `scipy.stats`, slow to import, is imported when it is used

from tsadc.bench.records import job_of
from tsadc.bench.summary import Summary
from tsadc.config import nearest, parse_json
from tsadc.data.catalogue import families
from tsadc.errors import DataError
from tsadc.evaluate.bootstrap import Interval
from tsadc.evaluate.compare import mean_difference

ENSEMBLE = "ensemble"
REFERENCES = ("all-positive", "random")
OF_ROWS = {"ap": "vus_pr_tsb", "auroc": "vus_roc_tsb"}  # in place of a metric of observations
SMD, TSB, TSB_WITHOUT_SMD = "smd", "tsb-dev", "tsb-dev-without-smd"

Figures = dict[str, float]  # by family


@dataclass(frozen=True)
class Standing:
    """A detector over all families; `rank` and its interval are None for a reference."""

    mean: float
    mean_regret: float
    worst_regret: float
    rank: float | None
    interval: Interval | None  # of the mean rank, 90 %, from a bootstrap over families


@dataclass(frozen=True)
class Entrant:
    """A label with its figures, and its standing; None if it lacks a figure."""

    label: str
    detector: str
    figures: Figures
    standing: Standing | None


@dataclass(frozen=True)
class Choices:
    """The figures of all candidates (candidate -> data set -> metric -> value), and the name of the default one."""

    candidates: Mapping[str, Mapping[str, Mapping[str, float]]]
    default: str


@dataclass(frozen=True)
class LeftOut:
    """The candidate that is best on the other families, and its figure on this one by metric."""

    candidate: str
    figures: Mapping[str, float]


def entrants(summaries: Sequence[Summary], metric: str, instead: Mapping[str, Figures] | None = None) -> list[Entrant]:
    """Return every label with its figures and standing, the best mean first and the references last. `instead` holds
    labels with figures that replace their own."""
    figures = {label: _figures(summaries, label, metric) for label in dict.fromkeys(each.label for each in summaries)}
    figures |= instead or {}
    jobs = {summary.label: job_of(summary.records[0]) for summary in summaries}
    every = list(dict.fromkeys(family_of(summary.dataset) for summary in summaries))
    pool = [label for label in figures if jobs[label].detector not in REFERENCES]
    ranked = {label: figures[label] for label in pool if len(figures[label]) == len(every)}
    single = [figures[label] for label in pool if jobs[label].detector != ENSEMBLE and jobs[label].scoring != "fused"]
    best = {family: max((each[family] for each in single if family in each), default=0.0) for family in every}
    found = []
    for label, values in figures.items():
        stands = _standing(label, values, best, ranked) if len(values) == len(every) else None
        found.append(Entrant(label, jobs[label].detector, values, stands))
    return sorted(
        found,
        key=lambda each: (
            each.detector in REFERENCES,
            -each.standing.mean if each.standing else 0.0,
            each.label,
        ),
    )


def family_of(dataset: str) -> str:
    """Return the family of a data set; the user's own data is a family of its own."""
    return families().get(dataset, dataset)


def _figures(summaries: Sequence[Summary], label: str, metric: str) -> Figures:
    """Return the figures on the families for which the label has a value on every data set. Splits of one data set are
    averaged first."""
    values = {summary.data: _value(summary, metric) for summary in summaries if summary.label == label}
    split = {summary.data: summary.dataset for summary in summaries}
    datasets: dict[str, dict[str, list[float | None]]] = {}
    for data, dataset in split.items():
        datasets.setdefault(family_of(dataset), {}).setdefault(dataset, []).append(values.get(data))
    means = {family: [_mean(splits) for splits in each.values()] for family, each in datasets.items()}
    return {family: figure for family, each in means.items() if (figure := _mean(each)) is not None}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if len(known) == len(values) else None


def _value(summary: Summary, metric: str) -> float | None:
    value = summary.mean(metric)
    return summary.mean(OF_ROWS[metric]) if value is None else value


def _standing(label: str, own: Figures, best: Figures, ranked: Mapping[str, Figures]) -> Standing:
    """Return how figures stand beside the best single detector of each family, and among those that are ranked."""
    regrets = [max(0.0, best[family] - value) for family, value in own.items()]
    mean, regret, worst = float(np.mean(list(own.values()))), float(np.mean(regrets)), max(regrets)
    if label not in ranked:
        return Standing(mean, regret, worst, None, None)
    table = np.array([[values[family] for family in own] for values in ranked.values()])
    ranks = scipy.stats.rankdata(-table, axis=0)[list(ranked).index(label)]
    rank = float(ranks.mean())
    interval = mean_difference(ranks, np.zeros(len(ranks))) if len(ranks) > 1 else (rank, rank)
    return Standing(mean, regret, worst, rank, interval)


def leave_one_out(choices: Choices) -> dict[str, LeftOut]:
    """Return what is chosen without each family: the candidate with the best mean AP over the other families.

    On a tie the default is chosen, or else the first. If SMD is left out, TSB-dev counts without the series that are
    machines of SMD.
    """
    datasets = [name for name in choices.candidates[choices.default] if name != TSB_WITHOUT_SMD]
    every = list(dict.fromkeys(family_of(name) for name in datasets))
    order = sorted(choices.candidates, key=lambda name: name != choices.default)
    out = {}
    for family in every:
        others = [name for name in datasets if family_of(name) != family]
        if not others:
            continue
        used = [TSB_WITHOUT_SMD if family == SMD and name == TSB else name for name in others]
        best = max(order, key=lambda name: _mean_over_families(choices.candidates[name], used))
        own = [choices.candidates[best][name] for name in datasets if family_of(name) == family]
        means = {m: _mean([values.get(m, values.get(rows)) for values in own]) for m, rows in OF_ROWS.items()}
        out[family] = LeftOut(best, {metric: mean for metric, mean in means.items() if mean is not None})
    return out


def _mean_over_families(values: Mapping[str, Mapping[str, float]], datasets: Sequence[str]) -> float:
    """Return the mean figure, rounded so that equal candidates tie."""
    figures: dict[str, list[float]] = {}
    for name in datasets:
        metric = "ap" if "ap" in values[name] else OF_ROWS["ap"]
        figures.setdefault(family_of(name), []).append(values[name][metric])
    return round(float(np.mean([np.mean(figure) for figure in figures.values()])), 9)


def read_choices(file: Path) -> Choices | None:
    """Read the figures of candidates, `{"candidates": {NAME: {DATA SET: {METRIC: VALUE}}}, "default": NAME}`.

    Every candidate needs `ap`, or `vus_pr_tsb`, on the same data sets; with SMD and TSB-dev also on
    `tsb-dev-without-smd`. Return None if there is no such file.
    """
    if not file.exists():
        return None
    try:
        content = parse_json(file.read_bytes())
        candidates, default = content["candidates"], content["default"]
        datasets = set(candidates[default])
        known = all(_known(values) for figures in candidates.values() for values in figures.values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise DataError(f"{file} should hold `candidates` with their figures, and one of them as `default`.") from None
    if not known:
        raise DataError(f"{file} should give every candidate `ap` or `vus_pr_tsb`, a number, on every data set.")
    odd = next((name for name, figures in candidates.items() if set(figures) != datasets), None)
    if odd is not None:
        raise DataError(f"{file} should have the same data sets for every candidate, but those of {odd!r} differ.")
    wrong = next((name for name in sorted(datasets) if name not in {*families(), TSB_WITHOUT_SMD}), None)
    if wrong is not None:
        raise DataError(f"{file} has figures on an unknown data set {wrong!r}{nearest(wrong, list(families()))}")
    both = TSB in datasets and SMD in {family_of(name) for name in datasets}
    if both and TSB_WITHOUT_SMD not in datasets:
        raise DataError(f"{file} should have figures on `{TSB_WITHOUT_SMD}`, as it has some on SMD and {TSB}.")
    return Choices(candidates, default)


def _known(values: Mapping[str, Any]) -> bool:
    numbers = all(isinstance(value, int | float) and np.isfinite(value) for value in values.values())
    return numbers and bool({"ap", OF_ROWS["ap"]} & set(values))
