"""Arrays (time, variable) that stay in their file: rows are read when they are needed.

They are indexed like arrays: `rows[a:b]` reads rows, `rows[:, [2, 0]]` selects columns without reading anything.
Memory is bounded by `CACHE`, regardless of the size and the number of files."""

from __future__ import annotations

import copy
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tsadc.errors import DataError
from tsadc.io.reading import DAMAGED, reason
from tsadc.series import Floats

CACHE = 32 * 2**20  # bytes of decoded values kept in memory, for all files together
BLOCK = CACHE // 8  # bytes decoded at once


class Runs:
    """Places of a file's rows on its clock. Run i starts at row `file[i]` of the file and row `grid[i]` of the clock;
    between runs nothing was measured."""

    def __init__(self, grid: Sequence[int], file: Sequence[int], grid_rows: int, file_rows: int) -> None:
        self.grid, self.file = np.asarray(grid, dtype=np.int64), np.asarray(file, dtype=np.int64)
        self.lengths = np.diff(np.append(self.file, file_rows))
        self.rows = grid_rows

    @classmethod
    def whole(cls, rows: int) -> Self:
        return cls([0], [0], rows, rows)

    def part(self, first: int, stop: int) -> Runs:
        """Return the places on a clock that begins at row `first` of this one and ends at row `stop`."""
        other = copy.copy(self)
        other.grid, other.rows = self.grid - first, stop - first
        return other

    def between(self, first: int, last: int) -> Iterator[tuple[int, int, int]]:
        """Yield the pieces of the file inside rows [first, last) of the clock, each as its first row on the clock and
        its rows [start, stop) in the file."""
        number = max(0, int(np.searchsorted(self.grid, first, side="right")) - 1)
        while number < len(self.grid) and self.grid[number] < last:
            grid, file, length = int(self.grid[number]), int(self.file[number]), int(self.lengths[number])
            low, high = max(first, grid), min(last, grid + length)
            if low < high:
                yield low, file + low - grid, file + high - grid
            number += 1


class Rows(ABC):
    """An array (time, variable) that is read piece by piece."""

    ndim = 2

    def __init__(self, path: Path, runs: Runs, columns: int, dtype: np.dtype[Any]) -> None:
        self.path, self.runs, self.dtype = path, runs, dtype
        self.shape = (runs.rows, columns)

    @abstractmethod
    def _read(self, first: int, last: int) -> Floats:
        """Return rows [first, last) of the file."""

    @abstractmethod
    def pick(self, columns: Sequence[int]) -> Rows:
        """Return the same rows with these columns only."""

    def part(self, first: int, stop: int) -> Self:
        """Return rows [first, stop), which stay in the file, too."""
        other = copy.copy(self)
        other.runs, other.shape = self.runs.part(first, stop), (stop - first, self.shape[1])
        return other

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def size(self) -> int:
        return self.shape[0] * self.shape[1]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self[:], dtype=dtype)

    def __getitem__(self, key: Any) -> Any:
        rows, columns = key if isinstance(key, tuple) else (key, slice(None))
        if not isinstance(rows, slice):
            return self[int(rows) : int(rows) + 1 or None, columns][0]
        if isinstance(columns, slice) and columns == slice(None):
            return self._between(*rows.indices(len(self)))
        if rows != slice(None):
            return self[rows][:, columns]
        chosen = np.arange(self.shape[1])[columns]
        return self.pick(chosen.tolist()) if chosen.ndim else self.pick([int(chosen)])[:][:, 0]

    def _between(self, first: int, last: int, step: int) -> Floats:
        if step != 1:
            raise IndexError("rows of a file can only be sliced with a step of 1")
        out = np.full((max(0, last - first), self.shape[1]), np.nan, dtype=self.dtype)
        for row, start, stop in self.runs.between(first, last):
            out[row - first : row - first + stop - start] = self._read(start, stop)
        if np.isinf(out).any():
            row, column = (int(i[0]) for i in np.nonzero(np.isinf(out)))
            raise DataError(
                f"{self.path}: variable {column} is infinite at row {first + row}; use NaN where nothing was measured."
            )
        return out


class NpyRows(Rows):
    """The `columns` of the matrix in a .npy file."""

    def __init__(self, path: Path, matrix: np.memmap[Any, Any], columns: Sequence[int]) -> None:
        super().__init__(path, Runs.whole(len(matrix)), len(columns), np.dtype(matrix.dtype.type))
        self._matrix = Matrix(matrix.dtype, matrix.offset, matrix.shape[1], bool(matrix.flags.c_contiguous))
        self._columns = list(columns)

    def pick(self, columns: Sequence[int]) -> NpyRows:
        other = copy.copy(self)
        other._columns = [self._columns[i] for i in columns]
        other.shape = (len(self), len(columns))
        return other

    def _read(self, first: int, last: int) -> Floats:
        # Not through the memory map: its pages count as memory of the process until the system reclaims them.
        count, width = last - first, self._matrix.width
        if self._matrix.by_rows:
            return self._numbers(first * width, count * width).reshape(count, width)[:, self._columns]
        return np.column_stack([self._numbers(k * len(self) + first, count) for k in self._columns])

    def _numbers(self, first: int, count: int) -> Floats:
        kind = self._matrix.kind
        try:
            values = np.fromfile(self.path, kind, count, offset=self._matrix.offset + first * kind.itemsize)
        except OSError as error:
            raise DataError(f"{self.path} can no longer be read: {error.strerror or DAMAGED}.") from None
        if len(values) < count:
            raise DataError(f"{self.path} became shorter while it was being read; do not change a file that is in use.")
        return values


