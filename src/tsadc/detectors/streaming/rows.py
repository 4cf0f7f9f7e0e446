"""The latest rows of an entity, whose memory does not grow with the length of the series."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tsadc.series import Floats


class Rows:
    """The latest rows of an entity; row number `base + i` is at position i."""

    def __init__(self, base: int, variables: int) -> None:
        self.base, self.newest = base, base - 1
        self.dropped = base - 1  # the latest row number that was measured or pushed and is no longer kept
        self.values = np.full((0, variables), np.nan)
        self.present = np.zeros(0, dtype=bool)  # which rows have arrived
        self.measured = np.zeros(0, dtype=bool)  # which of them have values

    def store(self, numbers: NDArray[np.int64], values: Floats, low: int, usual: int) -> None:
        """Store rows; those before `low` are no longer needed. `usual` is the number of rows that are usually kept."""
        last = int(numbers[-1])
        if last - self.base >= len(self.values):
            self._make_room(last, low, usual)
        at = numbers - self.base
        self.values[at] = values
        self.present[at] = True
        self.measured[at] = np.isfinite(values).any(axis=1)
        self.newest = max(self.newest, last)

    def extend(self, values: Floats) -> bool:
        """Store rows that follow the newest one, if there is room; return whether there is."""
        begin, count = self.newest + 1 - self.base, len(values)
        if begin + count > len(self.values):
            return False
        self.values[begin : begin + count] = values
        self.present[begin : begin + count] = True
        self.measured[begin : begin + count] = ~np.isnan(values).all(axis=1)
        self.newest += count
        return True

    def _make_room(self, last: int, low: int, usual: int) -> None:
        """Drop the rows before `low`, and provide for those up to `last`."""
        base = max(self.base, low)
        gone = np.flatnonzero(self.present[: base - self.base])
        if len(gone):
            self.dropped = self.base + int(gone[-1])
        needed = last - base + 1
        first, count = base - self.base, max(self.newest + 1 - base, 0)
        size = min(usual, 2 * needed) if needed <= usual else needed + needed // 4  # grows in few steps
        for name, fill in (("values", np.nan), ("present", False), ("measured", False)):
            old = getattr(self, name)
            new = old if len(old) == size else np.empty((size, *old.shape[1:]), dtype=old.dtype)
            new[:count] = old[first : first + count]
            new[count:] = fill
            setattr(self, name, new)
        self.base = base

    def shrink(self, low: int, usual: int) -> None:
        """Return the memory of many rows that were stored at once."""
        if len(self.values) > 2 * usual and self.newest - low < usual:
            self._make_room(self.newest, low, usual)

    def has(self, number: int) -> bool:
        """Return whether a row has arrived, as far as it is still kept."""
        return 0 <= number - self.base < len(self.present) and bool(self.present[number - self.base])

    def between(self, first: int, stop: int) -> Floats:
        """Return the values of rows [first, stop), NaN where none is kept."""
        start, end = max(first, self.base), min(stop, self.base + len(self.values))
        if (start, end) == (first, stop):
            return self.values[first - self.base : stop - self.base]
        out = np.full((stop - first, self.values.shape[1]), np.nan)
        if end > start:
            out[start - first : end - first] = self.values[start - self.base : end - self.base]
        return out

    def known(self, reorder: int) -> int:
        """Return the row number before which nothing can change any more, if rows may be late by `reorder` rows."""
        if reorder == 0:
            return self.newest + 1
        first = max(self.newest - reorder, self.base)
        waiting = ~self.present[first - self.base : self.newest + 1 - self.base]
        return first + int(waiting.argmax()) if waiting.any() else self.newest + 1

    def count(self, first: int, stop: int) -> int:
        """Return how many of the rows [first, stop) have values."""
        return int(np.count_nonzero(self.measured[max(first - self.base, 0) : max(stop - self.base, 0)]))
