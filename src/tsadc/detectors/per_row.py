"""Scores of rows, in the rows and with the index of the data that the user passed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from tsadc.detectors.result import Result
from tsadc.io.memory import as_frame, frame_ticks


def row_scores(result: Result, data: Any) -> pd.Series:
    """Return the score of each row: with the index of `data` if it is one data frame, else by entity and time.

    A row of the frame has the score of the row of the regular clock that is nearest to its time."""
    frame = as_frame(data)
    if frame is None or len(result.parts) != 1:
        timeline = result.timeline
        return pd.Series(
            timeline["score"].to_numpy(), pd.MultiIndex.from_frame(timeline[["entity", "time"]]), name="score"
        )
    (part,), times = result.parts, frame_ticks(frame)
    rows = np.arange(len(frame))
    if times is not None:
        clock = part.series.clock
        rows = np.rint((times - clock.start) / clock.interval).astype(np.int64)
    inside = (rows >= 0) & (rows < len(part.scores))
    scores = np.where(inside, part.scores[np.where(inside, rows, 0)].astype(np.float64), np.nan)
    return pd.Series(scores, frame.index, name="score")
