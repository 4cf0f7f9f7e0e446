"""Audit a history: which parts of the data that a detector is to learn from look anomalous, and how surely.

    name          meaning
    fold          contiguous observations of every entity that one model is not trained on, and judges
    normal        distribution of the training scores of a fold without the highest: for a threshold those count as
                  normal that may be (`Detector.normal_`), here one half of the share that is in doubt
    z             score of an observation as a standard normal deviate: the share of normal observations that score
                  higher, by the model of its fold, read on a Gaussian; standardised by middle and spread of all z
    p             share of a Student distribution above z, which has a degree of freedom for every ten observations and
                  the middle and lower spread of a standard Gaussian
    f             density of all p by Grenander: the slope of the least concave majorant of their distribution function
    share         what lies above the fence of z in excess of what lies below its mirror image (`threshold`)
    excess        f - (1 - share) where that is positive, scaled to the mass `share`
    probability   excess / (1 - share + excess), that an observation is anomalous: 1 - the local false discovery rate
    mean          of the probabilities: the contamination, with the interval of resampled observations

Every model has its own scores, so they are compared through p. Training scores of some detectors are too low, as they
have learnt from what they score; standardising the z of all folds, which have not, removes that (Efron's empirical
null). Middle and spread are estimates, and few observations leave the tail in doubt. Hence Student's distribution: by a
Gaussian, every fifth history of 50 normal observations has one that is anomalous with more than 90 %; of 500, hardly
any, and there both distributions are nearly the same. Normal p are uniform and anomalous ones are small, so f falls
from the anomalous to the normal, and Grenander's estimate of a falling density needs no bandwidth. At the smallest p it
is too high, by a factor that is uniformly distributed (Daniels), and would find anomalies in clean data; hence the
scaling. It is a compromise: the share is a lower bound, as anomalies below the fence are not counted, and the mean
probability lies between it and the mass of the unscaled excess, nearer to the truth than either
(`tests/detectors/test_audit.py`).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression
from scipy.special import ndtri_exp
from scipy.stats import t as student

from tsadc.config import is_whole, require
from tsadc.detectors.base import MIN_OBSERVATIONS, Detector, ScoringProgress
from tsadc.detectors.drift import raised_by
from tsadc.detectors.episodes import Episodes
from tsadc.detectors.events import Events
from tsadc.detectors.interval_id import interval_id
from tsadc.detectors.planned import expected_events, masked, with_planned
from tsadc.detectors.provenance import describe
from tsadc.detectors.result import Evidence, Interval, Result, as_period, assemble, join
from tsadc.detectors.review import Part, marked, names_text
from tsadc.detectors.threshold import (
    BELOW,
    FENCE,
    LARGEST_SAMPLE,
    QUARTER,
    RESAMPLES,
    Contamination,
    Normal,
    Threshold,
    explain,
    observations_per_week,
)
from tsadc.detectors.threshold import LEVEL as CONFIDENCE
from tsadc.detectors.threshold import _excess as excess_above_fence
from tsadc.errors import DataError, TsadcNotice, collected_notices, notice
from tsadc.io.calendar import Calendar
from tsadc.io.memory import as_series
from tsadc.io.reading import Reading
from tsadc.series import Booleans, Clock, Floats, Observations, Series, without_rows
from tsadc.subsample import evenly_spaced
from tsadc.windows import cut, section

if TYPE_CHECKING:
    from tsadc.nn.train import TrainingProgress

FOLDS = 5
LEAST_PROBABILITY = 0.2  # of an interval that is worth a look
LEVEL = 0.5  # from here on, anomalous is more likely than normal
LEAST_SPREAD = 1e-9
LEAST_BLOCK = 4  # observations; of smaller ones the neighbours are trained on
NARROWEST = 1e-300  # smallest p
PER_DEGREE = 10  # observations per degree of freedom
BLAMED_SHARE = 0.2  # of the contributions; a variable with less is only mentioned
COLUMNS = [
    *("id", "entity", "start", "end", "probability", "score", "return_period"),
    *("kind", "reason", "evidence", "variables"),
]


@dataclass(frozen=True)
class FoldProgress:
    """Progress of an audit: `done` of `total` models are trained, after `seconds`."""

    done: int
    total: int
    seconds: float

    @property
    def seconds_left(self) -> float:
        """Estimated from the models that are done."""
        return self.seconds * (self.total - self.done) / max(self.done, 1)


AuditCallback = Callable[["TrainingProgress | ScoringProgress | FoldProgress | Plan"], None]


@dataclass(frozen=True)
class Suspect:
    """An interval of the history that looks anomalous.

    Attributes
    ----------
    id : str
        Digest of entity, start and end (`interval_id`).
    number : int
        Position of its series in `Audit.series`.
    entity : str
    clock : Clock
        Of the series.
    interval : Interval
        Rows `start` to `stop`, the score in standard deviations of normal scores, return period, evidence, reason and
        `variables` with their shares.
    probability : float
        Probability that it is anomalous: that of its strongest observation.
    """

    id: str
    number: int
    entity: str
    clock: Clock
    interval: Interval
    probability: float

    @property
    def blamed(self) -> tuple[str, ...]:
        """The variables to blame for the interval."""
        return blamed(self.interval)

    @property
    def decision(self) -> str:
        """What a review is proposed to decide: "drop" if it is more likely anomalous than normal, otherwise "keep"."""
        return "drop" if self.probability >= LEVEL else "keep"


@dataclass(frozen=True, eq=False)
class Model:
    """A detector trained for comparison, with or without what the audit suspects.

    Attributes
    ----------
    observations : int
        Number of observations that it was trained on.
    contamination : Contamination
        Share of them that its own scores show to be anomalous.
    threshold : float
        Comparable with no score of another model.
    alarms : str
        The false alarms to be expected, and how the threshold was chosen.
    suspects_flagged : int
        How many of the suspected observations it flags.
    others_flagged : int
        How many of the other observations it flags.
    flagged : array of shape (n_observations,), bool
        Whether it flags each observation of the history; one that it was trained on by its training score.
    """

    observations: int
    contamination: Contamination
    threshold: float
    alarms: str
    suspects_flagged: int
    others_flagged: int
    flagged: Booleans = field(repr=False)


@dataclass(frozen=True)
class Cost:
    """What an audit has cost: the number of models that were trained, the observations that the model of each fold was
    trained on, and the seconds."""

    models: int
    observations: tuple[int, ...]
    seconds: float


@dataclass(frozen=True, eq=False)
class Audit:
    """Which parts of a history look anomalous, judged by models that were not trained on them.

    Attributes
    ----------
    suspects : tuple of Suspect
        The suspected intervals, the most probable first. Those with a probability below 0.2 are left out.
    contamination : Contamination
        Estimated share of anomalous observations, `share`, with its 90 % interval, `low` and `high`.
    result : Result
        The cross-fitted scores, contributions and intervals. Scores are in standard deviations of normal scores.
    probabilities : array of shape (n_observations,)
        Probability that each observation of `result.scored` is anomalous.
    folds : array of shape (n_observations,)
        Fold of each observation, from 0.
    whole : Model
        The detector trained on the whole history.
    without : Model or None
        The detector trained without the rows that are suspected with a probability of at least 0.5; None if too few
        are left.
    cost : Cost
    data : dict
        Size and digest of the history, as in `Detector.provenance_`.
    detector : str
        Name of the detector.
    settings : object
        Its settings.

    Examples
    --------
    >>> import numpy as np
    >>> import tsadc
    >>> generator = np.random.default_rng(0)
    >>> history = generator.normal(size=(6000, 3))
    >>> history[3000:3060, 1] += 6
    >>> found = tsadc.audit(tsadc.Ensemble(length=60), history)
    >>> found.to_frame()[["start", "end"]].values.tolist()
    [[3000, 3060]]
    >>> [cells.sum(axis=0).tolist() for cells in found.suspected()]
    [[0, 60, 0]]
    """

    suspects: tuple[Suspect, ...]
    contamination: Contamination
    result: Result
    probabilities: Floats
    folds: NDArray[np.int64]
    whole: Model
    without: Model | None
    cost: Cost
    data: dict[str, Any]
    detector: str
    settings: Any = field(repr=False)

    @property
    def series(self) -> tuple[Series, ...]:
        """The history."""
        return self.result.series

    @property
    def share(self) -> float:
        """Estimated share of anomalous observations."""
        return self.contamination.share

    @property
    def low(self) -> float:
        """Lower end of the 90 % interval of `share`."""
        return self.contamination.low

    @property
    def high(self) -> float:
        """Upper end of the 90 % interval of `share`."""
        return self.contamination.high

    def to_frame(self) -> pd.DataFrame:
        """Return one row per suspect, the most probable first.

        Returns
        -------
        DataFrame
            `id`, `entity`, `start`, `end` (exclusive), `probability`, and the columns of `Result.intervals` except the
            severity.
        """
        rows = []
        for suspect in self.suspects:
            interval, clock = suspect.interval, suspect.clock
            start, end = clock.at([interval.start, interval.stop])
            period = as_period(interval.return_period, clock)
            graded = [suspect.probability, interval.score, period]
            explained = [*interval.why(clock), interval.evidence, interval.variables]
            rows.append([suspect.id, suspect.entity, start, end, *graded, *explained])
        return pd.DataFrame(rows, columns=COLUMNS)

    def review(self) -> pd.DataFrame:
        """Return the lines of a review file, one per suspect, with the decision that the probability proposes.

        Returns
        -------
        DataFrame
            `id`, `entity`, `start`, `end`, `probability`, `kind`, `variables` (those to blame), `reason`,
            `decision` ("keep", "drop" or "fix") and an empty `comment`. As a CSV file it is read by
            `tsadc fit --review` and `tsadc.detectors.review.read_review`.
        """
        table = self.to_frame()
        return table[["id", "entity", "start", "end", "probability", "kind"]].assign(
            variables=pd.Series([names_text(suspect.blamed) for suspect in self.suspects], dtype=object),
            reason=table["reason"],
            decision=pd.Series([suspect.decision for suspect in self.suspects], dtype=object),
            comment="",
        )

    def suspected_rows(self, level: float = LEVEL) -> tuple[Booleans, ...]:
        """Return for each series which rows lie in intervals with at least this probability.

        Parameters
        ----------
        level : float, default 0.5
            Least probability of an interval.

        Returns
        -------
        tuple of array of shape (time,), bool
        """
        rows = tuple(np.zeros(len(series), dtype=bool) for series in self.series)
        for suspect in self.suspects:
            if suspect.probability >= level:
                rows[suspect.number][suspect.interval.start : suspect.interval.stop] = True
        return rows

    def suspected(self, level: float = LEVEL) -> tuple[Booleans, ...]:
        """Return for each series which cells are suspected: the variables to blame, in the rows of the intervals.

        Parameters
        ----------
        level : float, default 0.5
            Least probability of an interval.

        Returns
        -------
        tuple of array of shape (time, variable), bool
        """
        parts = [
            part_of(suspect.number, self.series[suspect.number], suspect.interval)
            for suspect in self.suspects
            if suspect.probability >= level
        ]
        return marked(self.series, parts)


def blamed(interval: Interval) -> tuple[str, ...]:
    """Return the variables that carry at least 20 % of the contributions to an interval, and in any case the first."""
    shares = interval.variables.items()
    return tuple(name for i, (name, share) in enumerate(shares) if share >= BLAMED_SHARE or i == 0)


def part_of(number: int, series: Series, interval: Interval) -> Part:
    """Return the cells to blame for an interval of series `number`."""
    names = blamed(interval)
    columns = tuple(k for k, name in enumerate(series.names) if name in names)
    return Part(number, interval.start, interval.stop, columns)


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
        fitted = detector if _is_fitted_to(detector, planned) else _clone(detector)
        with collected_notices() as about_fit:
            if fitted is not detector:
                fitted.fit(history.series, progress=progress)
        _report(progress, models - 1, models, begun)
        cleaned = _without_suspects(history, parts, estimate)
        other = fitted if cleaned is None else _fitted_or_none(_clone(detector), cleaned, progress)
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


@dataclass(frozen=True, eq=False)
class Fold:
    """The observations that a model judges, and those that it is not trained on: these, and those next to them."""

    judged: NDArray[np.int64]
    left_out: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Plan:
    """How a history is divided: its observations, their clock and the folds."""

    history: Observations
    clock: Clock
    folds: tuple[Fold, ...]

    @cached_property
    def data(self) -> dict[str, Any]:
        """Size and digest of the history."""
        return describe(self.history)

    @property
    def fold_of(self) -> NDArray[np.int64]:
        """The fold of each observation."""
        folds = np.empty(len(self.history), dtype=np.int64)
        for number, fold in enumerate(self.folds):
            folds[fold.judged] = number
        return folds

    @property
    def trained_on(self) -> tuple[int, ...]:
        """The number of observations that the model of each fold is trained on."""
        return tuple(len(self.history) - len(fold.left_out) for fold in self.folds)

    def training(self, fold: Fold) -> list[Series]:
        """Return the series with the rows of the fold missing; a series that has no others is left out."""
        missing = [np.zeros(len(series), dtype=bool) for series in self.history.series]
        for i in fold.left_out:
            place = self.history.places[i]
            missing[place.series][max(place.start, 0) : place.start + self.history.length] = True
        kept = [without_rows(*pair) for pair in zip(self.history.series, missing, strict=True)]
        return [series for series in kept if np.isfinite(series.values).any()]


@dataclass(frozen=True, eq=False)
class JudgedFold:
    """What the model of a fold says about it.

    Attributes
    ----------
    number : int
        Position of the fold in `Plan.folds`.
    evidence : tuple of Evidence
        Of each observation in `Fold.judged`, with all scores as normal deviates.
    memory : int
        `Detector.memory_` of the model, at least 1.
    views : tuple of str
        `Detector.view_names` of the model.
    """

    number: int
    evidence: tuple[Evidence, ...]
    memory: int
    views: tuple[str, ...]


def judge_fold(detector: Detector, planned: Plan, number: int, progress: AuditCallback | None = None) -> JudgedFold:
    """Train a model outside of a fold and judge the fold by it. The detector stays as it is."""
    fold = planned.folds[number]
    model = _clone(detector).fit(planned.training(fold), progress=progress)
    evidence = tuple(_deviates(model, planned.history.take(fold.judged), progress))
    return JudgedFold(number, evidence, model.memory_ or 1, model.view_names)


Runner = Callable[[Detector, Plan], Iterable[JudgedFold]]


def plan(detector: Detector, X: Any, folds: int = FOLDS) -> Plan:
    """Divide a history into folds: each entity into contiguous blocks of observations, one per fold.

    An entity with fewer observations than folds is not divided; such entities take turns."""
    require(is_whole(folds) and folds >= 2, "folds", "a whole number of at least 2", folds)
    history, clock, _ = _clone(detector).prepare(X)
    judged: list[list[int]] = [[] for _ in range(folds)]
    left_out: list[set[int]] = [set() for _ in range(folds)]
    undivided = 0
    for series, places in zip(history.series, history.by_series(), strict=True):
        if len(places) < folds:
            judged[undivided % folds] += places
            left_out[undivided % folds] |= set(places)
            undivided += bool(places)
            continue
        # Separate observations have no neighbours; of a short history they would be most of what is left.
        around = 0 if series.observation or len(places) < LEAST_BLOCK * folds else 1
        for number, block in enumerate(np.array_split(np.arange(len(places)), folds)):
            judged[number] += [places[i] for i in block]
            left_out[number] |= set(places[max(block[0] - around, 0) : block[-1] + around + 1])
    if not all(judged):
        usable = sum(map(bool, judged))
        raise DataError(
            f"The history cannot be divided into {folds} folds: its entities have fewer than {folds} observations of "
            f"{history.length} rows each, and only {usable} {'folds have' if usable > 1 else 'fold has'} data; use "
            "fewer folds, a smaller length or more data."
        )
    parts = (
        Fold(np.array(sorted(inside)), np.array(sorted(out))) for inside, out in zip(judged, left_out, strict=True)
    )
    planned = Plan(history, clock, tuple(parts))
    fewest = min(planned.trained_on)
    if fewest < MIN_OBSERVATIONS:
        raise DataError(
            f"An audit needs at least {MIN_OBSERVATIONS} observations of {history.length} rows outside each of the "
            f"{folds} folds to train on, but the history of {len(history)} observations leaves {fewest}; use a smaller "
            "length or more data."
        )
    return planned


@dataclass(frozen=True, eq=False)
class Estimate:
    """What the deviates of all observations say together.

    Attributes
    ----------
    contamination : Contamination
    middle, spread : float
        By which deviates are standardised.
    normal : Normal
        Distribution of the standardised deviates of normal observations, for return periods.
    threshold : float
        Standardised deviates above it have a probability of at least 0.2.
    edges : array of shape (segment + 1,)
        The p at which the probability changes.
    levels : array of shape (segment,)
        The probability in between.
    observations : int
    """

    contamination: Contamination
    middle: float
    spread: float
    normal: Normal
    threshold: float
    edges: Floats
    levels: Floats
    observations: int

    @classmethod
    def of(cls, deviates: Floats, stated: float | Literal["auto"], seed: int) -> Self:
        """Estimate from the deviates of all observations, each by a model that has not learnt from it."""
        mixture = _Mixture.of(deviates, stated)
        contamination = Contamination(mixture.share, mixture.share, mixture.share, True)
        if stated == "auto":
            sample, generator = deviates[evenly_spaced(len(deviates), LARGEST_SAMPLE)], np.random.default_rng(seed)
            draws = generator.integers(0, len(sample), (RESAMPLES, len(sample)))
            shares = [_Mixture.of(sample[draw], stated).mean for draw in draws]
            low, high = np.quantile(shares, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]).tolist()
            contamination = Contamination(mixture.mean, min(low, mixture.mean), max(high, mixture.mean), False)
        z = (deviates - mixture.middle) / mixture.spread
        normal = Normal.of(z, contamination)
        null = mixture.middle, mixture.spread, normal
        unfinished = cls(contamination, *null, np.inf, mixture.edges, mixture.levels, len(deviates))
        suspected = unfinished.probability(z) >= LEAST_PROBABILITY
        threshold = max(FENCE, float(z.max()))
        if suspected.any():
            lowest, others = float(z[suspected].min()), z[~suspected]
            threshold = (lowest + float(others.max())) / 2 if len(others) else lowest - 1
        return replace(unfinished, threshold=threshold)

    def standardised(self, deviates: Floats) -> Floats:
        """Return deviates in standard deviations of normal ones."""
        return (deviates - self.middle) / self.spread

    def probability(self, z: Floats) -> Floats:
        """Return the probability that an observation with the standardised deviate z is anomalous."""
        segment = np.searchsorted(self.edges, share_above(z, self.observations), side="left") - 1
        return np.asarray(self.levels[np.clip(segment, 0, len(self.levels) - 1)])


@dataclass(frozen=True, eq=False)
class _Mixture:
    """What deviates say about normal and anomalous ones: the share in excess above the fence, and the mean of the
    probabilities."""

    share: float
    middle: float
    spread: float
    edges: Floats
    levels: Floats
    mean: float

    @classmethod
    def of(cls, deviates: Floats, stated: float | Literal["auto"]) -> Self:
        ordered = np.sort(deviates)
        share = excess_above_fence(ordered) if stated == "auto" else stated
        middle, low = np.quantile(ordered, [(1 - share) * 0.5, (1 - share) * BELOW]).tolist()
        spread = middle - low if middle - low > LEAST_SPREAD else 1.0
        edges, density = grenander(share_above((ordered - middle) / spread, len(ordered)))
        excess = np.maximum(density - (1 - share), 0.0)
        mass = float((excess * np.diff(edges)).sum())
        excess *= min(1.0, share / mass) if mass > 0 else 0.0
        levels = excess / (1 - share + excess)
        return cls(share, middle, spread, edges, levels, float((levels * density * np.diff(edges)).sum()))


def share_above(z: Floats, observations: int) -> Floats:
    """Return p: how much of the deviates of normal observations lies above z, if z was standardised by that many."""
    freedom = max(observations / PER_DEGREE, 1.0)
    return np.asarray(student.sf(z * student.isf(BELOW, freedom), freedom))


def grenander(p: Floats) -> tuple[Floats, Floats]:
    """Return edges and heights of Grenander's estimate of a falling density on [0, 1].

    Parameters
    ----------
    p : array of shape (n,)
        A sample from [0, 1].

    Returns
    -------
    edges : array of shape (segment + 1,)
        From 0 to 1.
    heights : array of shape (segment,)
        Slopes of the least concave majorant of the distribution function, falling.
    """
    places, counts = np.unique(np.maximum(p, NARROWEST), return_counts=True)
    edges, mass = np.concatenate([[0.0], places]), counts / len(p)
    if places[-1] < 1:
        edges, mass = np.append(edges, 1.0), np.append(mass, 0.0)
    width = np.diff(edges)
    # The slopes of the majorant: those of the distribution function, pooled until none is steeper than the one before.
    pooled = isotonic_regression(mass / width, weights=width, increasing=False)
    return edges[pooled.blocks], pooled.x[pooled.blocks[:-1]]


def log_above(normal: Normal, scores: Floats) -> Floats:
    """Return the logarithm of `normal.above` of each score, which does not underflow; NaN for NaN."""
    if normal.positive:
        u = np.where(scores > 0, np.log(np.where(scores > 0, scores, 1.0)), np.where(np.isnan(scores), np.nan, -np.inf))
    else:
        u = np.asarray(scores, dtype=np.float64)
    below = np.maximum(1 - np.interp(u, normal.values, normal.places, left=0.0), QUARTER)
    return np.where(u > normal.knot, np.log(QUARTER) + (normal.knot - u) / normal.scale, np.log(below))


def _deviates(model: Detector, fold: Observations, progress: AuditCallback | None) -> Iterator[Evidence]:
    """Yield the evidence of the observations of a fold, with all scores as normal deviates."""
    lowered, share = model._lowered(fold), model.contamination_
    evidence = list(model._evidence(fold, progress))
    normal = Normal(model.decision_scores_[model._learnt_from], share.share, (share.share + share.low) / 2)
    highest = np.log1p(-0.5 / len(normal.kept))  # of `log_above`: a score below all others is not infinitely low

    def deviate(scores: Floats) -> Floats:
        return np.asarray(-ndtri_exp(np.minimum(log_above(normal, scores), highest)))

    for number, places in enumerate(fold.by_series()):
        series = fold.series[number]
        scores = np.array([evidence[i].score for i in places]) - lowered[number]
        raised = raised_by(scores, None if series.observation else model._usual(series.entity))
        for i, by in zip(places, raised + lowered[number], strict=True):
            score = float(deviate(np.array([evidence[i].score - by]))[0])
            yield replace(evidence[i], score=score, steps=deviate(evidence[i].steps.astype(np.float64) - by))


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


def _clone(detector: Detector) -> Detector:
    return type(detector)(config=detector.settings)


def _is_fitted_to(detector: Detector, planned: Plan) -> bool:
    """Return whether the detector has learnt from this history, and from nothing else, such as verdicts."""
    fitted = hasattr(detector, "threshold_") and detector.lesson_ is None
    return fitted and detector.provenance_["data"] == planned.data


def _report(progress: AuditCallback | None, done: int, total: int, begun: float) -> None:
    if progress is not None:
        progress(FoldProgress(done, total, time.monotonic() - begun))
