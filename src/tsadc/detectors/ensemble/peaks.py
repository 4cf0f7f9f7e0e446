"""Views of single steps: departure, combination, sustained, level, and the residuals of a detector's own model.

    name       meaning
    cells      (variable, time) how far each value is from what is expected, >= 0
    size       (time,) the mean of the largest sixth of the cells of a step, at least 3 of them
    peak       the largest size of an observation
    usual      the size that 1 % of the steps of an observation exceed
    baseline   median of log(.1 + usual) over the normal observations of the entity
    s          log(.1 + peak) - baseline; for `sustained`, both are root mean squares of the sizes

Entities differ in how spiky they are, even on one scale: a peak of 20 is an incident on one machine and a daily event
on another. An entity with at least 5 observations has its own baseline, others share that of all.

In many plants the level of a variable drifts. `departure`, `combination` and `sustained` ignore it: they take the
median over the observation away first. `level` does not.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tsadc.detectors.ensemble.features import Read, decode_names, encode_names, interpolated, silent
from tsadc.detectors.ensemble.linear import (
    EXPLAINED,
    PENALTY,
    Gram,
    completed,
    precision_matrix,
    principal_components,
    project,
)
from tsadc.detectors.ensemble.training import FOLDS, Training
from tsadc.detectors.ensemble.views import LOG_OFFSET, Explained, ViewGroup
from tsadc.detectors.pooling import top_mean
from tsadc.series import Floats

STEP_QUANTILE = 0.99
MIN_TOP = 3  # variables that make the size of a step, at least
TOP_SHARE = 1 / 6


class StepViews(ViewGroup):
    """Compares sizes of steps with the baselines of entities. A subclass writes `cells`."""

    lasting: ClassVar[tuple[str, ...]] = ()  # views that compare root mean squares instead of peaks

    def __init__(self, names: Sequence[str], variables: int) -> None:
        self.names = tuple(names)
        self.top = max(MIN_TOP, round(TOP_SHARE * variables))
        self.baseline: Floats = np.zeros(len(self.names))
        self.entities: dict[str, Floats] = {}

    @abstractmethod
    def cells(self, z: Floats) -> Sequence[Floats]:
        """Return the cells (variable, time) of each view; NaN where nothing was measured."""

    def measure(self, z: Floats, entity: str) -> Floats:
        return self.measure_cells(self.cells(z))

    def measure_cells(self, cells: Sequence[Floats]) -> Floats:
        """Return (2, view) log sizes: that which is scored, and that which makes the baseline."""
        pairs = [self._pair(name, sizes) for name, sizes in zip(self.names, self._sizes(cells), strict=True)]
        return np.log(LOG_OFFSET + np.array(pairs, dtype=np.float64).T)

    def _sizes(self, cells: Sequence[Floats]) -> list[Floats]:
        """Return the sizes (time,) of each view; views that share their cells share their sizes."""
        sizes: list[Floats] = []
        for i, array in enumerate(cells):
            same = i > 0 and array is cells[i - 1]
            sizes.append(sizes[-1] if same else top_mean(array, self.top).astype(np.float64))
        return sizes

    def _pair(self, name: str, sizes: Floats) -> tuple[float, float]:
        known = sizes[np.isfinite(sizes)]
        if not len(known):
            return float("nan"), float("nan")
        if name in self.lasting:
            mean = _root_mean_square(known)
            return mean, mean
        return float(known.max()), _quantile(known, STEP_QUANTILE)

    def fit(self, features: Floats, training: Training) -> Floats:
        scored, usual = features[:, 0], features[:, 1]
        self.baseline = np.nan_to_num(_median(usual[training.kept]))
        self.entities = {entity: self._own(usual[normal]) for entity, normal in training.known().items()}
        scores: Floats = scored - self.baseline
        for _, own, others in training.splits():
            scores[own] = scored[own] - self._own(usual[others])
        return scores

    def _own(self, usual: Floats) -> Floats:
        own = _median(usual)
        return np.where(np.isnan(own), self.baseline, own)

    def adapt(self, entity: str, features: Floats) -> None:
        self.entities[entity] = self._own(features[:, 1])

    @property
    def baselines(self) -> dict[str, Floats]:
        return self.entities

    def score(self, entity: str, features: Floats) -> Floats:
        return np.asarray(features[0] - self.entities.get(entity, self.baseline))

    def explain(self, entity: str, z: Floats) -> list[Explained]:
        return self.explain_cells(entity, self.cells(z))

    def explain_cells(self, entity: str, cells: Sequence[Floats]) -> list[Explained]:
        """Explain each view, given its cells."""
        explained = []
        baselines = self.entities.get(entity, self.baseline).tolist()
        for name, array, sizes, baseline in zip(self.names, cells, self._sizes(cells), baselines, strict=True):
            if name in self.lasting:
                known = sizes[np.isfinite(sizes)]
                score = float(np.log(LOG_OFFSET + _root_mean_square(known)) - baseline) if len(known) else float("nan")
                explained.append(Explained(score, array))
            else:
                explained.append(Explained(np.log(LOG_OFFSET + sizes) - baseline, array))
        return explained

    def state(self) -> dict[str, NDArray[Any]]:
        return {
            f"{self.stored}.baseline": self.baseline,
            f"{self.stored}.entities": encode_names(list(self.entities)),
            f"{self.stored}.baselines": np.array(list(self.entities.values())).reshape(-1, len(self.names)),
        }

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.baseline = state[f"{self.stored}.baseline"]
        names = decode_names(state[f"{self.stored}.entities"])
        self.entities = dict(zip(names, state[f"{self.stored}.baselines"], strict=True))


class Departure(StepViews):
    """Values far from the middle of the observation."""

    stored = "departure"

    def __init__(self, variables: int) -> None:
        super().__init__(("departure",), variables)

    def cells(self, z: Floats) -> Sequence[Floats]:
        return (np.abs(without_level(z)),)


class Remainder(StepViews):
    """What a few principal components of the variables do not explain; needs two variables.

    The components come from the normal observations of all entities. Training observations are projected on components
    that were computed without their fold. Where a variable is silent, the others say which value it would have.
    """

    stored = "remainder"
    learns = True
    lasting = ("sustained",)

    def __init__(self, variables: int) -> None:
        super().__init__(("combination", "sustained", "level"), variables)
        self.variables = variables

    def measure_all(self, read: Read, training: Training) -> Floats:
        folds = [Gram.empty(self.variables + 1)] * FOLDS
        for i in np.flatnonzero(training.kept):
            fold = int(training.folds[i])
            folds[fold] = folds[fold] + Gram.of(read(int(i)), [0])
        total = sum(folds[1:], start=folds[0])
        self.center, self.components, self.precision = self._components(total)
        rest = [total - fold for fold in folds]
        without = [self._components(gram if gram.steps > 0 else total) for gram in rest]
        return np.stack(
            [self.measure_cells(self._cells(read(i), *without[fold])) for i, fold in enumerate(training.folds.tolist())]
        )

    def _components(self, gram: Gram) -> tuple[Floats, Floats, Floats]:
        matrix = gram.matrix()
        components = principal_components(matrix, self.variables, EXPLAINED)
        return *components, precision_matrix(matrix, self.variables, PENALTY)

    def cells(self, z: Floats) -> Sequence[Floats]:
        return self._cells(z, self.center, self.components, self.precision)

    def _cells(self, z: Floats, center: Floats, components: Floats, precision: Floats) -> Sequence[Floats]:
        known = interpolated(z)
        if not np.isfinite(z).all():
            known = completed(np.where(silent(z), np.nan, known).T, center, precision).T
        remainder = (z - project(known, center, components)).astype(z.dtype)
        departure = np.abs(without_level(remainder))
        return departure, departure, np.abs(remainder)

    def state(self) -> dict[str, NDArray[Any]]:
        own = {"center": self.center, "components": self.components, "precision": self.precision}
        return super().state() | {f"{self.stored}.{name}": array for name, array in own.items()}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        super().restore(state)
        self.center, self.components = state[f"{self.stored}.center"], state[f"{self.stored}.components"]
        # With models of earlier versions, a silent variable is at its mean, as if variables were independent.
        self.precision = state.get(f"{self.stored}.precision", np.eye(self.variables))


class ModelResiduals(StepViews):
    """Residuals of a detector's own model, one view each, under the model's names for them.

    Only their baselines are cross-fitted: the model has learnt from all training observations."""

    stored = "residuals"

    def cells(self, z: Floats) -> Sequence[Floats]:
        raise AssertionError("the residuals come from a model; use `measure_cells` and `explain_cells`")


def without_level(x: Floats) -> Floats:
    """Return x (variable, time) minus the median of each variable over its measured steps."""
    if np.isfinite(x).all():
        half, odd = divmod(x.shape[1], 2)
        ordered = np.sort(x, axis=1)  # faster than a partition if values repeat, as those of sensors do
        middle = ordered[:, half]
        return np.asarray(x - (middle if odd else (ordered[:, half - 1] + middle) / 2)[:, None])
    measured = np.isfinite(x).any(axis=1)
    out = np.full(x.shape, np.nan)
    out[measured] = x[measured] - np.nanmedian(x[measured], axis=1, keepdims=True)
    return out


def _quantile(values: Floats, level: float) -> float:
    """Return np.quantile(values, level), which takes many times as long to prepare as to compute."""
    place = (len(values) - 1) * level
    before = int(place)
    after = min(before + 1, len(values) - 1)
    ordered = np.partition(values, (before, after))
    low, high, share = float(ordered[before]), float(ordered[after]), place - before
    return low + (high - low) * share if share < 0.5 else high - (high - low) * (1 - share)


def _root_mean_square(sizes: Floats) -> float:
    largest = float(sizes.max())  # squares of wild values would overflow
    return largest * float(np.sqrt(np.square(sizes / largest).mean())) if largest > 0 else 0.0


def _median(rows: Floats) -> Floats:
    """Return the median of each column, without NaN; NaN if there is no number."""
    never = np.isnan(rows).all(axis=0)
    middle: Floats = np.nanmedian(np.where(never, 0.0, rows), axis=0)
    return np.where(never, np.nan, middle)
