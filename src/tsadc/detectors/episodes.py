"""Similar past episodes: has this happened before, when, and how did it look? No score depends on it.

    name         meaning
    episode      an interval of the past: of the history, learnt in `fit`, or an earlier one of the same result
    distance     of a measure of `usual.py` from its median, in units of its quantiles on that side: 1 is rare; above
                 the median positive, below it negative
    signature    (variable, measure) of an interval; row k is sqrt(share of the blame of variable k) u_k, where the unit
                 vector u_k has the direction of
                     the mean of sign(distance) log(1 + max(|distance| - 1, 0)) over the windows of the interval, for
                     offset, spread, pace and misfit; log(1 + 10 share of missing rows); and PLAIN
    similarity   of two intervals: the sum of the products of their signatures, from -1 to 1

The similarity is 1 if the same variables have the same shares of the blame and deviate in the same way, 0 if no
variable is blamed for both, and negative if the same variables deviate in opposite ways. PLAIN is small, so it counts
only where nothing measurable stands out. The amount hardly counts, and the duration does not.

An episode must have ended before the interval began; without dates, the whole history has. An interval is described
from the observations that it touches and from nothing after them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tsadc.detectors.ensemble.features import decode_names, encode_names, interpolated
from tsadc.detectors.reasons import SMALLEST
from tsadc.detectors.usual import OF_WINDOWS, SeriesUsual, window_measures
from tsadc.series import Clock, Floats, Series
from tsadc.windows import first_start

NEAREST = 3  # episodes of an interval, at most
SIMILAR = 0.7  # similarity of an episode that is worth showing
MOST = 50  # episodes of a history, and observations that they are looked for in: those with the highest scores
FEWEST = 20  # of these observations, even if they are more than a tenth of the history
MOST_EARLIER = 200  # intervals of an entity in a result: the latest ones
BLAMED = 5  # variables of a signature
PLAIN = 0.5
MEASURES = len(OF_WINDOWS) + 2
DRAWN, POINTS = 3, 60  # variables and points of a picture
STORED = "episodes"  # prefix of the arrays in a model folder
NUMBERS = 6  # whole numbers that are stored per episode

Origin = Literal["history", "result"]


@dataclass(frozen=True, eq=False)
class Picture:
    """How an episode looked, with half its duration before and after it.

    Attributes
    ----------
    names : tuple of str
        The most blamed variables, at most 3.
    values : (variable, point)
        Their values in the units of the input, at most 60 points; of more rows, minima and maxima.
    start, stop : float
        Where the episode begins and ends, from 0 to 1.
    """

    names: tuple[str, ...]
    values: Floats
    start: float
    stop: float


@dataclass(frozen=True, eq=False)
class Episode:
    """An interval of the past.

    Attributes
    ----------
    entity : str
    clock : Clock
        Its row 0 is the first row of the episode.
    rows : int
    score : float
    kind : str
        As in `Result.intervals`.
    variables : dict of str to float
        Shares of the blame.
    blamed : (variable,)
        Positions of the blamed variables, for each row of `signature`.
    signature : (variable, measure)
    picture : Picture
    """

    entity: str
    clock: Clock
    rows: int
    score: float
    kind: str
    variables: dict[str, float]
    blamed: NDArray[np.int64]
    signature: Floats
    picture: Picture

    @property
    def span(self) -> tuple[Any, Any]:
        """Start and end (exclusive): timestamps, or row numbers without dates."""
        start, end = self.clock.at([0, self.rows])
        return start, end

    def before(self, other: Episode) -> bool:
        """Return whether this episode ended before the other one began, as far as dates say so."""
        dated = self.clock.dated and other.clock.dated
        return not dated or self.clock.start + self.rows * self.clock.interval <= other.clock.start


@dataclass(frozen=True, eq=False)
class Similar:
    """An episode that resembles an interval; `origin` says where it was found."""

    episode: Episode
    similarity: float
    origin: Origin


@dataclass(frozen=True, eq=False)
class Episodes:
    """The episodes of a history, in the order of its series and of time."""

    episodes: tuple[Episode, ...]

    @classmethod
    def of(cls, found: Sequence[Episode]) -> Self:
        """Keep those with the highest scores."""
        highest = np.argsort([-episode.score for episode in found], kind="stable")[:MOST]
        return cls(tuple(found[i] for i in sorted(highest.tolist())))

    def __len__(self) -> int:
        return len(self.episodes)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything as named arrays."""
        count = len(self)
        numbers = np.zeros((count, NUMBERS), dtype=np.int64)
        blamed, shares = np.full((count, BLAMED), -1, dtype=np.int64), np.zeros((count, BLAMED))
        signatures = np.zeros((count, BLAMED, MEASURES))
        pictures, shaded = np.full((count, DRAWN, POINTS), np.nan), np.zeros((count, 2))
        for i, own in enumerate(self.episodes):
            clock, drawn = own.clock, own.picture.values
            known = (clock.start, clock.interval, clock.dated, clock.pace or 0, own.rows, drawn.shape[1])
            numbers[i] = [int(number) for number in known]
            blamed[i, : len(own.blamed)], shares[i, : len(own.blamed)] = own.blamed, list(own.variables.values())
            signatures[i, : len(own.blamed)] = own.signature
            pictures[i, : len(drawn), : drawn.shape[1]] = drawn
            shaded[i] = own.picture.start, own.picture.stop
        arrays: dict[str, NDArray[Any]] = {
            "entities": encode_names([own.entity for own in self.episodes]),
            "zones": encode_names([own.clock.timezone or "" for own in self.episodes]),
            "kinds": encode_names([own.kind for own in self.episodes]),
            "scores": np.array([own.score for own in self.episodes], dtype=np.float64),
            "numbers": numbers,
            "blamed": blamed,
            "shares": shares,
            "signatures": signatures,
            "pictures": pictures,
            "shaded": shaded,
        }
        return {f"{STORED}.{name}": array for name, array in arrays.items()}

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]], names: Sequence[str]) -> Self:
        """Restore what `state` returned; raise a `ValueError` if it does not fit the variables `names`."""
        arrays = {name.removeprefix(f"{STORED}."): array for name, array in state.items()}
        texts = [decode_names(arrays[name]) for name in ("entities", "zones", "kinds")]
        count = len(texts[0])
        shapes = {
            "scores": ("f", ()),
            "numbers": ("i", (NUMBERS,)),
            "blamed": ("i", (BLAMED,)),
            "shares": ("f", (BLAMED,)),
            "signatures": ("f", (BLAMED, MEASURES)),
            "pictures": ("f", (DRAWN, POINTS)),
            "shaded": ("f", (2,)),
        }
        fits = count <= MOST and {len(text) for text in texts} == {count}
        for name, (kind, shape) in shapes.items():
            fits = fits and arrays[name].dtype.kind == kind and arrays[name].shape == (count, *shape)
            fits = fits and (name == "pictures" or bool(np.isfinite(arrays[name]).all()))
        blamed, numbers = arrays["blamed"], arrays["numbers"]
        if not fits or not ((blamed >= -1) & (blamed < len(names))).all() or not _in_range(numbers):
            raise ValueError("the episodes belong to other variables")
        found = []
        for i in range(count):
            start, interval, dated, pace, rows, points = (int(number) for number in numbers[i])
            clock = Clock(start, interval, bool(dated), texts[1][i] or None, pace or None)
            clock.at([0, rows])  # raises if there are no such dates, or no such time zone
            own = blamed[i][blamed[i] >= 0]
            variables = {names[k]: float(share) for k, share in zip(own, arrays["shares"][i], strict=False)}
            drawn = tuple(variables)[:DRAWN]
            picture = Picture(drawn, arrays["pictures"][i, : len(drawn), :points], *arrays["shaded"][i].tolist())
            score, signature = float(arrays["scores"][i]), arrays["signatures"][i, : len(own)]
            found.append(Episode(texts[0][i], clock, rows, score, texts[2][i], variables, own, signature, picture))
        return cls(tuple(found))


