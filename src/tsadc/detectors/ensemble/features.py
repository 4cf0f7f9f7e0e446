"""Features: what the views measure on an observation before they compare it with anything.

    name           meaning
    z              (variable, time) an observation in z units; NaN where nothing was measured
    features       (feature,) numbers that describe an observation; NaN where the data they need was not measured
    owners         pairs (feature, variable): the variables that a feature is about
    u              (feature,) standardised features: distance from what is usual for the entity, in robust standard
                   deviations

`Correlations`, `Convolutions` and `Bands` describe a whole observation, `Windows` short windows of it. `Standardiser`
brings features to a common scale.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from tsadc.detectors.pooling import sliding
from tsadc.scale import NORMAL_IQR
from tsadc.series import Booleans, Floats
from tsadc.subsample import evenly_spaced

# How much training data the ensemble looks at.
MAX_OBSERVATIONS = 4000  # of a part (training or validation), evenly spaced
MAX_FEATURE_VALUES = 2**23  # feature values of these together: this bounds the memory

TOP_VARIABLES = 3  # a step of a window is as large as the mean of its 3 largest variables

# Correlations.
MAX_PAIRS = 5000  # pairs of variables; up to 100 variables, this is every pair
MAX_CORRELATION = 0.995  # stronger correlations count as equal: arctanh diverges at 1
ROUNDING = 1e-6  # a standard deviation below this share of the values is rounding error: the variable is constant

# Convolutions.
TAPS = 9  # points that a kernel looks at
MAX_CHANNELS = 3  # variables that a kernel looks at
MAX_DILATIONS = 6
KERNEL_CLIP = 8.0  # z is clipped here: the size of a value is the subject of another view
BIAS_QUANTILES = (0.6, 0.95)
BIAS_OBSERVATIONS, BIAS_STEPS = 128, 64  # training observations, and steps of each, that set the biases
STEPS_AT_ONCE = 2048  # bounds the memory of a long observation

MAX_SIZE = 1e6  # z units: larger values would spoil sums
MAX_BRIDGED = 8  # steps of a gap over which a spectrum is interpolated

# Bands.
BANDS = 6
MIN_POWER = 1e-3  # z units squared, added before the log

# Windows.
WINDOWS_PER_OBSERVATION = 10  # a window is a tenth of the observation; consecutive windows overlap by half
MIN_WINDOW = 8  # steps
MIN_WINDOW_SIZE = 1e-3  # z units, added before the log

# Standardisation.
MIN_HISTORY = 5  # observations that an entity needs for a baseline of its own
FEATURE_CLIP = 10.0  # u is clipped here
MIN_SCALE = 0.01  # features are logs and angles, so this is 1 % or half a degree
TAIL_SHARE = 0.2  # the scale is at least this share of the standard deviation, which outliers enlarge

Owners = tuple[NDArray[np.int64], NDArray[np.int64]]
Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]
Read = Callable[[int], Floats]  # reads the training observation (variable, time) at an index
Residuals = Sequence[Floats]  # each (variable, time), >= 0, in the model's own units; NaN: nothing to compare


class FeatureMap(Protocol):
    """Maps an observation (variable, time) to its features (feature,)."""

    owners: Owners

    def __call__(self, z: Floats) -> Floats: ...


def sampled(count: int, features: int) -> NDArray[np.int64]:
    """Return the indices of evenly spaced observations, as many as fit into memory with `features` values each."""
    return evenly_spaced(count, most_sampled(features))


def most_sampled(features: int) -> int:
    """Return how many observations fit into memory with `features` values each."""
    return max(min(MAX_OBSERVATIONS, MAX_FEATURE_VALUES // max(features, 1)), 1)


def contributions_of(deviation: Floats, owners: Owners, variables: int) -> Floats:
    """Return for each variable the mean deviation (>= 0) of the features that are about it."""
    feature, variable = owners
    total = np.bincount(variable, weights=deviation[feature], minlength=variables)
    return np.asarray(total / np.maximum(np.bincount(variable, minlength=variables), 1))


class Correlations:
    """Correlation of each pair of variables, as arctanh r: what moves together.

    Each correlation is taken over the steps at which both variables were measured; NaN with fewer than 3 such steps.
    A constant variable correlates with no other: 0.
    """

    def __init__(self, variables: int, pairs: Pairs | None = None) -> None:
        """Correlate the given `pairs`, or every pair if None."""
        self.pairs = pairs
        self.first, self.second = np.triu_indices(variables, 1) if pairs is None else pairs
        feature = np.arange(len(self.first))
        self.owners: Owners = (np.tile(feature, 2), np.concatenate([self.first, self.second]))

    @classmethod
    def choose(cls, variables: int, seed: int) -> Self:
        """Correlate every pair, or a random selection of `MAX_PAIRS` if there are more."""
        few = variables * (variables - 1) // 2 <= MAX_PAIRS
        return cls(variables, None if few else _random_pairs(variables, seed))

    def __call__(self, z: Floats) -> Floats:
        measured = np.isfinite(z)
        mean, deviation = mean_and_deviation(z)
        constant = deviation <= ROUNDING * (1 + np.abs(mean))
        # With zero mean and unit variance, sums of products lose little precision to cancellation.
        x = (z - mean[:, None]) / np.where(constant, 1, deviation)[:, None]
        x[constant] = 0
        if measured.all():
            steps, correlation = np.full(len(self.first), z.shape[1]), (x @ x.T / z.shape[1])[self.first, self.second]
        else:
            x[~measured] = 0
            weight = measured.astype(np.float64)
            both = weight @ weight.T
            steps, correlation = both[self.first, self.second], _correlation(x, weight, both)[self.first, self.second]
        clipped = np.clip(correlation, -MAX_CORRELATION, MAX_CORRELATION)
        return np.where(steps > 2, np.arctanh(clipped), np.nan)

    def state(self) -> dict[str, NDArray[Any]]:
        return {} if self.pairs is None else {"pairs.first": self.first, "pairs.second": self.second}

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]], variables: int) -> Self:
        return cls(variables, (state["pairs.first"], state["pairs.second"]) if "pairs.first" in state else None)


def _correlation(x: Floats, weight: Floats, both: Floats) -> Floats:
    """Return the correlation (variable, variable) of x (variable, time) over the steps at which both variables have
    weight 1; x is 0 elsewhere. `both` is the number of these steps."""
    both = np.maximum(both, 1)
    product, total, square = x @ x.T, x @ weight.T, np.square(x) @ weight.T
    covariance = product - total * total.T / both
    variance = np.maximum(square - np.square(total) / both, 0)
    size = np.sqrt(variance * variance.T)
    return np.where(size > ROUNDING * both, covariance / np.where(size > ROUNDING * both, size, 1), 0)


def _random_pairs(variables: int, seed: int) -> Pairs:
    """Pair variables that are 1, 2, ... places apart in a random order, so that all have about as many partners."""
    order = np.random.default_rng(seed).permutation(variables)
    places = np.arange(MAX_PAIRS // variables * variables or MAX_PAIRS)
    first, second = order[places % variables], order[(places + places // variables + 1) % variables]
    return np.minimum(first, second), np.maximum(first, second)


def mean_and_deviation(z: Floats) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of each variable over its measured steps; 0 if there are none."""
    measured = np.isfinite(z)
    complete = bool(measured.all())
    count = z.shape[1] if complete else np.maximum(measured.sum(axis=1), 1)
    mean = (z if complete else np.where(measured, z, 0)).sum(axis=1, dtype=np.float64) / count
    centred = z - mean[:, None] if complete else np.where(measured, z - mean[:, None], 0)
    return mean, np.sqrt(np.square(centred).sum(axis=1) / count)


