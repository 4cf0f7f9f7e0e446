"""A histogram of scores as text, with the threshold marked."""

from __future__ import annotations

import itertools

import numpy as np

from tsadc.series import Floats

LINES, WIDTH = 16, 40
EXTREME = 0.98  # scores above this quantile and above the threshold share the last line


def histogram(scores: Floats, threshold: float) -> list[str]:
    """Return one line per bin: lower edge, bar, count. No bin contains the threshold in its interior."""
    low, high = float(np.min(scores)), max(float(np.quantile(scores, EXTREME)), threshold)
    share = (threshold - low) / (high - low) if high > low else 0.5
    below = int(np.clip(round(LINES * share), 1, LINES - 1)) if threshold >= low else 0
    normal_edges, flagged_edges = _lower_edges(low, threshold, below), _lower_edges(threshold, high, LINES - below)
    edges = normal_edges + flagged_edges
    above = [len(scores), *(int((scores > edge).sum()) for edge in edges[1:]), 0]
    counts = [first - following for first, following in itertools.pairwise(above)]
    lines = [
        f"{edge:>11.4g} {'#' * int(np.ceil(WIDTH * number / max(counts))):<{WIDTH}} {number}"
        for edge, number in zip(edges, counts, strict=True)
    ]
    mark = f"{'threshold':>11} {'-' * WIDTH} {int((scores > threshold).sum())} above"
    return [*lines[: len(normal_edges)], mark, *lines[len(normal_edges) :]]


def _lower_edges(low: float, high: float, count: int) -> list[float]:
    """Return the lower edges of `count` bins of equal width; a single edge if the range is empty."""
    return np.linspace(low, high, count, endpoint=False).tolist() if high > low else [low][:count]
