"""Scores of single rows against the rows of true anomalies, where a data set has them. Every measure is of one series;
the mean is over those that have both normal and anomalous rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tsadc.evaluate.affiliation import affiliation
from tsadc.evaluate.delay import delay
from tsadc.evaluate.ranges import range_cut
from tsadc.evaluate.ranking import Cut
from tsadc.evaluate.volume import volume
from tsadc.series import Booleans, Floats

DIGITS = 5
BUFFER = 100  # rows, of VUS: the same everywhere, as values grow with it
NAMES = (
    "vus_pr",
    "vus_roc",
    *(f"{kind}_{part}" for kind in ("range", "affiliation") for part in ("precision", "recall", "f1")),
    "events_detected",
    "delay",
    "false_rows",
)


def rows(timeline: pd.DataFrame, labels: Booleans) -> dict[str, NDArray[Any]]:
    """Series end to end: scores, flags, labels, and where each series ends."""
    entity = timeline["entity"].to_numpy()
    return {
        "row_score": timeline["score"].to_numpy(np.float32),
        "row_flag": timeline["anomalous"].to_numpy(bool),
        "row_label": labels,
        "row_ends": np.append(np.flatnonzero(entity[1:] != entity[:-1]) + 1, len(entity)),
    }


def measure(arrays: dict[str, NDArray[Any]]) -> dict[str, float | None]:
    """By name, from what `rows` gives; None where it is not defined."""
    found = []
    for mine in np.split(np.arange(len(arrays["row_label"])), arrays["row_ends"][:-1]):
        labels = arrays["row_label"][mine]
        if 0 < labels.sum() < len(labels):
            found.append(_series(labels, arrays["row_score"][mine], arrays["row_flag"][mine]))
    out: dict[str, float | None] = {"series": len(found)}
    for name in NAMES:
        values = [value for value in (one[name] for one in found) if value is not None]
        out[name] = round(float(np.mean(values)), DIGITS) if values else None
    return out


def _series(labels: Booleans, scores: Floats, flagged: Booleans) -> dict[str, float | None]:
    # A row that no observation covers was not found to be anything.
    known = np.where(np.isfinite(scores), scores, np.nanmin(scores, initial=np.inf, where=np.isfinite(scores)))
    surface = volume(labels, np.where(np.isfinite(known), known, 0.0), BUFFER)
    waited = delay(labels, flagged)
    return {
        "vus_pr": surface.pr,
        "vus_roc": surface.roc,
        **_named("range", range_cut(labels, flagged)),
        **_named("affiliation", affiliation(labels, flagged)),
        "events_detected": waited.detected,
        "delay": waited.median,
        "false_rows": waited.alarms,
    }


def _named(kind: str, cut: Cut) -> dict[str, float]:
    return {f"{kind}_{part}": value for part, value in vars(cut).items()}
