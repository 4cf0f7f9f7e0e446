"""Export summaries: CSV with all values, LaTeX with one table per metric."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from tsadc.bench.metrics import COSTS, NEUTRAL, by_chance, flagging_all, format_value, high_end, low_end
from tsadc.bench.summary import Grid, Summary
from tsadc.show.result_files import inert

PARTS = {"_low": low_end, "_high": high_end, "_random": by_chance, "_all_positive": flagging_all}
SPECIAL = {"\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
SPECIAL |= {mark: f"\\{mark}" for mark in "&%$#_"}


def comma_separated(summaries: Sequence[Summary], metrics: Sequence[str]) -> str:
    """Return one line per label and data set: mean, standard deviation and interval of each metric, its values by
    chance and with everything flagged, and costs."""
    options = sorted({name for summary in summaries for name in summary.split})
    head = ["data", *options, "detector", "network", "seeds", "failed"]
    head += [f"{name}{part}" for name in metrics for part in ("", "_sd", *PARTS)]
    costs = [name for name in COSTS if name not in metrics]
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow([*head, *costs])
    for summary in summaries:
        split = [summary.split.get(name, "") for name in options]
        seeds = " ".join(str(record["seed"]) for record in summary.records)
        failed = len(summary.records) - len(summary.fine)
        values: list[float | None] = []
        for name in metrics:
            values += [summary.mean(name), summary.deviation(name)]
            values += [summary.mean(name, read) for read in PARTS.values()]
        values += [summary.mean(name) for name in costs]
        numbers = ["" if value is None else f"{value:.6g}" for value in values]
        names = [inert(text) for text in (summary.dataset, *split, summary.label)]
        lines.writerow([*names, int(summary.network), seeds, failed, *numbers])
    return out.getvalue()


def latex(summaries: Sequence[Summary], metrics: Sequence[str]) -> str:
    """Return tables of labels by data sets for the package booktabs, with the best on each data set in bold."""
    return "\n\n".join(_table(summaries, metric) for metric in metrics)


def _table(summaries: Sequence[Summary], metric: str) -> str:
    grid = Grid(summaries)
    best = {data: grid.best(data, metric) for data in grid.data}
    lines = [f"% {metric}", f"\\begin{{tabular}}{{l{'r' * len(grid.data)}}}", "\\toprule"]
    lines.append(" & ".join(["", *map(escape, grid.data)]) + r" \\")
    lines.append("\\midrule")
    for label in grid.labels:
        body = [_entry(grid.get(label, data), metric, best[data]) for data in grid.data]
        lines.append(" & ".join([escape(label), *body]) + r" \\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"])


def _entry(summary: Summary, metric: str, best: float | None) -> str:
    mean = summary.mean(metric)
    if mean is None:
        return "--"
    spread = summary.deviation(metric)
    text = format_value(metric, mean)
    if mean == best and metric not in NEUTRAL:
        text = f"\\textbf{{{text}}}"
    return text if spread is None else f"{text} {{\\small$\\pm${format_value(metric, spread)}}}"


def escape(text: str) -> str:
    """Escape the special characters of LaTeX."""
    return "".join(SPECIAL.get(mark, mark) for mark in text)
