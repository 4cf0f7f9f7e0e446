"""How the report says things: numbers, shares, moments, durations, and what a detector's evidence means."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tsadc.series import Clock

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
THIN = "\N{NARROW NO-BREAK SPACE}"
DASH = "\N{EN DASH}"
MILLISECOND, SECOND = 10**6, 10**9
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86_400 * SECOND

# By name of the view that was loudest: a short title, and the reason in a sentence.
EVIDENCE = {
    "imputation": (
        "Not as its surroundings suggest",
        "Hidden from the model, these values could not be told from what came before and after and from the other "
        "variables.",
    ),
    "reconstruction": (
        "Variables out of step",
        "The variables do not go together the way they did in the history.",
    ),
    "conditional": (
        "Variables out of step",
        "The values are not what the other variables suggest.",
    ),
    "deviation": (
        "Extreme values",
        "Values far outside what is usual for these variables.",
    ),
    "energy": (
        "Too loud or too quiet",
        "These variables vary much more, or much less, than is usual for them.",
    ),
    "power": (
        "Unusual rhythm",
        "Slow and fast movements of these variables are mixed as they never were in the history.",
    ),
    "correlation": (
        "Variables out of step",
        "Variables that go together rise and fall apart, or those that do not go together.",
    ),
    "roughness": (
        "Too rough or too smooth",
        "For a while these variables move from step to step much more, or much less, than in the history.",
    ),
    "shape": (
        "Unusual shapes",
        "The curves of these variables are made of shapes that the history does not show, whatever their size.",
    ),
    "combination": (
        "Unusual combination",
        "Each value may be usual, but not all of them at once.",
    ),
    "isolation": (
        "Stands apart",
        "Level, spread, extremes and changes of the variables set this stretch apart from the history.",
    ),
    "chance": ("Chance", "The score was drawn at random, for comparison."),
    "always": ("Everything", "Everything is flagged, for comparison."),
}


def evidence(view: str) -> tuple[str, str]:
    """Title and explanation of a view's evidence; a view nobody described here is shown by its name."""
    return EVIDENCE.get(view, (view or "Not stated", ""))


def number(value: float) -> str:
    """Three significant digits."""
    if not np.isfinite(value):
        return DASH
    size = abs(value)
    if size != 0 and (size >= 1e6 or size < 1e-3):
        text = f"{value:.2e}"
    elif size >= 99.95:
        text = f"{value:,.0f}"
    else:
        text = np.format_float_positional(value, precision=3, fractional=False, unique=False, trim="k")
        text = text.rstrip(".") if size else "0"
    return text.replace("-", "\N{MINUS SIGN}")


def count(amount: int, one: str, many: str) -> str:
    return f"{amount:,} {one if amount == 1 else many}"


def percent(share: float) -> str:
    """A whole percentage; one decimal below ten."""
    value = 100 * share
    return f"{value:.1f}{THIN}%" if 0 < value < 9.95 else f"{value:.0f}{THIN}%"


def severity(value: float) -> str:
    """With as many decimals as tell it from 1, rounded down; beyond four they say nothing."""
    if value > 0.9999:
        return "> 0.9999"
    decimals = max(2, int(np.ceil(-np.log10(1 - value) - 1e-9)))
    return f"{np.floor(value * 10**decimals + 1e-6) / 10**decimals:.{decimals}f}"


def severity_word(value: float) -> str:
    """Of normal observations more than 1 in 100 score higher than what is slight, at most 1 in 1,000 than severe."""
    return "slight" if value < 0.99 else "clear" if value < 0.999 else "severe"


@dataclass(frozen=True)
class Times:
    """The words for rows of one clock. Dates are told on the wall clock of the series' own time zone."""

    clock: Clock

    def wall(self, rows: NDArray[np.integer] | list[int]) -> NDArray[np.int64]:
        """Nanoseconds on the wall clock since 1970, or row numbers."""
        times = self.clock.at(np.asarray(rows))
        if isinstance(times, pd.DatetimeIndex):
            return np.asarray(times.tz_localize(None).as_unit("ns").asi8)
        return np.asarray(times, dtype=np.int64)

    def row(self, time: object) -> int:
        """The row that a time of `Clock.at` belongs to."""
        tick = time.as_unit("ns").value if isinstance(time, pd.Timestamp) else int(str(time))
        return int((tick - self.clock.start) // self.clock.interval)

    def moment(self, row: int, weekday: bool = True) -> str:
        if not self.clock.dated:
            return f"row {int(self.wall([row])[0]):,}"
        when = self._stamp(row)
        day = f"{DAYS[when.weekday()]} " if weekday else ""
        return f"{day}{when.day} {MONTHS[when.month - 1]} {when.year}, {self._hour(when)}"

    def span(self, start: int, stop: int) -> str:
        """From `start` to `stop`; the date is said once when both lie on one day."""
        if not self.clock.dated:
            first, last = self.wall([start, stop])
            return f"rows {first:,} {DASH} {last:,}"
        first, last = self._stamp(start), self._stamp(stop)
        same = first.date() == last.date()
        return f"{self.moment(start)} {DASH} {self._hour(last) if same else self.moment(stop)}"

    def iso(self, row: int) -> str:
        """Sortable, as in the table and the CSV."""
        if not self.clock.dated:
            return str(int(self.wall([row])[0]))
        when = self._stamp(row)
        return f"{when:%Y-%m-%d} {self._hour(when)}"

    def duration(self, rows: int) -> str:
        """The two largest units that matter."""
        if not self.clock.dated:
            return count(rows * self.clock.interval, "row", "rows")
        left, parts = rows * self.clock.interval, []
        for unit, size in (("d", DAY), ("h", HOUR), ("min", MINUTE), ("s", SECOND), ("ms", MILLISECOND)):
            amount, left = divmod(left, size)
            if amount:
                parts.append(f"{amount:,}{THIN}{unit}")
            elif parts:
                break
        return " ".join(parts[:2]) or f"{left}{THIN}ns"

    def for_script(self, first: int, stop: int) -> str:
        """What the page's script needs to tell the time at rows [first, stop): where the wall clock jumps."""
        walls = self.wall(np.arange(first, stop))
        jumps = np.flatnonzero(np.diff(walls, prepend=walls[:1] - self.clock.interval) != self.clock.interval)
        unit = MILLISECOND if self.clock.dated else 1
        pieces = [[int(i), float(walls[i] / unit)] for i in (0, *jumps.tolist())] if len(walls) else []
        facts = {"dated": self.clock.dated, "step": self.clock.interval / unit, "rows": stop - first, "pieces": pieces}
        return json.dumps(facts, separators=(",", ":"))

    def _stamp(self, row: int) -> pd.Timestamp:
        return pd.Timestamp(int(self.wall([row])[0]))

    def _hour(self, when: pd.Timestamp) -> str:
        if self.clock.interval % MINUTE == 0:
            return f"{when:%H:%M}"
        if self.clock.interval % SECOND == 0:
            return f"{when:%H:%M:%S}"
        return f"{when:%H:%M:%S}.{when.microsecond // 1000:03d}"