class Convolutions:
    """Random dilated convolutions: which shapes an observation is made of, at any level.

    After ROCKET (Dempster, Petitjean, Webb 2020): kernels are drawn, not learnt. A feature is arcsin sqrt of the share
    of steps at which a kernel's output exceeds its bias; NaN if a variable of the kernel was never measured.

        name        meaning
        channels    (kernel, 3) the 1 to 3 variables a kernel looks at; -1 if there are fewer
        weights     (kernel, 3, 9) normal, zero mean per variable, so that a constant level gives output 0
        dilations   (kernel,) 1, 2, 4, ...: steps between the 9 points a kernel looks at
        bias        (kernel,) a random quantile, 0.6 to 0.95, of the kernel's training outputs
    """

    def __init__(
        self,
        channels: NDArray[np.int64],
        weights: Floats,
        dilations: NDArray[np.int64],
        bias: Floats,
        variables: int,
    ) -> None:
        self.channels, self.weights, self.dilations, self.bias = channels, weights, dilations, bias
        kernel, place = np.nonzero(channels >= 0)
        self.owners: Owners = (kernel, channels[kernel, place])
        self.variables = variables
        points = (np.arange(TAPS) - TAPS // 2) * dilations[:, None]  # (kernel, tap) steps from the output
        self.shifts = np.unique(points)
        # One row per kernel over (shift, variable): sparse, as each looks at few variables and at 9 of the shifts.
        columns = np.searchsorted(self.shifts, points[kernel]) * variables + channels[kernel, place][:, None]
        places = np.repeat(kernel, TAPS).astype(np.int32), columns.ravel().astype(np.int32)
        entries = weights[kernel, place].ravel(), places
        self.matrix = csr_array(entries, shape=(len(dilations), len(self.shifts) * variables))

    @classmethod
    def fit(cls, read: Read, count: int, kernels: int, seed: int) -> Self:
        """Draw `kernels` kernels for each dilation that fits, and set their biases from the outputs of `count` training
        observations."""
        variables, length = read(0).shape
        rng = np.random.default_rng(seed)
        fitting = [2**i for i in range(MAX_DILATIONS) if (TAPS - 1) * 2**i < length]
        dilations = np.repeat(fitting or [1], kernels)
        number = rng.integers(1, min(MAX_CHANNELS, variables) + 1, len(dilations))
        order = np.argsort(rng.random((len(dilations), variables)), axis=1)[:, :MAX_CHANNELS]
        channels = np.full((len(dilations), MAX_CHANNELS), -1)
        channels[:, : order.shape[1]] = np.where(np.arange(order.shape[1]) < number[:, None], order, -1)
        weights = rng.normal(size=(len(dilations), MAX_CHANNELS, TAPS))
        weights -= weights.mean(axis=2, keepdims=True)
        weights = np.where(channels[:, :, None] >= 0, weights, 0).astype(np.float32)
        unbiased = cls(channels, weights, dilations, np.zeros(len(dilations), dtype=np.float32), variables)
        levels = rng.uniform(*BIAS_QUANTILES, len(dilations))
        outputs = unbiased._sample(read, count, rng)
        bias = [np.quantile(outputs[i], level) for i, level in enumerate(levels)]
        return cls(channels, weights, dilations, np.array(bias, dtype=np.float32), variables)

    def __call__(self, z: Floats) -> Floats:
        measured = np.isfinite(z)
        steps, variables = np.asarray(measured.any(axis=0)), np.asarray(measured.any(axis=1))
        padded, everywhere = self._padded(z), bool(steps.all())
        count = np.zeros(len(self.bias), dtype=np.int64)
        for first in range(0, len(steps), STEPS_AT_ONCE):
            part = slice(first, min(first + STEPS_AT_ONCE, len(steps)))
            above = self._outputs(padded, part) > self.bias[:, None]
            if not everywhere:
                above &= steps[part]
            count += above.sum(axis=1, dtype=np.uint16)
        share = count / max(int(steps.sum()), 1)
        blind = ~variables[self.channels] & (self.channels >= 0)
        return np.where(blind.any(axis=1), np.nan, np.arcsin(np.sqrt(share)))

    def _padded(self, z: Floats) -> Floats:
        """Return z clipped, without gaps, and with a margin for the shifts. Gaps are interpolated; values beyond the
        ends are taken to be at the median: 0."""
        margin = int(self.shifts[-1])
        padded = np.zeros((len(z), z.shape[1] + 2 * margin), dtype=z.dtype)
        padded[:, margin : margin + z.shape[1]] = np.clip(interpolated(z), -KERNEL_CLIP, KERNEL_CLIP)
        return padded

    def _outputs(self, padded: Floats, steps: slice | NDArray[np.int64]) -> Floats:
        """Return the outputs (kernel, step) of all kernels at some steps of an observation."""
        margin = int(self.shifts[-1])
        length = padded.shape[1] - 2 * margin
        shifted = [padded[:, margin + shift : margin + shift + length][:, steps] for shift in self.shifts.tolist()]
        return np.asarray(self.matrix @ np.concatenate(shifted))

    def _sample(self, read: Read, count: int, rng: np.random.Generator) -> Floats:
        """Return outputs (kernel, sample) at random measured steps of evenly spaced training observations."""
        sample = []
        for i in evenly_spaced(count, BIAS_OBSERVATIONS):
            z = read(int(i))
            measured = np.flatnonzero(np.isfinite(z).any(axis=0))
            steps = np.sort(rng.choice(measured, min(BIAS_STEPS, len(measured)), replace=False))
            sample.append(self._outputs(self._padded(z), steps))
        return np.concatenate(sample, axis=1)

    def state(self) -> dict[str, NDArray[Any]]:
        return {
            "kernels.channels": self.channels,
            "kernels.weights": self.weights,
            "kernels.dilations": self.dilations,
            "kernels.bias": self.bias,
        }

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]], variables: int) -> Self:
        channels, weights, dilations, bias = (
            state[f"kernels.{name}"] for name in ("channels", "weights", "dilations", "bias")
        )
        return cls(channels, weights, dilations, bias, variables)


