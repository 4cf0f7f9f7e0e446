"""Check how much memory a file needs before it is read: a small file can declare or unpack to any size."""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

from tsadc.errors import DataError
from tsadc.io.files import COMPRESSED

COPIES = 3  # of the numbers that are in memory at once between the file and the Series
PER_CELL = 32  # bytes of a cell in a table of text: its number, and the parser's notes on where it starts and ends
DENSEST = 2 + PER_CELL // 2  # bytes of memory per byte of text: a cell and its separator are two characters or more
MAX_RATIO = 1032  # of deflate, the method of gzip and zip
PIECE = 2**20  # bytes of text counted at once
SEPARATORS = b",;\t|\n"
STREAM = "read it with --stream (in Python: Reading(stream=True))"
SPLIT = "split it into several files"
SPLIT_TEXT = "split it into several files, or convert it to Parquet and read that with --stream"


def available_memory() -> int:
    """Return how many bytes this process may still allocate, according to the system and the limits set on it."""
    limits = [limit for limit in (_of_system(), _of_group(), _of_process()) if limit is not None]
    return max(0, min(limits, default=2**62))


def check_numbers(count: int, source: str, fix: str = SPLIT) -> None:
    """Raise a DataError unless `count` numbers, which `source` declares, fit into memory."""
    check_bytes(8 * COPIES * count, source, fix)


def check_bytes(needed: int, source: str, fix: str = SPLIT) -> None:
    """Raise a DataError unless `needed` bytes of memory, which reading `source` takes, are available."""
    available = available_memory()
    if needed > available:
        raise DataError(
            f"{source} needs {size_text(needed)} of memory or more, but {size_text(available)} are available; {fix}."
        )


def check_text_size(path: Path) -> None:
    """Raise a DataError unless the table of text, which may be compressed, fits into memory.

    The text is only counted where its size on disk does not answer the question."""
    compressed = path.suffix.lower() == COMPRESSED
    available, most = available_memory(), path.stat().st_size * (MAX_RATIO if compressed else 1)
    if most * DENSEST <= available:
        return
    needed = 0
    with contextlib.suppress(EOFError, zlib.error):  # a damaged file fails when it is read
        for piece in _unpacked(path) if compressed else _pieces(path):
            needed += 2 * len(piece) + PER_CELL * sum(piece.count(mark) for mark in SEPARATORS)
            if needed > available:
                check_bytes(needed, f"{path}, unpacked," if compressed else str(path), SPLIT_TEXT)


def _unpacked(path: Path) -> Iterator[bytes]:
    """Yield the content of a gzip file in pieces; `gzip` reads lines and files, this only what is needed to count."""
    unpack = zlib.decompressobj(wbits=31)
    for packed in _pieces(path):
        while packed:
            yield unpack.decompress(packed, PIECE)
            packed = unpack.unconsumed_tail
            if unpack.eof:
                packed, unpack = unpack.unused_data.lstrip(b"\0"), zlib.decompressobj(wbits=31)


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            yield piece


def size_text(size: int) -> str:
    """Write a number of bytes for a message: `2.6 GB`."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} bytes"


def _of_system() -> int | None:
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1])
    with contextlib.suppress(AttributeError, OSError, ValueError):  # Windows has no sysconf
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _of_group() -> int | None:
    """Return what a container may still allocate."""
    with contextlib.suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        limit, used = (int((group / f"memory.{name}").read_text(encoding="ascii")) for name in ("max", "current"))
        caches = dict(line.split() for line in (group / "memory.stat").read_text(encoding="ascii").splitlines())
        return limit - used + int(caches.get("inactive_file", 0))
    return None


def _of_process() -> int | None:
    """Return what `ulimit -v` leaves."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
            return limit - used
    return None
