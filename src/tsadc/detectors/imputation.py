"""Impute cells of a series: what should have been measured, with a standard deviation.

The series is taken to be a vector autoregression with Gaussian innovations,

    e_t = W (x_t - A_1 x_{t-1} - ... - A_p x_{t-p} - c) ~ N(0, I),

whose coefficients come from a gram matrix of lagged values. The hidden cells m then have a joint Gaussian distribution
given all others, by the precision matrix Q of the whole series:

    mean  -Q_mm^-1 g_m        covariance  Q_mm^-1        Q_{s,s'} = sum_t F_{t-s}^T F_{t-s'}

| code | meaning |
|---|---|
| `filters` | (p + 1, variable, variable) F_j: F_0 = W, F_j = -W A_j, so that e_t = sum_j F_j x_{t-j} - `offset` |
| `couplings` | (2 p + 1, variable, variable) Q_{s,s+d} at position p + d; it depends on the distance d of rows only |
| `gradient` | g: the derivative of half the sum of squares of e where hidden cells are 0 |

Rows that are more than p apart do not interact, so Q_mm is block tridiagonal in blocks of p rows, and one pass forward
and one back solve it exactly for any hidden cells: points, blocks, whole variables.

Values of machines are not Gaussian: many rest and then jump. So the imputation is a convex combination of the Gaussian
mean, linear interpolation and the median of the variable. Its weights, and the factor by which standard deviations are
widened, are chosen on cells of the history that are hidden for that purpose: by variable, distance to the next known
cell, and whether most of the row is hidden. No label is used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from tsadc.detectors.ensemble.linear import COVARIANCE_CLIP, Gram
from tsadc.nn.runtime.blas import single_threaded_blas
from tsadc.scale import Scaler
from tsadc.series import Booleans, Floats, Series
from tsadc.subsample import evenly_spaced

MAX_FEATURES = 256  # variables times lags of the autoregression
MAX_ORDER = 32
MAX_GRAM_CELLS = 2**26  # of the grams of all entities
STEPS_PER_FEATURE = 5  # a longer reach needs more history
PENALTY = 1e-3  # on the squared coefficients, per step
SMALLEST_VARIANCE = 1e-4  # of an innovation, in z units: leads of an ECG depend on each other exactly
POOLED_STEPS = 2.0  # weight of all entities in the model of one, in steps per feature
CHUNK = 512  # rows that are read at once
FOLDS = 4
ROUNDS = 3  # of filling gaps and learning from the filled series
MAX_STEPS = 150_000  # of the history that coefficients are learnt from
MAX_CELLS = 400_000  # of the history in which cells are hidden to choose weights
HIDDEN_POINTS = 0.025  # share of these cells; blocks, variables and rows are hidden besides
DISTANCES = (1, 2, 4, 8, 16, 65)  # lower ends of the classes of the distance to the next known cell of the variable
KINDS = 2 * len(DISTANCES)  # of cells: each class, and whether most of the row is hidden
MIXTURES = np.array([(a, b) for a in range(4, -1, -1) for b in range(5 - a)]) / 4  # of Gaussian and interpolation
PRIOR_CELLS = 300  # weight of all variables in the choice of the weights of one, in cells
MIN_CELLS = 30  # a variable with fewer hidden cells of a kind, or cells in fewer chunks, shares the factor of all
MIN_CHUNKS = 8
NOMINAL = 0.9  # share of the measurements that lies within
DEVIATIONS = 1.6449  # standard deviations
SMALLEST_DEVIATION = 1e-9

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Imputed:
    """Imputed cells of a series (time, variable) in its own units; NaN where nothing was to be imputed.

    Attributes
    ----------
    values
        The imputations.
    deviation
        Their standard deviations: about 90 % of what would have been measured lies within 1.645 of them.
    draws : (sample, cell)
        What could have been measured, drawn for all imputed cells jointly, in the order of `np.nonzero`.
    """

    values: Floats
    deviation: Floats
    draws: Floats

    @property
    def low(self) -> Floats:
        """Lower ends of the 90 % bands."""
        return self.values - DEVIATIONS * self.deviation

    @property
    def high(self) -> Floats:
        """Upper ends of the 90 % bands."""
        return self.values + DEVIATIONS * self.deviation


class _Solved(NamedTuple):
    """Unknown cells of consecutive rows: where they are, their means, variances and draws (cell, sample)."""

    rows: Indices
    columns: Indices
    mean: Floats
    variance: Floats
    draws: Floats


class _Block(NamedTuple):
    """Hidden cells of consecutive rows on the way forward: where they are, D^-1, right side, and D^-1 Q to the next."""

    rows: Indices
    columns: Indices
    inverse: Floats
    right: Floats
    gain: Floats


@dataclass(frozen=True)
class Autoregression:
    """A vector autoregression with whitened innovations; the module explains `filters` and `couplings`."""

    filters: Floats
    offset: Floats

    @classmethod
    def fit(cls, gram: Floats, variables: int) -> Autoregression:
        """Solve for the coefficients, from the gram of the lags 0, 1, ..., p and a constant."""
        gram = gram / max(float(gram[-1, -1]), 1.0)
        now, past, cross = gram[:variables, :variables], gram[variables:, variables:], gram[variables:, :variables]
        penalty = np.full(len(past), PENALTY)
        penalty[-1] = SMALLEST_DEVIATION
        weights = np.linalg.solve(past + np.diag(penalty), cross)
        innovations = now - weights.T @ cross - cross.T @ weights + weights.T @ past @ weights
        whiten = np.linalg.inv(np.linalg.cholesky(innovations + SMALLEST_VARIANCE * np.eye(variables)))
        lagged = weights[:-1].reshape(-1, variables, variables).transpose(0, 2, 1)
        return cls(np.concatenate([whiten[None], -whiten @ lagged]), whiten @ weights[-1])

    @property
    def order(self) -> int:
        """The number of rows that it looks back."""
        return len(self.filters) - 1

    @cached_property
    def couplings(self) -> Floats:
        order = self.order
        couplings = np.zeros((2 * order + 1, *self.filters.shape[1:]))
        for distance in range(order + 1):
            earlier, later = self.filters[distance:], self.filters[: order + 1 - distance]
            couplings[order + distance] = np.einsum("jab,jac->bc", earlier, later)
            couplings[order - distance] = couplings[order + distance].T
        return couplings

    def impute(
        self, z: Floats, wanted: Booleans, samples: int = 0, generator: np.random.Generator | None = None
    ) -> tuple[Floats, Floats, Floats]:
        """Return mean and standard deviation (time, variable) of the `wanted` cells, NaN elsewhere, and draws (sample,
        cell) of them, each from their joint distribution, for which a generator is needed.

        Cells that are NaN in z are unknown, and so are rows before the first and after the last. Unknown cells that are
        far from wanted ones count as 0."""
        order, rows = self.order, len(z)
        margin = 2 * order
        inside = slice(margin, margin + rows)
        near = np.zeros(rows + 2 * margin, dtype=bool)
        for row in np.flatnonzero(wanted.any(axis=1)):
            near[max(0, row + margin - 4 * order) : row + margin + 4 * order + 1] = True
        unknown = np.zeros((len(near), z.shape[1]), dtype=bool)
        unknown[order:-order] = True
        unknown[inside] = np.isnan(z)
        unknown &= near[:, None]
        values = np.zeros(unknown.shape)
        values[inside] = np.nan_to_num(z)
        mean, variance = np.full((2, *values.shape), np.nan)
        draws = np.full((*values.shape, samples), np.nan)
        for block in self._solve(unknown, self._gradient(values), samples, generator):
            mean[block.rows, block.columns], variance[block.rows, block.columns] = block.mean, block.variance
            draws[block.rows, block.columns] = block.draws
        deviation = np.where(wanted, np.sqrt(variance[inside]), np.nan)
        return np.where(wanted, mean[inside], np.nan), deviation, draws[inside][wanted].T

    def _gradient(self, values: Floats) -> Floats:
        """Return g (time, variable); before the first and after the last row, values are 0."""
        order, rows = self.order, len(values)
        padded = np.pad(values, ((order, order), (0, 0)))
        errors = np.tile(-self.offset, (rows + order, 1))
        for lag, matrix in enumerate(self.filters):
            errors += padded[order - lag : order - lag + rows + order] @ matrix.T
        gradient = np.zeros(values.shape)
        for lag, matrix in enumerate(self.filters):
            gradient += errors[lag : lag + rows] @ matrix
        return gradient

    def _solve(
        self, unknown: Booleans, gradient: Floats, samples: int, generator: np.random.Generator | None
    ) -> Iterator[_Solved]:
        """Yield what is known of the unknown cells, in blocks of `order` rows.

        Forward: D_i = Q_ii - Q_{i,i-1} D_{i-1}^-1 Q_{i-1,i}, where a block without unknown cells ends the chain."""
        chain: list[_Block] = []
        for first in range(0, len(unknown) + self.order, self.order):
            rows, columns = np.nonzero(unknown[first : first + self.order])
            rows = rows + first
            if not len(rows):
                yield from _back(chain, samples, generator)
                chain = []
                continue
            precision = self._coupling(rows, columns, rows, columns)
            right = -gradient[rows, columns]
            if chain:
                before = chain[-1]
                link = self._coupling(before.rows, before.columns, rows, columns)
                gain = before.inverse @ link
                chain[-1] = before._replace(gain=gain)
                precision -= link.T @ gain
                right = right - gain.T @ before.right
            factor = cho_factor(precision, lower=True, check_finite=False)
            inverse = cho_solve(factor, np.eye(len(precision)), check_finite=False)
            chain.append(_Block(rows, columns, inverse, right, np.empty((len(rows), 0))))

    def _coupling(self, rows: Indices, columns: Indices, other_rows: Indices, other_columns: Indices) -> Floats:
        """Return Q between cells; most are less than 2 p rows apart."""
        distance = other_rows[None, :] - rows[:, None]
        places = np.clip(distance, -self.order, self.order) + self.order
        coupling = self.couplings[places, columns[:, None], other_columns[None, :]]
        return np.where(np.abs(distance) <= self.order, coupling, 0.0)


def _back(chain: Sequence[_Block], samples: int, generator: np.random.Generator | None) -> Iterator[_Solved]:
    """Solve from the last block to the first: S_i = D_i^-1 + G_i S_{i+1} G_i^T with the gain G_i = D_i^-1 Q_{i,i+1} is
    the covariance of block i given everything known. Given block i + 1, too, it is D_i^-1, by which draws are made."""
    mean: Floats = np.empty(0)
    covariance: Floats = np.empty((0, 0))
    draws: Floats = np.empty((0, samples))
    for block in reversed(chain):
        start = block.inverse @ block.right
        mean = start - block.gain @ mean
        covariance = block.inverse + block.gain @ covariance @ block.gain.T
        draws = start[:, None] - block.gain @ draws
        if generator is not None:
            draws = draws + np.linalg.cholesky(block.inverse) @ generator.normal(size=draws.shape)
        yield _Solved(block.rows, block.columns, mean, np.maximum(np.diag(covariance), 0.0), draws)


class _Candidates(NamedTuple):
    """What speaks for the value of each wanted cell: two imputations, a deviation, its variable and its kind."""

    gaussian: Floats
    interpolated: Floats
    deviation: Floats
    column: Indices
    kind: Indices
    draws: Floats  # (sample, cell) of the Gaussian imputation


class Imputer:
    """Impute cells of series from all other cells.

    Parameters
    ----------
    scaler : Scaler
        Maps values to z units, in which everything is computed.
    pooled : Autoregression
        The model of entities that have none of their own.
    entities : mapping of str to Autoregression
        The models of entities.
    weights : array of shape (kind, variable, 2)
        Weights of the Gaussian mean and of the interpolation; the median has the rest.
    widening : array of shape (kind, variable)
        Factors of the standard deviations.
    """

    def __init__(
        self,
        scaler: Scaler,
        pooled: Autoregression,
        entities: Mapping[str, Autoregression],
        weights: Floats,
        widening: Floats,
    ) -> None:
        self.scaler, self.pooled, self.entities = scaler, pooled, dict(entities)
        self.weights, self.widening = weights, widening

    @classmethod
    def fit(cls, series: Sequence[Series], scaler: Scaler, seed: int = 0) -> Imputer:
        """Learn from series with the same variables, NaN where nothing was measured or nothing is to be learnt."""
        with single_threaded_blas():
            return cls._fit(series, scaler, seed)

    @classmethod
    def _fit(cls, series: Sequence[Series], scaler: Scaler, seed: int) -> Imputer:
        variables, steps = len(series[0].names), sum(map(len, series))
        lags, share = range(_order(variables, steps, len(series)) + 1), MAX_STEPS / steps
        gaps = any(np.isnan(chunk).any() for item in series for chunk in item.chunks())
        models: _Models | None = None
        # In the first round, products are summed over what was measured. These sums do not fit together where variables
        # depend on each other exactly, so gaps are filled and the grams computed again.
        for _ in range(ROUNDS if gaps else 1):
            grams = [_grams(item, scaler, lags, share, models) for item in series]
            models = _Models.fit([item.entity for item in series], [_sum(folds) for folds in grams], variables)
        assert models is not None
        tests = _Tests(series, scaler, seed)
        total = [_sum([folds[fold] for folds in grams]) for fold in range(FOLDS)]
        for item, folds in zip(series, grams, strict=True):
            for fold in tests.folds(item):
                others = _sum(folds, fold) if len(series) > 1 else None
                tests.run(_autoregression(_sum(total, fold), others, variables), item, fold)
        return cls(scaler, models.pooled, models.entities, *tests.choose(variables))

    def impute(
        self, series: Series, hidden: Booleans, samples: int = 0, generator: np.random.Generator | None = None
    ) -> Imputed:
        """Impute the `hidden` cells (time, variable) of a series, without looking at them. Draws need a generator."""
        values, deviation = np.full((2, *hidden.shape), np.nan)
        draws: list[Floats] = []
        model = self.entities.get(series.entity, self.pooled)
        zero, one = self.scaler.undo(series.entity, np.repeat([[0.0], [1.0]], hidden.shape[1], axis=1))
        unit = one - zero
        with single_threaded_blas():
            for first, stop in _segments(series):
                wanted = hidden[first:stop]
                if wanted.any():
                    z = np.where(wanted, np.nan, _scaled(self.scaler, series, first, stop))
                    cells = _candidates(model, z, wanted, samples, generator)
                    weights = self.weights[cells.kind, cells.column]
                    values[first:stop][wanted] = (weights * np.stack([cells.gaussian, cells.interpolated], 1)).sum(1)
                    widening = self.widening[cells.kind, cells.column]
                    deviation[first:stop][wanted] = cells.deviation * widening
                    # As far from the imputation as a draw is from the Gaussian mean, widened like the deviation.
                    draws.append((cells.draws - cells.gaussian) * widening * unit[cells.column])
        values = self.scaler.undo(series.entity, values)
        apart = np.concatenate(draws, axis=1) if draws else np.empty((samples, 0))
        return Imputed(values, deviation * unit, values[hidden] + apart)


class _Models(NamedTuple):
    """The model of all entities together, and those of each, if there are several."""

    pooled: Autoregression
    entities: dict[str, Autoregression]

    @classmethod
    def fit(cls, entities: Sequence[str], grams: Sequence[Gram], variables: int) -> _Models:
        total = _sum(grams)
        several = zip(entities, grams, strict=True) if len(entities) > 1 else ()
        by_entity = {entity: _autoregression(total, gram, variables) for entity, gram in several}
        return cls(_autoregression(total, None, variables), by_entity)

    def filled(self, entity: str, z: Floats) -> Floats:
        """Return z (time, variable) with its gaps filled, except rows that are far from measured ones."""
        model = self.entities.get(entity, self.pooled)
        _, distance = _interpolated(np.where(np.isnan(z).all(axis=1), np.nan, 0.0)[:, None])
        wanted = np.isnan(z) & (distance <= model.order)
        return np.where(wanted, model.impute(z, wanted)[0], z) if wanted.any() else z


class _Tests:
    """Cells of the history that are hidden, and imputed by what was learnt from its other folds."""

    def __init__(self, series: Sequence[Series], scaler: Scaler, seed: int) -> None:
        self.scaler, self.generator = scaler, np.random.default_rng(seed)
        chunks = [(item.entity, fold, span) for item in series for span, fold in _chunks(item)]
        self.chosen: dict[tuple[str, int], list[tuple[int, int]]] = {}
        for i in evenly_spaced(len(chunks), max(2 * FOLDS, MAX_CELLS // (CHUNK * len(series[0].names)))):
            entity, fold, span = chunks[i]
            self.chosen.setdefault((entity, fold), []).append(span)
        self.candidates: list[_Candidates] = []
        self.truth: list[Floats] = []

    def folds(self, series: Series) -> list[int]:
        """Return the folds of a series in which cells are hidden."""
        return [fold for fold in range(FOLDS) if (series.entity, fold) in self.chosen]

    def run(self, model: Autoregression, series: Series, fold: int) -> None:
        for first, stop in self.chosen[series.entity, fold]:
            z = _scaled(self.scaler, series, first, stop)
            wanted = _hide(z.shape, self.generator) & np.isfinite(z)
            if wanted.any():
                self.truth.append(z[wanted])
                self.candidates.append(_candidates(model, np.where(wanted, np.nan, z), wanted))

    def choose(self, variables: int) -> tuple[Floats, Floats]:
        """Return the weights (kind, variable, 2) with the smallest absolute errors, and the widening (kind, variable)
        with which 90 % of the errors lie within 1.645 deviations."""
        weights, widening = np.tile(MIXTURES[0], (KINDS, variables, 1)), np.ones((KINDS, variables))
        if not self.candidates:
            return weights, widening
        fields = zip(*(candidates[:-1] for candidates in self.candidates), strict=True)
        gaussian, interpolated, deviation, column, kind = map(np.concatenate, fields)
        both = np.stack([gaussian, interpolated], axis=1)
        errors = np.abs(both @ MIXTURES.T - np.concatenate(self.truth)[:, None])
        ratio = errors / np.maximum(deviation, SMALLEST_DEVIATION)[:, None]
        chunk = np.repeat(np.arange(len(self.truth)), [len(cells) for cells in self.truth])
        for number in range(KINDS):
            cells = kind == number if (kind == number).any() else np.ones(len(kind), dtype=bool)
            shared = errors[cells].mean(axis=0)
            for k in range(variables):
                of_variable = cells & (column == k)
                best = int(np.argmin(errors[of_variable].sum(axis=0) + PRIOR_CELLS * shared))
                weights[number, k] = MIXTURES[best]
                enough = of_variable.sum() >= MIN_CELLS and len(np.unique(chunk[of_variable])) >= MIN_CHUNKS
                chosen = of_variable if enough else cells
                widening[number, k] = np.quantile(ratio[chosen, best], NOMINAL) / DEVIATIONS
        return weights, widening


def _candidates(
    model: Autoregression,
    z: Floats,
    wanted: Booleans,
    samples: int = 0,
    generator: np.random.Generator | None = None,
) -> _Candidates:
    """Return the candidates for the `wanted` cells, which are NaN in z (time, variable)."""
    mean, deviation, draws = model.impute(z, wanted, samples, generator)
    interpolated, distance = _interpolated(z)
    rows, columns = np.nonzero(wanted)
    kind = np.searchsorted(DISTANCES, distance[wanted], side="right") - 1
    alone = np.isnan(z).mean(axis=1)[rows] > 0.5
    kind = kind + len(DISTANCES) * alone
    return _Candidates(mean[wanted], interpolated[wanted], deviation[wanted], columns, kind, draws)


def _order(variables: int, steps: int, entities: int) -> int:
    """Return how many rows back the autoregression looks: as many as history and memory allow."""
    features = min(MAX_FEATURES, steps // STEPS_PER_FEATURE, int(np.sqrt(MAX_GRAM_CELLS / (FOLDS * entities))))
    return max(1, min(MAX_ORDER, features // variables - 1))


def _segments(series: Series) -> list[tuple[int, int]]:
    """Return the rows [first, stop) that follow each other in time."""
    length = series.observation or len(series)
    return [(first, min(first + length, len(series))) for first in range(0, len(series), length)]


def _chunks(series: Series) -> list[tuple[tuple[int, int], int]]:
    """Return the chunks [first, stop) of a series and the fold of each. Folds are interleaved, as cells to impute have
    known ones before and after them. Separate observations are not divided between folds."""
    segments = _segments(series)
    length = CHUNK if len(segments) > 1 else max(1, min(CHUNK, len(series) // (2 * FOLDS)))
    spans = [
        (i, (start, min(start + length, stop)))
        for i, (first, stop) in enumerate(segments)
        for start in range(first, stop, length)
    ]
    return [(span, (segment if len(segments) > 1 else i) % FOLDS) for i, (segment, span) in enumerate(spans)]


def _scaled(scaler: Scaler, series: Series, first: int, stop: int) -> Floats:
    z = scaler(series.entity, np.asarray(series.values[first:stop], dtype=np.float64))
    return np.asarray(np.clip(z, -COVARIANCE_CLIP, COVARIANCE_CLIP))


def _grams(series: Series, scaler: Scaler, lags: range, share: float, models: _Models | None) -> list[Gram]:
    """Return the gram of each fold of a series, whose gaps are filled by `models`, if there are any."""
    folds = [Gram.empty(len(series.names) * len(lags) + 1)] * FOLDS
    chunks = _chunks(series)
    for i in evenly_spaced(len(chunks), max(FOLDS, round(share * len(chunks)))):
        (first, stop), fold = chunks[i]
        z = _scaled(scaler, series, first, stop)
        folds[fold] = folds[fold] + Gram.of((z if models is None else models.filled(series.entity, z)).T, lags)
    return folds


def _sum(grams: Sequence[Gram], without: int | None = None) -> Gram:
    kept = [gram for fold, gram in enumerate(grams) if fold != without]
    return sum(kept[1:], start=kept[0])


def _autoregression(pooled: Gram, of_entity: Gram | None, variables: int) -> Autoregression:
    """Fit to the gram of all entities, or to that of one entity and a little of all."""
    matrix = pooled.matrix()
    if of_entity is not None:
        matrix = of_entity.matrix() + POOLED_STEPS * len(matrix) * matrix / max(pooled.steps, 1.0)
    return Autoregression.fit(matrix, variables)


def _interpolated(z: Floats) -> tuple[Floats, Indices]:
    """Return z (time, variable) with gaps interpolated, and the distance of each cell to the next known one in rows."""
    rows = np.arange(len(z))
    out, distance = np.zeros(z.shape), np.full(z.shape, len(z), dtype=np.int64)
    for k in range(z.shape[1]):
        known = np.flatnonzero(np.isfinite(z[:, k]))
        if len(known):
            out[:, k] = np.interp(rows, known, z[known, k])
            after = np.clip(np.searchsorted(known, rows), 0, len(known) - 1)
            before = np.maximum(after - 1, 0)
            distance[:, k] = np.minimum(np.abs(known[after] - rows), np.abs(rows - known[before]))
    return out, np.maximum(distance, 1)


def _hide(shape: tuple[int, ...], generator: np.random.Generator) -> Booleans:
    """Draw cells (time, variable) to hide: points, blocks of variables, whole variables, and rows of all variables."""
    rows, variables = shape
    hidden = generator.random(shape) < HIDDEN_POINTS
    for k in np.flatnonzero(generator.random(variables) < 0.5):
        hidden[_block(rows, rows / 4, generator), k] = True
    hidden[:, generator.random(variables) < HIDDEN_POINTS * 2] = True
    if generator.random() < 0.5:
        hidden[_block(rows, rows / 8, generator)] = True
    return hidden


def _block(rows: int, most: float, generator: np.random.Generator) -> slice:
    """Draw a block of rows, whose length has a uniform logarithm."""
    length = int(np.exp(generator.uniform(0.0, np.log(most + 2))))
    first = int(generator.integers(0, max(1, rows - length)))
    return slice(first, first + length)
