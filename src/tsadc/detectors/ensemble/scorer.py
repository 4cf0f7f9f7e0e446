"""Many views of an observation, each on its own a good detector for some data and a poor one for other, as one score.

    name          log score s of the view
    deviation     extremes of |z|, of every step
    combination   extremes of what a few principal components do not hold of a step
    ...           extremes of each residual of the detector's own model, under the name that it gives
    correlation   log(.02 + distance to the nearest training observations) of the correlations
    shape         log(.02 + distance to the nearest training observations) of the random convolutions
    energy        short stretches that are too loud or too quiet
    conditional   stretches of which the other variables explain too little, or more than usual
    roughness     stretches on which what is not explained is too rough or too smooth

`extremes`, `local` and `fusion` say more. The share `keep` of the training part with the lowest scores is then trained
on once more. The part that is set aside joins the training part: neighbours never include the observation itself, so
that its scores stay honest, and with few observations every one counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tsadc.config import require
from tsadc.detectors.ensemble import local
from tsadc.detectors.ensemble.convolutions import Convolutions
from tsadc.detectors.ensemble.extremes import Extremes, height, tops
from tsadc.detectors.ensemble.features import MOST_PAIRS, Correlations, affordable, blame
from tsadc.detectors.ensemble.fusion import Fusion
from tsadc.detectors.ensemble.linear import Linear
from tsadc.detectors.ensemble.local import Local, Windows
from tsadc.detectors.ensemble.neighbours import Neighbours, lowest
from tsadc.detectors.ensemble.standard import LEAST_HISTORY
from tsadc.detectors.result import Evidence
from tsadc.series import Booleans, Floats, Observations

STEPWISE = ("deviation", "combination")  # before the residuals
WHOLE = ("correlation", "shape", *local.KINDS)  # after them
NEAR = 0.02  # distances below this are none
MOST_BLAME = 1e6
FEW = 100  # training observations
Residuals = Sequence[Floats]  # each (variable, time), >= 0, in units of its model; NaN: nothing to compare
Model = Callable[[Iterable[Floats]], Iterator[Residuals]]  # of observations (variable, time), one by one


def names_of(residuals: Sequence[str]) -> tuple[str, ...]:
    """Return the names of all views when a model adds these residuals."""
    return (*STEPWISE, *residuals, *WHOLE)


@dataclass(frozen=True)
class Summary:
    """What is remembered of a training observation. `heights` and `highest` (stepwise view,): of its steps."""

    heights: Floats
    highest: Floats
    correlations: Floats
    shapes: Floats
    local: Floats


@dataclass(frozen=True)
class Described:
    """What is measured of an observation, before anything is compared. `cells`, each (variable, time): |z|, the size of
    what the components do not hold, residuals; `tops`, each (time,): of their steps."""

    cells: tuple[Floats, ...]
    tops: tuple[Floats, ...]
    summary: Summary


class FeatureExtractor:
    """Describes observations."""

    def __init__(self, kernels: Convolutions, linear: Linear, correlations: Correlations, length: int) -> None:
        self.kernels, self.linear = kernels, linear
        self.correlations, self.windows = correlations, Windows(length)

    @classmethod
    def fit(cls, parts: Sequence[Observations], kernels: int, seed: int) -> Self:
        convolutions = Convolutions.fit(parts[0], kernels, seed)
        linear = Linear.fit(part.read(i) for part in parts for i in range(len(part)))
        return cls(convolutions, linear, Correlations.choose(len(parts[0].names), seed), parts[0].length)

    def __call__(self, z: Floats, residuals: Residuals) -> Described:
        cells = (np.abs(z), np.abs(self.linear.apart(z)), *residuals)
        found = tuple(tops(one) for one in cells)
        summary = Summary(
            np.array([height(one) for one in found]),
            np.array([np.fmax.reduce(one) for one in found]),
            self.correlations(z),
            self.kernels(z),
            self.windows.features(z, self.linear.unexplained(z)),
        )
        return Described(cells, found, summary)


@dataclass(frozen=True)
class FittedViews:
    """What was learnt from one selection of training observations."""

    extremes: tuple[Extremes, ...]
    correlations: Neighbours
    shapes: Neighbours
    local: Local

    @classmethod
    def fit(cls, found: Sequence[Summary], entities: list[str], kept: Booleans, neighbours: int) -> Self:
        """From summaries of training observations, of which `kept` count as normal."""
        heights = np.stack([one.heights for one in found])
        return cls(
            tuple(Extremes.fit(one, entities) for one in heights.T),
            Neighbours.fit(np.stack([one.correlations for one in found]), entities, kept, neighbours),
            Neighbours.fit(np.stack([one.shapes for one in found]), entities, kept, neighbours),
            Local.fit(np.stack([one.local for one in found]), entities, kept),
        )

    def adapt(self, entity: str, found: Sequence[Summary]) -> None:
        """Learn what is usual for an entity from summaries of its history."""
        heights = np.stack([one.heights for one in found])
        for one, mine in zip(self.extremes, heights.T, strict=True):
            one.adapt(mine, [entity] * len(found))
        self.correlations.standard.adapt(entity, np.stack([one.correlations for one in found]))
        self.shapes.standard.adapt(entity, np.stack([one.shapes for one in found]))
        self.local.adapt(entity, np.stack([one.local for one in found]))

    def score(self, entity: str, one: Summary) -> Floats:
        """s of each view, from the summary of an observation."""
        extremes = [float(known(entity, most)) for known, most in zip(self.extremes, one.highest, strict=True)]
        whole = [self.correlations.judge(entity, one.correlations)[0], self.shapes.judge(entity, one.shapes)[0]]
        stretches = local.scores(self.local(entity, one.local)).max(axis=1)
        return np.array([*extremes, *np.log(NEAR + np.array(whole)), *stretches])


class FusedScorer:
    """Extreme values, or variables out of step, or unusual shapes, or stretches that are too loud or too quiet."""

    @dataclass(frozen=True)
    class Config:
        """`kernels`: random convolutions of each dilation. `neighbours`: how many of the nearest count. `keep`: the
        share of the training part that counts as normal."""

        kernels: int = 128
        neighbours: int = 5
        keep: float = 0.8

        def __post_init__(self) -> None:
            require(self.kernels >= 1, "kernels", "at least 1", self.kernels)
            require(self.neighbours >= 1, "neighbours", "at least 1", self.neighbours)
            require(0 < self.keep <= 1, "keep", "above 0 and at most 1", self.keep)

    def __init__(self, ruler: FeatureExtractor, known: FittedViews, fusion: Fusion, names: Sequence[str]) -> None:
        self.ruler, self.known, self.fusion, self.names = ruler, known, fusion, tuple(names)

    @classmethod
    def fit(
        cls,
        parts: Sequence[Observations],
        config: FusedScorer.Config,
        seed: int,
        names: Sequence[str] = (),
        model: Model | None = None,
    ) -> Self:
        """From normalised observations, contaminated as they are, and the residuals that `model` leaves of them, which
        are called `names`."""
        some = described(parts, config)
        ruler = FeatureExtractor.fit(some, config.kernels, seed)
        found = list(chain.from_iterable(_summaries(ruler, part, model) for part in some))
        entities = [part.entity(i) for part in some for i in range(len(part))]
        kept = np.ones(len(found), dtype=bool)
        # The tails of few scores tell little of the views. Shapes are compared as a whole, and need fewest to be known.
        trust = np.where(np.array(names_of(names)) == "shape", 1 + FEW / len(found), 1.0)
        for _ in range(2):
            known = FittedViews.fit(found, entities, kept, config.neighbours)
            scores = np.stack([known.score(name, one) for name, one in zip(entities, found, strict=True)])
            fusion = Fusion.fit(scores, trust)
            kept = lowest(fusion(scores), config.keep)
        return cls(ruler, known, fusion, names)

    def adapt(self, history: Observations, model: Model | None = None) -> None:
        """What is usual for the entities of a normalised history, if it is long enough."""
        for mine in history.by_series():
            if len(mine) >= LEAST_HISTORY:
                found = list(_summaries(self.ruler, history.take(np.asarray(mine)), model))
                self.known.adapt(history.entity(mine[0]), found)

    def scores(self, observations: Observations, model: Model | None = None) -> Floats:
        """Of each normalised observation, without what explains it."""
        found = _summaries(self.ruler, observations, model)
        rows = [self.known.score(observations.entity(i), one) for i, one in enumerate(found)]
        return self.fusion(np.stack(rows))

    def evidence(self, entity: str, z: Floats, residuals: Residuals = (), expected: Floats | None = None) -> Evidence:
        """Of one normalised observation (variable, time)."""
        found, known, measured = self.ruler(z, residuals), self.known, np.isfinite(z)
        extremes = [one(entity, steps) for one, steps in zip(known.extremes, found.tops, strict=True)]
        judged = [
            known.correlations.judge(entity, found.summary.correlations),
            known.shapes.judge(entity, found.summary.shapes),
        ]
        whole = [float(np.log(NEAR + score)) for score, _ in judged]
        u = known.local(entity, found.summary.local)
        stretches = self.ruler.windows.spread(local.scores(u), z.shape[1])
        fused = self.fusion.fuse([*extremes, *whole, *stretches], np.asarray(measured.any(axis=0)))
        blamed = self._contributions(entity, found, [apart for _, apart in judged], u)
        return Evidence(
            fused.score,
            dict(zip(names_of(self.names), fused.views, strict=True)),
            fused.steps,
            np.where(measured, blamed, np.nan).astype(np.float32),
            fused.causes,
            expected,
        )

    def _contributions(self, entity: str, found: Described, judged: list[Floats], u: Floats) -> Floats:
        """(variable, time) the weighted sum over the views of how many times what is typical for an observation,
        squared, so that what is typical weighs little."""
        ruler, (variables, length) = self.ruler, found.cells[0].shape
        cells = [one / known.typical(entity) for one, known in zip(found.cells, self.known.extremes, strict=True)]
        owners = (ruler.correlations.owners, ruler.kernels.owners)
        cells += [blame(one, pairs, variables)[:, None] for one, pairs in zip(judged, owners, strict=True)]
        cells += list(ruler.windows.spread(u, length))
        typical = np.exp(self.fusion.middle)
        total = np.zeros((variables, length))
        for one, usual, weight in zip(cells, typical, self.fusion.weight, strict=True):
            total = total + weight * np.square(np.minimum(np.nan_to_num(one) / usual, MOST_BLAME))
        return total

    def state(self) -> dict[str, NDArray[Any]]:
        known, ruler = self.known, self.ruler
        stepwise = zip((*STEPWISE, *self.names), known.extremes, strict=True)
        extremes = dict(pair for name, one in stepwise for pair in one.state(f"extremes.{name}").items())
        whole = known.correlations.state("correlations") | known.shapes.state("shapes")
        learnt = ruler.kernels.state() | ruler.linear.state() | ruler.correlations.state() | self.fusion.state()
        return extremes | whole | known.local.state("local") | learnt

    @classmethod
    def restore(
        cls,
        state: Mapping[str, NDArray[Any]],
        config: FusedScorer.Config,
        variables: int,
        length: int,
        names: Sequence[str] = (),
    ) -> Self:
        correlations = Correlations.restore(state, variables)
        ruler = FeatureExtractor(Convolutions.restore(state, variables), Linear.restore(state), correlations, length)
        known = FittedViews(
            tuple(Extremes.restore(state, f"extremes.{name}") for name in (*STEPWISE, *names)),
            Neighbours.restore(state, "correlations", config.neighbours),
            Neighbours.restore(state, "shapes", config.neighbours),
            Local.restore(state, "local"),
        )
        return cls(ruler, known, Fusion.restore(state), names)


def described(parts: Sequence[Observations], config: FusedScorer.Config) -> list[Observations]:
    """What `FusedScorer.fit` looks at of each part."""
    variables, windows = len(parts[0].names), len(Windows(parts[0].length))
    pairs = min(variables * (variables - 1) // 2, MOST_PAIRS)
    features = max(pairs, 6 * config.kernels, 3 * variables * windows)
    return [affordable(part, 2 * features) for part in parts]


def _summaries(ruler: FeatureExtractor, part: Observations, model: Model | None) -> Iterator[Summary]:
    """One by one, so that no two observations and their residuals are held."""
    residuals: Iterable[Residuals] = repeat(()) if model is None else model(part.read(i) for i in range(len(part)))
    for i, cells in zip(range(len(part)), residuals, strict=False):
        yield ruler(part.read(i), cells).summary
