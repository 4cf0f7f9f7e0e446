"""Planned work in results: calendars and `planned` verdicts, whose rows are not judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tsadc.detectors.feedback import Verdict
from tsadc.detectors.result import Interval, Result, SeriesResult
from tsadc.io.calendar import Calendar, Planned, planned_cells
from tsadc.series import Observations


def expected_events(calendar: Calendar | None, verdicts: Sequence[Verdict]) -> Calendar | None:
    """Return a calendar with the intervals that were judged to be planned work; None if there are neither."""
    own = tuple(
        Planned(verdict.start, verdict.end, verdict.entity, (), verdict.note, ticks=verdict.dated)
        for verdict in verdicts
        if verdict.verdict == "planned"
    )
    every = (*(calendar.entries if calendar is not None else ()), *own)
    return Calendar(every) if every else None


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
    return replace(result, parts=tuple(_marked(part, calendar) for part in result.parts))


def _marked(part: SeriesResult, calendar: Calendar) -> SeriesResult:
    spans = calendar.spans(part.series)
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
    shown = tuple(span for span in spans if span.start < len(part.series) and span.stop > 0)
    return replace(part, intervals=kept, anomalous=anomalous, planned=shown)
