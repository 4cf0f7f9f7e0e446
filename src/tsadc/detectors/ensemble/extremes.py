"""How far out a step is, against how far out the steps of its entity usually reach.

    name         meaning
    cells        (variable, time) what is judged, >= 0: |z| itself, or a residual of any model
    s            (time,) log(.1 + mean of the 3 largest cells of a step) - reach of the entity
    reach        log(.1 + height), the median height of the entity's observations
    height       the value that 1 % of the steps of an observation exceed

Entities differ in how spiky they are, whatever their scale: a peak of 20 is news from one machine and a daily event on
another. The median over observations minds neither incidents in the history nor short ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tsadc.detectors.ensemble.standard import LEAST_HISTORY, decode, encode
from tsadc.detectors.pooling import top_mean
from tsadc.series import Floats

VARIABLES = 3
SOFT = 0.1  # in z units: differences below this say nothing
SHARE = 0.99


class Extremes:
    """The reach of each entity with at least 8 observations, and that of all together for others."""

    def __init__(self, reach: float, entities: Mapping[str, float]) -> None:
        self.reach, self.entities = reach, dict(entities)

    @classmethod
    def fit(cls, heights: Sequence[float], entities: Sequence[str]) -> Self:
        """From the heights of training observations and their entities."""
        known = cls(_reach(np.asarray(heights)) or 0.0, {})
        known.adapt(heights, entities)
        return known

    def adapt(self, heights: Sequence[float], entities: Sequence[str]) -> None:
        """Learn the reach of further entities, or of known ones anew."""
        owner, found = np.array(entities), np.array(heights)
        for name in dict.fromkeys(entities):
            mine = found[owner == name]
            reach = _reach(mine)
            if len(mine) >= LEAST_HISTORY and reach is not None:
                self.entities[name] = reach

    def __call__(self, entity: str, steps: Floats) -> Floats:
        """s from the `tops` of an observation of `entity`, or some of them; NaN where nothing was measured."""
        return np.log(SOFT + steps.astype(np.float64)) - self.entities.get(entity, self.reach)

    def typical(self, entity: str) -> float:
        """The height that is usual for the entity."""
        return float(np.exp(self.entities.get(entity, self.reach)))

    def state(self, prefix: str) -> dict[str, NDArray[Any]]:
        return {
            f"{prefix}.reach": np.array([self.reach]),
            f"{prefix}.entities": encode(list(self.entities)),
            f"{prefix}.reaches": np.array(list(self.entities.values()), dtype=np.float64),
        }

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]], prefix: str) -> Self:
        names = decode(state[f"{prefix}.entities"])
        reaches = [float(reach) for reach in state[f"{prefix}.reaches"]]
        return cls(float(state[f"{prefix}.reach"][0]), dict(zip(names, reaches, strict=True)))


def tops(cells: Floats) -> Floats:
    """Of each step the mean of its 3 largest cells; NaN where nothing was measured."""
    return top_mean(cells, VARIABLES)


def height(steps: Floats) -> float:
    """Of an observation, from its `tops`; NaN if it has none."""
    known = steps[np.isfinite(steps)]
    return float(np.quantile(known, SHARE)) if len(known) else float("nan")


def _reach(heights: Floats) -> float | None:
    known = heights[np.isfinite(heights)]
    return float(np.log(SOFT + np.median(known))) if len(known) else None
