"""From the scores of several views to one, without labels, wherever the views come from.

    name     meaning
    s        (view,) log scores of an observation
    middle   (view,) median of s over the training observations
    upper    (view,) how far the highest tenth of the training scores is above the middle, on average
    lower    (view,) how far the lowest tenth is below it
    weight   (view,) proportional to (upper / lower)^3, 1 on average

The score is the sum of weight * (s - middle). It is not divided by the spread: how much a view's score varies is part
of its weight. The other part is its skew. On a log scale what is normal scatters about as far to either side of its
median; the anomalies that hide in the training data lie on the upper side, and only of a view that sees them. A view
that is skewed thus sees something, one that is not has noise to add. If nothing hides in the data, all weigh about the
same.
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
    """Middles and weights of views."""

    def __init__(self, middle: Floats, weight: Floats) -> None:
        self.middle, self.weight = middle, weight

    @classmethod
    def fit(cls, scores: Floats) -> Self:
        """From log scores (observation, view) of the training part, contaminated as it is."""
        middle = np.median(scores, axis=0)
        apart = np.sort(scores - middle, axis=0)
        number = int(np.ceil(TAIL * len(apart)))
        upper, lower = apart[-number:].mean(axis=0), -apart[:number].mean(axis=0)
        skew = np.maximum(upper, LEAST_TAIL) / np.maximum(lower, LEAST_TAIL)
        weight = np.clip(skew, 1 / MOST_SKEW, MOST_SKEW) ** POWER
        return cls(middle, weight / weight.mean())

    def __call__(self, scores: Floats) -> Floats:
        """Log scores (..., view) as one."""
        return np.asarray(((scores - self.middle) * self.weight).sum(axis=-1))

    def fuse(self, views: Sequence[float | Floats], measured: NDArray[np.bool_]) -> Fused:
        """The log scores of one observation, of each view either of the whole or (time,) of every step; of the latter
        the largest counts. `measured` (time,): the steps that have a score."""
        rows = np.stack([np.broadcast_to(np.asarray(one, dtype=np.float64), measured.shape) for one in views])
        added = (np.where(measured, rows, np.nan) - self.middle[:, None]) * self.weight[:, None]
        highest = np.fmax.reduce(added, axis=1)
        # The views of steps need not peak together. All steps are raised alike, so that the worst has what they sum to.
        together = np.where(np.isnan(added), 0, added).sum(axis=0)
        raised = together - together[measured].max() + np.nan_to_num(highest).sum()
        steps = np.where(measured, raised, np.nan).astype(np.float32)
        causes = np.where(np.isnan(added), -np.inf, added).argmax(axis=0)
        return Fused(float(np.fmax.reduce(steps)), highest.tolist(), steps, causes.astype(np.float32))

    def state(self) -> dict[str, NDArray[Any]]:
        return {"fusion.middle": self.middle, "fusion.weight": self.weight}

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]]) -> Self:
        return cls(state["fusion.middle"], state["fusion.weight"])
