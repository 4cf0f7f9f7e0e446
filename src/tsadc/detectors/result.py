"""What a detector found, as arrays per series (`SeriesResult`) and as data frames (`Result`).

Times are those of the input. An interval ends where the next row begins: `end` is exclusive."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tsadc.detectors.display import shown
from tsadc.detectors.drift import Drift
from tsadc.detectors.episodes import Similar, table
from tsadc.detectors.events import Events
from tsadc.detectors.interval_id import interval_id
from tsadc.detectors.missing import Missing
from tsadc.detectors.reasons import Reason
from tsadc.detectors.threshold import Threshold
from tsadc.detectors.usual import SeriesUsual
from tsadc.io.calendar import Span
from tsadc.series import Booleans, Clock, Floats, Observations, Place, Series
from tsadc.windows import mean_of_covering, stitch

BLAMED = 5  # variables named per interval, at most
LEAST_SHARE = 0.05
INTERVALS = [
    *("id", "entity", "start", "end", "score", "severity", "return_period"),
    *("kind", "reason", "evidence", "variables"),
]
MISSING = "missing"  # the evidence of sensors that stopped reporting
MOST_LASTING = 3  # observations in a row that are taken to be independent
MOST_YEARS = 100  # a longer return period says no more
YEAR = 365.25 * 86_400 * 10**9


@dataclass(frozen=True)
class Evidence:
    """What a detector says about one observation. Arrays end in the time axis; NaN where nothing was measured."""

    score: float
    view_scores: dict[str, float]  # the scores that were fused, by name
    steps: Floats  # (time,) scores; the highest is the score of the observation
    contributions: Floats  # (variable, time), >= 0
    causes: Floats  # (time,) position in `view_scores` of the view that contributes most
    expected: Floats | None = None  # (variable, time), in z units


@dataclass(frozen=True)
class Interval:
    """One anomaly: rows [start, stop) of a series."""

    start: int
    stop: int
    score: float
    severity: float
    return_period: float  # in rows
    evidence: str
    variables: dict[str, float]
    reason: Reason | None = None
    # Most similar first; None for a sensor that stopped reporting, and for a model of an earlier version.
    similar: tuple[Similar, ...] | None = None

    @property
    def is_missing(self) -> bool:
        """Whether it is a sensor that stopped reporting, and has no score of its own."""
        return self.evidence == MISSING

    def id(self, series: Series) -> str:
        """Return the name of the interval, which is also that of the interval as it grows with later data."""
        return id_of(series.entity, series.clock.tick(self.start), self.evidence, self.variables)

    def why(self, clock: Clock) -> tuple[str, str]:
        """Return the kind of the reason, and the reason in a sentence."""
        if self.reason is None:
            return "other", f"No single measure stands out; the view {self.evidence!r} does."
        return self.reason.kind, self.reason.sentence(clock)


@dataclass(frozen=True, eq=False)
class SeriesResult:
    """What was found in one series, row by row.

    Attributes
    ----------
    series : Series
        The input.
    scores : array of shape (row,), float32
        Score of each row, as in `Result.timeline`; NaN where nothing was measured or no observation covers the row.
    step_scores : array of shape (row,)
        The scores that the verdict was made from: the score of each row within its observation. The highest of them
        is the score of the observation. The same as `scores`, unless those are means of overlapping observations. Every
        interval that a score has opened has a row with `step_scores - raised` above the threshold, and no row outside
        is above it, apart from events that `event.minimum` drops. Plots and reports draw this score.
    raised : array of shape (row,)
        How much the threshold was raised because recent scores lie above those of the history.
    anomalous : array of shape (row,), bool
        Whether the row lies in an interval.
    contributions : array of shape (row, variable), float32
        How much each value contributes to the score, 0 or more.
    expected : array of shape (row, variable), float32, or None
        The values that the detector expected, in the units of the input; None if it has no expectation.
    intervals : tuple of Interval
        The anomalies, in order of time.
    usual : SeriesUsual or None
        What is usual for the series; None for a model of an earlier version.
    planned : tuple of Span
        Rows of planned work, which are not judged, as `tsadc.io.calendar.Span`.
    """

    series: Series
    scores: Floats
    step_scores: Floats
    raised: Floats
    anomalous: Booleans
    contributions: Floats
    expected: Floats | None
    intervals: tuple[Interval, ...]
    usual: SeriesUsual | None = None
    planned: tuple[Span, ...] = ()

    @cached_property
    def band(self) -> tuple[Floats, Floats] | None:
        """Lower and upper limit of what is usual, of shape (row, variable), float32, in the units of the input."""
        return None if self.usual is None else self.usual.band(0, len(self.series))

    @property
    def times(self) -> pd.Index:
        """Time of each row."""
        return self.series.clock.at(np.arange(len(self.series)))


@dataclass(frozen=True, eq=False)
class Result:
    """What a detector found in new data: when, in which variables, and how severe.

    The data frames are built from the arrays when first used. Scores have no unit, and are comparable only within one
    model; higher is more anomalous. With `scoring="fused"`, and for `Ensemble`, a score is a weighted sum of
    logarithms: 0 is usual, and a score may be negative.

    Attributes
    ----------
    intervals : DataFrame
        One row per anomaly. `id`, a short name that stays the same as the interval grows with later data, for `tsadc
        label` and `Detector.feedback`; `entity`; `start` and `end` (exclusive), times of the input; `score`, the
        highest of its steps, or for a sensor that stopped reporting that of an observation as rare; `severity`, from 0
        to 100, the chance in percent that a normal week of this entity has no score as high (10,080 rows instead of a
        week if the data has no clock); `return_period`, how much time of normal operation passes on average until this
        entity scores as high (a Timedelta, at most 100 years; without a clock a number of rows); `kind`, what is
        unusual about the variable that stands out: level, spike, spread, frequency, correlation, stuck, missing, or
        other if nothing measurable stands out; `reason`, a sentence about it with numbers; `evidence`, the view that
        contributes most at the highest row; `variables`, a dict from variables to their shares of the blame, largest
        first: at most 5, and without those below 5 % unless it is the largest, so that they need not add up to 1.
    timeline : DataFrame
        One row per row of the input. `entity`, `time`, `score` (NaN where nothing was measured or no observation covers
        the row), `anomalous`, whether it lies in an interval. The score of a row is that of its step within the
        observation; for `Ensemble`, it is the mean score of the overlapping observations that cover the row, which
        ranks rows better, but can be above the threshold outside an interval and below it inside. What is compared
        with the threshold is `SeriesResult.step_scores`.
    variables : DataFrame
        Contribution (0 or more) of each variable, one column each, to the score of each row. Index: `entity`, `time`.
    observations : DataFrame
        One row per observation. `entity`, `start`, `end` (exclusive); `coverage`, the share of its rows with values;
        `score`; `threshold`, raised if recent scores lie above those of the history; one column `<view>_score` per
        view, what the view adds to the score (with `scoring="own"` the method's own scores instead, which need not add
        up: those of TSADC are two RMSEs before they are weighted); `anomalous`.
    similar : DataFrame
        Past episodes that resemble an interval, at most 3 each, most similar first. `interval`, the row of `intervals`;
        `entity`, `start` and `end` (exclusive) of the episode; `similarity`, from 0.7 to 1, where 1 means that the same
        variables are to blame and deviate in the same way; `origin`, "history" if the model learnt it in `fit`,
        "result" if it is an earlier interval of the same entity in this result; `kind`, as in `intervals`. An interval
        that resembles nothing has no row. `tsadc.detectors.episodes` defines the similarity.
    usual : DataFrame or None
        The usual band of each variable, in the units of the input: columns (variable, "lower") and (variable, "upper"),
        the index of `variables`. About 98 % of normal values lie inside. Detectors with an ensemble predict it from the
        other variables. None for a model of an earlier version.
    expected : DataFrame or None
        The values that the detector expected, in the units of the input, in the layout of `variables`. None if the
        detector has no expectation.
    planned : DataFrame
        Planned work, by calendar or by verdict, which is not judged. `entity`, `start`, `end` (exclusive), `variables`
        (a list; empty: all of them) and `note`.
    drift : tuple of Drift
        Entities that differ as a whole from what was learnt, with since when, and which variables moved; see
        `tsadc.detectors.drift`.
    threshold : float
        Observations that score higher are anomalous. `raised` is added to it.
    middle : float
        Median training score.
    length : int
        Rows of an observation.
    false_alarm_share : float
        Share of normal observations that are expected above the threshold, from the scores of the history.
    false_alarms : float
        How many normal observations are expected above the threshold by chance, among those that were scored. Those
        below their threshold count as normal; they are the share 1 - `false_alarm_share` of the normal ones. Adjacent
        observations become one interval, so fewer intervals are expected.
    left_out : int
        Number of observations that were not scored because too few of their rows have values.
    series : tuple of Series
        The input.
    parts : tuple of SeriesResult
        The same as arrays, one part per series.
    scored : Observations
        The observations that were scored, in the order of `observations`.
    scores : array of shape (n_observations,)
        Score of each observation.
    view_scores : dict of str to array of shape (n_observations,)
        The columns `<view>_score` of `observations`, by view.
    raised : array of shape (n_observations,)
        How much the threshold was raised for each observation; see `tsadc.detectors.drift`.

    Examples
    --------
    >>> import numpy as np
    >>> import tsadc
    >>> generator = np.random.default_rng(0)
    >>> detector = tsadc.Ensemble(length=60).fit(generator.normal(size=(3000, 3)))
    >>> new = generator.normal(size=(600, 3))
    >>> new[300:330, 1] += 8
    >>> result = detector.detect(new)
    >>> result.timeline.shape, result.variables.shape, result.observations.shape[0]
    ((600, 4), (600, 3), 10)
    >>> worst = result.worst(1).iloc[0]
    >>> int(worst["start"]), next(iter(worst["variables"]))
    (300, 'variable_1')
    """

    parts: tuple[SeriesResult, ...]
    scored: Observations
    scores: Floats
    view_scores: dict[str, Floats]
    raised: Floats
    threshold: float
    middle: float
    length: int
    false_alarm_share: float
    left_out: int = 0
    drift: tuple[Drift, ...] = ()

    @property
    def series(self) -> tuple[Series, ...]:
        return tuple(part.series for part in self.parts)

    @property
    def false_alarms(self) -> float:
        below = int((self.scores <= self.threshold + self.raised).sum())
        share = self.false_alarm_share
        normal = min(len(self.scores), below / (1 - share)) if share < 1 else len(self.scores)
        return normal * share

    @cached_property
    def intervals(self) -> pd.DataFrame:
        rows = []
        for part in self.parts:
            for found in part.intervals:
                start, end = part.series.clock.at([found.start, found.stop])
                period = as_period(found.return_period, part.series.clock)
                graded = [found.score, found.severity, period]
                explained = [*found.why(part.series.clock), found.evidence, found.variables]
                rows.append([found.id(part.series), part.series.entity, start, end, *graded, *explained])
        return pd.DataFrame(rows, columns=INTERVALS)

    @cached_property
    def similar(self) -> pd.DataFrame:
        return table(found.similar for part in self.parts for found in part.intervals)

    @cached_property
    def planned(self) -> pd.DataFrame:
        rows = []
        for part in self.parts:
            names = part.series.names
            for span in part.planned:
                start, end = part.series.clock.at([span.start, span.stop])
                named = [] if len(span.columns) == len(names) else [names[k] for k in span.columns]
                rows.append([part.series.entity, start, end, named, span.note])
        return pd.DataFrame(rows, columns=["entity", "start", "end", "variables", "note"])

    @cached_property
    def timeline(self) -> pd.DataFrame:
        frames = []
        for part in self.parts:
            columns = {"time": part.times, "score": part.scores, "anomalous": part.anomalous}
            frames.append(pd.DataFrame({"entity": part.series.entity, **columns}))
        return pd.concat(frames, ignore_index=True)

    @cached_property
    def variables(self) -> pd.DataFrame:
        return self._by_variable(lambda part: part.contributions)

    @cached_property
    def expected(self) -> pd.DataFrame | None:
        if any(part.expected is None for part in self.parts):
            return None
        return self._by_variable(lambda part: part.expected)

    @cached_property
    def usual(self) -> pd.DataFrame | None:
        if any(part.band is None for part in self.parts):
            return None
        limits = [self._by_variable(lambda part, i=i: part.band[i]) for i in (0, 1)]  # type: ignore[misc]
        both = pd.concat(limits, axis=1, keys=["lower", "upper"]).swaplevel(axis=1)
        return both[[(name, limit) for name in limits[0].columns for limit in ("lower", "upper")]]

    @cached_property
    def observations(self) -> pd.DataFrame:
        rows = []
        for i, place in enumerate(self.scored.places):
            series = self.scored.series[place.series]
            first, last = max(place.start, 0), min(place.start + self.length, len(series))
            start, end = series.clock.at([first, last])
            score, threshold = float(self.scores[i]), self.threshold + float(self.raised[i])
            views = [float(view[i]) for view in self.view_scores.values()]
            judged = [self.scored.coverage(i), score, threshold, *views, score > threshold]
            rows.append([series.entity, start, end, *judged])
        names = [f"{name}_score" for name in self.view_scores]
        columns = ["entity", "start", "end", "coverage", "score", "threshold", *names, "anomalous"]
        return pd.DataFrame(rows, columns=columns)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per row of the input, with the verdict and the measured values side by side.

        Returns
        -------
        DataFrame
            `entity`, `time`, `score` and `anomalous` as in `timeline`, then one column per variable with the measured
            values. A variable that has the name of one of these four is called `<name>_value`.
        """
        values = pd.concat(
            [pd.DataFrame(np.asarray(part.series.values), columns=list(part.series.names)) for part in self.parts],
            ignore_index=True,
        )
        taken = {name: f"{name}_value" for name in values if name in self.timeline}
        return pd.concat([self.timeline, values.rename(columns=taken)], axis=1)

    def report(self, path: str | Path, *, title: str = "Detection") -> Path:
        """Write the report, one self-contained HTML page.

        Parameters
        ----------
        path : path
            The file to write; an earlier report is replaced.
        title : str, default "Detection"
            The heading of the page.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        OutputError
            If the file cannot be written.
        """
        written: Path = shown("report.write", self, path, title=title)
        return written

    def plot(
        self, variables: Sequence[str] | None = None, interval: int | None = None, *, entity: str | None = None
    ) -> Any:
        """Draw the score and variables over time with matplotlib (extra `plot`), intervals shaded.

        Parameters
        ----------
        variables : sequence of str, optional
            The variables to draw. None: those that are blamed for the interval, or most often, at most 4.
        interval : int, optional
            Row of `intervals` to draw, with some time before and after it. None: all rows of an entity.
        entity : str, optional
            The entity to draw. None: that of the interval, or the one with the worst interval.

        Returns
        -------
        array of matplotlib axes
            The score, then one axis per variable.

        Raises
        ------
        DataError
            If there is no such variable, interval or entity.
        TsadcError
            If matplotlib is not installed.
        """
        return shown("plot.draw", self, variables, interval, entity)

    def __repr__(self) -> str:
        return f"<Result: {shown('notebook.headline', self)}>"

    def _repr_html_(self) -> str:
        text: str = shown("notebook.result_html", self)
        return text

    def worst(self, count: int = 3) -> pd.DataFrame:
        """Return the intervals with the highest severities, highest first; of equal ones, by score.

        Parameters
        ----------
        count : int, default 3
            Number of intervals, at most.

        Returns
        -------
        DataFrame
            Rows of `intervals`.
        """
        return worst(self.intervals, count)

    def _by_variable(self, values: Callable[[SeriesResult], Floats | None]) -> pd.DataFrame:
        frames = []
        for part in self.parts:
            entities = [part.series.entity] * len(part.series)
            index = pd.MultiIndex.from_arrays([entities, part.times], names=["entity", "time"])
            frames.append(pd.DataFrame(values(part), index=index, columns=list(part.series.names)))
        return pd.concat(frames)


