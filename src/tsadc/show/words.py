"""Put numbers, shares, times, durations and a detector's evidence into words."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tsadc.detectors.drift import Drift
from tsadc.detectors.reasons import Reason
from tsadc.errors import listed
from tsadc.series import Clock
from tsadc.wording import DASH as DASH
from tsadc.wording import DAY as DAY
from tsadc.wording import HOUR as HOUR
from tsadc.wording import MICROSECOND as MICROSECOND
from tsadc.wording import MILLISECOND as MILLISECOND
from tsadc.wording import MINUTE as MINUTE
from tsadc.wording import SECOND as SECOND
from tsadc.wording import count as count
from tsadc.wording import duration
from tsadc.wording import number as number

Unit = Literal["s", "ms", "us", "ns"]
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
THIN = "\N{NARROW NO-BREAK SPACE}"
RETURN_UNITS = {
    "year": 365.25 * DAY,
    "month": 365.25 / 12 * DAY,
    "week": 7 * DAY,
    "day": DAY,
    "hour": HOUR,
    "minute": MINUTE,
}
MAX_ROWS = 10**9  # of a return period; more says no more

METRICS = {"auroc": "AUROC", "ap": "AP", "f1": "F1"}
UNUSUAL_FREQUENCIES = (
    "Unusual frequencies",
    "Slow or fast variation is stronger or weaker than in the history; a shifted level counts as slow variation.",
)
# For each view: a short title, and the reason in a sentence.
EVIDENCE = {
    "departure": (
        "Excursion",
        "The values move further away from their current level than they usually do.",
    ),
    "combination": (
        "Unusual combination",
        "Each value may be normal on its own, but their combination is not.",
    ),
    "sustained": (
        "Unusual combination that lasts",
        "Over a longer time, the values do not fit together as they did in the history.",
    ),
    "level": (
        "Unusual levels",
        "The levels of the variables do not fit together as they did in the history.",
    ),
    "correlation": (
        "Unusual relationship",
        "The correlations between the variables differ from those in the history.",
    ),
    "shape": (
        "Unusual shapes",
        "The curves have shapes that do not occur in the history, at any amplitude.",
    ),
    "bands": UNUSUAL_FREQUENCIES,
    "quarters": (
        "Frequencies change",
        "Slow or fast variation grows or fades during this time, more than it did in the history.",
    ),
    "energy": (
        "Varies more (or less) than usual",
        "The variables vary much more, or much less, than in the history.",
    ),
    "conditional": (
        "Unusual relationship",
        "The values do not follow those of the other variables as they did in the history.",
    ),
    "roughness": (
        "Rougher (or smoother) than usual",
        "The changes from one row to the next are much larger, or much smaller, than in the history.",
    ),
    "density": (
        "Rare values",
        "Such values, or such a combination of values, hardly ever occur in the history.",
    ),
    "range": (
        "Unusual range",
        "Within a short time, the variables cover a range that they did not cover in the history.",
    ),
    "imputation": (
        "Unexpected values",
        "The model could not predict these values from their surroundings.",
    ),
    "reconstruction": (
        "Unusual relationship",
        "The variables do not relate to each other as they did in the history.",
    ),
    "residual": (
        "Unexpected values",
        "The values differ from those that the model expected.",
    ),
    "forecast": (
        "Unexpected values",
        "The values differ from those that the model forecast.",
    ),
    "discrepancy": (
        "Unusual pattern",
        "The model describes the values differently on a short and on a longer time scale.",
    ),
    "contrast": (
        "Unusual relationship",
        "The variable does not fit the variables with which it is correlated.",
    ),
    "generation": (
        "Unexpected values",
        "The values differ from those that the model expected, given the correlated variables.",
    ),
    "deviation": (
        "Extreme values",
        "The values are far outside the usual range of these variables.",
    ),
    "power": UNUSUAL_FREQUENCIES,
    "isolation": (
        "Unlike the history",
        "The level, spread, extremes and changes of the variables differ from those in the history.",
    ),
    "variance": (
        "Varies strongly",
        "The variables vary strongly within a short time.",
    ),
    "change": (
        "Rapid changes",
        "The changes from one row to the next are large.",
    ),
    "pattern": (
        "Unusual pattern",
        "A short sequence of the values differs from those in the history.",
    ),
    "outlier": (
        "Unlike the history",
        "The values differ from those in the history.",
    ),
    "chance": ("Random score", "The score is random. It serves as a baseline."),
    "always": ("Everything flagged", "All rows are flagged. This serves as a baseline."),
}


# Titles of the kinds of reason; those with two depend on whether the value is above what is usual.
REASONS = {
    "missing": ("Not measured", "Not measured"),
    "stuck": ("Stuck", "Stuck"),
    "spike": ("Far outside its usual range", "Far outside its usual range"),
    "level": ("Unusually high", "Unusually low"),
    "frequency": ("Varies faster than usual", "Varies slower than usual"),
    "spread": ("Varies more than usual", "Varies less than usual"),
    "correlation": ("Unusual relationship", "Unusual relationship"),
}


def reason_title(reason: Reason) -> str:
    """Return a short title for a reason."""
    above, below = REASONS[reason.kind]
    return above if reason.value > reason.high else below


def evidence(view: str) -> tuple[str, str]:
    """Return the title and the explanation of a view's evidence. An unknown view is shown by its name."""
    return EVIDENCE.get(view, (view or "Not stated", ""))


