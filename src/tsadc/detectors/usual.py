"""What is usual for each entity and variable, learnt from the normal part of the history. No score depends on it.

    name          meaning
    z             (variable, time) values in z units; what was not measured is interpolated in time
    predicted     (variable, time) what the other variables predict, if the detector has such a model
    rest          z - predicted, or z if nothing predicts the variable
    window        a sixth of an observation, at least 8 rows
    value         z                                                                      of a row
    rest          as above                                                               of a row
    offset        mean of `rest`                                                         of a window
    spread        log standard deviation of z about its straight line                    of a window
    pace          log root mean square step of z, minus `spread`                         of a window
    misfit        log standard deviation of `rest`                                       of a window
    run           longest run without change                                             of an observation
    partners      the 3 variables with the strongest correlations over the whole history
    correlation   arctanh of the correlation with each partner                           of half an observation
    present       whether a variable has a value                                         in every observation
    gap           most consecutive rows without any value                                of the whole history

Of numbers, the 1 %, 50 % and 99 % quantiles are kept. Normal are the observations that score lowest, all but the
estimated contamination. An entity with fewer than 5 of them has the quantiles of all entities together. For quantiles,
at most `MAX_CELLS` values of an entity are looked at, evenly spaced, so memory and time are bounded.

The band of a variable is `predicted` plus the quantiles of `rest`, or the quantiles of `value` if they lie closer
together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tsadc.detectors.ensemble.features import decode_names, encode_names, interpolated
from tsadc.scale import Scaler
from tsadc.series import MAX_ABS_VALUE, Booleans, Floats, Observations, Series
from tsadc.subsample import evenly_spaced
from tsadc.windows import empty_runs, runs

LEVELS = (0.01, 0.5, 0.99)
OF_ROWS = ("value", "rest")
OF_WINDOWS = ("offset", "spread", "pace", "misfit")
WINDOWS_PER_OBSERVATION, MIN_WINDOW = 6, 8
MIN_HISTORY = 5  # normal observations that an entity needs for quantiles of its own
MAX_CELLS = 2**16  # values of an entity, and of all together
PARTNERS = 3
MIN_SIZE = 1e-3  # z units, added before a logarithm
MAX_CORRELATION = 0.995  # arctanh diverges at 1
MARGIN = 16  # rows around a part of a series that a prediction looks at
ROWS_AT_ONCE = 4096
NO_LIMIT = np.iinfo(np.int64).max  # rows
STORED = "quantiles"  # prefix of the arrays in a model folder

Predict = Callable[[str, Floats], Floats | None]  # entity and z to `predicted`; NaN for variables without prediction


@dataclass(frozen=True)
class Quantiles:
    """What is usual for one entity.

    Attributes
    ----------
    measures : (measure, level, variable)
        Quantiles of the measures in `OF_ROWS` and `OF_WINDOWS`, in this order.
    run : (variable,)
        Longest run without change, in rows.
    partners : (variable, partner)
        Positions of the partners; fewer than 3 if there are fewer variables.
    correlations : (variable, partner, level)
        Quantiles of the correlation with each.
    present : (variable,)
        Whether every normal observation has a value of the variable; False if that is not known, in models of earlier
        versions.
    gap : int
        Most consecutive rows of the history without any value.
    """

    measures: Floats
    run: NDArray[np.int64]
    partners: NDArray[np.int64]
    correlations: Floats
    present: Booleans
    gap: int

    def of(self, measure: str) -> Floats:
        """Return the quantiles (level, variable) of a measure."""
        return np.asarray(self.measures[(*OF_ROWS, *OF_WINDOWS).index(measure)], dtype=np.float64)

    @property
    def predicts(self) -> NDArray[np.bool_]:
        """Whether the other variables say more about a variable than its own history, for each variable."""
        value, rest = self.of("value"), self.of("rest")
        return np.asarray(rest[-1] - rest[0] < 0.9 * (value[-1] - value[0]))


class Usual:
    """What is usual for every entity of a history, and for entities that it does not contain."""

    def __init__(self, length: int, pooled: Quantiles, entities: Mapping[str, Quantiles] | None = None) -> None:
        self.length, self.pooled, self.entities = length, pooled, dict(entities or {})

    @property
    def window(self) -> int:
        return window_of(self.length)

    @classmethod
    def fit(cls, normal: Observations, predict: Predict, gaps: Mapping[str, int] | None = None) -> Self:
        """Learn from normalised observations. `gaps` are the longest gaps of each entity, if the series of the
        observations are only a part of its history."""
        usual = cls(normal.length, _quantiles(normal, np.arange(len(normal)), predict, gaps))
        usual.adapt(normal, predict, gaps)
        return usual

    def adapt(self, normal: Observations, predict: Predict, gaps: Mapping[str, int] | None = None) -> None:
        """Learn what is usual for the entities of `normal`, new or known; those with a short history are skipped."""
        for entity, places in normal.by_entity().items():
            if len(places) >= MIN_HISTORY:
                self.entities[entity] = _quantiles(normal, np.asarray(places), predict, gaps)

    @property
    def knows_gaps(self) -> bool:
        """Whether it is known how long gaps usually last; not in models of earlier versions."""
        return self.pooled.gap < NO_LIMIT

    def of(self, entity: str) -> Quantiles:
        """Return what is usual for an entity."""
        return self.entities.get(entity, self.pooled)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything learnt, as named arrays."""
        every = [self.pooled, *self.entities.values()]
        arrays = {name: np.stack([getattr(own, name) for own in every]) for name in Quantiles.__dataclass_fields__}
        arrays["entities"] = encode_names(list(self.entities))
        return {f"{STORED}.{name}": array for name, array in arrays.items()}

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]], length: int, variables: int) -> Self:
        """Restore what `state` returned; raise a `ValueError` if it belongs to other variables."""
        measures, partners = state[f"{STORED}.measures"], state[f"{STORED}.partners"]
        shape = len(OF_ROWS) + len(OF_WINDOWS), len(LEVELS), variables
        few = min(PARTNERS, variables - 1)
        if (
            measures.shape[1:] != shape
            or partners.dtype.kind != "i"
            or partners.shape[1:] != (variables, few)
            or not (
                state[f"{STORED}.run"].shape[1:] == (variables,)
                and state[f"{STORED}.correlations"].shape[1:] == (variables, few, len(LEVELS))
                and ((partners >= 0) & (partners < variables)).all()
            )
        ):
            raise ValueError("the quantiles belong to other variables")
        # Models of earlier versions do not know which variables are always present, nor which gaps are usual.
        unknown = {"present": np.zeros((len(measures), variables), dtype=bool), "gap": np.full(len(measures), NO_LIMIT)}
        stored = {**{f"{STORED}.{name}": array for name, array in unknown.items()}, **state}
        for name, array in unknown.items():
            own = stored[f"{STORED}.{name}"]
            if own.shape != array.shape or own.dtype != array.dtype:
                raise ValueError("the quantiles belong to other variables")
        fields = [stored[f"{STORED}.{name}"] for name in Quantiles.__dataclass_fields__]
        every = [Quantiles(*own) for own in zip(*fields, strict=True)]
        names = decode_names(state[f"{STORED}.entities"])
        return cls(length, every[0], dict(zip(names, every[1:], strict=True)))


