"""Summaries for other programs: CSV with everything, LaTeX with one table for each metric."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from tsadc.bench.metrics import COSTS, NEUTRAL, by_chance, flagging_all, high_end, low_end, told
from tsadc.bench.summary import Grid, Summary

PARTS = {"_low": low_end, "_high": high_end, "_random": by_chance, "_all_positive": flagging_all}
SPECIAL = {"\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
SPECIAL |= {mark: f"\\{mark}" for mark in "&%$#_"}


def comma_separated(summaries: Sequence[Summary], metrics: Sequence[str]) -> str:
    """A line for each row and column: mean and standard deviation of each metric, its interval, what knowing
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
        known = [one.data, *(one.split.get(name, "") for name in options), one.row, int(one.network), seeds]
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
    """Rows down, data sets across, for the package booktabs; the best of each column is bold."""
    return "\n\n".join(_table(summaries, metric) for metric in metrics)


def _table(summaries: Sequence[Summary], metric: str) -> str:
    found = Grid(summaries)
    best = {column: found.best(column, metric) for column in found.columns}
    lines = [f"% {metric}", f"\\begin{{tabular}}{{l{'r' * len(found.columns)}}}", "\\toprule"]
    lines.append(" & ".join(["", *map(escape, found.columns)]) + r" \\")
    lines.append("\\midrule")
    for row in found.rows:
        body = [_cell(found.get(row, column), metric, best[column]) for column in found.columns]
        lines.append(" & ".join([escape(row), *body]) + r" \\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"])


def _cell(summary: Summary, metric: str, best: float | None) -> str:
    mean = summary.mean(metric)
    if mean is None:
        return "--"
    spread = summary.deviation(metric)
    text = told(metric, mean) if mean != best or metric in NEUTRAL else f"\\textbf{{{told(metric, mean)}}}"
    return text if spread is None else f"{text} {{\\small$\\pm${told(metric, spread)}}}"


def escape(text: str) -> str:
    return "".join(SPECIAL.get(mark, mark) for mark in text)
