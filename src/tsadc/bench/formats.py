"""Summaries for other programs: CSV with everything, LaTeX with one table for each metric."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from tsadc.bench.metrics import COSTS, NEUTRAL, by_chance, flagging_all, told
from tsadc.bench.summary import Summary, columns, rows

TAKEN = (*COSTS, "fit_cpu_seconds", "score_cpu_seconds")
SPECIAL = {"\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
SPECIAL |= {mark: f"\\{mark}" for mark in "&%$#_"}


def comma_separated(summaries: Sequence[Summary], metrics: Sequence[str]) -> str:
    """A line for each row and column: mean and standard deviation of each metric, what knowing nothing gets, costs."""
    options = sorted({name for one in summaries for name in one.split})
    head = ["data", *options, "detector", "network", "seeds", "failed"]
    head += [f"{name}{part}" for name in metrics for part in ("", "_sd", "_random", "_all_positive")]
    costs = [name for name in TAKEN if name not in metrics]
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow([*head, *costs])
    for one in summaries:
        seeds = " ".join(str(record["seed"]) for record in one.records)
        known = [one.data, *(one.split.get(name, "") for name in options), one.row, int(one.network), seeds]
        values = [part for name in metrics for part in _numbers(one, name)]
        values += [one.mean(name) for name in costs]
        numbers = ["" if value is None else f"{value:.6g}" for value in values]
        lines.writerow([*known, len(one.records) - len(one.fine), *numbers])
    return out.getvalue()


def _numbers(one: Summary, metric: str) -> tuple[float | None, ...]:
    floors = (one.mean(metric, by_chance), one.mean(metric, flagging_all))
    return (one.mean(metric), one.deviation(metric), *floors)


def latex(summaries: Sequence[Summary], metrics: Sequence[str]) -> str:
    """Rows down, data sets across, for the package booktabs; the best of each column is bold."""
    return "\n\n".join(_table(summaries, metric) for metric in metrics)


def _table(summaries: Sequence[Summary], metric: str) -> str:
    have = columns(summaries)
    cells = {(one.row, one.column): one for one in summaries}
    means = {place: mean for place, one in cells.items() if (mean := one.mean(metric)) is not None}
    best = {column: max((mean for (_, own), mean in means.items() if own == column), default=None) for column in have}
    lines = [f"% {metric}", f"\\begin{{tabular}}{{l{'r' * len(have)}}}", "\\toprule"]
    lines.append(" & ".join(["", *map(escape, have)]) + r" \\")
    lines.append("\\midrule")
    for row in rows(summaries):
        body = [_cell(cells.get((row, column)), metric, best[column]) for column in have]
        lines.append(" & ".join([escape(row), *body]) + r" \\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"])


def _cell(summary: Summary | None, metric: str, best: float | None) -> str:
    mean = summary.mean(metric) if summary else None
    if summary is None or mean is None:
        return "--"
    spread = summary.deviation(metric)
    text = told(metric, mean) if mean != best or metric in NEUTRAL else f"\\textbf{{{told(metric, mean)}}}"
    return text if spread is None else f"{text} {{\\small$\\pm${told(metric, spread)}}}"


def escape(text: str) -> str:
    return "".join(SPECIAL.get(mark, mark) for mark in text)
