"""Explain verdicts: what is usual, why each interval is unusual, and when something similar happened before.

No score depends on it. In `fit`, the unusual parts of the history become the episodes that later intervals are compared
with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tsadc.detectors.episodes import FEWEST, MOST, Episode, Episodes, Past, episode_of
from tsadc.detectors.events import Events
from tsadc.detectors.reasons import reason_of
from tsadc.detectors.result import Evidence, Interval, Result, SeriesResult, assemble
from tsadc.detectors.threshold import Threshold
from tsadc.detectors.usual import Predict, SeriesUsual, Usual
from tsadc.nn.runtime.blas import single_threaded_blas
from tsadc.scale import Scaler
from tsadc.series import Floats, Observations
from tsadc.windows import section


@dataclass(frozen=True, eq=False)
class Explainer:
    """Explains the results of one detector.

    Attributes
    ----------
    usual : Usual or None
        None for a model of an earlier version: then nothing is explained.
    episodes : Episodes or None
        Those of the history; None: intervals are not compared.
    scaler, predict, length
        Of the detector.
    """

    usual: Usual | None
    episodes: Episodes | None
    scaler: Scaler
    predict: Predict
    length: int

    def explain(self, results: Iterator[Result]) -> Iterator[Result]:
        """Yield the results with what is usual, and with the reason and the similar past episodes of each interval."""
        past = None if self.episodes is None else Past(self.episodes.episodes)
        for result in results:
            with single_threaded_blas():
                parts = [self._explained(part) for part in result.parts]
                if past is not None:
                    parts = [self._compared(part, past) for part in parts]
            yield replace(result, parts=tuple(parts))

    def _explained(self, part: SeriesResult) -> SeriesResult:
        if self.usual is None:
            return part
        own = self.usual.of(part.series.entity)
        scaler = self.scaler.alone(part.series.entity)  # a later `adapt` must not change this result
        usual = SeriesUsual(part.series, own, self.usual.window, scaler, self.predict)
        intervals = tuple(
            replace(found, reason=found.reason or reason_of(usual, found.start, found.stop, list(found.variables)))
            for found in part.intervals
        )
        return replace(part, intervals=intervals, usual=usual)

    def _compared(self, part: SeriesResult, past: Past) -> SeriesResult:
        intervals = [
            found if found.is_missing else replace(found, similar=past.similar(self.episode(part, found)))
            for found in part.intervals
        ]
        return replace(part, intervals=tuple(intervals))

    def episode(self, part: SeriesResult, interval: Interval) -> Episode:
        """Describe an interval of a series; a model with episodes also knows what is usual."""
        assert part.usual is not None
        kind, _ = interval.why(part.series.clock)
        rows = interval.start, interval.stop
        return episode_of(part.usual, rows, interval.score, kind, interval.variables, self.length)

    def find_episodes(
        self,
        unusual: Observations,
        scores: Floats,
        evidence: Iterator[Evidence],
        threshold: Threshold,
        events: Events,
        view_names: Sequence[str],
    ) -> Episodes:
        """Return the intervals above the threshold of `unusual` observations of the history, with their training scores
        and their evidence."""
        found: list[Episode] = []
        for run in _consecutive(unusual):
            own = [_with_score(next(evidence), float(scores[i])) for i in run]
            place, last = unusual.places[run[0]], unusual.places[run[-1]]
            series = unusual.series[place.series]
            around = 0 if series.observation else unusual.length
            first = max(place.start - around, 0)
            stop = min(last.start + unusual.length + around, len(series))
            piece = section(unusual, place.series, run, first, stop)
            result = assemble(piece, own, threshold, events, np.zeros(len(run)), view_names)
            explained = self._explained(result.parts[0])
            found += [self.episode(explained, interval) for interval in explained.intervals]
        return Episodes.of(found)


def most_unusual(scores: Floats, fence: float) -> NDArray[np.int64]:
    """Return the indices of the training observations that episodes are looked for in: the highest scores above the
    fence, beyond which scores are not normal, and so few that it takes a small part of the time of `fit`. The threshold
    plays no part; it says how many alarms the user wants."""
    highest = np.argsort(-scores, kind="stable")[: min(MOST, max(FEWEST, len(scores) // 10))]
    return np.sort(highest[scores[highest] > fence])


def _with_score(evidence: Evidence, score: float) -> Evidence:
    """Return the evidence of a training observation with its training score, which may come from a model that has not
    learnt from it and is then higher."""
    return replace(evidence, score=score, steps=evidence.steps.astype(np.float64) + (score - evidence.score))


def _consecutive(observations: Observations) -> list[list[int]]:
    """Return the indices of observations in runs that follow each other without a gap."""
    runs: list[list[int]] = []
    for i, place in enumerate(observations.places):
        before = observations.places[i - 1] if i else None
        separate = observations.series[place.series].observation is not None
        if separate or before is None or before != replace(place, start=place.start - observations.length):
            runs.append([])
        runs[-1].append(i)
    return runs
