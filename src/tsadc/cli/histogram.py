"""Scores as bars of text, with the threshold where it lies."""

from __future__ import annotations

import itertools

import numpy as np

from tsadc.series import Floats

LINES, WIDTH = 16, 40
EXTREME = 0.98  # what is above this quantile, and above the threshold, shares the last line


def histogram(scores: Floats, threshold: float) -> list[str]:
    """A line per range of scores: where it begins, a bar, the number in it. No range reaches over the threshold."""
    low, high = float(np.min(scores)), max(float(np.quantile(scores, EXTREME)), threshold)
    share = (threshold - low) / (high - low) if high > low else 0.5
    below = int(np.clip(round(LINES * share), 1, LINES - 1)) if threshold >= low else 0
    normal, flagged = _begins(low, threshold, below), _begins(threshold, high, LINES - below)
    begins = normal + flagged
    above = [len(scores), *(int((scores > edge).sum()) for edge in begins[1:]), 0]
    counts = [first - following for first, following in itertools.pairwise(above)]
    lines = [
        f"{edge:>11.4g} {'#' * int(np.ceil(WIDTH * number / max(counts))):<{WIDTH}} {number}"
        for edge, number in zip(begins, counts, strict=True)
    ]
    mark = f"{'threshold':>11} {'-' * WIDTH} {int((scores > threshold).sum())} above"
    return [*lines[: len(normal)], mark, *lines[len(normal) :]]


def _begins(low: float, high: float, count: int) -> list[float]:
    """Where `count` ranges of equal width begin; one, where there is no width."""
    return np.linspace(low, high, count, endpoint=False).tolist() if high > low else [low][:count]