@dataclass(eq=False)
class Past:
    """What may resemble an interval: the history, and the earlier intervals of the same entity in the result."""

    history: Sequence[Episode]
    entity: str | None = None
    earlier: deque[Episode] = field(default_factory=lambda: deque(maxlen=MOST_EARLIER))

    def similar(self, episode: Episode) -> tuple[Similar, ...]:
        """Return the most similar episodes before this one, most similar first, and remember it for later ones."""
        if episode.entity != self.entity:
            self.entity = episode.entity
            self.earlier.clear()
        known: list[tuple[Origin, Episode]] = [("history", own) for own in self.history if own.before(episode)]
        known += [("result", own) for own in self.earlier]
        self.earlier.append(episode)
        found = similarities(episode, [own for _, own in known])
        # Of equals the latest, which somebody may remember.
        order = sorted(range(len(known)), key=lambda i: (-found[i], -i))[:NEAREST]
        return tuple(Similar(known[i][1], float(found[i]), known[i][0]) for i in order if found[i] >= SIMILAR)


def similarities(episode: Episode, others: Sequence[Episode]) -> Floats:
    """Return the similarity of an episode to each of the others."""
    blamed = np.full((len(others), BLAMED), -1)
    signatures = np.zeros((len(others), BLAMED, MEASURES))
    for i, other in enumerate(others):
        blamed[i, : len(other.blamed)], signatures[i, : len(other.blamed)] = other.blamed, other.signature
    same = blamed[:, :, None] == episode.blamed
    return np.asarray((np.where(same, signatures @ episode.signature.T, 0.0)).sum(axis=(1, 2)))


