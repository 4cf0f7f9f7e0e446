"""Views of rows and of ranges: density and range.

    name        meaning
    row         (variable,) the values of one time step, z clipped at 10; a missing value is interpolated in time, or
                follows from the other values where its variable is silent (`features.silent`). Steps at which nothing
                was measured are skipped
    whitening   (variable, variable) maps rows to about unit variance in every direction; directions that hardly vary
                are enlarged less
    bank        (row, variable) rows of the normal observations of the entity
    density     s = 1/2 log(.02 + mean distance of the 3 most unusual rows to their 5 nearest in the bank)

    window      an eighth of the observation
    range       (variable, window) largest minus smallest value in the window, relative to that of the whole history
    bank        (variable, range) ranges of windows of normal observations, of all entities
    novelty     (window,) root of the sum, over variables, of the squared distance to the nearest range in the bank
    range       s = log(.2 + largest novelty)

Both find combinations of values and excursions that the history does not contain. A training observation is compared
with rows and ranges of other folds only; the whitening, and the range of the whole history, come from all of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsadc.detectors.ensemble.features import decode_names, encode_names, interpolated, silent, windows_to_steps
from tsadc.detectors.ensemble.linear import completed
from tsadc.detectors.ensemble.training import FOLDS, Training
from tsadc.detectors.ensemble.views import DISTANCE_OFFSET, Explained, ViewGroup
from tsadc.detectors.pooling import sliding
from tsadc.series import Floats
from tsadc.subsample import evenly_spaced

ROWS = 24  # rows of an observation that are looked at, evenly spaced
ROW_CLIP = 10.0
MIN_VARIANCE = 0.1  # of the mean variance, added to that of each direction
BANK_ROWS = 2000  # of an entity, evenly spaced
MAX_BANK_VALUES = 2**25  # values of the banks of all entities together: this bounds the model
NEAREST = 5
WORST_ROWS = 3
WINDOWS_PER_OBSERVATION = 8
RANGE_BANK = 1000
RANGE_OFFSET = 0.2  # novelty below a fifth of the range of the history hardly counts
MIN_RANGE = 1e-8


class Density(ViewGroup):
    """Rows whose combination of values is rare."""

    stored = "density"
    first_round = False

    def __init__(self, variables: int, length: int) -> None:
        self.names, self.variables, self.length = ("density",), variables, length
        self._last_bank: tuple[Floats, Floats, Floats] | None = None

    def measure(self, z: Floats, entity: str) -> Floats:
        """Return (row, variable) the rows that are looked at; NaN if fewer steps were measured."""
        rows: Floats = np.full((min(ROWS, self.length), self.variables), np.nan, dtype=np.float32)
        found = _rows_at(z, _picked(z))
        rows[: len(found)] = found
        return rows

    def fit(self, features: Floats, training: Training) -> Floats:
        rows = _measured(features[training.kept]).astype(np.float64)
        self.center, self.whitening = _whitening(np.nan_to_num(rows))
        if np.isnan(rows).any():
            self.center, self.whitening = _whitening(self._completed(rows))
        self._last_bank = None
        known = training.known()
        banks = 1 + len(known) + training.others
        self.most = max(NEAREST, min(BANK_ROWS, MAX_BANK_VALUES // (self.variables * banks)))
        self.pooled = self._bank(features[training.kept])
        self.entities = {entity: self._bank(features[normal]) for entity, normal in known.items()}
        scores = np.full(len(training), np.nan)
        for _, own, others in training.splits():
            scores[own] = self._scores(features[own], self._bank(features[others]))
        for fold in range(FOLDS):
            own = np.flatnonzero(np.isnan(scores) & (training.folds == fold))
            others = np.flatnonzero(training.kept & (training.folds != fold))
            if len(own):
                scores[own] = self._scores(features[own], self._bank(features[others]) if len(others) else self.pooled)
        return scores[:, None]

    def _bank(self, rows: Floats) -> NDArray[np.float32]:
        flat = self._completed(_measured(rows))
        return np.asarray(flat[evenly_spaced(len(flat), self.most)], dtype=np.float32)

    def _completed(self, rows: Floats) -> Floats:
        return completed(rows, self.center, self.whitening @ self.whitening.T)

    def _distances(self, rows: Floats, bank: Floats) -> tuple[Floats, NDArray[np.int64]]:
        """Return the distance of rows (row, variable) to the bank, and the indices (row, 5) of the nearest ones."""
        u, (v, sizes) = self._whitened(rows), self._whitened_bank(bank)
        squares = np.square(u).sum(axis=1)[:, None] + sizes - 2 * u @ v.T
        nearest = _smallest(squares, NEAREST)
        distance = np.sqrt(np.maximum(np.take_along_axis(squares, nearest, axis=1), 0)).mean(axis=1)
        return distance / np.sqrt(self.variables), nearest

    def _whitened(self, rows: Floats) -> Floats:
        return np.asarray((rows.astype(np.float64) - self.center) @ self.whitening)

    def _whitened_bank(self, bank: Floats) -> tuple[Floats, Floats]:
        """Return the whitened bank and its squared lengths. Those of the last bank are kept, as observations of one
        entity usually follow each other; those of all would need three times the memory of the model."""
        last = self._last_bank
        if last is None or last[0] is not bank:
            whitened = self._whitened(bank)
            last = self._last_bank = (bank, whitened, np.square(whitened).sum(axis=1))
        return last[1:]

    def _scores(self, rows: Floats, bank: Floats) -> Floats:
        """Return s of observations (observation, row, variable)."""
        known = np.isfinite(rows).any(axis=2)
        distance = np.full(known.shape, -np.inf)
        distance[known], _ = self._distances(self._completed(rows[known]), bank)
        worst = np.sort(distance, axis=1)[:, -WORST_ROWS:]
        mean = np.where(worst >= 0, worst, 0).sum(axis=1) / np.maximum((worst >= 0).sum(axis=1), 1)
        return np.asarray(0.5 * np.log(DISTANCE_OFFSET + mean))

    def adapt(self, entity: str, features: Floats) -> None:
        self.entities[entity] = self._bank(features)

    @property
    def baselines(self) -> dict[str, Floats]:
        return self.entities

    def score(self, entity: str, features: Floats) -> Floats:
        return self._scores(features[None], self.entities.get(entity, self.pooled))

    def explain(self, entity: str, z: Floats) -> list[Explained]:
        picked, bank = _picked(z), self.entities.get(entity, self.pooled)
        rows = self._completed(_rows_at(z, picked))
        distance, nearest = self._distances(rows, bank)
        # A step has the score of the nearest picked row; those of the worst rows are raised to that of the observation.
        worst = np.argsort(distance)[-WORST_ROWS:]
        distance[worst] = distance[worst].mean()
        step = np.abs(np.arange(self.length)[:, None] - picked).argmin(axis=1)
        cells = np.abs(rows - bank[nearest].mean(axis=1)).T
        return [Explained(0.5 * np.log(DISTANCE_OFFSET + distance)[step], cells[:, step])]

    def state(self) -> dict[str, NDArray[Any]]:
        banks = list(self.entities.values())
        return {
            f"{self.stored}.center": self.center,
            f"{self.stored}.whitening": self.whitening,
            f"{self.stored}.pooled": self.pooled,
            f"{self.stored}.most": np.array([self.most]),
            f"{self.stored}.entities": encode_names(list(self.entities)),
            f"{self.stored}.ends": np.cumsum([len(bank) for bank in banks], dtype=np.int64),
            f"{self.stored}.banks": np.concatenate([np.empty((0, self.variables), dtype=np.float32), *banks]),
        }

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        own = {name.removeprefix(f"{self.stored}."): array for name, array in state.items()}
        self.center, self.whitening, self.pooled = own["center"], own["whitening"], own["pooled"]
        self._last_bank = None
        self.most = int(own["most"][0])
        banks = np.split(own["banks"], own["ends"])[:-1]
        self.entities = dict(zip(decode_names(own["entities"]), banks, strict=True))


def _smallest(values: Floats, count: int) -> NDArray[np.int64]:
    """Return the columns (row, count) of the smallest values (row, column), without NaN, or all if there are not more.

    They lie in the `count` blocks of columns with the smallest minima, and minima are found faster than places."""
    columns = values.shape[1]
    width = math.isqrt(columns // count)
    if width < 2:
        return np.argsort(values, axis=1, kind="stable")[:, :count]
    blocks = columns // width
    minima = values[:, : blocks * width].reshape(len(values), blocks, width).min(axis=2)
    chosen = np.argpartition(minima, count - 1, axis=1)[:, :count, None] * width + np.arange(width)
    rest = np.broadcast_to(np.arange(blocks * width, columns), (len(values), columns - blocks * width))
    candidates = np.concatenate([chosen.reshape(len(values), count * width), rest], axis=1)
    order = np.argsort(np.take_along_axis(values, candidates, axis=1), axis=1, kind="stable")[:, :count]
    return np.take_along_axis(candidates, order, axis=1)


def _picked(z: Floats) -> NDArray[np.int64]:
    """Return evenly spaced steps of an observation, of those at which something was measured."""
    measured = np.flatnonzero(np.isfinite(z).any(axis=0))
    return measured[evenly_spaced(len(measured), ROWS)]


def _rows_at(z: Floats, steps: NDArray[np.int64]) -> Floats:
    """Return (row, variable) the values at some steps; NaN in long gaps."""
    known = z if np.isfinite(z).all() else np.where(silent(z), np.nan, interpolated(z))
    return np.clip(known[:, steps], -ROW_CLIP, ROW_CLIP).T.astype(np.float32)


def _measured(rows: Floats) -> Floats:
    """Return the rows (..., variable) that were measured, one after the other; if there are none, the median."""
    found: Floats = rows[np.isfinite(rows).any(axis=-1)]
    return found if len(found) else np.zeros((1, rows.shape[-1]), dtype=np.float32)


def _whitening(rows: Floats) -> tuple[Floats, Floats]:
    center = rows.mean(axis=0)
    variance, directions = np.linalg.eigh(np.cov((rows - center).T, bias=True).reshape(2 * (rows.shape[1],)))
    variance = np.maximum(variance, 0)
    enlarged = variance + MIN_VARIANCE * variance.mean()
    return center, directions / np.sqrt(np.where(enlarged > 0, enlarged, 1.0))


class Ranges(ViewGroup):
    """Variables that range more, or less, within a window than they ever did in the history."""

    stored = "range"
    first_round = False

    def __init__(self, variables: int, length: int) -> None:
        self.names, self.variables, self.length = ("range",), variables, length
        self.width = max(length // WINDOWS_PER_OBSERVATION, 2)
        self.starts = np.arange(0, length - self.width + 1, max(self.width // 8, 1))

    def measure(self, z: Floats, entity: str) -> Floats:
        """Return (variable, window + 2) the ranges, and the smallest and largest value of the observation."""
        low, high = (sliding(extreme, z, self.width)[:, self.starts] for extreme in (np.fmin, np.fmax))
        ranges = high.astype(np.float64) - low
        measured = np.isfinite(z)
        if not measured.all():
            count = sliding(np.add, measured.astype(np.float64), self.width)[:, self.starts]
            ranges[2 * count < self.width] = np.nan
        extremes = [np.fmin.reduce(z, axis=1), np.fmax.reduce(z, axis=1)]
        return np.column_stack([ranges, *extremes]).astype(np.float32)

    def fit(self, features: Floats, training: Training) -> Floats:
        normal = features[training.kept]
        size = np.nan_to_num(np.fmax.reduce(normal[:, :, -1], axis=0) - np.fmin.reduce(normal[:, :, -2], axis=0))
        self.scale = np.where(size > MIN_RANGE, size, 1.0).astype(np.float64)
        self.bank = self._bank(normal)
        scores = np.empty(len(training))
        for fold in range(FOLDS):
            others = training.kept & (training.folds != fold)
            bank = self._bank(features[others]) if others.any() else self.bank
            for i in np.flatnonzero(training.folds == fold):
                scores[i] = self._score(self._novelty(features[i], bank))
        return scores[:, None]

    def _bank(self, features: Floats) -> list[Floats]:
        """Return the sorted ranges of each variable, relative to its scale, at most `RANGE_BANK` of them."""
        banks = []
        for k in range(self.variables):
            values = features[:, k, :-2].ravel()
            values = values[np.isfinite(values)]
            banks.append(np.sort(values[evenly_spaced(len(values), RANGE_BANK)] / self.scale[k]))
        return banks

    def _novelty(self, features: Floats, bank: Sequence[Floats]) -> Floats:
        """Return (variable, window) the distance of each range to the nearest in the bank; 0 where it is unknown."""
        ranges = features[:, :-2].astype(np.float64) / self.scale[:, None]
        below, above = ranges.copy(order="K"), ranges.copy(order="K")  # a variable without a bank has no novelty
        for k, known in enumerate(bank):
            if len(known):
                place = known.searchsorted(ranges[k])
                above[k] = known.take(place, mode="clip")
                below[k] = known.take(place - 1, mode="clip")
        novelty = np.minimum(np.abs(ranges - below), np.abs(ranges - above))
        novelty[np.isnan(novelty)] = 0.0
        return novelty

    def _score(self, novelty: Floats) -> float:
        return float(np.log(RANGE_OFFSET + np.linalg.norm(novelty, axis=0).max()))

    def adapt(self, entity: str, features: Floats) -> None:
        """Entities share one bank, so there is nothing to learn."""

    @property
    def baselines(self) -> dict[str, Floats]:
        return {}

    def score(self, entity: str, features: Floats) -> Floats:
        return np.array([self._score(self._novelty(features, self.bank))])

    def explain(self, entity: str, z: Floats) -> list[Explained]:
        novelty = self._novelty(self.measure(z, entity), self.bank)
        scores = np.log(RANGE_OFFSET + np.linalg.norm(novelty, axis=0))
        # The last steps may lie in no window.
        steps, cells = (
            np.maximum(windows_to_steps(values, self.starts, self.width, self.length), least)
            for values, least in ((scores, np.log(RANGE_OFFSET)), (novelty, 0.0))
        )
        return [Explained(steps, cells)]

    def state(self) -> dict[str, NDArray[Any]]:
        return {
            f"{self.stored}.scale": self.scale,
            f"{self.stored}.ends": np.cumsum([len(bank) for bank in self.bank], dtype=np.int64),
            f"{self.stored}.bank": np.concatenate(self.bank),
        }

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.scale = state[f"{self.stored}.scale"]
        self.bank = np.split(state[f"{self.stored}.bank"], state[f"{self.stored}.ends"])[:-1]
