"""Evenly spaced subsampling."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def evenly_spaced(count: int, most: int) -> NDArray[np.int64]:
    """Return at most `most` of the indices 0 ... count - 1, evenly spaced and rising, from the first to the last."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))
