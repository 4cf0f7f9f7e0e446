"""What every group of views has in common. The views themselves are in the modules named here.

    view          module       detects                                           log score s
    departure     peaks        values far from the middle of the observation     peak of |z - its median|
    combination   peaks        values that do not fit the others of the step     peak of |r - its median|; r is what a
                                                                                 few principal components leave
    sustained     peaks        the same, for most of the observation             root mean square of |r - its median|
    level         peaks        variables at levels that do not fit together      peak of |r|
    ...           peaks        what the detector's own model finds               peak of each of its residuals
    correlation   neighbours   variables that no longer move together            distance of the correlations
    shape         neighbours   unusual shapes                                    distance of the random convolutions
    bands         neighbours   an unusual spectrum                               distance of the band powers
    quarters      neighbours   a spectrum that changes during the observation    unusual band powers of a quarter
    energy        windows      windows in which a variable varies more or less   unusual standard deviation
    conditional   windows      windows that the other variables explain worse    unusual size of the ridge residual
                               or better than usual
    roughness     windows      windows that are rougher or smoother than usual   unusual change of the ridge residual
    density       rows         rows whose combination of values is rare          distance of the rows
    range         rows         variables that range more or less than ever       distance of the ranges within windows

A view needs two variables if it compares variables, and 64 rows if it looks at quarters; otherwise it is left out.
A group computes views that share their features. Each learns, measures, compares and explains:

    name       meaning
    measure    features of one observation, small enough to keep for every training observation; for some groups by a
               linear model that was learnt from the normal ones
    fit        learn what is usual from the features of training observations; return their cross-fitted log scores
    score      log scores of the features of a new observation
    explain    the same, for steps where possible, with what each variable has to do with it
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tsadc.detectors.ensemble.features import Read
from tsadc.detectors.ensemble.training import Training
from tsadc.series import Floats

LOG_OFFSET = 0.1  # in units of z or u, added before the log, so that differences among small values hardly count
DISTANCE_OFFSET = 0.02  # the same for distances


@dataclass(frozen=True)
class Explained:
    """What a view says about one observation.

    Attributes
    ----------
    score : float or (time,)
        Log score of the observation, or of each step; then the largest counts.
    cells : (variable, time) or (variable, 1)
        How unusual each variable is, 0 or more, in any unit; (variable, 1) if it is the same at every step.
    """

    score: float | Floats
    cells: Floats


class ViewGroup(ABC):
    """Views that share their features. `names` are the views, in the order of their scores."""

    names: tuple[str, ...]
    stored: str  # prefix of its arrays in a model folder
    first_round: ClassVar[bool] = True  # whether its scores help to decide which training observations are normal
    learns: ClassVar[bool] = False  # whether `measure` depends on the training observations

    @abstractmethod
    def measure(self, z: Floats, entity: str) -> Floats:
        """Return the features of a new observation (variable, time)."""

    def measure_all(self, read: Read, training: Training) -> Floats:
        """Return the features of all training observations. If `measure` needs to learn something, learn it from the
        normal ones, and measure each observation without what was learnt from its fold."""
        return measure_together([self], read, training)[0]

    @abstractmethod
    def fit(self, features: Floats, training: Training) -> Floats:
        """Learn what is usual; return the cross-fitted log scores (observation, view) of features (observation, ...)"""

    @abstractmethod
    def adapt(self, entity: str, features: Floats) -> None:
        """Learn what is usual for an entity, new or known, from the features of its history."""

    @property
    @abstractmethod
    def baselines(self) -> dict[str, Floats]:
        """What `adapt` learns, by entity."""

    @abstractmethod
    def score(self, entity: str, features: Floats) -> Floats:
        """Return the log scores (view,) of the features of a new observation; NaN for a view that has none."""

    @abstractmethod
    def explain(self, entity: str, z: Floats) -> list[Explained]:
        """Explain each view of a new observation (variable, time). The scores are those of `score`."""

    @abstractmethod
    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything learnt, as named arrays."""

    @abstractmethod
    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore what `state` returned."""


def measure_together(groups: Sequence[ViewGroup], read: Read, training: Training) -> list[Floats]:
    """Return the features of all training observations, of groups that learn nothing; each is read once."""
    features: list[Floats] = []
    for i, entity in enumerate(training.entities):
        z = read(i)
        measured = [group.measure(z, entity) for group in groups]
        if not features:
            features = [np.empty((len(training), *own.shape), dtype=own.dtype) for own in measured]
        for every, own in zip(features, measured, strict=True):
            every[i] = own
    return features
