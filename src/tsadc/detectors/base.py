"""The contract of every detector.

`Detector` validates, normalises, cuts, thresholds and stitches in the same way for every method. An author writes
`_fit` and `_score`, and `_state` and `_restore` for saving. A detector never sees a label."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeAlias, cast, final, overload

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from typing_extensions import TypeVar  # that of `typing` has a default from Python 3.13 on

from tsadc.config import merge, refuse_unknown_settings, to_mapping, update
from tsadc.detectors.display import shown
from tsadc.detectors.docstrings import complete
from tsadc.detectors.drift import raised_by, usual_score
from tsadc.detectors.episodes import Episodes
from tsadc.detectors.events import Events, memory
from tsadc.detectors.explanation import Explainer, most_unusual
from tsadc.detectors.feedback import COLUMN, Lesson, Verdict, given, learn, learnt_from, requested, without
from tsadc.detectors.parameters import Parameters
from tsadc.detectors.planned import expected_events, masked, unplanned, with_planned
from tsadc.detectors.preparation import (
    check_intervals,
    clock_of,
    history_observations,
    hold_out,
    matched,
    named,
    validation_observations,
)
from tsadc.detectors.provenance import describe, provenance
from tsadc.detectors.result import Evidence, Result, join
from tsadc.detectors.settings import Common
from tsadc.detectors.summary import Summary, summarised
from tsadc.detectors.threshold import (
    Contamination,
    Normal,
    Threshold,
    calibrate,
    check,
    choose,
    observations_per_week,
    refuse_unused,
    unused_setting,
)
from tsadc.detectors.usual import Quantiles, Usual, normal_places
from tsadc.detectors.verdicts import Verdicts
from tsadc.errors import ConfigError, DataError, NotFittedError, TooShortError, listed, notice
from tsadc.io.calendar import Calendar
from tsadc.io.memory import as_series
from tsadc.io.reading import Reading
from tsadc.nn.runtime.blas import each_within, single_threaded_blas
from tsadc.scale import Scaler
from tsadc.series import Booleans, Clock, Floats, Observations, Series
from tsadc.windows import Cut, cut

if TYPE_CHECKING:  # this module does without torch
    from tsadc.detectors.streaming import Stream
    from tsadc.nn.train import TrainingProgress

ConfigT = TypeVar("ConfigT", bound=Common, covariant=True, default=Common)
ProgressCallback: TypeAlias = "Callable[[TrainingProgress | ScoringProgress], None]"
PartScores = Sequence[Floats]  # two: scores of the training and of the validation observations


@dataclass(frozen=True)
class ScoringProgress:
    """Progress of scoring: `done` of `total` observations, or entities on a cluster."""

    done: int
    total: int
    unit: str = "observations"


@dataclass(frozen=True)
class FitOptions:
    """What a training run needs besides data: a progress callback, a checkpoint file and what identifies the run."""

    progress: ProgressCallback | None = None
    checkpoint: Path | None = None
    resume: bool = False
    fingerprint: Mapping[str, Any] = field(default_factory=dict)
    # If the observations are only a sample of the history, what is known of all of it: the variables to judge, the
    # number of entities that will be adapted to, and the longest gap of each entity.
    judged: Booleans | None = None
    others: int = 0
    gaps: Mapping[str, int] | None = None


class Detector(Parameters, ABC, Generic[ConfigT]):
    """Learn from unlabelled, contaminated series and find anomalies in new ones: the base class of all detectors.

    Parameters
    ----------
    length : int, optional
        Rows of an observation, the unit that is scored; at least 8. None: as in `config`, by default 600.
    contamination : float or "auto", optional
        Share of anomalous training data, between 0 and 0.5, both excluded; "auto" estimates it from the scores. None:
        as in `config`, by default "auto".
    seed : int, optional
        Seed of all randomness, 0 or more; the same seed gives the same scores to the bit. None: as in `config`, by
        default 0.
    config : Config, optional
        All settings, an instance of the class's own `Config`; all other arguments override it. None: its defaults.
    **settings
        Any setting of `config` by its name; a setting of a section has both names, joined by two underscores or a dot:
        ``threshold__method="tail"`` or ``**{"threshold.method": "tail"}``.

    Attributes
    ----------
    settings_ : Config
        The settings of the last `fit`, with the constructor's arguments applied. `set_threshold` changes its
        `contamination` and `threshold`.
    variables_ : tuple of str
        Names of the variables, in the order of the history.
    clock_ : Clock
        Sampling interval of the history: `clock_.every` in nanoseconds, None if rows are only counted.
    scaler_ : Scaler
        Statistics for normalisation, by entity.
    decision_scores_ : array of shape (n_observations,)
        Score of each training observation, including those held out for validation.
    validation_scores_ : array of shape (n_validation,)
        Score of each validation observation, which the threshold method "quantile" uses.
    held_out_ : bool
        Whether the validation observations were held out of the history; False if they were passed to `fit`.
    contamination_ : Contamination
        Share of anomalous training observations: `share`; `low` and `high`, the 90 % interval of an estimate; `stated`,
        whether you stated the share or it was estimated.
    memory_ : int or None
        Rows after which the variables are hardly correlated with themselves any more; None in models of earlier
        versions. Alarms that are closer become one event.
    normal_ : Normal
        Distribution of normal training scores: `normal_.above(score)` is the share of normal observations that score
        higher, `normal_.at(share)` the score that this share exceeds.
    threshold_ : float
        Observations that score higher are anomalous. With fused scores it rises when scores drift; see `Result.raised`.
    labels_ : array of shape (n_observations,)
        1 for each training observation above the threshold, 0 for the others.
    usual_ : Usual or None
        What is usual for each entity and variable, for bands and reasons; None for a model of an earlier version.
    episodes_ : Episodes or None
        The intervals of the history that stand out, at most 50, to which those of new data are compared; None for a
        model of an earlier version.
    verdicts_ : tuple of Verdict
        What people said about intervals (`feedback`); `fit` forgets them, `tsadc refit` keeps them.
    lesson_ : Lesson or None
        What was learnt from the verdicts; None without any. It changes `threshold_`, `normal_` and
        `decision_scores_`.
    history_views_ : array of shape (n_observations, n_views), float32, or None
        What each view adds to the training scores; NaN for observations that the ensemble did not learn from. None
        without an ensemble, and for a model of an earlier version.
    summary_ : Summary or None
        Statistics and a sample of the history, if it was fitted with `mergeable=True`; None also for a model that was
        loaded, and after `adapt`.
    provenance_ : dict
        Origin of the model, stored with it: `detector`, its name; `data`, size and digest of the training data;
        `versions` of the software; `training`, the losses of each epoch (only with a network); `cleaned`, the numbers
        of intervals and rows that an audit left out (only with `clean=True`).
    """

    # For authors of detectors; see docs/guides/add-a-detector.md.
    name: ClassVar[str]
    source: ClassVar[str | None] = None  # file and class, if it is in a file of the user (`own_file`)
    savable: ClassVar[bool] = True  # False if what was learnt cannot be stored as arrays
    min_variables: ClassVar[int] = 1  # 2 if it compares variables
    mergeable: ClassVar[bool] = False  # True if it can learn from a sample, and then adapt to the other entities
    row_cuts: ClassVar[int] = 1  # overlapping observations that the score of a row is the mean of; 1: its step's score
    Config: ClassVar[type[Common]] = Common

    settings_: ConfigT
    variables_: tuple[str, ...]
    clock_: Clock
    scaler_: Scaler
    decision_scores_: Floats
    validation_scores_: Floats
    held_out_: bool
    contamination_: Contamination
    memory_: int | None
    normal_: Normal
    threshold_: float
    usual_: Usual | None
    episodes_: Episodes | None
    verdicts_: tuple[Verdict, ...] = ()
    lesson_: Lesson | None = None
    history_views_: Floats | None = None
    summary_: Summary | None = None
    provenance_: dict[str, Any]

    def __init__(
        self,
        length: int | None = None,
        contamination: float | Literal["auto"] | None = None,
        seed: int | None = None,
        config: ConfigT | None = None,
        **settings: Any,
    ) -> None:
        self._store(settings)
        self.length = length
        self.contamination = contamination
        self.seed = seed
        self.config = config

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        complete(cls)
        if "Config" in vars(cls):
            complete(cls.Config)
            refuse_unknown_settings(cls.Config)

    @abstractmethod
    def _fit(self, train: Observations, validation: Observations, options: FitOptions) -> PartScores | None:
        """Learn from normalised observations. `validation` is unlabelled and contaminated, too.

        Return the scores of both parts if fitting computes them anyway; None: they are scored like new data.
        """

    @abstractmethod
    def _score(self, observations: Observations) -> Iterator[Evidence]:
        """Yield the evidence of each normalised observation; none may depend on another."""

    @abstractmethod
    def _state(self) -> dict[str, NDArray[Any]]:
        """Return everything learnt, as named arrays."""

    @abstractmethod
    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore what `_state` returned."""

    def _score_values(self, observations: Observations) -> Iterator[float]:
        """Yield the score of each normalised observation; worth overriding if it is cheaper without evidence."""
        return (evidence.score for evidence in self._score(observations))

    def _predict(self, entity: str, z: Floats) -> Floats | None:
        """Return what the other variables predict for z (variable, time), which has no gaps; NaN for variables that are
        not predicted, None if the detector predicts nothing. It makes bands and reasons, and no score."""
        return None

    def _usual(self, entity: str) -> float | None:
        """Return the usual score of an entity, from which drift is measured; None: its threshold stays put."""
        return None

    @property
    def _audits(self) -> bool:
        """Whether the scores of a series are lowered by how far they lie above the history as a whole."""
        return False

    @property
    def view_names(self) -> tuple[str, ...]:
        """Names of the scores that are fused into one, in the order of `Evidence.view_scores`."""
        return ()

    @property
    def _view_weights(self) -> Floats | None:
        """Weights of the views that add up to the score, as fitted without labels; None if the score is no sum."""
        return None

    def _training_views(self) -> PartScores | None:
        """Return what each view adds to the scores that `_fit` returned, by part; None if the score is no sum."""
        return None

    def _most_observations(self, variables: int) -> int:
        """Return how many observations `_fit` can learn from, if the detector is `mergeable`."""
        raise NotImplementedError

    def _baselines(self) -> Mapping[str, dict[str, Any]]:
        """Return what `_adapt` has learnt, by name and entity, to be changed in place; only if it is `mergeable`."""
        raise NotImplementedError

    def _adapt(self, history: Observations) -> None:
        """Learn the statistics of an entity from its normalised history; most detectors have none of their own."""

    def _place_threshold(self, threshold: float) -> float:
        """Return the threshold to use instead of the one chosen from the training scores."""
        return threshold

    def __repr__(self) -> str:
        """Return the constructor's call, followed by what was learnt if the detector is fitted."""
        made = super().__repr__()
        if not hasattr(self, "threshold_"):
            return made
        learnt = shown("notebook.learnt", self)
        return f"{made} fitted to {learnt}; threshold {self.threshold_:.3g}, contamination {self.contamination_}"

    def _repr_html_(self) -> str | None:
        """Return what a notebook shows of a fitted detector; None: the text."""
        return shown("notebook.detector_html", self) if hasattr(self, "threshold_") else None

    @property
    @final
    def settings(self) -> ConfigT:
        """The settings in force: those of the last `fit`, or before it those of the constructor."""
        return self.__dict__.get("settings_") or self._requested_settings()

    def _requested_settings(self) -> ConfigT:
        """Return `config` with the constructor's own arguments applied, types and ranges checked."""
        config = cast(ConfigT, self.Config()) if self.config is None else self.config
        if type(config) is not self.Config:
            expected = f"{type(self).__name__}.Config"
            article = "an" if expected[0] in "AEIO" else "a"
            came = f"{type(config).__module__}.{type(config).__qualname__}".removeprefix("builtins.")
            advice = f"; write {expected}.with_settings(**config)" if isinstance(config, Mapping) else ""
            raise ConfigError(f"`config` must be {article} {expected}, but got a {came}{advice}.")
        given = {"length": self.length, "contamination": self.contamination, "seed": self.seed}
        named = {name: value for name, value in given.items() if value is not None} | self._settings_tree()
        return update(config, merge(to_mapping(config), named))

    @final
    def fit(
        self,
        X: Any,
        y: None = None,
        *,
        validation: Any = None,
        calendar: Calendar | None = None,
        progress: ProgressCallback | None = None,
        checkpoint: str | Path | None = None,
        resume: bool = False,
        clean: bool = False,
        mergeable: bool = False,
    ) -> Self:
        """Learn from unlabelled history.

        Parameters
        ----------
        X : DataFrame, array of shape (time, variable) or (observation, time, variable), Series, or dict of these
            The history, in any units; NaN where nothing was measured. A dict maps entities to their histories. It must
            give at least 5 observations of `length` rows.
        y : ignored
            For compatibility with scikit-learn.
        validation : like `X`, optional
            Unlabelled data for early stopping and the threshold; the ensemble also learns from it. None: hold out a
            random share of the observations of `X`, set by `config.validation`.
        calendar : Calendar, optional
            Planned work, which is not learnt from.
        progress : callable, optional
            Called with a `tsadc.nn.train.TrainingProgress` after each update of a network, and with a
            `tsadc.detectors.base.ScoringProgress` after each scored observation.
        checkpoint : path, optional
            File in which the state of the training is saved after each epoch. `checkpoint`, `resume` and early stopping
            have no effect on a detector without a network.
        resume : bool, default False
            Continue from `checkpoint` if the file exists; it must come from the same data and settings.
        clean : bool, default False
            Audit the history first, and learn nothing from what is more likely anomalous than normal
            (`tsadc.audit`). It takes about eight times as long.
        mergeable : bool, default False
            Keep a summary of the history in the model (`summary_`), so that it can be merged with others, and that
            history can be added (`tsadc.detectors.merging`). Its size is that of the sample that the ensemble learns
            from.

        Returns
        -------
        self

        Raises
        ------
        DataError
            If the data cannot be used: too few rows, no values, unequal sampling intervals.
        ConfigError
            If a setting is unknown or out of range, or a checkpoint comes from other data or settings.
        ModelFileError
            If a checkpoint is damaged or cannot be written.
        TsadcError
            If the training of a network diverges.

        Examples
        --------
        >>> import numpy as np
        >>> import tsadc
        >>> generator = np.random.default_rng(0)
        >>> history = generator.normal(size=(3000, 3))
        >>> detector = tsadc.Ensemble(length=60, contamination=0.1).fit(history)
        >>> detector.decision_scores_.shape
        (50,)
        >>> int(detector.labels_.sum())
        5
        """
        from tsadc.detectors import parts  # builds upon this module

        settings = self._requested_settings()
        if calendar is not None:
            series = as_series(X, settings.length, Reading(coverage=settings.coverage))
            X = masked(series, calendar, settings.length)
        cleaned: dict[str, Any] = {}
        if clean:
            from tsadc.detectors.cleaning import without_suspects

            X, cleaned["cleaned"] = without_suspects(self, X, progress)
        series = self._matched(X)
        check(settings.threshold, settings.contamination != "auto", clock_of(series), settings.length)
        if message := unused_setting(settings.threshold, settings.contamination != "auto"):
            notice(message)
        options = FitOptions(progress, Path(checkpoint) if checkpoint is not None else None, resume)
        rule = parts.rule_of(self, series[0].names) if validation is None else None
        if mergeable and rule is None:
            raise self._not_mergeable()
        large = rule is not None and sum(map(rule.cells, series)) > rule.most
        summary = None
        if rule is not None and (large or mergeable):
            summary = summarised(series, rule, kept=True, copied=False)
        if summary is not None and large:
            parts.score_the_rest(self, series, parts.learn_sample(self, summary, options), progress)
        else:
            self._learn_whole(series, validation, options)
        self.provenance_ |= cleaned
        self.summary_ = summary.loaded() if summary is not None and mergeable else None
        return self

    def _not_mergeable(self) -> ConfigError:
        if self.mergeable:
            return ConfigError(
                f"{self.name} with validation data of its own cannot be fitted in parts that are merged; leave out one "
                "of `validation` and `mergeable`."
            )
        return ConfigError(
            f"The detector {self.name} cannot be fitted in parts, so its model is not mergeable; leave out "
            "--mergeable (in Python: `mergeable`), or use the detector ensemble."
        )

    def _learn_whole(self, series: tuple[Series, ...], validation: Any, options: FitOptions) -> None:
        """Learn from all of the history."""
        settings, clock = self._requested_settings(), clock_of(series)
        history, scaler = self._prepared(series)
        held = None
        if validation is not None:
            held = validation_observations(validation, settings, series[0].names, clock, scaler)
        self._learn(history, held, clock, scaler, describe(history), options)

    def _learn(
        self,
        history: Observations,
        held: Observations | None,
        clock: Clock,
        scaler: Scaler,
        data: Mapping[str, Any],
        options: FitOptions,
    ) -> None:
        """Learn from observations; a share of them is held out unless `held` has others. `data` describes the
        history."""
        settings = self._requested_settings()
        train, chosen = history, np.arange(0)
        held_out = held is None
        if held is None:
            chosen = hold_out(len(history), settings.validation, settings.seed)
            held = history.take(chosen)
            train = history.take(np.setdiff1d(np.arange(len(history)), chosen))
        self.__dict__.pop("threshold_", None)  # not fitted until the end of this method
        self.verdicts_, self.lesson_, self.history_views_ = (), None, None
        self.settings_ = settings
        self.variables_ = history.names
        self.clock_ = replace(clock, start=0)
        self.scaler_ = scaler
        self.provenance_ = provenance(self.name, data)
        options = replace(options, fingerprint={"history": self.provenance_["data"], "validation": describe(held)})
        self.memory_ = memory(train.scaled(scaler))
        with single_threaded_blas():
            known = self._fit(train.scaled(scaler), held.scaled(scaler), options)
        self.held_out_ = held_out
        if known is None:
            self.decision_scores_ = self._scores(history, options.progress)
            self.validation_scores_ = (
                self.decision_scores_[chosen] if held_out else self._scores(held, options.progress)
            )
        else:
            train_scores, self.validation_scores_ = known
            self.decision_scores_ = np.empty(len(history))
            self.decision_scores_[np.setdiff1d(np.arange(len(history)), chosen)] = train_scores
            self.decision_scores_[chosen] = self.validation_scores_[: len(chosen)]
        if (views := self._training_views()) is not None:
            self.history_views_ = np.empty((len(history), views[0].shape[1]), dtype=np.float32)
            self.history_views_[np.setdiff1d(np.arange(len(history)), chosen)] = views[0]
            self.history_views_[chosen] = views[1][: len(chosen)]
        self._calibrate()
        normal = history.take(normal_places(self.decision_scores_, self.contamination_.share))
        self.usual_ = Usual.fit(normal.scaled(scaler), self._predict, options.gaps)
        self.episodes_ = None  # nothing to compare with yet
        self.episodes_ = self._find_episodes(history)

    def _adapt_to(self, pieces: tuple[Series, ...], gaps: Mapping[str, int] | None = None) -> None:
        """Learn what is usual for entities from pieces of their histories; the statistics of the scaler are known."""
        settings = self.settings
        observations = cut(pieces, settings.length, settings.coverage).observations.scaled(self.scaler_)
        with single_threaded_blas():
            self._adapt(observations)
            if self.usual_ is not None:
                self.usual_.adapt(observations, self._predict, gaps)

    def _find_episodes(self, history: Observations) -> Episodes:
        """Return the unusual intervals of the history, with which later ones are compared."""
        chosen = most_unusual(self.decision_scores_, self.normal_.fence)
        unusual, scores = history.take(chosen), self.decision_scores_[chosen]
        threshold = self._threshold(self.normal_.fence)
        with single_threaded_blas():
            evidence = self._evidence(unusual, None)
            return self._explainer().find_episodes(
                unusual, scores, evidence, threshold, self._events(), self.view_names
            )

    @final
    def prepare(self, X: Any) -> tuple[Observations, Clock, Scaler]:
        """Return the observations that `fit` would learn from, their clock and their scaler, with the same checks.

        For authors of detectors and for estimates of the cost of a fit."""
        series = self._matched(X)
        observations, scaler = self._prepared(series)
        return observations, clock_of(series), scaler

    def _matched(self, X: Any, names: tuple[str, ...] | None = None) -> tuple[Series, ...]:
        """Return the series of a history, with the variables `names` or those of the first one."""
        series = matched(X, self._requested_settings(), names)
        if len(series[0].names) < self.min_variables:
            raise DataError(
                f"The detector {self.name} compares variables and needs at least {self.min_variables}, but the data "
                f"has only {series[0].names[0]!r}; choose another detector, such as ensemble."
            )
        check_intervals(series, clock_of(series))
        return series

    def _prepared(self, series: tuple[Series, ...]) -> tuple[Observations, Scaler]:
        settings = self._requested_settings()
        scaler = Scaler.fit(series, settings.scaler)
        scaler.check_constant(series[0].names)
        return history_observations(series, settings), scaler

    @final
    def set_threshold(self, *, contamination: float | Literal["auto"] | None = None, **threshold: Any) -> Self:
        """Choose the threshold again, without training.

        Parameters
        ----------
        contamination : float or "auto", optional
            Share of anomalous training data. None: unchanged.
        **threshold
            Settings of `Threshold.Config`: `method`, `alarms`, `share`.

        Returns
        -------
        self

        Raises
        ------
        NotFittedError
            If the detector is not fitted.
        ConfigError
            If a setting is unknown, out of range or does not apply to the method.

        Examples
        --------
        With `detector` from the example of `help(tsadc.TSADC.fit)`:

        >>> lower = detector.set_threshold(method="tail", share=0.2).threshold_
        >>> lower < detector.set_threshold(method="tail", share=0.01).threshold_
        True
        """
        self._require_fitted()
        changes = {} if contamination is None else {"contamination": contamination}
        settings = update(self.settings_, {"threshold": threshold, **changes})
        refuse_unused(settings.threshold, settings.contamination != "auto", threshold)
        check(settings.threshold, settings.contamination != "auto", self.clock_, settings.length)
        self.settings_ = settings
        self._calibrate()
        return self

    def _calibrate(self) -> None:
        self._forget_lesson()
        settings, validation, history = self.settings_, self.validation_scores_, self.decision_scores_
        history = history[self._learnt_from]
        every = history if self.held_out_ else np.concatenate([validation, history])
        self.contamination_, self.normal_ = calibrate(history, settings.contamination, settings.seed)
        scores = (history, validation, every)
        chosen = choose(settings.threshold, self.contamination_, self.normal_, scores, self.clock_, settings.length)
        self.threshold_ = self._place_threshold(chosen)
        self._judge_by(self.verdicts_)

    @property
    def _learnt_from(self) -> Booleans:
        """Whether each training observation was learnt from; the others were scored as new ones, and do not count for
        the threshold."""
        return learnt_from(self.decision_scores_, self.history_views_)

    @property
    def middle_(self) -> float:
        """Median score of the training observations that were learnt from."""
        return float(np.median(self.decision_scores_[self._learnt_from]))

    def _forget_lesson(self) -> None:
        """Go back to the scores and the threshold without verdicts."""
        if self.lesson_ is not None:
            vars(self).update(self.lesson_.before)
            self.lesson_ = None

    def _judge_by(self, verdicts: tuple[Verdict, ...]) -> None:
        """Learn from these verdicts instead of the present ones."""
        self._forget_lesson()
        self.verdicts_ = verdicts
        self.lesson_ = learn(self, verdicts)
        if self.lesson_ is not None:
            vars(self).update(self.lesson_.after)

    @final
    def feedback(
        self,
        result: Result | None,
        verdicts: Mapping[str, str | bool | None],
        *,
        note: str | None = None,
        by: str | None = None,
    ) -> Self:
        """Learn from verdicts about intervals, without training.

        True anomalies and false alarms change the weights of the views, the threshold, and the scores of what resembles
        a false alarm. Planned work is neither judged nor learnt from. Without verdicts, scores are those of `fit`.

        Parameters
        ----------
        result : Result or None
            A result of this detector that has the intervals; None if verdicts are only taken back.
        verdicts : mapping of str to "true", "false", "planned", True, False or None
            By the `id` of the interval. None takes an earlier verdict back; another verdict replaces it.
        note : str, optional
            Free text, kept with the verdicts.
        by : str, optional
            Who says so, kept with the verdicts.

        Returns
        -------
        self

        Raises
        ------
        NotFittedError
            If the detector is not fitted.
        DataError
            If an argument is of another type, the result has no interval of that name, or a verdict is none.

        Examples
        --------
        With `detector` and `new` from the examples of `help(tsadc.TSADC.fit)` and `help(tsadc.TSADC.detect)`:

        >>> result = detector.detect(new)
        >>> name = result.worst(1)["id"].iloc[0]
        >>> len(detector.feedback(result, {name: "false"}).detect(new).intervals)
        0
        >>> detector.feedback(None, {name: None}).verdicts_
        ()
        """
        self._require_fitted()
        intervals, answers, withdrawn = requested(result, verdicts, note, by)
        self._judge_by(given(self, without(self, withdrawn), intervals, answers, note, by))
        return self

    @property
    def labels_(self) -> NDArray[np.int64]:
        """1 for each training observation above the threshold, 0 for the others (PyOD's name)."""
        self._require_fitted()
        return (self.decision_scores_ > self.threshold_).astype(np.int64)

    def _scores(self, observations: Observations, progress: ProgressCallback | None = None) -> Floats:
        scores = np.empty(len(observations))
        values = self._score_values(observations.scaled(self.scaler_))
        if self.lesson_ is not None and self.lesson_.names:  # which needs what each view adds
            values = (evidence.score for evidence in self._evidence(observations, None))
        for i, score in enumerate(each_within(single_threaded_blas, values)):
            scores[i] = score
            if progress is not None:
                progress(ScoringProgress(i + 1, len(observations)))
        return scores

    def _evidence(self, observations: Observations, progress: ProgressCallback | None) -> Iterator[Evidence]:
        scored = self._score(observations.scaled(self.scaler_))
        for i, evidence in enumerate(each_within(single_threaded_blas, scored)):
            if progress is not None:
                progress(ScoringProgress(i + 1, len(observations)))
            if evidence.expected is not None:
                raw = self.scaler_.undo(observations.entity(i), evidence.expected.T).T
                evidence = replace(evidence, expected=raw.astype(np.float32))
            yield evidence if self.lesson_ is None else self.lesson_.corrected(observations.entity(i), evidence)

    @final
    def detect(
        self,
        X: Any,
        *,
        calendar: Calendar | None = None,
        progress: ProgressCallback | None = None,
        processes: int = 1,
    ) -> Result:
        """Find anomalies: when, in which variables, and how severe.

        Parameters
        ----------
        X : like the history of `fit`
            New data with the variables of the history, matched by name. An observation is scored if enough of its rows
            have values (`coverage` of the settings).
        calendar : Calendar, optional
            Planned work, which counts as not measured.
        progress : callable, optional
            Called with a `ScoringProgress` after each observation.
        processes : int, default 1
            Processes that judge different entities at the same time; the result is the same. Each has a copy of the
            model. A script must be protected by ``if __name__ == "__main__":``.

        Returns
        -------
        Result
            Intervals, scores and contributions as data frames.

        Raises
        ------
        NotFittedError
            If the detector is not fitted.
        DataError
            If more than half of the variables are missing, the sampling interval differs, or no observation has enough
            rows.

        Examples
        --------
        With `detector` and `generator` from the example of `help(tsadc.TSADC.fit)`:

        >>> new = generator.normal(size=(600, 3))
        >>> new[300:330, 1] += 8
        >>> worst = detector.detect(new).worst(1).iloc[0]
        >>> int(worst["start"]), next(iter(worst["variables"]))
        (300, 'variable_1')
        """
        pieces = self._cut(X, calendar)
        judged = self._judged(pieces.observations, None, progress, processes)
        result = join(list(self._explainer().explain(judged)), pieces.observations.series)
        return replace(self._with_planned(result, calendar), left_out=len(pieces.left_out))

    def _with_planned(self, result: Result, calendar: Calendar | None) -> Result:
        expected = expected_events(calendar, self.verdicts_)
        return result if expected is None else with_planned(result, expected)

    def _judged(
        self, observations: Observations, rows: int | None, progress: ProgressCallback | None, processes: int
    ) -> Iterator[Result]:
        """Yield the results of all series, each as a whole, or in parts of about `rows` rows."""
        if processes < 1:
            raise ConfigError(f"`processes` must be at least 1, but got {processes}.")
        processes = min(processes, len(observations.series))
        if processes > 1:
            from tsadc.detectors.parallel import judge

            self._notice_earlier_version()
            total, scored = len(observations), 0

            def done(count: int) -> None:
                nonlocal scored
                scored += count
                if progress is not None and count:
                    progress(ScoringProgress(scored, total))

            return judge(self, observations, rows, processes, done)
        verdicts = self._verdicts(observations, progress)
        return verdicts.whole_series() if rows is None else verdicts.parts(rows)

    def _notice_earlier_version(self) -> None:
        if self.usual_ is None or not self.usual_.knows_gaps:
            notice(
                "This model was fitted by an earlier version and may not report sensors that stop reporting; fit it "
                "again to have such outages as events."
            )

    def _verdicts(self, observations: Observations, progress: ProgressCallback | None) -> Verdicts:
        settings = self.settings
        self._notice_earlier_version()
        return Verdicts(
            observations=observations,
            evidence=self._evidence(observations, progress),
            threshold=self._threshold(self.threshold_),
            events=self._events(),
            scaler=self.scaler_,
            view_names=(*self.view_names, *([COLUMN] if self.lesson_ is not None and self.lesson_.names else [])),
            usual=self._usual_score,
            learnt=self._learnt,
            lowered=self._lowered(observations),
            scores=self._scores,
            coverage=settings.coverage,
            row_cuts=self.row_cuts,
        )

    def _threshold(self, value: float) -> Threshold:
        per_week = observations_per_week(self.clock_, self.settings.length)
        return Threshold(value, self.middle_, self.normal_, per_week)

    def _events(self) -> Events:
        return Events.of(self.settings.event, self.memory_, self.settings.length)

    def _learnt(self, entity: str) -> Quantiles | None:
        """Return what is usual for an entity; None if that is not known: a new machine may lack a sensor that others
        have."""
        if self.usual_ is None or (entity not in self.usual_.entities and len(self.scaler_.entities) > 1):
            return None
        return self.usual_.of(entity)

    def _usual_score(self, entity: str) -> float | None:
        """Return the usual score of an entity by the verdicts; None: its threshold stays put."""
        usual = self._usual(entity)
        return usual if usual is None or self.lesson_ is None else usual + self.lesson_.usual_shift

    def _lowered(self, observations: Observations) -> Floats:
        """Return for each series how much its scores are lowered: 0, or, in audit mode, their own drift."""
        lowered = np.zeros(len(observations.series))
        if self._audits:
            for number, own in enumerate(observations.by_series()):
                usual = self._usual_score(observations.series[number].entity)
                if usual is not None and len(own):
                    lowered[number] = max(0.0, usual_score(self._scores(observations.take(own))) - usual)
        return lowered

    @final
    def detect_parts(
        self,
        X: Any,
        *,
        rows: int = 20_000,
        calendar: Calendar | None = None,
        progress: ProgressCallback | None = None,
        processes: int = 1,
    ) -> Iterator[Result]:
        """Find the same as `detect`, in parts, for data larger than memory.

        The parts follow each other in order. Each ends with its series or after an observation that is not anomalous,
        so that no interval is cut, unless it spans more than 4,194,304 values (rows times variables).

        Parameters
        ----------
        X : like the history of `fit`
            New data; series may be read from files row by row (`tsadc.read`).
        rows : int, default 20 000
            Approximate number of rows per part.
        calendar : Calendar, optional
            Planned work, as for `detect`.
        progress : callable, optional
            Called with a `ScoringProgress` after each observation.
        processes : int, default 1
            As for `detect`. With several, the parts of up to two series for each are in memory.

        Yields
        ------
        Result
            One part of one series.

        Examples
        --------
        With `detector` and `generator` from the example of `help(tsadc.TSADC.fit)`:

        >>> parts = detector.detect_parts(generator.normal(size=(6000, 3)), rows=1000)
        >>> sum(len(part.timeline) for part in parts)
        6000
        """
        judged = self._judged(self._cut(X, calendar).observations, rows, progress, processes)
        for result in self._explainer().explain(judged):
            yield self._with_planned(result, calendar)

    @final
    def stream(self, *, every: int | None = None, reorder: int = 0, clock: Clock | None = None) -> Stream:
        """Judge rows as they arrive. What is final equals what `detect` says about all rows together, to the bit.

        Push rows of any number of entities, one by one or many at once. An observation is judged when its last row has
        come. Provisional verdicts about the last `length` rows come earlier.

        Parameters
        ----------
        every : int, optional
            Rows from one provisional verdict to the next, counted from the beginning of each observation; at most
            `length`. 0: no provisional verdicts. None: a quarter of `length`. Each costs as much as a final one.
        reorder : int, default 0
            How many rows late a row may come. What is missing is waited for as long; older rows are refused and
            counted.
        clock : Clock, optional
            The clock of the rows; its `start` is ignored. None: that of the history. Give it if the history had no
            dates and the rows have.

        Returns
        -------
        Stream
            `push` and `push_many` return what was decided, `flush` ends a series, `state` and `restore` keep the state
            of an entity.

        Raises
        ------
        NotFittedError
            If the detector is not fitted.
        ConfigError
            If an argument is out of range, or the detector is in audit mode, which needs the whole record.

        Examples
        --------
        With `detector` and `new` from the examples of `help(tsadc.TSADC.fit)` and `help(tsadc.TSADC.detect)`:

        >>> stream = detector.stream()
        >>> update = stream.push("pump", 0, new[0])
        >>> update = stream.push_many("pump", range(1, 400), new[1:400])
        >>> [(verdict.start, verdict.final) for verdict in update.verdicts if verdict.anomalous]
        [(255, False), (270, False), (285, False), (300, True), (315, False)]
        >>> [interval.start for interval in stream.flush().intervals if interval.final]
        [300]
        """
        from tsadc.detectors.streaming import Stream

        self._require_fitted()
        return Stream(self, every, reorder, clock)

    def _explainer(self) -> Explainer:
        return Explainer(self.usual_, self.episodes_, self.scaler_, self._predict, self.settings.length)

    @overload
    def decision_function(self, X: Any, *, per: Literal["observation"] = "observation") -> Floats: ...

    @overload
    def decision_function(self, X: Any, *, per: Literal["row"]) -> pd.Series: ...

    @final
    def decision_function(self, X: Any, *, per: str = "observation") -> Floats | pd.Series:
        """Return the score of each observation, or of each row; higher is more anomalous.

        Parameters
        ----------
        X : like the history of `fit`
            New data.
        per : "observation" or "row", default "observation"
            What to score. The score of a row is that of `Result.timeline`.

        Returns
        -------
        array of shape (observation,), float64
            Scores in the order of the series and of time. Observations with too few rows are left out with a notice.
            With `per="row"`, a pandas Series: with the index of `X` if it is one data frame, otherwise by entity and
            time. NaN where a row has no score.

        Raises
        ------
        NotFittedError, DataError
            As for `detect`.

        Examples
        --------
        With `detector` and `new` from the examples of `help(tsadc.TSADC.fit)` and `help(tsadc.TSADC.detect)`:

        >>> int(detector.decision_function(new).argmax())
        5
        """
        if per == "row":
            from tsadc.detectors.per_row import row_scores

            return row_scores(self.detect(X), X)
        if per != "observation":
            raise ConfigError(f"`per` must be 'observation' or 'row', but got {per!r}.")
        return self._judged_scores(self._cut(X).observations)

    @final
    def score_samples(self, X: Any) -> Floats:
        """Return the negative score of each observation, as scikit-learn does; higher is more normal.

        Parameters
        ----------
        X : like the history of `fit`
            New data.

        Returns
        -------
        array of shape (observation,), float64
            `-decision_function(X)`.

        Raises
        ------
        NotFittedError, DataError
            As for `detect`.
        """
        return -self.decision_function(X)

    @final
    def predict_proba(self, X: Any) -> Floats:
        """Return for each observation how surely its score lies beyond normal operation, in the shape of PyOD.

        Parameters
        ----------
        X : like the history of `fit`
            New data.

        Returns
        -------
        array of shape (observation, 2), float64
            In the second column p, the share of normal observations that score lower; 1 - p in the first. An ordinary
            observation has 0.5. It is not the probability of an anomaly, which is unknown without labels. Drift is
            ignored.

        Raises
        ------
        NotFittedError, DataError
            As for `detect`.
        """
        above = np.array([self.normal_.above(float(score)) for score in self.decision_function(X)])
        return np.column_stack([above, 1 - above])

    @final
    def fit_predict(self, X: Any, y: None = None, **options: Any) -> NDArray[np.int64]:
        """Learn from unlabelled history and return `labels_`: 1 for each of its observations above the threshold.

        Parameters
        ----------
        X : like the history of `fit`
            The history.
        y : ignored
            For compatibility with scikit-learn.
        **options
            Further arguments of `fit`.

        Returns
        -------
        array of shape (n_observations,), int64
            In the order of `decision_scores_`.

        Raises
        ------
        DataError, ConfigError, ModelFileError, TsadcError
            As for `fit`.
        """
        return self.fit(X, y, **options).labels_

    def _judged_scores(self, observations: Observations) -> Floats:
        lowered = self._lowered(observations)
        return np.asarray(self._scores(observations) - lowered[[place.series for place in observations.places]])

    @final
    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return 1 for each observation above the threshold, which drift may raise as in `detect`; 0 for the others.

        Parameters
        ----------
        X : like the history of `fit`
            New data.

        Returns
        -------
        array of shape (observation,), int64
            In the order of `decision_function`.

        Raises
        ------
        NotFittedError, DataError
            As for `detect`.

        Examples
        --------
        With `detector` and `new` from the examples of `help(tsadc.TSADC.fit)` and `help(tsadc.TSADC.detect)`:

        >>> int(detector.predict(new)[5])
        1
        """
        observations = self._cut(X).observations
        scores = self._judged_scores(observations)
        raised = np.zeros(len(scores))
        for series, own in zip(observations.series, observations.by_series(), strict=True):
            if series.observation is None:
                raised[own] = raised_by(scores[own], self._usual_score(series.entity))
        return (scores > self.threshold_ + raised).astype(np.int64)

    @final
    def adapt(self, X: Any) -> Self:
        """Normalise the entities of `X` by their own history from now on. Nothing is retrained.

        The statistics of an entity that the model already knows are replaced, with a notice.

        Parameters
        ----------
        X : like the history of `fit`
            Unlabelled history of one or more entities, at least `length` rows with values each.

        Returns
        -------
        self

        Raises
        ------
        NotFittedError
            If the detector is not fitted.
        DataError
            If a history is too short, more than half of the variables are missing or the sampling interval differs.

        Examples
        --------
        With `detector` and `generator` from the example of `help(tsadc.TSADC.fit)`:

        >>> new_entity = {"pump 2": generator.normal(loc=50, size=(600, 3))}
        >>> sorted(detector.adapt(new_entity).scaler_.entities)
        ['pump 2', 'series']
        """
        self._require_fitted()
        length = self.settings.length
        series = matched(X, self.settings, self.variables_)
        check_intervals(series, self.clock_)
        for history in series:
            measured = sum(int(np.isfinite(values).any(axis=1).sum()) for values in history.chunks())
            if measured < length:
                raise DataError(
                    f"Adapting to {history.entity!r} needs at least {length} rows with values, but its history has "
                    f"{measured}; give more of it."
                )
        known = [history.entity for history in series if history.entity in self.scaler_.entities]
        if known:
            whose = "its" if len(known) == 1 else "their"
            notice(
                f"The model already knows {listed(known)}; {whose} statistics are replaced by those of this history."
            )
        self.scaler_.adapt(series)
        self._adapt_to(series)
        self.summary_ = None  # it knows nothing of this history
        return self

    @final
    def save(self, path: str | Path) -> None:
        """Write the model to the new folder `path`; `tsadc.load` reads it.

        Parameters
        ----------
        path : path
            Folder that must not exist. It appears complete or not at all.

        Raises
        ------
        NotFittedError
            If the detector is not fitted.
        OutputError
            If the folder exists or cannot be written.
        """
        from tsadc.detectors.store import save

        self._require_fitted()
        save(self, Path(path))

    @final
    def unknown_entities(self, names: Sequence[str]) -> str:
        """Return a sentence about the entities that the model has not learnt and normalises by the pooled statistics.

        Parameters
        ----------
        names : sequence of str
            Names of entities.

        Returns
        -------
        str
            Empty if the model knows all of them, or has learnt a single one, whose statistics are those of all.

        Examples
        --------
        With `detector` from the example of `help(tsadc.TSADC.fit)`, which was fitted to one entity:

        >>> detector.unknown_entities(["pump 2"])
        ''
        """
        new = [name for name in names if name not in self.scaler_.entities]
        if not new or self.settings.scaler.scope != "entity" or len(self.scaler_.entities) <= 1:
            return ""
        return (
            f"Entities that the model does not know are normalised by the pooled statistics: {listed(new)}; `adapt` "
            "learns their own from their history."
        )

    def _require_fitted(self) -> None:
        if not hasattr(self, "threshold_"):
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet; call fit(history) first.")

    def _cut(self, data: Any, calendar: Calendar | None = None) -> Cut:
        self._require_fitted()
        length, coverage = self.settings.length, self.settings.coverage
        series = matched(data, self.settings, self.variables_)
        check_intervals(series, self.clock_)
        expected = expected_events(calendar, self.verdicts_)
        if expected is not None:
            series = masked(series, expected, length)
        if sentence := self.unknown_entities([entity.entity for entity in series]):
            notice(sentence)
        pieces = cut(series, length, coverage)
        share = "half" if coverage == 0.5 else f"{coverage:.0%}"
        if not len(pieces.observations):
            raise TooShortError(
                f"An observation is scored if at least {share} of its {length} rows have values, but "
                f"{series[0].entity!r} has {len(series[0])} rows and no such observation; "
                f"{2 * math.ceil(coverage * length) - 1} consecutive rows with values are always enough."
            )
        left_out = unplanned(pieces.left_out, expected)
        if count := len(left_out):
            notice(
                f"{count} observation{'s' if count > 1 else ''} with values in less than {share} of the rows "
                f"{'were' if count > 1 else 'was'} left out: {named(left_out)}."
            )
        return pieces
