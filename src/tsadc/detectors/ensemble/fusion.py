"""Fusion: the scores of several views as one score, without labels.

    name         meaning
    s            (view,) log scores of an observation
    middle       (view,) median of s over the training observations
    redundancy   (view,) sum of max(rho, 0)^2 over the views, rho the rank correlation of training scores: 1 for a view
                 unlike any other, n for one of n copies
    weight       (view,) proportional to 1 / redundancy, with mean 1
    score        sum of weight * (s - middle) over the views; what is below the middle counts a quarter

On a log scale, views of different units can be added, and how much a view varies is part of its weight. Views that
always agree count as one: a network that has learnt nothing returns the values as residuals, and must not make them
count twice. An observation that is unusual in one view and ordinary in all others is still unusual, so being ordinary
counts less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tsadc.detectors.ensemble.views import Explained
from tsadc.series import Booleans, Floats

BELOW = 0.25  # how much a score below the middle counts
DROP = 1.25  # a step without evidence lies this many times the score below it


@dataclass(frozen=True)
class Fused:
    """The fused score of one observation.

    Attributes
    ----------
    score : float
    view_scores : list of float
        What each view adds to the score.
    steps : (time,)
        Score of each step; the largest is `score`. It falls with the evidence of the views that score steps.
    causes : (time,)
        Position of the view that adds most, among those that score steps unless none of them has evidence.
    contributions : (variable, time)
        What each variable adds to the score: the positive part of what a view adds to a step is divided among the
        variables in proportion to the squares of the view's cells.
    """

    score: float
    view_scores: list[float]
    steps: Floats
    causes: Floats
    contributions: Floats


class Fusion:
    """Fuses log scores of views by fitted weights."""

    def __init__(self, middle: Floats, weight: Floats) -> None:
        self.middle, self.weight = middle, weight

    @classmethod
    def fit(cls, scores: Floats) -> Self:
        """Fit to log scores (observation, view) of the contaminated training part; NaN where a view has no score."""
        known = np.isfinite(scores)
        columns = zip(scores.T, known.T, strict=True)
        middle = np.array([np.median(column[finite]) if finite.any() else 0.0 for column, finite in columns])
        weight = 1 / _redundancy(np.where(known, scores, middle))
        return cls(middle, weight / weight.mean())

    def __call__(self, scores: Floats) -> Floats:
        """Return the fused score of log scores (..., view); NaN adds nothing."""
        return np.asarray(np.nansum(self.added(scores), axis=-1))

    def added(self, scores: Floats) -> Floats:
        """Return what each view (..., view) adds to the score."""
        above = scores - self.middle
        return np.asarray(self.weight * np.where(above < 0, BELOW * above, above))

    def fuse(self, views: Sequence[Explained], measured: Booleans) -> Fused:
        """Fuse what the views say about one observation. `measured` (variable, time) is True for measured cells."""
        some = np.asarray(measured.any(axis=0))
        rows = np.stack([np.broadcast_to(np.asarray(view.score, dtype=np.float64), some.shape) for view in views])
        added = self.added(np.where(some, rows, np.nan).T).T
        highest = np.fmax.reduce(added, axis=1)
        score = np.nan_to_num(highest).sum()
        # Most views score steps. A step with a fifth of their largest evidence gets 0, the usual score.
        local = np.array([np.ndim(view.score) > 0 for view in views])
        evidence = np.maximum(np.nan_to_num(added[local]), 0.0).sum(axis=0)
        share = evidence / evidence[some].max() if evidence[some].any() else np.ones(len(some))
        steps = np.where(some, score - DROP * np.abs(score) * (1 - share), np.nan).astype(np.float32)
        # A view that scores steps is the cause, if one has evidence.
        known = np.where(np.isnan(added), -np.inf, added)
        of_steps = np.where(local[:, None] & (known > 0), known, -np.inf)
        causes = np.where(np.isfinite(of_steps).any(axis=0), of_steps.argmax(axis=0), known.argmax(axis=0))
        contributions = np.zeros(measured.shape)
        for view, positive in zip(views, np.maximum(np.nan_to_num(added), 0), strict=True):
            if positive.any():
                contributions += positive * _shares(view.cells, measured)
        return Fused(
            float(np.float32(score)),
            np.nan_to_num(highest).tolist(),
            steps,
            causes.astype(np.float32),
            contributions,
        )

    def state(self) -> dict[str, NDArray[Any]]:
        return {"fusion.middle": self.middle, "fusion.weight": self.weight}

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]]) -> Self:
        return cls(state["fusion.middle"], state["fusion.weight"])


def _shares(cells: Floats, measured: Booleans) -> Floats:
    """Return (variable, time) shares of each step, proportional to the squares of the cells; 0 where not measured."""
    sizes = np.ascontiguousarray(np.broadcast_to(cells, measured.shape))
    if not (measured.all() and np.isfinite(sizes).all()):
        sizes = np.where(measured, np.nan_to_num(sizes, nan=0.0), 0.0)
    largest = sizes.max(axis=0)
    squares = np.square(sizes / np.where(largest > 0, largest, 1.0))
    return np.asarray(squares / np.maximum(squares.sum(axis=0), 1.0))


def ranks_of(values: Floats) -> Floats:
    """Return the rank of each value, from 1; equal values share the mean of their ranks. Importing `scipy.stats`, which
    has this too, takes longer than fitting to a small history."""
    _, group, size = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(size) - (size - 1) / 2)[group])


def _redundancy(scores: Floats) -> Floats:
    ranks = np.stack([ranks_of(column) for column in scores.T])
    ranks = ranks - ranks.mean(axis=1, keepdims=True)
    size = np.linalg.norm(ranks, axis=1)
    ranks = ranks / np.where(size > 0, size, 1)[:, None]
    agreement = np.square(np.maximum(ranks @ ranks.T, 0))
    np.fill_diagonal(agreement, 1.0)
    return np.asarray(agreement.sum(axis=1))
