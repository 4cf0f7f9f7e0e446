"""How well scores rank anomalies above the rest, and how well a threshold cuts. No point adjustment anywhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score

from tsadc.errors import DataError
from tsadc.series import Booleans, Floats


@dataclass(frozen=True)
class Cut:
    """Precision, recall and their harmonic mean at one threshold; 0 where they are not defined."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class Paper:
    """The three figures of the TSAD-C paper, all of hard verdicts at one threshold."""

    paper_f1: float
    paper_recall: float
    paper_apr: float


def auroc(labels: Booleans, scores: Floats) -> float:
    """Probability that an anomaly scores above a normal observation; ties count half."""
    _check(labels, scores)
    return float(roc_auc_score(labels, scores))


def average_precision(labels: Booleans, scores: Floats) -> float:
    """Mean precision over the ranks of the anomalies; equals the prevalence for a random score."""
    _check(labels, scores)
    return float(average_precision_score(labels, scores))


def cut(labels: Booleans, flagged: NDArray[np.generic]) -> Cut:
    """Precision, recall and F1 of the observations that were flagged."""
    _check_lengths(labels, flagged)
    truth, chosen = np.asarray(labels, dtype=bool), np.asarray(flagged, dtype=bool)
    hits = int(np.sum(truth & chosen))
    precision = hits / max(int(chosen.sum()), 1)
    recall = hits / max(int(truth.sum()), 1)
    return Cut(precision, recall, 2 * precision * recall / (precision + recall) if hits else 0.0)


def balanced(precision: float, recall: float) -> Cut:
    """With the harmonic mean of the two as F1."""
    total = precision + recall
    return Cut(precision, recall, 2 * precision * recall / total if total else 0.0)


def all_positive_f1(labels: Booleans) -> float:
    """F1 of flagging everything: what a threshold has to beat to be of use."""
    return cut(labels, np.ones(len(labels), dtype=bool)).f1


def oracle_f1(labels: Booleans, scores: Floats) -> float:
    """The best F1 of any threshold. Only labels can find it: a bound for thresholds, never a result."""
    _check(labels, scores)
    precision, recall, _ = precision_recall_curve(labels, scores)
    return float(np.max(2 * precision * recall / np.maximum(precision + recall, np.finfo(float).tiny)))


def paper(labels: Booleans, flagged: NDArray[np.generic]) -> Paper:
    """What the paper's tables hold. Its APR joins (recall, precision) by lines to (0, 1) and to (1, prevalence), so
    that flagging everything and flagging nothing both get (1 + prevalence) / 2."""
    found = cut(labels, flagged)
    prevalence = float(np.mean(np.asarray(labels, dtype=bool))) if len(labels) else 0.0
    if not np.any(flagged):
        return Paper(found.f1, found.recall, (1 + prevalence) / 2)
    below = found.recall * (1 + found.precision) / 2
    return Paper(found.f1, found.recall, below + (1 - found.recall) * (found.precision + prevalence) / 2)


def _check(labels: Booleans, scores: Floats) -> None:
    _check_lengths(labels, scores)
    if not 0 < int(np.sum(labels)) < len(labels):
        raise DataError("Ranking is measured between normal and anomalous observations, but only one sort is there.")
    wrong = np.flatnonzero(~np.isfinite(scores))
    if len(wrong):
        raise DataError(f"Scores can be ranked when all are finite, but score {wrong[0]} is {scores[wrong[0]]}.")


def _check_lengths(labels: Booleans, scores: NDArray[np.generic]) -> None:
    if len(labels) != len(scores):
        raise DataError(f"There are {len(labels)} labels for {len(scores)} scores; each score needs one.")
