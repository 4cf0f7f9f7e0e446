"""The rows of a period as the points of a chart: of each point and variable the lowest and the highest value, and the
usual band.

Rows are read in pieces, so memory does not grow with the period. Of a period with more rows or cells than one request
may read, the first part of the time of each point is read, so the duration of a request is limited, too."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlalchemy.engine import Connection

from tsadc.detectors.usual import SeriesUsual
from tsadc.series import Clock, Floats, Series
from tsadc.serve.stored_rows import Extent, StoredRows, extent, pieces_between, places_of, start_of

if TYPE_CHECKING:
    from tsadc.detectors.base import Detector

MOST_ROWS, MOST_CELLS = 1_000_000, 10_000_000  # that one chart reads
PIECE = 2**18  # cells that are in memory at once
MOST_VALUES = 200_000  # points of all variables in one answer
MILLISECOND = 10**6


class Chart:
    """The values of one entity in a period.

    Parameters
    ----------
    detector : Detector
    clock : Clock
        Of live rows.
    name : str
        Of the entity.
    chosen : sequence of str
        The variables to show.
    most_points : int
    """

    def __init__(self, detector: Detector, clock: Clock, name: str, chosen: Sequence[str], most_points: int) -> None:
        self.detector, self.clock, self.name, self.chosen = detector, clock, name, chosen
        self.columns = [detector.variables_.index(variable) for variable in chosen]
        self.most_points = max(1, min(most_points, MOST_VALUES // max(len(chosen), 1)))

    def read(self, connection: Connection, entity: int, first: int, last: int) -> dict[str, Any]:
        """Return the points of the rows with times in [first, last). `coverage` is the share of the rows that was
        read."""
        stored = extent(connection, entity, first, last)
        if stored is None:
            return {"rows": 0, "coverage": 1.0, "times": [], "variables": {}}
        interval = self.clock.interval
        start = start_of(stored.first, interval)
        places = (stored.last - start + interval // 2) // interval + 1
        edges = np.unique(np.linspace(0, places, min(places, self.most_points) + 1).astype(np.int64))
        shape = len(edges) - 1, len(self.chosen)
        lines = {name: np.full(shape, np.nan) for name in ("min", "max", "lower", "upper")}
        has_band, read = False, 0
        for found in self._pieces(connection, entity, stored, start, edges):
            values = found.values(len(self.detector.variables_))
            read += len(found)
            point = np.searchsorted(edges, places_of(found.times, start, interval), side="right") - 1
            begins = np.flatnonzero(np.diff(point, prepend=-1))
            band = self._band(values)
            has_band = band is not None
            for name, rows, reduce in (
                ("min", values, np.fmin),
                ("max", values, np.fmax),
                *((("lower", band[0], np.fmin), ("upper", band[1], np.fmax)) if band is not None else ()),
            ):
                line, at = lines[name], point[begins]
                line[at] = reduce(line[at], reduce.reduceat(rows[:, self.columns], begins))
        shown = ("min", "max", "lower", "upper") if has_band else ("min", "max")
        return {
            "rows": stored.rows,
            "coverage": read / stored.rows,
            "times": ((start + edges[:-1] * interval) / MILLISECOND).tolist(),
            "variables": {
                variable: {name: _rounded(lines[name][:, k]) for name in shown}
                for k, variable in enumerate(self.chosen)
            },
        }

    def _pieces(
        self, connection: Connection, entity: int, stored: Extent, start: int, edges: Any
    ) -> Iterator[StoredRows]:
        """Yield the rows of each point, as many as may be read."""
        interval, width = self.clock.interval, len(self.detector.variables_)
        share = min(1.0, MOST_ROWS / stored.rows, MOST_CELLS / (stored.rows * width))
        spans = [(int(edges[0]), int(edges[-1]))]
        if share < 1:
            spans = [(a, a + math.ceil(share * (b - a))) for a, b in pairwise(edges.tolist())]
        for begin, stop in spans:
            first, last = (start + place * interval - interval // 2 for place in (begin, stop))
            first, last = max(first, stored.first), min(last, stored.last + 1)
            yield from pieces_between(connection, entity, first, last, max(1, PIECE // width), interval)

    def _band(self, values: Floats) -> tuple[Floats, Floats] | None:
        """Return the usual band of rows, which are taken to follow each other without gaps."""
        explainer = self.detector._explainer()
        if explainer.usual is None:
            return None
        learnt, scaler = explainer.usual.of(self.name), explainer.scaler.alone(self.name)
        series = Series(values, self.detector.variables_, self.clock, self.name)
        return SeriesUsual(series, learnt, explainer.usual.window, scaler, explainer.predict).band(0, len(series))


def _rounded(values: Floats) -> list[float | None]:
    return [float(f"{value:.7g}") if math.isfinite(value) else None for value in values.tolist()]