@dataclass(frozen=True)
class Matrix:
    """The layout of the numbers in a file: from byte `offset` on, row by row or column by column."""

    kind: np.dtype[Any]
    offset: int
    width: int
    by_rows: bool


def open_parquet(path: Path) -> Any:
    """Open the file so that pages are fetched one by one instead of whole row groups."""
    from pyarrow import parquet

    return parquet.ParquetFile(path, buffer_size=2**16, pre_buffer=False)


def release() -> None:
    """Return the memory that Arrow keeps for later use: it may be as much as it uses now."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()


class _Cache:
    """The last decoded blocks of all Parquet files, and the one file that is open, at block `number` of its row group
    `group`. It is shared by the whole process, so that a thousand files need no more memory than one."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.blocks: OrderedDict[tuple[object, int, int], Floats] = OrderedDict()
        self.owner: object = None
        self.file: Any = None
        self.close_group()

    def close_group(self) -> None:
        self.group, self.number = -1, 0
        self.batches: Iterator[Any] = iter(())

    def open(self, owner: object, open_file: Callable[[], Any]) -> None:
        """Open the file of `owner` and close the previous one."""
        if self.owner is not owner:
            self.close_group()
            if self.file is not None:
                self.file.close()
            self.owner = self.file = None
            self.file = open_file()
            self.owner = owner

    def put(self, key: tuple[object, int, int], values: Floats) -> None:
        self.blocks[key] = values
        while len(self.blocks) > 1 and sum(block.nbytes for block in self.blocks.values()) > CACHE:
            self.blocks.popitem(last=False)


BLOCKS = _Cache()


class ParquetRows(Rows):
    """Columns of a Parquet file. A row group is decoded in blocks of at most `BLOCK` bytes, and the last few blocks are
    cached. Reading on inside a row group is cheap; going back decodes it again from its beginning."""

    def __init__(self, path: Path, names: Sequence[str], runs: Runs, dtype: np.dtype[Any]) -> None:
        super().__init__(path, runs, len(names), dtype)
        self._names = list(names)
        self._key = object()  # in the cache; an id() could be reused by another object
        self._starts = np.zeros(0, dtype=np.int64)

    def pick(self, columns: Sequence[int]) -> ParquetRows:
        return ParquetRows(self.path, [self._names[i] for i in columns], self.runs, self.dtype)

    @property
    def block(self) -> int:
        """The number of rows decoded at once."""
        return max(1, BLOCK // (self.dtype.itemsize * self.shape[1]))

    def _read(self, first: int, last: int) -> Floats:
        with BLOCKS.lock:
            if not len(self._starts):
                BLOCKS.open(self._key, self._open)
            pieces = []
            while first < last:
                group = int(np.searchsorted(self._starts, first, side="right")) - 1
                number, inside = divmod(first - int(self._starts[group]), self.block)
                piece = self._decoded(group, number)[inside : inside + last - first]
                pieces.append(piece)
                first += len(piece)
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def _open(self) -> Any:
        file = self._try(lambda: open_parquet(self.path))
        sizes = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
        self._starts = np.cumsum([0, *sizes])[:-1]
        return file

    def _decoded(self, group: int, number: int) -> Floats:
        cached = BLOCKS.blocks.get((self._key, group, number))
        if cached is not None:
            BLOCKS.blocks.move_to_end((self._key, group, number))
            return cached
        BLOCKS.open(self._key, self._open)
        if BLOCKS.group != group or BLOCKS.number > number:
            BLOCKS.close_group()  # one row group's pages at a time
            release()
            BLOCKS.batches = BLOCKS.file.iter_batches(
                self.block, row_groups=[group], columns=self._names, use_threads=False
            )
            BLOCKS.group = group
        while BLOCKS.number <= number:
            batch = self._try(lambda: next(BLOCKS.batches))
            BLOCKS.number += 1
        values = self._numbers(batch)
        BLOCKS.put((self._key, group, number), values)
        return values

    def _numbers(self, batch: Any) -> Floats:
        import pyarrow as pa

        out = np.empty((batch.num_rows, len(self._names)), dtype=self.dtype)
        for k, name in enumerate(self._names):
            column = batch.column(batch.schema.get_field_index(name))
            # Arrow converts null to NaN on its way to NumPy.
            out[:, k] = column.cast(pa.from_numpy_dtype(self.dtype), safe=False).to_numpy(zero_copy_only=False)
        return out

    def _try(self, action: Any) -> Any:
        try:
            return action()
        except Exception as error:  # a damaged file can fail anywhere in pyarrow
            raise DataError(f"{self.path} can no longer be read: {reason(error)}.") from None
