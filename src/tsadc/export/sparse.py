"""Products of a sparse matrix, with numpy alone, for exports that do without scipy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

COLUMNS_AT_ONCE = 192  # so that intermediate results stay in the cache of the processor
Entries = tuple[NDArray[Any], tuple[NDArray[Any], NDArray[Any]]]


class csr_array:
    """Stands in for `scipy.sparse.csr_array`: a matrix from its entries (values, (rows, columns)), to multiply with.

    The products of a row are added one after the other, in the order of the columns, as scipy does. Thus sums of
    float32 are equal to the bit.
    """

    def __init__(self, entries: Entries, shape: tuple[int, int]) -> None:
        values, (rows, columns) = entries
        order = np.lexsort((columns, rows))
        count = np.bincount(rows, minlength=shape[0])
        first = np.cumsum(count) - count
        self.order = np.argsort(-count, kind="stable")  # rows with the most entries come first
        longest = int(count.max(initial=0))
        # One pair per place in a row: the columns and the values of the rows that have so many entries.
        self.places: list[tuple[NDArray[Any], NDArray[Any]]] = []
        for place in range(longest):
            having = self.order[: int((count > place).sum())]
            chosen = order[first[having] + place]
            self.places.append((columns[chosen], values[chosen][:, None]))

    def __matmul__(self, dense: NDArray[Any]) -> NDArray[Any]:
        product = np.empty((len(self.order), dense.shape[1]), dtype=dense.dtype)
        for first in range(0, dense.shape[1], COLUMNS_AT_ONCE):
            part = np.ascontiguousarray(dense[:, first : first + COLUMNS_AT_ONCE])
            total = np.zeros((len(self.order), part.shape[1]), dtype=dense.dtype)
            term = np.empty_like(total)
            for columns, values in self.places:
                own = term[: len(columns)]
                np.multiply(part.take(columns, axis=0, out=own, mode="clip"), values, out=own)
                total[: len(columns)] += own
            product[self.order, first : first + COLUMNS_AT_ONCE] = total
        return product
