"""The fused scorer: all views of an observation, with or without the residuals of a model, as one score.

Fitting takes two rounds. In the first, all training observations count as normal, and some of the views (`first_round`)
score them. In the second, those with the lowest scores count as normal, or all of a clean history, and all views are
fitted. The validation part joins the training part: training scores are cross-fitted, so they stay honest, and with few
observations every one helps.

Only variables with more than 10 different values in the history are judged, unless none has. Commands, states and
constants are not measurements: counted as such, they drown those that are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from tsadc.config import require
from tsadc.detectors.drift import usual_score
from tsadc.detectors.ensemble.features import (
    BANDS,
    MAX_DILATIONS,
    MAX_PAIRS,
    MIN_HISTORY,
    Bands,
    Convolutions,
    Correlations,
    Residuals,
    Windows,
    decode_names,
    encode_names,
    most_sampled,
)
from tsadc.detectors.ensemble.fusion import Fusion
from tsadc.detectors.ensemble.neighbours import MIN_QUARTERED, QUARTERS, Neighbours, Quarters
from tsadc.detectors.ensemble.peaks import Departure, ModelResiduals, Remainder
from tsadc.detectors.ensemble.rows import Density, Ranges
from tsadc.detectors.ensemble.training import Training, lowest_share
from tsadc.detectors.ensemble.views import ViewGroup, measure_together
from tsadc.detectors.ensemble.windows import Energy, RidgeResiduals
from tsadc.detectors.result import Evidence
from tsadc.detectors.threshold import Contamination
from tsadc.errors import listed, notice
from tsadc.series import Booleans, Floats, Observations, Series
from tsadc.subsample import evenly_spaced

MAX_STATES = 10  # a variable with no more different values is a state, not a measurement
CLEAN = 0.03  # a history in which no more than this share stands out counts as clean
KEPT = 0.8  # share of a dirty history that counts as normal
MIN_TRIMMED = 40  # observations; a shorter history is kept as a whole
FIRST_CLIP = 5.0  # of the scores of a view in the first round, in robust standard deviations
NORMAL_MAD = 1.4826  # standard deviation of a Gaussian, in median absolute deviations
MIN_SPREAD = 0.02  # of the log scores of a view
VIEWS = (
    *("departure", "combination", "sustained", "level", "correlation", "shape", "bands", "quarters"),
    *("energy", "conditional", "roughness", "density", "range"),
)
Model = Callable[[Iterable[Floats]], Iterator[Residuals]]  # maps observations (variable, time), one by one
Indices = NDArray[np.int64]
History = Literal["auto", "dirty", "clean"]


class FusedScorer:
    """Score observations by all views, fused. Detectors with a network add the network's residuals as views.

    Attributes
    ----------
    judged : (variable,)
        True for the variables that are judged.
    groups : list of ViewGroup
        The fitted views.
    residuals : ModelResiduals or None
        The residuals of the model, as views.
    fusion : Fusion
    usual : dict of str to float
        Usual score of each entity with a history long enough to judge it by; see `tsadc.detectors.drift`. `adapt` does
        not change it.
    training_scores : tuple of arrays, or None
        Cross-fitted scores of the observations of each part that the scorer was fitted to; None if it was loaded.
    training_views : tuple of arrays (observation, view), or None
        What each view adds to these scores; NaN for observations that it did not learn from.
    training_log_scores : (observation, view), or None
        Cross-fitted log scores of those that it learnt from; None if it was loaded.
    """

    training_scores: tuple[Floats, ...] | None = None
    training_views: tuple[Floats, ...] | None = None
    training_log_scores: Floats | None = None

    @dataclass(frozen=True)
    class Config:
        """Settings of the ensemble.

        Parameters
        ----------
        kernels : int, default 128
            Random convolutions per dilation (view `shape`), at least 1. More are slower.
        neighbours : int, default 5
            Number of nearest training observations whose mean distance `correlation`, `shape` and `bands` measure, at
            least 1.
        history : {"auto", "dirty", "clean"}, default "auto"
            Whether the history may hold anomalies. "dirty": its most unusual fifth does not count as normal. "clean":
            all of it counts as normal. "auto": dirty, unless at most 3 % of it stands out. A history of fewer than 40
            observations always counts as normal.
        mode : {"causal", "audit"}, default "causal"
            "causal": the score of an observation depends on nothing but the model and the observation. "audit": for a
            record that is complete. If the scores of a series lie above those of its history as a whole, they are
            lowered by that, so that entities which have drifted do not rank before those which have not.
        """

        renamed_settings: ClassVar[Mapping[str, str]] = {"keep": "is now `history` (auto, dirty or clean)"}

        kernels: int = 128
        neighbours: int = 5
        history: History = "auto"
        mode: Literal["causal", "audit"] = "causal"

        def __post_init__(self) -> None:
            require(self.kernels >= 1, "kernels", "at least 1", self.kernels)
            require(self.neighbours >= 1, "neighbours", "at least 1", self.neighbours)

    def __init__(
        self,
        judged: Booleans,
        groups: Sequence[ViewGroup],
        residuals: ModelResiduals | None,
        fusion: Fusion,
        usual: Mapping[str, float],
    ) -> None:
        self.judged, self.groups, self.residuals = judged, list(groups), residuals
        self.fusion, self.usual = fusion, dict(usual)

    @property
    def view_names(self) -> tuple[str, ...]:
        """Names of all views, in the order of their scores."""
        own = self.residuals.names if self.residuals is not None else ()
        return (*(name for group in self.groups for name in group.names), *own)

    @classmethod
    def fit(
        cls,
        parts: Sequence[Observations],
        config: FusedScorer.Config,
        seed: int,
        residuals: Sequence[str] = (),
        model: Model | None = None,
        judged: Booleans | None = None,
        others: int = 0,
    ) -> Self:
        """Fit to normalised observations, which may be contaminated.

        Parameters
        ----------
        parts
            Training and validation observations.
        config, seed
            Settings, and the seed of the random convolutions.
        residuals, model
            Names of the residuals of a model, and the function that computes them.
        judged, others
            Which variables are judged, and how many entities will be adapted to, if the parts are only a sample of the
            history.
        """
        judged = judged_variables(parts) if judged is None else judged
        sample = training_sample(parts, config)
        if not judged.all():
            states = [name for name, is_judged in zip(parts[0].names, judged, strict=True) if not is_judged]
            have = "they have" if len(states) > 1 else "it has"
            notice(f"Not judged, as {have} at most {MAX_STATES} different values in the history: {listed(states)}.")
        chosen = [part.take(indices) for part, indices in zip(parts, sample, strict=True)]
        every = [(part, i) for part in chosen for i in range(len(part))]
        training = Training.of(chosen, others)

        def read(i: int) -> Floats:
            part, index = every[i]
            return part.read(index)[judged]

        variables = int(judged.sum())
        convolutions = Convolutions.fit(read, len(every), config.kernels, seed)
        groups = _groups(parts[0].length, config, convolutions, Correlations.choose(variables, seed))
        first = [group for group in groups if group.first_round]
        together = [group for group in first if not group.learns]
        measured = dict(zip(together, measure_together(together, read, training), strict=True))
        features = [measured.pop(group) if group in measured else group.measure_all(read, training) for group in first]
        scores = [group.fit(values, training) for group, values in zip(first, features, strict=True)]
        kept = _normal(_consensus(np.concatenate(scores, axis=1)), config.history, seed)
        training = training.keeping(kept)
        known = dict(zip((group.stored for group in first), features, strict=True))
        columns = []
        for group in groups:
            # Features that were learnt from all observations are measured again, without the unusual ones.
            again = group.stored not in known or (group.learns and not kept.all())
            values = group.measure_all(read, training) if again else known.pop(group.stored)
            columns.append(group.fit(values, training))
        own = None
        if model is not None:
            own = ModelResiduals(residuals, variables)
            arrays = model(part.read(i) for part, i in every)
            cells = np.stack([own.measure_cells([array[judged] for array in found]) for found in arrays])
            columns.append(own.fit(cells, training))
        log_scores = np.concatenate(columns, axis=1)
        log_scores[np.isnan(log_scores[:, 0])] = np.nan  # no departure: no judged variable was measured
        fusion = Fusion.fit(log_scores)
        fused = fusion(log_scores).astype(np.float32).astype(np.float64)
        usual = {entity: usual_score(fused[members]) for entity, members in training.known().items()}
        scorer = cls(judged, groups, own, fusion, usual)
        scorer.training_log_scores = log_scores
        scorer.training_scores = scorer._scores_of(parts, sample, fused, model)
        scorer.training_views = scorer._views_of(parts, sample, log_scores)
        return scorer

    def _views_of(
        self, parts: Sequence[Observations], sample: Sequence[Indices], log_scores: Floats
    ) -> tuple[Floats, ...]:
        """Return what each view adds to the scores of all observations of the parts; NaN if not in the sample."""
        pieces = np.split(np.nan_to_num(self.fusion.added(log_scores)), np.cumsum([len(own) for own in sample])[:-1])
        views = [np.full((len(part), log_scores.shape[1]), np.nan) for part in parts]
        for every, indices, own in zip(views, sample, pieces, strict=True):
            every[indices] = own
        return tuple(views)

    def _scores_of(
        self, parts: Sequence[Observations], sample: Sequence[Indices], fused: Floats, model: Model | None
    ) -> tuple[Floats, ...]:
        """Return the scores of all observations of the parts: cross-fitted if they are in the sample, as new data
        otherwise."""
        scores, pieces = [], np.split(fused, np.cumsum([len(indices) for indices in sample])[:-1])
        for part, indices, own in zip(parts, sample, pieces, strict=True):
            every = np.empty(len(part))
            every[indices] = own
            others = np.setdiff1d(np.arange(len(part)), indices)
            if len(others):
                every[others] = self.scores(part.take(others), model)
            scores.append(every)
        return tuple(scores)

    def adapt(self, history: Observations, model: Model | None = None) -> None:
        """Learn what is usual for the entities of a normalised history; entities with a short history are skipped.

        The usual score is cross-fitted, like those of the training entities: each half of the history is scored by what
        was learnt from the other."""
        for entity, places in history.by_entity().items():
            if len(places) < MIN_HISTORY:
                continue
            own = history.take(places)
            every = [own.read(i)[self.judged] for i in range(len(own))]
            learnt = [(group, np.stack([group.measure(z, entity) for z in every])) for group in self.groups]
            if model is not None and self.residuals is not None:
                learnt.append((self.residuals, np.stack(list(self._residual_features(own, model)))))
            half, scores = np.arange(len(own)) < len(own) // 2, np.empty(len(own))
            for part in (half, ~half):
                for group, features in learnt:
                    group.adapt(entity, features[~part])
                for i in np.flatnonzero(part):
                    logs = [group.score(entity, features[i]) for group, features in learnt]
                    scores[i] = self.fusion(np.concatenate(logs))
            for group, features in learnt:
                group.adapt(entity, features)
            self.usual[entity] = usual_score(scores)

    def _residual_features(self, observations: Observations, model: Model) -> Iterator[Floats]:
        residuals = self.residuals
        assert residuals is not None
        for found in model(observations.read(i) for i in range(len(observations))):
            yield residuals.measure_cells([array[self.judged] for array in found])

    def scores(self, observations: Observations, model: Model | None = None) -> Floats:
        """Return the score of each normalised observation, without evidence."""
        places = range(len(observations))
        features: Iterable[Floats | None] = repeat(None)
        if model is not None:
            features = self._residual_features(observations, model)
        pairs = zip(places, features, strict=False)
        return np.array([self.score(observations.entity(i), observations.read(i), own) for i, own in pairs])

    def score(self, entity: str, z: Floats, residuals: Floats | None = None) -> float:
        """Return the score of one normalised observation (variable, time), without evidence; 0 if no judged variable
        was measured. `residuals` are features of the residuals of the model."""
        judged = z[self.judged]
        if not np.isfinite(judged).any():
            return 0.0
        logs = self.log_scores(entity, judged)
        if residuals is not None and self.residuals is not None:
            logs = np.concatenate([logs, self.residuals.score(entity, residuals)])
        return float(np.float32(self.fusion(logs)))

    def log_scores(self, entity: str, judged: Floats) -> Floats:
        """Return the log score (view,) of each view, without residuals, of the judged variables of an observation."""
        return np.concatenate([group.score(entity, group.measure(judged, entity)) for group in self.groups])

    def predict(self, entity: str, z: Floats) -> Floats | None:
        """Return what the ridge regression predicts for z (variable, time) from the other variables; NaN for variables
        that are not judged, None if there is only one variable to judge."""
        ridge = next((group for group in self.groups if isinstance(group, RidgeResiduals)), None)
        if ridge is None:
            return None
        predicted = np.full(z.shape, np.nan)
        predicted[self.judged] = ridge.predict(z[self.judged], entity)
        return predicted

    def evidence(self, entity: str, z: Floats, residuals: Residuals = (), expected: Floats | None = None) -> Evidence:
        """Return score and evidence of one normalised observation (variable, time)."""
        judged, measured = z[self.judged], np.isfinite(z)
        contributions = np.where(measured, 0.0, np.nan)
        if not np.isfinite(judged).any():  # nothing speaks for an anomaly
            steps = np.where(measured.any(axis=0), 0.0, np.nan).astype(np.float32)
            views = dict.fromkeys(self.view_names, 0.0)
            return Evidence(0.0, views, steps, contributions.astype(np.float32), np.zeros_like(steps), expected)
        explained = [view for group in self.groups for view in group.explain(entity, judged)]
        if self.residuals is not None:
            explained += self.residuals.explain_cells(entity, [array[self.judged] for array in residuals])
        fused = self.fusion.fuse(explained, np.isfinite(judged))
        contributions[self.judged] += fused.contributions
        # A step at which no judged variable was measured is no more unusual than the least unusual one.
        steps = np.where(np.isnan(fused.steps) & measured.any(axis=0), np.nanmin(fused.steps), fused.steps)
        views = dict(zip(self.view_names, fused.view_scores, strict=True))
        return Evidence(fused.score, views, steps, contributions.astype(np.float32), fused.causes, expected)

    def state(self) -> dict[str, NDArray[Any]]:
        groups = [*self.groups, *([self.residuals] if self.residuals is not None else [])]
        arrays = {name: array for group in groups for name, array in group.state().items()}
        usual = {"usual.entities": encode_names(list(self.usual)), "usual.scores": np.array(list(self.usual.values()))}
        return {"judged": self.judged} | arrays | self.fusion.state() | usual

    @classmethod
    def restore(
        cls, state: Mapping[str, NDArray[Any]], config: FusedScorer.Config, length: int, residuals: Sequence[str] = ()
    ) -> Self:
        judged = state["judged"]
        variables = int(judged.sum())
        convolutions, correlations = Convolutions.restore(state, variables), Correlations.restore(state, variables)
        groups = _groups(length, config, convolutions, correlations)
        own = ModelResiduals(residuals, variables) if residuals else None
        for group in [*groups, *([own] if own is not None else [])]:
            group.restore(state)
        usual = dict(zip(decode_names(state["usual.entities"]), state["usual.scores"].tolist(), strict=True))
        return cls(judged, groups, own, Fusion.restore(state), usual)


def _groups(
    length: int, config: FusedScorer.Config, convolutions: Convolutions, correlations: Correlations
) -> list[ViewGroup]:
    """Return all groups of views that the data has enough variables and rows for, in the order of `VIEWS`."""
    variables, count = convolutions.variables, config.neighbours
    several = variables > 1
    return [
        Departure(variables),
        *([Remainder(variables)] if several else []),
        *([Neighbours("correlation", correlations, variables, count)] if several else []),
        Neighbours("shape", convolutions, variables, count),
        Neighbours("bands", Bands(variables, length), variables, count),
        *([Quarters(variables, length)] if length >= MIN_QUARTERED else []),
        Energy(variables, length),
        *([RidgeResiduals(variables, length)] if several else []),
        Density(variables, length),
        Ranges(variables, length),
    ]


def judged_variables(parts: Sequence[Observations]) -> Booleans:
    """Return which variables have more than `MAX_STATES` different values in the history; all if none has."""
    judged = np.isfinite(different_values([series for part in parts for series in part.series])[:, MAX_STATES])
    return np.asarray(judged if judged.any() else ~judged)


def different_values(series: Sequence[Series]) -> Floats:
    """Return (variable, 11) different values of each variable, as many as there are up to 11, then NaN."""
    different: list[set[float]] = [set() for _ in series[0].names]
    for chunk in (chunk for item in series for chunk in item.chunks()):
        for k, values in enumerate(different):
            if len(values) <= MAX_STATES:
                column = np.asarray(chunk[:, k], dtype=np.float64)
                values.update(np.unique(column[np.isfinite(column)])[: MAX_STATES + 1].tolist())
    out = np.full((len(different), MAX_STATES + 1), np.nan)
    for own, values in zip(out, different, strict=True):
        known = sorted(values)[: len(own)]
        own[: len(known)] = known
    return out


def training_sample(parts: Sequence[Observations], config: FusedScorer.Config) -> list[Indices]:
    """Return which observations of each part `FusedScorer.fit` uses: all, or as many as memory allows."""
    most = most_observations(len(parts[0].names), parts[0].length, config)
    return [evenly_spaced(len(part), most) for part in parts]


def most_observations(variables: int, length: int, config: FusedScorer.Config) -> int:
    """Return how many observations of a part memory allows."""
    pairs = min(variables * (variables - 1) // 2, MAX_PAIRS)
    windows, quarters = 2 * variables * len(Windows(length)), QUARTERS * BANDS * variables
    return most_sampled(2 * max(pairs, MAX_DILATIONS * config.kernels, windows, quarters))


def _consensus(scores: Floats) -> Floats:
    """Return how unusual training observations are in the first round: the mean over views of (s - median), in robust
    standard deviations and clipped, of log scores (observation, view)."""
    middle = np.nanmedian(scores, axis=0)
    spread = NORMAL_MAD * np.nanmedian(np.abs(scores - middle), axis=0) + MIN_SPREAD
    return np.asarray(np.nanmean(np.clip((scores - middle) / spread, -FIRST_CLIP, FIRST_CLIP), axis=1))


def _normal(consensus: Floats, history: History, seed: int) -> Booleans:
    """Return which training observations count as normal."""
    dirty = history == "dirty" or (history == "auto" and Contamination.find(consensus, "auto", seed).share > CLEAN)
    return lowest_share(consensus, KEPT if dirty and len(consensus) >= MIN_TRIMMED else 1.0)
