"""Where normal ends, told from unlabelled scores alone.

    name           meaning
    u              a score on the scale on which normal ones scatter evenly to both sides: its logarithm where most
                   training scores are positive and none is negative, else the score itself
    middle         median of the lowest 1 - contamination of the training scores' u
    spread         how far the middle is above their 15.87 % point: a standard deviation, were they Gaussian
    fence          middle + 3 spread
    contamination  share beyond the fence less the share beyond its mirror image below: what stands out of the history
    normal         distribution of the lowest 1 - contamination of u; its upper quarter as an exponential

Anomalies score high, so the lower half of the scores says how far normal ones scatter, and all that the upper half has
in excess of it stands out. Anomalies that score like normal observations cannot be counted: the contamination is that
part of it which shows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from tsadc.config import require
from tsadc.errors import ConfigError
from tsadc.series import Clock, Floats
from tsadc.subsample import evenly_spaced

DAY = 86_400 * 10**9
CUSTOMARY = 0.1  # the share of anomalous data that the paper takes where none is known
FENCE = 3.0  # spreads: of Gaussian scores 1 in 740 lies beyond
BELOW = 0.1587  # of a Gaussian lies more than a standard deviation below its middle
QUARTER = 0.25
MOST = 0.5  # what outnumbers the rest is not the anomaly
RESAMPLES, LARGEST_SAMPLE = 200, 4096
LEVEL = 0.9
HIGHEST = 700.0  # whose exponential is still a number

Method = Literal["quantile", "tail", "alarms"]
HEEDED: dict[str, Method] = {"share": "tail", "per_day": "alarms"}  # by which method alone


@dataclass(frozen=True)
class Contamination:
    """Share of anomalous training observations. It is `stated`, or estimated with an interval of 90 %."""

    share: float
    low: float
    high: float
    stated: bool

    @classmethod
    def find(cls, scores: Floats, stated: float | Literal["auto"], seed: int) -> Self:
        """As stated, or what stands out of the training scores, with its interval from resampling them."""
        if stated != "auto":
            return cls(stated, stated, stated, True)
        ordered = np.sort(_even(scores, _positive(scores)))
        # This many scores suffice, and an interval that is too wide does no harm.
        ordered = ordered[evenly_spaced(len(ordered), LARGEST_SAMPLE)]
        share, generator = _standing_out(ordered), np.random.default_rng(seed)
        draws = generator.integers(0, len(ordered), (RESAMPLES, len(ordered)))
        found = [_standing_out(np.sort(ordered[draw])) for draw in draws]
        low, high = np.quantile(found, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
        return cls(share, min(low, share), max(high, share), False)

    @property
    def doubt(self) -> str:
        """One sentence where the estimate is the most there can be, and so says nothing; empty elsewhere."""
        if self.stated or self.share < MOST:
            return ""
        return (
            f"An estimate of {MOST:.0%} is the most there can be and says nothing, as no majority of the history "
            "scores alike; state the share with --contamination, in Python contamination=0.1, or give more history."
        )

    def __str__(self) -> str:
        if self.stated:
            return f"{100 * self.share:g} % (stated)"
        low, high = 100 * self.low, 100 * self.high
        return f"{100 * self.share:.1f} % (estimated; {LEVEL:.0%} interval {low:.1f} to {high:.1f} %)"


class Normal:
    """The distribution of normal scores: the training scores without the `contamination` highest of them."""

    def __init__(self, scores: Floats, contamination: float) -> None:
        self.positive = _positive(scores)
        ordered = np.sort(_even(scores, self.positive))
        self.kept = ordered[: max(2, round((1 - contamination) * len(ordered)))]
        self.knot = float(np.quantile(self.kept, 1 - QUARTER))
        middle, spread = _middle(ordered, contamination)
        beyond = self.kept[self.kept > self.knot]
        excess = float((beyond - self.knot).mean()) if len(beyond) else 0.0
        self.scale = max(excess, 1e-9 * max(1.0, abs(self.knot)))  # scores that are all alike have no excess
        self.values, first, number = np.unique(self.kept, return_index=True, return_counts=True)
        self.places = (first + (number - 1) / 2) / (len(self.kept) - 1)
        self.fence = self._score(middle + FENCE * spread)

    def above(self, score: float) -> float:
        """Share of normal observations that score higher."""
        if self.positive and score <= 0:
            return 1.0
        u = math.log(score) if self.positive else score
        if u > self.knot:
            return QUARTER * math.exp((self.knot - u) / self.scale)
        return max(1 - float(np.interp(u, self.values, self.places, left=0.0)), QUARTER)

    def at(self, share: float) -> float:
        """The score that `share` of normal observations exceeds: the inverse of `above`."""
        if share >= QUARTER:
            u = float(np.quantile(self.kept, 1 - share))
        else:
            u = self.knot + self.scale * math.log(QUARTER / share)
        return self._score(u)

    def _score(self, u: float) -> float:
        return math.exp(min(u, HIGHEST)) if self.positive else u


@dataclass(frozen=True)
class Threshold:
    """Where normal ends: the threshold itself, the median score of the training observations, and what is normal."""

    @dataclass(frozen=True)
    class Config:
        """`method`: how the threshold is chosen; "auto" is "quantile" where the contamination is stated, else "tail".
        `share` is what "tail" allows of normal observations above the threshold, `per_day` what "alarms" allows of
        them on average in a day of one entity."""

        method: Literal["auto", "quantile", "tail", "alarms"] = "auto"
        share: float | Literal["auto"] = "auto"
        per_day: float = 1.0

        def __post_init__(self) -> None:
            allowed = self.share == "auto" or 0 < self.share < 1
            require(allowed, "share", "between 0 and 1, both excluded, or auto", self.share)
            require(self.per_day > 0, "per_day", "above 0", self.per_day)

        def resolve(self, stated: bool) -> Method:
            """The method in force."""
            if self.method == "auto":
                return "quantile" if stated else "tail"
            return self.method

    value: float
    middle: float
    normal: Normal

    def severity(self, score: float) -> float:
        """The share of normal observations that score lower."""
        return 1.0 - self.normal.above(score)


def calibrate(scores: Floats, stated: float | Literal["auto"], seed: int) -> tuple[Contamination, Normal]:
    """What is anomalous and what is normal among training scores."""
    contamination = Contamination.find(scores, stated, seed)
    return contamination, Normal(scores, contamination.share)


def choose(
    config: Threshold.Config,
    contamination: Contamination,
    normal: Normal,
    scores: tuple[Floats, Floats],
    clock: Clock,
    length: int,
) -> float:
    """The threshold that the settings ask for. `scores` are of the validation part, and of it and the training part
    together, each observation once."""
    method = config.resolve(contamination.stated)
    if method == "quantile":
        return _quantile(contamination.share, *scores)
    if method == "alarms":
        return normal.at(alarm_share(config.per_day, clock, length))
    if config.share != "auto":
        return normal.at(config.share)
    allowed = _allowed(contamination)
    return min(normal.at(allowed), normal.fence) if allowed > 0 else normal.fence


def explain(config: Threshold.Config, contamination: Contamination, above: float, most: float | None) -> str:
    """How the threshold was chosen and what it lets through: `above` of the normal observations, of `most` a day."""
    method = config.resolve(contamination.stated)
    daily = "" if most is None else f", {above * most:.2g} a day of one entity"
    return f"by {method}; about {100 * above:.2g} % of normal observations lie above it{daily}"


def idle(config: Threshold.Config, stated: bool, given: Mapping[str, Any] | None = None) -> str:
    """What is wrong with a setting that the method in force does not heed, empty if nothing is. It is about those that
    are `given` now, as a fitted model may keep what an earlier choice left; without, about those that are not usual."""
    method, usual = config.resolve(stated), Threshold.Config()
    for name, needed in HEEDED.items():
        said = getattr(config, name) != getattr(usual, name) if given is None else given.get(name, "auto") != "auto"
        if said and method != needed:
            return (
                f"`threshold.{name}` is heeded by the method {needed} alone, but the method is {method}; set "
                f"`threshold.method` to {needed} as well, or leave `threshold.{name}` out."
            )
    return ""


def refuse_idle(config: Threshold.Config, stated: bool, given: Mapping[str, Any]) -> None:
    """Refuse what a user says of the threshold and nothing would come of."""
    if wrong := idle(config, stated, given):
        raise ConfigError(wrong)


def check(config: Threshold.Config, clock: Clock, length: int) -> None:
    """Refuse, before anything is trained, what the clock does not allow."""
    if config.method == "alarms":
        alarm_share(config.per_day, clock, length)


def daily(clock: Clock, length: int) -> float | None:
    """The observations of one entity in a day, None where rows are merely counted."""
    return None if clock.every is None else DAY / (clock.every * length)


def alarm_share(per_day: float, clock: Clock, length: int) -> float:
    """The share of observations that makes so many a day; refused where there are no days or too few observations."""
    most = daily(clock, length)
    if most is None:
        raise ConfigError(
            "`threshold.method` is alarms, which are counted per day, but the data has no timestamps and no sampling "
            "rate; give the column of the time, or choose another method."
        )
    if per_day >= most:
        raise ConfigError(
            f"`threshold.per_day` must be below {most:.4g}, the observations of {length} rows in a day, but got "
            f"{per_day:g}."
        )
    return per_day / most


def _allowed(contamination: Contamination) -> float:
    """The share of normal observations that may lie above the threshold where nothing is said about it.

    Of anomalies to come, a part `alike` scores beyond the fence and the rest is of unknown kind: Gaussian scores apart
    from normal ones by an AUROC anywhere from 3/4 to 1, in data of which any share may be anomalous. F1, on average
    over all that is unknown, is then highest at about (1 - alike)^2 / 4. What surely stands out of the history says
    how much is alike: all of it, if it is as much as is customarily taken to be there."""
    alike = min(1.0, contamination.low / CUSTOMARY)
    return QUARTER * (1 - alike) ** 2


def _quantile(share: float, validation: Floats, every: Floats) -> float:
    """Of the validation scores. A tail of fewer than two observations says nothing: then the training scores join."""
    scores = every if len(validation) * share < 2 else validation
    return float(np.quantile(scores, 1 - share))


def _standing_out(ordered: Floats) -> float:
    """The contamination of ordered u. What stands out is left out of the middle and the spread, which shows more."""
    share = 0.0
    while True:
        middle, spread = _middle(ordered, share)
        above = len(ordered) - np.searchsorted(ordered, middle + FENCE * spread, side="right")
        below = np.searchsorted(ordered, middle - FENCE * spread, side="left")
        found = min(float(above - below) / len(ordered), MOST)
        if found <= share:
            return share
        share = found


def _middle(ordered: Floats, contamination: float) -> tuple[float, float]:
    """Middle and spread of the lowest 1 - contamination."""
    middle, low = (_at(ordered, (1 - contamination) * share) for share in (0.5, BELOW))
    return middle, middle - low


def _at(ordered: Floats, share: float) -> float:
    place = share * (len(ordered) - 1)
    first = int(place)
    last = min(first + 1, len(ordered) - 1)
    return float(ordered[first] + (place - first) * (ordered[last] - ordered[first]))


def _positive(scores: Floats) -> bool:
    """None is below 0 and most are above."""
    return bool(np.min(scores) >= 0 and 2 * np.count_nonzero(scores > 0) > len(scores))


def _even(scores: Floats, positive: bool) -> Floats:
    """u. A 0, which has no logarithm, counts as the smallest of the others: how far below them it is nobody knows."""
    if not positive:
        return np.asarray(scores, dtype=np.float64)
    return np.log(np.maximum(scores, np.min(scores[scores > 0])))
