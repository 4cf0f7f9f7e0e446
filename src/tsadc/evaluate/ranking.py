"""How well scores rank anomalies above normal observations, and how well a threshold separates them.

Observations are counted one by one; there is no point adjustment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score

from tsadc.errors import DataError
from tsadc.series import Booleans, Floats


@dataclass(frozen=True)
class Cut:
    """Precision, recall and their harmonic mean F1 at one threshold; 0 where they are undefined."""

    precision: float
    recall: float
    f1: float

    @classmethod
    def of(cls, precision: float, recall: float) -> Cut:
        """Complete precision and recall by F1."""
        total = precision + recall
        return cls(precision, recall, 2 * precision * recall / total if total else 0.0)


@dataclass(frozen=True)
class PaperMetrics:
    """The three metrics of the TSAD-C paper, all of flags at one threshold."""

    paper_f1: float
    paper_recall: float
    paper_apr: float


def auroc(labels: Booleans, scores: Floats) -> float:
    """Return the area under the ROC curve.

    It is the probability that a random anomaly scores above a random normal observation; ties count half (Hanley and
    McNeil, "The Meaning and Use of the Area under a ROC Curve", Radiology 143, 1982).

    Parameters
    ----------
    labels : (observation,)
        True for anomalies; both kinds must occur.
    scores : (observation,)
        Finite scores, higher = more anomalous.

    Returns
    -------
    float
        From 0 to 1; 0.5 for random scores.

    Examples
    --------
    >>> import numpy as np
    >>> auroc(np.array([False, True, False, True]), np.array([0.1, 0.9, 0.4, 0.3]))
    0.75
    """
    _check(labels, scores)
    return float(roc_auc_score(labels, scores))


def average_precision(labels: Booleans, scores: Floats) -> float:
    """Return the average precision: the area under the precision-recall curve, by steps.

    AP = sum_n (R_n - R_{n-1}) P_n over the distinct scores from the highest down, with precision P_n and recall R_n
    (Manning, Raghavan and Schütze, "Introduction to Information Retrieval", 2008, section 8.4).

    Parameters
    ----------
    labels : (observation,)
        True for anomalies; both kinds must occur.
    scores : (observation,)
        Finite scores, higher = more anomalous.

    Returns
    -------
    float
        From 0 to 1; about the prevalence for random scores.

    Examples
    --------
    >>> import numpy as np
    >>> average_precision(np.array([True, False, True, False]), np.array([4.0, 3.0, 2.0, 1.0]))
    0.8333333333333333
    """
    _check(labels, scores)
    return float(average_precision_score(labels, scores))


def cut(labels: Booleans, flagged: NDArray[np.generic]) -> Cut:
    """Return precision, recall and F1 of flagged observations.

    Precision is the share of flagged observations that are anomalous, recall the share of anomalies that are flagged,
    F1 their harmonic mean (van Rijsbergen, "Information Retrieval", 1979).

    Parameters
    ----------
    labels : (observation,)
        True for anomalies.
    flagged : (observation,)
        True for observations above the threshold.

    Returns
    -------
    Cut
        Precision is 0 if nothing is flagged, recall is 0 if nothing is anomalous.

    Examples
    --------
    >>> import numpy as np
    >>> cut(np.array([True, True, False, False]), np.array([True, False, False, False]))
    Cut(precision=1.0, recall=0.5, f1=0.6666666666666666)
    """
    _check_lengths(labels, flagged)
    truth, chosen = np.asarray(labels, dtype=bool), np.asarray(flagged, dtype=bool)
    hits = int(np.sum(truth & chosen))
    return Cut.of(hits / max(int(chosen.sum()), 1), hits / max(int(truth.sum()), 1))


def all_positive_f1(labels: Booleans) -> float:
    """Return the F1 of flagging everything, 2p / (1 + p) at prevalence p: a useful threshold has to beat it.

    Parameters
    ----------
    labels : (observation,)
        True for anomalies.

    Returns
    -------
    float
        From 0 to 1.

    Examples
    --------
    >>> import numpy as np
    >>> all_positive_f1(np.array([True, False, False, True]))
    0.6666666666666666
    """
    return cut(labels, np.ones(len(labels), dtype=bool)).f1


def oracle_f1(labels: Booleans, scores: Floats) -> float:
    """Return the best F1 of any threshold. It needs the labels, so it bounds thresholds and is not a result.

    Parameters
    ----------
    labels : (observation,)
        True for anomalies; both kinds must occur.
    scores : (observation,)
        Finite scores, higher = more anomalous.

    Returns
    -------
    float
        From `all_positive_f1` to 1.

    Examples
    --------
    >>> import numpy as np
    >>> oracle_f1(np.array([True, False, True, False]), np.array([4.0, 3.0, 2.0, 1.0]))
    0.8
    """
    _check(labels, scores)
    precision, recall, _ = precision_recall_curve(labels, scores)
    return float(np.max(2 * precision * recall / np.maximum(precision + recall, np.finfo(float).tiny)))


def paper_metrics(labels: Booleans, flagged: NDArray[np.generic]) -> PaperMetrics:
    """Return the metrics of the TSAD-C paper's tables, for comparison with them.

    Its APR is the area under the lines through (0, 1), (recall, precision) and (1, prevalence), so flagging everything
    and flagging nothing both get (1 + prevalence) / 2.

    Parameters
    ----------
    labels : (observation,)
        True for anomalies.
    flagged : (observation,)
        True for observations above the threshold.

    Returns
    -------
    PaperMetrics
        F1, recall and APR.

    Examples
    --------
    >>> import numpy as np
    >>> paper_metrics(np.array([True, True, False, False]), np.array([True, False, False, False])).paper_apr
    0.875
    """
    measured = cut(labels, flagged)
    prevalence = float(np.mean(np.asarray(labels, dtype=bool))) if len(labels) else 0.0
    if not np.any(flagged):
        return PaperMetrics(measured.f1, measured.recall, (1 + prevalence) / 2)
    below = measured.recall * (1 + measured.precision) / 2
    return PaperMetrics(
        measured.f1, measured.recall, below + (1 - measured.recall) * (measured.precision + prevalence) / 2
    )


def _check(labels: Booleans, scores: Floats) -> None:
    _check_lengths(labels, scores)
    if not 0 < int(np.sum(labels)) < len(labels):
        raise DataError("Ranking needs both normal and anomalous observations, but the labels are all alike.")
    wrong = np.flatnonzero(~np.isfinite(scores))
    if len(wrong):
        raise DataError(f"All scores must be finite to be ranked, but score {wrong[0]} is {scores[wrong[0]]}.")


def _check_lengths(labels: Booleans, scores: NDArray[np.generic]) -> None:
    if len(labels) != len(scores):
        raise DataError(f"There are {len(labels)} labels for {len(scores)} scores; each score needs one label.")
