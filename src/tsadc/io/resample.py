"""Resample a channel with a polyphase filter: no aliasing from above the new Nyquist frequency, and missing values
stay missing."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import scipy  # `scipy.signal`, slow to import, is imported when it is used
from numpy.typing import NDArray

from tsadc.errors import DataError
from tsadc.series import Booleans

REACH = 20  # samples of the slower rate on either side that contribute to a new sample
CUTOFF = 0.91  # of the new Nyquist frequency: the passband ends at 0.82 of it, the stopband begins at it
STOPBAND = 60.0  # dB, attenuation
KAISER = 0.1102 * (STOPBAND - 8.7)
MAX_DRIFT = 0.1  # of a new sample, at the end of the series
MAX_DENOMINATOR = 10**5  # of the ratio of two rates


def resample(values: NDArray[np.float64], rate: float, to: float) -> NDArray[np.float64]:
    """Resample a channel from `rate` to `to`, both in Hz.

    New sample j lies at j / to seconds; there are ceil(len * to / rate) of them. NaN is interpolated linearly for the
    filter and restored afterwards: a new sample is NaN if more than half of the time it stands for was not measured."""
    if not (np.isfinite([rate, to]).all() and rate > 0 and to > 0):
        raise DataError(f"Sampling rates must be positive numbers, but got {rate:g} Hz and {to:g} Hz.")
    if rate == to or len(values) == 0:
        return values
    ratio = rational(rate, to, len(values))
    if ratio == 1:
        return values
    missing = ~np.isfinite(values)
    length = -(-len(values) * ratio.numerator // ratio.denominator)
    if missing.all() or len(values) == 1:
        return np.full(length, np.nan if missing.all() else values[0])
    # Beyond its ends the series continues on the line through them, so that neither a level nor a drift drops to zero.
    filtered: NDArray[np.float64] = scipy.signal.resample_poly(
        _interpolated(values, missing), ratio.numerator, ratio.denominator, window=_lowpass(ratio), padtype="line"
    )
    if missing.any():
        filtered[_unmeasured(missing, ratio, length)] = np.nan
    return filtered


def rational(rate: float, to: float, length: int) -> Fraction:
    """Return to / rate: exactly for rates with few digits, otherwise the simplest fraction that drifts by less than
    a tenth of a sample over `length` samples."""
    exact = Fraction(to) / Fraction(rate)
    written = Fraction(to).limit_denominator(1000), Fraction(rate).limit_denominator(1000)
    if all(written) and (float(written[0]), float(written[1])) == (to, rate):
        exact = written[0] / written[1]
    if exact.denominator <= MAX_DENOMINATOR:
        return exact
    limit = 1
    while limit < MAX_DENOMINATOR:
        limit *= 10
        ratio = exact.limit_denominator(limit)
        if ratio > 0 and abs(ratio - exact) * length < MAX_DRIFT:
            return ratio
    raise DataError(
        f"{length} samples at {rate:g} Hz cannot be resampled to {to:g} Hz, because the ratio of the rates is not "
        "close to a ratio of small whole numbers; choose a rate that divides the other."
    )


def _lowpass(ratio: Fraction) -> NDArray[np.float64]:
    """Return the low-pass filter at the rate that is a multiple of both the old and the new rate."""
    slower = max(ratio.numerator, ratio.denominator)
    # Upsampling cannot alias: cut at the old Nyquist frequency, the filter is zero at all old samples except its own,
    # and a multiple of the old rate keeps them unchanged.
    cutoff = CUTOFF if ratio < 1 else 1.0
    taps: NDArray[np.float64] = scipy.signal.firwin(2 * REACH * slower + 1, cutoff / slower, window=("kaiser", KAISER))
    # Each new sample uses one phase of the filter, every `numerator`-th tap. The phases must have equal sums, or a
    # constant level would come out with a ripple.
    up = ratio.numerator
    phase = np.arange(len(taps)) % up
    return taps / (up * np.bincount(phase, weights=taps)[phase])


def _interpolated(values: NDArray[np.float64], missing: Booleans) -> NDArray[np.float64]:
    if not missing.any():
        return values
    known = np.flatnonzero(~missing)
    return np.interp(np.arange(len(values)), known, values[known])


def _unmeasured(missing: Booleans, ratio: Fraction, length: int) -> Booleans:
    """Flag new samples that stand mostly for missing old ones. Old sample i stands for [i - 1/2, i + 1/2), a new one
    for an interval as wide as the larger of the two, so that the missing share is a difference of running sums."""
    edges = np.arange(len(missing) + 1) - 0.5
    running = np.concatenate([[0.0], np.cumsum(missing)])
    centre = np.arange(length) / float(ratio)
    half = max(1.0, 1 / float(ratio)) / 2
    first, last = np.maximum(centre - half, edges[0]), np.minimum(centre + half, edges[-1])
    lost = np.interp(last, edges, running) - np.interp(first, edges, running)
    # The last new sample may lie beyond the last old one, which it then repeats.
    unmeasured: Booleans = np.where(last > first, lost > 0.5 * (last - first) + 1e-9, missing[-1])
    return unmeasured