@dataclass(frozen=True)
class SeriesUsual:
    """What is usual for one series, row by row."""

    series: Series
    quantiles: Quantiles
    window: int
    scaler: Scaler
    predict: Predict

    def measured(self, first: int, stop: int) -> Floats:
        """Return rows [first, stop) as (variable, time) in z units; NaN where nothing was measured."""
        values = np.asarray(self.series.values[first:stop], dtype=np.float64)
        z = self.scaler(self.series.entity, values)
        return np.clip(z, -MAX_ABS_VALUE, MAX_ABS_VALUE).T

    def predicted(self, first: int, stop: int) -> Floats:
        """Return what the other variables predict for rows [first, stop), as (variable, time) in z units; the median if
        nothing is predicted. It does not jump where values are missing."""
        before, after = max(first - MARGIN, 0), min(stop + MARGIN, len(self.series))
        own = self.quantiles.of("value")
        # Clipped, so that a fault of one variable hardly moves the bands of the others.
        z = np.clip(interpolated(self.measured(before, after)), own[0][:, None], own[-1][:, None])
        predicted = _predicted(self.predict, self.series.entity, z)
        usable = self.quantiles.predicts[:, None]
        return np.where(usable, predicted, 0.0)[:, first - before : first - before + stop - first]

    def band(self, first: int, stop: int) -> tuple[Floats, Floats]:
        """Return lower and upper (time, variable) of the usual band of rows [first, stop), in the units of the input;
        NaN where no variable was measured for longer than a window."""
        shape = stop - first, len(self.series.names)
        lower, upper = np.empty(shape, dtype=np.float32), np.empty(shape, dtype=np.float32)
        chosen = np.where(self.quantiles.predicts, self.quantiles.of("rest"), self.quantiles.of("value"))
        for start in range(first, stop, ROWS_AT_ONCE):
            end = min(start + ROWS_AT_ONCE, stop)
            predicted = self.predicted(start, end)
            absent = np.asarray(~np.isfinite(self.measured(start, end)).any(axis=0))
            for begin, past in runs(absent):
                if past - begin > self.window:
                    predicted[:, begin:past] = np.nan
            for bound, quantile in ((lower, chosen[0]), (upper, chosen[-1])):
                raw = self.scaler.undo(self.series.entity, (predicted + quantile[:, None]).T)
                bound[start - first : end - first] = raw
        return lower, upper