def id_of(entity: str, tick: int, evidence: str, variables: Iterable[str]) -> str:
    """Return the name of an interval that begins at `tick`. A sensor that stops reporting has a name of its own, as
    another interval may begin at the same time."""
    missing = [MISSING, *list(variables)[:1]] if evidence == MISSING else []
    return interval_id(entity, tick, *missing)


def worst(intervals: pd.DataFrame, count: int = 3) -> pd.DataFrame:
    """Return the `count` intervals with the highest severities, highest first; of equal ones, by score."""
    return intervals.sort_values(["severity", "score"], ascending=False, kind="stable").head(count)


def join(parts: Sequence[Result], series: Sequence[Series]) -> Result:
    """Return the results of `series`, one part each, as one; the parts are in the order of the series."""
    places = [Place(number, place.start) for number, part in enumerate(parts) for place in part.scored.places]
    first = parts[0]
    return replace(
        first,
        parts=tuple(
            replace(own, series=whole) for part, whole in zip(parts, series, strict=True) for own in part.parts
        ),
        scored=Observations(tuple(series), tuple(places), first.length),
        scores=np.concatenate([part.scores for part in parts]),
        view_scores={name: np.concatenate([part.view_scores[name] for part in parts]) for name in first.view_scores},
        raised=np.concatenate([part.raised for part in parts]),
        drift=tuple(drift for part in parts for drift in part.drift),
    )


