"""The model of a fold judges it: scores become normal deviates, which can be compared between models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri_exp

from tsadc.detectors.audit.folds import Plan, clone
from tsadc.detectors.audit.progress import AuditCallback
from tsadc.detectors.base import Detector
from tsadc.detectors.drift import raised_by
from tsadc.detectors.result import Evidence
from tsadc.detectors.threshold import QUARTER, Normal
from tsadc.series import Floats, Observations


@dataclass(frozen=True, eq=False)
class JudgedFold:
    """What the model of a fold says about it.

    Attributes
    ----------
    number : int
        Position of the fold in `Plan.folds`.
    evidence : tuple of Evidence
        Of each observation in `Fold.judged`, with all scores as normal deviates.
    memory : int
        `Detector.memory_` of the model, at least 1.
    views : tuple of str
        `Detector.view_names` of the model.
    """

    number: int
    evidence: tuple[Evidence, ...]
    memory: int
    views: tuple[str, ...]


Runner = Callable[[Detector, Plan], Iterable[JudgedFold]]


def judge_fold(detector: Detector, planned: Plan, number: int, progress: AuditCallback | None = None) -> JudgedFold:
    """Train a model outside of a fold and judge the fold by it. The detector stays as it is."""
    fold = planned.folds[number]
    model = clone(detector).fit(planned.training(fold), progress=progress)
    evidence = tuple(_deviates(model, planned.history.take(fold.judged), progress))
    return JudgedFold(number, evidence, model.memory_ or 1, model.view_names)


def _deviates(model: Detector, fold: Observations, progress: AuditCallback | None) -> Iterator[Evidence]:
    """Yield the evidence of the observations of a fold, with all scores as normal deviates."""
    lowered, share = model._lowered(fold), model.contamination_
    evidence = list(model._evidence(fold, progress))
    normal = Normal(model.decision_scores_[model._learnt_from], share.share, (share.share + share.low) / 2)
    highest = np.log1p(-0.5 / len(normal.kept))  # of `log_above`: a score below all others is not infinitely low

    def deviate(scores: Floats) -> Floats:
        return np.asarray(-ndtri_exp(np.minimum(log_above(normal, scores), highest)))

    for number, places in enumerate(fold.by_series()):
        series = fold.series[number]
        scores = np.array([evidence[i].score for i in places]) - lowered[number]
        raised = raised_by(scores, None if series.observation else model._usual(series.entity))
        for i, by in zip(places, raised + lowered[number], strict=True):
            score = float(deviate(np.array([evidence[i].score - by]))[0])
            yield replace(evidence[i], score=score, steps=deviate(evidence[i].steps.astype(np.float64) - by))


def log_above(normal: Normal, scores: Floats) -> Floats:
    """Return the logarithm of `normal.above` of each score, which does not underflow; NaN for NaN."""
    if normal.positive:
        u = np.where(scores > 0, np.log(np.where(scores > 0, scores, 1.0)), np.where(np.isnan(scores), np.nan, -np.inf))
    else:
        u = np.asarray(scores, dtype=np.float64)
    below = np.maximum(1 - np.interp(u, normal.values, normal.places, left=0.0), QUARTER)
    return np.where(u > normal.knot, np.log(QUARTER) + (normal.knot - u) / normal.scale, np.log(below))
