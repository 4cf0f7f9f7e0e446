"""The views: cheap scores of an observation, each good at one kind of anomaly. Every log score s is defined here.

    view          detects                                           log score s
    deviation     extreme values                                    peak of |z|
    combination   values that do not fit the others of the step     peak of the residual of a few principal components
    ...           what the detector's own model finds               peak of each residual, under the model's name for it
    correlation   variables that no longer move together            distance of the correlations to the nearest ones
    shape         unusual shapes                                    distance of the random convolutions to the nearest
    energy        windows in which a variable varies more or less   unusual standard deviation of a window
                  than usual
    conditional   windows that the other variables explain worse    unusual size of the ridge residual of a window
                  or better than usual
    roughness     windows that are rougher or smoother than usual   unusual change of the ridge residual of a window

with

    peak          log(.1 + size of the step) - baseline, see `Peaks`; the largest step counts
    distance      log(.02 + mean distance), see `Neighbours`
    unusual       log(.1 + mean of the 3 largest |u| of the window), see `WindowBaseline`; the largest window counts

The features that the views compare are defined in `features.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tsadc.detectors.ensemble.features import (
    KINDS,
    MIN_HISTORY,
    TOP_VARIABLES,
    DetailedFeatures,
    FeatureExtractor,
    Features,
    Standardiser,
    contributions_of,
    decode_names,
    encode_names,
)
from tsadc.detectors.pooling import top_mean
from tsadc.series import Booleans, Floats

STEPWISE = ("deviation", "combination")  # before the residuals of the model
WHOLE = ("correlation", "shape")  # after them: distances of the whole observation
LOG_OFFSET = 0.1  # in units of z or u, added before the log, so that differences among small values hardly count
DISTANCE_OFFSET = 0.02  # the same for distances
EXTRA_CANDIDATES = 16  # beyond the neighbours wanted, because the fast distance that preselects them is rounded
ENOUGH_OTHERS = 4  # times the neighbours wanted: with so many of other entities, an entity's own are left out


def view_names_with(residuals: Sequence[str]) -> tuple[str, ...]:
    """Return the names of all views, in order, given the names of the model's residuals."""
    return (*STEPWISE, *residuals, *WHOLE, *KINDS)


@dataclass(frozen=True)
class FittedViews:
    """All views, fitted to the same training observations. Add a new view here.

    Attributes
    ----------
    peaks : tuple of Peaks
        One for each of deviation, combination, and the residuals of the model.
    correlations, shapes : Neighbours
    windows : WindowBaseline
        Energy, conditional and roughness.
    """

    peaks: tuple[Peaks, ...]
    correlations: Neighbours
    shapes: Neighbours
    windows: WindowBaseline

    @classmethod
    def fit(cls, features: Sequence[Features], entities: list[str], kept: Booleans, neighbours: int) -> Self:
        """Fit to training observations, of which those in `kept` count as normal."""
        peaks = np.stack([each.peaks for each in features])
        return cls(
            tuple(Peaks.fit(column, entities) for column in peaks.T),
            Neighbours.fit(np.stack([each.correlations for each in features]), entities, kept, neighbours),
            Neighbours.fit(np.stack([each.shapes for each in features]), entities, kept, neighbours),
            WindowBaseline.fit(np.stack([each.windows for each in features]), entities, kept),
        )

    def adapt(self, entity: str, features: Sequence[Features]) -> None:
        """Learn what is usual for an entity from the observations of its history."""
        peaks = np.stack([each.peaks for each in features])
        for view, column in zip(self.peaks, peaks.T, strict=True):
            view.adapt(column, [entity] * len(features))
        self.correlations.standardiser.adapt(entity, np.stack([each.correlations for each in features]))
        self.shapes.standardiser.adapt(entity, np.stack([each.shapes for each in features]))
        self.windows.adapt(entity, np.stack([each.windows for each in features]))

    def score(self, entity: str, features: Features) -> Floats:
        """Return the log score (view,) of every view."""
        peaks = [float(view(entity, largest)) for view, largest in zip(self.peaks, features.maxima, strict=True)]
        correlation, _ = self.correlations.distance(entity, features.correlations)
        shape, _ = self.shapes.distance(entity, features.shapes)
        windows = self.windows.scores(self.windows(entity, features.windows)).max(axis=1)
        return np.array([*peaks, *np.log(DISTANCE_OFFSET + np.array([correlation, shape])), *windows])

    def explain(
        self, entity: str, details: DetailedFeatures, extractor: FeatureExtractor
    ) -> tuple[list[float | Floats], list[Floats]]:
        """Return log scores and contributions of every view, for one observation.

        A log score is a float for a view of the whole observation, otherwise (time,). Contributions are (variable,
        time), or (variable, 1) if they are the same at every step; they are relative to what is usual.
        """
        features, (variables, length) = details.features, details.cells[0].shape
        scores: list[float | Floats] = []
        contributions = []
        for view, cells, steps in zip(self.peaks, details.cells, details.steps, strict=True):
            scores.append(view(entity, steps))
            contributions.append(cells / view.usual(entity))
        for distance, deviation, owners in (
            (*self.correlations.distance(entity, features.correlations), extractor.correlations.owners),
            (*self.shapes.distance(entity, features.shapes), extractor.convolutions.owners),
        ):
            scores.append(float(np.log(DISTANCE_OFFSET + distance)))
            contributions.append(contributions_of(deviation, owners, variables)[:, None])
        u = self.windows(entity, features.windows)
        scores += list(extractor.windows.to_steps(self.windows.scores(u), length))
        contributions += list(extractor.windows.to_steps(u, length))
        return scores, contributions

    def state(self, residuals: Sequence[str]) -> dict[str, NDArray[Any]]:
        # The names in saved models stay: there, peaks are `extremes`, baselines `reach`, and windows `local`.
        named = zip((*STEPWISE, *residuals), self.peaks, strict=True)
        peaks = dict(pair for name, view in named for pair in view.state(f"extremes.{name}").items())
        whole = self.correlations.state("correlations") | self.shapes.state("shapes")
        return peaks | whole | self.windows.state("local")

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]], residuals: Sequence[str], neighbours: int) -> Self:
        return cls(
            tuple(Peaks.restore(state, f"extremes.{name}") for name in (*STEPWISE, *residuals)),
            Neighbours.restore(state, "correlations", neighbours),
            Neighbours.restore(state, "shapes", neighbours),
            WindowBaseline.restore(state, "local"),
        )