def episode_of(
    usual: SeriesUsual, rows: tuple[int, int], score: float, kind: str, variables: Mapping[str, float], length: int
) -> Episode:
    """Describe the interval `rows` of a series, cut into observations of `length` rows."""
    series, (start, stop) = usual.series, rows
    shares = dict(list(variables.items())[:BLAMED])
    blamed = np.array([series.names.index(name) for name in shares], dtype=np.int64)
    clock = replace(series.clock, start=series.clock.start + start * series.clock.interval)
    signature = _signature(usual, rows, blamed, np.array(list(shares.values())), length)
    picture = _picture(series, rows, blamed[:DRAWN])
    return Episode(series.entity, clock, stop - start, score, kind, shares, blamed, signature, picture)


def table(found: Iterable[tuple[Similar, ...] | None]) -> pd.DataFrame:
    """Return the episodes that resemble each of several intervals, one per row; `interval` counts the intervals."""
    rows = []
    for number, similar in enumerate(found):
        for own in similar or ():
            start, end = own.episode.span
            rows.append([number, own.episode.entity, start, end, own.similarity, own.origin, own.episode.kind])
    return pd.DataFrame(rows, columns=["interval", "entity", "start", "end", "similarity", "origin", "kind"])


def _signature(
    usual: SeriesUsual, rows: tuple[int, int], blamed: NDArray[np.int64], shares: Floats, length: int
) -> Floats:
    series, (start, stop) = usual.series, rows
    grid = first_start(series.clock, length)
    # Only the observations that the interval touches: the parts of a result end between observations, and the
    # similarity must not depend on where.
    first = max(grid + (start - grid) // length * length, 0)
    last = min(grid - (grid - stop) // length * length, len(series))
    own = replace(usual, series=replace(series, values=np.asarray(series.values[first:last])))
    measured = own.measured(0, last - first)
    z = interpolated(measured)
    rest = z - own.predicted(0, last - first)
    short = max(usual.window - (stop - start), 0)
    begin = max(start - first - (short + 1) // 2, 0)
    end = min(max(stop - first, begin + usual.window), last - first)
    begin = max(min(begin, end - usual.window), 0)
    found = np.full((len(blamed), MEASURES), PLAIN)
    if end - begin > 1:
        inside = slice(begin, end)
        measures = window_measures(z[blamed, inside], rest[blamed, inside], min(usual.window, end - begin))
        for i, name in enumerate(OF_WINDOWS):
            found[:, i] = _departure(measures[i], usual.quantiles.of(name)[:, blamed])
    missing = ~np.isfinite(measured[blamed, start - first : stop - first])
    found[:, len(OF_WINDOWS)] = np.log1p(10 * missing.mean(axis=1))
    weight = np.sqrt(shares / max(float(shares.sum()), 1e-9))
    return np.asarray(weight[:, None] * found / np.linalg.norm(found, axis=1, keepdims=True))


def _departure(values: Floats, quantiles: Floats) -> Floats:
    """Return how far the windows of `values` (variable, window) are from the median of their quantiles (level,
    variable): the mean of compressed distances, so that what lasts counts, and chance, which changes its sign, does
    not."""
    low, middle, high = quantiles[:, :, None]
    width = np.where(values > middle, high - middle, middle - low)
    distance = (values - middle) / np.maximum(width, SMALLEST)
    return np.asarray((np.sign(distance) * np.log1p(np.maximum(np.abs(distance) - 1, 0.0))).mean(axis=1))


def _picture(series: Series, rows: tuple[int, int], columns: NDArray[np.int64]) -> Picture:
    start, stop = rows
    around = (stop - start + 1) // 2
    first, last = max(start - around, 0), min(stop + around, len(series))
    if series.observation:  # separate observations are no neighbours in time
        first = max(first, start // series.observation * series.observation)
        last = min(last, -(-stop // series.observation) * series.observation)
    values = np.asarray(series.values[first:last, :], dtype=np.float64)[:, columns].T
    values = np.where(np.isfinite(values), values, np.nan)
    shown = (start - first) / (last - first), (stop - first) / (last - first)
    return Picture(tuple(series.names[k] for k in columns), _reduced(values), *shown)


def _reduced(values: Floats) -> Floats:
    """Return at most `POINTS` points of (variable, time): the minimum and the maximum of each stretch of rows, in their
    order, so that no spike is lost."""
    rows = values.shape[1]
    if rows <= POINTS:
        return values
    edges = np.linspace(0, rows, POINTS // 2 + 1).astype(np.int64)
    out = np.full((len(values), POINTS), np.nan)
    for i, (first, last) in enumerate(pairwise(edges.tolist())):
        for k, stretch in enumerate(values[:, first:last]):
            known = np.flatnonzero(np.isfinite(stretch))
            if len(known):
                ends = sorted((known[stretch[known].argmin()], known[stretch[known].argmax()]))
                out[k, 2 * i : 2 * i + 2] = stretch[ends]
    return out


def _in_range(numbers: NDArray[np.integer]) -> bool:
    """Return whether the stored whole numbers describe times and pictures."""
    for start, interval, dated, pace, rows, points in numbers.tolist():
        later = start + rows * interval
        if not (interval > 0 and dated in (0, 1) and pace >= 0 and rows > 0 and 0 <= points <= POINTS):
            return False
        if max(abs(start), abs(later)) >= 2**63:
            return False
    return True