def assemble(
    observations: Observations,
    evidence: Sequence[Evidence],
    threshold: Threshold,
    events: Events,
    raised: Floats,
    view_names: Sequence[str],
    further: tuple[Observations, Floats] | None = None,
) -> Result:
    """Stitch the evidence of the observations of one series into a Result. `view_names` is used without evidence.

    `raised` is how much the threshold is raised for each observation. `further` holds observations that overlap these,
    and their scores; if given, a row scores as the mean of all observations that cover it, otherwise as its step. Only
    observations above the threshold have intervals."""
    names = list(evidence[0].view_scores) if evidence else list(view_names)
    scores = np.array([found.score for found in evidence], dtype=np.float64)
    part = _series_result(observations, evidence, threshold, events, names, raised)
    if further is not None:
        rows = np.where(np.isnan(part.scores), np.nan, mean_of_covering([(observations, scores), further], 0))
        part = replace(part, scores=rows.astype(np.float32))
    return Result(
        parts=(part,),
        scored=observations,
        scores=scores,
        view_scores={
            name: np.array([found.view_scores[name] for found in evidence], dtype=np.float64) for name in names
        },
        raised=raised,
        threshold=threshold.value,
        middle=threshold.middle,
        length=observations.length,
        false_alarm_share=threshold.normal.above(threshold.value),
    )


