"""Views of short windows: energy, conditional and roughness.

    name       meaning
    features   (window, variable) log root mean square, within the window, of
                   z about its mean               energy
                   the ridge residual             conditional
                   its change from step to step   roughness
    u          standardised features, relative to what is usual for the entity anywhere in time
    s          (window,) log(.1 + mean of the 3 largest |u| of the window); the largest window counts

The ridge regression predicts each variable from the others, now and up to `reach` steps before and after. An entity
with at least 5 normal observations has weights of its own, from its own gram and a small share of the pooled one:

    weights    ridge of (own gram + 5 F pooled gram / pooled steps), F features
    reach      the largest, up to 8, with at most 400 features and 10 training steps for each

Where another variable was not measured, it is interpolated in time to predict from, or itself predicted where it is
silent (`features.silent`). Residuals of training observations come from weights that were fitted without their fold.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsadc.detectors.ensemble.features import (
    MIN_HISTORY,
    TOP_VARIABLES,
    Read,
    Standardiser,
    Windows,
    decode_names,
    encode_names,
    interpolated,
    silent,
)
from tsadc.detectors.ensemble.linear import PENALTY, Gram, predict, predict_known, ridge_weights
from tsadc.detectors.ensemble.training import FOLDS, Training, adapt_standardiser, cross_fitted, fit_standardiser
from tsadc.detectors.ensemble.views import LOG_OFFSET, Explained, ViewGroup
from tsadc.detectors.pooling import top_mean
from tsadc.series import Floats

MAX_REACH = 8
MAX_FEATURES = 400
STEPS_PER_FEATURE = 10
POOLED_SHARE = 5.0  # pooled steps per feature that are added to the gram of an entity
MAX_GRAM_VALUES = 2**24  # of all entities; beyond, their grams are computed one entity at a time
MAX_WEIGHTS = 2**25  # values of the weights of all entities together: this bounds the model


class Energy(ViewGroup):
    """Windows in which a variable varies more or less than usual."""

    stored = "energy"

    def __init__(self, variables: int, length: int) -> None:
        self.names: tuple[str, ...] = ("energy",)
        self.variables, self.windows = variables, Windows(length)

    def measure(self, z: Floats, entity: str) -> Floats:
        return self._stacked(self.windows.log_sizes(z, centred=True))

    @staticmethod
    def _stacked(*sizes: Floats) -> Floats:
        """Return features (window, view and variable) of sizes (variable, window)."""
        return np.concatenate(sizes).T

    def fit(self, features: Floats, training: Training) -> Floats:
        self.standardiser = fit_standardiser(features, training)
        every = np.abs(cross_fitted(self.standardiser, features, training))
        return np.stack([self._scores(u).max(axis=1) for u in every])

    def _scores(self, u: Floats) -> Floats:
        """Return s (view, window) of |u| (window, view and variable)."""
        by_view = u.reshape(len(u), len(self.names), -1)
        tops = [top_mean(by_view[:, i].T, TOP_VARIABLES) for i in range(len(self.names))]
        return np.log(LOG_OFFSET + np.stack(tops).astype(np.float64))

    def adapt(self, entity: str, features: Floats) -> None:
        adapt_standardiser(self.standardiser, entity, features)

    @property
    def baselines(self) -> dict[str, Floats]:
        return self.standardiser.entities

    def score(self, entity: str, features: Floats) -> Floats:
        return np.asarray(self._scores(np.abs(self.standardiser(entity, features))).max(axis=1))

    def explain(self, entity: str, z: Floats) -> list[Explained]:
        u = np.abs(self.standardiser(entity, self.measure(z, entity)))
        scores = self.windows.to_steps(self._scores(u))
        cells = self.windows.to_steps(u.T.reshape(len(self.names), -1, len(u)))
        return [Explained(score, cell) for score, cell in zip(scores, cells, strict=True)]

    def state(self) -> dict[str, NDArray[Any]]:
        return self.standardiser.state(self.stored)

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.standardiser = Standardiser.restore(state, self.stored)


class RidgeResiduals(Energy):
    """Windows in which the ridge residual is larger, smaller, rougher or smoother than usual; needs two variables."""

    stored = "ridge"
    first_round = False
    learns = True

    def __init__(self, variables: int, length: int) -> None:
        super().__init__(variables, length)
        self.names = ("conditional", "roughness")

    def measure_all(self, read: Read, training: Training) -> Floats:
        kept = np.flatnonzero(training.kept)
        reach = self._reach(len(kept) * self.windows.length, len(training.known()))
        self.lags, self.entities = range(-reach, reach + 1), dict[str, Floats]()
        known = {entity for entity, own in training.members().items() if training.kept[own].sum() >= MIN_HISTORY}
        size = self.variables * len(self.lags) + 1
        few = FOLDS * len(known) * size**2 <= MAX_GRAM_VALUES
        folds, of_entities = self._grams(read, kept, training, known if few else set())
        total = sum(folds[1:], start=folds[0])
        every = total.matrix()
        self.weights = self._solve(every)
        rest = [(total - fold if total.steps > fold.steps else total).matrix() for fold in folds]
        pooled = [self._solve(gram) for gram in rest]
        features: list[Floats] = [np.empty(0)] * len(training)
        for entity, members in training.members().items():
            weights = pooled
            if entity in known:
                grams = of_entities.pop(entity, [])
                if not few:
                    grams, _ = self._grams(read, members[training.kept[members]], training, set())
                own = sum(grams[1:], start=grams[0])
                self.entities[entity] = self._solve(every, own).astype(np.float32)
                weights = [self._solve(others, own - gram) for others, gram in zip(rest, grams, strict=True)]
            for i in members.tolist():
                features[i] = self._features(read(i), weights[int(training.folds[i])])
        return np.stack(features)

    def _reach(self, steps: int, entities: int) -> int:
        """Return the largest reach that the training steps, and a model with weights for all entities, allow."""
        for reach in range(MAX_REACH, 0, -1):
            features = self.variables * (2 * reach + 1)
            small = features * self.variables * entities <= MAX_WEIGHTS
            if features <= min(MAX_FEATURES, steps / STEPS_PER_FEATURE) and small:
                return reach
        return 0

    def _grams(
        self, read: Read, indices: NDArray[np.int64], training: Training, entities: Set[str]
    ) -> tuple[list[Gram], dict[str, list[Gram]]]:
        """Return the gram of each fold of the training observations at `indices`, of all and of some entities."""
        none = Gram.empty(self.variables * len(self.lags) + 1)
        folds = [none] * FOLDS
        own = {entity: [none] * FOLDS for entity in entities}
        for i in indices.tolist():
            gram = Gram.of(read(i), self.lags)
            for sums in (folds, own.get(training.entities[i])):
                if sums is not None:
                    sums[training.folds[i]] = sums[training.folds[i]] + gram
        return folds, own

    def _solve(self, pooled: Floats, own: Gram | None = None) -> Floats:
        """Return the ridge weights of a pooled gram matrix, alone or as a share of the gram of an entity."""
        matrix = pooled
        if own is not None:
            matrix = own.matrix() + POOLED_SHARE * len(pooled) * pooled / max(float(pooled[-1, -1]), 1.0)
        return ridge_weights(matrix, self.variables, PENALTY, current=len(self.lags) // 2)

    def predict(self, z: Floats, entity: str) -> Floats:
        """Return (variable, time) what the other variables predict."""
        return predict_known(self.entities.get(entity, self.weights), z, self.lags)

    def measure(self, z: Floats, entity: str) -> Floats:
        return self._features(z, self.entities.get(entity, self.weights))

    def _features(self, z: Floats, weights: Floats) -> Floats:
        residual = z - predict(weights, interpolated(z), self.lags, silent(z))
        change = np.diff(residual, axis=1, prepend=np.nan)
        return self._stacked(self.windows.log_sizes(residual), self.windows.log_sizes(change))

    def state(self) -> dict[str, NDArray[Any]]:
        own = list(self.entities.values())
        return super().state() | {
            f"{self.stored}.reach": np.array([len(self.lags) // 2]),
            f"{self.stored}.weights": self.weights,
            f"{self.stored}.known": encode_names(list(self.entities)),
            f"{self.stored}.own": np.array(own, dtype=np.float32).reshape(len(own), *self.weights.shape),
        }

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        super().restore(state)
        reach = int(state[f"{self.stored}.reach"][0])
        self.lags, self.weights = range(-reach, reach + 1), state[f"{self.stored}.weights"]
        own = state[f"{self.stored}.own"]
        self.entities = dict(zip(decode_names(state[f"{self.stored}.known"]), own, strict=True))
