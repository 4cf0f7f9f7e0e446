"""The second act of the demonstration: audit and clean the plant's history, answer five questions, see what changed.

Labels measure and answer, and do nothing else: the simulator plays the colleague who says whether an alarm was a true
anomaly, and afterwards counts what was right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tsadc.data.plant import Plant
from tsadc.detectors.audit import Audit
from tsadc.detectors.base import Detector, ProgressCallback
from tsadc.detectors.cleaning import Decontaminator
from tsadc.detectors.ensemble.detector import Ensemble
from tsadc.detectors.feedback import judged, question_order
from tsadc.detectors.result import Result
from tsadc.evaluate.ranking import average_precision
from tsadc.series import Booleans, Clock, Labelled, Series, without_rows
from tsadc.windows import cut

QUESTIONS = 5
Span = tuple[str, int, int]  # entity and rows [start, stop)


@dataclass(frozen=True)
class Question:
    """An interval of the new data that the simulator was asked about, rows [start, stop) of an entity, and whether it
    is a true anomaly."""

    id: str
    entity: str
    clock: Clock
    start: int
    stop: int
    reason: str
    true: bool


@dataclass(frozen=True, eq=False)
class Story:
    """What the three steps found, and what they changed.

    Attributes
    ----------
    audit : Audit
        Of the history.
    confirmed : array of shape (suspect,), bool
        Whether each suspect of the audit overlaps a true anomaly.
    true_share : float
        True share of anomalous observations of the history.
    history, cleaned : tuple of Series
        The history, and the same with suspect cells replaced by expected values.
    corrections : DataFrame
        What cleaning changed.
    precision : dict of str to float
        AP on the new data of the ensemble, learnt from the history as it is, without what the audit suspects, and
        without the true anomalies.
    questions : tuple of Question
    verdicts : DataFrame
        AP, alarms, false alarms and true anomalies found before and after the answers. What was asked about is left
        out of all of them.
    """

    audit: Audit
    confirmed: Booleans
    true_share: float
    history: tuple[Series, ...]
    cleaned: tuple[Series, ...]
    corrections: pd.DataFrame
    precision: dict[str, float]
    questions: tuple[Question, ...]
    verdicts: pd.DataFrame


def make_story(plant: Plant.Config, *, seed: int = 0, progress: ProgressCallback | None = None) -> Story:
    """Audit, clean and label the simulated plant."""
    simulator = Plant(plant)
    history, new = simulator.train(), simulator.test()
    labels = new.touched(cut(new.series, plant.length).observations)
    cleaner = Decontaminator(Ensemble(length=plant.length, seed=seed))
    cleaned = tuple(cleaner.fit_transform(history.series))
    detectors = {
        "as it is": Ensemble(length=plant.length, seed=seed).fit(history.series, progress=progress),
        "without suspects": cleaner.detector_,
        "without true anomalies": Ensemble(length=plant.length, seed=seed).fit(_without_truth(history)),
    }
    scores = {name: detector.decision_function(new.series) for name, detector in detectors.items()}
    questions, verdicts = _answered(detectors["as it is"], new)
    observations = cut(history.series, plant.length).observations
    return Story(
        audit=cleaner.audit_,
        confirmed=_confirmed(cleaner.audit_, history),
        true_share=float(history.touched(observations).mean()),
        history=history.series,
        cleaned=cleaned,
        corrections=cleaner.report_,
        precision={name: average_precision(labels, by_detector) for name, by_detector in scores.items()},
        questions=questions,
        verdicts=verdicts,
    )


def _confirmed(audit: Audit, history: Labelled) -> Booleans:
    return np.array(
        [_meets(history, suspect.entity, suspect.interval.start, suspect.interval.stop) for suspect in audit.suspects],
        dtype=bool,
    )


def _meets(labelled: Labelled, entity: str, start: int, stop: int) -> bool:
    """Return whether a true anomaly of the entity overlaps the rows [start, stop)."""
    return any(true.entity == entity and true.start < stop and true.stop > start for true in labelled.truth)


def _without_truth(history: Labelled) -> tuple[Series, ...]:
    series = []
    for item in history.series:
        rows = np.zeros(len(item), dtype=bool)
        for true in history.truth:
            if true.entity == item.entity:
                rows[true.start : true.stop] = True
        series.append(without_rows(item, rows))
    return tuple(series)


def _answered(detector: Detector, new: Labelled) -> tuple[tuple[Question, ...], pd.DataFrame]:
    """Ask about five intervals in the order that teaches most, and compare what is found before and after."""
    before = detector.detect(new.series)
    intervals = {
        interval.id(part.series): (part.series, interval)
        for part in before.parts
        for interval in part.intervals
        if not interval.is_missing
    }
    known = judged(before, list(intervals))
    excess = [interval.score - detector.threshold_ for interval in known]
    order = question_order(excess, [interval.views for interval in known])
    questions = []
    for i in order[:QUESTIONS]:
        series, interval = intervals[known[i].id]
        true = _meets(new, series.entity, interval.start, interval.stop)
        rows = series.clock, interval.start, interval.stop
        questions.append(Question(known[i].id, series.entity, *rows, interval.why(series.clock)[1], true))
    detector.feedback(before, {asked.id: asked.true for asked in questions}, by="the simulator")
    after = detector.detect(new.series)
    chosen = [intervals[asked.id] for asked in questions]
    spans = [(series.entity, interval.start, interval.stop) for series, interval in chosen]
    lines = [_measured(when, result, new, spans) for when, result in (("before", before), ("after", after))]
    return tuple(questions), pd.DataFrame(lines)


def _measured(when: str, result: Result, new: Labelled, asked: Sequence[Span]) -> dict[str, object]:
    """Measure what a detector finds apart from the intervals that were asked about."""

    def left(entity: str, start: int, stop: int) -> bool:
        return not any(entity == other and start < last and stop > first for other, first, last in asked)

    scored = result.scored
    kept = np.array(
        [left(scored.entity(i), place.start, place.start + result.length) for i, place in enumerate(scored.places)]
    )
    alarms = [
        (part.series.entity, interval.start, interval.stop)
        for part in result.parts
        for interval in part.intervals
        if left(part.series.entity, interval.start, interval.stop)
    ]
    truths = [true for true in new.truth if left(true.entity, true.start, true.stop)]
    met = [true for true in truths if any(e == true.entity and a < true.stop and b > true.start for e, a, b in alarms)]
    return {
        "answers": when,
        "AP": average_precision(new.touched(scored)[kept], result.scores[kept]),
        "alarms": len(alarms),
        "false alarms": sum(not _meets(new, *span) for span in alarms),
        "anomalies found": len(met),
        "anomalies": len(truths),
    }
