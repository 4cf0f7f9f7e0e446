"""Measure the scores of rows against labelled rows, and blamed variables against those to blame, if a data set has
both. Metrics of rows are computed per series and averaged over the series with both normal and anomalous rows.

`vus_pr_tsb` and `vus_roc_tsb` use the window of each series if the data set has one, `vus_pr` and `vus_roc` never."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsadc.data.task import Answers, RowTask
from tsadc.detectors.result import Result
from tsadc.evaluate.affiliation import affiliation
from tsadc.evaluate.blame import blame, random_blame
from tsadc.evaluate.delay import delay
from tsadc.evaluate.ranges import range_cut
from tsadc.evaluate.volume import volume, volume_tsb
from tsadc.series import Booleans, Floats

DIGITS = 5
SHIFTS = 5  # random shifts in time per series
BUFFER = 100  # rows, of VUS; the same for all data, as the value grows with it
TSB = ("vus_pr_tsb", "vus_roc_tsb")
OF_BLAME = ("hit_rate_100", "hit_rate_150", "ndcg")

Arrays = dict[str, NDArray[Any]]
Values = dict[str, float | None]


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of one series; all scores are finite."""

    labels: Booleans
    scores: Floats
    flagged: Booleans
    window: int


def _volume(rows: _Rows) -> list[float | None]:
    surface = volume(rows.labels, rows.scores, BUFFER)
    return [surface.pr, surface.roc]


def _volume_tsb(rows: _Rows) -> list[float | None]:
    surface = volume_tsb(rows.labels, rows.scores, rows.window)
    return [surface.pr, surface.roc]


def _delay(rows: _Rows) -> list[float | None]:
    delays = delay(rows.labels, rows.flagged)
    return [delays.detected, delays.precision, delays.median, delays.alarms]


# The functions that compute metrics of rows, and the names of what each returns.
MEASURES: dict[tuple[str, ...], Callable[[_Rows], Sequence[float | None]]] = {
    ("vus_pr", "vus_roc"): _volume,
    TSB: _volume_tsb,
    ("range_precision", "range_recall", "range_f1"): lambda rows: astuple(range_cut(rows.labels, rows.flagged)),
    ("affiliation_precision", "affiliation_recall", "affiliation_f1"): lambda rows: astuple(
        affiliation(rows.labels, rows.flagged)
    ),
    ("events_detected", "event_precision", "delay", "false_rows"): _delay,
}
OF_ROWS = tuple(name for names in MEASURES for name in names)
NAMES = (*OF_ROWS, *OF_BLAME)


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
    ends = np.append(np.flatnonzero(entity[1:] != entity[:-1]) + 1, len(entity))
    return {
        "row_score": result.timeline["score"].to_numpy(np.float32),
        "row_flag": result.timeline["anomalous"].to_numpy(bool),
        "row_label": answers.rows,
        "row_ends": ends,
        "row_window": np.full(len(ends), BUFFER),
        "event_blamed": np.array([event.blamed for event in events], dtype=bool).reshape(shape),
        "event_weight": np.array(weights).reshape(shape),
    }


def rows_of_tasks(tasks: Sequence[RowTask], scores: Sequence[Floats], flags: Sequence[Booleans]) -> Arrays:
    """Return what `rows` returns, for series that were scored one by one."""
    return {
        "row_score": np.concatenate(scores).astype(np.float32),
        "row_flag": np.concatenate(flags),
        "row_label": np.concatenate([task.labels for task in tasks]),
        "row_ends": np.cumsum([len(task.labels) for task in tasks]),
        "row_window": np.array([task.window for task in tasks]),
        "event_blamed": np.zeros((0, 0), dtype=bool),
        "event_weight": np.zeros((0, 0)),
    }


def measure(arrays: Arrays, names: Collection[str] = NAMES) -> Values:
    """Return the metrics `names` of what `rows` returned, None where one is undefined. NAME_random is the value after
    random shifts of the same scores and flags in time, which keep the number and length of alarms; NAME_all_positive
    the value of a constant score with all rows flagged."""
    wanted = [name for name in NAMES if name in names]
    if not arrays:
        return dict.fromkeys(wanted)
    generator = np.random.default_rng(0)
    values, chance, everything = [], [], []
    for rows in filter(_measurable, _split(arrays)):
        values.append(_series(rows, wanted))
        for shift in generator.integers(1, len(rows.labels), SHIFTS):
            shifted = replace(rows, scores=np.roll(rows.scores, shift), flagged=np.roll(rows.flagged, shift))
            chance.append(_series(shifted, wanted))
        constant = replace(rows, scores=np.zeros_like(rows.scores), flagged=np.ones_like(rows.flagged))
        everything.append(_series(constant, wanted))
    events = list(zip(arrays["event_blamed"], arrays["event_weight"], strict=True))
    blamed = _rounded(vars(blame(events))) if events else dict.fromkeys(OF_BLAME)
    alike = _rounded(vars(random_blame(events))) if events else dict.fromkeys(OF_BLAME)
    measured = {
        "": _means(values) | blamed,
        "_random": _means(chance) | alike,
        "_all_positive": _means(everything) | alike,
    }
    return {
        "series": len(values),
        "events": len(events),
        **{f"{name}{suffix}": means[name] for suffix, means in measured.items() for name in wanted},
    }


def by_series(arrays: Arrays, names: Collection[str]) -> list[Values]:
    """Return the metrics of each series, None for a series with only normal or only anomalous rows."""
    return [_rounded(_series(rows, names)) if _measurable(rows) else dict.fromkeys(names) for rows in _split(arrays)]


def _split(arrays: Arrays) -> Iterator[_Rows]:
    parts = (np.split(arrays[name], arrays["row_ends"][:-1]) for name in ("row_label", "row_score", "row_flag"))
    for labels, scores, flagged, window in zip(*parts, arrays["row_window"].tolist(), strict=True):
        # A row that no observation covers gets the lowest score.
        lowest = np.min(scores, initial=np.inf, where=np.isfinite(scores))
        known = np.where(np.isfinite(scores), scores, lowest if np.isfinite(lowest) else 0.0)
        yield _Rows(labels, known, flagged, window)


def _measurable(rows: _Rows) -> bool:
    return 0 < int(rows.labels.sum()) < len(rows.labels)


def _series(rows: _Rows, wanted: Collection[str]) -> Values:
    values: Values = {}
    for names, compute in MEASURES.items():
        if set(names) & set(wanted):
            values |= zip(names, compute(rows), strict=True)
    return {name: values[name] for name in wanted if name in values}


def _means(series: Sequence[Values]) -> Values:
    means: Values = {}
    for name in OF_ROWS:
        values = [value for metrics in series if (value := metrics.get(name)) is not None]
        means[name] = float(np.mean(values)) if values else None
    return _rounded(means)


def _rounded(values: dict[str, Any]) -> Values:
    return {name: None if value is None else round(value, DIGITS) for name, value in values.items()}
