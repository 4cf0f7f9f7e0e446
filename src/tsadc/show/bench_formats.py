"""Summaries for other programs: CSV with everything, LaTeX with one table for each metric."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from tsadc.bench.metrics import COSTS, NEUTRAL, by_chance, flagging_all, format_value, high_end, low_end
from tsadc.bench.summary import Grid, Summary

PARTS = {"_low": low_end, "_high": high_end, "_random": by_chance, "_all_positive": flagging_all}
SPECIAL = {"\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
SPECIAL |= {mark: f"\\{mark}" for mark in "&%$#_"}


def comma_separated(summaries: Sequence[Summary], metrics: Sequence[str]) -> str:
    """A line for each label and data set: mean and standard deviation of each metric, its interval, what knowing
    nothing gets, and costs."""
    options = sorted({name for one in summaries for name in one.split})
    head = ["data", *options, "detector", "network", "seeds", "failed"]
    head += [f"{name}{part}" for name in metrics for part in ("", "_sd", *PARTS)]
    costs = [name for name in COSTS if name not in metrics]
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow([*head, *costs])
    for one in summaries:
        seeds = " ".join(str(record["seed"]) for record in one.records)
        known = [one.dataset, *(one.split.get(name, "") for name in options), one.label, int(one.network), seeds]
        values = [
            part
            for name in metrics
            for part in (one.mean(name), one.deviation(name), *(one.mean(name, read) for read in PARTS.values()))
        ]
        values += [one.mean(name) for name in costs]
        numbers = ["" if value is None else f"{value:.6g}" for value in values]
        lines.writerow([*known, len(one.records) - len(one.fine), *numbers])
    return out.getvalue()


def latex(summaries: Sequence[Summary], metrics: Sequence[str]) -> str:
    """Labels down, data sets across, for the package booktabs; the best on each data set is bold."""
    return "\n\n".join(_table(summaries, metric) for metric in metrics)


def _table(summaries: Sequence[Summary], metric: str) -> str:
    found = Grid(summaries)
    best = {data: found.best(data, metric) for data in found.data}
    lines = [f"% {metric}", f"\\begin{{tabular}}{{l{'r' * len(found.data)}}}", "\\toprule"]
    lines.append(" & ".join(["", *map(escape, found.data)]) + r" \\")
    lines.append("\\midrule")
    for label in found.labels:
        body = [_cell(found.get(label, data), metric, best[data]) for data in found.data]
        lines.append(" & ".join([escape(label), *body]) + r" \\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"])


def _cell(summary: Summary, metric: str, best: float | None) -> str:
    mean = summary.mean(metric)
    if mean is None:
        return "--"
    spread = summary.deviation(metric)
    text = (
        format_value(metric, mean) if mean != best or metric in NEUTRAL else f"\\textbf{{{format_value(metric, mean)}}}"
    )
    return text if spread is None else f"{text} {{\\small$\\pm${format_value(metric, spread)}}}"


def escape(text: str) -> str:
    return "".join(SPECIAL.get(mark, mark) for mark in text)
