"""Verdicts: the evidence of observations -> results, one series after the other.

    name       meaning
    lowered    in audit mode, how much the scores of a series are lowered because it lies above its history as a whole
    raised     how much the threshold of an observation is raised by the scores before it (`drift.py`)
    further    observations that overlap those of the grid; the score of a row is the mean over all that cover it
    missing    where sensors stop reporting, an event without a score (`missing.py`)

Nothing here depends on later data, apart from `lowered`. `Detector.detect` and `detect_parts` are the same verdicts,
with a whole series or about `rows` rows of it in one result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tsadc.detectors.drift import find_drift, raised_by
from tsadc.detectors.events import Events
from tsadc.detectors.missing import Missing, missing_runs
from tsadc.detectors.result import Evidence, Result, assemble, with_missing
from tsadc.detectors.threshold import Threshold
from tsadc.detectors.usual import Quantiles
from tsadc.scale import Scaler
from tsadc.series import Floats, Observations, Place
from tsadc.windows import between, section

Overlapping = tuple[Observations, NDArray[np.int64]]  # in order of time, and the row that each begins at
MAX_PART_CELLS = 2**22  # of one part: about 100 MB of values, scores and expected values


@dataclass(frozen=True, eq=False)
class Verdicts:
    """Judges the observations of all series; the evidence comes in their order.

    Attributes
    ----------
    usual
        Returns the usual score of an entity, None if its threshold is never raised.
    learnt
        Returns what is usual for an entity, None if that is not known.
    lowered : (series,)
    scores
        Returns the scores of observations without evidence.
    coverage, row_cuts
        Settings for the overlapping observations; with `row_cuts` of 1 there are none.
    """

    observations: Observations
    evidence: Iterator[Evidence]
    threshold: Threshold
    events: Events
    scaler: Scaler
    view_names: Sequence[str]
    usual: Callable[[str], float | None]
    learnt: Callable[[str], Quantiles | None]
    lowered: Floats
    scores: Callable[[Observations], Floats]
    coverage: float
    row_cuts: int

    def whole_series(self) -> Iterator[Result]:
        """Yield one result per series."""
        every = self.observations
        for number, (series, indices) in enumerate(zip(every.series, every.by_series(), strict=True)):
            yield from self._series(number, indices, len(series) + every.length, len(every) + 1)

    def parts(self, rows: int) -> Iterator[Result]:
        """Yield results of about `rows` rows. Each ends with its series or after an observation that is not anomalous,
        so that no interval is cut, unless it would have more than `MAX_PART_CELLS` cells."""
        length = self.observations.length
        most = max(1, MAX_PART_CELLS // (len(self.observations.names) * length))
        for number, indices in enumerate(self.observations.by_series()):
            yield from self._series(number, indices, min(rows, most * length), most)

    def _series(self, number: int, indices: Sequence[int], rows: int, most: int) -> Iterator[Result]:
        """Yield the results of one series with the observations `indices`, each with at most `most` of them. The last
        one has the drift."""
        every, length = self.observations, self.observations.length
        series = every.series[number]
        # Separate observations, laid end to end, have no past.
        continuous = series.observation is None
        usual = self.usual(series.entity) if continuous else None
        further = self._overlapping(number)
        learnt, missing = self.learnt(series.entity), list[Missing]()
        if continuous and learnt is not None:
            missing = missing_runs(series, learnt.present, learnt.gap, max(length, self.events.minimum))
        first, part, scores, raised = 0, list[Evidence](), list[float](), list[float]()
        for i in indices:
            start = every.places[i].start
            if start - first > rows and not part:
                yield from self._uncovered(number, range(first, start, rows), missing)
                first = start
            part.append(_lower(next(self.evidence), float(self.lowered[number])))
            scores.append(part[-1].score)
            raised.append(float(raised_by(scores, usual, len(scores) - 1)[0]))
            last = i == indices[-1]
            stop = len(series) if last else every.places[i + 1].start
            normal = len(part) * length >= rows and part[-1].score <= self.threshold.value + raised[-1]
            gap = stop - (start + length) > rows
            if normal or gap or len(part) == most or last:
                stop = start + length if gap else stop
                piece = section(every, number, range(i + 1 - len(part), i + 1), first, stop)
                found = self._result(number, piece, part, np.array(raised[-len(part) :]), further, first, missing)
                if last and continuous:
                    # Not a section, which would read all rows of a series that is larger than memory.
                    places = tuple(Place(0, every.places[j].start) for j in indices)
                    whole = Observations((series,), places, length)
                    # In audit mode, too: lowered scores have no drift left.
                    unlowered = [score + float(self.lowered[number]) for score in scores]
                    drift = find_drift(whole, unlowered, self.threshold.value, self.scaler, learnt)
                    found = replace(found, drift=() if drift is None else (drift,))
                yield found
                first, part = stop, []
        yield from self._uncovered(number, range(first, len(series), rows), missing)

    def _uncovered(self, number: int, rows: range, missing: Sequence[Missing]) -> Iterator[Result]:
        """Yield results for rows that no observation covers, in parts, as a gap may be larger than memory."""
        for first in rows:
            piece = section(self.observations, number, [], first, min(first + rows.step, rows.stop))
            yield self._result(number, piece, [], np.zeros(0), None, first, missing)

    def _overlapping(self, number: int) -> Overlapping | None:
        """Return the observations of a series that lie between those of the grid; none if those are separate."""
        if self.row_cuts == 1:
            return None
        length = self.observations.length
        alone = Observations((self.observations.series[number],), (), length)
        if alone.series[0].observation is not None:
            return alone, np.zeros(0, dtype=np.int64)
        shifts = [i * length // self.row_cuts for i in range(1, self.row_cuts)]
        places = [place for shift in shifts for place in between(alone, shift, self.coverage).places]
        places.sort(key=lambda place: place.start)
        starts = np.array([place.start for place in places], dtype=np.int64)
        return Observations(alone.series, tuple(places), length), starts

    def _result(
        self,
        number: int,
        piece: Observations,
        evidence: Sequence[Evidence],
        raised: Floats,
        further: Overlapping | None,
        first: int,
        missing: Sequence[Missing],
    ) -> Result:
        """Return the result of a section of a series that begins at row `first`. What is missing from one of its rows
        on is reported as a whole, even if it lasts beyond the section."""
        covering = None
        if further is not None:
            observations, starts = further
            stop = first + len(piece.series[0])
            own = observations.take(range(*np.searchsorted(starts, (first - piece.length + 1, stop))))
            covering = section(own, 0, range(len(own)), first, stop), self.scores(own) - self.lowered[number]
        found = assemble(piece, evidence, self.threshold, self.events, raised, self.view_names, covering)
        last = first + len(piece.series[0])
        inside = [run for run in missing if run.start < last and run.stop > first]
        shifted = [replace(run, start=run.start - first, stop=run.stop - first) for run in inside]
        return with_missing(found, shifted, self.threshold)


def _lower(evidence: Evidence, by: float) -> Evidence:
    """Return the evidence with the scores of the observation and of its steps lowered."""
    if by == 0:
        return evidence
    return replace(evidence, score=evidence.score - by, steps=evidence.steps.astype(np.float64) - by)
