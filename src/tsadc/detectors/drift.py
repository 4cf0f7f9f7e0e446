"""Drift: a period that lies beyond the history as a whole.

    name      meaning
    usual     lower quartile of the training scores of the entity's normal observations; unknown if it has fewer than
              5 training observations
    raised    of an observation: lower quartile of the 20 scores before it, minus `usual`; 0 if that is negative, or
              if `usual` is unknown. Where a series has fewer scores, `usual` stands in for those of its history
    drift     the last observations of an entity, at least 10, if more than three quarters of them score above the
              threshold: another machine, a new regime or slow wear, rather than single anomalies

Machines wear out, seasons change. With fused scores the threshold is raised by `raised`, so that what stands out from
the recent past is flagged instead of everything. Up to three quarters of the recent observations may be anomalous
without raising it: a fault stays flagged for 15 observations, and what lasts longer is the new state. Scores do not
change, and no verdict depends on later data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tsadc.detectors.reasons import STUCK_NEAR, excess_of
from tsadc.detectors.usual import Quantiles
from tsadc.scale import Scaler
from tsadc.series import Floats, Observations, Series
from tsadc.subsample import evenly_spaced

RECENT = 20  # observations
LEVEL = 0.25
LEAST_DRIFT = 10  # observations
DRIFT_SHARE = 0.75
SAMPLE = 50  # observations of the period that show which variables moved
MOVED = 1.0  # robust standard deviations between the median of the period and that of the history
MAX_NAMED = 3


@dataclass(frozen=True)
class Moved:
    """A variable whose median in the period differs from that of the history, both in the units of the input."""

    name: str
    usual: float
    now: float


@dataclass(frozen=True)
class Drift:
    """The verdict that a period differs as a whole from what was learnt.

    Attributes
    ----------
    entity : str
    since : Timestamp or int
        Time of the first row of the period, which lasts until the end of the series; without a clock its number.
    above, observations : int
        How many observations of the period score above the threshold of the history, and how many there are.
    variables : tuple of Moved
        The variables whose median moved most, at most 3, largest move first.
    missing : tuple of str
        The variables without a value in the period, although every normal observation of the history has one.
    stuck : tuple of str
        The variables that have one and the same usual value in the whole period, although they change in the history.
    """

    entity: str
    since: pd.Timestamp | int
    above: int
    observations: int
    variables: tuple[Moved, ...]
    missing: tuple[str, ...] = ()
    stuck: tuple[str, ...] = ()


def usual_score(scores: Floats) -> float:
    """Return `usual` of the training scores of an entity."""
    return float(np.quantile(scores, LEVEL))


def raised_by(scores: Sequence[float] | Floats, usual: float | None, first: int = 0) -> Floats:
    """Return `raised` of the observations of a series from `first` on; `scores` are those of all, in order of time."""
    raised = np.zeros(len(scores) - first)
    if usual is None:
        return raised
    for i in range(first, len(scores)):
        recent = np.asarray(scores[max(0, i - RECENT) : i], dtype=np.float64)
        earlier = np.full(RECENT - len(recent), usual)
        raised[i - first] = max(0.0, float(np.quantile(np.concatenate([earlier, recent]), LEVEL)) - usual)
    return raised


def drifting(scores: Sequence[float] | Floats, threshold: float) -> int | None:
    """Return the first observation of the drift of a series, None if there is none.

    Of all periods that last until the end, it is the one with the largest excess of observations above the threshold
    over three quarters."""
    excess = (np.asarray(scores, dtype=np.float64) > threshold) - DRIFT_SHARE
    if len(excess) < LEAST_DRIFT:
        return None
    total = np.cumsum(excess[::-1])[::-1]
    first = int(np.argmax(total[: len(excess) - LEAST_DRIFT + 1]))
    return first if total[first] > 0 else None


def find_drift(
    observations: Observations, scores: Sequence[float], threshold: float, scaler: Scaler, learnt: Quantiles | None
) -> Drift | None:
    """Return the drift of the only series of these observations, None if there is none. `learnt` is what is usual for
    the entity, None if that is not known."""
    first = drifting(scores, threshold)
    if first is None:
        return None
    series, period = observations.series[0], observations.take(range(first, len(observations)))
    above = int((np.asarray(scores[first:]) > threshold).sum())
    since = series.clock.at([max(0, period.places[0].start)])[0]
    raw = period.batch(evenly_spaced(len(period), SAMPLE))  # (observation, variable, time)
    values = raw.transpose(1, 0, 2).reshape(len(series.names), -1)
    missing, stuck = tuple[str, ...](), tuple[str, ...]()
    if learnt is not None:
        known = np.isfinite(values).any(axis=1)
        missing = tuple(series.names[k] for k in np.flatnonzero(learnt.present & ~known))
        # One that may stay as it is for a whole observation is a setpoint or a state.
        changing = np.flatnonzero(known & (learnt.run < observations.length)).tolist()
        stuck = tuple(series.names[k] for k in changing if _is_stuck(k, values[k], series, scaler, learnt))
    return Drift(series.entity, since, above, len(period), _moved(series, values, scaler), missing, stuck)


def _is_stuck(k: int, values: Floats, series: Series, scaler: Scaler, learnt: Quantiles) -> bool:
    """Return whether a variable has one value throughout, not far from its usual ones."""
    known = values[np.isfinite(values)]
    if known.min() < known.max():
        return False
    statistics = scaler.entities.get(series.entity, scaler.pooled)
    z = (known[:1].astype(np.float64) - statistics.center[k]) / statistics.scale[k]
    return bool(abs(excess_of(z, learnt.of("value")[:, k])[0]) <= STUCK_NEAR)


def _moved(series: Series, values: Floats, scaler: Scaler) -> tuple[Moved, ...]:
    known = np.isfinite(values).any(axis=1)
    now = np.zeros(len(values))
    now[known] = np.nanmedian(values[known], axis=1)
    statistics = scaler.entities.get(series.entity, scaler.pooled)
    size = np.where(known, np.abs(now - statistics.center) / statistics.scale, 0.0)
    largest = np.argsort(-size, kind="stable")[:MAX_NAMED]
    return tuple(
        Moved(series.names[k], float(statistics.center[k]), float(now[k])) for k in largest if size[k] >= MOVED
    )
