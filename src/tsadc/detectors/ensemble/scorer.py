"""The fused scorer: all views of an observation, with or without the residuals of a model, as one score.

Fitting takes two rounds. The first fits the views and their fusion to all training observations. The second fits them
again, with only the share `keep` of the lowest scores counted as normal. The validation part joins the training part:
an observation is never its own neighbour, so its score stays honest, and with few observations every one helps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tsadc.config import require
from tsadc.detectors.ensemble.features import MIN_HISTORY, FeatureExtractor, Features, Residuals, subsample
from tsadc.detectors.ensemble.fusion import Fusion
from tsadc.detectors.ensemble.views import FittedViews, lowest_share, view_names_with
from tsadc.detectors.result import Evidence
from tsadc.series import Floats, Observations

FEW_OBSERVATIONS = 100  # with so many training observations, the view `shape` is trusted twice as much as the others
MAX_CONTRIBUTION = 1e6  # of one view, relative to what is typical
Model = Callable[[Iterable[Floats]], Iterator[Residuals]]  # maps observations (variable, time), one by one


class FusedScorer:
    """Score observations by all views, fused. Detectors with a network add the network's residuals as views.

    Attributes
    ----------
    extractor : FeatureExtractor
    views : FittedViews
    fusion : Fusion
    residuals : tuple of str
        Names of the residuals of the model; empty without a model.
    training_scores : tuple of arrays, or None
        Scores of the observations of each part that the scorer was fitted to; None if it was fitted to a subsample or
        loaded from a file.
    """

    training_scores: tuple[Floats, ...] | None = None

    @dataclass(frozen=True)
    class Config:
        """Settings of the ensemble.

        Parameters
        ----------
        kernels : int, default 128
            Random convolutions per dilation (view `shape`), at least 1. More are slower.
        neighbours : int, default 5
            Number of nearest training observations whose mean distance `correlation` and `shape` measure, at least 1.
        keep : float, default 0.8
            Share of the training observations, those with the lowest scores, that counts as normal; above 0 and at
            most 1.
        """

        kernels: int = 128
        neighbours: int = 5
        keep: float = 0.8

        def __post_init__(self) -> None:
            require(self.kernels >= 1, "kernels", "at least 1", self.kernels)
            require(self.neighbours >= 1, "neighbours", "at least 1", self.neighbours)
            require(0 < self.keep <= 1, "keep", "above 0 and at most 1", self.keep)

    def __init__(
        self, extractor: FeatureExtractor, views: FittedViews, fusion: Fusion, residuals: Sequence[str]
    ) -> None:
        self.extractor, self.views, self.fusion, self.residuals = extractor, views, fusion, tuple(residuals)

    @classmethod
    def fit(
        cls,
        parts: Sequence[Observations],
        config: FusedScorer.Config,
        seed: int,
        residuals: Sequence[str] = (),
        model: Model | None = None,
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
        """
        sampled = training_sample(parts, config)
        extractor = FeatureExtractor.fit(sampled, config.kernels, seed)
        features = list(chain.from_iterable(_features(extractor, part, model) for part in sampled))
        entities = [part.entity(i) for part in sampled for i in range(len(part))]
        kept = np.ones(len(features), dtype=bool)
        # The tails of few scores say little about a view. Shapes are compared as a whole, and need the fewest.
        trust = np.where(np.array(view_names_with(residuals)) == "shape", 1 + FEW_OBSERVATIONS / len(features), 1.0)
        for _ in range(2):
            views = FittedViews.fit(features, entities, kept, config.neighbours)
            scores = np.stack([views.score(entity, each) for entity, each in zip(entities, features, strict=True)])
            fusion = Fusion.fit(scores, trust)
            kept = lowest_share(fusion(scores), config.keep)
        scorer = cls(extractor, views, fusion, residuals)
        if sum(map(len, sampled)) == sum(map(len, parts)):
            # Equal to the scores of `evidence`, which are the sum of the views at their peaks in single precision.
            fused = fusion(scores).astype(np.float32).astype(np.float64)
            scorer.training_scores = tuple(np.split(fused, np.cumsum([len(part) for part in parts[:-1]])))
        return scorer

    def adapt(self, history: Observations, model: Model | None = None) -> None:
        """Learn what is usual for the entities of a normalised history; entities with a short history are skipped."""
        for places in history.by_series():
            if len(places) >= MIN_HISTORY:
                features = list(_features(self.extractor, history.take(np.asarray(places)), model))
                self.views.adapt(history.entity(places[0]), features)

    def scores(self, observations: Observations, model: Model | None = None) -> Floats:
        """Return the score of each normalised observation, without evidence."""
        every = _features(self.extractor, observations, model)
        rows = [self.views.score(observations.entity(i), features) for i, features in enumerate(every)]
        return self.fusion(np.stack(rows))

    def evidence(self, entity: str, z: Floats, residuals: Residuals = (), expected: Floats | None = None) -> Evidence:
        """Return score and evidence of one normalised observation (variable, time)."""
        measured = np.isfinite(z)
        scores, contributions = self.views.explain(entity, self.extractor(z, residuals), self.extractor)
        fused = self.fusion.fuse(scores, np.asarray(measured.any(axis=0)))
        return Evidence(
            fused.score,
            dict(zip(view_names_with(self.residuals), fused.view_scores, strict=True)),
            fused.steps,
            np.where(measured, self._total(contributions, z.shape), np.nan).astype(np.float32),
            fused.causes,
            expected,
        )

    def _total(self, contributions: list[Floats], shape: tuple[int, ...]) -> Floats:
        """Return (variable, time) the weighted sum of the views' contributions, relative to typical ones and squared,
        so that typical ones count little."""
        typical = np.exp(self.fusion.middle)
        total = np.zeros(shape)
        for cells, usual, weight in zip(contributions, typical, self.fusion.weight, strict=True):
            total = total + weight * np.square(np.minimum(np.nan_to_num(cells) / usual, MAX_CONTRIBUTION))
        return total

    def state(self) -> dict[str, NDArray[Any]]:
        return self.views.state(self.residuals) | self.extractor.state() | self.fusion.state()

    @classmethod
    def restore(
        cls,
        state: Mapping[str, NDArray[Any]],
        config: FusedScorer.Config,
        variables: int,
        length: int,
        residuals: Sequence[str] = (),
    ) -> Self:
        extractor = FeatureExtractor.restore(state, variables, length)
        views = FittedViews.restore(state, residuals, config.neighbours)
        return cls(extractor, views, Fusion.restore(state), residuals)


def training_sample(parts: Sequence[Observations], config: FusedScorer.Config) -> list[Observations]:
    """Return the observations of each part that `FusedScorer.fit` uses: all, or as many as memory allows."""
    count = FeatureExtractor.count(len(parts[0].names), parts[0].length, config.kernels)
    return [subsample(part, 2 * count) for part in parts]


def _features(extractor: FeatureExtractor, part: Observations, model: Model | None) -> Iterator[Features]:
    """Yield features one by one, so that only one observation and its residuals are held in memory."""
    residuals: Iterable[Residuals] = repeat(()) if model is None else model(part.read(i) for i in range(len(part)))
    for i, arrays in zip(range(len(part)), residuals, strict=False):
        yield extractor(part.read(i), arrays).features