def with_missing(result: Result, missing: Sequence[Missing], threshold: Threshold) -> Result:
    """Add events of kind "missing" to the result of one series.

    They have no score of their own. An observation without the variable is rarer than one in all of the history, so
    they get the score of so rare an observation; of up to three in a row if they last longer. It is at least the
    threshold."""
    [part] = result.parts
    if not missing:
        return result
    anomalous, intervals = part.anomalous.copy(), list(part.intervals)
    for run in missing:
        anomalous[max(run.start, 0) : run.stop] = True
        if run.start < 0:  # reported where it began
            continue
        lasting = min((run.stop - run.start) / result.length, MOST_LASTING)
        rare = (len(threshold.normal.kept) + 1) ** -lasting
        score = max(threshold.normal.at(rare), threshold.value)
        names = [part.series.names[k] for k in run.variables]
        shares = dict.fromkeys(names[:BLAMED], math.floor(1000 / len(names)) / 1000)
        period = threshold.return_period(score) * result.length
        every = len(names) == len(part.series.names)
        reason = Reason("missing", names[0], run.start, run.stop, 1.0, others=len(names) - 1, every=every)
        graded = score, threshold.severity(score), period
        intervals.append(Interval(run.start, run.stop, *graded, MISSING, shares, reason))
    intervals.sort(key=lambda found: found.start)
    return replace(result, parts=(replace(part, anomalous=anomalous, intervals=tuple(intervals)),))


