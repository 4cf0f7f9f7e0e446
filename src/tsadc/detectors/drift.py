"""Drift: how far the recent scores of an entity lie above those of its history.

    name     meaning
    usual    quarter quantile of the training scores of the entity's normal observations; unknown if it has fewer than 5
             training observations
    drift    of an observation: quarter quantile of the 50 scores before it, minus `usual`; 0 if that is negative, or if
             there are fewer than 5 scores before it, or `usual` is unknown

Machines wear out, seasons change: a new period can lie beyond the history as a whole. The threshold then rises by the
drift, so that what stands out from the recent past is flagged instead of everything. Up to three quarters of the recent
observations may be anomalous without raising it. Scores do not change, and no verdict depends on later data.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tsadc.series import Floats

RECENT = 50
LEAST = 5
LEVEL = 0.25


def usual_score(scores: Floats) -> float:
    """Return `usual` of the training scores of an entity."""
    return float(np.quantile(scores, LEVEL))


def drift_of(scores: Floats, usual: float, earlier: Sequence[float] = ()) -> Floats:
    """Return the drift of each observation of a series, in the order of time; `earlier` are the scores before them."""
    every = np.concatenate([np.asarray(earlier, dtype=np.float64), scores])
    drift = np.zeros(len(scores))
    for i in range(len(scores)):
        stop = len(earlier) + i
        if stop >= LEAST:
            drift[i] = max(0.0, float(np.quantile(every[max(0, stop - RECENT) : stop], LEVEL)) - usual)
    return drift
