"""Seven views of an observation, each on its own a good detector for some data and a poor one for other, as one.

    name          log score s of the view
    deviation     extremes of |z|, of every step
    combination   extremes of what a few principal components do not hold of a step
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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tsadc.config import require
from tsadc.detectors.base import Common, Detector, Fitting
from tsadc.detectors.result import Evidence
from tsadc.detectors.head import local
from tsadc.detectors.head.convolutions import Convolutions
from tsadc.detectors.head.extremes import Extremes, height, tops
from tsadc.detectors.head.features import Correlations, blame
from tsadc.detectors.head.fusion import Fusion
from tsadc.detectors.head.linear import Linear
from tsadc.detectors.head.local import Local, Windows
from tsadc.detectors.head.neighbours import Neighbours, lowest
from tsadc.detectors.head.standard import LEAST_HISTORY
from tsadc.detectors.views.window import spread
from tsadc.series import Booleans, Floats, Observations

VIEWS = ("deviation", "combination", "correlation", "shape", *local.KINDS)
NEAR = 0.02  # distances below this are none
MOST_BLAME = 1e6


@dataclass(frozen=True)
class Config(Common):
    """`kernels`: random convolutions of each dilation. `neighbours`: how many of the nearest count. `keep`: the share
    of the training part that counts as normal."""

    kernels: int = 128
    neighbours: int = 5
    keep: float = 0.8

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.kernels >= 1, "kernels", "at least 1", self.kernels)
        require(self.neighbours >= 1, "neighbours", "at least 1", self.neighbours)
        require(0 < self.keep <= 1, "keep", "above 0 and at most 1", self.keep)


@dataclass(frozen=True)
class Summary:
    """What is remembered of a training observation. `heights` and `highest` (2,): of the steps, by |z| and by what the
    components do not hold."""

    heights: Floats
    highest: Floats
    correlations: Floats
    shapes: Floats
    local: Floats


@dataclass(frozen=True)
class Described:
    """What is measured of an observation, before anything is compared. `cells` (variable, time): |z| and the size of
    what the components do not hold; `tops` (time,): of their steps."""

    cells: tuple[Floats, Floats]
    tops: tuple[Floats, Floats]
    summary: Summary


class Ruler:
    """Describes observations."""

    def __init__(self, kernels: Convolutions, linear: Linear, variables: int, length: int) -> None:
        self.kernels, self.linear = kernels, linear
        self.correlations, self.windows = Correlations(variables), Windows(length)

    def __call__(self, z: Floats) -> Described:
        cells = (np.abs(z), np.abs(self.linear.apart(z)))
        found = (tops(cells[0]), tops(cells[1]))
        summary = Summary(
            np.array([height(one) for one in found]),
            np.array([np.fmax.reduce(one) for one in found]),
            self.correlations(z),
            self.kernels(z),
            self.windows.features(z, self.linear.unexplained(z)),
        )
        return Described(cells, found, summary)


@dataclass(frozen=True)
class Known:
    """What was learnt from one selection of training observations."""

    extremes: tuple[Extremes, Extremes]
    correlations: Neighbours
    shapes: Neighbours
    local: Local

    @classmethod
    def fit(cls, found: Sequence[Summary], entities: list[str], kept: Booleans, neighbours: int) -> Known:
        """From summaries of training observations, of which `kept` count as normal."""
        return cls(
            (
                Extremes.fit([float(one.heights[0]) for one in found], entities),
                Extremes.fit([float(one.heights[1]) for one in found], entities),
            ),
            Neighbours.fit(np.stack([one.correlations for one in found]), entities, kept, neighbours),
            Neighbours.fit(np.stack([one.shapes for one in found]), entities, kept, neighbours),
            Local.fit(np.stack([one.local for one in found]), entities, kept),
        )

    def adapt(self, entity: str, found: Sequence[Summary]) -> None:
        """Learn what is usual for an entity from summaries of its history."""
        for i, one in enumerate(self.extremes):
            one.adapt([float(each.heights[i]) for each in found], [entity] * len(found))
        self.correlations.standard.adapt(entity, np.stack([one.correlations for one in found]))
        self.shapes.standard.adapt(entity, np.stack([one.shapes for one in found]))
        self.local.adapt(entity, np.stack([one.local for one in found]))

    def score(self, entity: str, one: Summary) -> Floats:
        """s of each view, from the summary of an observation."""
        extremes = [float(known(entity, one.highest[i])) for i, known in enumerate(self.extremes)]
        whole = [self.correlations.judge(entity, one.correlations)[0], self.shapes.judge(entity, one.shapes)[0]]
        stretches = local.scores(self.local(entity, one.local)).max(axis=1)
        return np.array([*extremes, *np.log(NEAR + np.array(whole)), *stretches])


class Views(Detector):
    """Extreme values, or variables out of step, or unusual shapes, or stretches that are too loud or too quiet."""

    name: ClassVar[str] = "views"
    views: ClassVar[tuple[str, ...]] = VIEWS
    Config: ClassVar[type[Config]] = Config

    def _fit(self, train: Observations, validation: Observations, fitting: Fitting) -> None:
        variables, length = len(train.names), train.length
        features = max(
            variables * (variables - 1) // 2, 6 * self.settings.kernels, 3 * variables * len(Windows(length))
        )
        parts = [spread(part, 2 * features) for part in (train, validation)]
        self.ruler_ = Ruler(
            Convolutions.fit(train, self.settings.kernels, self.settings.seed),
            Linear.fit(part.read(i) for part in parts for i in range(len(part))),
            variables,
            length,
        )
        found = [self.ruler_(part.read(i)).summary for part in parts for i in range(len(part))]
        entities = [part.entity(i) for part in parts for i in range(len(part))]
        kept = np.ones(len(found), dtype=bool)
        for _ in range(2):
            self.known_ = Known.fit(found, entities, kept, self.settings.neighbours)
            scores = np.stack([self.known_.score(name, one) for name, one in zip(entities, found, strict=True)])
            self.fusion_ = Fusion.fit(scores)
            kept = lowest(self.fusion_(scores), self.settings.keep)

    def _adapt(self, history: Observations) -> None:
        """What is usual for the entities of a normalised history, if it is long enough."""
        for mine in history.by_series():
            if len(mine) >= LEAST_HISTORY:
                found = [self.ruler_(history.read(i)).summary for i in mine]
                self.known_.adapt(history.entity(mine[0]), found)

    def _score(self, observations: Observations) -> Iterator[Evidence]:
        for i in range(len(observations)):
            yield self._evidence_of(observations.entity(i), observations.read(i))

    def _evidence_of(self, entity: str, z: Floats) -> Evidence:
        found, known, measured = self.ruler_(z), self.known_, np.isfinite(z)
        extremes = [one(entity, steps) for one, steps in zip(known.extremes, found.tops, strict=True)]
        judged = [
            known.correlations.judge(entity, found.summary.correlations),
            known.shapes.judge(entity, found.summary.shapes),
        ]
        whole = [float(np.log(NEAR + score)) for score, _ in judged]
        u = known.local(entity, found.summary.local)
        stretches = self.ruler_.windows.spread(local.scores(u), z.shape[1])
        fused = self.fusion_.fuse([*extremes, *whole, *stretches], np.asarray(measured.any(axis=0)))
        blamed = self._contributions(entity, found, [apart for _, apart in judged], u)
        return Evidence(
            fused.score,
            dict(zip(VIEWS, fused.views, strict=True)),
            fused.steps,
            np.where(measured, blamed, np.nan).astype(np.float32),
            fused.causes,
        )

    def _contributions(self, entity: str, found: Described, judged: list[Floats], u: Floats) -> Floats:
        """(variable, time) the weighted sum over the views of how many times what is typical for an observation,
        squared, so that what is typical weighs little."""
        ruler, (variables, length) = self.ruler_, found.cells[0].shape
        cells = [one / known.typical(entity) for one, known in zip(found.cells, self.known_.extremes, strict=True)]
        owners = (ruler.correlations.owners, ruler.kernels.owners)
        cells += [blame(one, pairs, variables)[:, None] for one, pairs in zip(judged, owners, strict=True)]
        cells += list(ruler.windows.spread(u, length))
        typical = np.exp(self.fusion_.middle)
        total = np.zeros((variables, length))
        for one, usual, weight in zip(cells, typical, self.fusion_.weight, strict=True):
            total = total + weight * np.square(np.minimum(one / usual, MOST_BLAME))
        return total

    def _state(self) -> dict[str, NDArray[Any]]:
        known, ruler = self.known_, self.ruler_
        extremes = known.extremes[0].state("deviation") | known.extremes[1].state("combination")
        whole = known.correlations.state("correlations") | known.shapes.state("shapes")
        learnt = ruler.kernels.state() | ruler.linear.state() | self.fusion_.state()
        return extremes | whole | known.local.state("local") | learnt

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        count, variables = self.settings.neighbours, len(self.variables_)
        kernels, linear = Convolutions.restore(state, variables), Linear.restore(state)
        self.ruler_ = Ruler(kernels, linear, variables, self.settings.length)
        self.fusion_ = Fusion.restore(state)
        self.known_ = Known(
            (Extremes.restore(state, "deviation"), Extremes.restore(state, "combination")),
            Neighbours.restore(state, "correlations", count),
            Neighbours.restore(state, "shapes", count),
            Local.restore(state, "local"),
        )
