"""What a detector found: per interval, time step, variable and observation. Times are the input's own; an interval ends
where the next row begins (`end` is exclusive)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tsadc.detectors.threshold import Threshold
from tsadc.series import Booleans, Floats, Observations, Series
from tsadc.windows import runs, section, stitch

BLAMED = 5  # variables named per interval, at most
LEAST_SHARE = 0.05
INTERVALS = ["entity", "start", "end", "score", "severity", "evidence", "variables"]


@dataclass(frozen=True)
class Evidence:
    """One observation's verdict in the making. Arrays end in the time axis; NaN where nothing was measured."""

    score: float
    view_scores: dict[str, float]  # the scores that were fused, by name
    steps: Floats  # (time,): an observation scores as its worst step
    contributions: Floats  # (variable, time), >= 0
    causes: Floats  # (time,): position in `view_scores` of the loudest one
    expected: Floats | None = None  # (variable, time), in z units


@dataclass(frozen=True)
class Result:
    """`intervals`, `timeline`, `variables`, `observations` are data frames; `expected` holds, in the input's units,
    what the detector expected to see (None if it has no expectation). `middle` is the median training score, `length`
    the rows of an observation."""

    intervals: pd.DataFrame
    timeline: pd.DataFrame
    variables: pd.DataFrame
    observations: pd.DataFrame
    expected: pd.DataFrame | None
    threshold: float
    middle: float
    length: int
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
    views: Sequence[str] = (),
) -> Result:
    """Stitch the evidence of single observations into one Result. `views` names their scores where there is none.

    An interval holds a step above the threshold, and reaches, both ways, as far as steps stay above the median training
    observation's worst one: a fault does not end where its score dips. Those closer than `merge` steps become one.
    Only observations above the threshold take part.
    """
    names = list(evidence[0].view_scores) if evidence else list(views)
    timelines, contributions, expectations, intervals = [], [], [], []
    for number, chosen in enumerate(observations.by_series()):
        whole = section(observations, number, chosen, 0, len(observations.series[number]))
        series, pieces = whole.series[0], [evidence[i] for i in chosen]
        times = series.clock.at(np.arange(len(series)))
        steps, blame, causes, judged = _stitched(whole, pieces, threshold)
        found = _intervals(judged, threshold, merge)
        intervals += [_interval(series, run, steps, blame, causes, names, threshold) for run in found]
        timelines.append(_timeline(series, times, steps, found))
        index = pd.MultiIndex.from_arrays([[series.entity] * len(series), times], names=["entity", "time"])
        contributions.append(pd.DataFrame(blame, index=index, columns=list(series.names)))
        if expected is not None:
            values = stitch(whole, [expected[i] for i in chosen], 0, lead=(len(series.names),)).T
            expectations.append(pd.DataFrame(values, index=index, columns=list(series.names)))
    return Result(
        intervals=pd.DataFrame(intervals, columns=INTERVALS),
        timeline=pd.concat(timelines, ignore_index=True),
        variables=pd.concat(contributions),
        observations=_observations(observations, evidence, threshold, names),
        expected=pd.concat(expectations) if expected is not None else None,
        threshold=threshold.value,
        middle=threshold.middle,
        length=observations.length,
        series=observations.series,
        left_out=left_out,
    )


def _stitched(
    whole: Observations, pieces: Sequence[Evidence], threshold: Threshold
) -> tuple[Floats, Floats, Floats, Floats]:
    """Of one series: scores per row, contributions (row, variable), causes, and the scores that count for intervals."""
    steps = stitch(whole, [e.steps for e in pieces], 0)
    blame = stitch(whole, [e.contributions for e in pieces], 0, lead=(len(whole.names),)).T
    causes = stitch(whole, [e.causes for e in pieces], 0)
    flagged = [np.full(whole.length, e.score > threshold.value) for e in pieces]
    inside = stitch(whole, flagged, 0, fill=False)
    # In double precision, as an observation's verdict is: against float32 numpy would round the threshold.
    judged = np.where((inside == 1) & ~np.isnan(steps), steps.astype(np.float64), -np.inf)
    return steps, blame, causes, judged


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


def _observations(
    observations: Observations, evidence: Sequence[Evidence], threshold: Threshold, views: Sequence[str]
) -> pd.DataFrame:
    rows = []
    for i, (place, found) in enumerate(zip(observations.places, evidence, strict=True)):
        series = observations.series[place.series]
        first, last = max(place.start, 0), min(place.start + observations.length, len(series))
        start, end = series.clock.at([first, last])
        scores = [found.score, *found.view_scores.values()]
        rows.append([series.entity, start, end, observations.coverage(i), *scores, found.score > threshold.value])
    columns = ["entity", "start", "end", "coverage", "score", *(f"{name}_score" for name in views), "anomalous"]
    return pd.DataFrame(rows, columns=columns)
