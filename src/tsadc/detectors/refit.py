"""Train a model again on a sliding window, and judge whether the new model may replace the old one.

The new model learns from the window without the rows that the old one flagged. Its threshold, however, is chosen from
the scores of the whole window: chosen from what is left after each removal, it would sink with every refit, as each
would remove the highest scores of what the one before had left.

Verdicts of people are kept: false alarms are learnt from, true anomalies and planned work are not."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from tsadc.detectors.base import Detector, ProgressCallback
from tsadc.detectors.ensemble.fusion import ranks_of
from tsadc.detectors.feedback import Verdict, carried_over
from tsadc.detectors.planned import expected_events, masked
from tsadc.detectors.preparation import hold_out
from tsadc.detectors.result import Result, SeriesResult
from tsadc.errors import DataError, RefitError, TsadcNotice, listed, notice
from tsadc.io.calendar import Calendar
from tsadc.series import Booleans, Floats, Series, without_rows
from tsadc.variables import match

MINUTE = 60 * 10**9
DAY = 24 * 60 * MINUTE
UNITS = {"min": MINUTE, "h": 60 * MINUTE, "d": DAY, "w": 7 * DAY}
RECENT = 7 * DAY  # what old and new are compared on, at most
MOST_FLAGGED = 0.5  # share of the window
MOST_MORE = 10  # times as many observations flagged as by the old model
LEAST_HISTORY = 0.5  # of the observations per entity that the old model was trained on
LEAST_OBSERVATIONS = 20


@dataclass(frozen=True, eq=False)
class Refit:
    """A model trained again, and what the old and the new one say about the window.

    The properties compare them on the observations of the last days: seven, or a quarter of a shorter window. The new
    model has learnt from these days, too, or it would know the recent past least. So its scores are those of training,
    which the ensemble computes in folds: no observation is scored by a model that has learnt from it. A network, and a
    detector without an ensemble, may flag a little less here than on days to come."""

    detector: Detector
    window: tuple[Series, ...]
    old: Result
    new: Result
    removed: int  # rows that the old model flagged
    history: tuple[float, float]  # observations per entity that the old and the new model were trained on
    lost: tuple[str, ...]  # variables that only the old model judges

    @property
    def start(self) -> int:
        """Where the compared days begin, in nanoseconds since 1970."""
        end = _end(self.window)
        return end - min(RECENT, (end - min(series.clock.start for series in self.window)) // 4)

    @property
    def days(self) -> float:
        """The number of compared days."""
        return (_end(self.window) - self.start) / DAY

    @property
    def recent(self) -> Booleans:
        """Whether each observation of the window is compared."""
        series, places = self.old.scored.series, self.old.scored.places
        clocks = [series[place.series].clock for place in places]
        starts = [clock.start + place.start * clock.interval for clock, place in zip(clocks, places, strict=True)]
        return np.array(starts) >= self.start

    @property
    def scores(self) -> tuple[Floats, Floats]:
        """Scores of all observations of the window by the old and the new model."""
        return self.old.scores, self.detector.decision_scores_

    @property
    def verdicts(self) -> tuple[Booleans, Booleans]:
        """Whether the old and the new model flag each observation of the window."""
        old, new = self.scores
        return old > self.old.threshold + self.old.raised, new > self.detector.threshold_ + self.new.raised

    @property
    def flagged(self) -> tuple[int, int]:
        """Compared observations that the old and the new model flag."""
        old, new = self.verdicts
        return int(old[self.recent].sum()), int(new[self.recent].sum())

    @property
    def alarms_per_day(self) -> tuple[float, float]:
        """Runs of flagged observations, per day and entity, that begin in the compared days."""
        places, length = self.old.scored.places, self.old.length
        follows = np.array(
            [False, *(b.series == a.series and b.start == a.start + length for a, b in pairwise(places))], dtype=bool
        )
        entity_days = max(self.days * len(self.window), 1e-9)
        old, new = (
            float((flags & self.recent & ~(follows & np.roll(flags, 1))).sum()) / entity_days for flags in self.verdicts
        )
        return old, new

    @property
    def agreement(self) -> float:
        """Share of the compared observations on which both give the same verdict."""
        old, new = self.verdicts
        return float((old == new)[self.recent].mean())

    @property
    def correlation(self) -> float:
        """Rank correlation of the scores of the compared observations; NaN if there are fewer than two."""
        old, new = (ranks_of(scores[self.recent]) for scores in self.scores)
        if len(old) < 2 or np.ptp(old) == 0 or np.ptp(new) == 0:
            return float("nan")
        return float(np.corrcoef(old, new)[0, 1])

    def objections(self) -> list[str]:
        """Return why the new model should not replace the old one; nothing if it may."""
        found, (old, new) = [], self.flagged
        if not np.isfinite(self.detector.threshold_) or not np.isfinite(self.new.scores).all():
            found.append("its scores are not all finite")
        if new > MOST_MORE * max(old, 1):
            found.append(f"it flags {new} of the last {self.recent.sum()} observations, the old one {old}")
        if self.correlation < 0:
            found.append(f"it ranks the last observations in another order (rank correlation {self.correlation:.2f})")
        before, now = self.history
        if now < LEAST_HISTORY * before:
            less = f"{now:.0f} observations per entity, less than half of the {before:.0f} of the old one"
            found.append(f"it has learnt from {less}")
        if self.lost:
            found.append(f"it no longer judges {listed(self.lost)}")
        return found


def last_part(series: Sequence[Series], duration: int) -> tuple[Series, ...]:
    """Return the rows of the last `duration` nanoseconds before the end of the latest series; needs dates."""
    undated = next((item.entity for item in series if not item.clock.dated), None)
    if undated is not None:
        raise DataError(f"A window of time needs dates, but {undated!r} has none; name its column with --time.")
    start, parts = _end(series) - duration, []
    for item in series:
        first = max(0, -((item.clock.start - start) // item.clock.interval))
        if first >= len(item):
            raise RefitError(f"{item.entity!r} has no rows in the window; choose a longer one, or leave out its file.")
        clock = replace(item.clock, start=item.clock.start + first * item.clock.interval)
        parts.append(replace(item, values=np.asarray(item.values[first:]), clock=clock))
    return tuple(parts)


def refit(
    detector: Detector,
    window: Sequence[Series],
    *,
    force: bool = False,
    calendar: Calendar | None = None,
    progress: ProgressCallback | None = None,
) -> Refit:
    """Train the detector again, with its own settings, on what it does not flag in the window.

    Parameters
    ----------
    detector : Detector
        A fitted detector; it stays as it is.
    window : sequence of Series
        Recent history of all entities that it knows, with dates; `last_part` cuts it.
    force : bool, default False
        Whether the new model may lack entities that the old one knows and the window does not have.
    calendar : Calendar, optional
        Planned work, which is not learnt from.
    progress : callable, optional
        As for `Detector.fit`.

    Returns
    -------
    Refit
        The new detector and the comparison with the old one.

    Raises
    ------
    RefitError
        If entities are missing, a variable has no values or the old model flags most of the window.
    DataError
        If the window has too few observations.
    """
    window = match(window, detector.variables_)  # the file may have more columns, such as labels
    missing = [name for name in detector.scaler_.entities if name not in {series.entity for series in window}]
    if missing and not force:
        raise RefitError(
            f"The model knows {listed(missing)}, which the data lacks, and would forget what it knows of them; give "
            "their data, too, or insist with --force."
        )
    if missing:
        notice(f"The new model forgets {listed(missing)}, which the data lacks.")
    measured = np.any([np.isfinite(np.asarray(series.values)).any(axis=0) for series in window], axis=0)
    if not measured.all():
        empty = [name for name, has_values in zip(detector.variables_, measured, strict=True) if not has_values]
        raise RefitError(
            f"The window has no values of {listed(empty)} to learn from; give data that has them, or train a model of "
            "the other variables with `tsadc fit`."
        )
    if (expected := expected_events(calendar, detector.verdicts_)) is not None:
        window = masked(window, expected, detector.settings.length)
    old = detector.detect(window, calendar=calendar, progress=progress)
    flagged = [_flagged(part, detector.verdicts_) for part in old.parts]
    removed, rows = sum(int(own.sum()) for own in flagged), sum(map(len, window))
    if removed > MOST_FLAGGED * rows:
        raise RefitError(
            f"The old model flags {removed / rows:.0%} of the window, so too little is left to learn from; if this is "
            "the new normal, train a new model with `tsadc fit`."
        )
    cleaned = [without_rows(series, own) for series, own in zip(window, flagged, strict=True)]
    new = type(detector)(config=detector.settings).fit(cleaned, progress=progress)
    if "reading" in detector.provenance_:
        new.provenance_["reading"] = detector.provenance_["reading"]
    least = min(LEAST_OBSERVATIONS, len(detector.decision_scores_))
    if len(new.decision_scores_) < least:
        raise RefitError(
            f"The window gives only {len(new.decision_scores_)} observations to learn from, but at least {least} are "
            "needed; choose a longer window."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TsadcNotice)  # given by `fit` and by the old model
        _recalibrate(new, cleaned, new.detect(window), flagged)
        if detector.verdicts_:
            new._judge_by(carried_over(detector.verdicts_, new, new.detect(window)))
        after = new.detect(window, calendar=calendar, progress=progress)
    history = _history(detector), _history(new)
    lost = tuple(name for name in _judged(detector) if name not in _judged(new))
    return Refit(new, window, old, after, removed, history, lost)


def _history(detector: Detector) -> float:
    """Return the number of observations per entity that a model was trained on."""
    data = detector.provenance_["data"]
    return float(data["observations"] / data["entities"])


def _judged(detector: Detector) -> list[str]:
    """Return the names of the variables that a model judges: the ensemble judges none that hardly varies."""
    scorer = getattr(detector, "scorer_", None)
    judged = np.ones(len(detector.variables_), dtype=bool) if scorer is None else scorer.judged
    return [name for name, is_judged in zip(detector.variables_, judged, strict=True) if is_judged]


def _flagged(part: SeriesResult, verdicts: Sequence[Verdict]) -> Booleans:
    """Return the rows of intervals, or what people said about them; a sensor that stopped reporting says nothing
    against the other ones."""
    flagged = np.zeros(len(part.series), dtype=bool)
    for interval in part.intervals:
        if not interval.is_missing:
            flagged[interval.start : interval.stop] = True
    for own in verdicts:
        if own.score is not None and own.verdict != "planned" and (rows := own.rows(part.series)) is not None:
            flagged[max(rows[0], 0) : max(rows[1], 0)] = own.verdict == "true"
    return flagged


def _recalibrate(detector: Detector, cleaned: Sequence[Series], whole: Result, flagged: Sequence[Booleans]) -> None:
    """Choose the threshold again, from the scores of all observations: where rows were removed, those of all rows.

    The validation scores are those of the observations that the training has held out, and of a share of those that it
    did not have at all."""
    settings = detector.settings
    history, _, _ = detector.prepare(cleaned)
    learnt = {place: i for i, place in enumerate(history.places)}
    scores: Floats = whole.scores.copy()
    views = detector.history_views_
    added = None if views is None else np.column_stack(list(whole.view_scores.values())).astype(np.float32)
    for i, place in enumerate(whole.scored.places):
        rows = slice(max(place.start, 0), place.start + whole.length)
        if place in learnt and not flagged[place.series][rows].any():
            scores[i] = detector.decision_scores_[learnt[place]]
            if views is not None and added is not None:
                added[i] = views[learnt[place]]
    held = {history.places[i] for i in hold_out(len(history), settings.validation, settings.seed)}
    absent = np.array([i for i, place in enumerate(whole.scored.places) if place not in learnt], dtype=np.int64)
    if len(absent):
        held |= {whole.scored.places[i] for i in absent[hold_out(len(absent), settings.validation, settings.seed)]}
    detector.decision_scores_, detector.history_views_ = scores, added
    detector.validation_scores_ = scores[[place in held for place in whole.scored.places]]
    detector._calibrate()


def _end(series: Sequence[Series]) -> int:
    return max(item.clock.start + len(item) * item.clock.interval for item in series)


def duration(text: str) -> int:
    """Return a duration such as 90d or 12h in nanoseconds."""
    found = re.fullmatch(r"(\d{1,6}) *(min|h|d|w)", text.strip())
    if found is None or not int(found[1]):
        raise DataError(f"A window is a whole number of min, h, d or w, such as 90d, but got {text!r}.")
    return int(found[1]) * UNITS[found[2]]
