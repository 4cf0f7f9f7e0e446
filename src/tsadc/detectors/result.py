"""What a detector found: per interval, time step, variable and observation. Times are the input's own; an interval ends
where the next row begins (`end` is exclusive)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tsadc.series import Booleans, Floats, Observations, Series
from tsadc.windows import runs, stitch

BLAMED = 5  # variables named per interval, at most
LEAST_SHARE = 0.05


@dataclass(frozen=True)
class Evidence:
    """One observation's verdict in the making. Arrays end in the time axis; NaN where nothing was measured."""

    score: float
    views: dict[str, float]  # the scores that were fused, by name
    steps: Floats  # (time,): an observation scores as its worst step
    contributions: Floats  # (variable, time), >= 0
    causes: Floats  # (time,): position in `views` of the loudest one
    expected: Floats | None = None  # (variable, time), in z units


@dataclass(frozen=True)
class Threshold:
    """Where normal ends: the threshold itself, and the median score of the training observations as the origin."""

    value: float
    middle: float

    def severity(self, score: float) -> float:
        """0 at the threshold, 1/2 at twice its distance from the median, towards 1 beyond."""
        excess = (score - self.value) / max(self.value - self.middle, 1e-12)
        return 1.0 - 1.0 / (1.0 + max(excess, 0.0))


@dataclass(frozen=True)
class Result:
    """`intervals`, `timeline`, `variables`, `observations` are data frames; `expected` holds, in the input's units,
    what the detector expected to see (None if it has no expectation)."""

    intervals: pd.DataFrame
    timeline: pd.DataFrame
    variables: pd.DataFrame
    observations: pd.DataFrame
    expected: pd.DataFrame | None
    threshold: float
    series: tuple[Series, ...]
    left_out: int = 0

    def worst(self, count: int = 3) -> pd.DataFrame:
        """The intervals with the highest scores, worst first."""
        return worst(self.intervals, count)


def worst(intervals: pd.DataFrame, count: int = 3) -> pd.DataFrame:
    """The `count` intervals with the highest scores, worst first."""
    return intervals.sort_values("score", ascending=False, kind="stable").head(count)


def assemble(
    observations: Observations,
    evidence: Sequence[Evidence],
    threshold: Threshold,
    *,
    merge: int,
    expected: Sequence[Floats] | None,
    left_out: int,
) -> Result:
    """Stitch the evidence of single observations into one Result.

    An interval holds a step above the threshold, and reaches as far as steps stay above the median training
    observation's worst one: a fault does not end where its score dips. Those closer than `merge` steps become one.
    Only observations above the threshold take part.
    """
    timelines, contributions, expectations, intervals = [], [], [], []
    for number, series in enumerate(observations.series):
        times = series.clock.at(np.arange(len(series)))
        blank = Evidence(np.nan, {}, *_nothing(series, observations.length))
        pieces = list(evidence) or [blank]
        steps = stitch(observations, [e.steps for e in pieces], number)
        blame = stitch(observations, [e.contributions for e in pieces], number).T
        causes = stitch(observations, [e.causes for e in pieces], number)
        flagged = [np.full(observations.length, e.score > threshold.value) for e in pieces]
        inside = stitch(observations, flagged, number, fill=False)
        # In double precision, as an observation's verdict is: against float32 numpy would round the threshold.
        judged = np.where(inside & ~np.isnan(steps), steps.astype(np.float64), -np.inf)
        found = _intervals(judged, threshold, merge)
        names = list(evidence[0].views) if evidence else []
        intervals += [_interval(series, run, steps, blame, causes, names, threshold) for run in found]
        timelines.append(_timeline(series, times, steps, found))
        index = pd.MultiIndex.from_arrays([[series.entity] * len(series), times], names=["entity", "time"])
        contributions.append(pd.DataFrame(blame, index=index, columns=list(series.names)))
        if expected is not None:
            values = stitch(observations, list(expected) or [blank.contributions], number).T
            expectations.append(pd.DataFrame(values, index=index, columns=list(series.names)))
    return Result(
        intervals=pd.DataFrame(
            intervals, columns=["entity", "start", "end", "score", "severity", "evidence", "variables"]
        ),
        timeline=pd.concat(timelines, ignore_index=True),
        variables=pd.concat(contributions),
        observations=_observations(observations, evidence, threshold),
        expected=pd.concat(expectations) if expected is not None else None,
        threshold=threshold.value,
        series=observations.series,
        left_out=left_out,
    )


def _nothing(series: Series, length: int) -> tuple[Floats, Floats, Floats]:
    empty = np.full((len(series.names), length), np.nan, dtype=np.float32)
    return empty[0], empty, empty[0]


def _intervals(steps: Floats, threshold: Threshold, gap: int) -> list[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    for start, stop in runs(steps > min(threshold.middle, threshold.value)):
        if steps[start:stop].max() <= threshold.value:
            continue
        if out and start - out[-1][1] < gap:
            out[-1] = (out[-1][0], stop)
        else:
            out.append((start, stop))
    return out


def _timeline(series: Series, times: pd.Index, steps: Floats, found: list[tuple[int, int]]) -> pd.DataFrame:
    anomalous: Booleans = np.zeros(len(series), dtype=bool)
    for start, stop in found:
        anomalous[start:stop] = True
    return pd.DataFrame({"entity": series.entity, "time": times, "score": steps, "anomalous": anomalous})


def _interval(
    series: Series,
    run: tuple[int, int],
    steps: Floats,
    blame: Floats,
    causes: Floats,
    names: list[str],
    threshold: Threshold,
) -> dict[str, object]:
    start, stop = run
    inside = np.nan_to_num(steps[start:stop], nan=-np.inf)
    worst = start + int(inside.argmax())
    times = series.clock.at([start, stop])
    return {
        "entity": series.entity,
        "start": times[0],
        "end": times[1],
        "score": float(steps[worst]),
        "severity": threshold.severity(float(steps[worst])),
        "evidence": names[int(causes[worst])] if names else "",
        "variables": _shares(series, blame[start:stop]),
    }


def _shares(series: Series, blame: Floats) -> dict[str, float]:
    # Squares, so that one variable far off outweighs many that are a little off.
    weight = np.nansum(np.square(blame, dtype=np.float64), axis=0)
    total = float(weight.sum())
    if not 0 < total < np.inf:
        return {}
    order = np.argsort(-weight, kind="stable")[:BLAMED]
    # Rounded down, but for float error, so that shares never add up to more than the whole.
    shares = {series.names[int(k)]: math.floor(1000 * weight[k] / total + 1e-3) / 1000 for k in order}
    first = next(iter(shares))
    return {name: share for name, share in shares.items() if share >= LEAST_SHARE or name == first}


def _observations(observations: Observations, evidence: Sequence[Evidence], threshold: Threshold) -> pd.DataFrame:
    rows = []
    for i, (place, found) in enumerate(zip(observations.places, evidence, strict=True)):
        series = observations.series[place.series]
        first, last = max(place.start, 0), min(place.start + observations.length, len(series))
        start, end = series.clock.at([first, last])
        rows.append(
            {
                "entity": series.entity,
                "start": start,
                "end": end,
                "coverage": observations.coverage(i),
                "score": found.score,
                **{f"{name}_score": value for name, value in found.views.items()},
                "anomalous": found.score > threshold.value,
            }
        )
    columns = ["entity", "start", "end", "coverage", "score", "anomalous"]
    return pd.DataFrame(rows) if rows else pd.DataFrame(columns=columns)
