"""The contract. `Detector` validates, normalises, cuts, thresholds and stitches, the same way for every method; an
author writes `_fit` and `_score` (and `_state`/`_restore` to be saved). A detector never sees a label."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, Self, cast, final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeVar  # that of `typing` has a default from Python 3.13 on

from tsadc.config import to_mapping, update
from tsadc.detectors.parameters import Parameters
from tsadc.detectors.provenance import describe, provenance
from tsadc.detectors.result import Evidence, Result, assemble
from tsadc.detectors.settings import Common
from tsadc.detectors.threshold import Threshold, calibrate, check, choose, idle, refuse_idle
from tsadc.errors import ConfigError, DataError, NotFittedError, TsadcNotice
from tsadc.io.memory import as_series
from tsadc.io.reading import Reading, how_to_resample, spell
from tsadc.nn.runtime.blas import each_within, single_threaded_blas
from tsadc.scale import Scaler
from tsadc.series import Clock, Floats, Observations, Series
from tsadc.variables import match
from tsadc.windows import Cut, cut, section

LEAST_OBSERVATIONS = 5
ConfigT = TypeVar("ConfigT", bound=Common, covariant=True, default=Common)
MOST_CELLS = 2**22  # of a part of a large request: some 100 MB of values, scores and expectations


@dataclass(frozen=True)
class ScoringProgress:
    """Progress while observations are scored."""

    done: int
    total: int


@dataclass(frozen=True)
class FitOptions:
    """What a training run needs besides data: who is told of progress, and where it may be resumed from."""

    progress: Callable[[Any], None] | None = None
    checkpoint: Path | None = None
    resume: bool = False
    fingerprint: Mapping[str, Any] = field(default_factory=dict)


class Detector(Parameters, ABC, Generic[ConfigT]):
    """Learns from unlabelled, contaminated series what is normal; says when, which variable and how sure.

    Parameters
    ----------
    length, contamination, seed
        Steps per observation, share of anomalous data or "auto", seed of all randomness. None: as `config` says.
    config
        The rest of the settings, a `Config` of the class. None: its defaults.
    """

    name: ClassVar[str]
    savable: ClassVar[bool] = True  # False where what was learnt cannot be told as arrays
    Config: ClassVar[type[Common]] = Common
    settings_: ConfigT

    def __init__(
        self,
        length: int | None = None,
        contamination: float | Literal["auto"] | None = None,
        seed: int | None = None,
        config: ConfigT | None = None,
    ) -> None:
        self.length = length
        self.contamination = contamination
        self.seed = seed
        self.config = config

    @abstractmethod
    def _fit(self, train: Observations, validation: Observations, options: FitOptions) -> None:
        """Learn from normalised observations. `validation` is unlabelled too, and contaminated alike."""

    @abstractmethod
    def _score(self, observations: Observations) -> Iterator[Evidence]:
        """The evidence of each normalised observation, one by one, none depending on another."""

    @abstractmethod
    def _state(self) -> dict[str, NDArray[Any]]:
        """Everything learnt, as named arrays."""

    @abstractmethod
    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """The inverse of `_state`."""

    @property
    def view_names(self) -> tuple[str, ...]:
        """Names of the scores that are fused into one, in the order of `Evidence.view_scores`."""
        return ()

    def _adapt(self, history: Observations) -> None:
        """Learn what else belongs to an entity, from its normalised history. Most detectors keep nothing of it."""

    def _place_threshold(self, threshold: float) -> float:
        """Where the threshold lies, if not where the training scores put it."""
        return threshold

    @property
    @final
    def settings(self) -> ConfigT:
        """The settings in force: those it was fitted with, whatever was set since; before that, those asked for."""
        return self.__dict__.get("settings_") or self._requested_settings()

    def _requested_settings(self) -> ConfigT:
        """`config` with the constructor's own arguments on top, types and ranges checked."""
        config = cast(ConfigT, self.Config()) if self.config is None else self.config
        if type(config) is not self.Config:
            came = f"{type(config).__module__}.{type(config).__qualname__}"
            raise ConfigError(f"`config` must be a {type(self).__name__}.Config, but got a {came}.")
        given = {"length": self.length, "contamination": self.contamination, "seed": self.seed}
        return update(config, to_mapping(config) | {name: value for name, value in given.items() if value is not None})

    @final
    def fit(
        self,
        X: Any,
        y: None = None,
        *,
        validation: Any = None,
        progress: Callable[[Any], None] | None = None,
        checkpoint: str | Path | None = None,
        resume: bool = False,
    ) -> Self:
        """Learn from history `X`: a data frame, an array (time, variable) or (observation, time, variable), or a dict
        of entities. `y` is ignored. `validation` is unlabelled data for early stopping and the threshold; without it
        a share of the observations is set aside. `checkpoint` names a file from which `resume=True` goes on."""
        settings = self._requested_settings()
        every, clock, scaler = self.prepare(X)
        check(settings.threshold, clock, settings.length)
        if unheeded := idle(settings.threshold, settings.contamination != "auto"):
            warnings.warn(unheeded, TsadcNotice, stacklevel=2)
        series, train, chosen = every.series, every, None
        if validation is None:
            chosen = _set_aside(len(train), settings.validation, settings.seed)
            held = train.take(chosen)
            train = train.take(np.setdiff1d(np.arange(len(every)), chosen))
        else:
            held = self._validation(validation, settings, replace(series[0], clock=clock), scaler)
        self.__dict__.pop("threshold_", None)  # from here on, and until it is done, this detector is not fitted
        self.settings_ = settings
        self.variables_ = series[0].names
        self.clock_ = replace(clock, start=0)
        self.scaler_ = scaler
        self.provenance_ = provenance(self.name, every)
        fingerprint = {"history": self.provenance_["data"], "validation": describe(held)}
        options = FitOptions(progress, Path(checkpoint) if checkpoint is not None else None, resume, fingerprint)
        with single_threaded_blas():
            self._fit(train.scaled(scaler), held.scaled(scaler), options)
        self.decision_scores_ = self._scores(every, progress)
        self.validation_scores_ = self._scores(held, progress) if chosen is None else self.decision_scores_[chosen]
        self._calibrate()
        return self

    @final
    def prepare(self, X: Any) -> tuple[Observations, Clock, Scaler]:
        """The observations that `fit` would learn from, their clock and their scale; refused what it would refuse."""
        settings = self._requested_settings()
        series = as_series(X, settings.length, Reading(coverage=settings.coverage))
        series = match(series, series[0].names)
        clock = next((one.clock for one in series if one.clock.every), series[0].clock)
        self._check_intervals(series, clock)
        scaler = Scaler.fit(series, settings.scaler)
        scaler.check_constant(series[0].names)
        observations = cut(series, settings.length, settings.coverage).observations
        self._check_amount(observations, series)
        return observations, clock, scaler

    def _validation(self, data: Any, settings: Common, first: Series, scaler: Scaler) -> Observations:
        """Unlabelled data that the user has set aside, as observations."""
        other = match(as_series(data, settings.length, Reading(coverage=settings.coverage)), first.names)
        self._check_intervals(other, first.clock)
        if settings.scaler.scope == "entity":
            scaler.adapt(one for one in other if one.entity not in scaler.entities)
        held = cut(other, settings.length, settings.coverage).observations
        if not len(held):
            raise DataError(f"The validation data holds no observation of {settings.length} rows; give more of it.")
        return held

    @final
    def set_threshold(self, *, contamination: float | Literal["auto"] | None = None, **threshold: Any) -> Self:
        """Choose the threshold anew, as in `set_threshold(method="alarms", per_day=2)`. Nothing is retrained."""
        self._require_fitted()
        stated = {} if contamination is None else {"contamination": contamination}
        settings = update(self.settings_, {"threshold": threshold, **stated})
        refuse_idle(settings.threshold, settings.contamination != "auto", threshold)
        check(settings.threshold, self.clock_, settings.length)
        self.settings_ = settings
        self._calibrate()
        return self

    def _calibrate(self) -> None:
        asked, scores = self.settings_, (self.validation_scores_, self._every_score())
        self.contamination_, self.normal_ = calibrate(self.decision_scores_, asked.contamination, asked.seed)
        chosen = choose(asked.threshold, self.contamination_, self.normal_, scores, self.clock_, asked.length)
        self.threshold_ = self._place_threshold(chosen)

    def _every_score(self) -> Floats:
        """Of the history and of the validation data, which may have been set aside from it: each once."""
        held, every = self.validation_scores_, self.decision_scores_
        chosen = _set_aside(len(every), self.settings_.validation, self.settings_.seed)
        return every if np.array_equal(held, every[chosen]) else np.concatenate([held, every])

    @property
    def labels_(self) -> NDArray[np.int64]:
        """1 for each training observation above the threshold, as PyOD calls it."""
        self._require_fitted()
        return (self.decision_scores_ > self.threshold_).astype(np.int64)

    def _scores(self, observations: Observations, progress: Callable[[Any], None] | None = None) -> Floats:
        return np.array([found.score for found in self._evidence(observations, progress)], dtype=np.float64)

    def _evidence(self, observations: Observations, progress: Callable[[Any], None] | None) -> Iterator[Evidence]:
        every = self._score(observations.scaled(self.scaler_))
        for i, found in enumerate(each_within(single_threaded_blas, every)):
            if progress is not None:
                progress(ScoringProgress(i + 1, len(observations)))
            if found.expected is not None:
                raw = self.scaler_.undo(observations.entity(i), found.expected.T).T
                found = replace(found, expected=raw.astype(np.float32))
            yield found

    @final
    def detect(self, X: Any, *, progress: Callable[[Any], None] | None = None) -> Result:
        """When, which variable, how sure: see `Result`."""
        pieces = self._cut(X)
        evidence = list(self._evidence(pieces.observations, progress))
        return self._assemble(pieces.observations, evidence, pieces.left_out)

    @final
    def detect_parts(
        self, X: Any, *, rows: int = 20_000, progress: Callable[[Any], None] | None = None
    ) -> Iterator[Result]:
        """What `detect` finds, in parts of about `rows` rows, for requests larger than memory. One after the other the
        parts are the whole: each ends with its series or after an observation that is not anomalous, so that no
        interval is cut, unless it spans more than `MOST_CELLS` cells."""
        observations = self._cut(X).observations
        evidence, length = self._evidence(observations, progress), self.settings.length
        most = max(1, MOST_CELLS // (len(self.variables_) * length))
        rows = min(rows, most * length)
        for number, mine in enumerate(observations.by_series()):
            end, first, part = len(observations.series[number]), 0, list[Evidence]()
            for i in mine:
                start = observations.places[i].start
                if start - first > rows and not part:
                    yield from self._bare(observations, number, range(first, start, rows))
                    first = start
                part.append(next(evidence))
                stop = end if i == mine[-1] else observations.places[i + 1].start
                calm = len(part) * length >= rows and part[-1].score <= self.threshold_
                bare = stop - (start + length) > rows
                if calm or bare or len(part) == most or i == mine[-1]:
                    stop = start + length if bare else stop
                    chosen = range(i + 1 - len(part), i + 1)
                    yield self._assemble(section(observations, number, chosen, first, stop), part, 0)
                    first, part = stop, []
            yield from self._bare(observations, number, range(first, end, rows))

    def _bare(self, observations: Observations, number: int, rows: range) -> Iterator[Result]:
        """Rows of a series that no observation covers, however many: a gap may be longer than memory is large."""
        for first in rows:
            stop = min(first + rows.step, rows.stop)
            yield self._assemble(section(observations, number, [], first, stop), [], 0)

    def _assemble(self, observations: Observations, evidence: Sequence[Evidence], left_out: int) -> Result:
        expected = [found.expected for found in evidence if found.expected is not None]
        return assemble(
            observations,
            evidence,
            Threshold(self.threshold_, float(np.median(self.decision_scores_)), self.normal_),
            merge=max(2, round(0.05 * self.settings.length)),
            expected=expected if len(expected) == len(evidence) else None,
            left_out=left_out,
            views=self.view_names,
        )

    @final
    def decision_function(self, X: Any) -> Floats:
        """One score per observation; higher is more anomalous."""
        return self._scores(self._cut(X).observations)

    @final
    def predict(self, X: Any) -> NDArray[np.int64]:
        """1 for each observation above the threshold, 0 for the others."""
        return (self.decision_function(X) > self.threshold_).astype(np.int64)

    @final
    def adapt(self, X: Any) -> Self:
        """Normalise the entities of `X`, new or known, by this history of theirs from now on. Nothing is retrained."""
        self._require_fitted()
        series = match(as_series(X, self.settings.length, Reading(coverage=self.settings.coverage)), self.variables_)
        self._check_intervals(series, self.clock_)
        for one in series:
            measured = sum(int(np.isfinite(values).any(axis=1).sum()) for values in one.chunks())
            if measured < self.settings.length:
                raise DataError(
                    f"Adapting to {one.entity!r} needs at least {self.settings.length} rows with values, but its "
                    f"history has {measured}; give more of it."
                )
        self.scaler_.adapt(series)
        pieces = cut(series, self.settings.length, self.settings.coverage)
        with single_threaded_blas():
            self._adapt(pieces.observations.scaled(self.scaler_))
        return self

    @final
    def save(self, path: str | Path) -> None:
        """Write the model folder; it must not exist yet."""
        from tsadc.detectors.store import save

        self._require_fitted()
        save(self, Path(path))

    def _require_fitted(self) -> None:
        if not hasattr(self, "threshold_"):
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet; call fit(history) first.")

    def _cut(self, data: Any) -> Cut:
        self._require_fitted()
        series = match(as_series(data, self.settings.length, Reading(coverage=self.settings.coverage)), self.variables_)
        self._check_intervals(series, self.clock_)
        new = [one.entity for one in series if one.entity not in self.scaler_.entities]
        if new and self.settings.scaler.scope == "entity" and len(self.scaler_.entities) > 1:
            warnings.warn(
                f"New to the model, and so normalised by the pooled statistics: {', '.join(new)}; "
                "`adapt` gives an entity its own from its history.",
                TsadcNotice,
                stacklevel=3,
            )
        pieces = cut(series, self.settings.length, self.settings.coverage)
        if not len(pieces.observations):
            raise DataError(
                f"An observation is scored when at least {_share(self.settings.coverage)} of its "
                f"{self.settings.length} rows are there, but "
                f"{series[0].entity!r} has {len(series[0])} rows and none qualifies."
            )
        if pieces.left_out:
            warnings.warn(
                f"{pieces.left_out} observation(s) with under {_share(self.settings.coverage)} of their rows were left "
                "out.",
                TsadcNotice,
                stacklevel=3,
            )
        return pieces

    @staticmethod
    def _check_intervals(series: tuple[Series, ...], expected: Clock) -> None:
        for one in series:
            if one.clock.every and expected.every and one.clock.every != expected.every:
                raise DataError(
                    f"{one.entity!r} is sampled every {spell(one.clock.every)}, but {spell(expected.every)} was "
                    f"expected; {how_to_resample(expected.every, recording=True)}."
                )

    def _check_amount(self, train: Observations, series: tuple[Series, ...]) -> None:
        if len(train) >= LEAST_OBSERVATIONS:
            return
        rows, length = sum(len(one) for one in series), train.length
        raise DataError(
            f"Training needs at least {LEAST_OBSERVATIONS} observations of {length} rows with enough values, but the "
            f"history of {rows} rows in {len(series)} series gives {len(train)}; use a smaller length or more data."
        )


def _share(coverage: float) -> str:
    return "half" if coverage == 0.5 else f"{coverage:.0%}"


def _set_aside(count: int, share: float, seed: int) -> NDArray[np.int64]:
    """Which observations validate: spread at random, so that slow drift reaches both parts alike."""
    chosen = np.random.default_rng(seed).permutation(count)[: max(1, round(share * count))]
    return np.sort(chosen)