class Peaks:
    """Compares the size of steps with the peaks that are usual for the entity.

        name       meaning
        size       (time,) the mean of the 3 largest cells of a step; cells (variable, time) >= 0 are |z| or residuals
        peak       the size that 1 % of the steps of an observation exceed
        baseline   log(.1 + median peak of the observations of the entity)
        s          (time,) log(.1 + size) - baseline

    Entities differ in how spiky they are, even on one scale: a peak of 20 is an incident on one machine and a daily
    event on another. The median over observations is robust to incidents in the history. An entity with at least 8
    observations has its own baseline, others share that of all.
    """

    def __init__(self, baseline: float, entities: Mapping[str, float]) -> None:
        self.baseline, self.entities = baseline, dict(entities)

    @classmethod
    def fit(cls, peaks: Sequence[float] | Floats, entities: Sequence[str]) -> Self:
        """Fit baselines to the peaks of training observations and their entities."""
        view = cls(_baseline(np.asarray(peaks)) or 0.0, {})
        view.adapt(peaks, entities)
        return view

    def adapt(self, peaks: Sequence[float] | Floats, entities: Sequence[str]) -> None:
        """Set the baselines of entities, new or known."""
        owner, every = np.array(entities), np.array(peaks)
        for entity in dict.fromkeys(entities):
            own = every[owner == entity]
            baseline = _baseline(own)
            if len(own) >= MIN_HISTORY and baseline is not None:
                self.entities[entity] = baseline

    def __call__(self, entity: str, sizes: Floats) -> Floats:
        """Return s for the sizes of steps of an entity; NaN where nothing was measured."""
        return np.log(LOG_OFFSET + sizes.astype(np.float64)) - self.entities.get(entity, self.baseline)

    def usual(self, entity: str) -> float:
        """Return the peak that is usual for the entity."""
        return float(np.exp(self.entities.get(entity, self.baseline)))

    def state(self, prefix: str) -> dict[str, NDArray[Any]]:
        return {
            f"{prefix}.reach": np.array([self.baseline]),
            f"{prefix}.entities": encode_names(list(self.entities)),
            f"{prefix}.reaches": np.array(list(self.entities.values()), dtype=np.float64),
        }

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]], prefix: str) -> Self:
        names = decode_names(state[f"{prefix}.entities"])
        baselines = [float(baseline) for baseline in state[f"{prefix}.reaches"]]
        return cls(float(state[f"{prefix}.reach"][0]), dict(zip(names, baselines, strict=True)))


def _baseline(peaks: Floats) -> float | None:
    known = peaks[np.isfinite(peaks)]
    return float(np.log(LOG_OFFSET + np.median(known))) if len(known) else None