def interpolated(z: Floats) -> Floats:
    """Return z (variable, time) without gaps: linear in time, constant beyond the ends, 0 if nothing was measured.

    A value in a gap is likelier to be like those beside it than like the median of the history."""
    filled = np.clip(z, -MAX_SIZE, MAX_SIZE).astype(np.float64)
    measured = np.isfinite(filled)
    if measured.all():
        return filled
    rows = np.arange(z.shape[1])
    for own, known in zip(filled, measured, strict=True):
        if not known.all():
            own[~known] = np.interp(rows[~known], rows[known], own[known]) if known.any() else 0.0
    return filled


def bridged(z: Floats) -> Floats:
    """Return z (variable, time) with gaps of at most `MAX_BRIDGED` steps interpolated; longer ones, and the ends, stay
    as they are."""
    if np.isfinite(z).all():
        return z
    return np.where(_gap_lengths(z, beyond=z.shape[1]) <= MAX_BRIDGED, interpolated(z).astype(z.dtype), z)


def silent(z: Floats) -> Booleans:
    """Return (variable, time) True where a variable was not measured and others were, in gaps of more than
    `MAX_BRIDGED` steps: there, other variables say more about its value than its own last ones."""
    measured = np.isfinite(z)
    if measured.all():
        return ~measured
    return (_gap_lengths(z, beyond=0) > MAX_BRIDGED) & measured.any(axis=0)


