"""Measure the scores of rows against labelled rows, and blamed variables against those to blame, if a data set has
both. Metrics of rows are computed per series and averaged over the series with both normal and anomalous rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsadc.data.task import Answers
from tsadc.detectors.result import Result
from tsadc.evaluate.affiliation import affiliation
from tsadc.evaluate.blame import blame, random_blame
from tsadc.evaluate.delay import delay
from tsadc.evaluate.ranges import range_cut
from tsadc.evaluate.ranking import Cut
from tsadc.evaluate.volume import volume
from tsadc.series import Booleans, Floats

DIGITS = 5
SHIFTS = 5  # random shifts in time per series
BUFFER = 100  # rows, of VUS; the same for all data, as the value grows with it
OF_ROWS = (
    "vus_pr",
    "vus_roc",
    *(f"{kind}_{part}" for kind in ("range", "affiliation") for part in ("precision", "recall", "f1")),
    "events_detected",
    "delay",
    "false_rows",
)
OF_BLAME = ("hit_rate_100", "hit_rate_150", "ndcg")
NAMES = (*OF_ROWS, *OF_BLAME)

Arrays = dict[str, NDArray[Any]]
Values = dict[str, float | None]


def rows(result: Result, answers: Answers) -> Arrays:
    """Return scores, flags and labels of all rows, series after series, and where each series ends; for each event, the
    variables to blame and how much each was blamed. Return nothing if rows have no labels."""
    if answers.rows is None:
        return {}
    entity = result.timeline["entity"].to_numpy()
    events = [event for event in answers.events if event.blamed.any()]
    variables = result.variables.to_numpy()
    # Squares, as in the explanation of an interval.
    weights = [np.nansum(np.square(variables[event.start : event.stop], dtype=np.float64), axis=0) for event in events]
    shape = (len(events), variables.shape[1])
    return {
        "row_score": result.timeline["score"].to_numpy(np.float32),
        "row_flag": result.timeline["anomalous"].to_numpy(bool),
        "row_label": answers.rows,
        "row_ends": np.append(np.flatnonzero(entity[1:] != entity[:-1]) + 1, len(entity)),
        "event_blamed": np.array([event.blamed for event in events], dtype=bool).reshape(shape),
        "event_weight": np.array(weights).reshape(shape),
    }


def measure(arrays: Arrays) -> Values:
    """Return the metrics of what `rows` returned, None where one is undefined. NAME_random is the value after random
    shifts of the same scores and flags in time, which keep the number and length of alarms; NAME_all_positive the value
    of a constant score with all rows flagged."""
    if not arrays:
        return dict.fromkeys(NAMES)
    generator = np.random.default_rng(0)
    values, chance, everything = [], [], []
    for places in np.split(np.arange(len(arrays["row_label"])), arrays["row_ends"][:-1]):
        labels, scores, flagged = (arrays[name][places] for name in ("row_label", "row_score", "row_flag"))
        if not 0 < labels.sum() < len(labels):
            continue
        values.append(_series(labels, scores, flagged))
        for shift in generator.integers(1, len(labels), SHIFTS):
            chance.append(_series(labels, np.roll(scores, shift), np.roll(flagged, shift)))
        everything.append(_series(labels, np.zeros(len(labels)), np.ones(len(labels), dtype=bool)))
    events = list(zip(arrays["event_blamed"], arrays["event_weight"], strict=True))
    blamed = _rounded(vars(blame(events))) if events else dict.fromkeys(OF_BLAME)
    alike = _rounded(vars(random_blame(events))) if events else dict.fromkeys(OF_BLAME)
    return {
        "series": len(values),
        "events": len(events),
        **(_means(values) | blamed),
        **{f"{name}_random": value for name, value in (_means(chance) | alike).items()},
        **{f"{name}_all_positive": value for name, value in (_means(everything) | alike).items()},
    }


def _means(series: Sequence[Values]) -> Values:
    means: Values = {}
    for name in OF_ROWS:
        values = [value for metrics in series if (value := metrics[name]) is not None]
        means[name] = float(np.mean(values)) if values else None
    return _rounded(means)


def _rounded(values: dict[str, Any]) -> Values:
    return {name: None if value is None else round(value, DIGITS) for name, value in values.items()}


def _series(labels: Booleans, scores: Floats, flagged: Booleans) -> Values:
    # A row that no observation covers gets the lowest score.
    known = np.where(np.isfinite(scores), scores, np.nanmin(scores, initial=np.inf, where=np.isfinite(scores)))
    surface = volume(labels, np.where(np.isfinite(known), known, 0.0), BUFFER)
    delays = delay(labels, flagged)
    return {
        "vus_pr": surface.pr,
        "vus_roc": surface.roc,
        **_named("range", range_cut(labels, flagged)),
        **_named("affiliation", affiliation(labels, flagged)),
        "events_detected": delays.detected,
        "delay": delays.median,
        "false_rows": delays.alarms,
    }


def _named(kind: str, cut: Cut) -> dict[str, float]:
    return {f"{kind}_{part}": value for part, value in vars(cut).items()}
