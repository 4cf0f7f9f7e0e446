"""Sensors that stop reporting: an event that no score shows, because missing values are interpolated before scoring.

A variable counts as missing from the first to the last of at least `length` consecutive rows in which other variables
were measured and it was not, if no normal observation of the entity's history was without it. Rows without any value
say nothing about a single sensor: all variables are missing in at least `length` such rows, if there are more than
twice as many as in the longest such gap of the history. Nights without data are no news if the history has them. Of an
entity that the model does not know nothing is expected, unless the model has only one entity.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tsadc.series import Booleans, Series
from tsadc.windows import empty_runs, runs

LONGER = 2  # times the longest gap of the history


@dataclass(frozen=True)
class Missing:
    """Rows [start, stop) of a series in which `variables` (positions) were not measured."""

    start: int
    stop: int
    variables: tuple[int, ...]


def missing_runs(series: Series, expected: Booleans, gap: int, length: int) -> list[Missing]:
    """Return where variables, or all of them, are missing for at least `length` rows, in order of time.

    Parameters
    ----------
    series
        Its values are read in chunks, so that it may be larger than memory.
    expected : (variable,)
        True for the variables that every normal observation of the history has.
    gap
        Most consecutive rows of the history without any value.
    length
        Rows of an observation.
    """
    if not expected.any():
        return []
    found: dict[tuple[int, int], list[int]] = {}
    for variable, start, stop, rows in _gaps(series, expected):
        if rows >= length:
            found.setdefault((start, stop), []).append(variable)
    for start, stop in empty_runs(series):
        if stop - start >= max(length, LONGER * gap + 1):
            found[start, stop] = list(range(len(expected)))
    return [Missing(start, stop, tuple(sorted(variables))) for (start, stop), variables in sorted(found.items())]


def _gaps(series: Series, expected: Booleans) -> Iterator[tuple[int, int, int, int]]:
    """Yield variable, first row, end, and number of rows with other values, of every gap of an expected variable."""
    begin, rows = np.zeros((2, len(expected)), dtype=np.int64)  # of the gap that is open; 0 rows: none is
    first = end = 0
    for values in series.chunks():
        measured = np.isfinite(values)
        places = np.flatnonzero(measured.any(axis=1))
        if len(places):
            absent = ~measured[places]
            for k in np.flatnonzero(expected & (absent.any(axis=0) | (rows > 0))).tolist():
                if rows[k] and not absent[0, k]:
                    yield k, int(begin[k]), end, int(rows[k])
                    rows[k] = 0
                for start, stop in runs(absent[:, k]):
                    if not rows[k]:
                        begin[k] = first + places[start]
                    rows[k] += stop - start
                    if stop < len(places):
                        yield k, int(begin[k]), first + int(places[stop - 1]) + 1, int(rows[k])
                        rows[k] = 0
            end = first + int(places[-1]) + 1
        first += len(values)
    for k in np.flatnonzero(rows).tolist():
        yield k, int(begin[k]), end, int(rows[k])
