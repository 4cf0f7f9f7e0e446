"""What is decided about an entity at a tick: verdicts, and the intervals that begin, grow, end or are withdrawn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tsadc.detectors.drift import RECENT, raised_by
from tsadc.detectors.missing import Missing
from tsadc.detectors.result import Evidence, Interval, SeriesResult, as_period, assemble, with_missing
from tsadc.detectors.streaming.gaps import Gaps
from tsadc.detectors.streaming.track import Section, Track
from tsadc.detectors.streaming.update import Decided, LiveInterval, LiveVerdict
from tsadc.detectors.usual import MARGIN, window_of
from tsadc.scale import NORMAL_IQR
from tsadc.series import Clock, Observations, Place, Series

if TYPE_CHECKING:
    from tsadc.detectors.base import Detector

LONGEST = 32  # observations of a section
LEAST_WITHIN = 5  # provisional scores that say what is usual within an observation


class Judge:
    """The rules of a fitted detector, applied to tracks on a clock."""

    def __init__(self, detector: Detector, clock: Clock) -> None:
        self.detector, self.clock = detector, clock
        self.length, self.names = detector.settings.length, detector.variables_
        self.rules = detector._verdicts(Observations((), (), self.length), None)
        self._explainer = replace(detector._explainer(), episodes=None)
        window = window_of(self.length)
        self.margin = 4 * window + (window + 1) // 2 + MARGIN  # of `reason_of` and of `SeriesUsual.predicted`

    def gaps(self, entity: str, first: int) -> Gaps | None:
        """Return the gaps of an entity from its first row on; None if the model has not learnt what it measures."""
        learnt = self.rules.learnt(entity)
        return None if learnt is None else Gaps(learnt, max(self.length, self.rules.events.minimum), first)

    def raised(self, entity: str, scores: Sequence[float]) -> float:
        """Return by how much drift raises the threshold of an entity after its latest scores."""
        return float(raised_by([*scores, 0.0], self.rules.usual(entity), len(scores))[0])

    def _series(self, track: Track, first: int, stop: int) -> Series:
        clock = replace(self.clock, start=track.phase + first * self.clock.interval)
        return Series(track.rows.between(first, stop), self.names, clock, track.name)

    def score(self, track: Track, ticks: Sequence[int]) -> tuple[dict[int, Evidence], dict[int, float]]:
        """Return the scores of the observations that end at `ticks`, and the evidence of the unusual ones."""
        if not ticks:
            return {}, {}
        assert track.first is not None
        first = max(track.first, ticks[0] - self.length)
        series = self._series(track, first, min(ticks[-1], track.rows.newest + 1))

        def observations(chosen: Iterable[int]) -> Observations:
            return Observations((series,), tuple(Place(0, tick - self.length - first) for tick in chosen), self.length)

        scores = dict(zip(ticks, self.rules.scores(observations(ticks)).tolist(), strict=True))
        # Evidence, which costs more than a score, is needed above the threshold; drift only raises it.
        unusual = [tick for tick in ticks if scores[tick] > self.rules.threshold.value]
        evidence = dict(zip(unusual, self.detector._evidence(observations(unusual), None), strict=True))
        return evidence, scores

    def decide(
        self,
        track: Track,
        tick: int,
        now: int,
        coverage: float,
        evidence: Evidence | None,
        score: float | None,
        decided: Decided,
    ) -> None:
        """Judge the observation that ends at a tick. `now` is the tick, or the end of the series if that comes first;
        without a score, the observation is left out."""
        final = track.is_final(tick, self.length)
        self._feed(track, now, decided)
        raised: float | None = track.raised
        if not final and score is not None:
            raised = self._raised_within(track, tick, score)
        if raised is None:  # nothing is known to compare it with
            raised, score = track.raised, None
        threshold = self.rules.threshold.value + raised
        above = score is not None and score > threshold
        blamed: dict[str, float] = {}
        if above:
            assert evidence is not None
            alone = Section([tick - self.length], [replace(evidence, expected=None)], [raised])
            if not final:
                blamed = self._foresee(track, alone, now, decided)
            else:
                section = track.section
                if section is None:
                    track.sections.append(Section())
                    section = track.sections[-1]
                section.starts += alone.starts
                section.evidence += alone.evidence
                section.raised += alone.raised
                blamed = _blamed(self._part(track, alone, now)[0].intervals)
        if score is not None:
            assert track.first is not None
            start, end = max(tick - self.length, track.first), now
            graded = self.rules.threshold.severity(score - raised)
            decided.verdicts.append(
                LiveVerdict(
                    track.name,
                    track.phase + start * self.clock.interval,
                    track.phase + end * self.clock.interval,
                    score,
                    threshold,
                    above,
                    graded,
                    blamed,
                    final,
                    coverage,
                )
            )
        if not final:
            self._finish(track, now, decided)
            return
        if score is not None:
            track.scores = [*track.scores, score][-RECENT:]
            track.raised = self.raised(track.name, track.scores)
        self._grow(track, above, now, decided)
        self._finish(track, now, decided)
        if track.gaps is not None:
            for run in track.gaps.lasting(now):
                decided.intervals.append(self._missing(track, run, final=False))

    def _raised_within(self, track: Track, tick: int, score: float) -> float | None:
        """Return by how much the threshold of a provisional verdict is raised; None if too few came before. Remember
        the score.

        The observations of the history begin at multiples of their length. If the data has a period, a part of a day
        that begins at noon may be unlike all of them. So a provisional score is compared with earlier ones at the same
        place of an observation: its threshold lies as far above those as that of final verdicts above final ones."""
        place = (tick - track.origin) % self.length
        earlier = track.within.get(place, [])
        if len(earlier) < LEAST_WITHIN:  # what comes at other places is closer to it than final scores are
            earlier = [value for values in track.within.values() for value in values]
        track.within[place] = [*track.within.get(place, []), score][-RECENT:]
        if len(earlier) < LEAST_WITHIN or not track.scores:
            return None
        (middle, spread), (usual, usual_spread) = (_middle_and_spread(scores) for scores in (earlier, track.scores))
        threshold = self.rules.threshold.value + track.raised
        distance = max(threshold - usual, 0.0)
        # A quarter of the distance is added to both, so that the spread of few scores hardly matters.
        wider = (spread + distance / 4) / (usual_spread + distance / 4) if distance else 1.0
        return track.raised + max(0.0, middle + distance * wider - threshold)

    def _feed(self, track: Track, now: int, decided: Decided) -> None:
        """Report the sensors that have stopped reporting and report again."""
        if track.gaps is not None:
            stop = min(now, track.rows.newest + 1)
            first = max(track.fed, track.rows.base)
            if stop > first:
                known = np.isfinite(track.rows.between(first, stop))
                decided.intervals += [self._missing(track, run, final=True) for run in track.gaps.feed(first, known)]
        track.fed = now

    def _missing(self, track: Track, run: Missing, *, final: bool) -> LiveInterval:
        rules, series = self.rules, self._series(track, run.start, run.start)
        alone = Observations((series,), (), self.length)
        nothing = assemble(alone, [], rules.threshold, rules.events, np.zeros(0), rules.view_names)
        shifted = replace(run, start=0, stop=run.stop - run.start)
        [part] = with_missing(nothing, [shifted], rules.threshold).parts
        return self._live(part.series, part.intervals[0], open=not final, final=final)

    def _part(self, track: Track, section: Section, now: int) -> tuple[SeriesResult, int]:
        """Return what is found in a section from the rows before `now`, and the row number that it begins at."""
        assert track.first is not None
        rules = self.rules
        first = max(track.first, section.starts[0] - self.margin)
        stop = min(now, section.starts[-1] + self.length + self.margin)
        places = tuple(Place(0, start - first) for start in section.starts)
        piece = Observations((self._series(track, first, stop),), places, self.length)
        raised = np.array(section.raised)
        result = assemble(piece, section.evidence, rules.threshold, rules.events, raised, rules.view_names)
        return result.parts[0], first

    def _foresee(self, track: Track, alone: Section, now: int, decided: Decided) -> dict[str, float]:
        """Report provisional intervals, unless they continue one that is open; return the blamed variables."""
        part, first = self._part(track, alone, now)
        part = self._explainer._explained(part)
        begun = now - (now - track.origin) % self.length  # rows before it are judged already
        merge = self.rules.events.merge
        section = track.section
        continued = section is not None and section.starts[-1] + self.length == begun
        for interval in part.intervals:
            start, stop = first + interval.start, first + interval.stop
            if stop <= begun or (continued and start < begun + merge):
                continue
            live = self._live(part.series, interval, open=True, final=False, provisional=True)
            earlier = [other for other in track.provisional if other.start < live.end and other.end > live.start]
            if earlier:
                live = replace(live, id=earlier[0].id)
                track.provisional.remove(earlier[0])
            track.provisional.append(live)
            decided.intervals.append(live)
        return _blamed(part.intervals)

    def _grow(self, track: Track, above: bool, now: int, decided: Decided) -> None:
        """Report the intervals of the section that may still grow, after an observation, or settle it."""
        section = track.section
        waiting, track.provisional = track.provisional, []
        if section is not None:
            section.settled = not above or len(section.starts) == LONGEST
            waiting = self._report(track, section, now, waiting, decided)
        decided.intervals += [replace(other, open=False, withdrawn=True) for other in waiting]

    def _report(
        self,
        track: Track,
        section: Section,
        now: int,
        waiting: list[LiveInterval],
        decided: Decided,
        ended: bool = False,
    ) -> list[LiveInterval]:
        """Report the intervals of a section that were not final before; return what remains of the provisional ones in
        `waiting`."""
        part, first = self._part(track, section, now)
        part = self._explainer._explained(part)
        last = section.starts[-1] + self.length
        fixed = last if section.settled or ended else self._fixed(part, min(last, now) - first) + first
        near = self.rules.events.merge * self.clock.interval
        section.due = last + self.margin
        for interval in part.intervals:
            stop = first + interval.stop
            closed = stop <= fixed
            final = closed and (ended or now >= stop + self.margin)
            live = self._live(part.series, interval, open=not closed, final=final)
            if live.id in section.reported:
                continue
            if final:
                section.reported.add(live.id)
            else:
                section.due = min(section.due, stop + self.margin)
            same = [other for other in waiting if other.start < live.end + near and other.end > live.start - near]
            waiting = [other for other in waiting if other not in same]
            decided.intervals.append(replace(live, replaces=tuple(other.id for other in same)))
        return waiting

    def _fixed(self, part: SeriesResult, stop: int) -> int:
        """Return the row before which an interval ends that cannot become longer, whatever follows row `stop`."""
        rules = self.rules
        lowest = min(rules.threshold.middle, rules.threshold.value)
        lasting = part.step_scores[:stop].astype(np.float64) - part.raised[:stop] > lowest
        ends = np.flatnonzero(~lasting)
        begun = int(ends[-1]) + 1 if len(ends) else 0  # of rows that may turn out to belong to an interval
        return begun - rules.events.merge

    def _finish(self, track: Track, now: int, decided: Decided) -> None:
        """Report the intervals of settled sections that have become final."""
        for section in [section for section in track.sections if section.settled]:
            if now >= section.due:
                self._report(track, section, now, [], decided)
            if now >= section.starts[-1] + self.length + self.margin:
                track.sections.remove(section)

    def end(self, track: Track, now: int, decided: Decided) -> None:
        """Report everything that the end of a series decides."""
        for section in track.sections:
            track.provisional = self._report(track, section, now, track.provisional, decided, ended=True)
        decided.intervals += [replace(other, open=False, withdrawn=True) for other in track.provisional]
        if track.gaps is not None:
            self._feed(track, now, decided)
            decided.intervals += [self._missing(track, run, final=True) for run in track.gaps.lasting(now)]

    def _live(
        self, series: Series, interval: Interval, *, open: bool, final: bool, provisional: bool = False
    ) -> LiveInterval:
        kind, reason = interval.why(series.clock)
        return LiveInterval(
            id=interval.id(series),
            entity=series.entity,
            start=series.clock.tick(interval.start),
            end=series.clock.tick(interval.stop),
            score=interval.score,
            severity=interval.severity,
            return_period=as_period(interval.return_period, series.clock),
            kind=kind,
            reason=reason,
            evidence=interval.evidence,
            variables=interval.variables,
            open=open,
            final=final,
            provisional=provisional,
        )


def _middle_and_spread(scores: Sequence[float]) -> tuple[float, float]:
    low, middle, high = np.quantile(scores, [0.25, 0.5, 0.75]).tolist()
    return middle, (high - low) / NORMAL_IQR


def _blamed(intervals: Iterable[Interval]) -> dict[str, float]:
    """Return the variables of the interval that scores highest."""
    worst = max(intervals, key=lambda interval: interval.score, default=None)
    return {} if worst is None else worst.variables
