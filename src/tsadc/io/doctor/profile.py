"""One pass over a series: statistics of blocks of rows, and a sample of its values, from which all findings follow.

Everything that must be exact (extremes, missing cells, repeated and falling steps, gaps) is counted in the pass.
Quantiles and different values come from the sample, so that a long history costs little more than one look at each
cell."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tsadc.series import Floats, Series

Counts = NDArray[np.int64]
BLOCKS = 128  # of a long series
MIN_BLOCK = 16  # rows of a block
PIECE_CELLS = 2**18  # cells that are examined at once: they fit into the cache of a processor
SAMPLE_ROWS = 8192
SAMPLE_CELLS = 2**21  # of all series together
MIN_SAMPLE_ROWS = 64  # of each series, however many there are


@dataclass(frozen=True)
class Profile:
    """Statistics of one series. Arrays of blocks have shape (block, variable), the others (variable,).

    A step leads from a row to the next if both are measured; `repeated`, `rising` and `falling` count them. `gaps` are
    the runs [start, stop) of rows without any value, shape (gap, 2). The rows of `sample` are evenly spaced."""

    series: Series
    block: int
    measured: Counts
    low: Floats
    high: Floats
    total: Floats
    filled: Counts
    repeated: Counts
    rising: Counts
    falling: Counts
    gaps: Counts
    sample: Floats

    @property
    def rows(self) -> int:
        return len(self.series)

    @cached_property
    def known(self) -> Counts:
        """Measured cells of each variable."""
        return np.asarray(self.measured.sum(axis=0))

    @cached_property
    def minimum(self) -> Floats:
        """Smallest value of each variable, NaN if it has none."""
        return np.asarray(np.fmin.reduce(self.low, axis=0))

    @cached_property
    def maximum(self) -> Floats:
        """Largest value of each variable, NaN if it has none."""
        return np.asarray(np.fmax.reduce(self.high, axis=0))

    @cached_property
    def quartiles(self) -> Floats:
        """Quartiles of each variable, shape (3, variable); NaN if it has no value."""
        out = np.full((3, self.sample.shape[1]), np.nan)
        for k, column in enumerate(self.sample.T):
            values = column[np.isfinite(column)]
            if len(values):
                out[:, k] = np.quantile(values, [0.25, 0.5, 0.75])
        return out

    def span(self, variable: int) -> tuple[int, int] | None:
        """Return the first and the last row with a value of the variable, or None."""
        blocks = np.flatnonzero(self.measured[:, variable])
        if not len(blocks):
            return None
        first, last = (self._rows_of(int(block), variable) for block in (blocks[0], blocks[-1]))
        return int(first[0]), int(last[-1])

    def _rows_of(self, block: int, variable: int) -> Counts:
        start, stop = block * self.block, min((block + 1) * self.block, self.rows)
        if self.measured[block, variable] == stop - start:
            return np.array([start, stop - 1])
        return start + np.flatnonzero(np.isfinite(self.series.values[start:stop][:, variable]))


def profile_of(series: Series, share: float = 1.0) -> Profile:
    """Go through the series once. It may fill this share of the sample of all series."""
    rows, variables = len(series), max(1, len(series.names))
    block = int(np.clip(-(-rows // BLOCKS), MIN_BLOCK, max(MIN_BLOCK, PIECE_CELLS // variables)))
    blocks = -(-rows // block)
    measured = np.zeros((blocks, variables), dtype=np.int64)
    low, high = np.full((2, blocks, variables), np.nan)
    total = np.zeros((blocks, variables))
    filled = np.zeros(blocks, dtype=np.int64)
    steps = np.zeros((3, variables), dtype=np.int64)
    empty: list[Counts] = []
    every = max(1, -(-rows // _sample_rows(variables, share)))
    sampled: list[Floats] = []
    before = np.full((1, variables), np.nan)
    together = max(1, PIECE_CELLS // (block * variables))
    for first in range(0, blocks, together):
        start, stop = first * block, min((first + together) * block, rows)
        piece = np.asarray(series.values[start:stop], dtype=np.float64)
        sampled.append(piece[-start % every :: every])
        own = slice(first, first + -(-len(piece) // block))
        columns = _in_blocks(piece, block)
        with np.errstate(all="ignore"):
            finite = np.isfinite(columns)
            measured[own] = finite.sum(axis=2).T
            whole = bool(measured[own].sum() == piece.size)
            if whole and len(piece) % block == 0:  # the faster functions, for what is most common
                low[own], high[own] = columns.min(axis=2).T, columns.max(axis=2).T
                total[own] = columns.sum(axis=2).T
            else:
                low[own], high[own] = np.fmin.reduce(columns, axis=2).T, np.fmax.reduce(columns, axis=2).T
                total[own] = np.where(finite, columns, 0.0).sum(axis=2).T
            flat = columns.reshape(variables, -1)
            change = np.diff(flat, axis=1, prepend=before.T)
            steps += [np.count_nonzero(flags, axis=1) for flags in (change == 0, change > 0, change < 0)]
        before = piece[-1:]
        if whole:
            filled[own] = np.minimum(block, rows - block * np.arange(own.start, own.stop))
        else:
            rows_filled = finite.any(axis=0).reshape(-1)
            filled[own] = finite.any(axis=0).sum(axis=1)
            empty.append(start + np.flatnonzero(~rows_filled[: len(piece)]))
    repeated, rising, falling = steps
    sample = np.concatenate([before[:0], *sampled])
    return Profile(series, block, measured, low, high, total, filled, repeated, rising, falling, _runs(empty), sample)


def _sample_rows(variables: int, share: float) -> int:
    return max(MIN_SAMPLE_ROWS, int(share * min(SAMPLE_ROWS, SAMPLE_CELLS // variables)))


def _in_blocks(piece: Floats, block: int) -> Floats:
    """Return the rows as an array (variable, block, row); the last block is filled with NaN."""
    missing = -len(piece) % block
    if missing:
        piece = np.concatenate([piece, np.full((missing, piece.shape[1]), np.nan)])
    return np.ascontiguousarray(piece.T).reshape(piece.shape[1], -1, block)


def _runs(rows: list[Counts]) -> Counts:
    """Return runs [start, stop) of consecutive row numbers."""
    every = np.concatenate([*rows, np.zeros(0, dtype=np.int64)]).astype(np.int64)
    breaks = np.flatnonzero(np.diff(every) > 1) + 1
    parts = np.split(every, breaks) if len(every) else []
    return np.array([(part[0], part[-1] + 1) for part in parts], dtype=np.int64).reshape(-1, 2)
