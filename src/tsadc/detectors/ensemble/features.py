"""What is measured of a whole observation: of each variable its energy, spectrum and extent, of each pair its
correlation.

    name          recipe   meaning
    z                      an observation (variable, time) in z units; NaN where nothing was measured
    features               (feature,); NaN where what they describe was not measured
    owners                 pairs (feature, variable): which variables a feature is about
    Bands         B        log power under a Hann window, in 6 dyadic bands of each variable
    Correlations  C        arctanh of the correlation of each pair of variables, of at most `MOST_PAIRS`
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from tsadc.series import Floats, Observations
from tsadc.subsample import evenly_spaced

BANDS = 6
LEAST_POWER = 1e-3  # in z units squared: less is silence
LEAST_DEVIATION = 0.01  # in z units
CLOSEST = 0.995  # correlations beyond this are all the same
STILL = 1e-6  # a spread below this, of the size of the values, is rounding
MOST_OBSERVATIONS = 4000  # of the training part, evenly spread, are described
MOST_CELLS = 2**23  # of their features
MOST_PAIRS = 5000  # of variables: with 100 or fewer every two are one
Owners = tuple[NDArray[np.int64], NDArray[np.int64]]
Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]


class Features(Protocol):
    """Maps an observation to its features."""

    owners: Owners

    def __call__(self, z: Floats) -> Floats: ...


def blame(deviation: Floats, owners: Owners, variables: int) -> Floats:
    """Of each variable, the mean deviation (>= 0) of the features that are about it."""
    feature, variable = owners
    total = np.bincount(variable, weights=deviation[feature], minlength=variables)
    return np.asarray(total / np.maximum(np.bincount(variable, minlength=variables), 1))


def affordable(train: Observations, features: int) -> Observations:
    """Training observations, evenly spread, so many that their features fit into memory."""
    most = max(min(MOST_OBSERVATIONS, MOST_CELLS // max(features, 1)), 1)
    return train.take(evenly_spaced(len(train), most))


class Energy:
    """The log of each variable's standard deviation over the measured steps."""

    def __init__(self, variables: int) -> None:
        self.owners: Owners = (np.arange(variables), np.arange(variables))

    def __call__(self, z: Floats) -> Floats:
        return np.where(np.isfinite(z).any(axis=1), np.log(LEAST_DEVIATION + _moments(z)[1]), np.nan)


class Extent:
    """Mean, standard deviation, smallest and largest value and typical change from step to step, on scales on which
    wild values stay finite."""

    def __init__(self, variables: int) -> None:
        self.owners: Owners = (np.arange(5 * variables), np.tile(np.arange(variables), 5))

    def __call__(self, z: Floats) -> Floats:
        mean, deviation = _moments(z)
        change = _moments(np.diff(z, axis=1))
        size = np.sqrt(np.square(change[0]) + np.square(change[1]))
        low, high = np.fmin.reduce(z, axis=1), np.fmax.reduce(z, axis=1)
        levels = np.arcsinh(np.stack([mean, low, high]).astype(np.float64))
        spreads = np.log(LEAST_DEVIATION + np.stack([deviation, size]))
        return np.where(np.isfinite(z).any(axis=1), np.concatenate([levels, spreads]), np.nan).ravel()


class Bands:
    """What was not measured is at its median, 0; the power is that per measured step. A shifted level is power in the
    lowest band, which reaches down to frequency 0."""

    def __init__(self, variables: int, length: int) -> None:
        self.owners: Owners = (np.arange(variables * BANDS), np.repeat(np.arange(variables), BANDS))
        self.window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(length) / length)  # Hann, periodic
        bins = np.arange(length // 2 + 1)
        # Octaves down from the Nyquist frequency (band 0); the last band takes the rest.
        octave = np.floor(np.log2(length / np.maximum(2 * bins, 1)))
        band = np.where(bins == 0, BANDS - 1, np.minimum(octave, BANDS - 1))
        twice = np.where((bins == 0) | (2 * bins == length), 1.0, 2.0)  # a real signal's negative frequencies
        self.weights = (band[:, None] == np.arange(BANDS)) * twice[:, None] / length

    def __call__(self, z: Floats) -> Floats:
        measured = np.isfinite(z)
        spectrum = np.fft.rfft(np.where(measured, z, 0).astype(np.float64) * self.window, axis=1)
        energy = (np.square(spectrum.real) + np.square(spectrum.imag)) @ self.weights
        weight = (measured @ np.square(self.window))[:, None]
        power = np.where(weight > 0, energy / np.where(weight > 0, weight, 1), np.nan)
        return np.log(LEAST_POWER + power).ravel()


class Correlations:
    """Over the steps at which both variables were measured. One that stands still goes with no other: 0."""

    def __init__(self, variables: int, some: Pairs | None = None) -> None:
        """Of every two variables, or of `some` pairs."""
        self.some = some
        self.first, self.second = np.triu_indices(variables, 1) if some is None else some
        feature = np.arange(len(self.first))
        self.owners: Owners = (np.tile(feature, 2), np.concatenate([self.first, self.second]))

    def __call__(self, z: Floats) -> Floats:
        measured = np.isfinite(z)
        mean, deviation = _moments(z)
        still = deviation <= STILL * (1 + np.abs(mean))
        # Near zero mean and unit size, so that sums of products cancel little whatever the values are.
        x = np.where(measured & ~still[:, None], (z - mean[:, None]) / np.where(still, 1, deviation)[:, None], 0)
        seen = measured.astype(np.float64)
        both = np.maximum(seen @ seen.T, 1)
        product, total, square = x @ x.T, x @ seen.T, np.square(x) @ seen.T
        covariance = product - total * total.T / both
        spread = np.maximum(square - np.square(total) / both, 0)
        size = np.sqrt(spread * spread.T)
        found = np.where(size > STILL * both, covariance / np.where(size > STILL * both, size, 1), 0)
        found = np.where(seen @ seen.T > 2, np.arctanh(np.clip(found, -CLOSEST, CLOSEST)), np.nan)
        return np.asarray(found[self.first, self.second])

    @classmethod
    def choose(cls, variables: int, seed: int) -> Self:
        """Of every two variables, unless these pairs are too many; then of some that `seed` draws."""
        few = variables * (variables - 1) // 2 <= MOST_PAIRS
        return cls(variables, None if few else _some_pairs(variables, seed))

    def state(self) -> dict[str, NDArray[Any]]:
        return {} if self.some is None else {"pairs.first": self.first, "pairs.second": self.second}

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]], variables: int) -> Self:
        return cls(variables, (state["pairs.first"], state["pairs.second"]) if "pairs.first" in state else None)


def _some_pairs(variables: int, seed: int) -> Pairs:
    """Of the variables in a drawn order those that are 1, 2, ... places apart: all have about as many partners."""
    order = np.random.default_rng(seed).permutation(variables)
    places = np.arange(MOST_PAIRS // variables * variables or MOST_PAIRS)
    one, other = order[places % variables], order[(places + places // variables + 1) % variables]
    return np.minimum(one, other), np.maximum(one, other)


def _moments(z: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each variable over its measured steps; 0 where there are none."""
    measured = np.isfinite(z)
    count = np.maximum(measured.sum(axis=1), 1)
    mean = np.where(measured, z, 0).sum(axis=1, dtype=np.float64) / count
    apart = np.where(measured, z - mean[:, None], 0)
    return mean, np.sqrt(np.square(apart).sum(axis=1) / count)
