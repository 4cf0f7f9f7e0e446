"""What the score would have been if the blamed variables had been as usual.

Blamed variables are replaced in all observations that an interval touches, by what the other variables predict plus
what was left over in the rows before, so that the values are as noisy as usual. A variable that nothing predicts
repeats its values of that time. As predictions of several variables depend on each other, they are made three times.
The observations are then scored again. The first blamed variable is replaced alone, then the first two, and so on,
until the score is below the threshold; otherwise the lowest score counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tsadc.detectors.base import Detector
from tsadc.detectors.ensemble.features import interpolated
from tsadc.detectors.result import Interval, SeriesResult
from tsadc.detectors.usual import SeriesUsual
from tsadc.series import Floats
from tsadc.windows import cut

ROUNDS = 3


@dataclass(frozen=True)
class Counterfactual:
    """The highest score of the observations that an interval touches: rows [start, stop).

    `before` is as measured, `after` with `variables` as usual; there are none if no score is lower. Where the threshold
    is raised for drift, scores are lowered by as much, and in audit mode by the drift of the whole series."""

    start: int
    stop: int
    variables: tuple[str, ...]
    before: float
    after: float


def counterfactual(detector: Detector, part: SeriesResult, interval: Interval) -> Counterfactual | None:
    """Return what the score of an interval of `part` would have been; None without what is usual, or without blame."""
    usual, variables = part.usual, tuple(interval.variables)
    if usual is None or not variables or interval.is_missing:
        return None
    length = detector.settings.length
    observations = cut([part.series], length, detector.settings.coverage).observations
    lowered = float(detector._lowered(observations)[0])
    touched = [
        place.start
        for place in observations.places
        if place.start < interval.stop and place.start + length > interval.start
    ]
    first, stop = max(min(touched), 0), min(max(touched) + length, len(part.series))
    values = np.array(part.series.values, dtype=np.float64)
    before = _highest(detector, part, values, touched) - lowered
    measured = interpolated(usual.measured(0, len(part.series)))
    rest = (measured - usual.predicted(0, len(part.series)))[:, _donors(part, first, stop)]
    best = Counterfactual(first, stop, (), before, before)
    for count in range(1, len(variables) + 1):
        columns = [part.series.names.index(name) for name in variables[:count]]
        changed = _as_usual(usual, values, columns, first, stop, rest)
        after = _highest(detector, part, changed, touched) - lowered
        if after < best.after:
            best = replace(best, variables=variables[:count], after=after)
        if after <= detector.threshold_:
            break
    return best


def _as_usual(
    usual: SeriesUsual, values: Floats, columns: Sequence[int], first: int, stop: int, rest: Floats
) -> Floats:
    """Return the values (time, variable) with `columns` as usual in rows [first, stop)."""
    changed = values.copy()
    for _ in range(ROUNDS):
        seen = replace(usual, series=replace(usual.series, values=changed))
        raw = usual.scaler.undo(usual.series.entity, (seen.predicted(first, stop) + rest).T)
        for k in columns:
            changed[first:stop, k] = np.where(np.isnan(values[first:stop, k]), np.nan, raw[:, k])
    return changed


def _donors(part: SeriesResult, first: int, stop: int) -> NDArray[np.int64]:
    """Return for each row of [first, stop) a row outside whose remainder it gets: the nearest unflagged ones."""
    free = np.flatnonzero(~part.anomalous & np.isfinite(np.asarray(part.series.values)).any(axis=1))
    free = free[(free < first) | (free >= stop)]
    if not len(free):
        return np.arange(first, stop)
    ahead = free[free < first][-(stop - first) :]
    chosen = ahead if len(ahead) else free[: stop - first]
    return np.resize(chosen, stop - first)


def _highest(detector: Detector, part: SeriesResult, values: Floats, touched: Sequence[int]) -> float:
    """Return the highest score of the observations at `touched`, relative to the raised threshold of each."""
    series = replace(part.series, values=values)
    observations = cut([series], detector.settings.length, detector.settings.coverage).observations
    chosen = [i for i, place in enumerate(observations.places) if place.start in set(touched)]
    scores = detector._scores(observations.take(chosen))
    raised = [float(part.raised[max(observations.places[i].start, 0)]) for i in chosen]
    return float(np.max(scores - raised))
