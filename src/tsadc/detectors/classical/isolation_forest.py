"""Isolation forest (Liu, Ting, Zhou 2008) on features of the observation: how few random cuts set it apart.

    name        meaning
    features    mean, standard deviation, extremes and change of each variable, standardised for the entity
    path        cuts on the way to a leaf, plus those that would set its training observations apart
    score       2 ** (-mean path / usual path), between 0 and 1

scikit-learn grows the trees. They are kept as arrays (tree, node), which can be saved without pickle and followed
together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import IsolationForest

from tsadc.config import require
from tsadc.detectors.classical.window import WindowDetector
from tsadc.detectors.ensemble.features import Extent, Features
from tsadc.detectors.ensemble.standard import Standard
from tsadc.detectors.settings import Common
from tsadc.series import Floats, Observations

PARTS = ("feature", "cut", "left", "right", "path", "usual")


@dataclass(frozen=True)
class Config(Common):
    """`trees`: how many are grown, each from at most 256 observations."""

    trees: int = 200

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.trees >= 1, "trees", "at least 1", self.trees)


class Forest(WindowDetector[Config]):
    """Easy to set apart from the training observations. A variable is blamed for how far its features are from usual:
    the forest itself does not say."""

    name: ClassVar[str] = "isolation-forest"
    view_names: ClassVar[tuple[str, ...]] = ("isolation",)
    Config: ClassVar[type[Config]] = Config

    def _describe(self, train: Observations) -> Features:
        return Extent(len(train.names))

    def _learn(self, features: Floats, entities: list[str]) -> None:
        self.standard_ = Standard.fit(features, entities, np.ones(len(features), dtype=bool))
        u = np.stack([self.standard_(name, row) for row, name in zip(features, entities, strict=True)])
        seed = np.random.default_rng(self.settings.seed).integers(2**31)  # scikit-learn takes 32 bits
        grown = IsolationForest(n_estimators=self.settings.trees, max_samples=min(256, len(u)), random_state=int(seed))
        self.trees_ = as_arrays(grown.fit(u.astype(np.float32)))

    @property
    def _usual(self) -> Standard:
        return self.standard_

    def _judge(self, entity: str, features: Floats) -> tuple[float, Floats]:
        u = self.standard_(entity, features)
        return follow(self.trees_, u.astype(np.float32)), np.abs(u)

    def _state(self) -> dict[str, NDArray[Any]]:
        return {f"trees.{name}": self.trees_[name] for name in PARTS} | self.standard_.state("standard")

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.features_ = Extent(len(self.variables_))
        self.standard_ = Standard.restore(state, "standard")
        self.trees_ = {name: state[f"trees.{name}"] for name in PARTS}


def as_arrays(forest: IsolationForest) -> dict[str, NDArray[Any]]:
    """Every tree as a row of nodes; a leaf leads to itself."""
    trees = [one.tree_ for one in forest.estimators_]
    most = max(tree.node_count for tree in trees)
    itself = np.tile(np.arange(most), (len(trees), 1))
    out: dict[str, NDArray[Any]] = {"feature": np.zeros_like(itself), "left": itself.copy(), "right": itself.copy()}
    out |= {"cut": np.zeros(itself.shape), "path": np.zeros(itself.shape)}
    for row, tree in enumerate(trees):
        depth = np.zeros(tree.node_count)
        inner = np.flatnonzero(tree.children_left >= 0)
        for node in inner:  # parents come before their children
            for children in (tree.children_left, tree.children_right):
                depth[children[node]] = depth[node] + 1
        out["feature"][row, inner], out["cut"][row, inner] = tree.feature[inner], tree.threshold[inner]
        out["left"][row, inner], out["right"][row, inner] = tree.children_left[inner], tree.children_right[inner]
        out["path"][row, : tree.node_count] = depth + usual_path(tree.n_node_samples)
    out["usual"] = usual_path(np.array([forest.max_samples_]))
    return out


def follow(trees: Mapping[str, NDArray[Any]], u: NDArray[np.float32]) -> float:
    """The score of one observation."""
    row = np.arange(len(trees["feature"]))
    node, before = np.zeros_like(row), np.full_like(row, -1)
    while (node != before).any():
        before = node
        below = u[trees["feature"][row, node]] <= trees["cut"][row, node]
        node = np.where(below, trees["left"][row, node], trees["right"][row, node])
    return float(2 ** (-trees["path"][row, node].mean() / trees["usual"][0]))


def usual_path(count: NDArray[Any]) -> Floats:
    """Eq. 1 of the paper: the mean path to a leaf in a random tree of `count` observations."""
    many = np.maximum(count, 3).astype(np.float64)
    found = 2 * (np.log(many - 1) + np.euler_gamma) - 2 * (many - 1) / many
    return np.where(count > 2, found, np.where(count == 2, 1.0, 0.0))
