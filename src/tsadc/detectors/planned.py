"""Planned work: calendars and `planned` verdicts, whose rows are neither judged nor learnt from.

They count as not measured. An observation is hidden as a whole if more than `MOST_PARTIAL` is planned: gaps are
interpolated before scoring, and a short rest beside a long gap would look unusual."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tsadc.config import shown
from tsadc.detectors.feedback import Verdict
from tsadc.detectors.result import Interval, Result, SeriesResult
from tsadc.errors import DataError, TooShortError
from tsadc.io.calendar import Calendar, Planned, Span, planned_cells, without
from tsadc.series import Observations, Series
from tsadc.windows import first_start

MOST_PARTIAL = 0.1  # of an observation


def expected_events(calendar: Calendar | None, verdicts: Sequence[Verdict]) -> Calendar | None:
    """Return a calendar with the intervals that were judged to be planned work; None if there are neither."""
    _refuse_others(calendar)
    judged = tuple(
        Planned(verdict.start, verdict.end, verdict.entity, (), verdict.note, ticks=verdict.dated)
        for verdict in verdicts
        if verdict.verdict == "planned"
    )
    every = (*(calendar.entries if calendar is not None else ()), *judged)
    return Calendar(every) if every else None


def masked(series: Iterable[Series], calendar: Calendar, length: int) -> tuple[Series, ...]:
    """Return the series with planned work as not measured."""
    _refuse_others(calendar)
    every = tuple(series)
    calendar.compare(every)
    spans = [_hidden(item, calendar, length) for item in every]
    if every and all(_covers(hidden, item) for hidden, item in zip(spans, every, strict=True)):
        raise TooShortError(
            "Planned work covers all of the data, so nothing is left to judge or to learn from; if that is wrong, "
            "correct the times, the entities or the repetitions of the calendar."
        )
    return tuple(
        replace(item, values=without(item.values, hidden)) if hidden else item
        for hidden, item in zip(spans, every, strict=True)
    )


def _refuse_others(calendar: Any) -> None:
    """Raise if what a user gave is neither a calendar nor None."""
    if not isinstance(calendar, Calendar | None):
        raise DataError(
            f"`calendar` must be a tsadc.Calendar, but got {shown(calendar)}; read a file with "
            "tsadc.Calendar.read(file)."
        )


def _covers(spans: Sequence[Span], series: Series) -> bool:
    """Return whether planned work leaves no cell."""
    covered = dict.fromkeys(range(len(series.names)), 0)  # rows of each variable, from the first on
    for span in sorted(spans, key=lambda span: span.start):
        for column in span.columns:
            if span.start <= covered[column]:
                covered[column] = max(covered[column], span.stop)
    return min(covered.values()) >= len(series)


def _hidden(series: Series, calendar: Calendar, length: int) -> list[Span]:
    """Return planned rows, and the rest of the observations that they are a large part of."""
    grid, spans = first_start(series.clock, length), []
    for span in calendar.planned(series):
        start, stop = span.start, span.stop
        left, right = start - (start - grid) % length, stop + (grid - stop) % length
        if min(left + length, stop) - start > MOST_PARTIAL * length:
            start = left
        if stop - max(right - length, span.start) > MOST_PARTIAL * length:
            stop = right
        spans.append(replace(span, start=start, stop=stop))
    return spans


def unplanned(observations: Observations, calendar: Calendar | None) -> Observations:
    """Return the observations without planned work."""
    if calendar is None:
        return observations
    spans = [calendar.planned(series) for series in observations.series]
    kept = [
        i
        for i, place in enumerate(observations.places)
        if not any(
            span.start < place.start + observations.length and span.stop > place.start for span in spans[place.series]
        )
    ]
    return observations.take(kept)


def with_planned(result: Result, calendar: Calendar) -> Result:
    """Return the result with its planned rows, and without sensors that stop reporting for nothing but planned work."""
    return replace(result, parts=tuple(_marked(part, calendar, result.length) for part in result.parts))


def _marked(part: SeriesResult, calendar: Calendar, length: int) -> SeriesResult:
    shown = tuple(calendar.planned(part.series))
    spans = _hidden(part.series, calendar, length)
    if not spans:
        return part
    names = part.series.names

    def expected(interval: Interval) -> bool:
        columns = [names.index(name) for name in interval.variables if name in names]
        return interval.is_missing and bool(
            planned_cells(spans, len(names), interval.start, interval.stop)[:, columns].all()
        )

    kept = tuple(interval for interval in part.intervals if not expected(interval))
    inside = np.zeros(len(part.series), dtype=bool)
    for span in spans:
        inside[max(span.start, 0) : max(span.stop, 0)] = True
    anomalous = part.anomalous
    if len(kept) < len(part.intervals):
        anomalous = anomalous & ~inside
        for interval in kept:
            anomalous[max(interval.start, 0) : interval.stop] = True
    return replace(part, intervals=kept, anomalous=anomalous, planned=shown)
