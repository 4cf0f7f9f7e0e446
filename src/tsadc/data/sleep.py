"""Shared parts of the sleep data sets: 30-second epochs; deep sleep is normal, REM and wakefulness are abnormal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from tsadc.data.dataset import Extract, Piece, Span
from tsadc.series import Floats

EPOCH = 30.0  # seconds
STAGES = ("awake", "N1", "N2", "N3", "REM")  # in the order of their numbers in DODH and in the pack of Sleep-EDF
UNSCORED = "not scored"
NORMAL = "N3"
KINDS = ("awake", "REM")


def kept(stages: Sequence[str]) -> list[int]:
    """Return the indices of the epochs that are normal or abnormal; light sleep is neither."""
    return [i for i, stage in enumerate(stages) if stage == NORMAL or stage in KINDS]


def extract(epochs: Floats, stages: Sequence[str], indices: Sequence[int]) -> Extract:
    """Make observations of `epochs` (observation, time, variable), which are those at `indices` of a night."""
    length = epochs.shape[1]
    pieces = []
    for values, i in zip(epochs, indices, strict=True):
        spans = (Span(0, length, stages[i]),) if stages[i] in KINDS else ()
        pieces.append(Piece(values, i * length, spans))
    chosen = set(indices)
    left_out = Counter(f"stage {stage}" for i, stage in enumerate(stages) if i not in chosen)
    return Extract(pieces, left_out)


def epochs_of(channel: Floats, indices: Sequence[int], length: int) -> Floats:
    """Return the epochs of one channel (observation, time), NaN beyond its end."""
    rows = np.asarray(indices, dtype=int)[:, None] * length + np.arange(length)
    out: Floats = np.full(rows.shape, np.nan, dtype=np.float32)
    inside = rows < len(channel)
    out[inside] = channel[rows[inside]]
    return out
