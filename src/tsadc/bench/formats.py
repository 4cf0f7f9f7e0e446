"""Summaries for other programs: CSV with everything, LaTeX with one table for each metric."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from tsadc.bench.summary import Summary, columns, rows

COSTS = ("fit_seconds", "fit_cpu_seconds", "score_seconds", "score_cpu_seconds", "peak_bytes", "parameters", "flops")
SPECIAL = {"\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
SPECIAL |= {mark: f"\\{mark}" for mark in "&%$#_"}


def comma_separated(summaries: Sequence[Summary], metrics: Sequence[str]) -> str:
    """A line for each row and column: mean and standard deviation of each metric, and what it took."""
    options = sorted({name for one in summaries for name in one.split})
    head = ["data", *options, "detector", "network", "seeds", "failed"]
    head += [part for name in metrics for part in (name, f"{name}_sd")]
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow([*head, *COSTS])
    for one in summaries:
        seeds = " ".join(str(record["seed"]) for record in one.records)
        known = [one.data, *(one.split.get(name, "") for name in options), one.row, int(one.network), seeds]
        values = [part for name in metrics for part in (one.mean(name), one.deviation(name))]
        values += [one.mean(name) for name in COSTS]
        numbers = ["" if value is None else f"{value:.6g}" for value in values]
        lines.writerow([*known, len(one.records) - len(one.fine), *numbers])
    return out.getvalue()


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
    text = f"{mean:.3f}" if mean != best else f"\\textbf{{{mean:.3f}}}"
    return text if spread is None else f"{text} {{\\small$\\pm${spread:.3f}}}"


def escape(text: str) -> str:
    return "".join(SPECIAL.get(mark, mark) for mark in text)
