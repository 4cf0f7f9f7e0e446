"""Short stretches of an observation that are too loud or too quiet, too rough or too smooth, for a variable.

name          meaning
windows       a tenth of an observation each, every half window, and one at the very end
energy        log standard deviation of each variable
conditional   log root mean square of what the other variables do not explain of it
roughness     log root mean square change from step to step of the latter
features      (kind, variable, window); NaN where less than half of the window was measured
u             how far a feature is from usual for the entity, two-sided
s             (window,) log(.1 + mean of the 3 largest |u| of a window)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tsadc.detectors.ensemble.standard import LEAST_HISTORY, Standard
from tsadc.detectors.pooling import top_mean
from tsadc.series import Booleans, Floats

KINDS = ("energy", "conditional", "roughness")
PART = 10  # windows in an observation, side by side
LEAST_WINDOW = 8
SILENCE = 1e-3  # in z units
VARIABLES = 3
SOFT = 0.1


class Windows:
    """Where the windows of an observation lie."""

    def __init__(self, length: int) -> None:
        self.width = max(length // PART, LEAST_WINDOW)
        last = length - self.width
        self.starts = np.unique(np.append(np.arange(0, last + 1, self.width // 2), last))

    def __len__(self) -> int:
        return len(self.starts)

    def features(self, z: Floats, unexplained: Floats) -> Floats:
        """Of an observation (variable, time) and what is not explained of it."""
        change = np.diff(unexplained, axis=1, prepend=np.nan)
        spread, rest, rough = self._sizes(z, centred=True), self._sizes(unexplained), self._sizes(change)
        return np.asarray(np.log(SILENCE + np.stack([spread, rest, rough])))

    def _sizes(self, x: Floats, centred: bool = False) -> Floats:
        """(variable, window) root mean square over the measured steps, about the mean if `centred`."""
        cells = np.lib.stride_tricks.sliding_window_view(x, self.width, axis=1)[:, self.starts]
        measured = np.isfinite(cells)
        count = measured.sum(axis=2)
        cells = np.where(measured, cells, 0).astype(np.float64)
        if centred:
            mean = cells.sum(axis=2) / np.maximum(count, 1)
            cells = np.where(measured, cells - mean[:, :, None], 0)
        size = np.sqrt(np.square(cells).sum(axis=2) / np.maximum(count, 1))
        return np.where(2 * count >= self.width, size, np.nan)

    def spread(self, values: Floats, length: int) -> Floats:
        """Values (..., window) to steps (..., time): of each step the largest of its windows."""
        out = np.full((*values.shape[:-1], length), -np.inf)
        for i, start in enumerate(self.starts):
            part = out[..., start : start + self.width]
            np.maximum(part, values[..., i, None], out=part)
        return out


class Local:
    """What is usual of every kind and variable, whatever the window."""

    def __init__(self, standard: Standard) -> None:
        self.standard = standard

    @classmethod
    def fit(cls, features: Floats, entities: Sequence[str], kept: Booleans) -> Self:
        """From features (observation, kind, variable, window) of training observations, of which `kept` are normal."""
        windows = features.shape[-1]
        owners = [name for name in entities for _ in range(windows)]
        return cls(Standard.fit(_rows(features), owners, np.repeat(kept, windows), windows * LEAST_HISTORY))

    def adapt(self, entity: str, features: Floats) -> None:
        """Learn what is usual for an entity from features (observation, kind, variable, window) of its history."""
        self.standard.adapt(entity, _rows(features))

    def __call__(self, entity: str, features: Floats) -> Floats:
        """|u| (kind, variable, window)."""
        rows = self.standard(entity, _rows(features[None]))
        return np.abs(rows.T).reshape(features.shape)

    def state(self, prefix: str) -> dict[str, NDArray[Any]]:
        return self.standard.state(prefix)

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]], prefix: str) -> Self:
        return cls(Standard.restore(state, prefix))


def scores(u: Floats) -> Floats:
    """|u| (kind, variable, window) -> s (kind, window)."""
    return np.log(SOFT + np.stack([top_mean(one, VARIABLES) for one in u]).astype(np.float64))


def _rows(features: Floats) -> Floats:
    """(observation, kind, variable, window) -> (observation and window, kind and variable)."""
    number, kinds, variables, windows = features.shape
    return features.transpose(0, 3, 1, 2).reshape(number * windows, kinds * variables)