def _series_result(
    whole: Observations,
    evidence: Sequence[Evidence],
    threshold: Threshold,
    events: Events,
    names: list[str],
    raised_by: Floats,
) -> SeriesResult:
    series = whole.series[0]
    lead = (len(series.names),)
    scores = stitch(whole, [found.steps for found in evidence], 0)
    contributions = stitch(whole, [found.contributions for found in evidence], 0, lead=lead).T
    causes = stitch(whole, [found.causes for found in evidence], 0)
    raised = stitch(whole, [np.full(whole.length, each) for each in raised_by], 0, fill=0.0)
    above = [found.score > threshold.value + own for found, own in zip(evidence, raised_by, strict=True)]
    inside = stitch(whole, [np.full(whole.length, each) for each in above], 0, fill=False)
    # In double precision, like the score of an observation: against float32 numpy would round the threshold.
    judged = np.where((inside == 1) & ~np.isnan(scores), scores.astype(np.float64) - raised, -np.inf)
    anomalous: Booleans = np.zeros(len(series), dtype=bool)
    intervals = []
    for start, stop in _events(whole, judged, threshold, events):
        anomalous[start:stop] = True
        highest = start + int(judged[start:stop].argmax())
        score, graded = float(scores[highest]), float(judged[highest])
        view = names[int(causes[highest])] if names else ""
        shares = _shares(series.names, contributions[start:stop])
        period = threshold.return_period(graded) * whole.length
        intervals.append(Interval(start, stop, score, threshold.severity(graded), period, view, shares))
    expected = [found.expected for found in evidence if found.expected is not None]
    values = stitch(whole, expected, 0, lead=lead).T if len(expected) == len(evidence) else None
    return SeriesResult(series, scores, scores, raised, anomalous, contributions, values, tuple(intervals))


