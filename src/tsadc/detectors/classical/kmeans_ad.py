"""KMeansAD: sub-sequences far from the centres of a clustering (Yairi, Kato, Hori 2001; defaults of TSB-AD).

    name       meaning
    centers    (cluster, variable x time) k-means of the training windows of all variables, in z units
    expected   the centre nearest to the window over its measured values
    window     Euclidean distance from it

Differs from TSB-AD: it learns from the history alone, from at most 5,000 evenly spaced windows, and windows do not
cross the border of an observation.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from tsadc.config import require
from tsadc.detectors.classical.base import SubsequenceDetector
from tsadc.series import Floats

WINDOWS_PER_CLUSTER = 10  # fewer clusters if there are fewer training windows


class KMeansAD(SubsequenceDetector["KMeansAD.Config"]):
    """Detect sub-sequences of all variables that are unlike the typical ones.

    Attributes
    ----------
    centers_ : ndarray of shape (n_clusters, n_variables x n_rows)
        Centres of the training windows, in z units.
    """

    name: ClassVar[str] = "kmeans-ad"
    view_names: ClassVar[tuple[str, ...]] = ("pattern",)

    @dataclass(frozen=True)
    class Config(SubsequenceDetector.Config):
        """Settings of this detector.

        Parameters
        ----------
        clusters : int
            Number of clusters; one per 10 training windows if that is less.
        """

        window: int = 20
        clusters: int = 20

        def __post_init__(self) -> None:
            super().__post_init__()
            require(self.clusters >= 1, "clusters", "at least 1", self.clusters)

    def _fit_windows(self, windows: Floats) -> None:
        seed = int(np.random.default_rng(self.settings.seed).integers(2**31))  # scikit-learn takes 32 bits
        clusters = max(1, min(self.settings.clusters, len(windows) // WINDOWS_PER_CLUSTER))
        # The last bits of a centre depend on the number of OpenMP threads.
        with warnings.catch_warnings(), threadpool_limits(1, "openmp"):
            warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct windows than clusters
            self.centers_ = np.asarray(KMeans(clusters, n_init=1, random_state=seed).fit(windows).cluster_centers_)

    def _expected(self, windows: Floats, measured: Floats) -> Floats:
        squares = measured @ np.square(self.centers_).T - 2 * windows @ self.centers_.T  # distances, but for a constant
        nearest: Floats = self.centers_[squares.argmin(axis=1)]
        return nearest

    def _state(self) -> dict[str, NDArray[Any]]:
        return {"centers": self.centers_}

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.centers_ = state["centers"]
