"""Sub-sequence PCA: what a few components do not explain of a window of all variables.

    name         meaning
    center       (variable x time,) mean of the training windows
    components   (component, variable x time) orthonormal directions of largest variance
    expected     the window, projected onto them; missing values are taken to be the mean
    window       Euclidean distance from it

Unlike `pca`, which judges each row by itself, it knows how rows follow each other. As singular spectrum analysis for
detection: Moskvina, Zhigljavsky 2003.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tsadc.config import require
from tsadc.detectors.classical.base import SubsequenceDetector
from tsadc.detectors.ensemble.linear import EXPLAINED
from tsadc.series import Floats


class SubsequencePCA(SubsequenceDetector["SubsequencePCA.Config"]):
    """Detect sub-sequences of all variables that are no mixture of the usual ones.

    Attributes
    ----------
    center_ : ndarray of shape (n_variables x n_rows,)
        Mean of the training windows, in z units.
    components_ : ndarray of shape (n_components, n_variables x n_rows)
        Orthonormal directions of largest variance.
    """

    name: ClassVar[str] = "sub-pca"
    view_names: ClassVar[tuple[str, ...]] = ("pattern",)

    @dataclass(frozen=True)
    class Config(SubsequenceDetector.Config):
        """Settings of this detector.

        Parameters
        ----------
        explained : float
            Share of the variance that the components explain, at least; one direction is always left unexplained.
        """

        window: int = 20
        explained: float = EXPLAINED

        def __post_init__(self) -> None:
            super().__post_init__()
            require(0 < self.explained < 1, "explained", "between 0 and 1, both excluded", self.explained)

    def _fit_windows(self, windows: Floats) -> None:
        self.center_ = windows.mean(axis=0)
        _, values, directions = np.linalg.svd(windows - self.center_, full_matrices=False)
        share = np.cumsum(np.square(values)) / max(float(np.square(values).sum()), np.finfo(float).tiny)
        count = min(int(np.searchsorted(share, self.settings.explained)) + 1, len(values) - 1)
        self.components_ = directions[:count].copy()

    def _expected(self, windows: Floats, measured: Floats) -> Floats:
        centred = (windows - self.center_) * measured
        expected: Floats = self.center_ + centred @ self.components_.T @ self.components_
        return expected

    def _state(self) -> dict[str, NDArray[Any]]:
        return {"center": self.center_, "components": self.components_}

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.center_, self.components_ = state["center"], state["components"]