def _gap_lengths(z: Floats, beyond: int) -> NDArray[np.int64]:
    """Return (variable, time) the length of the gap that a cell is in; less than 1 for a measured one. At the ends, a
    gap lasts `beyond` more steps."""
    measured, rows = np.isfinite(z), np.arange(z.shape[1])
    before = np.maximum.accumulate(np.where(measured, rows, -1 - beyond), axis=1)
    after = np.minimum.accumulate(np.where(measured, rows, z.shape[1] + beyond)[:, ::-1], axis=1)[:, ::-1]
    return np.asarray(after - before - 1)


class Bands:
    """Log power of each variable in octave bands, from the Nyquist frequency (band 0) down; the last band reaches down
    to frequency 0, so a shifted level is power there. Short gaps are interpolated; in longer ones, values are taken to
    be the median, 0, and the power is that per step."""

    def __init__(self, variables: int, length: int) -> None:
        self.owners: Owners = (np.arange(variables * BANDS), np.repeat(np.arange(variables), BANDS))
        self.window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(length) / length)  # Hann, periodic
        bins = np.arange(length // 2 + 1)
        octave = np.floor(np.log2(length / np.maximum(2 * bins, 1)))
        band = np.where(bins == 0, BANDS - 1, np.minimum(octave, BANDS - 1))
        twice = np.where((bins == 0) | (2 * bins == length), 1.0, 2.0)  # a real signal's negative frequencies
        self.weights = (band[:, None] == np.arange(BANDS)) * twice[:, None] / length

    def __call__(self, z: Floats) -> Floats:
        z = bridged(z)
        measured = np.isfinite(z)
        filled = z if measured.all() else np.where(measured, z, 0)
        spectrum = np.fft.rfft(filled.astype(np.float64) * self.window, axis=1)
        energy = (np.square(spectrum.real) + np.square(spectrum.imag)) @ self.weights
        weight = (measured @ np.square(self.window))[:, None]
        power = np.where(weight > 0, energy / np.where(weight > 0, weight, 1), np.nan)
        return np.log(MIN_POWER + power).ravel()

    def state(self) -> dict[str, NDArray[Any]]:
        """Return nothing: bands are not fitted."""
        return {}


class Windows:
    """Short windows of an observation: a tenth of it each, overlapping by half; the last one ends with it."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.width = max(length // WINDOWS_PER_OBSERVATION, MIN_WINDOW)
        last = length - self.width
        self.starts = np.unique(np.append(np.arange(0, last + 1, self.width // 2), last))
        since = np.arange(length)[:, None] - self.starts
        self.inside = ((since >= 0) & (since < self.width)).astype(np.float64)  # (step, window) 1 or 0

    def __len__(self) -> int:
        return len(self.starts)

    def log_sizes(self, x: Floats, centred: bool = False) -> Floats:
        """Return (variable, window) the log root mean square of x (variable, time) over the measured steps, about the
        mean if `centred`; NaN where less than half of a window was measured."""
        measured = np.isfinite(x)
        complete = bool(measured.all())
        filled = (x if complete else np.where(measured, x, 0)).astype(np.float64, copy=False)
        count = np.full((1, len(self)), float(self.width)) if complete else measured @ self.inside
        if centred:
            cells = self._cells(filled)
            cells -= (cells.sum(axis=2) / np.maximum(count, 1))[:, :, None]
            if not complete:
                cells *= self._cells(measured)
            squares = np.square(cells, out=cells).sum(axis=2)
        else:
            squares = np.square(filled) @ self.inside
        size = np.sqrt(squares / np.maximum(count, 1))
        return np.log(MIN_WINDOW_SIZE + np.where(2 * count >= self.width, size, np.nan))

    def _cells(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return (variable, window, step) of x (variable, time)."""
        return np.lib.stride_tricks.sliding_window_view(x, self.width, axis=1)[:, self.starts]

    def to_steps(self, values: Floats) -> Floats:
        """Turn values (..., window) into values (..., time): the largest value of the windows that hold the step."""
        return windows_to_steps(values, self.starts, self.width, self.length)


def windows_to_steps(values: Floats, starts: NDArray[np.int64], width: int, length: int) -> Floats:
    """Return (..., time) for each step the largest of the values (..., window) of the windows that hold it."""
    unit = int(np.gcd.reduce([*starts.tolist(), width, length]))  # of steps that lie in the same windows
    width, length = width // unit, length // unit
    beginning = np.full((*values.shape[:-1], width - 1 + length), -np.inf)
    beginning[..., width - 1 + starts // unit] = values
    return np.repeat(sliding(np.maximum, beginning, width), unit, axis=-1)


class Standardiser:
    """Scales features by what is usual: u = (feature - centre of the entity) / scale, clipped; 0 for NaN.

    The scale is shared by all entities. An entity gets its own centre if at least 5 of its observations were trained
    on. With one observation each, say one ECG per patient, an own centre would erase every difference.
    """

    def __init__(self, center: Floats, scale: Floats, entities: Mapping[str, Floats]) -> None:
        self.center, self.scale, self.entities = center, scale, dict(entities)

    @classmethod
    def fit(cls, features: Floats, entities: Sequence[str], kept: Booleans, least: int = MIN_HISTORY) -> Self:
        """Fit centres and scale.

        Parameters
        ----------
        features : (observation, feature)
            Features of training observations; NaN where unknown.
        entities
            The entity of each row.
        kept : (observation,)
            True for the rows that count as normal.
        least
            How many rows an entity needs for its own centre.
        """
        middle = _quantiles(features[kept], [0.5])[0]
        owner = np.array(entities)
        centers = {}
        for entity in dict.fromkeys(entities):
            own = owner == entity
            if own.sum() >= least:
                # If most of an entity was dropped, all of its history still describes it better than other entities.
                chosen = own & kept if (own & kept).sum() >= least else own
                center = _quantiles(features[chosen], [0.5])[0]
                centers[entity] = np.where(np.isnan(center), middle, center)
        centred = features - np.stack([centers.get(entity, middle) for entity in entities])
        low, rest, high = np.nan_to_num(_quantiles(centred[kept], [0.25, 0.5, 0.75]))
        known = np.isfinite(centred[kept])
        deviation = np.where(known, centred[kept] - rest, 0)
        deviation = np.sqrt(np.square(deviation).sum(axis=0) / np.maximum(known.sum(axis=0), 1))
        scale = np.maximum.reduce([(high - low) / NORMAL_IQR, TAIL_SHARE * deviation, np.full(len(rest), MIN_SCALE)])
        return cls(np.nan_to_num(middle) + rest, scale, {name: center + rest for name, center in centers.items()})

    def adapt(self, entity: str, features: Floats) -> None:
        """Set the centre of an entity, new or known, to the median of features (observation, feature)."""
        center = _quantiles(features, [0.5])[0]
        self.entities[entity] = np.where(np.isnan(center), self.entities.get(entity, self.center), center)

    def __call__(self, entity: str, features: Floats) -> Floats:
        """Return u for features (..., feature) of an entity."""
        u = (features - self.entities.get(entity, self.center)) / self.scale
        u[np.isnan(u)] = 0.0
        return np.asarray(np.clip(u, -FEATURE_CLIP, FEATURE_CLIP, out=u))

    def state(self, prefix: str) -> dict[str, NDArray[Any]]:
        centers = list(self.entities.values())
        return {
            f"{prefix}.center": self.center,
            f"{prefix}.scale": self.scale,
            f"{prefix}.entities": encode_names(list(self.entities)),
            f"{prefix}.centers": np.array(centers).reshape(len(centers), len(self.center)),
        }

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]], prefix: str) -> Self:
        names = decode_names(state[f"{prefix}.entities"])
        entities = dict(zip(names, state[f"{prefix}.centers"], strict=True))
        return cls(state[f"{prefix}.center"], state[f"{prefix}.scale"], entities)


def encode_names(names: Sequence[str]) -> NDArray[np.uint8]:
    """Encode strings as an array of bytes, because a model folder holds arrays only."""
    return np.frombuffer(json.dumps(list(names)).encode(), dtype=np.uint8)


def decode_names(array: NDArray[np.uint8]) -> list[str]:
    return [str(name) for name in json.loads(array.tobytes())]


def _quantiles(features: Floats, levels: list[float]) -> Floats:
    """Return quantiles (level, feature) without NaN values; NaN for a feature that is always NaN."""
    if not len(features):
        return np.full((len(levels), *features.shape[1:]), np.nan)
    ordered = np.sort(features, axis=0)  # NaN sorts last
    last = np.maximum((~np.isnan(features)).sum(axis=0) - 1, 0)
    place = np.multiply.outer(np.array(levels), last)
    before = np.floor(place).astype(np.int64)
    low = np.take_along_axis(ordered, before, axis=0)
    high = np.take_along_axis(ordered, np.minimum(before + 1, last), axis=0)
    share, distance = place - before, high - low
    return np.asarray(
        np.where(share < 0.5, low + distance * share, high - distance * (1 - share))
    )  # as np.quantile rounds
