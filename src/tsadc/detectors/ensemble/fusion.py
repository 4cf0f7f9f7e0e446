"""Fusion: the scores of several views as one score, without labels.

    name         meaning
    s            (view,) log scores of an observation
    middle       (view,) median of s over the training observations
    upper        (view,) mean distance of the highest tenth of the training scores from the middle
    lower        (view,) mean distance of the lowest tenth from the middle
    redundancy   (view,) sum of max(rho, 0)^2 over the views, rho the rank correlation of training scores: 1 for a view
                 unlike any other, n for one of n copies
    trust        (view,) prior weight; 1 by default
    weight       (view,) proportional to trust (upper / lower)^3 / redundancy, with mean 1
    top          (view,) largest s of the training observations

The score is the sum of weight * (s - middle) over the views. s is not divided by its spread: how much a view varies is
part of its weight. The other part is its skew. On a log scale, normal observations scatter about equally to both sides
of the median. Anomalies that hide in the training data lie on the upper side, but only in a view that detects them. A
skewed view therefore detects something; a symmetric one adds noise. If no anomalies hide in the data, all views have
about the same weight. Views that always agree count as one: a network that has learnt nothing returns the values as
residuals, and must not make them count twice.

The training data says nothing about anomalies it does not contain. So even a view of low weight counts in full for the
part of s that exceeds three times (log 3) the highest training score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from tsadc.series import Booleans, Floats

TAIL = 0.1  # share of the training scores that makes a tail
POWER = 3  # of the skew
MAX_SKEW = 10.0
MIN_TAIL = 1e-3  # on the log scale: a smaller distance counts as constant
UNSEEN = float(np.log(3.0))  # above the highest training score, a view counts in full


@dataclass(frozen=True)
class Fused:
    """The fused score of one observation.

    Attributes
    ----------
    score : float
    view_scores : list of float
        What each view adds to the score.
    steps : (time,)
        Score of each step; the largest is `score`.
    causes : (time,)
        Position of the view that adds most.
    """

    score: float
    view_scores: list[float]
    steps: Floats
    causes: Floats


class Fusion:
    """Fuses log scores of views by fitted weights."""

    def __init__(self, middle: Floats, weight: Floats, top: Floats) -> None:
        self.middle, self.weight, self.top = middle, weight, top

    @classmethod
    def fit(cls, scores: Floats, trust: Floats | float = 1.0) -> Self:
        """Fit to log scores (observation, view) of the contaminated training part; NaN where a view has no score."""
        known = np.isfinite(scores)
        columns = zip(scores.T, known.T, strict=True)
        middle = np.array([np.median(column[finite]) if finite.any() else 0.0 for column, finite in columns])
        scores = np.where(known, scores, middle)
        distance = np.sort(scores - middle, axis=0)
        number = int(np.ceil(TAIL * len(distance)))
        upper, lower = distance[-number:].mean(axis=0), -distance[:number].mean(axis=0)
        skew = np.maximum(upper, MIN_TAIL) / np.maximum(lower, MIN_TAIL)
        weight = np.clip(skew, 1 / MAX_SKEW, MAX_SKEW) ** POWER * trust / _redundancy(scores)
        return cls(middle, weight / weight.mean(), scores.max(axis=0))

    def __call__(self, scores: Floats) -> Floats:
        """Return the fused score of log scores (..., view); NaN adds nothing."""
        return np.asarray(np.nansum(self._added(scores), axis=-1))

    def _added(self, scores: Floats) -> Floats:
        """Return what each view (..., view) adds to the score."""
        unseen = np.maximum(scores - self.top - UNSEEN, 0)
        return np.asarray(self.weight * (scores - self.middle) + np.maximum(1 - self.weight, 0) * unseen)

    def fuse(self, scores: Sequence[float | Floats], measured: Booleans) -> Fused:
        """Fuse the log scores of one observation.

        Parameters
        ----------
        scores
            For each view a float for the whole observation, or (time,), of which the largest counts.
        measured : (time,)
            True for the steps that get a score.
        """
        rows = np.stack([np.broadcast_to(np.asarray(row, dtype=np.float64), measured.shape) for row in scores])
        added = self._added(np.where(measured, rows, np.nan).T).T
        highest = np.fmax.reduce(added, axis=1)
        # Views need not peak at the same step. All steps are raised by the same amount, so that the worst step gets the
        # sum of the peaks.
        together = np.where(np.isnan(added), 0, added).sum(axis=0)
        raised = together - together[measured].max() + np.nan_to_num(highest).sum()
        steps = np.where(measured, raised, np.nan).astype(np.float32)
        causes = np.where(np.isnan(added), -np.inf, added).argmax(axis=0)
        return Fused(float(np.fmax.reduce(steps)), highest.tolist(), steps, causes.astype(np.float32))

    def state(self) -> dict[str, NDArray[Any]]:
        return {"fusion.middle": self.middle, "fusion.weight": self.weight, "fusion.top": self.top}

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]]) -> Self:
        return cls(state["fusion.middle"], state["fusion.weight"], state["fusion.top"])


def _redundancy(scores: Floats) -> Floats:
    ranks = np.stack([rankdata(column) for column in scores.T])
    ranks = ranks - ranks.mean(axis=1, keepdims=True)
    size = np.linalg.norm(ranks, axis=1)
    ranks = ranks / np.where(size > 0, size, 1)[:, None]
    agreement = np.square(np.maximum(ranks @ ranks.T, 0))
    np.fill_diagonal(agreement, 1.0)
    return np.asarray(agreement.sum(axis=1))
