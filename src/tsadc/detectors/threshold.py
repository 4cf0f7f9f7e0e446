"""Choose the threshold from unlabelled training scores.

    name           meaning
    u              a score on the scale on which normal scores are symmetric: its logarithm if most training scores are
                   positive and none is negative, otherwise the score itself
    middle         median of the lowest 1 - contamination of the training scores' u
    spread         distance of the middle from their 15.87 % quantile: the standard deviation of a Gaussian
    fence          middle + 3 spread
    contamination  share above the fence minus the share below its mirror image: the estimated share of anomalies
    normal         distribution of the lowest 1 - contamination of u, with an exponential upper quarter. For the
                   contamination it takes the lower end of the interval, so that what may be normal counts as normal

Anomalies score high, so the lower half of the scores shows how far normal scores spread, and what the upper half has
in excess is anomalous. Anomalies that score like normal observations cannot be counted, so the estimate is a lower
bound.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

from tsadc.config import require
from tsadc.errors import ConfigError
from tsadc.series import Clock, Floats
from tsadc.subsample import evenly_spaced

DAY = 86_400 * 10**9
PERIODS = {"hour": 1 / 24, "day": 1.0, "week": 7.0, "month": 365.25 / 12, "year": 365.25}  # in days
BUDGET = re.compile(rf"\s*(\d+\.?\d*|\.\d+)\s*/\s*({'|'.join(PERIODS)})\s*")
CUSTOMARY = 0.1  # the share of anomalous data that the paper assumes
FENCE = 3.0  # in spreads; 1 in 740 Gaussian scores is higher
BELOW = 0.1587  # share of a Gaussian below its mean minus one standard deviation
QUARTER = 0.25
MOST = 0.5  # a majority cannot be anomalous
RESAMPLES, LARGEST_SAMPLE = 200, 4096
LEVEL = 0.9
HIGHEST = 700.0  # its exponential is still finite
DEFAULT_ALARMS = "1/week"
REFERENCE = 10_080  # rows that count as a week if the data has no clock: one a minute
MIN_ABOVE = 1e-12  # rarer scores have one return period
UNCLOCKED = 0.01  # share of normal observations above the default threshold, if the data has no clock
MOST_ALARMS = 0.05  # the same, at most, if the data has one

Method = Literal["alarms", "balanced", "tail", "quantile"]
ONLY_FOR: dict[str, Method] = {"share": "tail", "alarms": "alarms"}  # setting: the one method that uses it


@dataclass(frozen=True)
class Contamination:
    """Share of anomalous training observations.

    Attributes
    ----------
    share : float
        The share, from 0 to 0.5.
    low, high : float
        90 % interval of an estimate; both are `share` if the user stated it.
    stated : bool
        Whether the user stated the share; otherwise it was estimated from the training scores.
    """

    share: float
    low: float
    high: float
    stated: bool

    @classmethod
    def find(cls, scores: Floats, stated: float | Literal["auto"], seed: int) -> Self:
        """Return the stated share, or an estimate from the training scores with its bootstrap interval."""
        if stated != "auto":
            return cls(stated, stated, stated, True)
        ordered = np.sort(_symmetric(scores, _positive(scores)))
        # A larger sample would narrow the interval only slightly.
        ordered = ordered[evenly_spaced(len(ordered), LARGEST_SAMPLE)]
        share, generator = _excess(ordered), np.random.default_rng(seed)
        draws = generator.integers(0, len(ordered), (RESAMPLES, len(ordered)))
        estimates = [_excess(np.sort(ordered[draw])) for draw in draws]
        low, high = np.quantile(estimates, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
        return cls(share, min(low, share), max(high, share), False)

    @property
    def doubt(self) -> str:
        """One sentence if the estimate has reached its upper limit and so says nothing; otherwise empty."""
        if self.stated or self.share < MOST:
            return ""
        return (
            f"An estimate of {MOST:.0%} is the upper limit and says nothing, as no majority of the history scores "
            "alike; state the share with --contamination, in Python contamination=0.1, or give more history."
        )

    def __str__(self) -> str:
        if self.stated:
            return f"{100 * self.share:g} % (stated)"
        low, high = 100 * self.low, 100 * self.high
        return f"{100 * self.share:.1f} % (estimated; {LEVEL:.0%} interval {low:.1f} to {high:.1f} %)"


class Normal:
    """The distribution of normal scores: training scores without the highest share `contamination`.

    If the share is uncertain, only the lower end `low` of its interval is left out. Of the rest, scores beyond twice
    the fence count as there: a clear anomaly among them must not stretch the tail."""

    def __init__(self, scores: Floats, contamination: float, low: float | None = None) -> None:
        self.positive = _positive(scores)
        ordered = np.sort(_symmetric(scores, self.positive))
        middle, spread = _middle(ordered, contamination)
        left_out = contamination if low is None else low
        kept = ordered[: max(2, round((1 - left_out) * len(ordered)))]
        # Without a spread, as when most scores are equal, there is no fence.
        clipped = low is not None and spread > 1e-9 * max(1.0, abs(middle))
        self.kept = np.minimum(kept, middle + 2 * FENCE * spread) if clipped else kept
        self.knot = float(np.quantile(self.kept, 1 - QUARTER))
        beyond = self.kept[self.kept > self.knot]
        excess = float((beyond - self.knot).mean()) if len(beyond) else 0.0
        self.scale = max(excess, 1e-9 * max(1.0, abs(self.knot)))  # identical scores have no excess
        self.values, first, number = np.unique(self.kept, return_index=True, return_counts=True)
        self.places = (first + (number - 1) / 2) / (len(self.kept) - 1)
        self.fence = self._score(middle + FENCE * spread)

    @classmethod
    def of(cls, scores: Floats, contamination: Contamination) -> Self:
        """Return the distribution with what may be normal counted as normal."""
        return cls(scores, contamination.share, contamination.low)

    def above(self, score: float) -> float:
        """Return the share of normal observations that score higher."""
        if self.positive and score <= 0:
            return 1.0
        u = math.log(score) if self.positive else score
        if u > self.knot:
            return QUARTER * math.exp((self.knot - u) / self.scale)
        return max(1 - float(np.interp(u, self.values, self.places, left=0.0)), QUARTER)

    def at(self, share: float) -> float:
        """Return the score that `share` of normal observations exceeds: the inverse of `above`."""
        if share >= QUARTER:
            u = float(np.quantile(self.kept, 1 - share))
        else:
            u = self.knot + self.scale * math.log(QUARTER / share)
        return self._score(u)

    def _score(self, u: float) -> float:
        return math.exp(min(u, HIGHEST)) if self.positive else u


@dataclass(frozen=True)
class Threshold:
    """A threshold with what is needed to grade scores.

    Attributes
    ----------
    value : float
        The threshold: an observation that scores higher is anomalous.
    middle : float
        Median training score.
    normal : Normal
        Distribution of normal scores.
    per_week : float
        Observations of an entity in a week, or in `REFERENCE` rows if the data has no clock.
    """

    @dataclass(frozen=True)
    class Config:
        """How the threshold is chosen.

        Parameters
        ----------
        method : {"auto", "alarms", "balanced", "tail", "quantile"}, default "auto"
            "alarms": the score that normal observations exceed `alarms` times, per entity. "balanced": for the review
            of a recorded period, in which a missed anomaly costs as much as a false alarm; up to a quarter of the
            normal observations may lie above it. "tail": the score that `share` of normal observations exceeds.
            "quantile": the 1 - contamination quantile of the validation scores. "auto": "quantile" if the
            contamination is stated, otherwise "alarms". "balanced" is also "quantile" if the contamination is stated.
        alarms : str, default "1/week"
            Only for "alarms": the false alarms per entity that you accept, as a number per hour, day, week, month or
            year. A history that is too short to promise so few gives the fewest that it can promise, which `fit` says.
            The default needs no clock: without one, 1 % of the normal observations may lie above the threshold.
        share : float, default 0.01
            Only for "tail": share of normal observations allowed above the threshold, between 0 and 1, both excluded.

        Examples
        --------
        >>> from tsadc.detectors.threshold import Threshold
        >>> Threshold.Config(method="alarms", alarms="2/day").per_day
        2.0
        """

        renamed_settings: ClassVar[Mapping[str, str]] = {"per_day": 'is now `alarms`; write "2/day" for 2'}

        method: Literal["auto", "alarms", "balanced", "tail", "quantile"] = "auto"
        alarms: str = DEFAULT_ALARMS
        share: float = 0.01

        def __post_init__(self) -> None:
            require(0 < self.share < 1, "share", "between 0 and 1, both excluded", self.share)
            require(self.per_day > 0, "alarms", "a number per period such as 1/week or 2/day", self.alarms)

        @property
        def per_day(self) -> float:
            """False alarms allowed per day and entity; 0 if `alarms` cannot be read."""
            found = BUDGET.fullmatch(str(self.alarms))
            return float(found[1]) / PERIODS[found[2]] if found else 0.0

        @property
        def asked(self) -> bool:
            """Whether the user asked for this number of alarms; the default adjusts to data for which it makes no
            sense."""
            return self.method == "alarms" or self.alarms != DEFAULT_ALARMS

        def resolve(self, stated: bool) -> Method:
            """Return the method in force, given whether the contamination is stated."""
            if self.method == "auto":
                return "quantile" if stated else "alarms"
            return "quantile" if stated and self.method == "balanced" else self.method

    value: float
    middle: float
    normal: Normal
    per_week: float

    def severity(self, score: float) -> float:
        """Return the chance, in percent, that a normal week of an entity has no score as high as this one."""
        return 100.0 * math.exp(-self.per_week * self.normal.above(score))

    def return_period(self, score: float) -> float:
        """Return after how many normal observations of an entity a score this high is to be expected."""
        return 1 / max(self.normal.above(score), MIN_ABOVE)


def calibrate(scores: Floats, stated: float | Literal["auto"], seed: int) -> tuple[Contamination, Normal]:
    """Return the contamination of the training scores and the distribution of the normal ones."""
    contamination = Contamination.find(scores, stated, seed)
    return contamination, Normal.of(scores, contamination)


def choose(
    config: Threshold.Config,
    contamination: Contamination,
    normal: Normal,
    scores: tuple[Floats, Floats, Floats],
    clock: Clock,
    length: int,
) -> float:
    """Return the threshold by the method of `config`.

    `scores` holds the training scores, the validation scores, and both together, each observation once."""
    history, validation, every = scores
    method = config.resolve(contamination.stated)
    if method == "quantile":
        return _quantile(contamination.share, validation, every)
    if method == "balanced":
        return _balanced(Normal(history, contamination.share), contamination)
    return normal.at(config.share if method == "tail" else promised(config, normal, clock, length))


def promised(config: Threshold.Config, normal: Normal, clock: Clock, length: int) -> float:
    """Return the share of normal observations above the threshold by the method "alarms".

    The share of the budget, unless the history has fewer normal observations than one false alarm takes: then one in
    so many."""
    if config.asked:
        share = alarm_share(config, clock, length)
    else:
        most = observations_per_day(clock, length)
        share = UNCLOCKED if most is None else min(config.per_day / most, MOST_ALARMS)
    return max(share, 1 / len(normal.kept))


def explain(
    config: Threshold.Config, contamination: Contamination, normal: Normal, threshold: float, clock: Clock, length: int
) -> str:
    """Say how many false alarms to expect and how the threshold was chosen."""
    method, above = config.resolve(contamination.stated), normal.above(threshold)
    per_day = observations_per_day(clock, length)
    if per_day is None:
        expected = f"about {_rounded(100 * above)} % of normal observations expected above it"
    else:
        expected = f"about {_per_period(above * per_day)} expected per entity"
    short = ""
    if method == "alarms" and per_day is not None and config.per_day < 0.99 * above * per_day:
        short = (
            f"; {config.alarms} was wanted, but {len(normal.kept)} normal observations of history cannot promise fewer"
        )
    return f"{expected} (method {method}{short})"


def _per_period(per_day: float) -> str:
    """Return "3 false alarms a week", with the shortest period in which there is at least one."""
    period = next((name for name, days in PERIODS.items() if per_day * days >= 0.995), "year")
    number = _rounded(per_day * PERIODS[period])
    return f"{number} false alarm{'' if number == '1' else 's'} {'an' if period == 'hour' else 'a'} {period}"


def _rounded(number: float) -> str:
    """Return two significant digits, without an exponent for large numbers."""
    return f"{float(f'{number:.2g}'):,.0f}" if number >= 10 else f"{number:.2g}"


def unused_setting(config: Threshold.Config, stated: bool, given: Mapping[str, Any] | None = None) -> str:
    """Return an error message if a setting does not apply to the method in force, otherwise "".

    Only the settings in `given` count, as a fitted model may keep those of an earlier method; without `given`, all that
    differ from their defaults."""
    method, default = config.resolve(stated), Threshold.Config()
    for name, needed in ONLY_FOR.items():
        value = getattr(config, name)
        requested = value != getattr(default, name) if given is None else name in given
        if requested and method != needed:
            return (
                f"`threshold.{name}` only applies to `threshold.method={needed}`, but the method is {method}; set "
                f"`threshold.method` to {needed} as well, or leave `threshold.{name}` out."
            )
    return ""


def refuse_unused(config: Threshold.Config, stated: bool, given: Mapping[str, Any]) -> None:
    """Raise a `ConfigError` if a setting in `given` does not apply to the method in force."""
    if wrong := unused_setting(config, stated, given):
        raise ConfigError(wrong)


def check(config: Threshold.Config, stated: bool, clock: Clock, length: int) -> None:
    """Raise a `ConfigError`, before training, if the method needs a clock that the data does not have."""
    if config.resolve(stated) == "alarms" and config.asked:
        alarm_share(config, clock, length)


def observations_per_day(clock: Clock, length: int) -> float | None:
    """Return how many observations an entity has per day; None without timestamps or sampling rate."""
    return None if clock.every is None else DAY / (clock.every * length)


def observations_per_week(clock: Clock, length: int) -> float:
    """Return how many observations an entity has in a week, or in `REFERENCE` rows if the data has no clock."""
    return REFERENCE / length if clock.every is None else 7 * DAY / (clock.every * length)


def alarm_share(config: Threshold.Config, clock: Clock, length: int) -> float:
    """Return the share of observations that makes `alarms`, or raise a `ConfigError` if there is none."""
    most = observations_per_day(clock, length)
    if most is None:
        raise ConfigError(
            "`threshold.method=alarms` counts alarms per time, but the data has no timestamps and no sampling rate; "
            "name the time column, or choose another method."
        )
    if config.per_day >= most:
        raise ConfigError(
            f"`threshold.alarms` must be below {most:.4g}/day, the number of observations of {length} rows in a day, "
            f"but got {config.alarms}."
        )
    return config.per_day / most


def _balanced(normal: Normal, contamination: Contamination) -> float:
    allowed = _allowed(contamination)
    return min(normal.at(allowed), normal.fence) if allowed > 0 else normal.fence


def _allowed(contamination: Contamination) -> float:
    """Return the share of normal observations allowed above the threshold by the method "balanced".

    Of future anomalies a share `alike` scores above the fence. The rest is of unknown kind: Gaussian scores separated
    from normal ones by an AUROC between 3/4 and 1, in data with any share of anomalies. F1, averaged over all unknowns,
    is highest at about (1 - alike)^2 / 4. The lower bound of the estimated contamination, relative to the customary
    share, estimates `alike`."""
    alike = min(1.0, contamination.low / CUSTOMARY)
    return QUARTER * (1 - alike) ** 2


def _quantile(share: float, validation: Floats, every: Floats) -> float:
    """Return the quantile of the validation scores, or of all scores if fewer than two would lie above it."""
    scores = every if len(validation) * share < 2 else validation
    return float(np.quantile(scores, 1 - share))


def _excess(ordered: Floats) -> float:
    """Return the contamination of ordered u. Anomalies inflate middle and spread, so exclude them and repeat."""
    share = 0.0
    while True:
        middle, spread = _middle(ordered, share)
        above = len(ordered) - np.searchsorted(ordered, middle + FENCE * spread, side="right")
        below = np.searchsorted(ordered, middle - FENCE * spread, side="left")
        larger = min(float(above - below) / len(ordered), MOST)
        if larger <= share:
            return share
        share = larger


def _middle(ordered: Floats, contamination: float) -> tuple[float, float]:
    """Return middle and spread of the lowest 1 - contamination."""
    middle, low = (_at(ordered, (1 - contamination) * share) for share in (0.5, BELOW))
    return middle, middle - low


def _at(ordered: Floats, share: float) -> float:
    place = share * (len(ordered) - 1)
    first = int(place)
    last = min(first + 1, len(ordered) - 1)
    return float(ordered[first] + (place - first) * (ordered[last] - ordered[first]))


def _positive(scores: Floats) -> bool:
    """Return whether no score is negative and most are positive."""
    return bool(np.min(scores) >= 0 and 2 * np.count_nonzero(scores > 0) > len(scores))


def _symmetric(scores: Floats, positive: bool) -> Floats:
    """Return u; a score of 0, which has no logarithm, counts as the smallest positive score."""
    if not positive:
        return np.asarray(scores, dtype=np.float64)
    return np.log(np.maximum(scores, np.min(scores[scores > 0])))
