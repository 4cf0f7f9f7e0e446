"""`tsadc explain`: why one moment is unusual, or that it is not."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pandas as pd

from tsadc.detectors.base import Detector, ProgressCallback
from tsadc.detectors.counterfactual import counterfactual
from tsadc.detectors.result import Interval, Result, SeriesResult
from tsadc.errors import DataError, listed
from tsadc.series import Series
from tsadc.show.words import Times, evidence, whole_percent
from tsadc.wording import alike, number

YEAR_FIRST = re.compile(r"\d{4}-\d\d-\d\d")


def explain_at(
    detector: Detector,
    series: Sequence[Series],
    at: str,
    entity: str | None = None,
    progress: ProgressCallback | None = None,
) -> str:
    """Say why the row at the time `at` is unusual: reason, score, variables with their usual bands, counterfactual,
    similar past episodes."""
    chosen = _chosen(series, entity)
    row = _row(chosen, at)
    result = detector.detect([chosen], progress=progress)
    (part,) = result.parts
    times = Times(part.series.clock)
    holding = [found for found in part.intervals if found.start <= row < found.stop]
    interval = max(holding, key=lambda found: found.score, default=None)
    if interval is None:
        score = part.step_scores[row]
        scored = "It was not scored" if score != score else f"Its score is {number(float(score))}"
        nearest = min(part.intervals, key=lambda found: abs(found.start - row), default=None)
        hint = f" The nearest unusual interval is {times.span(nearest.start, nearest.stop)}." if nearest else ""
        said = (
            f"{chosen.entity}, {times.moment(row)}: in no unusual interval. {scored}, {_threshold(result, part, row)}."
        )
        return said + hint
    why = evidence(interval.evidence)[1] if interval.reason is None else interval.reason.sentence(part.series.clock)
    duration = times.duration(interval.stop - interval.start)
    lines = [
        f"{chosen.entity}, {times.span(interval.start, interval.stop)} ({duration}), interval {interval.id(chosen)}",
        why,
        *([] if interval.is_missing else [f"Score {number(interval.score)}, {_threshold(result, part, row)}."]),
        *_variables(part, interval, row),
        *_otherwise(detector, part, interval),
        *_similar(interval),
    ]
    return "\n".join(lines)


def _threshold(result: Result, part: SeriesResult, row: int) -> str:
    raised = f", raised by {number(float(part.raised[row]))} for drift" if part.raised[row] else ""
    return f"threshold {number(result.threshold + float(part.raised[row]))}{raised}"


def _variables(part: SeriesResult, interval: Interval, row: int) -> list[str]:
    """Return a table of the blamed variables: share, value at the row and usual band."""
    band = None if part.usual is None else part.usual.band(row, row + 1)
    rows = []
    for name, share in interval.variables.items():
        k = part.series.names.index(name)
        value = float(part.series.values[row, k])
        shown = [number(value), ""]
        if band is not None:
            low, high = float(band[0][0, k]), float(band[1][0, k])
            measured, lower, upper = alike(value, low, high)
            shown = [measured, f"{lower} to {upper}"]
        rows.append([name, f"{share:.0%}", *shown])
    frame = pd.DataFrame(rows, columns=["variable", "share", "measured", "usual"])
    return [] if frame.empty else frame.to_string(index=False).splitlines()


def _otherwise(detector: Detector, part: SeriesResult, interval: Interval) -> list[str]:
    """Say what the score would have been if the blamed variables had been as usual."""
    found = counterfactual(detector, part, interval)
    if found is None or not found.variables:
        return []
    span = Times(part.series.clock).span(found.start, found.stop)
    verdict = "below the threshold" if found.after <= detector.threshold_ else "still above the threshold"
    return [
        f"With {listed(found.variables)} as usual during {span}, the score would be {number(found.after)}: {verdict}."
    ]


def _similar(interval: Interval) -> list[str]:
    """Name the past episodes that resemble the interval, one per line."""
    if interval.similar is None:
        return []
    lines = []
    for similar in interval.similar:
        episode, times = similar.episode, Times(similar.episode.clock)
        when = f"{times.span(0, episode.rows)} ({times.duration(episode.rows)})"
        where = "in the history" if similar.origin == "history" else "in this data"
        lines.append(
            f"  {episode.entity}, {when}, {where}: {episode.kind}, {whole_percent(similar.similarity)} similar"
        )
    return ["Similar before:", *lines] if lines else ["Nothing similar in the history, or in this entity before."]


def _chosen(series: Sequence[Series], entity: str | None) -> Series:
    names = [item.entity for item in series]
    if entity is None and len(series) > 1:
        raise DataError(f"The data has {len(series)} entities: {listed(names)}; choose one with --of-entity.")
    if entity is not None and entity not in names:
        raise DataError(
            f"The data has no entity {entity!r}, only {listed(names)}; choose one of them with --of-entity."
        )
    return series[0] if entity is None else series[names.index(entity)]


def _row(series: Series, at: str) -> int:
    """Return the row that holds the time `at`, or the row number `at` if rows are only counted."""
    clock = series.clock
    first, last = (str(moment) for moment in clock.at([0, len(series) - 1]))
    expected = "a time such as '2026-03-01 12:30'" if clock.dated else "a row number"
    try:
        if clock.dated:
            if not YEAR_FIRST.match(at):  # 03/04/2026 has two meanings
                raise ValueError
            moment = pd.Timestamp(at)
            if moment.tzinfo is None:
                moment = moment.tz_localize(clock.timezone or "UTC")
            tick = int(moment.value)
        else:
            tick = int(at)
    except (ValueError, TypeError):
        raise DataError(f"--at needs {expected}, but got {at!r}.") from None
    row = (tick - clock.start) // clock.interval
    if not 0 <= row < len(series):
        raise DataError(
            f"{series.entity!r} has rows from {first} to {last}, but --at is {at}; choose a time in between."
        )
    return int(row)
