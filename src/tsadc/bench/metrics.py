"""What a record can be asked for, by name, and what knowing nothing would get.

name              meaning
p                 prevalence: the share of anomalous observations
q                 share of flagged observations
by chance         expected with random scores, or with as many flags thrown at random
flagging all      of a constant score, or of flags on everything"""

from __future__ import annotations

from tsadc.bench import points
from tsadc.bench.cell import Record

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
# More of it is not better.
NEUTRAL = ("delay", "false_rows", "flagged", "prevalence", "all_positive_f1", *COSTS)
LARGE = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def value_of(record: Record, metric: str) -> float | None:
    """A number of a record, among its own or those of rows."""
    found = record.get(metric, (record.get("points") or {}).get(metric))
    return None if found is None else float(found)


def low_end(record: Record, metric: str) -> float | None:
    """Of the bootstrap interval; None where there is none."""
    return (record.get(f"{metric}_interval") or (None, None))[0]


def high_end(record: Record, metric: str) -> float | None:
    """Of the bootstrap interval; None where there is none."""
    return (record.get(f"{metric}_interval") or (None, None))[1]


def by_chance(record: Record, metric: str) -> float | None:
    """None where it is not known. The number of flags stays, so that F1, linear in those that hit, has the expectation
    2pq / (p + q). AP, the best F1 and the paper's APR are what many observations tend to; of few they are higher."""
    p, q = record["prevalence"], record["flagged"]
    f1 = 2 * p * q / (p + q) if p + q else 0.0
    known = {"auroc": 0.5, "ap": p, "precision": p if q else 0.0, "recall": q, "f1": f1}
    known |= {"oracle_f1": record["all_positive_f1"], "paper_f1": f1, "paper_recall": q}
    known |= {"paper_apr": q * (1 + p) / 2 + (1 - q) * p if q else (1 + p) / 2}
    return known.get(metric, _of_rows(record, metric, "random"))


def flagging_all(record: Record, metric: str) -> float | None:
    """None where it is not known."""
    p, f1 = record["prevalence"], record["all_positive_f1"]
    known = {"auroc": 0.5, "ap": p, "precision": p, "recall": 1.0, "f1": f1, "oracle_f1": f1}
    known |= {"paper_f1": f1, "paper_recall": 1.0, "paper_apr": (1 + p) / 2}
    return known.get(metric, _of_rows(record, metric, "all_positive"))


def _of_rows(record: Record, metric: str, floor: str) -> float | None:
    found: float | None = (record.get("points") or {}).get(floor, {}).get(metric)
    return found


def told(metric: str, value: float | None) -> str:
    """Three digits; of costs three that count, as they differ by orders of magnitude."""
    if value is None:
        return "-"
    if metric not in COSTS:
        return f"{value:.3f}"
    for size, mark in LARGE:
        if value >= size:
            return f"{value / size:.3g}{mark}"
    return f"{value:.3g}"