def metric_name(metric: str) -> str:
    """Return the usual spelling of a metric, such as AUROC for auroc."""
    return METRICS.get(metric, metric)


def percent(share: float) -> str:
    """Format a share as a whole percentage, with one decimal below ten."""
    value = 100 * share
    return f"{value:.1f}{THIN}%" if 0 < value < 9.95 else f"{value:.0f}{THIN}%"


def whole_percent(share: float) -> str:
    """Format a share as a whole percentage, rounded down, so that 100 % means all of it."""
    return f"{math.floor(100 * share)}{THIN}%"


def severity(value: float) -> str:
    """Format a severity from 0 to 100 as a whole number, rounded down; the ends of the scale are not reached."""
    if value > 99:
        return "> 99"
    return "< 1" if value < 1 else f"{int(value)}"


def likely(probability: float) -> str:
    """Say how probable an anomaly is, in whole percent; it is never impossible or certain."""
    if probability > 0.99:
        return f"probability > 99{THIN}%"
    return f"probability < 1{THIN}%" if probability < 0.01 else f"probability {100 * probability:.0f}{THIN}%"


def reviewed_text(review: Mapping[str, Any]) -> str:
    """Say what a model was not trained on because of a review, from its provenance."""
    dropped = count(review["drop"], "interval", "intervals")
    return (
        f"{dropped} dropped, {review['fix']:,} fixed and {review['keep']:,} kept, "
        f"so that {count(review['cells'], 'value was', 'values were')} not learnt from"
    )


def severity_word(value: float) -> str:
    """Name a severity: "slight" below 90, "severe" from 99."""
    return "slight" if value < 90 else "moderate" if value < 99 else "severe"


def return_period(period: pd.Timedelta | float) -> str:
    """Say how often a normal entity scores as high, such as "once in 40 days"; a number counts rows."""
    if not isinstance(period, pd.Timedelta):
        return f"once in {count(round(min(period, MAX_ROWS)), 'row', 'rows')}"
    for unit, size in RETURN_UNITS.items():
        amount = period.value / size
        if amount >= 2 or unit == "minute":
            return f"once in {count(max(1, round(amount)), unit, unit + 's')}"
    raise AssertionError("the smallest unit fits every period")


def drift(found: Drift) -> str:
    """Say since when an entity differs as a whole from what was learnt, and which variables moved or are stuck."""
    since = f"{found.since:%Y-%m-%d %H:%M}" if isinstance(found.since, pd.Timestamp) else f"row {found.since}"
    differ = f"{found.above:,} of the {found.observations:,} observations"
    if is_stuck(found):
        have = "have" if len(found.stuck) > 1 else "has"
        return (
            f"{listed(found.stuck)} of {found.entity} {have} not changed since {since}: a stuck sensor? {differ} since "
            "then differ from what was learnt. Check the sensor first; the rest may follow from it."
        )
    moved = ", ".join(f"{item.name} from {number(item.usual)} to {number(item.now)}" for item in found.variables)
    return (
        f"{differ} of {found.entity} since {since} differ from what was learnt: another machine, a new regime, or "
        "drift?" + (f" Medians that moved: {moved}." if moved else "") + _advice(found)
    )


def is_stuck(found: Drift) -> bool:
    """Return whether stuck sensors are all that a drift shows."""
    moved = {item.name for item in found.variables} - set(found.stuck)
    return bool(found.stuck) and not moved and not found.missing