class Neighbours:
    """Measures how far the features of an observation are from those of the nearest training observations.

        name       meaning
        u          (feature,) standardised features of the observation
        pool       (observation, feature) u of the training observations that count as normal
        distance   root mean square of u - v over the features, averaged over the nearest v in the pool

    The threshold comes from the scores of training observations, so they must be scored by the same rule as new ones.
    But a training observation resembles those just before and after it more than a new one will: compared with its own
    entity it would score too low. Therefore the observations of an entity are not its own neighbours, neither in
    training nor later, if those of other entities are at least 4 times as many as the neighbours wanted. With a single
    entity, or few others, every observation is a candidate except the observation itself, at distance 0.
    """

    def __init__(
        self, standardiser: Standardiser, pool: NDArray[np.float32], entities: Sequence[str], count: int
    ) -> None:
        self.standardiser, self.pool, self.entities, self.count = standardiser, pool, tuple(entities), count
        names, members = np.unique(np.array(self.entities), return_inverse=True)
        self.codes = {str(name): code for code, name in enumerate(names)}
        self.members = members
        self.squares = np.square(pool).sum(axis=1)

    @classmethod
    def fit(cls, features: Floats, entities: Sequence[str], kept: Booleans, count: int) -> Self:
        """Fit to the features (observation, feature) of training observations; those in `kept` count as normal."""
        standardiser = Standardiser.fit(features, entities, kept)
        chosen = [int(i) for i in np.flatnonzero(kept)]
        pool = np.stack([standardiser(entities[i], features[i]) for i in chosen]).astype(np.float32)
        return cls(standardiser, pool, [entities[i] for i in chosen], count)

    @classmethod
    def fit_trimmed(cls, features: Floats, entities: Sequence[str], keep: float, count: int) -> Self:
        """Fit to all observations, then again to the share `keep` that is nearest to the rest."""
        every = cls.fit(features, entities, np.ones(len(features), dtype=bool), count)
        distances = [every.distance(entity, row)[0] for entity, row in zip(entities, features, strict=True)]
        return cls.fit(features, entities, lowest_share(np.array(distances), keep), count)

    def distance(self, entity: str, features: Floats) -> tuple[float, Floats]:
        """Return the distance of an observation, and the mean deviation (feature,) from its neighbours."""
        u = self.standardiser(entity, features).astype(np.float32)
        deviation = np.abs(u - self._nearest(entity, u)).astype(np.float64)
        return float(np.sqrt(np.square(deviation).mean(axis=1)).mean()), deviation.mean(axis=0)

    def _nearest(self, entity: str, u: NDArray[np.float32]) -> NDArray[np.float32]:
        fast = self.squares - 2 * (self.pool @ u)  # |u - v|^2 - |u|^2
        others = self.members != self.codes.get(entity, -1)
        if others.sum() >= ENOUGH_OTHERS * self.count:
            fast = np.where(others, fast, np.inf)
        number = min(self.count + EXTRA_CANDIDATES, len(fast))
        candidates = np.sort(np.argpartition(fast, number - 1)[:number])
        candidates = candidates[np.isfinite(fast[candidates])]
        exact = np.square(self.pool[candidates].astype(np.float64) - u).sum(axis=1)
        order = np.argsort(exact, kind="stable")
        if exact[order[0]] == 0 and len(order) > 1:
            order = order[1:]
        return np.asarray(self.pool[candidates[order[: self.count]]])

    def state(self, prefix: str) -> dict[str, NDArray[Any]]:
        own: dict[str, NDArray[Any]] = {f"{prefix}.pool": self.pool, f"{prefix}.members": encode_names(self.entities)}
        return own | self.standardiser.state(f"{prefix}.standard")

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]], prefix: str, count: int) -> Self:
        standardiser = Standardiser.restore(state, f"{prefix}.standard")
        return cls(standardiser, state[f"{prefix}.pool"], decode_names(state[f"{prefix}.members"]), count)


def lowest_share(scores: Floats, share: float) -> Booleans:
    """Return True for the `share` of observations with the lowest scores, rounded up."""
    kept = np.zeros(len(scores), dtype=bool)
    kept[np.argsort(scores, kind="stable")[: int(np.ceil(share * len(scores)))]] = True
    return kept


class WindowBaseline:
    """Compares the features of short windows with what is usual for kind, variable and entity, anywhere in time."""

    def __init__(self, standardiser: Standardiser) -> None:
        self.standardiser = standardiser

    @classmethod
    def fit(cls, features: Floats, entities: Sequence[str], kept: Booleans) -> Self:
        """Fit to features (observation, kind, variable, window); the observations in `kept` count as normal."""
        windows = features.shape[-1]
        owners = [entity for entity in entities for _ in range(windows)]
        return cls(Standardiser.fit(_rows(features), owners, np.repeat(kept, windows), windows * MIN_HISTORY))

    def adapt(self, entity: str, features: Floats) -> None:
        """Learn what is usual for an entity from features (observation, kind, variable, window) of its history."""
        self.standardiser.adapt(entity, _rows(features))

    def __call__(self, entity: str, features: Floats) -> Floats:
        """Return |u| (kind, variable, window)."""
        rows = self.standardiser(entity, _rows(features[None]))
        return np.abs(rows.T).reshape(features.shape)

    @staticmethod
    def scores(u: Floats) -> Floats:
        """Return s (kind, window) from |u| (kind, variable, window)."""
        return np.log(LOG_OFFSET + np.stack([top_mean(kind, TOP_VARIABLES) for kind in u]).astype(np.float64))

    def state(self, prefix: str) -> dict[str, NDArray[Any]]:
        return self.standardiser.state(prefix)

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]], prefix: str) -> Self:
        return cls(Standardiser.restore(state, prefix))


def _rows(features: Floats) -> Floats:
    """Reshape (observation, kind, variable, window) to (observation and window, kind and variable)."""
    number, kinds, variables, windows = features.shape
    return features.transpose(0, 3, 1, 2).reshape(number * windows, kinds * variables)
