"""Scores of single rows against the rows of true anomalies, and blame against the variables to blame, where a data set
has them. Measures of rows are of one series; the mean is over those that have both normal and anomalous rows."""

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
SHIFTS = 5  # in time, for each series
BUFFER = 100  # rows, of VUS: the same everywhere, as values grow with it
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
    """Series end to end: scores, flags, labels, and where each series ends; of each event the variables to blame and
    how much each was blamed. Nothing where rows carry no labels."""
    if answers.rows is None:
        return {}
    entity = result.timeline["entity"].to_numpy()
    events = [event for event in answers.events if event.blamed.any()]
    given = result.variables.to_numpy()
    # Squares, as intervals are explained by.
    weights = [np.nansum(np.square(given[one.start : one.stop], dtype=np.float64), axis=0) for one in events]
    shape = (len(events), given.shape[1])
    return {
        "row_score": result.timeline["score"].to_numpy(np.float32),
        "row_flag": result.timeline["anomalous"].to_numpy(bool),
        "row_label": answers.rows,
        "row_ends": np.append(np.flatnonzero(entity[1:] != entity[:-1]) + 1, len(entity)),
        "event_blamed": np.array([one.blamed for one in events], dtype=bool).reshape(shape),
        "event_weight": np.array(weights).reshape(shape),
    }


def measure(arrays: Arrays) -> dict[str, Any]:
    """By name, from what `rows` gives; None where it is not defined. `random` holds what the same scores and flags get
    when they are shifted in time by chance, so that alarms stay as long and as many as they are, and `all_positive`
    what a constant score with all rows flagged gets."""
    generator = np.random.default_rng(0)
    found, chance, everything = [], [], []
    for mine in np.split(np.arange(len(arrays["row_label"])), arrays["row_ends"][:-1]):
        labels, flagged = arrays["row_label"][mine], arrays["row_flag"][mine]
        if not 0 < labels.sum() < len(labels):
            continue
        found.append(_series(labels, arrays["row_score"][mine], flagged))
        for shift in generator.integers(1, len(labels), SHIFTS):
            chance.append(_series(labels, np.roll(arrays["row_score"][mine], shift), np.roll(flagged, shift)))
        everything.append(_series(labels, np.zeros(len(labels)), np.ones(len(labels), dtype=bool)))
    events = list(zip(arrays["event_blamed"], arrays["event_weight"], strict=True))
    alike = _rounded(vars(random_blame(events))) if events else dict.fromkeys(OF_BLAME)
    return {
        "series": len(found),
        **_means(found, OF_ROWS),
        "events": len(events),
        **(_rounded(vars(blame(events))) if events else alike),
        "random": _means(chance, OF_ROWS) | alike,
        "all_positive": _means(everything, OF_ROWS) | alike,
    }


def _means(found: Sequence[Values], names: Sequence[str]) -> Values:
    out: Values = {}
    for name in names:
        values = [value for one in found if (value := one[name]) is not None]
        out[name] = float(np.mean(values)) if values else None
    return _rounded(out)


def _rounded(values: dict[str, Any]) -> Values:
    return {name: None if value is None else round(value, DIGITS) for name, value in values.items()}


def _series(labels: Booleans, scores: Floats, flagged: Booleans) -> Values:
    # A row that no observation covers was not found to be anything.
    known = np.where(np.isfinite(scores), scores, np.nanmin(scores, initial=np.inf, where=np.isfinite(scores)))
    surface = volume(labels, np.where(np.isfinite(known), known, 0.0), BUFFER)
    waited = delay(labels, flagged)
    return {
        "vus_pr": surface.pr,
        "vus_roc": surface.roc,
        **_named("range", range_cut(labels, flagged)),
        **_named("affiliation", affiliation(labels, flagged)),
        "events_detected": waited.detected,
        "delay": waited.median,
        "false_rows": waited.alarms,
    }


def _named(kind: str, cut: Cut) -> dict[str, float]:
    return {f"{kind}_{part}": value for part, value in vars(cut).items()}
