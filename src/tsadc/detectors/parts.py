"""Fit a detector in parts: summarise each part of the history, merge the summaries, and fit to the whole.

    summary = merge(summarise(detector, part) for part in parts)       # `tsadc.detectors.summary.merge`
    fit_summary(detector, summary)
    add_baselines(detector, [baselines(detector, part) for part in parts])   # only for `Summary.rest` without samples

`Detector.fit` does the same in one process if the history is larger than the sample that the detector learns from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from tsadc.detectors.base import Detector, FitOptions, ProgressCallback
from tsadc.detectors.preparation import check_intervals, history_observations
from tsadc.detectors.summary import MIN_QUOTA, Baselines, Rule, Summary, sample, summarised
from tsadc.detectors.threshold import check
from tsadc.detectors.usual import MIN_HISTORY, longest_gap
from tsadc.errors import ConfigError, DataError, listed
from tsadc.series import Observations, Series
from tsadc.variables import match

DetectorT = TypeVar("DetectorT", bound=Detector)


def summarise(detector: Detector, X: Any, *, variables: Sequence[str] | None = None, kept: bool = True) -> Summary:
    """Return what `fit_summary` needs of a part of a history: statistics and a sample of its entities.

    Parameters
    ----------
    detector : Detector
        The detector to be fitted; it stays as it is.
    X : like the history of `Detector.fit`, or an iterator of Series
        Whole entities: the rows of an entity must not lie in two parts. Of an iterator, one series at a time is in
        memory, and the sample.
    variables : sequence of str, optional
        Names of the variables, which must be the same for all parts. None: those of the first series.
    kept : bool, default True
        Whether entities that the views are not fitted to have a sample, too. Otherwise the size is bounded by the
        sample of the others, and `baselines` must see the data again.

    Returns
    -------
    Summary
        To be merged with those of other parts by `tsadc.detectors.summary.merge`, in any order.

    Raises
    ------
    DataError
        If the data cannot be used.
    ConfigError
        If the detector cannot be fitted to a summary.
    """
    names = None if variables is None else tuple(variables)
    pieces = ([item] for item in X) if isinstance(X, Iterator) else [X]
    series = (item for piece in pieces for item in detector._matched(piece, names))
    first = next(series, None)
    if first is None:
        raise DataError("There is no series to summarise; give at least one.")
    rule = _required_rule(detector, first.names)

    def checked() -> Iterator[Series]:
        for item in chain([first], series):
            check_intervals([item], first.clock)
            yield item if item.names == first.names else match([item], first.names)[0]

    return summarised(checked(), rule, kept=kept, copied=True)


def fit_summary(detector: DetectorT, summary: Summary, *, progress: ProgressCallback | None = None) -> DetectorT:
    """Fit a detector to the summary of a history, which may have been merged from summaries of its parts.

    The model is that of `Detector.fit` on the whole history, with its entities in the order of their names. Only
    `decision_scores_` differs if the history is larger than its sample: it has the scores of the sample.

    Parameters
    ----------
    detector : Detector
        The detector, which must have the settings that the summary was made with.
    summary : Summary
        What `summarise` and `tsadc.detectors.summary.merge` return. Entities that have no sample in it
        (`Summary.rest`, if it is not `kept`) get their baselines from `baselines` and `add_baselines`.
    progress : callable, optional
        As for `Detector.fit`.

    Returns
    -------
    The detector.

    Raises
    ------
    DataError
        If the history cannot be used.
    ConfigError
        If the detector cannot be fitted to a summary, or the summary was made with other settings.
    """
    if not isinstance(summary, Summary):
        raise DataError(
            f"A Summary was expected, as `summarise` returns it, but got {type(summary).__name__}; a detector has one "
            "(`summary_`) only after fit(mergeable=True), and not after `load` or `adapt`."
        )
    if _required_rule(detector, summary.rule.names) != summary.rule:
        raise ConfigError(
            "The summary was made with other settings than those of this detector; use one detector for both."
        )
    settings = detector._requested_settings()
    check(settings.threshold, settings.contamination != "auto", summary.clock, settings.length)
    if summary.whole:
        detector._learn_whole(summary.series(summary.entities), None, FitOptions(progress))
    else:
        learn_sample(detector, summary, FitOptions(progress))
    detector.summary_ = summary if summary.kept else None
    return detector


def baselines(detector: Detector, X: Any) -> Baselines:
    """Return what is usual for entities of `Summary.rest`, from their histories: the second pass of a fit to a summary
    that has no sample of them. The detector, which is fitted, stays as it is.

    Parameters
    ----------
    detector : Detector
        Fitted by `fit_summary`.
    X : like the history of `Detector.fit`
        Whole entities, as they were for `summarise`.

    Returns
    -------
    Baselines
        For `add_baselines`.

    Raises
    ------
    DataError
        If the model does not have the statistics of an entity.
    """
    detector._require_fitted()
    rule = _required_rule(detector, detector.variables_)
    series = detector._matched(X, detector.variables_)
    check_intervals(series, detector.clock_)
    unknown = [item.entity for item in series if item.entity not in detector.scaler_.entities]
    if unknown and detector.settings.scaler.scope == "entity":
        raise DataError(
            f"{listed(unknown)} {'was' if len(unknown) == 1 else 'were'} not among the entities of the summary; "
            "summarise all entities before the fit."
        )
    before = {name: dict(own) for name, own in _by_entity(detector).items()}
    try:
        for item in series:
            small = rule.cells(item) <= MIN_QUOTA
            pieces = (item,) if small else sample([item], MIN_QUOTA, rule)
            detector._adapt_to(pieces, {item.entity: longest_gap(item)})
        names = {item.entity for item in series}
        learnt = {
            name: {entity: value for entity, value in own.items() if entity in names}
            for name, own in _by_entity(detector).items()
        }
    finally:
        for name, own in _by_entity(detector).items():
            own.clear()
            own.update(before[name])
    return Baselines(learnt)


def add_baselines(detector: DetectorT, every: Iterable[Baselines]) -> DetectorT:
    """Add to a fitted detector what `baselines` has found with it.

    Parameters
    ----------
    detector : Detector
        Fitted by `fit_summary`.
    every : iterable of Baselines
        Of disjoint entities, in any order but all at once.

    Returns
    -------
    The detector.

    Raises
    ------
    DataError
        If the baselines come from another kind of model.
    """
    detector._require_fitted()
    found = list(every)
    here = _by_entity(detector)
    for part in found:
        if set(part.learnt) != set(here):
            raise DataError(
                "The baselines come from a model with other statistics than this one; call `baselines` with the "
                "detector that they are added to."
            )
    for name, own in here.items():
        new = {entity: value for part in found for entity, value in part.learnt[name].items()}
        own.update({entity: new[entity] for entity in sorted(new)})
    return detector


def rule_of(detector: Detector, names: tuple[str, ...]) -> Rule | None:
    """Return what the sample of a history depends on; None if the detector learns from no sample."""
    if not detector.mergeable:
        return None
    settings = detector._requested_settings()
    # A share of the sample is held out, but learnt from as well.
    most = int(detector._most_observations(len(names)) / (1 - settings.validation))
    return Rule(names, settings.length, settings.coverage, settings.seed, most)


def learn_sample(detector: Detector, summary: Summary, options: FitOptions) -> Observations:
    """Learn from the sample of entities that the views are fitted to, and adapt to the others; return the sample."""
    settings, rest = detector._requested_settings(), summary.rest
    scaler = summary.scaler(settings.scaler)
    scaler.check_constant(summary.rule.names)
    history = history_observations(summary.series(summary.shared), settings)
    others = sum(summary.entities[name].observations >= MIN_HISTORY for name in rest)
    gaps = {name: own.gap for name, own in summary.entities.items()}
    options = replace(options, judged=summary.judged, others=others, gaps=gaps)
    detector._learn(history, None, summary.clock, scaler, summary.describe(), options)
    for name in rest:
        detector._adapt_to(summary.entities[name].pieces, gaps)
    return history


def score_the_rest(
    detector: Detector, series: tuple[Series, ...], sampled: Observations, progress: ProgressCallback | None
) -> None:
    """Replace the scores of the sample by those of all observations: those outside of it are scored as new ones, and do
    not count for the threshold."""
    history = history_observations(series, detector._requested_settings())
    places = {_when(sampled, i): i for i in range(len(sampled))}
    known = np.array([places.get(_when(history, i), -1) for i in range(len(history))])
    scores, views = detector.decision_scores_, detector.history_views_
    detector.decision_scores_ = scores[known]
    detector.decision_scores_[known < 0] = detector._scores(history.take(np.flatnonzero(known < 0)), progress)
    if views is not None:
        detector.history_views_ = np.where(known[:, None] < 0, np.float32(np.nan), views[known])


def _required_rule(detector: Detector, names: tuple[str, ...]) -> Rule:
    rule = rule_of(detector, names)
    if rule is None:
        raise ConfigError(
            f"{detector.name} cannot be fitted in parts that are merged; use the detector ensemble, and fit others to "
            "all of the history at once."
        )
    return rule


def _by_entity(detector: Detector) -> dict[str, dict[str, Any]]:
    """Return what is learnt of each entity, by name and entity, to be changed in place."""
    quantiles = {} if detector.usual_ is None else {"quantiles": detector.usual_.entities}
    return {**detector._baselines(), **quantiles}


def _when(observations: Observations, index: int) -> tuple[str, int]:
    """Return the entity of an observation and the time at which it begins."""
    place = observations.places[index]
    series = observations.series[place.series]
    return series.entity, series.clock.tick(place.start)
