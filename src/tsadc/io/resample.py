"""From one sampling rate to another: a polyphase filter that lets nothing above the new Nyquist frequency fold back,
and leaves what was not measured unmeasured."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.signal import firwin, resample_poly

from tsadc.errors import DataError
from tsadc.series import Booleans

REACH = 20  # samples of the slower rate on either side that a new sample is made of
CUTOFF = 0.91  # of the new Nyquist frequency: passed up to 0.82 of it, and down by about STOPBAND from all of it on
STOPBAND = 60.0  # dB
KAISER = 0.1102 * (STOPBAND - 8.7)
MOST_DRIFT = 0.1  # of a new sample, at the end of the series
FINEST = 10**5  # largest denominator of the ratio of two rates


def resample(values: NDArray[np.float64], rate: float, to: float) -> NDArray[np.float64]:
    """A channel sampled at `rate` as it would have been sampled at `to`: sample j lies at j / to seconds, and there are
    ceil(len * to / rate) of them. NaN is bridged by a line for the filter and put back afterwards: a new sample is NaN
    where more than half of the stretch it stands for was not measured."""
    if not (np.isfinite([rate, to]).all() and rate > 0 and to > 0):
        raise DataError(f"Sampling rates must be positive numbers, but {rate:g} Hz was to become {to:g} Hz.")
    if rate == to or len(values) == 0:
        return values
    ratio = rational(rate, to, len(values))
    if ratio == 1:
        return values
    missing = ~np.isfinite(values)
    length = -(-len(values) * ratio.numerator // ratio.denominator)
    if missing.all() or len(values) == 1:
        return np.full(length, np.nan if missing.all() else values[0])
    # Beyond its ends the series goes on along the line through them, so that neither a level nor a drift drops to zero.
    filtered: NDArray[np.float64] = resample_poly(
        _bridged(values, missing), ratio.numerator, ratio.denominator, window=_lowpass(ratio), padtype="line"
    )
    if missing.any():
        filtered[_unmeasured(missing, ratio, length)] = np.nan
    return filtered


def rational(rate: float, to: float, length: int) -> Fraction:
    """to / rate: exactly, for rates that were written with few digits or as a fraction; otherwise the simplest fraction
    that drifts by less than a tenth of a sample over `length` samples."""
    exact = Fraction(to) / Fraction(rate)
    written = Fraction(to).limit_denominator(1000), Fraction(rate).limit_denominator(1000)
    if all(written) and (float(written[0]), float(written[1])) == (to, rate):
        exact = written[0] / written[1]
    if exact.denominator <= FINEST:
        return exact
    limit = 1
    while limit < FINEST:
        limit *= 10
        ratio = exact.limit_denominator(limit)
        if ratio > 0 and abs(ratio - exact) * length < MOST_DRIFT:
            return ratio
    raise DataError(
        f"{length} samples at {rate:g} Hz cannot be brought to {to:g} Hz, since no ratio of small whole numbers comes "
        "close enough to that of the two rates; choose a rate that divides the other."
    )


def _lowpass(ratio: Fraction) -> NDArray[np.float64]:
    """A filter for the rate at which old and new samples all fall on one grid."""
    slower = max(ratio.numerator, ratio.denominator)
    # Towards a higher rate nothing can fold back: cut at the old Nyquist frequency, the filter is zero at all old
    # samples but its own, and a multiple of the old rate keeps them as they are.
    cutoff = CUTOFF if ratio < 1 else 1.0
    taps: NDArray[np.float64] = firwin(2 * REACH * slower + 1, cutoff / slower, window=("kaiser", KAISER))
    # Each new sample is made by one phase of the filter, every `numerator`-th tap: of equal sums, or a level would
    # come out with a ripple.
    up = ratio.numerator
    phase = np.arange(len(taps)) % up
    return taps / (up * np.bincount(phase, weights=taps)[phase])


def _bridged(values: NDArray[np.float64], missing: Booleans) -> NDArray[np.float64]:
    if not missing.any():
        return values
    known = np.flatnonzero(~missing)
    return np.interp(np.arange(len(values)), known, values[known])


def _unmeasured(missing: Booleans, ratio: Fraction, length: int) -> Booleans:
    """Where a new sample stands mostly for old ones that are missing. Old sample i stands for [i - 1/2, i + 1/2); a new
    one for a stretch as wide as the larger of the two intervals, so that its share is a difference of running sums."""
    edges = np.arange(len(missing) + 1) - 0.5
    running = np.concatenate([[0.0], np.cumsum(missing)])
    centre = np.arange(length) / float(ratio)
    half = max(1.0, 1 / float(ratio)) / 2
    first, last = np.maximum(centre - half, edges[0]), np.minimum(centre + half, edges[-1])
    lost = np.interp(last, edges, running) - np.interp(first, edges, running)
    # The last new sample may lie beyond the last old one, which it then repeats.
    unmeasured: Booleans = np.where(last > first, lost > 0.5 * (last - first) + 1e-9, missing[-1])
    return unmeasured
