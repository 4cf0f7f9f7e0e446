"""Isolation forest (Liu, Ting, Zhou 2008): observations that few random cuts separate from the rest.

    name        meaning
    features    mean, minimum, maximum, standard deviation and change of each variable, standardised for the entity
    path        cuts on the way to a leaf, plus those expected to separate the training observations in that leaf
    score       2 ** (-mean path / expected path), between 0 and 1

scikit-learn grows the trees. They are kept as arrays (tree, node), which can be saved without pickle and followed all
at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import IsolationForest

from tsadc.config import require
from tsadc.detectors.classical.base import Extent, WindowDetector
from tsadc.detectors.ensemble.features import FeatureMap, Standardiser
from tsadc.detectors.settings import Common
from tsadc.series import Floats, Observations

STORED = ("feature", "cut", "left", "right", "path", "usual")
OBSERVATIONS_PER_TREE = 256  # as in the paper


class Forest(WindowDetector["Forest.Config"]):
    """Detect observations that are easy to separate from the training observations.

    The forest gives no contributions. Those of a variable are how far its features are from usual.

    Attributes
    ----------
    trees_ : dict of ndarray
        The nodes (tree, node) of all trees, see `as_arrays`.
    """

    name: ClassVar[str] = "isolation-forest"
    view_names: ClassVar[tuple[str, ...]] = ("isolation",)

    @dataclass(frozen=True)
    class Config(Common):
        """Settings of this detector.

        Parameters
        ----------
        trees : int
            Number of trees, each grown from at most 256 observations.
        """

        trees: int = 200

        def __post_init__(self) -> None:
            super().__post_init__()
            require(self.trees >= 1, "trees", "at least 1", self.trees)

    def _feature_map(self, train: Observations) -> FeatureMap:
        return Extent(len(train.names))

    def _fit_features(self, features: Floats, entities: list[str]) -> None:
        self.standardiser_ = Standardiser.fit(features, entities, np.ones(len(features), dtype=bool))
        u = np.stack([self.standardiser_(entity, row) for row, entity in zip(features, entities, strict=True)])
        seed = int(np.random.default_rng(self.settings.seed).integers(2**31))  # scikit-learn takes 32 bits
        size = min(OBSERVATIONS_PER_TREE, len(u))
        forest = IsolationForest(n_estimators=self.settings.trees, max_samples=size, random_state=seed)
        self.trees_ = as_arrays(forest.fit(u.astype(np.float32)))

    def _score_features(self, entity: str, features: Floats) -> tuple[float, Floats]:
        u = self.standardiser_(entity, features)
        return forest_score(self.trees_, u.astype(np.float32)), np.abs(u)

    def _state(self) -> dict[str, NDArray[Any]]:
        return {f"trees.{name}": self.trees_[name] for name in STORED} | self.standardiser_.state("standard")

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.features_ = Extent(len(self.variables_))
        self.standardiser_ = Standardiser.restore(state, "standard")
        self.trees_ = {name: state[f"trees.{name}"] for name in STORED}


def as_arrays(forest: IsolationForest) -> dict[str, NDArray[Any]]:
    """Return each tree as a row of nodes; a leaf is its own child."""
    trees = [estimator.tree_ for estimator in forest.estimators_]
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
        out["path"][row, : tree.node_count] = depth + expected_path(tree.n_node_samples)
    out["usual"] = expected_path(np.array([forest.max_samples_]))
    return out


def forest_score(trees: Mapping[str, NDArray[Any]], u: NDArray[np.float32]) -> float:
    """Return the score of one observation: follow all trees from the root to a leaf."""
    row = np.arange(len(trees["feature"]))
    node, before = np.zeros_like(row), np.full_like(row, -1)
    while (node != before).any():
        before = node
        below = u[trees["feature"][row, node]] <= trees["cut"][row, node]
        node = np.where(below, trees["left"][row, node], trees["right"][row, node])
    return float(2 ** (-trees["path"][row, node].mean() / trees["usual"][0]))


def expected_path(count: NDArray[Any]) -> Floats:
    """Return the mean path to a leaf in a random tree of `count` observations (eq. 1 of the paper)."""
    many = np.maximum(count, 3).astype(np.float64)
    path = 2 * (np.log(many - 1) + np.euler_gamma) - 2 * (many - 1) / many
    return np.where(count > 2, path, np.where(count == 2, 1.0, 0.0))
