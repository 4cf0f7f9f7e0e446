"""Products of a sparse matrix, with numpy alone, for exports that do without scipy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

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
        total = np.zeros((len(self.order), dense.shape[1]), dtype=dense.dtype)
        for columns, values in self.places:
            total[: len(columns)] += values * dense[columns]
        product = np.empty_like(total)
        product[self.order] = total
        return product
