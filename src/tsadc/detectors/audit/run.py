"""All steps of an audit: folds, what their models say, probabilities, and models with and without the suspects."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tsadc.config import require
from tsadc.detectors.audit.estimate import LEVEL, Estimate
from tsadc.detectors.audit.findings import Audit, Cost, Model, Suspect
from tsadc.detectors.audit.folds import FOLDS, Plan, clone, plan
from tsadc.detectors.audit.judge import Runner, judge_fold
from tsadc.detectors.audit.progress import AuditCallback, FoldProgress
from tsadc.detectors.base import Detector
from tsadc.detectors.episodes import Episodes
from tsadc.detectors.events import Events
from tsadc.detectors.interval_id import interval_id
from tsadc.detectors.planned import expected_events, masked, with_planned
from tsadc.detectors.result import Evidence, Result, assemble, join
from tsadc.detectors.threshold import Threshold, explain, observations_per_week
from tsadc.errors import DataError, TsadcNotice, collected_notices, notice
from tsadc.io.calendar import Calendar
from tsadc.io.memory import as_series
from tsadc.io.reading import Reading
from tsadc.series import Booleans, Observations, Series, without_rows
from tsadc.windows import cut, section


def audit(
    detector: Detector,
    X: Any,
    *,
    folds: int = FOLDS,
    calendar: Calendar | None = None,
    progress: AuditCallback | None = None,
    runner: Runner | None = None,
) -> Audit:
    """Find which parts of an unlabelled history look anomalous, and how surely.

    The history is divided into folds of contiguous observations. For each fold a detector is trained on the rest of
    the history and scores the fold, so that no part is judged by a model, a scaler or a threshold that has learnt from
    it. Observations next to a fold are left out of its training, too, because a fault may cross the border, unless an
    entity has fewer than four observations per fold. One with fewer observations than folds is not divided.

    Parameters
    ----------
    detector : Detector
        The kind of detector and its settings; fitted or not, it stays as it is.
    X : like the history of `Detector.fit`
        The history.
    folds : int, default 5
        Number of folds, at least 2. Each costs one training, and two more are for comparison.
    calendar : Calendar, optional
        Planned work, which is neither judged nor learnt from. The same holds for what the verdicts of a fitted detector
        call planned.
    progress : callable, optional
        Called with the `Plan` before anything is trained, and with a `FoldProgress` after each training, besides what
        `Detector.fit` calls it with.
    runner : callable, optional
        Called with the detector and the `Plan`, and yields what `judge_fold` returns for each fold, in any order, from
        other processes or machines. None: this process judges one fold after the other.

    Returns
    -------
    Audit
        The suspected intervals with their probabilities, the contaminated share, and what depends on it.

    Raises
    ------
    ConfigError
        If `detector` is no detector, or `folds` is not a whole number of at least 2.
    DataError
        If the history is too short to be divided into so many folds, or `calendar` is no calendar.

    Examples
    --------
    >>> import numpy as np
    >>> import tsadc
    >>> generator = np.random.default_rng(0)
    >>> history = generator.normal(size=(6000, 3))
    >>> history[3000:3060, 1] += 6
    >>> found = tsadc.audit(tsadc.Ensemble(length=60), history)
    >>> found.suspects[0].probability > 0.5, found.suspects[0].blamed
    (True, ('variable_1',))
    """
    begun = time.monotonic()
    detector = as_detector(detector)
    expected = expected_events(calendar, detector.verdicts_)
    if expected is not None:
        length, coverage = detector.settings.length, detector.settings.coverage
        X = masked(as_series(X, length, Reading(coverage=coverage)), expected, length)
    with collected_notices() as about_data:
        planned = plan(detector, X, folds)
    for text in about_data:
        notice(text)
    if progress is not None:
        progress(planned)
    history, settings, models = planned.history, detector.settings, len(planned.folds) + 2
    evidence: dict[int, Evidence] = {}
    memory: list[int] = []
    views: tuple[str, ...] = ()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TsadcNotice)
        here = (judge_fold(detector, planned, number, progress) for number in range(len(planned.folds)))
        for done, fold in enumerate(here if runner is None else runner(detector, planned), start=1):
            memory.append(fold.memory)
            views = fold.views
            evidence |= zip(planned.folds[fold.number].judged.tolist(), fold.evidence, strict=True)
            _report(progress, done, models, begun)
        deviates = np.array([evidence[i].score for i in range(len(history))])
        estimate = Estimate.of(deviates, settings.contamination, settings.seed)
        ordered = [_standardised(evidence[i], estimate) for i in range(len(history))]
        events = Events.of(settings.event, round(float(np.median(memory))), history.length)
        per_week = observations_per_week(planned.clock, history.length)
        threshold = Threshold(estimate.threshold, 0.0, estimate.normal, per_week)
        parts = _assembled(history, ordered, threshold, events, views)
        probabilities = estimate.probability(np.concatenate([part.scores for part in parts]))
        fitted = detector if _is_fitted_to(detector, planned) else clone(detector)
        with collected_notices() as about_fit:
            if fitted is not detector:
                fitted.fit(history.series, progress=progress)
        _report(progress, models - 1, models, begun)
        cleaned = _without_suspects(history, parts, estimate)
        other = fitted if cleaned is None else _fitted_or_none(clone(detector), cleaned, progress)
        _report(progress, models, models, begun)
        trained = len(planned.folds) + (fitted is not detector) + (other is not None and other is not fitted)
        # The episodes of the history are what is being explained; each is compared with earlier ones of its entity.
        explainer = replace((other or fitted)._explainer(), episodes=Episodes.of([]))
        result = join(list(explainer.explain(iter(parts))), history.series)
        if expected is not None:
            result = with_planned(result, expected)
        suspected = probabilities >= LEVEL
        whole = _compared(fitted, history, history, suspected)
        without = None if other is None else whole
        if other is not None and cleaned is not None:
            learnt = cut(cleaned, history.length, settings.coverage).observations
            without = _compared(other, history, learnt, suspected)
    for text in about_fit:
        if text not in about_data:
            notice(text)
    return Audit(
        suspects=_suspects(result, estimate),
        contamination=estimate.contamination,
        result=replace(result, left_out=len(cut(history.series, history.length, settings.coverage).left_out)),
        probabilities=probabilities,
        folds=planned.fold_of,
        whole=whole,
        without=without,
        cost=Cost(trained, planned.trained_on, time.monotonic() - begun),
        data=planned.data,
        detector=detector.name,
        settings=settings,
    )


def _standardised(evidence: Evidence, estimate: Estimate) -> Evidence:
    score = float(estimate.standardised(np.array([evidence.score]))[0])
    return replace(evidence, score=score, steps=estimate.standardised(evidence.steps))


def _assembled(
    history: Observations, evidence: Sequence[Evidence], threshold: Threshold, events: Events, views: Sequence[str]
) -> list[Result]:
    """Return the result of each series. Evidence of all folds is on one scale, so that no interval ends at a border."""
    results = []
    for number, places in enumerate(history.by_series()):
        piece = section(history, number, places, 0, len(history.series[number]))
        results.append(assemble(piece, [evidence[i] for i in places], threshold, events, np.zeros(len(places)), views))
    return results


def _without_suspects(history: Observations, parts: Sequence[Result], estimate: Estimate) -> list[Series] | None:
    """Return the history without the intervals that are more likely anomalous than normal; None if there are none."""
    cleaned, any_left_out = [], False
    for series, result in zip(history.series, parts, strict=True):
        rows = np.zeros(len(series), dtype=bool)
        for interval in result.parts[0].intervals:
            if estimate.probability(np.array([interval.score]))[0] >= LEVEL:
                rows[interval.start : interval.stop] = True
        cleaned.append(without_rows(series, rows))
        any_left_out |= bool(rows.any())
    return cleaned if any_left_out else None


def _fitted_or_none(detector: Detector, series: list[Series], progress: AuditCallback | None) -> Detector | None:
    """Fit the detector; None if the series have too little to learn from."""
    try:
        return detector.fit(series, progress=progress)
    except DataError:
        return None


def _suspects(result: Result, estimate: Estimate) -> tuple[Suspect, ...]:
    suspects = []
    for number, part in enumerate(result.parts):
        entity, clock = part.series.entity, part.series.clock
        for interval in part.intervals:
            probability = float(estimate.probability(np.array([interval.score]))[0])
            key = interval_id(entity, clock.tick(interval.start), clock.tick(interval.stop))
            suspects.append(Suspect(key, number, entity, clock, interval, probability))
    return tuple(sorted(suspects, key=lambda suspect: (-suspect.probability, -suspect.interval.score)))


def _compared(model: Detector, history: Observations, learnt: Observations, suspected: Booleans) -> Model:
    """Describe a model that was trained on the observations `learnt`, and count what it flags in the history."""
    scores = np.full(len(history), np.nan)
    known = dict(zip(learnt.places, model.decision_scores_.tolist(), strict=True))
    for i, place in enumerate(history.places):
        scores[i] = known.get(place, np.nan)
    unknown = np.flatnonzero(np.isnan(scores) | suspected) if learnt is not history else np.arange(0)
    scores[unknown] = model._scores(history.take(unknown))
    flagged = scores > model.threshold_
    settings = model.settings
    alarms = explain(
        settings.threshold, model.contamination_, model.normal_, model.threshold_, model.clock_, settings.length
    )
    return Model(
        len(learnt),
        model.contamination_,
        model.threshold_,
        alarms,
        int((flagged & suspected).sum()),
        int((flagged & ~suspected).sum()),
        flagged,
    )


def as_detector(value: Any) -> Detector:
    """Return a detector that a user gave; raise if it is something else, such as its class or its name."""
    require(isinstance(value, Detector), "detector", "a detector, such as tsadc.Ensemble(length=60)", value)
    detector: Detector = value
    return detector


def _is_fitted_to(detector: Detector, planned: Plan) -> bool:
    """Return whether the detector has learnt from this history, and from nothing else, such as verdicts."""
    fitted = hasattr(detector, "threshold_") and detector.lesson_ is None
    return fitted and detector.provenance_["data"] == planned.data


def _report(progress: AuditCallback | None, done: int, total: int, begun: float) -> None:
    if progress is not None:
        progress(FoldProgress(done, total, time.monotonic() - begun))
