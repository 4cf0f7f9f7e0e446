"""Range novelty: variables whose range within a short window does not occur in the history.

    name        meaning
    scale       (variable,) largest minus smallest training value, or 1 if that is at most 1e-8
    range       (variable, window) largest minus smallest value in the window, divided by `scale`
    bank        (window, variable) ranges of at most 1,000 evenly spaced training windows
    distances   (variable, window) how far a range is from the nearest one in the bank
    window      the root of the summed squared distances

It finds excursions never seen in the history. It does not see a level that is unusual for a whole observation.

With `history="dirty"` the highest 30 % of the training windows and rows are left out before `scale` and `bank` are
computed: twice, training windows are scored by a bank without windows that overlap them. That protects against
anomalies in the history, but forgets rare normal behaviour: on a clean history `history="clean"` is better.

A range over less than half of the rows of a window is a lower bound: it counts as far as it is above the bank. So does
any range of a variable for which the bank has none; the bank's largest is then taken to be 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from tsadc.config import require
from tsadc.detectors.base import FitOptions
from tsadc.detectors.classical.base import SlidingDetector, mean_over_windows, window_scores
from tsadc.detectors.pooling import sliding
from tsadc.series import MAX_ABS_VALUE, Booleans, Floats, Observations
from tsadc.subsample import evenly_spaced

MIN_SCALE = 1e-8
PASSES, DROPPED = 2, 0.3  # how often a dirty history is trimmed, and how much of it is left out
MAX_SCORED = 4000  # training windows that are scored to trim the history, evenly spaced
MAX_CELLS = 2**24  # values of the history that are held in memory to trim it


class RangeNovelty(SlidingDetector["RangeNovelty.Config"]):
    """Detect rows around which variables range more, or less, than they ever did in the history.

    Attributes
    ----------
    scale_ : ndarray of shape (n_variables,)
        Range of each variable over the training rows, in z units.
    bank_ : ndarray of shape (n_windows, n_variables)
        Ranges of training windows in units of `scale_`, sorted for each variable; NaN, last, if not measured.
    """

    name: ClassVar[str] = "range-novelty"
    view_names: ClassVar[tuple[str, ...]] = ("range",)

    @dataclass(frozen=True)
    class Config(SlidingDetector.Config):
        """Settings of this detector.

        Parameters
        ----------
        bank : int
            Number of training windows with which a window is compared, at most.
        history : {"dirty", "clean"}
            Whether the history may hold anomalies; if so, its most unusual part is left out.
        """

        window: int = 64
        bank: int = 1000
        history: Literal["dirty", "clean"] = "dirty"

        def __post_init__(self) -> None:
            super().__post_init__()
            require(self.bank >= 1, "bank", "at least 1", self.bank)

    def _fit(self, train: Observations, validation: Observations, options: FitOptions) -> None:
        window, most = self.settings.window_rows, self.settings.bank
        if self.settings.history == "dirty":
            scale, ranges = trim(train, window, most)
        else:
            low, high = np.full((2, len(train.names)), np.nan)
            for i in range(len(train)):
                z = train.read(i)
                low, high = np.fmin(low, np.fmin.reduce(z, axis=1)), np.fmax(high, np.fmax.reduce(z, axis=1))
            each = train.length - window + 1
            observation, start = np.divmod(evenly_spaced(each * len(train), most), each)
            scale = _scale(low, high)
            ranges = np.concatenate(
                [judged_ranges(train.read(int(i)), window).T[start[observation == i]] for i in np.unique(observation)]
            )
        self.scale_, self.bank_ = scale, np.sort(ranges / scale, axis=0)

    def _distances(self, z: Floats) -> Floats:
        window = self.settings.window_rows
        ranges = np.minimum(window_ranges(z, window) / self.scale_[:, None], MAX_ABS_VALUE)
        enough = half_measured(z, window)
        distances = np.empty_like(ranges)
        for k, bank in enumerate(self.bank_.T):
            bank = bank[np.isfinite(bank)]
            above = np.maximum(ranges[k] - (bank[-1] if len(bank) else 1.0), 0)
            distances[k] = np.where(enough[k], nearest(ranges[k], bank), above) if len(bank) else above
        return distances

    def _state(self) -> dict[str, NDArray[Any]]:
        return {"scale": self.scale_, "bank": self.bank_}

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.scale_, self.bank_ = state["scale"], state["bank"]


def window_ranges(z: Floats, window: int) -> Floats:
    """Return (..., window) largest minus smallest measured value of each window of z (..., time); NaN if none."""
    values = z.astype(np.float64)
    return sliding(np.fmax, values, window) - sliding(np.fmin, values, window)


def half_measured(z: Floats, window: int) -> Booleans:
    """Return (..., window) whether at least half of the rows of a window were measured."""
    return sliding(np.add, np.isfinite(z).astype(np.float64), window) >= window / 2


def judged_ranges(z: Floats, window: int) -> Floats:
    """Return the ranges of windows with at least half of their rows measured; NaN for the others."""
    return np.where(half_measured(z, window), window_ranges(z, window), np.nan)


def nearest(values: Floats, bank: Floats) -> Floats:
    """Return the distance of each value from the nearest one in a sorted bank."""
    place = np.searchsorted(bank, values)
    below, above = bank[np.maximum(place - 1, 0)], bank[np.minimum(place, len(bank) - 1)]
    distance: Floats = np.minimum(np.abs(values - below), np.abs(values - above))
    return distance


def trim(train: Observations, window: int, most: int) -> tuple[Floats, Floats]:
    """Return the scale (variable,) and the ranges (window, variable) of the part of a dirty history that is kept.

    Each pass scores training windows by the ranges of windows that are kept and do not overlap them, and keeps the
    lowest 70 % of windows and of rows.
    """
    each = train.length - window + 1
    rows = min(MAX_SCORED * window // 2, MAX_CELLS // len(train.names))
    train = train.take(evenly_spaced(len(train), max(2, rows // train.length)))
    z = np.stack([train.read(i) for i in range(len(train))])
    observation, start = np.divmod(evenly_spaced(each * len(train), MAX_SCORED), each)
    ranges = np.concatenate([judged_ranges(z[i], window).T[start[observation == i]] for i in np.unique(observation)])
    series = np.array([place.series for place in train.places])[observation]
    row = np.array([place.start for place in train.places])[observation] + start
    kept, kept_rows = np.ones(len(ranges), dtype=bool), np.ones((len(train), train.length), dtype=bool)
    for _ in range(PASSES):
        scale = _kept_scale(z, kept_rows)
        bank = np.flatnonzero(kept)
        bank = bank[evenly_spaced(len(bank), most)]
        overlap = (series[:, None] == series[bank]) & (np.abs(row[:, None] - row[bank]) < window)
        distances = np.stack([_nearest_allowed(column, column[bank], overlap) for column in (ranges / scale).T])
        scores = window_scores(distances)
        every = np.full((len(train), each), np.nan)
        every[observation, start] = scores
        kept, kept_rows = _lowest(scores), _lowest(mean_over_windows(every, window))
    bank = np.flatnonzero(kept)
    return _kept_scale(z, kept_rows), ranges[bank[evenly_spaced(len(bank), most)]]


def _nearest_allowed(values: Floats, bank: Floats, forbidden: Booleans) -> Floats:
    """Return the distance of each value from the nearest in the bank that is not forbidden; NaN if there is none."""
    distance = np.where(forbidden | np.isnan(bank), np.inf, np.abs(values[:, None] - bank)).min(axis=1)
    return np.where(np.isfinite(distance), distance, np.nan)


def _lowest(scores: Floats) -> Booleans:
    """Return which scores are not among the highest 30 %; those that are not known are kept."""
    known = scores[np.isfinite(scores)]
    return ~(scores > np.quantile(known, 1 - DROPPED)) if len(known) else np.ones(scores.shape, dtype=bool)


def _kept_scale(z: Floats, kept: Booleans) -> Floats:
    """Return the scale of observations (observation, variable, time) over the rows (observation, time) kept."""
    values = np.where(kept[:, None], z, np.nan)
    return _scale(np.fmin.reduce(values, axis=(0, 2)), np.fmax.reduce(values, axis=(0, 2)))


def _scale(low: Floats, high: Floats) -> Floats:
    size = (high - low).astype(np.float64)
    return np.where(size > MIN_SCALE, size, 1.0)