def _events(whole: Observations, judged: Floats, threshold: Threshold, events: Events) -> Iterator[tuple[int, int]]:
    """Yield the events of a series; separate observations, laid end to end, have events of their own."""
    separate = whole.series[0].observation
    for first in range(0, len(judged), separate or max(len(judged), 1)):
        part = judged[first : first + separate] if separate else judged
        for start, stop in events.find(part, threshold.value, threshold.middle):
            yield first + start, first + stop


def as_period(rows: float, clock: Clock) -> pd.Timedelta | float:
    """Return a number of rows as a length of time, if the clock has one."""
    if clock.every is None:
        return rows
    return pd.Timedelta(int(min(rows * clock.every, MOST_YEARS * YEAR)), unit="ns")


def _shares(names: tuple[str, ...], contributions: Floats) -> dict[str, float]:
    # Squares, so that one variable far off outweighs many that are a little off.
    weight = np.nansum(np.square(contributions, dtype=np.float64), axis=0)
    total = float(weight.sum())
    if not 0 < total < np.inf:
        return {}
    order = np.argsort(-weight, kind="stable")[:BLAMED]
    # Rounded down, except for float error, so that the shares never add up to more than 1.
    shares = {names[int(k)]: math.floor(1000 * weight[k] / total + 1e-3) / 1000 for k in order}
    first = next(iter(shares))
    return {name: share for name, share in shares.items() if share >= LEAST_SHARE or name == first}
