"""Metric names, and their values for a random score and for flagging everything.

name              meaning
p                 prevalence: the share of anomalous observations
q                 share of flagged observations
by chance         expected with random scores, or with the same number of flags at random places
flagging all      of a constant score, or with everything flagged"""

from __future__ import annotations

from tsadc.bench import points
from tsadc.bench.job import Record

OBSERVATIONS = ("auroc", "ap", "f1", "precision", "recall", "flagged", "oracle_f1", "all_positive_f1", "prevalence")
PAPER = ("paper_f1", "paper_recall", "paper_apr")
COSTS = (
    "fit_seconds",
    "fit_cpu_seconds",
    "epoch_seconds",
    "score_seconds",
    "score_cpu_seconds",
    "peak_bytes",
    "parameters",
    "flops",
)
METRICS = (*OBSERVATIONS, *PAPER, *points.NAMES, *COSTS)
# Lower is better, or neither; no winner is marked.
NEUTRAL = ("delay", "false_rows", "flagged", "prevalence", "all_positive_f1", *COSTS)
LARGE = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def value_of(record: Record, metric: str) -> float | None:
    """Return a metric, or None if the record lacks it."""
    value = record.get(metric)
    return None if value is None else float(value)


def low_end(record: Record, metric: str) -> float | None:
    """Return the lower end of the bootstrap interval, or None if there is none."""
    return record.get(f"{metric}_low")


def high_end(record: Record, metric: str) -> float | None:
    """Return the upper end of the bootstrap interval, or None if there is none."""
    return record.get(f"{metric}_high")


def by_chance(record: Record, metric: str) -> float | None:
    """Return the value by chance, or None if it is unknown. The number of flags is fixed, so F1 is linear in the hits
    and its expectation is 2pq / (p + q). For AP, the oracle F1 and the paper's APR the value is the limit for many
    observations; with few it is higher."""
    p, q = record["prevalence"], record["flagged"]
    if p is None:  # observations have no labels
        return record.get(f"{metric}_random")
    f1 = 2 * p * q / (p + q) if p + q else 0.0
    known = {"auroc": 0.5, "ap": p, "precision": p if q else 0.0, "recall": q, "f1": f1}
    known |= {"oracle_f1": record["all_positive_f1"], "paper_f1": f1, "paper_recall": q}
    known |= {"paper_apr": q * (1 + p) / 2 + (1 - q) * p if q else (1 + p) / 2}
    return known.get(metric, record.get(f"{metric}_random"))


def flagging_all(record: Record, metric: str) -> float | None:
    """Return the value with everything flagged, or None if it is unknown."""
    p, f1 = record["prevalence"], record["all_positive_f1"]
    if p is None:
        return record.get(f"{metric}_all_positive")
    known = {"auroc": 0.5, "ap": p, "precision": p, "recall": 1.0, "f1": f1, "oracle_f1": f1}
    known |= {"paper_f1": f1, "paper_recall": 1.0, "paper_apr": (1 + p) / 2}
    return known.get(metric, record.get(f"{metric}_all_positive"))


def format_value(metric: str, value: float | None) -> str:
    """Format a metric with three decimals, and a cost, which can differ by orders of magnitude, with three significant
    digits."""
    if value is None:
        return "-"
    if metric not in COSTS:
        return f"{value:.3f}"
    for size, mark in LARGE:
        if value >= size:
            return f"{value / size:.3g}{mark}"
    return f"{value:.3g}"
