"""Point-adjusted F1, for comparison with tables that hold nothing else.

One flagged row within an event counts as if all its rows had been flagged, before precision and recall are counted
(Xu et al., WWW 2018). Kim et al., "Towards a Rigorous Evaluation of Time-Series Anomaly Detection", AAAI 2022, show
that random scores then beat published methods."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tsadc.errors import ConfigError
from tsadc.evaluate.inputs import flagged_rows
from tsadc.evaluate.ranking import Cut, cut
from tsadc.series import Booleans
from tsadc.windows import runs

WHY_NOT = (
    "Point adjustment takes one flagged row for a whole event found, so flags thrown at random over long events get a "
    "high F1; use it to compare with old tables only."
)


@dataclass(frozen=True)
class Adjusted:
    """The value and, never without it, why not to use it."""

    cut: Cut
    why_not: str = WHY_NOT


def point_adjusted(labels: Booleans, flagged: NDArray[np.generic], *, misleading: bool = False) -> Adjusted:
    """Refused unless the caller says `misleading=True`."""
    if not misleading:
        raise ConfigError(f"{WHY_NOT} Say misleading=True to get it all the same.")
    truth, chosen = flagged_rows(labels, flagged)
    adjusted = chosen.copy()
    for start, stop in runs(truth):
        adjusted[start:stop] = chosen[start:stop].any()
    return Adjusted(cut(truth, adjusted))