def _advice(found: Drift) -> str:
    if found.missing or found.stuck:
        seen = (("not measured", found.missing), ("not changing", found.stuck))
        said = "; ".join(f"{what} in this period: {listed(which)}" for what, which in seen if which)
        return f" {said[:1].upper()}{said[1:]}. Check this first; the rest may follow from it."
    return (
        " Check that it is the same machine, in the same units. If this is the new normal, fit again, or use "
        "`tsadc adapt` if only levels and spreads have changed."
    )


def precision(clocks: Iterable[Clock]) -> Unit:
    """Return the coarsest NumPy unit, seconds or finer, in which all rows of the clocks are whole."""
    ticks = [tick for clock in clocks if clock.dated for tick in (clock.start, clock.interval)]
    units: dict[Unit, int] = {"s": SECOND, "ms": MILLISECOND, "us": MICROSECOND}
    return next((unit for unit, size in units.items() if all(tick % size == 0 for tick in ticks)), "ns")


def iso8601(times: pd.DatetimeIndex, unit: Unit) -> list[str]:
    """Format times as ISO 8601, always with the time of day, and with the UTC offset if there is a time zone."""
    local = times.tz_localize(None).as_unit("ns")
    text: list[str] = np.datetime_as_string(local.to_numpy(), unit=unit).tolist()
    if times.tz is None:
        return text
    minutes = (local.asi8 - times.as_unit("ns").asi8) // MINUTE
    offsets = {m: f"{'-' if m < 0 else '+'}{abs(m) // 60:02d}:{abs(m) % 60:02d}" for m in set(minutes.tolist())}
    return [moment + offsets[m] for moment, m in zip(text, minutes.tolist(), strict=True)]


@dataclass(frozen=True)
class Times:
    """Words for the rows of one clock. Dates are those of the wall clock in the time zone of the series."""

    clock: Clock

    def wall(self, rows: NDArray[np.integer] | list[int]) -> NDArray[np.int64]:
        """Return nanoseconds on the wall clock since 1970, or row numbers."""
        times = self.clock.at(np.asarray(rows))
        if isinstance(times, pd.DatetimeIndex):
            return np.asarray(times.tz_localize(None).as_unit("ns").asi8)
        return np.asarray(times, dtype=np.int64)

    def moment(self, row: int, weekday: bool = True) -> str:
        """Format the date and time of a row, or its number."""
        if not self.clock.dated:
            return f"row {int(self.wall([row])[0]):,}"
        when = self._stamp(row)
        day = f"{DAYS[when.weekday()]} " if weekday else ""
        return f"{day}{when.day} {MONTHS[when.month - 1]} {when.year}, {self._hour(when)}"

    def span(self, start: int, stop: int) -> str:
        """Format `start` to `stop`, with a single date if both are on the same day."""
        if not self.clock.dated:
            first, last = self.wall([start, stop])
            return f"rows {first:,} {DASH} {last:,}"
        first, last = self._stamp(start), self._stamp(stop)
        same = first.date() == last.date()
        return f"{self.moment(start)} {DASH} {self._hour(last) if same else self.moment(stop)}"

    def short(self, row: int) -> str:
        """Format a time for a table, such as 2026-03-03 15:10."""
        if not self.clock.dated:
            return str(int(self.wall([row])[0]))
        when = self._stamp(row)
        return f"{when:%Y-%m-%d} {self._hour(when)}"

    def duration(self, rows: int) -> str:
        """Format a duration in its two largest units."""
        return duration(self.clock, rows, THIN)

    def for_script(self, first: int, stop: int) -> str:
        """Return JSON from which the page's script computes the wall clock time of rows [first, stop)."""
        walls = self.wall(np.arange(first, stop))
        jumps = np.flatnonzero(np.diff(walls, prepend=walls[:1] - self.clock.interval) != self.clock.interval)
        unit = MILLISECOND if self.clock.dated else 1
        pieces = [[int(i), float(walls[i] / unit)] for i in (0, *jumps.tolist())] if len(walls) else []
        clock = {"dated": self.clock.dated, "step": self.clock.interval / unit, "rows": stop - first, "pieces": pieces}
        return json.dumps(clock, separators=(",", ":"))

    def _stamp(self, row: int) -> pd.Timestamp:
        return pd.Timestamp(int(self.wall([row])[0]))

    def _hour(self, when: pd.Timestamp) -> str:
        if self.clock.interval % MINUTE == 0:
            return f"{when:%H:%M}"
        if self.clock.interval % SECOND == 0:
            return f"{when:%H:%M:%S}"
        return f"{when:%H:%M:%S}.{when.microsecond // 1000:03d}"