def window_of(length: int) -> int:
    """Return the rows of a window of an observation of `length` rows."""
    return min(length, max(length // WINDOWS_PER_OBSERVATION, MIN_WINDOW))


def window_measures(z: Floats, rest: Floats, window: int) -> Floats:
    """Return the measures of `OF_WINDOWS` (measure, variable, start) of the windows of `window` rows from every start.

    With running sums of x, x^2 and time x, every window costs the same however long it is."""
    time = np.arange(z.shape[1], dtype=np.float64)
    width = float(window)
    centred = z - z.mean(axis=1, keepdims=True)  # keeps differences of running sums precise
    total, square, moment = (_sums(x, window) for x in (centred, centred**2, centred * time))
    middle = time[: total.shape[1]] + (window - 1) / 2
    slope = (moment - middle * total) / (width * (width**2 - 1) / 12)
    about_line = square - total**2 / width - slope**2 * (width * (width**2 - 1) / 12)
    spread = np.sqrt(np.maximum(about_line, 0.0) / width)
    step = np.sqrt(np.maximum(_sums(np.diff(z, axis=1) ** 2, window - 1), 0.0) / (window - 1))
    offset = _sums(rest, window) / width
    around = rest - rest.mean(axis=1, keepdims=True)
    misfit = np.sqrt(np.maximum(_sums(around**2, window) - _sums(around, window) ** 2 / width, 0.0) / width)
    size = np.log(MIN_SIZE + spread)
    return np.stack([offset, size, np.log(MIN_SIZE + step) - size, np.log(MIN_SIZE + misfit)])


def longest_run(z: Floats) -> NDArray[np.int64]:
    """Return the longest run without change of each variable of z (variable, time) without gaps, in rows."""
    changes = np.pad(np.diff(z, axis=1) != 0, ((0, 0), (1, 0)), constant_values=True)
    rows = np.arange(z.shape[1])
    begun = np.maximum.accumulate(np.where(changes, rows, 0), axis=1)
    return np.asarray((rows - begun).max(axis=1) + 1)


def correlation(first: Floats, second: Floats) -> Floats:
    """Return arctanh of the correlation over the last axis; 0 if one is constant."""
    x, y = first - first.mean(axis=-1, keepdims=True), second - second.mean(axis=-1, keepdims=True)
    size = np.sqrt((x * x).sum(axis=-1) * (y * y).sum(axis=-1))
    ratio = np.divide((x * y).sum(axis=-1), size, out=np.zeros_like(size), where=size > MIN_SIZE**2)
    return np.asarray(np.arctanh(np.clip(ratio, -MAX_CORRELATION, MAX_CORRELATION)))


def _sums(x: Floats, window: int) -> Floats:
    """Return the sum of every window of `window` steps along the last axis."""
    running = np.zeros((len(x), x.shape[1] + 1))
    np.cumsum(x, axis=1, out=running[:, 1:])
    return running[:, window:] - running[:, :-window]


def _predicted(predict: Predict, entity: str, z: Floats) -> Floats:
    predicted = predict(entity, z)
    return np.zeros_like(z) if predicted is None else np.nan_to_num(predicted, nan=0.0)


def _quantiles(
    normal: Observations, places: NDArray[np.int64], predict: Predict, gaps: Mapping[str, int] | None
) -> Quantiles:
    variables, length = len(normal.names), normal.length
    chosen = places[evenly_spaced(len(places), max(MIN_HISTORY, MAX_CELLS // (length * variables)))].tolist()
    z = np.stack([interpolated(normal.read(i)) for i in chosen])  # (observation, variable, time)
    rest = z - np.stack([_predicted(predict, normal.entity(i), own) for i, own in zip(chosen, z, strict=True)])
    window = window_of(length)
    flat = window_measures(z.reshape(-1, length), rest.reshape(-1, length), window)[:, :, :: window // 2]
    of_windows = flat.reshape(len(OF_WINDOWS), len(z), variables, -1)
    # Of all observations: one without the variable is rare, and must not be overlooked.
    present = np.logical_and.reduce([_measured(normal, int(i)) for i in places])
    run = longest_run(z.reshape(-1, length)).reshape(len(z), variables).max(axis=0)
    partners = _partners(z.transpose(1, 0, 2).reshape(variables, -1))
    halves = np.concatenate([z[:, :, : length // 2], z[:, :, -(length // 2) :]])
    correlations = np.quantile(correlation(halves[:, :, None], halves[:, partners]), LEVELS, axis=0)
    of_rows = np.quantile(np.stack([z, rest]), LEVELS, axis=(1, 3))  # (level, measure, variable)
    measures = np.concatenate([of_rows, np.quantile(of_windows, LEVELS, axis=(1, 3))], axis=1)
    return Quantiles(
        np.moveaxis(measures, 0, 1).astype(np.float32),
        run,
        partners,
        np.moveaxis(correlations, 0, -1).astype(np.float32),
        present,
        max((_gap(normal.series[number], gaps) for number in {normal.places[i].series for i in places}), default=0),
    )


def _gap(series: Series, gaps: Mapping[str, int] | None) -> int:
    return longest_gap(series) if gaps is None else gaps[series.entity]


def longest_gap(series: Series) -> int:
    """Return the most consecutive rows of a series without any value; 0 if it is a sequence of separate observations,
    which do not follow each other in time."""
    return gaps_of(series)[0]


def gaps_of(series: Series) -> tuple[int, int, int]:
    """Return the longest gap of a series, and the rows without any value at its beginning and at its end."""
    longest = leading = trailing = 0
    for start, stop in empty_runs(series) if series.observation is None else ():
        longest = max(longest, stop - start)
        leading = stop if start == 0 else leading
        trailing = stop - start if stop == len(series) else 0
    return longest, leading, trailing


def _measured(observations: Observations, index: int) -> Booleans:
    """Return which variables have a value in an observation; its raw values say so, too, and are faster to read."""
    place = observations.places[index]
    rows = observations.series[place.series].values[max(place.start, 0) : place.start + observations.length]
    return np.asarray(np.isfinite(rows).any(axis=0))


def _partners(z: Floats) -> NDArray[np.int64]:
    """Return for each variable the positions (variable, partner) of those with the strongest correlations."""
    count = min(PARTNERS, len(z) - 1)
    spread = z.std(axis=1)
    scaled = (z - z.mean(axis=1, keepdims=True)) / np.where(spread > 0, spread, 1.0)[:, None]
    strength = np.abs(scaled @ scaled.T)
    np.fill_diagonal(strength, -1.0)
    return np.argsort(-strength, axis=1, kind="stable")[:, :count]


def normal_places(scores: Floats, share: float) -> NDArray[np.int64]:
    """Return the indices of the observations that score lowest, all but the share of anomalous ones."""
    return np.flatnonzero(scores <= np.quantile(scores, 1 - share))
