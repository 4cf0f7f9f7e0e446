"""Arrange a `Result` for the report: one `Track` per entity and one `Finding` per interval, worst first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from tsadc.detectors.drift import Drift
from tsadc.detectors.episodes import Similar
from tsadc.detectors.reasons import Reason
from tsadc.detectors.result import Result, as_period, id_of
from tsadc.detectors.usual import SeriesUsual
from tsadc.io.calendar import Span
from tsadc.series import Booleans, Floats, Series, Truth
from tsadc.show.chance import by_chance
from tsadc.show.words import Times, evidence, likely, reason_title, severity


@dataclass(frozen=True, eq=False)
class Track:
    """One entity, row by row: `score` and `flagged` (time,), `contributions` and `expected` (time, variable)."""

    series: Series
    score: Floats
    flagged: Booleans
    contributions: Floats
    expected: Floats | None
    length: int  # rows per observation
    truth: tuple[Truth, ...]
    usual: SeriesUsual | None = None
    planned: tuple[Span, ...] = ()

    @property
    def entity(self) -> str:
        return self.series.entity

    @property
    def times(self) -> Times:
        return Times(self.series.clock)

    def planned_text(self, span: Span) -> str:
        """Return what is planned, for whom and when."""
        names = self.series.names
        which = "" if len(span.columns) == len(names) else f" of {', '.join(names[k] for k in span.columns)}"
        return f"Planned work{which}: {self.times.span(span.start, span.stop)}{f'; {span.note}' if span.note else ''}"

    @property
    def end(self) -> int:
        """The time after the last row, in units of the clock."""
        return self.series.clock.start + len(self.series) * self.series.clock.interval


@dataclass(frozen=True, eq=False)
class Finding:
    """One interval: rows [start, stop) of `track`. The worst interval has rank 1."""

    rank: int
    track: Track
    start: int
    stop: int
    score: float
    severity: float
    return_period: float  # in rows
    evidence: str
    variables: dict[str, float]  # shares of the contribution, largest first
    reason: Reason | None = None
    similar: tuple[Similar, ...] | None = None
    probability: float | None = None  # that it is anomalous; only an audit knows one
    suspect: str = ""  # the name of the interval in an audit

    @property
    def grade(self) -> str:
        """How unusual it is, in words."""
        return f"severity {severity(self.severity)}" if self.probability is None else likely(self.probability)

    @property
    def id(self) -> str:
        """The name of the interval, for `tsadc label` or for the review of an audit."""
        return self.suspect or id_of(
            self.track.entity, self.track.series.clock.tick(self.start), self.evidence, self.variables
        )

    @property
    def period(self) -> pd.Timedelta | float:
        """How much normal operation passes on average until a score this high."""
        return as_period(self.return_period, self.track.series.clock)

    @property
    def key(self) -> str:
        """The id on the page: of the card, or of the table row if there is no card."""
        return f"interval-{self.rank}"

    @property
    def link(self) -> str:
        return f"#{self.key}"

    @property
    def when(self) -> str:
        return self.track.times.span(self.start, self.stop)

    @property
    def why(self) -> tuple[str, str]:
        """A short title and the reason in a sentence: of the data if something stands out, otherwise of the view."""
        if self.reason is None:
            return evidence(self.evidence)
        return reason_title(self.reason), self.reason.sentence(self.track.series.clock)

    @property
    def duration(self) -> str:
        return self.track.times.duration(self.stop - self.start)

    @property
    def truth(self) -> list[Truth]:
        """The true anomalies that overlap with the interval."""
        return [true for true in self.track.truth if true.start < self.stop and true.stop > self.start]


@dataclass(frozen=True, eq=False)
class Findings:
    """All entities and intervals. `middle` is the median training score, `left_out` counts unscored observations."""

    tracks: tuple[Track, ...]
    intervals: tuple[Finding, ...]
    threshold: float
    middle: float
    left_out: int
    chance: str  # how many false alarms are to be expected
    drift: tuple[Drift, ...] = ()

    @property
    def truth(self) -> list[Truth]:
        return [true for track in self.tracks for true in track.truth]

    @property
    def planned(self) -> list[tuple[Track, Span]]:
        """Rows of planned work, which were not judged, by entity."""
        return [(track, span) for track in self.tracks for span in track.planned]

    @property
    def affected(self) -> int:
        return len({finding.track.entity for finding in self.intervals})

    @property
    def scored_rows(self) -> int:
        return sum(int((np.isfinite(track.score) | track.flagged).sum()) for track in self.tracks)

    @property
    def flagged_share(self) -> float:
        """The share of scored rows that lie in an interval."""
        return sum(int(track.flagged.sum()) for track in self.tracks) / max(self.scored_rows, 1)

    def of(self, track: Track) -> list[Finding]:
        """Return the intervals of one entity."""
        return [finding for finding in self.intervals if finding.track is track]

    def main_variables(self) -> dict[str, int]:
        """Count the intervals in which each variable contributes most, most frequent variable first."""
        return dict(
            Counter(next(iter(finding.variables)) for finding in self.intervals if finding.variables).most_common()
        )

    def height(self, score: Floats) -> Floats:
        """Map scores to 0 to 1: the threshold to 1/2, twice its distance from the median training score to 3/4."""
        low, origin = self._scale
        below = 0.5 * (score - low) / max(self.threshold - low, 1e-12)
        excess = np.maximum(score - self.threshold, 0.0) / max(self.threshold - origin, 1e-12)
        height: Floats = np.where(score > self.threshold, 0.5 + 0.5 * excess / (1 + excess), np.clip(below, 0.0, 0.5))
        return height

    @cached_property
    def _scale(self) -> tuple[float, float]:
        """The score drawn at the bottom, and the median training score."""
        scores = np.concatenate([track.score[np.isfinite(track.score)] for track in self.tracks])
        low = float(np.quantile(scores, 0.01)) if len(scores) else self.threshold - 1
        return min(low, self.threshold - 1e-12), self.middle


def read(result: Result, truth: Sequence[Truth]) -> Findings:
    """Split a result by entity. `truth` may name entities that the result does not contain."""
    tracks = [
        Track(
            part.series,
            part.step_scores.astype(np.float64) - part.raised,
            part.anomalous,
            part.contributions,
            part.expected,
            result.length,
            tuple(true for true in truth if true.entity == part.series.entity),
            part.usual,
            part.planned,
        )
        for part in result.parts
    ]
    intervals = [
        (track, interval) for track, part in zip(tracks, result.parts, strict=True) for interval in part.intervals
    ]
    worst = sorted(intervals, key=lambda pair: (-pair[1].severity, -pair[1].score))
    findings = [Finding(rank, track, **vars(interval)) for rank, (track, interval) in enumerate(worst, start=1)]
    return Findings(
        tuple(tracks),
        tuple(findings),
        result.threshold,
        result.middle,
        result.left_out,
        by_chance(result),
        result.drift,
    )
