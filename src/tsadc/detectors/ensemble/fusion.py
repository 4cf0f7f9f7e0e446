"""From the scores of several views to one, without labels, wherever the views come from.

    name     meaning
    s        (view,) log scores of an observation
    middle   (view,) median of s over the training observations
    upper    (view,) how far the highest tenth of the training scores is above the middle, on average
    lower    (view,) how far the lowest tenth is below it
    shared   (view,) how many views say the same: the sum over the views of max(rho, 0)^2, rho the rank correlation
    trust    (view,) what is known of a view before any data; 1 if nothing
    weight   (view,) proportional to trust (upper / lower)^3 / shared, 1 on average
    top      (view,) the highest s of the training observations

The score is the sum of weight * (s - middle) over the views. It is not divided by the spread: how much a view's score
varies is part of its weight. The other part is its skew. On a log scale what is normal scatters about as far to either
side of its median; the anomalies that hide in the training data lie on the upper side, and only of a view that sees
them. A view that is skewed thus sees something, one that is not has noise to add. If nothing hides in the data, all
weigh about the same. Views that always agree count as one: a network that has learnt nothing leaves the values as they
are, and must not make them count twice.

What was seen in training cannot tell of what was never seen. Whatever its weight, a view counts in full by how far s
is beyond three times (BEYOND, of a log) the highest of the training part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tsadc.series import Floats

TAIL = 0.1
POWER = 3
MOST_SKEW = 10.0
BEYOND = float(np.log(3.0))
LEAST_TAIL = 1e-3  # of a log: what varies less does not vary


@dataclass(frozen=True)
class Fused:
    """`views`: what each adds to the score. `steps` (time,): its largest is the score. `causes` (time,): the position
    of the view that adds most."""

    score: float
    views: list[float]
    steps: Floats
    causes: Floats


class Fusion:
    """Middles, weights and highest training scores of views."""

    def __init__(self, middle: Floats, weight: Floats, top: Floats) -> None:
        self.middle, self.weight, self.top = middle, weight, top

    @classmethod
    def fit(cls, scores: Floats, trust: Floats | float = 1.0) -> Self:
        """From log scores (observation, view) of the training part, contaminated as it is; NaN where a view has nothing
        to say."""
        known = np.isfinite(scores)
        middle = np.array([np.median(one[on]) if on.any() else 0.0 for one, on in zip(scores.T, known.T, strict=True)])
        scores = np.where(known, scores, middle)  # a view that has nothing to say
        apart = np.sort(scores - middle, axis=0)
        number = int(np.ceil(TAIL * len(apart)))
        upper, lower = apart[-number:].mean(axis=0), -apart[:number].mean(axis=0)
        skew = np.maximum(upper, LEAST_TAIL) / np.maximum(lower, LEAST_TAIL)
        weight = np.clip(skew, 1 / MOST_SKEW, MOST_SKEW) ** POWER * trust / _shared(scores)
        return cls(middle, weight / weight.mean(), scores.max(axis=0))

    def __call__(self, scores: Floats) -> Floats:
        """Log scores (..., view) as one; NaN says nothing."""
        return np.asarray(np.nansum(self._added(scores), axis=-1))

    def _added(self, scores: Floats) -> Floats:
        """What each view (..., view) adds to the score."""
        beyond = np.maximum(scores - self.top - BEYOND, 0)
        return np.asarray(self.weight * (scores - self.middle) + np.maximum(1 - self.weight, 0) * beyond)

    def fuse(self, views: Sequence[float | Floats], measured: NDArray[np.bool_]) -> Fused:
        """The log scores of one observation, of each view either of the whole or (time,) of every step; of the latter
        the largest counts. `measured` (time,): the steps that have a score."""
        rows = np.stack([np.broadcast_to(np.asarray(one, dtype=np.float64), measured.shape) for one in views])
        added = self._added(np.where(measured, rows, np.nan).T).T
        highest = np.fmax.reduce(added, axis=1)
        # The views of steps need not peak together. All steps are raised alike, so that the worst has what they sum to.
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


def _shared(scores: Floats) -> Floats:
    ranks = np.stack([_ranks(column) for column in scores.T])
    ranks = ranks - ranks.mean(axis=1, keepdims=True)
    size = np.linalg.norm(ranks, axis=1)
    ranks = ranks / np.where(size > 0, size, 1)[:, None]
    agreement = np.square(np.maximum(ranks @ ranks.T, 0))
    np.fill_diagonal(agreement, 1.0)
    return np.asarray(agreement.sum(axis=1))


def _ranks(column: Floats) -> Floats:
    """From 1; what is equal has the mean of its ranks."""
    _, place, count = np.unique(column, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(count) - (count - 1) / 2)[place])
