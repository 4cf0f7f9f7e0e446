"""Why an interval is unusual, decided from the values and what is usual for them, not from the view that raised it.

    kind          the blamed variable
    missing       was not measured in half of the rows or more
    stuck         has one value, not far from its usual ones, for at least 5 rows, half a window and twice its usual
                  longest run
    spike         leaves its usual band, briefly and far
    level         leaves it to one side for a window or longer
    frequency     varies faster or slower than usual, by about as much as usual
    spread        varies more or less than usual
    correlation   no longer follows the variables that it usually follows

How far a measure x is from what is usual is counted in units of its own quantiles: (x - 50 %) / (99 % - 50 %) above
the middle, and likewise below it, so 1 is rare and 2 is hardly ever seen. The most unusual window of the interval
counts. The blamed variables are looked at in the order of their shares; the first one that stands out is the reason.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tsadc.detectors.ensemble.features import interpolated
from tsadc.detectors.usual import SeriesUsual, correlation, window_measures
from tsadc.series import Clock, Floats
from tsadc.windows import runs
from tsadc.wording import alike, duration, number

Kind = Literal["missing", "stuck", "spike", "level", "frequency", "spread", "correlation"]
MIN_RUN = 5  # rows
BRIEF = 5  # rows of a spike, or a quarter of a window if that is more
FAR = 1.0  # of a spike: widths of the band beyond the band
STUCK_NEAR = 0.5  # the same, of a value that is stuck rather than at another level
SHIFTED = 3.0  # of `offset`, if the values leave their own range as well
DISPLACED = 9.0  # of `offset`, if they do not
CHANGED = 2.0  # of `pace` and `spread`
DETACHED = 1.5  # of `misfit`, `offset` and the correlations
FOLLOWS = 0.5  # correlation of variables that follow each other
VISIBLE = 0.3  # change of a correlation that is worth naming
SMALLEST = 0.05  # difference between quantiles of logarithms and z, so that nearly constant measures do not count


@dataclass(frozen=True)
class Reason:
    """Why an interval is unusual.

    Attributes
    ----------
    kind : str
        One of the kinds above.
    variable : str
        The variable it is about.
    start, stop : int
        The rows in which it holds.
    value : float
        What was measured. level and spike: the value of the row that is furthest from the band. stuck: the value that
        does not change. frequency and spread: the ratio to what is usual. correlation: the correlation with `partner`,
        or without one the measured value. missing: the share of missing rows.
    low, high : float
        What is usual for `value`: of a correlation its median, of stuck the longest run in rows.
    partner : str
        The variable that it no longer follows, if one can be named.
    conditional : bool
        Whether `low` and `high` hold for the present values of the other variables.
    others : int
        How many other variables are missing in the same rows.
    every : bool
        Whether these are all variables.
    """

    kind: Kind
    variable: str
    start: int
    stop: int
    value: float
    low: float = math.nan
    high: float = math.nan
    partner: str = ""
    conditional: bool = False
    others: int = 0
    every: bool = False

    def sentence(self, clock: Clock) -> str:
        """Say it in one or two sentences, with numbers in the units of the input."""
        lasts = f" for {duration(clock, self.stop - self.start)}"
        name, (value, low, high) = self.variable, alike(self.value, self.low, self.high)
        usually = f"usually {low} to {high}{' given the other variables' if self.conditional else ''}"
        match self.kind:
            case "missing" if self.every and self.others:
                return f"All variables have no value{lasts}."
            case "missing" if self.value == 1:
                more = f" and {self.others} more variable{'s' if self.others > 1 else ''}" if self.others else ""
                return f"{name}{more} {'have' if more else 'has'} no value{lasts}."
            case "missing":
                return f"{self.value:.0%} of the values of {name} are missing{lasts}."
            case "stuck":
                often = "row" if self.high <= 1 else duration(clock, int(self.high))
                return f"{name} stays at {number(self.value)}{lasts}; usually it changes at least every {often}."
            case "spike":
                where = "far from what is usual" if self.conditional else "far outside its usual range"
                return f"{name} reaches {value}, {where}: {usually}."
            case "level":
                return f"{name} {value}; {usually}. {'High' if self.value > self.high else 'Low'}{lasts}."
            case "frequency":
                return f"{name} varies {_times(self.value, 'faster', 'more slowly')} than usual{lasts}."
            case "spread":
                return f"{name} varies {_times(self.value, 'more', 'less')} than usual{lasts}."
            case "correlation" if self.partner:
                now, before = (f"{x:.2f}".replace("-", "\N{MINUS SIGN}") for x in (self.value, self.low))
                closer = self.value * self.low > 0 and abs(self.value) > abs(self.low)
                follows = "follows {} more closely than usual" if closer else "no longer follows {}"
                return f"{name} {follows.format(self.partner)}: correlation {now}, usually {before}."
        return f"{name} no longer follows the other variables: {value}, where {low} to {high} is usual."


def _times(ratio: float, more: str, less: str) -> str:
    """Say by which factor something is larger or smaller, such as "9 times less"."""
    return f"{number(ratio)} times {more}" if ratio >= 1 else f"{number(1 / max(ratio, SMALLEST))} times {less}"


def reason_of(usual: SeriesUsual, start: int, stop: int, variables: Sequence[str]) -> Reason | None:
    """Return why rows [start, stop) are unusual, in one of the blamed `variables`; None if nothing measurable stands
    out."""
    rows = len(usual.series)
    if rows < 2:
        return None
    short = max(usual.window - (stop - start), 0)
    start, stop = max(start - (short + 1) // 2, 0), min(stop + short // 2, rows)
    first, last = max(start - 4 * usual.window, 0), min(stop + 4 * usual.window, rows)
    measured = usual.measured(first, last)
    z = interpolated(measured)
    place = _Place(usual, first, start - first, stop - first, measured, z, usual.predicted(first, last))
    for name in variables:
        if found := place.reason(usual.series.names.index(name)):
            return found
    return None


@dataclass(frozen=True)
class _Place:
    """Rows [start, stop) of the arrays, which begin at row `first` of the series."""

    usual: SeriesUsual
    first: int
    start: int
    stop: int
    measured: Floats
    z: Floats
    predicted: Floats

    def reason(self, k: int) -> Reason | None:
        return self._missing(k) or self._stuck(k) or self._outside(k) or self._changed(k) or self._detached(k)

    def _made(
        self,
        kind: Kind,
        k: int,
        rows: tuple[int, int],
        value: float,
        usual: tuple[float, float] = (math.nan, math.nan),
        *,
        partner: str = "",
        conditional: bool = False,
    ) -> Reason:
        name, (start, stop), (low, high) = self.usual.series.names[k], rows, usual
        start, stop = self.first + start, self.first + stop
        return Reason(kind, name, start, stop, float(value), float(low), float(high), partner, conditional)

    def _raw(self, k: int, z: float) -> float:
        row = np.zeros((1, len(self.usual.series.names)))
        row[0, k] = z
        return float(self.usual.scaler.undo(self.usual.series.entity, row)[0, k])

    def _value(self, k: int, at: int) -> float:
        """Return the measured value of a row, or the interpolated one if there is none; z itself is clipped."""
        measured = float(self.usual.series.values[self.first + at, k])
        return measured if math.isfinite(measured) else self._raw(k, self.z[k, at])

    def _missing(self, k: int) -> Reason | None:
        absent = ~np.isfinite(self.measured[k, self.start : self.stop])
        if 2 * absent.sum() < len(absent) or not len(absent):
            return None
        return self._made("missing", k, (self.start, self.stop), float(absent.mean()))

    def _stuck(self, k: int) -> Reason | None:
        known = np.flatnonzero(np.isfinite(self.measured[k]))
        same = runs(np.diff(self.measured[k, known]) == 0)
        spans = [(int(known[begin]), int(known[end]) + 1, end - begin + 1) for begin, end in same]
        spans = [span for span in spans if span[0] < self.stop and span[1] > self.start]
        begin, end, length = max(spans, key=lambda span: span[2], default=(0, 0, 0))
        usual = int(self.usual.quantiles.run[k])
        if length < max(MIN_RUN, self.usual.window / 2, 2 * usual):
            return None
        # A closed valve does not move either: far from the usual values, the level is the news.
        if abs(excess_of(self.measured[k, begin : begin + 1], self.usual.quantiles.of("value")[:, k])[0]) > STUCK_NEAR:
            return None
        return self._made("stuck", k, (begin, end), self._value(k, begin), (0.0, usual))

    def _outside(self, k: int) -> Reason | None:
        """Return the reason if the values leave their band, briefly and far, or for a window or longer."""
        quantiles = self.usual.quantiles
        conditional = bool(quantiles.predicts[k])
        rows = slice(self.start, self.stop)
        own = excess_of(self.z[k, rows], quantiles.of("value")[:, k])
        excess, low, high = own, *quantiles.of("value")[[0, -1], k]
        if conditional:
            low, high = quantiles.of("rest")[[0, -1], k]
            excess = excess_of(self.z[k, rows] - self.predicted[k, rows], quantiles.of("rest")[:, k])
        row = int(np.abs(excess).argmax())
        peak, sign = abs(float(excess[row])), np.sign(excess[row])
        if peak == 0:  # never outside, though the mean of a window may be unusual
            return None
        far = runs(np.abs(excess) > peak / 3)
        offset = self._windows(k)[0]
        shift = _distance(offset, quantiles.of("offset")[:, k])
        shifted = float(np.abs(shift).max())
        outside = max((end - begin for begin, end in runs(own * sign > 0)), default=0)
        one_sided = 10 * (excess * sign < 0).sum() <= (excess * sign > 0).sum()
        kind: Kind
        if peak > FAR and sum(end - begin for begin, end in far) <= max(BRIEF, self.usual.window // 4):
            kind, begin, end = "spike", far[0][0], far[-1][1]
            if own[row]:
                (low, high), conditional = quantiles.of("value")[[0, -1], k], False
        elif (shifted > DISPLACED and one_sided) or (shifted > SHIFTED and outside >= self.usual.window // 2):
            kind = "level"
            begin, end = max(runs(excess * sign > 0), key=lambda run: run[1] - run[0])
            row = begin + int(np.argsort(np.abs(excess[begin:end]))[(end - begin) // 2])
        else:
            return None
        at = self.start + row
        base = self.predicted[k, at] if conditional else 0.0
        return self._made(
            kind,
            k,
            (self.start + begin, self.start + end),
            self._value(k, at),
            (self._raw(k, base + low), self._raw(k, base + high)),
            conditional=conditional,
        )

    def _changed(self, k: int) -> Reason | None:
        """Return the reason if the variable varies faster, slower, more or less than usual."""
        offset, spread, pace, _ = self._windows(k)
        quantiles = self.usual.quantiles
        of_pace, of_spread = (
            _distance(x, quantiles.of(name)[:, k]) for x, name in ((pace, "pace"), (spread, "spread"))
        )
        kind: Kind = "frequency" if np.abs(of_pace).max() > np.abs(of_spread).max() else "spread"
        values, distance = (pace, of_pace) if kind == "frequency" else (spread, of_spread)
        usual = quantiles.of("pace" if kind == "frequency" else "spread")[:, k]
        worst = int(np.abs(distance).argmax())
        strength, more = abs(float(distance[worst])), distance[worst] > 0
        shifted = float(np.abs(_distance(offset, quantiles.of("offset")[:, k])).max())
        # A variable that follows other variables than usual may vary more as well.
        if strength < CHANGED or (kind == "spread" and more and shifted > strength):
            return None
        lasting = runs((np.abs(distance) > strength / 2) & ((distance > 0) == more))
        begin, end = next((begin, end) for begin, end in lasting if begin <= worst < end)
        last = min(self.start + end - 1 + self.usual.window, self.stop)
        low, _, high = np.exp(usual - usual[1])
        return self._made(kind, k, (self.start + begin, last), np.exp(values[worst] - usual[1]), (low, high))

    def _detached(self, k: int) -> Reason | None:
        """Return the reason if the variable no longer follows those that it usually follows."""
        quantiles = self.usual.quantiles
        rows = slice(self.start, self.stop)
        offset, _, _, misfit = self._windows(k)
        away = max(
            float(np.abs(_distance(offset, quantiles.of("offset")[:, k])).max()),
            float(_distance(misfit, quantiles.of("misfit")[:, k]).max()),
        )
        partners = quantiles.partners[k]
        found = [float(correlation(self.z[k, rows], self.z[partner, rows])) for partner in partners]
        distances = [
            abs(float(_distance(np.array([now]), own)[0]))
            for now, own in zip(found, quantiles.correlations[k].astype(np.float64), strict=True)
        ]
        best = int(np.argmax(distances)) if distances else 0
        follows = bool(quantiles.predicts[k]) and away > DETACHED
        usual = np.tanh(quantiles.correlations[k][best].astype(np.float64)) if distances else np.zeros(3)
        followed = distances and abs(usual[1]) > FOLLOWS and abs(np.tanh(found[best]) - usual[1]) > VISIBLE
        if followed and distances[best] > DETACHED:
            partner = self.usual.series.names[int(partners[best])]
            now = np.tanh(found[best])
            return self._made("correlation", k, (self.start, self.stop), now, (usual[1], usual[1]), partner=partner)
        if not follows:
            return None
        rest = self.z[k, rows] - self.predicted[k, rows]
        low, high = quantiles.of("rest")[[0, -1], k]
        at = self.start + int(np.abs(rest - (low + high) / 2).argmax())
        base = self.predicted[k, at]
        limits = self._raw(k, base + low), self._raw(k, base + high)
        value = self._value(k, at)
        return self._made("correlation", k, (self.start, self.stop), value, limits, conditional=True)

    def _windows(self, k: int) -> Floats:
        """Return the measures (measure, window) of the windows in the interval."""
        rows = slice(self.start, max(self.stop, self.start + self.usual.window))
        z, rest = self.z[[k], rows], self.z[[k], rows] - self.predicted[[k], rows]
        return window_measures(z, rest, min(self.usual.window, z.shape[1]))[:, 0]


def _distance(values: Floats, quantiles: Floats) -> Floats:
    """Return how far values are from the middle of their quantiles, in units of the quantiles on that side."""
    low, middle, high = quantiles
    above = (values - middle) / max(high - middle, SMALLEST)
    below = (values - middle) / max(middle - low, SMALLEST)
    return np.asarray(np.where(values > middle, above, below))


def excess_of(values: Floats, quantiles: Floats) -> Floats:
    """Return how far values lie above (positive) or below (negative) their quantiles, in units of their distance."""
    low, _, high = quantiles
    width = max(high - low, SMALLEST)
    return np.asarray((np.maximum(values - high, 0.0) - np.maximum(low - values, 0.0)) / width)
